//! Runs other programs with a time limit, without the environment of an outer cargo, and reads their output by lines.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use super::ProgressSink;

const TICK: Duration = Duration::from_millis(20);

/// A daemon that a child left behind holds the pipe open for ever.
const GRACE: Duration = Duration::from_millis(500);

/// Of each stream, and of a line, in bytes: the rest of a stream is read and dropped, a longer line comes in pieces. The
/// metadata of a large workspace is one line of some megabytes.
const OUTPUT_BYTES_MAX: usize = 64 << 20;

/// The program can clean up before SIGKILL.
const STOP: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputPipe {
    Out,
    Err,
}

/// How a program ended, and what it printed.
pub struct ProgramOutput {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

impl ProgramOutput {
    pub(super) fn text(self) -> Result<String> {
        if self.status.success() {
            Ok(self.out.trim().to_owned())
        } else {
            bail!(self.reason())
        }
    }

    pub(super) fn reason(&self) -> String {
        last_line(&self.err)
            .or_else(|| last_line(&self.out))
            .map_or_else(|| self.status.to_string(), str::to_owned)
    }
}

/// The last line of `text` that is not empty: most programs put their reason there.
pub fn last_line(text: &str) -> Option<&str> {
    text.lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty())
}

/// The first executable file called `name` in the folders of `path`. A relative folder, such as an empty entry, is skipped:
/// it is in the current folder, which can be an untrusted project.
pub fn which(name: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|file| {
            std::fs::metadata(file)
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        })
}

/// Variables of a cargo that may have started this process are removed.
pub(super) fn command(program: &Path, path: &OsStr) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if leaks(&name) {
            command.env_remove(name);
        }
    }
    // `cargo run` and `cargo test` add the folders of their own toolchain, from which another rustc must not load
    // libraries.
    if std::env::var_os("CARGO").is_some() {
        command
            .env_remove("LD_LIBRARY_PATH")
            .env_remove("DYLD_FALLBACK_LIBRARY_PATH");
    }
    command.env("PATH", path);
    command
}

/// `true` if a variable configures one particular build, and would affect the guest's build by accident.
fn leaks(name: &OsStr) -> bool {
    const NAMES: [&str; 16] = [
        "CARGO",
        "CARGO_CRATE_NAME",
        "CARGO_ENCODED_RUSTDOCFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_MAKEFLAGS",
        "CARGO_PRIMARY_PACKAGE",
        "CARGO_TARGET_DIR",
        "CARGO_TARGET_TMPDIR",
        "RUSTC",
        "RUSTC_BOOTSTRAP",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTC_WRAPPER",
        "RUSTDOC",
        "RUSTFLAGS",
        "RUSTUP_TOOLCHAIN",
        "RUST_RECURSION_COUNT",
    ];
    const BEGINNINGS: [&str; 6] = [
        "CARGO_BIN_",
        "CARGO_BUILD_",
        "CARGO_CFG_",
        "CARGO_FEATURE_",
        "CARGO_MANIFEST_",
        "CARGO_PKG_",
    ];
    let Some(name) = name.to_str() else {
        return false;
    };
    // A limit on the machine's load applies to every build.
    name != "CARGO_BUILD_JOBS"
        && (NAMES.contains(&name) || BEGINNINGS.iter().any(|start| name.starts_with(start)))
}

/// Runs `command` for at most `limit`, and returns what it printed.
pub fn output(command: Command, limit: Option<Duration>) -> Result<ProgramOutput> {
    let mut out = String::new();
    let mut err = String::new();
    let status = run(command, limit, &mut |stream, line| {
        let kept = match stream {
            OutputPipe::Out => &mut out,
            OutputPipe::Err => &mut err,
        };
        if kept.len() + line.len() < OUTPUT_BYTES_MAX {
            *kept += line;
            kept.push('\n');
        }
    })?;
    Ok(ProgramOutput { status, out, err })
}

/// The failure is the last line of standard error; of apt, the last that begins as its errors do, because advice
/// follows.
pub(super) fn follow(command: Command, limit: Option<Duration>, say: ProgressSink) -> Result<()> {
    let mut last = String::new();
    let status = run(command, limit, &mut |stream, line| {
        if stream == OutputPipe::Err && !line.trim().is_empty() {
            say(line);
            if line.starts_with("E: ") || !last.starts_with("E: ") {
                line.trim().clone_into(&mut last);
            }
        }
    })?;
    match (status.success(), last.is_empty()) {
        (true, _) => Ok(()),
        (false, true) => bail!("{status}"),
        (false, false) => bail!(last),
    }
}

/// A `limit` gives the program a process group, which is stopped as a whole.
pub(super) fn run(
    mut command: Command,
    limit: Option<Duration>,
    on_line: &mut dyn FnMut(OutputPipe, &str),
) -> Result<ExitStatus> {
    let shown = shown(&command);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if limit.is_some() {
        command.process_group(0);
    }
    let mut child = spawn(&mut command).with_context(|| format!("cannot start `{shown}`"))?;
    let deadline = limit.map(|limit| Instant::now() + limit);
    let is_over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    let lines = read_lines(&mut child);
    let mut ended: Option<Instant> = None;
    loop {
        match lines.recv_timeout(TICK) {
            Ok((stream, line)) => on_line(stream, &line),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if ended.is_some_and(|at| at.elapsed() > GRACE) => break,
            Err(RecvTimeoutError::Timeout) => {
                if ended.is_none() && has_ended(&mut child)? {
                    ended = Some(Instant::now());
                }
            }
        }
        if ended.is_none() && is_over() {
            break;
        }
    }
    while !is_over() && !has_ended(&mut child)? {
        std::thread::sleep(TICK.min(Duration::from_millis(2)));
    }
    if let Some(status) = child
        .try_wait()
        .with_context(|| format!("cannot wait for `{shown}`"))?
    {
        return Ok(status);
    }
    stop(&mut child)?;
    bail!(
        "`{shown}` did not end within {} s and was stopped",
        limit.unwrap_or_default().as_secs()
    )
}

fn has_ended(child: &mut Child) -> Result<bool> {
    Ok(child
        .try_wait()
        .context("cannot wait for a program")?
        .is_some())
}

/// Stops the whole process group.
fn stop(child: &mut Child) -> Result<()> {
    let group = Pid::from_child(child);
    kill_process_group(group, Signal::TERM).ok();
    let asked = Instant::now();
    while asked.elapsed() < STOP && !has_ended(child)? {
        std::thread::sleep(TICK);
    }
    // Other processes of the group may survive the leader.
    kill_process_group(group, Signal::KILL).ok();
    child.wait().context("cannot wait for a stopped program")?;
    Ok(())
}

/// Retries if the program is busy: a thread that forks at the wrong moment keeps a freshly written program open for
/// writing.
fn spawn(command: &mut Command) -> std::io::Result<Child> {
    for _ in 0..10 {
        match command.spawn() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => std::thread::sleep(TICK),
            other => return other,
        }
    }
    command.spawn()
}

fn read_lines(child: &mut Child) -> Receiver<(OutputPipe, String)> {
    let (sender, receiver) = sync_channel(256);
    if let Some(out) = child.stdout.take() {
        read_from(out, OutputPipe::Out, sender.clone());
    }
    if let Some(err) = child.stderr.take() {
        read_from(err, OutputPipe::Err, sender);
    }
    receiver
}

fn read_from(
    source: impl Read + Send + 'static,
    stream: OutputPipe,
    sender: SyncSender<(OutputPipe, String)>,
) {
    std::thread::spawn(move || {
        let mut source = BufReader::new(source);
        let mut line = Vec::new();
        let mut next = |line: &mut Vec<u8>| {
            let mut piece = source.by_ref().take(OUTPUT_BYTES_MAX as u64);
            matches!(piece.read_until(b'\n', line), Ok(1..))
        };
        while next(&mut line) {
            let text = String::from_utf8_lossy(&line)
                .trim_end_matches(['\n', '\r'])
                .to_owned();
            line.clear();
            if sender.send((stream, text)).is_err() {
                return;
            }
        }
    });
}

pub(super) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let words = [program
        .file_name()
        .map_or_else(|| program.as_os_str().to_owned(), OsString::from)]
    .into_iter()
    .chain(command.get_args().map(OsStr::to_owned));
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::shim::ShimPrograms;
    use super::*;

    #[test]
    fn what_steers_an_outer_build_is_removed_and_what_a_user_sets_for_every_build_stays() {
        for gone in [
            "RUSTC",
            "RUSTFLAGS",
            "RUSTUP_TOOLCHAIN",
            "CARGO_PKG_NAME",
            "CARGO_BUILD_TARGET",
            "CARGO",
        ] {
            assert!(leaks(OsStr::new(gone)), "{gone}");
        }
        for kept in [
            "CARGO_HOME",
            "RUSTUP_HOME",
            "CARGO_BUILD_JOBS",
            "CARGO_NET_OFFLINE",
            "PATH",
            "HOME",
        ] {
            assert!(!leaks(OsStr::new(kept)), "{kept}");
        }
    }

    #[test]
    fn a_relative_folder_has_no_program() {
        assert!(which("sh", "/bin".as_ref()).is_some());
        let up = format!("{}bin", "../".repeat(40));
        assert!(Path::new(&up).join("sh").exists());
        for path in ["", ".", &up, &format!("::{up}:/nowhere")] {
            assert_eq!(which("sh", path.as_ref()), None, "{path}");
        }
    }

    #[test]
    fn a_program_that_does_not_end_is_stopped_with_its_children() {
        let programs = ShimPrograms::new().with("hang", "sleep 600 & echo $!; wait");
        let started = Instant::now();
        let mut child = String::new();
        let error = run(
            programs.command("hang"),
            Some(Duration::from_millis(200)),
            &mut |_, line| {
                child = line.to_owned();
            },
        )
        .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("`hang` did not end within 0 s and was stopped"),
            "{error}"
        );
        assert!(started.elapsed() < Duration::from_secs(10));
        // It may remain a zombie until its new parent reaps it.
        let lives = || {
            let state = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            !state.is_empty() && !state.contains(") Z")
        };
        let asked = Instant::now();
        while lives() && asked.elapsed() < Duration::from_secs(5) {
            std::thread::yield_now();
        }
        assert!(
            !child.is_empty() && !lives(),
            "the child of the stopped program still lives"
        );
    }

    #[test]
    fn a_daemon_that_keeps_the_output_open_does_not_keep_us() {
        let programs = ShimPrograms::new().with("leaver", "sleep 5 & echo done");
        let started = Instant::now();
        let output = output(programs.command("leaver"), Some(Duration::from_secs(60))).unwrap();
        assert_eq!(output.out, "done\n");
        assert!(output.status.success() && started.elapsed() < Duration::from_secs(4));
    }

    #[test]
    fn the_reason_is_the_last_line_said() {
        let programs = ShimPrograms::new().with(
            "fails",
            "echo fine; echo 'error: no route' >&2; echo >&2; exit 3",
        );
        let output = output(programs.command("fails"), Some(Duration::from_secs(60))).unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(output.reason(), "error: no route");
    }
}
