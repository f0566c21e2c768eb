//! Servers: components that export `wasi:http/incoming-handler`, or `wasi:http/handler` of WASI 0.3. A call is one request to a fresh instance, and its
//! response. Without a profile, a server is one tool, which sends any request; with one, each route is a tool.

mod declaration;
mod exchange;
mod request;
mod response;

use std::collections::HashMap;

use toolcell_spec::dialect::routes::RouteRequest;
use toolcell_spec::{ErrorCode, Refusal};
use toolcell_system::BoxFuture;
use wasmtime::Store;
use wasmtime::component::InstancePre;
use wasmtime_wasi_http::p2::bindings::ProxyPre;
use wasmtime_wasi_http::p3::bindings::ServicePre;

use super::{Call, ComponentWorld, FirstLoad, Outcome};
use crate::state::StoreState;

pub(super) use declaration::named_by;

/// Starts of the export's name: all versions of WASI 0.2 are compatible, and all of WASI 0.3.
const HANDLER: &str = "wasi:http/incoming-handler@0.2.";
const CONCURRENT_HANDLER: &str = "wasi:http/handler@0.3.";
pub(super) const CONTRACT: &str = "wasi:http";

pub(super) fn exported(exports: &[String]) -> bool {
    let is_handler =
        |name: &String| name.starts_with(HANDLER) || name.starts_with(CONCURRENT_HANDLER);
    exports.iter().any(is_handler)
}

enum LinkedServer {
    Sequential(ProxyPre<StoreState>),
    /// Of WASI 0.3.
    Concurrent(ServicePre<StoreState>),
}

impl LinkedServer {
    fn new(instance: InstancePre<StoreState>) -> wasmtime::Result<Self> {
        let component = instance.component();
        let kind = component.component_type();
        let mut exports = kind.exports(component.engine());
        let is_concurrent = exports.any(|(name, _)| name.starts_with(CONCURRENT_HANDLER));
        drop(exports);
        Ok(if is_concurrent {
            Self::Concurrent(ServicePre::new(instance)?)
        } else {
            Self::Sequential(ProxyPre::new(instance)?)
        })
    }
}

pub(super) struct HttpWorld {
    server: LinkedServer,
    /// By tool. A tool without one sends the request that its arguments spell out.
    routes: HashMap<String, RouteRequest>,
}

impl HttpWorld {
    pub(super) fn new(instance: InstancePre<StoreState>) -> wasmtime::Result<Self> {
        Ok(Self {
            server: LinkedServer::new(instance)?,
            routes: HashMap::new(),
        })
    }
}

impl ComponentWorld for HttpWorld {
    /// Runs no code of the server.
    fn describe<'a>(&'a self, examined: FirstLoad<'a>) -> BoxFuture<'a, Result<String, Refusal>> {
        Box::pin(async move {
            declaration::toolkit(examined.bytes, examined.imports).map_err(|why| {
                let message = format!("cannot describe the component: {why}");
                Refusal::new(ErrorCode::DescriptionInvalid, message)
            })
        })
    }

    fn described(&mut self, toolkit: &str) {
        self.routes = declaration::routes(toolkit);
    }

    fn invoke<'a>(
        &'a self,
        store: &'a mut Store<StoreState>,
        call: &'a Call,
    ) -> BoxFuture<'a, wasmtime::Result<Outcome>> {
        Box::pin(async move {
            let route = self.routes.get(&call.tool);
            let header_bytes = store.data().egress.header_bytes();
            let request = match route {
                Some(route) => request::routed(route, &call.input, header_bytes),
                None => request::spelled_out(&call.input, header_bytes),
            };
            let request = match request {
                Ok(request) => request,
                Err(why) => return Ok(request::refused(why)),
            };
            let name = request.uri().path().to_owned();
            let answer = match &self.server {
                LinkedServer::Sequential(server) => {
                    Box::pin(exchange::exchange(server, store, request)).await?
                }
                LinkedServer::Concurrent(server) => {
                    Box::pin(exchange::concurrent_exchange(server, store, request)).await?
                }
            };
            Ok(response::outcome(store.data_mut(), answer, &name, route.is_some()).await)
        })
    }
}
