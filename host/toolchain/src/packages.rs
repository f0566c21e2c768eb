//! Rust from the packages of Debian and its derivatives: the packaged compiler with a sysroot of its own, whose standard
//! library for the guest is compiled once from the packaged sources, over a current C library from the same mirror. apt
//! checks the signature of every package, and toolcell itself changes nothing below /usr.

use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::build::run_cargo;
use super::find::{Toolchain, ToolchainSearch, standard_library};
use super::toolchain_cache::{SetUp, ToolchainPart};
use super::{ProgressSink, TARGET, process};

pub(super) const NAMES: [&str; 5] = [
    "rustc-web",
    "cargo-web",
    "rust-web-src",
    "rust-web-llvm",
    "ca-certificates",
];

pub(super) static PART: ToolchainPart = ToolchainPart {
    name: "debian-rust",
    contents: "Rust with the target wasm32-wasip2",
    registry: "packages of the system, which root installs",
    download_mb: 240,
    disk_mb: 900,
    needs: &[
        ("apt-get", ON_DEBIAN),
        ("dpkg-query", ON_DEBIAN),
        ("dpkg-deb", ON_DEBIAN),
    ],
    made_of: system_rust,
    set_up,
};
const ON_DEBIAN: &str = "this way exists on Debian and its kin only";

/// Bookworm's wasi-libc claims memory that is already in use, so that every file operation of a guest linked with it
/// fails.
const WASI_LIBC_SUITE: &str = "trixie-backports";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Paths of the distribution's packages. PATH is not searched, because rustup's proxies usually come first there.
const SYSTEM_RUSTC: &str = "/usr/bin/rustc";
const SYSTEM_CARGO: &str = "/usr/bin/cargo";
/// A symbolic link to the linker of the LLVM version that this rustc uses.
const SYSTEM_LINKER: &str = "/usr/bin/rust-lld";
const QUESTION: Duration = Duration::from_secs(60);
const DOWNLOAD: Duration = Duration::from_secs(120);
/// Limits for what would otherwise hang: a silent mirror, or another package manager at work. Times are in seconds.
const WAITS: [&str; 9] = [
    "-qq",
    "-o",
    "Acquire::Retries=2",
    "-o",
    "Acquire::http::Timeout=30",
    "-o",
    "Acquire::https::Timeout=30",
    "-o",
    "DPkg::Lock::Timeout=120",
];

/// The system's compiler, cargo and linker as `stat` reports them: a sysroot is usable only while they are what it was made of.
fn system_rust() -> String {
    let stat = |file: &str| {
        std::fs::metadata(file).map(|file| (file.mtime_nsec(), file.mtime(), file.len()))
    };
    format!(
        "{:?} {:?}",
        stat(SYSTEM_RUSTC).ok(),
        stat(SYSTEM_LINKER).ok()
    )
}

/// The toolchain that was set up, checked with a few stat calls and without a process.
pub(super) fn ready(search: &ToolchainSearch) -> Result<Toolchain> {
    ensure!(
        PART.is_ready(search),
        "not set up yet, or for another Rust of the system"
    );
    // An absolute path, because cargo runs rustc in other folders.
    let rustc = std::path::absolute(PART.folder(search))?.join("bin/rustc");
    let made = std::fs::metadata(&rustc).context("the sysroot is incomplete")?;
    // Two builds of the same versions do not share compiled guests.
    let id = format!("{} {} {}", system_rust(), made.mtime(), made.mtime_nsec());
    Ok(Toolchain::new(
        SYSTEM_CARGO.into(),
        Some(rustc),
        &id,
        &search.path,
    ))
}

pub(super) fn find(search: &ToolchainSearch, say: ProgressSink) -> Result<Toolchain> {
    PART.ready(search, say)?;
    ready(search)
}

/// The packages that are not installed.
pub(super) fn missing<'n>(search: &ToolchainSearch, names: &[&'n str]) -> Result<Vec<&'n str>> {
    let mut query = search.command(&search.program("dpkg-query").context(ON_DEBIAN)?);
    // The command fails for an unknown name, but still lists the others.
    query
        .args(["--show", "--showformat=${Package} ${db:Status-Status}\\n"])
        .args(names);
    let answer = process::output(query, Some(QUESTION))?.out;
    let is_installed = |name: &str| {
        answer
            .lines()
            .any(|line| line == format!("{name} installed"))
    };
    Ok(names
        .iter()
        .copied()
        .filter(|name| !is_installed(name))
        .collect())
}

fn set_up(part: &SetUp, say: ProgressSink) -> Result<()> {
    // All of them, because the compiler and the sources must be of one version.
    install(part.search, &NAMES, say)?;
    // The name of the linker's package contains the version of LLVM; the target of the link tells which.
    let link = std::fs::read_link(SYSTEM_LINKER)
        .with_context(|| format!("{SYSTEM_LINKER}, which rust-web-llvm brings, is missing"))?;
    let linker = link.file_name().and_then(OsStr::to_str);
    install(
        part.search,
        &[linker.context("name the linker's package")?],
        say,
    )?;
    say(&format!(
        "fetching wasi-libc, the guest's C library, from {WASI_LIBC_SUITE}"
    ));
    let libc = wasi_libc(part).with_context(|| {
        format!("fetch wasi-libc from {WASI_LIBC_SUITE} on the system's own mirror")
    })?;
    lay_out(part, &libc)?;
    say(&format!(
        "compiling Rust's standard library for {TARGET}, once: about a minute"
    ));
    compile(part, say)
}

fn install(search: &ToolchainSearch, names: &[&str], say: ProgressSink) -> Result<()> {
    if missing(search, names)?.is_empty() {
        return Ok(());
    }
    say(&format!("installing {}", names.join(", ")));
    // An unrelated package source may be broken; the installation shows whether the lists suffice.
    if let Err(reason) = as_root(search, &["update"], say) {
        say(&format!("{reason:#}; trying with the lists as they are"));
    }
    let install = ["install", "--yes", "--no-install-recommends", "--no-remove"];
    as_root(search, &[&install, names].concat(), say).with_context(|| {
        format!(
            "install packages. Debian has them since release 12; where they clash with installed ones, nothing is \
             removed. By hand: {}",
            by_hand(names)
        )
    })
}

/// The command that installs packages.
pub(super) fn by_hand(names: &[&str]) -> String {
    format!(
        "sudo apt-get update && sudo apt-get install {}",
        names.join(" ")
    )
}

/// Runs apt-get without a time limit, because a package manager that is killed half-way leaves repairs to the user. With
/// [`WAITS`] it gives up by itself.
fn as_root(search: &ToolchainSearch, words: &[&str], say: ProgressSink) -> Result<()> {
    let mut command = search.command(Path::new("/usr/bin/env"));
    if !rustix::process::geteuid().is_root() {
        let sudo = search
            .program("sudo")
            .context("only root may install packages, and there is no sudo")?;
        command = search.command(&sudo);
        // It drops the environment, so env sets the variables.
        command.args(["--non-interactive", "/usr/bin/env"]);
    }
    command
        .args(["LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"])
        .arg(search.program("apt-get")?)
        .args(WAITS)
        .args(words);
    let verb = words.first().copied().unwrap_or_default();
    process::follow(command, None, say).with_context(|| format!("apt-get {verb} failed"))
}

/// Downloads and unpacks a current wasi-libc, and returns the folder of its libraries. apt gets a root of its own, so that
/// the system's lists and archives stay unchanged.
fn wasi_libc(part: &SetUp) -> Result<PathBuf> {
    ensure!(
        Path::new(KEYRING).is_file(),
        "the keys that sign Debian's packages are missing. Run: sudo apt-get install debian-archive-keyring"
    );
    let mut query = part.command("apt-get")?;
    query.args([
        "indextargets",
        "--format",
        "$(REPO_URI)",
        "Created-By: Packages",
    ]);
    let answer = text(query)?;
    let mirror = mirror_in(&answer).context(
        "no mirror of Debian among the system's package sources, so wasi-libc cannot be fetched",
    )?;
    // Within the folder that is removed at the end.
    let root = part.folder.join("build/apt");
    for folder in [
        "etc/apt",
        "var/lib/apt/lists/partial",
        "var/cache/apt/archives/partial",
    ] {
        std::fs::create_dir_all(root.join(folder))?;
    }
    let source = format!("deb [signed-by={KEYRING}] {mirror} {WASI_LIBC_SUITE} main\n");
    std::fs::write(root.join("etc/apt/sources.list"), source)?;
    for words in [&["update"][..], &["download", "wasi-libc"]] {
        let mut apt = part.command("apt-get")?;
        apt.current_dir(&root)
            .arg("-o")
            .arg(format!("Dir={}", root.display()));
        for setting in [
            "Dir::State::status=/dev/null",
            "Acquire::Languages=none",
            "APT::Update::Error-Mode=any",
            // Its unprivileged user could not write into this folder.
            "APT::Sandbox::User=root",
        ] {
            apt.args(["-o", setting]);
        }
        apt.args(WAITS).args(words);
        text(apt)?;
    }
    let mut files = std::fs::read_dir(&root)?.flatten().map(|file| file.path());
    let package = files.find(|file| file.extension() == Some(OsStr::new("deb")));
    let mut unpack = part.command("dpkg-deb")?;
    unpack
        .arg("-x")
        .arg(package.context("apt-get download brought no package")?)
        .arg(&root);
    text(unpack)?;
    Ok(root.join("usr/lib").join(TARGET))
}

/// Security updates and other projects have mirrors of their own.
fn mirror_in(uris: &str) -> Option<&str> {
    let mut uris = uris.lines().map(|line| line.trim_end_matches('/'));
    uris.find(|uri| {
        uri.ends_with("/debian") || (uri.starts_with("mirror+") && uri.ends_with("/debian.list"))
    })
}

/// Makes the sysroot: a wrapper of the packaged compiler, links to its libraries, and the C library of the guest.
fn lay_out(part: &SetUp, libc: &Path) -> Result<()> {
    let system = PathBuf::from(ask(part, &["--print", "sysroot"])?).join("lib/rustlib");
    let host = ask(part, &["--print", "host-tuple"])?;
    let own = part.folder.join("lib/rustlib");
    let contained = own.join(TARGET).join("lib/self-contained");
    std::fs::create_dir_all(&contained).context("cannot create the sysroot")?;
    std::fs::create_dir_all(part.folder.join("bin"))?;
    // The host's library for procedural macros, and the linkers; and the sources.
    for name in [&host, "src"] {
        symlink(system.join(name), own.join(name))
            .with_context(|| format!("cannot link {name}"))?;
    }
    for file in ["crt1-command.o", "crt1-reactor.o", "libc.a"] {
        std::fs::copy(libc.join(file), contained.join(file))
            .with_context(|| format!("wasi-libc has no {file} for {TARGET}"))?;
    }
    let rustc = part.folder.join("bin/rustc");
    let script = format!(
        "#!/bin/sh\nd=$(cd \"${{0%/*}}/..\" && pwd -P) && exec {SYSTEM_RUSTC} --sysroot \"$d\" \"$@\"\n"
    );
    std::fs::write(&rustc, script).context("cannot write the compiler's wrapper")?;
    std::fs::set_permissions(&rustc, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Compiles the standard library into the sysroot.
fn compile(part: &SetUp, say: ProgressSink) -> Result<()> {
    let seed = part.folder.join("build");
    std::fs::create_dir_all(seed.join("src"))?;
    let manifest =
        "[package]\nname = \"std-seed\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[workspace]\n";
    std::fs::write(seed.join("Cargo.toml"), manifest)?;
    std::fs::write(seed.join("src/lib.rs"), "")?;
    // The dependencies of std come from cargo's registry, checked against the checksums in the sources' own lock file,
    // because the packaged copies lack a prebuilt part.
    let mut command = process::command(Path::new(SYSTEM_CARGO), &part.search.path);
    command.args(["build", "--release", "--color", "never"]);
    command.args(["-Zbuild-std=std,panic_abort", "--target", TARGET]);
    // Bitcode lets guests use link-time optimisation. \x1f separates the flags, because a path may contain spaces.
    let flags = format!(
        "-Cembed-bitcode=yes\x1f-Cdebuginfo=0\x1f--remap-path-prefix={}=/rust",
        part.folder.display()
    );
    command
        .current_dir(&seed)
        .env("RUSTC", part.folder.join("bin/rustc"))
        // Only for std, whose sources need it; guests are built without it.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_DIR", seed.join("target"))
        .env("CARGO_ENCODED_RUSTFLAGS", flags);
    let (status, complaint) = run_cargo(command, &mut |_| (), &mut |line| {
        // Leaves out the folder of each package, which is temporary.
        say(line.split_once(" (").map_or(line, |(short, _)| short));
    })?;
    if !status.success() {
        bail!("the standard library did not compile:\n{complaint}");
    }
    let libraries = part.folder.join("lib/rustlib").join(TARGET).join("lib");
    for file in std::fs::read_dir(seed.join("target").join(TARGET).join("release/deps"))? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        if name.ends_with(".rlib") && !name.starts_with("libstd_seed") {
            std::fs::copy(file.path(), libraries.join(&name))
                .with_context(|| format!("cannot keep {name}"))?;
        }
    }
    ensure!(
        standard_library(&libraries).is_some(),
        "cargo reported success, but made no libstd for {TARGET}"
    );
    std::fs::remove_dir_all(&seed).context("cannot remove the build folder")
}

/// Runs the system's rustc with `args` and returns what it prints.
fn ask(part: &SetUp, args: &[&str]) -> Result<String> {
    let mut question = process::command(Path::new(SYSTEM_RUSTC), &part.search.path);
    question.args(args);
    text(question)
}

fn text(mut command: Command) -> Result<String> {
    command.env("LC_ALL", "C.UTF-8");
    let shown = process::shown(&command);
    let short = shown.split(" -o ").next().unwrap_or_default();
    let answer = process::output(command, Some(DOWNLOAD))?.text();
    answer.with_context(|| format!("{short} failed"))
}
#[cfg(test)]
mod tests {
    use super::super::Preference;
    use super::super::find::find;
    use super::super::shim::ShimPrograms;
    use super::*;

    fn debian() -> ShimPrograms {
        ShimPrograms::new()
            .with("dpkg-deb", "exit 1")
            .with("dpkg-query", "echo 'cargo-web installed'; exit 1")
            .with(
                "sudo",
                r#"shift; case $1 in true) exit 0;; esac; exec "$@""#,
            )
    }

    #[test]
    fn the_mirror_is_the_systems_own() {
        let uris = "http://security.example/debian-security/\nhttps://mirror.example/x/debian/\n";
        assert_eq!(mirror_in(uris), Some("https://mirror.example/x/debian"));
        assert_eq!(
            mirror_in("mirror+file:/etc/apt/mirrors/debian.list/"),
            Some("mirror+file:/etc/apt/mirrors/debian.list")
        );
        assert_eq!(mirror_in("https://example/ubuntu/"), None);
    }

    #[test]
    fn only_what_dpkg_calls_installed_is_installed() {
        let programs = debian();
        let search = programs.search(Preference::Packages);
        let missing = missing(&search, &["rustc-web", "cargo-web"]).unwrap();
        assert_eq!(missing, ["rustc-web"]);
    }

    #[test]
    fn a_release_without_the_packages_is_told_so() {
        let apt = r#"case "$*" in *update*) exit 0;; esac; echo 'E: Unable to locate package rustc-web' >&2; exit 100"#;
        let programs = debian().with("apt-get", apt);
        let mut said = Vec::new();
        let error = find(&programs.search(Preference::Packages), &mut |line| {
            said.push(line.to_owned())
        })
        .unwrap_err();
        let error = format!("{error:#}");
        assert!(
            error.contains("apt-get install failed: E: Unable to locate package rustc-web"),
            "{error}"
        );
        assert!(
            error.contains("sudo apt-get install rustc-web cargo-web rust-web-src rust-web-llvm ca-certificates"),
            "{error}"
        );
        assert!(
            said.iter()
                .any(|line| line.starts_with("installing rustc-web, cargo-web")),
            "{said:?}"
        );
    }
}
