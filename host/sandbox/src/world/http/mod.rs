//! Servers: components that export `wasi:http/incoming-handler`. A call is one request to a fresh instance, and its
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

use super::{Call, ComponentWorld, FirstLoad, Outcome};
use crate::state::StoreState;

pub(super) use declaration::named_by;

/// Start of the export's name: all versions of WASI 0.2 are compatible.
const HANDLER: &str = "wasi:http/incoming-handler@0.2.";
pub(super) const CONTRACT: &str = "wasi:http@0.2";

pub(super) fn exported(exports: &[String]) -> bool {
    exports.iter().any(|name| name.starts_with(HANDLER))
}

pub(super) struct HttpWorld {
    server: ProxyPre<StoreState>,
    /// By tool. A tool without one sends the request that its arguments spell out.
    routes: HashMap<String, RouteRequest>,
}

impl HttpWorld {
    pub(super) fn new(instance: InstancePre<StoreState>) -> wasmtime::Result<Self> {
        Ok(Self {
            server: ProxyPre::new(instance)?,
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
            let answer = Box::pin(exchange::exchange(&self.server, store, request)).await?;
            Ok(response::outcome(store.data_mut(), answer, &name, route.is_some()).await)
        })
    }
}
