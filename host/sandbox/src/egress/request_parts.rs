//! `wasi:http/types`, with what the host keeps for a guest charged to its call's memory limit. Each part is charged at
//! its maximum size, because what fills it later is not seen here.

use std::any::Any;

use http::header::CONTENT_LENGTH;
use wasmtime::StoreContextMut;
use wasmtime::component::{
    ComponentNamedList, ComponentType, Lift, Linker, LinkerInstance, Lower, Resource, ResourceType,
};
use wasmtime_wasi_http::p2::bindings::http::{outgoing_handler, types};
use wasmtime_wasi_http::p2::body::{HostFutureTrailers, HostIncomingBody};
use wasmtime_wasi_http::p2::types::{
    HostFutureIncomingResponse, HostIncomingResponse, HostOutgoingRequest, HostOutgoingResponse,
};
use wasmtime_wasi_http::p3;
use wasmtime_wasi_http::{FieldMap, WasiHttp, WasiHttpCtxView, WasiHttpView};

use super::{BODY_CHUNK_BYTES, BODY_CHUNKS_WAITING, StoreState, target};

const HANDLER: &str = "wasi:http/outgoing-handler@0.2.12";
const INTERFACE: &str = "wasi:http/types@0.2.12";
/// Headers in memory take more than they count: tables double when they grow, and have an index.
const FIELDS_GROWTH: usize = 4;
/// Path, authority and method; the crate `http` bounds the former two.
const TARGET_BYTES: usize = 128 << 10;
/// The channel's chunks, with a place more, and the one that the guest writes.
const BODY_BYTES: usize = (BODY_CHUNKS_WAITING + 2) * BODY_CHUNK_BYTES;
const PIECE_BYTES: usize = 64 << 10;
const METHOD_BYTES_MAX: usize = 64;

/// The host keeps more for the guest than its memory limit allows.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no memory is left for headers and bodies of requests")]
struct NoMemory;

pub(crate) fn add_to_linker(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    types::add_to_linker::<_, WasiHttp>(linker, &types::LinkOptions::default(), StoreState::http)?;
    // Functions that make and drop these parts replace the interface's own.
    linker.allow_shadowing(true);
    let replaced = replace(&mut linker.instance(INTERFACE)?);
    linker.allow_shadowing(false);
    replaced
}

/// A request without a body says no length: toolcell writes the framing, and wasmtime-wasi-http would end the request
/// as too large.
pub(crate) fn add_handler_to_linker(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    outgoing_handler::add_to_linker::<_, WasiHttp>(linker, StoreState::http)?;
    linker.allow_shadowing(true);
    type HandleArguments = (
        Resource<HostOutgoingRequest>,
        Option<Resource<types::RequestOptions>>,
    );
    let mut interface = linker.instance(HANDLER)?;
    let replaced = interface.func_wrap(
        "handle",
        |mut store: StoreContextMut<'_, StoreState>, (request, options): HandleArguments| {
            let limit = store.data().egress.header_bytes;
            let mut http = store.data_mut().http();
            let sent = http.table.get_mut(&request)?;
            if sent.body.is_none() {
                sent.headers.set_mutable(limit);
                sent.headers
                    .remove_all(http.hooks, CONTENT_LENGTH.to_string())?;
            }
            let made = match outgoing_handler::Host::handle(&mut http, request, options) {
                Ok(response) => Ok(response),
                Err(error) => Err(types::Host::convert_error_code(&mut http, error)?),
            };
            Ok((made,))
        },
    );
    linker.allow_shadowing(false);
    replaced
}

type Http<'a> = WasiHttpCtxView<'a>;

fn replace(interface: &mut LinkerInstance<'_, StoreState>) -> wasmtime::Result<()> {
    of_fields(interface)?;
    of_requests(interface)?;
    drops(interface, "outgoing-response", |http, part| {
        types::HostOutgoingResponse::drop(http, part)
    })?;
    function(
        interface,
        "[constructor]outgoing-response",
        |http, (headers,): (Resource<FieldMap>,)| types::HostOutgoingResponse::new(http, headers),
    )?;
    function(
        interface,
        "[method]outgoing-response.body",
        |http, (response,): (Resource<HostOutgoingResponse>,)| {
            types::HostOutgoingResponse::body(http, response)
        },
    )
}

fn of_fields(interface: &mut LinkerInstance<'_, StoreState>) -> wasmtime::Result<()> {
    drops(interface, "fields", |http, part| {
        types::HostFields::drop(http, part)
    })?;
    function(interface, "[constructor]fields", |http, ()| {
        types::HostFields::new(http)
    })?;
    function(
        interface,
        "[static]fields.from-list",
        |http, (entries,): (Vec<(String, Vec<u8>)>,)| match types::HostFields::from_list(
            http, entries,
        ) {
            Ok(fields) => Ok(Ok(fields)),
            Err(error) => types::Host::convert_header_error(http, error).map(Err),
        },
    )?;
    function(
        interface,
        "[method]fields.clone",
        |http, (fields,): (Resource<FieldMap>,)| types::HostFields::clone(http, fields),
    )
}

fn of_requests(interface: &mut LinkerInstance<'_, StoreState>) -> wasmtime::Result<()> {
    drops(interface, "outgoing-request", |http, part| {
        types::HostOutgoingRequest::drop(http, part)
    })?;
    drops(interface, "outgoing-body", |http, part| {
        types::HostOutgoingBody::drop(http, part)
    })?;
    drops(interface, "future-incoming-response", |http, part| {
        types::HostFutureIncomingResponse::drop(http, part)
    })?;
    drops(interface, "incoming-response", |http, part| {
        types::HostIncomingResponse::drop(http, part)
    })?;
    function(
        interface,
        "[constructor]outgoing-request",
        |http, (headers,): (Resource<FieldMap>,)| types::HostOutgoingRequest::new(http, headers),
    )?;
    function(
        interface,
        "[method]outgoing-request.body",
        |http, (request,): (Resource<HostOutgoingRequest>,)| {
            types::HostOutgoingRequest::body(http, request)
        },
    )?;
    type MethodArguments = (Resource<HostOutgoingRequest>, types::Method);
    function(
        interface,
        "[method]outgoing-request.set-method",
        |http, (request, method): MethodArguments| match &method {
            // wasmtime-wasi-http takes any length.
            types::Method::Other(name) if name.len() > METHOD_BYTES_MAX => Ok(Err(())),
            _ => types::HostOutgoingRequest::set_method(http, request, method),
        },
    )?;
    type PathArguments = (Resource<HostOutgoingRequest>, Option<String>);
    function(
        interface,
        "[method]outgoing-request.set-path-with-query",
        |http, (request, path): PathArguments| {
            let path = path.map(|path| target::escaped(&path));
            types::HostOutgoingRequest::set_path_with_query(http, request, path)
        },
    )
}

pub(super) fn drops<T: 'static>(
    interface: &mut LinkerInstance<'_, StoreState>,
    name: &str,
    drop: fn(&mut Http<'_>, Resource<T>) -> wasmtime::Result<()>,
) -> wasmtime::Result<()> {
    interface.resource(name, ResourceType::host::<T>(), move |store, resource| {
        changed(store, |http| drop(http, Resource::new_own(resource)))
    })
}

pub(super) fn function<A, R>(
    interface: &mut LinkerInstance<'_, StoreState>,
    name: &str,
    work: fn(&mut Http<'_>, A) -> wasmtime::Result<R>,
) -> wasmtime::Result<()>
where
    A: ComponentNamedList + Lift + 'static,
    R: ComponentType + Lower + 'static,
{
    interface.func_wrap(name, move |store, arguments: A| {
        Ok((changed(store, |http| work(http, arguments))?,))
    })
}

fn changed<T>(
    mut store: StoreContextMut<'_, StoreState>,
    change: impl FnOnce(&mut Http<'_>) -> wasmtime::Result<T>,
) -> wasmtime::Result<T> {
    let state = store.data_mut();
    let made = change(&mut state.http())?;
    let fields = state.egress.header_bytes.saturating_mul(FIELDS_GROWTH);
    let bytes = state
        .table
        .iter_mut()
        .map(|part| size(part, fields))
        .fold(0, usize::saturating_add);
    state.egress.held = None;
    state.egress.held = Some(state.limiter.charge(bytes).ok_or(NoMemory)?);
    Ok(made)
}

fn size(part: &(dyn Any + Send), fields: usize) -> usize {
    let body = |is_there: bool| if is_there { BODY_BYTES + fields } else { 0 };
    if part.is::<FieldMap>() {
        fields
    } else if let Some(request) = part.downcast_ref::<HostOutgoingRequest>() {
        fields + TARGET_BYTES + body(request.body.is_some())
    } else if let Some(response) = part.downcast_ref::<HostOutgoingResponse>() {
        fields + body(response.body.is_some())
    } else if part.is::<p3::Request>() {
        fields + TARGET_BYTES
    } else if part.is::<HostFutureIncomingResponse>() {
        fields + TARGET_BYTES + body(true)
    } else {
        let is_received = part.is::<HostIncomingResponse>()
            || part.is::<HostIncomingBody>()
            || part.is::<HostFutureTrailers>()
            || part.is::<p3::Response>();
        if is_received { fields + PIECE_BYTES } else { 0 }
    }
}
