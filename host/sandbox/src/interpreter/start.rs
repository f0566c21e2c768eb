//! Starts an interpreter without any grants, and keeps its memory and variables as a new module.

use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use toolcell_policy::Limits;
use toolcell_spec::text::{Whitespace, visible};
use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{ExportKind, ExportSection, Module, RawSection};
use wasmparser::{KnownCustom, Name, Parser, Payload, ValType};
use wasmtime::{Instance, Linker, Store, Val};
use wasmtime_wasi::clocks::{HostMonotonicClock, HostWallClock};
use wasmtime_wasi::p1::{self, WasiP1Ctx};
use wasmtime_wasi::p2::pipe::MemoryOutputPipe;
use wasmtime_wasi::{FsPerms, WasiCtxBuilder};
use wasmtime_wizer::{InstanceState, ModuleContext, SnapshotVal, Wizer};

use crate::engine::GuestEngine;
use crate::limiter::{Limiter, charging};

/// A call has other folders than the C library found at the start.
const FORGET_FOLDERS: &str = "__wasilibc_reset_preopens";
/// The interpreter's call to its own host: (bytes, their count, the answer's place, its size).
pub(super) const DOOR: (&str, &str) = ("host", "call");
pub(super) const NO_HOST: i32 = -1;

const MEMORY_BYTES_MAX: u64 = 1 << 30;
/// For code, and for sleep.
const TIME_MAX: Duration = Duration::from_secs(120);
const SAID_BYTES_MAX: usize = 8 << 10;
const SAID_CHARS_MAX: usize = 300;

/// The first snippet, and the folders that it sees.
pub(super) struct Start<'a> {
    pub(super) source: &'a str,
    /// Folders, and where the interpreter sees them.
    pub(super) folders: &'a [(&'a Path, &'a str)],
}

/// The module with its variables and memory exported, so that they can be kept.
pub(super) struct StartingModule<'a> {
    wizer: Wizer,
    context: ModuleContext<'a>,
    pub(super) bytes: Vec<u8>,
}

impl<'a> StartingModule<'a> {
    /// `module` as [`exporting`] makes it.
    pub(super) fn new(module: &'a [u8]) -> anyhow::Result<Self> {
        let wizer = Wizer::new();
        let (context, bytes) = wizer.instrument(module).map_err(anyhow::Error::from)?;
        Ok(Self {
            wizer,
            context,
            bytes,
        })
    }

    pub(super) async fn started(
        &self,
        engine: &GuestEngine,
        module: &wasmtime::Module,
        start: &Start<'_>,
    ) -> anyhow::Result<Vec<u8>> {
        let _running = engine.running();
        let said = MemoryOutputPipe::new(SAID_BYTES_MAX);
        let mut store = Store::new(engine.wasmtime(), starting(start, &said)?);
        store.limiter(|state| &mut state.limiter);
        store.set_fuel(u64::MAX)?;
        // A tick is a millisecond.
        store.set_epoch_deadline(u64::try_from(TIME_MAX.as_millis())?);
        let mut linker = Linker::new(engine.wasmtime());
        p1::add_to_linker_async(&mut linker, |state: &mut StartState| &mut state.wasi)?;
        let (from, name) = DOOR;
        linker.func_wrap(from, name, |_: i32, _: i32, _: i32, _: i32| NO_HOST)?;
        let meter = store.data().limiter.meter();
        let begun = charging(meter, pin!(linker.instantiate_async(&mut store, module))).await;
        let instance = begun?;
        let meter = store.data().limiter.meter();
        let ran = {
            let running = pin!(run(&mut store, &instance, start.source));
            tokio::time::timeout(TIME_MAX, charging(meter, running)).await
        };
        let said = || end_of(&said.contents());
        let status = ran
            .map_err(|_| anyhow!("it did not start in {} s", TIME_MAX.as_secs()))?
            .with_context(said)?;
        if status != 0 {
            bail!("it ended with {status}: {}", said());
        }
        let state = &mut StartedInstance {
            store: &mut store,
            instance,
        };
        Ok(self.wizer.snapshot(&self.context, state).await?)
    }
}

/// The last line, without characters that act on a terminal.
fn end_of(printed: &[u8]) -> String {
    let text = String::from_utf8_lossy(printed);
    let last = text.trim_end().rsplit('\n').next().unwrap_or_default();
    let last: String = last.chars().take(SAID_CHARS_MAX).collect();
    visible(&last, Whitespace::WrittenOut)
}

struct StartState {
    wasi: WasiP1Ctx,
    limiter: Limiter,
}

/// It can write nothing. Its clocks and random numbers are always the same, so that the same package makes the same
/// component everywhere.
fn starting(start: &Start<'_>, said: &MemoryOutputPipe) -> anyhow::Result<StartState> {
    let mut builder = WasiCtxBuilder::new();
    for (folder, guest) in start.folders {
        builder.preopened_dir(folder, guest, FsPerms::ReadOnly)?;
    }
    builder
        .env("HOME", "/nowhere")
        .env("PYTHONTZPATH", "")
        .stderr(said.clone())
        .secure_random(ChaCha20Rng::from_seed([0; 32]))
        .insecure_random(ChaCha20Rng::from_seed([1; 32]))
        .insecure_random_seed(0)
        .wall_clock(StoppedClock)
        .monotonic_clock(StoppedClock)
        .allow_tcp(false)
        .allow_udp(false);
    Ok(StartState {
        wasi: builder.build_p1(),
        limiter: Limiter::new(&Limits {
            memory_bytes: MEMORY_BYTES_MAX,
            ..Limits::default()
        }),
    })
}

/// At the first second of 2026: an interpreter refuses times long past.
struct StoppedClock;

const STOPPED_AT: Duration = Duration::from_secs(1_767_225_600);

impl HostWallClock for StoppedClock {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn now(&self) -> Duration {
        STOPPED_AT
    }
}

impl HostMonotonicClock for StoppedClock {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        1
    }
}

async fn run(
    store: &mut Store<StartState>,
    instance: &Instance,
    source: &str,
) -> anyhow::Result<i32> {
    let start = instance.get_typed_func::<(), ()>(&mut *store, "_initialize")?;
    start.call_async(&mut *store, ()).await?;
    let length = i32::try_from(source.len())?;
    let room = instance.get_typed_func::<i32, i32>(&mut *store, "host_alloc")?;
    let place = room.call_async(&mut *store, length).await?;
    let memory = instance
        .get_memory(&mut *store, "memory")
        .context("the module has no memory")?;
    memory.write(&mut *store, usize::try_from(place)?, source.as_bytes())?;
    let turn = instance.get_typed_func::<(i32, i32), i32>(&mut *store, "turn")?;
    let status = turn.call_async(&mut *store, (place, length)).await?;
    let forget = instance.get_typed_func::<(), ()>(&mut *store, FORGET_FOLDERS)?;
    forget.call_async(&mut *store, ()).await?;
    Ok(status)
}

struct StartedInstance<'a> {
    store: &'a mut Store<StartState>,
    instance: Instance,
}

impl InstanceState for StartedInstance<'_> {
    /// A module has no others that change: the tool that keeps them has refused it.
    async fn global_get(&mut self, name: &str, _: ValType) -> SnapshotVal {
        let global = self.instance.get_global(&mut *self.store, name);
        match global.map(|global| global.get(&mut *self.store)) {
            Some(Val::I64(value)) => SnapshotVal::I64(value),
            Some(Val::F32(value)) => SnapshotVal::F32(value),
            Some(Val::F64(value)) => SnapshotVal::F64(value),
            Some(Val::V128(value)) => SnapshotVal::V128(value.as_u128()),
            Some(value) => SnapshotVal::I32(value.i32().unwrap_or_default()),
            None => SnapshotVal::I32(0),
        }
    }

    async fn memory_contents(&mut self, name: &str, contents: impl FnOnce(&[u8]) + Send) {
        if let Some(memory) = self.instance.get_memory(&mut *self.store, name) {
            contents(memory.data(&self.store));
        }
    }
}

/// The module without names, with the function exported that they say forgets the folders.
pub(super) fn exporting(module: &[u8]) -> anyhow::Result<Vec<u8>> {
    let index = function(module, FORGET_FOLDERS)?
        .ok_or_else(|| anyhow!("the module has no function `{FORGET_FOLDERS}`"))?;
    let mut copy = Module::new();
    for payload in Parser::new(0).parse_all(module) {
        match payload? {
            Payload::CustomSection(_) => {}
            Payload::ExportSection(exports) => {
                let mut section = ExportSection::new();
                for export in exports {
                    RoundtripReencoder.parse_export(&mut section, export?)?;
                }
                section.export(FORGET_FOLDERS, ExportKind::Func, index);
                copy.section(&section);
            }
            payload => {
                if let Some((id, range)) = payload.as_section() {
                    let data = module.get(range).unwrap_or_default();
                    copy.section(&RawSection { id, data });
                }
            }
        }
    }
    Ok(copy.finish())
}

fn function(module: &[u8], wanted: &str) -> anyhow::Result<Option<u32>> {
    for payload in Parser::new(0).parse_all(module) {
        let Payload::CustomSection(section) = payload? else {
            continue;
        };
        let KnownCustom::Name(names) = section.as_known() else {
            continue;
        };
        for part in names {
            let Name::Function(functions) = part? else {
                continue;
            };
            for naming in functions {
                let naming = naming?;
                if naming.name == wanted {
                    return Ok(Some(naming.index));
                }
            }
        }
    }
    Ok(None)
}
