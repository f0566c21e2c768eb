//! Bare wasmtime, the floor: the same engine settings as `host/sandbox/src/engine.rs`, and nothing around them. No
//! limits, no deadline, no cancellation, no validation, no record.

use std::path::PathBuf;

use anyhow::Context;
use wasmtime::component::{Component, Linker, Resource, ResourceTable, Val};
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig, Store,
};
use wasmtime_wasi::p2::pipe::MemoryOutputPipe;
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_http::{
    Error, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks, WasiHttpView,
};

mod bindings {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "tool",
        imports: { default: async | trappable },
        exports: { default: async },
    });
}

use bindings::ToolPre;
use bindings::exports::toolcell::tool::guest::Call;
pub(crate) use bindings::exports::toolcell::tool::guest::Outcome;
use bindings::toolcell::tool::{
    artifacts, cancellation, context_modifiers, interaction, log, progress,
};

/// The engine of one measurement.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) fuel: bool,
    pub(crate) epoch: bool,
    /// Units of fuel after which a guest yields, in place of an epoch.
    pub(crate) fuel_yields: Option<u64>,
    /// Slots of the pool; `None` allocates on demand.
    pub(crate) pool: Option<u32>,
}

impl Settings {
    /// The meters of the host: fuel and epochs.
    pub(crate) fn metered(pool: Option<u32>) -> Self {
        Self {
            fuel: true,
            epoch: true,
            fuel_yields: None,
            pool,
        }
    }

    pub(crate) fn engine(self) -> anyhow::Result<Engine> {
        let mut config = Config::new();
        config
            .epoch_interruption(self.epoch)
            .consume_fuel(self.fuel)
            .cranelift_opt_level(OptLevel::Speed)
            .max_wasm_stack(2 << 20)
            .async_stack_size((3 << 20) + (512 << 10))
            .memory_init_cow(true)
            // The address of a trap in the guest is not used, and the map is a tenth of the code's size.
            .generate_address_map(false)
            .native_unwind_info(false)
            .wasm_backtrace_details(wasmtime::WasmBacktraceDetails::Disable)
            .wasm_backtrace_max_frames(None)
            .gc_support(false)
            .wasm_gc(false)
            .wasm_function_references(false)
            .wasm_exceptions(false)
            .wasm_threads(false)
            .shared_memory(false)
            .concurrency_support(false)
            .wasm_stack_switching(false)
            .wasm_memory64(false)
            .wasm_relaxed_simd(false)
            .wasm_custom_page_sizes(false)
            .wasm_wide_arithmetic(false)
            .allocation_strategy(match self.pool {
                Some(calls) => pooling(calls),
                None => InstanceAllocationStrategy::OnDemand,
            });
        Ok(Engine::new(&config)?)
    }

    /// Sets the meters of a store so high that they never stop anything.
    pub(crate) fn open<T: 'static>(self, engine: &Engine, state: T) -> wasmtime::Result<Store<T>> {
        let mut store = Store::new(engine, state);
        if self.fuel {
            store.set_fuel(u64::MAX)?;
            store.fuel_async_yield_interval(self.fuel_yields)?;
        }
        if self.epoch {
            store.set_epoch_deadline(1 << 40);
        }
        Ok(store)
    }
}

fn pooling(calls: u32) -> InstanceAllocationStrategy {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(calls)
        .total_core_instances(calls.saturating_mul(8))
        .total_memories(calls.saturating_mul(2))
        .total_tables(calls.saturating_mul(4))
        .total_stacks(calls)
        .max_core_instances_per_component(64)
        .max_memories_per_component(8)
        .max_tables_per_component(16)
        .table_elements(20_000)
        .max_memory_size(1 << 30)
        .max_unused_warm_slots(calls.min(100))
        .linear_memory_keep_resident(2 << 20)
        .table_keep_resident(64 << 10)
        .pagemap_scan(Enabled::Auto);
    InstanceAllocationStrategy::Pooling(pool)
}

/// A component in an engine, ready to be called.
pub(crate) struct Bare {
    engine: Engine,
    settings: Settings,
    tool: ToolPre<World>,
    /// The folder that a call reads, as `/sample`.
    pub(crate) sample: Option<PathBuf>,
}

impl Bare {
    /// Compiles `component`.
    #[allow(
        dead_code,
        reason = "one of two ways to load; each bench uses one of them"
    )]
    pub(crate) fn compile(settings: Settings, component: &[u8]) -> anyhow::Result<Self> {
        let engine = settings.engine()?;
        let component = Component::new(&engine, component)?;
        Self::link(engine, settings, &component)
    }

    /// Maps compiled code that this benchmark wrote a moment ago.
    #[allow(
        dead_code,
        reason = "one of two ways to load; each bench uses one of them"
    )]
    #[allow(
        unsafe_code,
        reason = "wasmtime cannot check that a file holds code it made"
    )]
    pub(crate) fn map(settings: Settings, code: &std::path::Path) -> anyhow::Result<Self> {
        let engine = settings.engine()?;
        // SAFETY: the benchmark wrote the file with this very wasmtime, into its own folder, and never changes it.
        let component = unsafe { Component::deserialize_file(&engine, code) }?;
        Self::link(engine, settings, &component)
    }

    fn link(engine: Engine, settings: Settings, component: &Component) -> anyhow::Result<Self> {
        let mut linker = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
        progress::add_to_linker::<_, Only>(&mut linker, |world| world)?;
        log::add_to_linker::<_, Only>(&mut linker, |world| world)?;
        cancellation::add_to_linker::<_, Only>(&mut linker, |world| world)?;
        interaction::add_to_linker::<_, Only>(&mut linker, |world| world)?;
        artifacts::add_to_linker::<_, Only>(&mut linker, |world| world)?;
        context_modifiers::add_to_linker::<_, Only>(&mut linker, |world| world)?;
        // No call here sends a request or calls another tool.
        wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
        let mut tools = linker.instance("toolcell:tool/tools@0.2.0")?;
        tools.func_new("list", |_, _, _, listed| {
            listed.fill(Val::List(Vec::new()));
            Ok(())
        })?;
        tools.func_new("call", |_, _, _, _| {
            Err(wasmtime::Error::msg("a bare call cannot call a tool"))
        })?;
        let tool = ToolPre::new(linker.instantiate_pre(component)?)?;
        Ok(Self {
            engine,
            settings,
            tool,
            sample: None,
        })
    }

    /// A fresh store and instance, one call, and everything dropped.
    pub(crate) async fn call(&self, tool: &str, input: &str) -> wasmtime::Result<Outcome> {
        let mut store = self
            .settings
            .open(&self.engine, World::new(self.sample.as_ref())?)?;
        let call = Call {
            invocation_id: "01K00000000000000000000000".to_owned(),
            tool: tool.to_owned(),
            input: input.to_owned(),
            attempt: 1,
            context: "{}".to_owned(),
        };
        let guest = self.tool.instantiate_async(&mut store).await?;
        guest
            .toolcell_tool_guest()
            .call_invoke(&mut store, &call)
            .await
    }

    /// Returns the text of an answer of [`Bare::call`], which must succeed, because a benchmark of an error would be a fast one.
    pub(crate) async fn answer(&self, tool: &str, input: &str) -> anyhow::Result<String> {
        match self.call(tool, input).await? {
            Outcome::Success(output) => Ok(output.structured.unwrap_or(output.content)),
            Outcome::Text(text) | Outcome::Json(text) => Ok(text),
            other => Err(anyhow::anyhow!("{other:?}")).context("call the bare tool"),
        }
    }
}

/// The world of a bare call: captured output, and the imports of the contract, which do nothing.
struct World {
    wasi: WasiCtx,
    http: WasiHttpCtx,
    requests: NoRequests,
    table: ResourceTable,
}

type Only = wasmtime::component::HasSelf<World>;

impl World {
    fn new(sample: Option<&PathBuf>) -> wasmtime::Result<Self> {
        let mut wasi = WasiCtxBuilder::new();
        wasi.stdout(MemoryOutputPipe::new(64 << 10))
            .stderr(MemoryOutputPipe::new(64 << 10));
        if let Some(sample) = sample {
            wasi.preopened_dir(sample, "/sample", FsPerms::ReadOnly)?;
        }
        Ok(Self {
            wasi: wasi.build(),
            http: WasiHttpCtx::new(),
            requests: NoRequests,
            table: ResourceTable::new(),
        })
    }
}

impl WasiView for World {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

struct NoRequests;

type Sending = Box<dyn Future<Output = Result<(), Error>> + Send>;

impl WasiHttpHooks for NoRequests {
    fn send_request(
        &mut self,
        _: http::Request<WasiBody>,
        _: Option<RequestOptions>,
        _: Sending,
    ) -> Box<dyn Future<Output = Result<(http::Response<WasiBody>, Sending), Error>> + Send> {
        Box::new(std::future::ready(Err(Error::HttpRequestDenied)))
    }
}

impl WasiHttpView for World {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView {
            ctx: &mut self.http,
            table: &mut self.table,
            hooks: &mut self.requests,
        }
    }
}

impl progress::Host for World {
    async fn report(&mut self, _: progress::Update) -> wasmtime::Result<()> {
        Ok(())
    }

    async fn partial_result(&mut self, _: String) -> wasmtime::Result<String> {
        Ok(String::new())
    }
}

impl log::Host for World {
    async fn log(&mut self, _: log::Level, _: String, _: Option<String>) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl interaction::Host for World {
    async fn responses(&mut self) -> wasmtime::Result<String> {
        Ok("{}".to_owned())
    }

    async fn resume_state(&mut self) -> wasmtime::Result<Vec<u8>> {
        Ok(Vec::new())
    }

    async fn ask(&mut self, _: Vec<interaction::InputRequest>, _: Vec<u8>) -> wasmtime::Result<()> {
        Err(wasmtime::Error::msg("a bare call cannot ask a user"))
    }
}

impl artifacts::Host for World {
    async fn create(
        &mut self,
        _: String,
        _: String,
    ) -> wasmtime::Result<Result<Resource<artifacts::Artifact>, artifacts::StoreError>> {
        Err(wasmtime::Error::msg("a bare call cannot write artifacts"))
    }
}

impl artifacts::HostArtifact for World {
    async fn write(
        &mut self,
        _: Resource<artifacts::Artifact>,
        _: Vec<u8>,
    ) -> wasmtime::Result<Result<(), artifacts::StoreError>> {
        Err(wasmtime::Error::msg("a bare call cannot write artifacts"))
    }

    async fn finish(
        &mut self,
        _: Resource<artifacts::Artifact>,
    ) -> wasmtime::Result<Result<String, artifacts::StoreError>> {
        Err(wasmtime::Error::msg("a bare call cannot write artifacts"))
    }

    async fn drop(&mut self, _: Resource<artifacts::Artifact>) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl context_modifiers::Host for World {
    async fn modify(
        &mut self,
        _: String,
        _: String,
    ) -> wasmtime::Result<Result<(), context_modifiers::ModifyError>> {
        Err(wasmtime::Error::msg("a bare call cannot change a context"))
    }
}

impl cancellation::Host for World {
    async fn requested(&mut self) -> wasmtime::Result<Option<cancellation::AbortReason>> {
        Ok(None)
    }

    async fn acknowledge(&mut self) -> wasmtime::Result<()> {
        Ok(())
    }
}
