//! `wasi:http/types` and `wasi:http/client` of WASI 0.3. Requests pass the gate that WASI 0.2 has, and headers that
//! the host keeps for a guest count as its memory.

use wasmtime::component::{Linker, Resource};
use wasmtime_wasi_http::p3::bindings::http::{client, types};
use wasmtime_wasi_http::{FieldMap, WasiHttp, WasiHttpView};

use super::StoreState;
use super::request_parts::{drops, function};

const INTERFACE: &str = "wasi:http/types@0.3.0";

pub(crate) fn add_client_to_linker(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    client::add_to_linker::<_, WasiHttp>(linker, StoreState::http)
}

pub(crate) fn add_types_to_linker(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    types::add_to_linker::<_, WasiHttp>(linker, StoreState::http)?;
    // Functions that make and drop headers replace the interface's own.
    linker.allow_shadowing(true);
    let replaced = replace(linker);
    linker.allow_shadowing(false);
    replaced
}

fn replace(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    let mut interface = linker.instance(INTERFACE)?;
    drops(&mut interface, "fields", |http, part| {
        types::HostFields::drop(http, part)
    })?;
    function(&mut interface, "[constructor]fields", |http, ()| {
        types::HostFields::new(http)
    })?;
    function(
        &mut interface,
        "[static]fields.from-list",
        |http, (entries,): (Vec<(String, Vec<u8>)>,)| match types::HostFields::from_list(
            http, entries,
        ) {
            Ok(fields) => Ok(Ok(fields)),
            Err(error) => types::Host::convert_header_error(http, error).map(Err),
        },
    )?;
    function(
        &mut interface,
        "[method]fields.clone",
        |http, (fields,): (Resource<FieldMap>,)| types::HostFields::clone(http, fields),
    )
}
