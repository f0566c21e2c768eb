//! Compiles components in a child process, because a compilation cannot be interrupted, and 200 KB of hostile code can
//! take ten seconds and a gigabyte. The child limits itself before it reads a byte, and the parent waits only for a
//! limited time.

mod worker;

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use strum::{EnumString, IntoStaticStr};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::Semaphore;
use toolcell_spec::{ErrorClass, ErrorCode, Refusal};
use toolcell_system::component_size::{component_bytes_max, larger_than_allowed};

use super::adapt;
use super::component::starts_too_large;
use super::engine::{EngineKind, Meter};

pub use worker::compile_worker;

const CODE_BYTES_MAX: u64 = 512 << 20;
/// An interpreter with many packages takes minutes, and gigabytes.
const PART_BYTES: usize = 64 << 20;
/// Its stack, and what it allocates for one function.
const THREAD_BYTES: u64 = 256 << 20;
/// A main thread has as many; the depth of hostile code decides how much is used.
const STACK_BYTES: usize = 8 << 20;
/// The kernel kills a worker so long after the limit, which has its own signal, so that `SIGKILL` always means
/// something else.
const GRACE_SECONDS: u64 = 1;
/// No call waits for the worker.
const LOWEST_PRIORITY: i32 = 19;
/// The code is for the engine with more features.
const EXTENDED: i32 = 3;
/// The code counts no fuel.
const TIMED: i32 = 4;
/// Standard error says why.
const FAULTY: i32 = 65;
/// Standard error says why.
const NO_COMMAND: i32 = 66;
/// The component takes more of the engine than any call may use; standard error says why.
const TOO_LARGE: i32 = 67;
/// The component imports what this host lacks; standard error says what.
const NOT_AVAILABLE: i32 = 68;
/// Rust sets this status.
const PANICKED: i32 = 101;
/// The worker could not limit itself, and compiled nothing.
const UNLIMITED: i32 = 71;

/// How thoroughly a component is compiled. Code of either kind runs in the same engine, and uses the same fuel. Its text is
/// an argument of a compiler's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum CompileEffort {
    /// Takes three quarters of the time; the code takes up to a tenth more.
    Quick,
    /// Quick, for a module that runs once.
    Module,
    Thorough,
    /// Thorough with the lowest priority, while quickly compiled code runs.
    Again,
}

/// How one component is compiled, and for which meter.
#[derive(Clone, Copy, Debug)]
pub(super) struct CompileOrder {
    pub(super) effort: CompileEffort,
    pub(super) meter: Meter,
}

impl CompileOrder {
    /// For a tool that is used for long, or a hook.
    pub(super) fn thorough(meter: Meter) -> Self {
        Self {
            effort: CompileEffort::Thorough,
            meter,
        }
    }
}

/// A step of the compilation of one component, for a user who waits for it.
///
/// ```
/// use toolcell_sandbox::Compilation;
///
/// fn said(step: Compilation) -> String {
///     match step {
///         Compilation::Begins { bytes } => format!("compiling {} KiB", bytes >> 10),
///         Compilation::Ends { took, compiled: true } => format!("compiled in {} ms", took.as_millis()),
///         Compilation::Ends { compiled: false, .. } => "not compiled".to_owned(),
///     }
/// }
/// assert_eq!(said(Compilation::Begins { bytes: 2048 }), "compiling 2 KiB");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compilation {
    Begins { bytes: usize },
    Ends { took: Duration, compiled: bool },
}

/// Must not block, because the compilation waits for it.
///
/// ```
/// let watch: toolcell_sandbox::CompileWatch = std::sync::Arc::new(|step| eprintln!("{step:?}"));
/// watch(toolcell_sandbox::Compilation::Begins { bytes: 2048 });
/// ```
pub type CompileWatch = Arc<dyn Fn(Compilation) + Send + Sync>;

#[derive(Clone)]
pub struct CompilerSettings {
    /// Toolcell itself, called with [`compile_worker`]'s arguments.
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// CPU time limit for each started 64 MiB of a component; the wall time limit is twice as long.
    pub cpu_seconds: u64,
    /// Likewise.
    pub memory_bytes: u64,
    /// Not told of a component whose code is cached.
    pub watch: Option<CompileWatch>,
}

struct WatchedCompilation<'w> {
    watch: Option<&'w CompileWatch>,
    begun: Instant,
    compiled: bool,
}

impl<'w> WatchedCompilation<'w> {
    fn begin(watch: Option<&'w CompileWatch>, bytes: usize) -> Self {
        watch
            .into_iter()
            .for_each(|watch| watch(Compilation::Begins { bytes }));
        Self {
            watch,
            begun: Instant::now(),
            compiled: false,
        }
    }
}

impl Drop for WatchedCompilation<'_> {
    fn drop(&mut self) {
        let step = Compilation::Ends {
            took: self.begun.elapsed(),
            compiled: self.compiled,
        };
        self.watch.into_iter().for_each(|watch| watch(step));
    }
}

pub(super) struct Compiler {
    settings: CompilerSettings,
    /// One compilation at a time, because two hostile components must not double the cost.
    turn: Semaphore,
    again: Semaphore,
    code_bytes_max: u64,
}

impl Compiler {
    pub(super) fn new(settings: CompilerSettings) -> Self {
        Self {
            settings,
            turn: Semaphore::new(1),
            again: Semaphore::new(1),
            code_bytes_max: CODE_BYTES_MAX,
        }
    }

    pub(super) async fn compile(
        &self,
        component: &[u8],
        order: CompileOrder,
    ) -> Result<(EngineKind, Vec<u8>), Refusal> {
        if order.effort == CompileEffort::Again {
            let _turn = self.again.acquire().await;
            return self.compile_within_limits(component, order).await;
        }
        let _turn = self.turn.acquire().await;
        let mut watched = WatchedCompilation::begin(self.settings.watch.as_ref(), component.len());
        let compiled = self.compile_within_limits(component, order).await;
        watched.compiled = compiled.is_ok();
        compiled
    }

    async fn compile_within_limits(
        &self,
        component: &[u8],
        order: CompileOrder,
    ) -> Result<(EngineKind, Vec<u8>), Refusal> {
        let wall = if guard!("compile_time") {
            Duration::from_secs(self.cpu_seconds(component).saturating_mul(2).max(1))
        } else {
            Duration::MAX
        };
        match tokio::time::timeout(wall, self.run(component, order)).await {
            Ok(Ok((status, code, said))) => self.judge(component, status, code, &said),
            // As below, dropping the future killed the child.
            Ok(Err(error)) if error.is::<TooMuchCode>() => {
                Err(self.too_much(component, CompileLimit::Code))
            }
            Ok(Err(error)) => Err(Refusal::host_fault(format!("{error:#}"))),
            Err(_) => Err(self.too_much(component, CompileLimit::Time)),
        }
    }

    async fn run(
        &self,
        component: &[u8],
        order: CompileOrder,
    ) -> anyhow::Result<(ExitStatus, Vec<u8>, String)> {
        let settings = &self.settings;
        let mut child = Command::new(&settings.program)
            .args(&settings.arguments)
            .arg(
                if guard!("compile_time") {
                    self.cpu_seconds(component)
                } else {
                    1 << 20
                }
                .to_string(),
            )
            .arg(
                if guard!("compile_memory") {
                    self.memory_bytes(component)
                } else {
                    1 << 40
                }
                .to_string(),
            )
            .arg(std::process::id().to_string())
            .arg(<&str>::from(order.effort))
            .arg(<&str>::from(order.meter))
            .env_clear()
            .envs(toolcell_spec::guard::inherited())
            .envs([allocation(self.memory_bytes(component))])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Keeps an interrupt from the terminal from the child: it goes to the caller, who then stops the child.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start the compiler {}", settings.program.display()))?;
        let (mut input, output, errors) =
            match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
                (Some(input), Some(output), Some(errors)) => (input, output, errors),
                _ => anyhow::bail!("the compiler has no pipes"),
            };
        let send = async {
            // The exit status of a child that died early says why; the broken pipe adds nothing.
            let _ = input.write_all(component).await;
            drop(input);
            anyhow::Ok(())
        };
        let listen = async {
            let mut said = Vec::new();
            let mut errors = errors.take(8 << 10);
            errors
                .read_to_end(&mut said)
                .await
                .context("cannot read from the compiler")?;
            // The rest is dropped: a worker that could not write all of a long message would end with another status.
            let _ = tokio::io::copy(&mut errors.into_inner(), &mut tokio::io::sink()).await;
            anyhow::Ok(said)
        };
        let ((), code, said) =
            tokio::try_join!(send, code_of(output, self.code_bytes_max), listen)?;
        let status = child.wait().await.context("cannot wait for the compiler")?;
        Ok((
            status,
            code,
            String::from_utf8_lossy(&said).trim().to_owned(),
        ))
    }

    fn cpu_seconds(&self, component: &[u8]) -> u64 {
        self.settings.cpu_seconds.saturating_mul(parts(component))
    }

    fn memory_bytes(&self, component: &[u8]) -> u64 {
        self.settings.memory_bytes.saturating_mul(parts(component))
    }

    fn judge(
        &self,
        component: &[u8],
        status: ExitStatus,
        code: Vec<u8>,
        said: &str,
    ) -> Result<(EngineKind, Vec<u8>), Refusal> {
        use rustix::process::Signal;
        use std::os::unix::process::ExitStatusExt;
        match status.code() {
            Some(0) => return Ok((EngineKind::Pooled, code)),
            Some(EXTENDED) => return Ok((EngineKind::Extended, code)),
            Some(TIMED) => return Ok((EngineKind::Timed, code)),
            Some(FAULTY) if said.contains(NO_ROOM) => {
                return Err(self.too_much(component, CompileLimit::Memory));
            }
            Some(FAULTY) => return Err(Refusal::new(ErrorCode::ComponentInvalid, faulty(said))),
            Some(NO_COMMAND) => {
                return Err(Refusal::new(ErrorCode::ComponentInvalid, said.to_owned()));
            }
            Some(NOT_AVAILABLE) => {
                return Err(Refusal::new(ErrorCode::ImportNotAvailable, said));
            }
            Some(TOO_LARGE) => {
                return Err(starts_too_large(ErrorCode::MemoryLimit, said.to_owned()));
            }
            _ => {}
        }
        let ended = format!("the compiler ended with {status}: {said}");
        match status.signal().and_then(Signal::from_named_raw) {
            Some(Signal::XCPU) => Err(self.too_much(component, CompileLimit::Time)),
            Some(Signal::ABORT) if said.contains("memory allocation") => {
                Err(self.too_much(component, CompileLimit::Memory))
            }
            Some(Signal::KILL) => Err(self.killed(ended)),
            _ if crashed(status) => {
                let message = "the compiler crashed on the component; build it with less deeply nested types and code";
                Err(Refusal::new(ErrorCode::CompileCrash, message).detail(ended))
            }
            _ => Err(Refusal::host_fault(ended)),
        }
    }

    fn too_much(&self, component: &[u8], limit: CompileLimit) -> Refusal {
        let message = match limit {
            CompileLimit::Memory => {
                let bytes = self.memory_bytes(component);
                format!(
                    "compiling the component takes more than {bytes} bytes of memory; {RAISE} `memory` {WHERE}"
                )
            }
            CompileLimit::Time => {
                let seconds = self.cpu_seconds(component);
                let wall = seconds.saturating_mul(2);
                let most = format!("{seconds} s of CPU time, or {wall} s in total");
                format!("compiling the component takes more than {most}; {RAISE} `time` {WHERE}")
            }
            CompileLimit::Code => format!(
                "the compiled code of the component is larger than {} bytes",
                self.code_bytes_max
            ),
        };
        Refusal::new(ErrorCode::CompileLimit, message)
    }

    /// The kernel kills a worker when memory runs out before its own limit.
    fn killed(&self, ended: String) -> Refusal {
        let bytes = self.settings.memory_bytes;
        let message = format!(
            "the compiler was killed, as the kernel does when the machine or its container runs out of memory; give it more \
             memory, or lower `memory` {WHERE}, which is {bytes} bytes"
        );
        Refusal::new(ErrorCode::CompileKilled, message).detail(ended)
    }
}

fn parts(component: &[u8]) -> u64 {
    component.len().div_ceil(PART_BYTES).max(1) as u64
}

fn crashed(status: ExitStatus) -> bool {
    use rustix::process::Signal;
    use std::os::unix::process::ExitStatusExt;
    const FAULTS: [Signal; 6] = [
        Signal::SEGV,
        Signal::BUS,
        Signal::ILL,
        Signal::FPE,
        Signal::TRAP,
        Signal::ABORT,
    ];
    let signal = status.signal().and_then(Signal::from_named_raw);
    status.code() == Some(PANICKED) || signal.is_some_and(|signal| FAULTS.contains(&signal))
}

/// One for each processor, as far as `memory_bytes` allow; the CPU time limit counts them together.
fn threads(memory_bytes: u64) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    usize::try_from(memory_bytes / THREAD_BYTES)
        .unwrap_or(processors)
        .clamp(1, processors)
}

/// The limit applies to address space, of which the allocator would reserve a gigabyte. Without any reserve it maps 128
/// KiB at a time, which takes a twentieth of a compilation.
fn allocation(memory_bytes: u64) -> (&'static str, &'static str) {
    const RESERVE_KIB: &str = "65536";
    if memory_bytes >= 4 * THREAD_BYTES {
        ("MIMALLOC_ARENA_RESERVE", RESERVE_KIB)
    } else {
        ("MIMALLOC_DISALLOW_ARENA_ALLOC", "1")
    }
}

/// Waits until each thread runs: the filter forbids some of the system calls of a thread's start.
fn start_threads(memory_bytes: u64) -> anyhow::Result<()> {
    rayon_core::ThreadPoolBuilder::new()
        .num_threads(threads(memory_bytes))
        .stack_size(STACK_BYTES)
        .build_global()?;
    rayon_core::broadcast(|_| ());
    Ok(())
}

const RAISE: &str = "if you trust it, raise";
/// The compiler's words where its limit leaves no room for the component itself.
const NO_ROOM: &str = "cannot read the component: out of memory";
const WHERE: &str = "under [compile] in your own toolcell.toml";

#[derive(Clone, Copy)]
enum CompileLimit {
    Time,
    Memory,
    Code,
}

#[derive(Debug, thiserror::Error)]
#[error("the compiled code is larger than {0} bytes")]
struct TooMuchCode(u64);

/// Fails with [`TooMuchCode`] at once, because the compiler would wait for a reader.
async fn code_of(output: impl AsyncRead + Unpin, bytes_max: u64) -> anyhow::Result<Vec<u8>> {
    let mut code = Vec::new();
    output
        .take(bytes_max.saturating_add(1))
        .read_to_end(&mut code)
        .await
        .context("cannot read from the compiler")?;
    if code.len() as u64 > bytes_max {
        Err(TooMuchCode(bytes_max).into())
    } else {
        Ok(code)
    }
}

/// Parts of WebAssembly that the engine lacks, and the validator's words for them.
const LACKING: [(&str, &[&str]); 3] = [
    (
        "garbage collection",
        &[
            "gc proposal",
            "`gc` proposal",
            "without the gc",
            "gc feature",
        ],
    ),
    (
        "threads",
        &["threads must be enabled", "threads support", "shared memor"],
    ),
    ("stack switching", &["stack switching", "stack-switching"]),
];

fn faulty(said: &str) -> String {
    let needed = LACKING
        .iter()
        .find(|(_, phrases)| phrases.iter().any(|phrase| said.contains(phrase)));
    match needed {
        Some((what, _)) => {
            format!(
                "the component needs {what}, which toolcell does not have: {said}; build it without"
            )
        }
        None => format!("the component is not valid: {said}"),
    }
}

/// Refuses native code and too many bytes as well, without a compiler.
pub(super) fn refuse_what_is_no_component(bytes: &[u8]) -> Result<(), Refusal> {
    if guard!("native_code") && wasmtime::Engine::detect_precompiled(bytes).is_some() {
        return Err(Refusal::new(
            ErrorCode::ComponentPrecompiled,
            "native code is never accepted; give the .wasm file".to_owned(),
        ));
    }
    if bytes.len() as u64 > component_bytes_max() {
        let message = format!(
            "the component has {} bytes, {}",
            bytes.len(),
            larger_than_allowed()
        );
        return Err(Refusal::new(ErrorCode::ComponentTooLarge, message)
            .with_class(ErrorClass::SandboxViolation));
    }
    match bytes.get(..8) {
        Some([0, b'a', b's', b'm', 0x0d, 0, 1, 0]) => Ok(()),
        // The compiler's process looks at it.
        _ if adapt::is_module(bytes) => Ok(()),
        _ => Err(Refusal::new(
            ErrorCode::ComponentInvalid,
            "this is not a WebAssembly component".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {

    use std::path::PathBuf;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;
    use toolcell_spec::ErrorCode;

    use super::worker::CompilerEngines;
    use super::{
        Compilation, CompileEffort, CompileOrder, Compiler, CompilerSettings, EngineKind, Meter,
        code_of,
    };

    const QUICK: CompileOrder = CompileOrder {
        effort: CompileEffort::Quick,
        meter: Meter::Fuel,
    };

    #[test]
    fn only_a_component_that_needs_concurrency_or_exceptions_is_compiled_for_the_slower_engine() {
        let compiled = |text: &str| {
            CompilerEngines::new(CompileOrder::thorough(Meter::Fuel))
                .unwrap()
                .compile(&wat::parse_str(text).unwrap(), false)
        };
        assert_eq!(compiled("(component)").unwrap().0, EngineKind::Pooled);
        for needs_it in [
            r#"(component (import "f" (func async)))"#,
            r#"(component (type (stream u8)))"#,
            r#"(component (core func (canon task.return)))"#,
            r#"(component (core module (tag)))"#,
        ] {
            assert_eq!(
                compiled(needs_it).unwrap().0,
                EngineKind::Extended,
                "{needs_it}"
            );
            let timed = CompilerEngines::new(CompileOrder::thorough(Meter::Time))
                .unwrap()
                .compile(&wat::parse_str(needs_it).unwrap(), false);
            assert_eq!(timed.unwrap().0, EngineKind::Timed, "{needs_it}");
        }
        let error =
            compiled(r#"(component (type (stream u8)) (export "x" (func 7)))"#).unwrap_err();
        assert!(format!("{error:#}").contains("unknown"), "{error:#}");
    }

    #[tokio::test]
    async fn a_long_message_of_the_worker_is_cut_and_does_not_change_its_status() {
        let script = "i=0; while [ $i -lt 4000 ]; do echo 'the name of an import, which a component chose' >&2 || exit 1; \
            i=$((i+1)); done; exit 65";
        let settings = CompilerSettings {
            program: PathBuf::from("/bin/sh"),
            arguments: ["-c", script].map(str::to_owned).to_vec(),
            cpu_seconds: 60,
            memory_bytes: 1 << 30,
            watch: None,
        };
        let refusal = Compiler::new(settings)
            .compile(b"", QUICK)
            .await
            .unwrap_err();
        assert_eq!(refusal.code, ErrorCode::ComponentInvalid, "{refusal:?}");
        assert!(
            refusal.message.len() < 9 << 10,
            "{} bytes",
            refusal.message.len()
        );
    }

    #[tokio::test]
    async fn a_component_that_crashes_or_exhausts_the_worker_is_refused_and_other_ends_are_faults_of_the_host()
     {
        for (end, code) in [
            ("kill -SEGV $$", "compile_crash"),
            (
                "echo 'has overflowed its stack' >&2; kill -ABRT $$",
                "compile_crash",
            ),
            ("exit 101", "compile_crash"),
            (
                "echo 'memory allocation of 9 bytes failed' >&2; kill -ABRT $$",
                "compile_limit",
            ),
            ("kill -XCPU $$", "compile_limit"),
            ("kill -KILL $$", "compile_killed"),
            ("kill -TERM $$", "host_fault"),
            ("exit 71", "host_fault"),
        ] {
            let settings = CompilerSettings {
                program: PathBuf::from("/bin/sh"),
                arguments: ["-c", end].map(str::to_owned).to_vec(),
                cpu_seconds: 60,
                memory_bytes: 1 << 30,
                watch: None,
            };
            let refusal = Compiler::new(settings)
                .compile(b"", QUICK)
                .await
                .unwrap_err();
            assert_eq!(refusal.code.as_str(), code, "{end}: {refusal:?}");
        }
    }

    #[tokio::test]
    async fn code_has_a_limit_of_its_own() {
        assert_eq!(code_of(&b"1234"[..], 4).await.unwrap(), b"1234");
        assert!(code_of(&b"12345"[..], 4).await.is_err());
        let settings = CompilerSettings {
            program: PathBuf::from("/bin/sh"),
            arguments: ["-c", "while :; do echo code; done"]
                .map(str::to_owned)
                .to_vec(),
            cpu_seconds: 600,
            memory_bytes: 1 << 30,
            watch: None,
        };
        let compiler = Compiler {
            code_bytes_max: 1_000,
            ..Compiler::new(settings)
        };
        let compiled =
            tokio::time::timeout(Duration::from_secs(60), compiler.compile(b"", QUICK)).await;
        let refusal = compiled.unwrap().unwrap_err();
        assert_eq!(refusal.code, ErrorCode::CompileLimit);
        assert!(
            refusal.message.contains("code") && refusal.message.contains("1000 bytes"),
            "{}",
            refusal.message
        );
    }

    #[test]
    fn threads_fit_into_the_memory() {
        let processors = std::thread::available_parallelism().unwrap().get();
        assert_eq!(
            (super::threads(160 << 20), super::threads(u64::MAX)),
            (1, processors)
        );
        assert_eq!(super::threads(512 << 20), processors.min(2));
    }

    #[tokio::test]
    async fn both_ends_of_a_compilation_are_reported_also_of_one_that_is_dropped() {
        let steps = Arc::new(Mutex::new(Vec::new()));
        let compiler = |script: &str| {
            let steps = Arc::clone(&steps);
            Compiler::new(CompilerSettings {
                program: PathBuf::from("/bin/sh"),
                arguments: ["-c", script].map(str::to_owned).to_vec(),
                cpu_seconds: 600,
                memory_bytes: 1 << 30,
                watch: Some(Arc::new(move |step| steps.lock().unwrap().push(step))),
            })
        };
        let ended = |compiled: bool| {
            let steps = std::mem::take(&mut *steps.lock().unwrap());
            let [begun, Compilation::Ends { compiled: said, .. }] = steps[..] else {
                panic!("{steps:?}")
            };
            assert_eq!((begun, said), (Compilation::Begins { bytes: 3 }, compiled));
        };
        compiler("cat").compile(b"abc", QUICK).await.unwrap();
        ended(true);
        compiler("exit 1").compile(b"abc", QUICK).await.unwrap_err();
        ended(false);
        let slow = compiler("sleep 600");
        assert!(
            tokio::time::timeout(Duration::from_millis(50), slow.compile(b"abc", QUICK))
                .await
                .is_err()
        );
        ended(false);
    }
}
