//! A private sysroot that adds the guest's target to the system's Rust: a wrapper of the packaged compiler, links to
//! its libraries, and a standard library compiled once from the packaged sources. Nothing below /usr is changed.

use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::build::run_cargo;
use super::find::{Toolchain, ToolchainSearch, standard_library};
use super::{ProgressSink, TARGET, process, toolchain_cache};

/// Paths of the distribution's packages. PATH is not searched, because rustup's proxies usually come first there.
pub(super) const SYSTEM_RUSTC: &str = "/usr/bin/rustc";
pub(super) const SYSTEM_CARGO: &str = "/usr/bin/cargo";
/// A symbolic link to the linker of the LLVM version that this rustc uses.
pub(super) const SYSTEM_LINKER: &str = "/usr/bin/rust-lld";

const FORMAT: u32 = 1;
const QUESTION: Duration = Duration::from_secs(20);

/// Written last into a finished sysroot, which is usable only while this still holds.
#[derive(Serialize, Deserialize)]
struct SysrootStamp {
    /// Identifies this build, so that two builds of the same versions do not share compiled guests.
    id: String,
    #[serde(flatten)]
    system: SystemRust,
}

/// The system's compiler, as it was when the sysroot was made.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct SystemRust {
    format: u32,
    system_rustc: FileMark,
    system_linker: PathBuf,
}

/// A system file as `stat` reports it; both fields are `None` if the file does not exist.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct FileMark {
    /// Nanoseconds since 1970.
    modified: Option<i64>,
    bytes: Option<u64>,
}

impl SystemRust {
    /// Fails if there is no linker.
    fn now() -> Result<Self> {
        let rustc = std::fs::metadata(SYSTEM_RUSTC).ok();
        let modified = |file: &Metadata| file.mtime() * 1_000_000_000 + file.mtime_nsec();
        Ok(Self {
            format: FORMAT,
            system_rustc: FileMark {
                modified: rustc.as_ref().map(modified),
                bytes: rustc.map(|file| file.len()),
            },
            system_linker: std::fs::canonicalize(SYSTEM_LINKER)
                .with_context(|| format!("cannot find {SYSTEM_LINKER}"))?,
        })
    }
}

fn folder(cache_dir: &Path) -> PathBuf {
    toolchain_cache::home(cache_dir).join("rust")
}

/// Returns the finished sysroot, checked with a few stat calls and without a process. The error says what is missing or
/// outdated.
pub(super) fn ready(search: &ToolchainSearch) -> Result<Toolchain> {
    let root = folder(&search.cache_dir);
    // An absolute path, because cargo runs rustc in other folders.
    let root = std::fs::canonicalize(&root)
        .ok()
        .context("no sysroot was set up yet")?;
    let text =
        std::fs::read_to_string(root.join("stamp.json")).context("the sysroot has no stamp")?;
    let stamp: SysrootStamp =
        serde_json::from_str(&text).context("the sysroot's stamp cannot be read")?;
    if stamp.system != SystemRust::now()? {
        bail!("the system's Rust, or toolcell, has changed since");
    }
    let rustc = root.join("bin/rustc");
    let library = root.join("lib/rustlib").join(TARGET).join("lib");
    if !process::is_executable(&rustc) || standard_library(&library).is_none() {
        bail!("the sysroot is incomplete");
    }
    let cargo = PathBuf::from(SYSTEM_CARGO);
    if !process::is_executable(&cargo) {
        bail!("{SYSTEM_CARGO} is gone");
    }
    Ok(Toolchain::new(cargo, Some(rustc), &stamp.id, &search.path))
}

/// Compiles the standard library and puts the sysroot in place. The caller holds the lock.
pub(super) fn build(search: &ToolchainSearch, wasi_libc: &Path, say: ProgressSink) -> Result<()> {
    let home = toolchain_cache::home(&search.cache_dir);
    let temporary = toolchain_cache::temporary(&home)?;
    let root = std::fs::canonicalize(temporary.path())?.join("rust");
    let version = ask(search, &["--version"])?;
    say(&format!(
        "compiling Rust's standard library for {TARGET} ({version}), once: about a minute"
    ));
    let started = std::time::Instant::now();
    lay_out(search, &root, wasi_libc)?;
    let seed = root.join("build");
    compile(search, &root, &seed, say)?;
    let libraries = root.join("lib/rustlib").join(TARGET).join("lib");
    keep_libraries(
        &seed.join("target").join(TARGET).join("release/deps"),
        &libraries,
    )?;
    std::fs::remove_dir_all(&seed).context("cannot remove the build folder")?;

    let since_epoch = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let wasi_libc = std::fs::read_to_string(wasi_libc.join("VERSION")).unwrap_or_default();
    let wasi_libc = wasi_libc.trim();
    let stamp = SysrootStamp {
        id: format!("{version} {wasi_libc} {}", since_epoch.as_nanos()),
        system: SystemRust::now()?,
    };
    std::fs::write(root.join("stamp.json"), serde_json::to_vec_pretty(&stamp)?)
        .context("cannot write the stamp")?;

    let place = folder(&search.cache_dir);
    if place.symlink_metadata().is_ok() {
        std::fs::rename(&place, temporary.path().join("old"))
            .context("cannot move the old sysroot away")?;
    }
    std::fs::rename(&root, &place).context("cannot put the sysroot in place")?;
    say(&format!(
        "the standard library is ready ({} s)",
        started.elapsed().as_secs()
    ));
    Ok(())
}

/// Runs the system's rustc with `args` and returns what it prints.
fn ask(search: &ToolchainSearch, args: &[&str]) -> Result<String> {
    let mut question = process::command(Path::new(SYSTEM_RUSTC), &search.path);
    question.args(args);
    let answer = process::output(question, Some(QUESTION))?.text();
    answer.with_context(|| format!("{SYSTEM_RUSTC} does not work"))
}

fn lay_out(search: &ToolchainSearch, root: &Path, wasi_libc: &Path) -> Result<()> {
    let system = PathBuf::from(ask(search, &["--print", "sysroot"])?).join("lib/rustlib");
    let sources = system.join("src");
    if !sources.join("rust/library/std").is_dir() {
        bail!(
            "the sources of the standard library are not in {}: package rust-web-src is incomplete",
            sources.display()
        );
    }
    let host = ask(search, &["--version", "--verbose"])?;
    let host = host
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .context("rustc did not name its host")?;
    let own = root.join("lib/rustlib");
    let contained = own.join(TARGET).join("lib/self-contained");
    std::fs::create_dir_all(&contained).context("cannot create the sysroot")?;
    std::fs::create_dir_all(root.join("bin"))?;
    // The host's library for procedural macros, and the linkers.
    symlink(system.join(host), own.join(host)).context("cannot link the host's library")?;
    symlink(&sources, own.join("src")).context("cannot link the sources")?;
    for file in ["crt1-command.o", "crt1-reactor.o", "libc.a"] {
        let from = wasi_libc.join("lib").join(TARGET).join(file);
        std::fs::copy(&from, contained.join(file))
            .with_context(|| format!("cannot copy {}", from.display()))?;
    }
    let rustc = root.join("bin/rustc");
    // The folder is renamed when it is complete, so the script must not contain its path.
    let script = format!(
        "#!/bin/sh\nd=$(cd \"${{0%/*}}/..\" && pwd -P) && exec {SYSTEM_RUSTC} --sysroot \"$d\" \"$@\"\n"
    );
    std::fs::write(&rustc, script).context("cannot write the compiler's wrapper")?;
    std::fs::set_permissions(&rustc, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}

fn compile(search: &ToolchainSearch, root: &Path, seed: &Path, say: ProgressSink) -> Result<()> {
    std::fs::create_dir_all(seed.join("src"))?;
    let manifest =
        "[package]\nname = \"std-seed\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[workspace]\n";
    std::fs::write(seed.join("Cargo.toml"), manifest)?;
    std::fs::write(seed.join("src/lib.rs"), "")?;
    // The dependencies of std come from cargo's registry, checked against the checksums in the sources' own lock file,
    // because the packaged copies lack a prebuilt part.
    let mut command = process::command(Path::new(SYSTEM_CARGO), &search.path);
    command.args([
        "build",
        "--release",
        "--color",
        "never",
        "-Zbuild-std=std,panic_abort",
        "--target",
        TARGET,
    ]);
    // Bitcode lets guests use link-time optimisation. \x1f separates the flags, because a path may contain spaces.
    let flags = [
        "-Cembed-bitcode=yes",
        "-Cdebuginfo=0",
        &format!("--remap-path-prefix={}=/rust", root.display()),
    ];
    command
        .current_dir(seed)
        .env("RUSTC", root.join("bin/rustc"))
        // Only for std, whose sources need it; guests are built without it.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_DIR", seed.join("target"))
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    let (status, complaint) = run_cargo(command, &mut |_| (), &mut |line| {
        // Leaves out the folder of each package, which is temporary.
        say(line.split_once(" (").map_or(line, |(short, _)| short));
    })?;
    if !status.success() {
        bail!("the standard library did not compile:\n{complaint}");
    }
    Ok(())
}

fn keep_libraries(from: &Path, to: &Path) -> Result<()> {
    for file in std::fs::read_dir(from).context("cannot read the compiled libraries")? {
        let file = file?;
        let name = file.file_name();
        let text = name.to_string_lossy();
        if text.ends_with(".rlib") && !text.starts_with("libstd_seed") {
            std::fs::copy(file.path(), to.join(&name))
                .with_context(|| format!("cannot keep {text}"))?;
        }
    }
    if standard_library(to).is_none() {
        bail!("cargo reported success, but made no libstd for {TARGET}");
    }
    Ok(())
}
