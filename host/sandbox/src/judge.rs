//! Judge components: the world `judge`, run as tools in an empty world. Each question gets a fresh store, so that no
//! trace is seen beside another.

use std::sync::Arc;

use toolcell_policy::HookPermit;
use toolcell_spec::{ErrorCode, Refusal};
use wasmtime::Store;
use wasmtime::component::Component;

use super::bindings::judge::JudgePre;
use super::compile::CompileOrder;
use super::component::link_handler;
use super::engine::{GuestEngine, Meter};
use super::loader::CachedCode;
use super::state::StoreState;
use super::{Sandbox, call, linking, never};

const HANDLER: &str = "toolcell:tool/judge-handler@0.2.0";

/// A judge component.
///
/// ```
/// use toolcell_sandbox::Judge;
///
/// /// Asks for a verdict; the request and the verdict are JSON.
/// async fn ask(judge: &Judge, request: &str) -> Result<String, String> {
///     judge.assess(request).await
/// }
/// ```
pub struct Judge {
    sandbox: Arc<Sandbox>,
    engine: GuestEngine,
    component: JudgePre<StoreState>,
    permit: HookPermit,
}

impl Sandbox {
    pub async fn load_judge(
        self: &Arc<Self>,
        bytes: &[u8],
        permit: HookPermit,
    ) -> Result<Judge, Refusal> {
        let loader = &self.loader;
        // A separate entry from the one that the same bytes would have as a tool, which has a description.
        let name = blake3::hash(&[blake3::hash(bytes).as_bytes().as_slice(), b"judge"].concat());
        let entry: Option<CachedCode<()>> = loader.cached(&name, Meter::Fuel).await?;
        let order = CompileOrder::thorough(Meter::Fuel);
        let code = loader.code(entry, bytes, order).await?;
        let linked = code
            .component(&loader.engines)
            .and_then(|(engine, component)| Ok((engine.clone(), link(engine, &component)?)));
        loader.keep_code(&name, code, None).await;
        let (engine, component) = linked?;
        Ok(Judge {
            sandbox: Arc::clone(self),
            engine,
            component,
            permit,
        })
    }
}

impl Judge {
    /// Returns the judge's verdict, as it gave it.
    ///
    /// # Errors
    ///
    /// The message of a judge that fails, traps, or exceeds a limit.
    pub async fn assess(&self, request: &str) -> Result<String, String> {
        let _place = self.sandbox.checks.acquire().await;
        let limits = self.permit.limits();
        let engine = &self.engine;
        let request = request.to_owned();
        let cancellation = never();
        let mut store = call::offline(engine, self.permit.capability(), limits, &cancellation)
            .map_err(|error| format!("cannot start the judge: {error:#}"))?;
        let work = async |store: &mut Store<StoreState>| {
            let guest = self.component.instantiate_async(&mut *store).await?;
            let guest = guest.toolcell_tool_judge_handler();
            guest.call_assess(store, &request).await
        };
        match call::run(engine, &mut store, limits, &cancellation, work).await {
            Ok(answer) => answer.map_err(|why| call::cut(why, call::MESSAGE_CHARS_MAX)),
            Err(refusal) => Err(refusal.message),
        }
    }
}

fn link(engine: &GuestEngine, component: &Component) -> Result<JudgePre<StoreState>, Refusal> {
    let what = ("judge", ErrorCode::NotAJudge, HANDLER);
    link_handler(engine, component, what, linking::for_judge, JudgePre::new)
}
