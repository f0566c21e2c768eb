//! The toolchain from the system's packages, on Debian and its derivatives: the compiler from the package manager, and
//! a current C library for the guest from the same mirror. apt checks the signature of every package.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use toolcell_system::private;

use super::file_lock::FileLock;
use super::find::{Toolchain, ToolchainSearch};
use super::process::{self, OutputPipe, ProgramOutput};
use super::{ProgressSink, TARGET, sysroot};

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
    let home = sysroot::home(&search.cache_dir);
    std::fs::create_dir_all(&home).with_context(|| format!("cannot create {}", home.display()))?;
    let lock =
        private::open_or_create(&home.join("lock")).context("cannot open the toolchain's lock")?;
    let busy_with = format!("process {}", std::process::id());
    let _held = FileLock::take(
        lock,
        "waiting for another toolcell that sets up the toolchain",
        &busy_with,
        say,
    )
    .context("cannot wait for the toolchain's lock")?;
    if let Ok(toolchain) = sysroot::ready(search) {
        return Ok(toolchain);
    }
    say(&format!(
        "setting up Rust for {TARGET} from the system's packages: {stale:#}"
    ));
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
    let Ok(entries) = std::fs::read_dir(home) else {
        return;
    };
    for entry in entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(".new-"))
    {
        std::fs::remove_dir_all(entry.path()).ok();
    }
}

fn has_libc(folder: &Path) -> bool {
    folder.join("VERSION").is_file() && folder.join("lib").join(TARGET).join("libc.a").is_file()
}

/// The programs of the system's package manager.
pub(super) struct Apt<'a> {
    search: &'a ToolchainSearch,
    apt_get: PathBuf,
    dpkg: PathBuf,
    dpkg_query: PathBuf,
    dpkg_deb: PathBuf,
}

impl<'a> Apt<'a> {
    pub(super) fn find(search: &'a ToolchainSearch) -> Result<Self> {
        let program = |name: &str| {
            search.which(name).ok_or_else(|| {
                anyhow!("no {name} on PATH: this way exists on Debian and its kin only")
            })
        };
        Ok(Apt {
            search,
            apt_get: program("apt-get")?,
            dpkg: program("dpkg")?,
            dpkg_query: program("dpkg-query")?,
            dpkg_deb: program("dpkg-deb")?,
        })
    }

    /// Returns the `names` that are not installed.
    pub(super) fn missing<'n>(&self, names: &[&'n str]) -> Result<Vec<&'n str>> {
        let mut query = self.command(&self.dpkg_query);
        // The command fails for an unknown name, but still lists the others.
        query
            .args(["--show", "--showformat=${Package} ${db:Status-Status}\\n"])
            .args(names);
        let answer = process::output(query, QUESTION)?.out;
        let installed = |name: &str| {
            answer
                .lines()
                .any(|line| line == format!("{name} installed"))
        };
        Ok(names
            .iter()
            .copied()
            .filter(|name| !installed(name))
            .collect())
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
        if self.search.offline {
            bail!("packages are missing, and downloads are not allowed. Run: {by_hand}");
        }
        let prefix = self
            .as_root()
            .with_context(|| format!("packages are missing. Run: {by_hand}"))?;
        // An unrelated package source may be broken; the installation shows whether the lists suffice.
        if let Err(reason) = self.apt_get(&prefix, &["update"], say) {
            say(&format!("{reason:#}; trying with the lists as they are"));
        }
        let mut words = vec!["install", "--yes", "--no-install-recommends", "--no-remove"];
        words.extend(names);
        self.apt_get(&prefix, &words, say).with_context(|| {
            format!(
                "install packages. Debian has them since release 12; where they clash with installed ones, nothing is \
                 removed. By hand: {by_hand}"
            )
        })
    }

    /// The prefix that runs a command as root: nothing for root, else sudo without a prompt.
    fn as_root(&self) -> Result<Vec<PathBuf>> {
        if rustix::process::geteuid().is_root() {
            return Ok(Vec::new());
        }
        let sudo = self
            .search
            .which("sudo")
            .ok_or_else(|| anyhow!("only root may install them, and there is no sudo"))?;
        let mut question = self.command(&sudo);
        question.args(["--non-interactive", "true"]);
        if !process::output(question, QUESTION)?.status.success() {
            bail!("only root may install them, and sudo asks for a password");
        }
        Ok(vec![sudo, PathBuf::from("--non-interactive")])
    }

    /// Runs apt-get without a time limit, because a package manager that is killed half-way leaves repairs to the user.
    /// With [`WAITS`] it gives up by itself.
    fn apt_get(&self, prefix: &[PathBuf], words: &[&str], say: ProgressSink) -> Result<()> {
        let mut line: Vec<&OsStr> = prefix.iter().map(|word| word.as_os_str()).collect();
        // sudo drops the environment, so env sets the variable.
        line.extend([
            OsStr::new("/usr/bin/env"),
            OsStr::new("DEBIAN_FRONTEND=noninteractive"),
            self.apt_get.as_os_str(),
        ]);
        let (program, rest) = line.split_first().context("an empty command")?;
        let mut command = self.command(Path::new(program));
        command.args(rest).args(WAITS).arg("-qq").args(words);
        let mut last = String::new();
        let status = process::run(command, None, &mut |stream, line| {
            if stream == OutputPipe::Err && !line.trim().is_empty() {
                say(line);
                // Errors begin like this; the lines after them are advice.
                if line.starts_with("E: ") || last.is_empty() {
                    line.clone_into(&mut last);
                }
            }
        })?;
        if !status.success() {
            let [verb, ..] = words else {
                bail!("apt-get failed")
            };
            bail!(
                "apt-get {verb} failed: {}",
                if last.is_empty() {
                    status.to_string()
                } else {
                    last
                }
            );
        }
        Ok(())
    }

    /// Downloads and unpacks a current wasi-libc, with separate lists and archives, so that the system's stay
    /// unchanged.
    fn fetch_wasi_libc(&self, home: &Path, place: &Path, say: ProgressSink) -> Result<()> {
        if self.search.offline {
            bail!("wasi-libc is missing, and downloads are not allowed");
        }
        if !Path::new(KEYRING).is_file() {
            bail!(
                "the keys that sign Debian's packages are missing. Run: sudo apt-get install debian-archive-keyring"
            );
        }
        let temporary = tempfile::Builder::new()
            .prefix(".new-")
            .tempdir_in(home)
            .context("cannot create a folder for wasi-libc")?;
        let folder = std::fs::canonicalize(temporary.path())?;
        for name in ["lists/partial", "archives/partial"] {
            std::fs::create_dir_all(folder.join(name))?;
        }
        let architecture = self.text(self.command(&self.dpkg).arg("--print-architecture"))?;
        let mirror = self.mirror()?;
        let source = format!(
            "deb [signed-by={KEYRING} arch={architecture}] {mirror} {WASI_LIBC_SUITE} main\n"
        );
        std::fs::write(folder.join("sources.list"), source)?;
        say(&format!(
            "fetching wasi-libc, the guest's C library, from {WASI_LIBC_SUITE}"
        ));
        let why = || format!("fetch wasi-libc from {WASI_LIBC_SUITE} on the system's own mirror");
        self.text(self.private_apt(&folder).arg("update"))
            .with_context(why)?;
        self.text(self.private_apt(&folder).args(["download", "wasi-libc"]))
            .with_context(why)?;
        self.unpack(&folder, place)
    }

    fn unpack(&self, folder: &Path, place: &Path) -> Result<()> {
        let files = std::fs::read_dir(folder)?.flatten().map(|file| file.path());
        let package = files
            .into_iter()
            .find(|file| file.extension() == Some(OsStr::new("deb")));
        let package = package.context("apt-get download brought no package")?;
        self.text(
            self.command(&self.dpkg_deb)
                .arg("-x")
                .arg(&package)
                .arg(folder.join("x")),
        )?;
        let version = self.text(
            self.command(&self.dpkg_deb)
                .arg("-f")
                .arg(&package)
                .arg("Version"),
        )?;
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
        let mut query = self.command(&self.apt_get);
        query.args([
            "indextargets",
            "--format",
            "$(REPO_URI)",
            "Created-By: Packages",
        ]);
        let answer = self.text(&mut query)?;
        mirror_in(&answer).map(str::to_owned).ok_or_else(|| {
            anyhow!("no mirror of Debian among the system's package sources, so wasi-libc cannot be fetched")
        })
    }

    fn private_apt(&self, folder: &Path) -> Command {
        let mut command = self.command(&self.apt_get);
        command.current_dir(folder);
        let mut set = |name: &str, value: &OsStr| {
            let mut setting = std::ffi::OsString::from(format!("{name}="));
            setting.push(value);
            command.arg("-o").arg(setting);
        };
        set(
            "Dir::Etc::sourcelist",
            folder.join("sources.list").as_os_str(),
        );
        set("Dir::State::lists", folder.join("lists").as_os_str());
        set("Dir::Cache::archives", folder.join("archives").as_os_str());
        let fixed = [
            ("Dir::Etc::sourceparts", "-"),
            ("Dir::Etc::preferencesparts", "/dev/null"),
            ("Dir::Etc::preferences", "/dev/null"),
            ("Dir::State::status", "/dev/null"),
            ("Dir::Cache::pkgcache", ""),
            ("Dir::Cache::srcpkgcache", ""),
            ("Acquire::Languages", "none"),
            (
                "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled",
                "false",
            ),
            (
                "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled",
                "false",
            ),
            ("APT::Update::Error-Mode", "any"),
        ];
        for (name, value) in fixed {
            set(name, OsStr::new(value));
        }
        if rustix::process::geteuid().is_root() {
            // apt's unprivileged user could not write into this folder.
            set("APT::Sandbox::User", OsStr::new("root"));
        }
        command.args(WAITS).arg("-qq");
        command
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = process::command(program, &self.search.path);
        command.env("LC_ALL", "C.UTF-8");
        command
    }

    /// Runs a short command and returns what it prints. A failing command is an error.
    fn text(&self, command: &mut Command) -> Result<String> {
        let taken = std::mem::replace(command, Command::new(""));
        let shown = process::shown(&taken);
        let answer: ProgramOutput = process::output(taken, DOWNLOAD)?;
        if !answer.status.success() {
            let short: String = shown.split(" -o ").next().unwrap_or_default().to_owned();
            bail!("{short} failed: {}", answer.reason());
        }
        Ok(answer.out.trim().to_owned())
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
    fn offline_installs_nothing() {
        let programs = debian().with("apt-get", "exit 1");
        let search = ToolchainSearch {
            offline: true,
            ..programs.search(Preference::Packages)
        };
        let error = format!("{:#}", find(&search, &mut |_| ()).unwrap_err());
        assert!(
            error.contains("downloads are not allowed. Run: sudo apt-get update"),
            "{error}"
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
