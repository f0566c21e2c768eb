//! The toolchain from the system's packages, on Debian and its derivatives: the compiler from the package manager, and
//! a current C library for the guest from the same mirror. apt checks the signature of every package.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::find::{Toolchain, ToolchainSearch};
use super::language::utf8;
use super::{ProgressSink, TARGET, process, sysroot, toolchain_cache};

/// The compiler, its cargo, the sources of the standard library, the component linker, and the CA certificates for
/// cargo.
pub(super) const NAMES: [&str; 5] = [
    "rustc-web",
    "cargo-web",
    "rust-web-src",
    "rust-web-llvm",
    "ca-certificates",
];

/// The size of these packages and of what they need, for people.
pub(super) const PACKAGES_SIZE: &str = "some 240 MB";

/// The release whose wasi-libc is new enough. Bookworm's own claims memory that is already in use, so that every file
/// operation of a guest linked with it fails. The package is for all architectures and depends on nothing.
const WASI_LIBC_SUITE: &str = "trixie-backports";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Sets variables, for apt as root too.
const ENV: &str = "/usr/bin/env";
const QUESTION: Duration = Duration::from_secs(60);
/// Time limit for an index of 310 KB, or a package of 1.1 MB.
const DOWNLOAD: Duration = Duration::from_secs(120);

/// Installs what is missing and returns the toolchain; returns at once if an earlier run did so.
pub(super) fn set_up(search: &ToolchainSearch, say: ProgressSink) -> Result<Toolchain> {
    let stale = match sysroot::ready(search) {
        Ok(toolchain) => return Ok(toolchain),
        Err(reason) => reason,
    };
    let apt = Apt::find(search)?;
    let busy_with = format!("process {}", std::process::id());
    let _held = toolchain_cache::lock(search, &busy_with, say)?;
    if let Ok(toolchain) = sysroot::ready(search) {
        return Ok(toolchain);
    }
    say(&format!(
        "setting up Rust for {TARGET} from the system's packages: {stale:#}"
    ));
    let home = toolchain_cache::home(&search.cache_dir);
    remove_leftovers(&home);
    apt.install_missing(say)?;
    let wasi_libc = home.join("wasi-libc");
    if !has_libc(&wasi_libc) {
        apt.fetch_wasi_libc(&home, &wasi_libc, say)?;
    }
    sysroot::build(search, &wasi_libc, say)?;
    sysroot::ready(search).context("check the new sysroot")
}

/// Removes what a killed run left behind. The caller holds the lock.
fn remove_leftovers(home: &Path) {
    let entries = std::fs::read_dir(home).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b".new-"))
        .for_each(|entry| _ = std::fs::remove_dir_all(entry.path()));
}

fn has_libc(folder: &Path) -> bool {
    folder.join("VERSION").is_file() && folder.join("lib").join(TARGET).join("libc.a").is_file()
}

/// The system's package manager.
pub(super) struct Apt<'a>(&'a ToolchainSearch);

impl<'a> Apt<'a> {
    pub(super) fn find(search: &'a ToolchainSearch) -> Result<Self> {
        for name in ["apt-get", "dpkg", "dpkg-query", "dpkg-deb"] {
            let program = search.program(name);
            program.context("this way exists on Debian and its kin only")?;
        }
        Ok(Apt(search))
    }

    /// Returns the `names` that are not installed.
    pub(super) fn missing<'n>(&self, names: &[&'n str]) -> Result<Vec<&'n str>> {
        let mut query = self.command("dpkg-query")?;
        // The command fails for an unknown name, but still lists the others.
        query
            .args(["--show", "--showformat=${Package} ${db:Status-Status}\\n"])
            .args(names);
        let answer = process::output(query, Some(QUESTION))?.out;
        let is_missing = |name: &&str| {
            let installed = format!("{name} installed");
            !answer.lines().any(|line| line == installed)
        };
        Ok(names.iter().copied().filter(is_missing).collect())
    }

    fn install_missing(&self, say: ProgressSink) -> Result<()> {
        if !self.missing(&NAMES)?.is_empty() {
            say(&format!(
                "installing {}: {PACKAGES_SIZE} with what they need",
                NAMES.join(", ")
            ));
            // All of them, because the compiler and the sources must be of one version.
            self.install(&NAMES, say)?;
        }
        // The name of the linker's package contains the version of LLVM; the target of the link tells which.
        let link = std::fs::read_link(sysroot::SYSTEM_LINKER).with_context(|| {
            format!(
                "{}, which rust-web-llvm brings, is missing",
                sysroot::SYSTEM_LINKER
            )
        })?;
        let linker = link
            .file_name()
            .and_then(OsStr::to_str)
            .context("name the linker's package")?;
        if !self.missing(&[linker])?.is_empty() {
            say(&format!("installing {linker}"));
            self.install(&[linker], say)?;
        }
        Ok(())
    }

    fn install(&self, names: &[&str], say: ProgressSink) -> Result<()> {
        let by_hand = format!(
            "sudo apt-get update && sudo apt-get install {}",
            names.join(" ")
        );
        let sudo = self.sudo();
        let sudo = sudo.with_context(|| format!("packages are missing. Run: {by_hand}"))?;
        // An unrelated package source may be broken; the installation shows whether the lists suffice.
        if let Err(reason) = self.apt_get(sudo, &["update"], say) {
            say(&format!("{reason:#}; trying with the lists as they are"));
        }
        let mut words = vec!["install", "--yes", "--no-install-recommends", "--no-remove"];
        words.extend(names);
        self.apt_get(sudo, &words, say).with_context(|| {
            format!(
                "install packages. Debian has them since release 12; where they clash with installed ones, nothing is \
                 removed. By hand: {by_hand}"
            )
        })
    }

    /// Returns whether a command runs as root through sudo, without a prompt.
    fn sudo(&self) -> Result<bool> {
        if rustix::process::geteuid().is_root() {
            return Ok(false);
        }
        let question = self.command("sudo");
        let mut question = question.context("only root may install them, and there is no sudo")?;
        question.args(["--non-interactive", "true"]);
        let answer = process::output(question, Some(QUESTION))?;
        ensure!(
            answer.status.success(),
            "only root may install them, and sudo asks for a password"
        );
        Ok(true)
    }

    /// Runs apt-get without a time limit, because a package manager that is killed half-way leaves repairs to the user.
    /// With [`WAITS`] it gives up by itself.
    fn apt_get(&self, sudo: bool, words: &[&str], say: ProgressSink) -> Result<()> {
        // sudo drops the environment, so env sets the variable.
        let mut command = if sudo {
            let mut command = self.command("sudo")?;
            command.args(["--non-interactive", ENV]);
            command
        } else {
            process::command(Path::new(ENV), &self.0.path)
        };
        command
            .args(["LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"])
            .arg(self.0.program("apt-get")?)
            .args(WAITS)
            .arg("-qq")
            .args(words);
        let verb = words.first().copied().unwrap_or_default();
        process::follow(command, None, say).with_context(|| format!("apt-get {verb} failed"))
    }

    /// Downloads and unpacks a current wasi-libc, with separate lists and archives, so that the system's stay
    /// unchanged.
    fn fetch_wasi_libc(&self, home: &Path, place: &Path, say: ProgressSink) -> Result<()> {
        if !Path::new(KEYRING).is_file() {
            bail!(
                "the keys that sign Debian's packages are missing. Run: sudo apt-get install debian-archive-keyring"
            );
        }
        let temporary = toolchain_cache::temporary(home)?;
        let folder = std::fs::canonicalize(temporary.path())?;
        for name in ["lists/partial", "archives/partial"] {
            std::fs::create_dir_all(folder.join(name))?;
        }
        let architecture = self.text(self.command("dpkg")?.arg("--print-architecture"))?;
        let mirror = self.mirror()?;
        let source = format!(
            "deb [signed-by={KEYRING} arch={architecture}] {mirror} {WASI_LIBC_SUITE} main\n"
        );
        std::fs::write(folder.join("sources.list"), source)?;
        say(&format!(
            "fetching wasi-libc, the guest's C library, from {WASI_LIBC_SUITE}"
        ));
        let why = || format!("fetch wasi-libc from {WASI_LIBC_SUITE} on the system's own mirror");
        self.text(self.private_apt(&folder)?.arg("update"))
            .with_context(why)?;
        self.text(self.private_apt(&folder)?.args(["download", "wasi-libc"]))
            .with_context(why)?;
        self.unpack(&folder, place)
    }

    fn unpack(&self, folder: &Path, place: &Path) -> Result<()> {
        let mut files = std::fs::read_dir(folder)?.flatten().map(|file| file.path());
        let package = files.find(|file| file.extension() == Some(OsStr::new("deb")));
        let package = package.context("apt-get download brought no package")?;
        let mut unpacking = self.command("dpkg-deb")?;
        self.text(unpacking.arg("-x").arg(&package).arg(folder.join("x")))?;
        let mut question = self.command("dpkg-deb")?;
        let version = self.text(question.arg("-f").arg(&package).arg("Version"))?;
        let unpacked = folder.join("x/usr");
        std::fs::write(unpacked.join("VERSION"), format!("{version}\n"))?;
        if !has_libc(&unpacked) {
            bail!("wasi-libc {version} has no {TARGET}");
        }
        if place.symlink_metadata().is_ok() {
            std::fs::rename(place, folder.join("old"))?;
        }
        std::fs::rename(unpacked, place).context("cannot put wasi-libc in place")
    }

    /// The system's own mirror of Debian, as apt reports it.
    fn mirror(&self) -> Result<String> {
        let mut query = self.command("apt-get")?;
        query.args([
            "indextargets",
            "--format",
            "$(REPO_URI)",
            "Created-By: Packages",
        ]);
        let answer = self.text(&mut query)?;
        let mirror = mirror_in(&answer).map(str::to_owned);
        mirror.context("no mirror of Debian among the system's package sources, so wasi-libc cannot be fetched")
    }

    fn private_apt(&self, folder: &Path) -> Result<Command> {
        let mut command = self.command("apt-get")?;
        command.current_dir(folder);
        // Of this folder, which is the current one of apt too.
        let folder = utf8(folder)?;
        for (name, value) in [
            ("Dir::Etc::sourcelist", format!("{folder}/sources.list")),
            ("Dir::State::lists", format!("{folder}/lists")),
            ("Dir::Cache::archives", format!("{folder}/archives")),
        ] {
            command.arg("-o").arg(format!("{name}={value}"));
        }
        for setting in [
            "Dir::Etc::sourceparts=-",
            "Dir::Etc::preferencesparts=/dev/null",
            "Dir::Etc::preferences=/dev/null",
            "Dir::State::status=/dev/null",
            "Dir::Cache::pkgcache=",
            "Dir::Cache::srcpkgcache=",
            "Acquire::Languages=none",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
            "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false",
            "APT::Update::Error-Mode=any",
        ] {
            command.args(["-o", setting]);
        }
        if rustix::process::geteuid().is_root() {
            // apt's unprivileged user could not write into this folder.
            command.args(["-o", "APT::Sandbox::User=root"]);
        }
        command.args(WAITS).arg("-qq");
        Ok(command)
    }

    fn command(&self, program: &str) -> Result<Command> {
        let mut command = process::command(&self.0.program(program)?, &self.0.path);
        command.env("LC_ALL", "C.UTF-8");
        Ok(command)
    }

    /// Runs a short command and returns what it prints. A failing command is an error.
    fn text(&self, command: &mut Command) -> Result<String> {
        let taken = std::mem::replace(command, Command::new(""));
        let shown = process::shown(&taken);
        let short = shown.split(" -o ").next().unwrap_or_default();
        let answer = process::output(taken, Some(DOWNLOAD))?.text();
        answer.with_context(|| format!("{short} failed"))
    }
}

/// Limits for what would otherwise hang: a silent mirror, or another package manager at work. Times are in seconds.
const WAITS: [&str; 8] = [
    "-o",
    "Acquire::Retries=2",
    "-o",
    "Acquire::http::Timeout=30",
    "-o",
    "Acquire::https::Timeout=30",
    "-o",
    "DPkg::Lock::Timeout=120",
];

/// Debian's main archive among apt's sources; security updates and other projects have mirrors of their own.
fn mirror_in(uris: &str) -> Option<&str> {
    uris.lines()
        .map(|line| line.trim_end_matches('/'))
        .find(|uri| {
            uri.ends_with("/debian")
                || (uri.starts_with("mirror+") && uri.ends_with("/debian.list"))
        })
}

#[cfg(test)]
mod tests {
    use super::super::Preference;
    use super::super::find::find;
    use super::super::shim::ShimPrograms;
    use super::*;

    /// A Debian with only cargo-web installed, and a sudo for tests that do not run as root.
    fn debian() -> ShimPrograms {
        ShimPrograms::new()
            .with("dpkg", "echo amd64")
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
        let programs = debian().with("apt-get", "exit 1");
        let search = programs.search(Preference::Packages);
        let missing = Apt::find(&search)
            .unwrap()
            .missing(&["rustc-web", "cargo-web"])
            .unwrap();
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

    #[test]
    fn what_a_killed_run_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        for name in [".new-ab", "rust"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        remove_leftovers(folder.path());
        assert!(!folder.path().join(".new-ab").exists() && folder.path().join("rust").exists());
    }
}
