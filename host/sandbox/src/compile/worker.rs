//! The process that compiles.

use std::io::{Read, Write};
use std::mem::ManuallyDrop;

use anyhow::Context;
use wasmtime::OptLevel;

use super::super::adapt::{self, NoCommand};
use super::super::confine;
use super::super::engine::{EngineKind, Meter, config};
use super::super::imports::{self, NotAvailable};
use super::super::metadata;
use super::{
    CompileEffort, CompileOrder, EXTENDED, FAULTY, GRACE_SECONDS, LOWEST_PRIORITY, NO_COMMAND,
    NOT_AVAILABLE, TIMED, TOO_LARGE, UNLIMITED, start_threads,
};

/// Limits itself to `cpu_seconds`, `memory_bytes` and the life of `parent`, then compiles standard input to standard
/// output. Returns the exit status.
pub fn compile_worker(
    cpu_seconds: u64,
    memory_bytes: u64,
    parent: u32,
    effort: CompileEffort,
    meter: Meter,
) -> i32 {
    let order = CompileOrder { effort, meter };
    let done = match limited(cpu_seconds, memory_bytes, parent, order) {
        // Freeing the engines takes milliseconds, and the process ends.
        Ok(engines) => {
            work(&ManuallyDrop::new(engines), effort).map_err(|error| (status(&error), error))
        }
        Err(error) => Err((UNLIMITED, error)),
    };
    match done {
        Ok(EngineKind::Pooled) => 0,
        Ok(EngineKind::Extended) => EXTENDED,
        Ok(EngineKind::Timed) => TIMED,
        Err((status, error)) => {
            eprintln!("{error:#}");
            status
        }
    }
}

pub(super) fn status(error: &anyhow::Error) -> i32 {
    if error.is::<NoCommand>() {
        NO_COMMAND
    } else if error.is::<metadata::TooMuch>() {
        TOO_LARGE
    } else if error.is::<NotAvailable>() {
        NOT_AVAILABLE
    } else {
        FAULTY
    }
}

pub(super) struct CompilerEngines {
    /// The faster one, for components that need no more.
    first: Option<(EngineKind, wasmtime::Engine)>,
    /// Has all features.
    last: (EngineKind, wasmtime::Engine),
}

impl CompilerEngines {
    pub(super) fn new(order: CompileOrder) -> anyhow::Result<Self> {
        let make = |kind| {
            let mut config = config(kind);
            if matches!(order.effort, CompileEffort::Quick | CompileEffort::Module) {
                config.cranelift_opt_level(OptLevel::None);
            }
            let engine = wasmtime::Engine::new(&config).map_err(anyhow::Error::from)?;
            anyhow::Ok((kind, engine))
        };
        let (first, last) = match order.meter {
            Meter::Fuel => (Some(EngineKind::Pooled), EngineKind::Extended),
            Meter::Time => (None, EngineKind::Timed),
        };
        Ok(Self {
            first: first.map(make).transpose()?,
            last: make(last)?,
        })
    }

    /// `is_concurrent`: needs the features of the last engine, whatever its code has.
    pub(super) fn compile(
        &self,
        component: &[u8],
        is_concurrent: bool,
    ) -> anyhow::Result<(EngineKind, Vec<u8>)> {
        if let Some((kind, engine)) = &self.first
            && !is_concurrent
            && let Ok(code) = engine.precompile_component(component)
        {
            return Ok((*kind, code));
        }
        let (kind, engine) = &self.last;
        let code = engine.precompile_component(component);
        Ok((*kind, code.map_err(anyhow::Error::from)?))
    }
}

/// Address space of the program before it compiles, which a component has no part in; 0 where the kernel does not tell.
fn own_bytes() -> u64 {
    let told = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = told.split(' ').next().and_then(|pages| pages.parse().ok());
    let page = rustix::param::page_size() as u64;
    pages.map_or(0, |pages: u64| pages.saturating_mul(page))
}

/// Creates engines and threads before the filter, because that queries processor and kernel.
pub(super) fn limited(
    cpu_seconds: u64,
    memory_bytes: u64,
    parent: u32,
    order: CompileOrder,
) -> anyhow::Result<CompilerEngines> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = |value| Rlimit {
        current: Some(value),
        maximum: Some(value),
    };
    let time = Rlimit {
        current: Some(cpu_seconds),
        maximum: Some(cpu_seconds.saturating_add(GRACE_SECONDS)),
    };
    confine::die_with(parent)?;
    setrlimit(Resource::Cpu, time).context("cannot limit the time")?;
    let space = memory_bytes.saturating_add(own_bytes());
    setrlimit(Resource::As, limit(space)).context("cannot limit the memory")?;
    setrlimit(Resource::Core, limit(0)).context("cannot limit core dumps")?;
    if order.effort == CompileEffort::Again {
        rustix::process::setpriority_process(None, LOWEST_PRIORITY)
            .context("cannot lower the priority")?;
    }
    let engines = CompilerEngines::new(order)?;
    start_threads(memory_bytes).context("cannot start the threads")?;
    confine::leave_no_dump()?;
    if guard!("compile_filter") {
        confine::only_compute()?;
    }
    Ok(engines)
}

pub(super) fn work(engines: &CompilerEngines, effort: CompileEffort) -> anyhow::Result<EngineKind> {
    let mut component = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut component)
        .context("cannot read the component")?;
    let (kind, engine) = &engines.last;
    if effort == CompileEffort::Module {
        let code = engine.precompile_module(&component);
        return written(&code.map_err(anyhow::Error::from)?).map(|()| *kind);
    }
    if adapt::is_module(&component) {
        component = adapt::component(engine, &component)?;
    }
    let is_concurrent = imports::check(&component)?;
    let (kind, code) = engines.compile(&component, is_concurrent)?;
    // After the compiler, which says better what is not valid.
    metadata::check(&component, kind)?;
    written(&code).map(|()| kind)
}

fn written(code: &[u8]) -> anyhow::Result<()> {
    std::io::stdout()
        .lock()
        .write_all(code)
        .context("cannot write the code")
}
