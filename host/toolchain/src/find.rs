//! Finds the Rust toolchain that builds guests: the first of three ways that works, or the one that the user forces.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use sha2::{Digest, Sha256};

use super::process;
use super::{ProgressSink, TARGET, packages};

/// Forces one way.
pub(super) const PREFERENCE_VARIABLE: &str = "TOOLCELL_GUEST_TOOLCHAIN";

/// A compiler answers at once, unless a rustup proxy tries to download first.
pub(super) const PROBE: Duration = Duration::from_secs(20);

pub(super) const TARGET_SIZE: &str = "some 30 MB";

/// Allows for a slow connection. Without a network, rustup's own retries take most of it.
const DOWNLOAD: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preference {
    /// The first way that works.
    #[default]
    Any,
    /// Only a target that is already installed.
    Installed,
    /// An installed target, else one from rustup, which may download.
    Rustup,
    /// Only the system's packages, with a sysroot of toolcell's own.
    Packages,
}

impl FromStr for Preference {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "" => Ok(Preference::Any),
            "installed" => Ok(Preference::Installed),
            "rustup" => Ok(Preference::Rustup),
            "packages" => Ok(Preference::Packages),
            other => bail!(
                "{PREFERENCE_VARIABLE} is {other:?}: set it to installed, rustup or packages, or unset it to take the \
                 first that works"
            ),
        }
    }
}

impl Preference {
    /// Fails on an unknown value of `TOOLCELL_GUEST_TOOLCHAIN`.
    pub fn from_env() -> Result<Self> {
        let value = std::env::var_os(PREFERENCE_VARIABLE).unwrap_or_default();
        value.to_string_lossy().parse()
    }
}

/// Where to look for a toolchain, and what may be done to get one.
#[derive(Clone, Debug)]
pub struct ToolchainSearch {
    pub preference: Preference,
    /// Holds `toolchain`, which toolcell sets up.
    pub cache_dir: PathBuf,
    /// The tool's folder, because rustup selects a toolchain by the current directory.
    pub dir: PathBuf,
    /// Programs are looked up in this PATH, and inherit it.
    pub path: OsString,
}

impl ToolchainSearch {
    /// Takes the PATH and the current directory of this process.
    pub fn new(preference: Preference, cache_dir: impl Into<PathBuf>) -> Self {
        ToolchainSearch {
            preference,
            cache_dir: cache_dir.into(),
            dir: PathBuf::from("."),
            path: std::env::var_os("PATH").unwrap_or_default(),
        }
    }

    pub(super) fn which(&self, name: &str) -> Option<PathBuf> {
        process::which(name, &self.path)
    }

    pub(super) fn program(&self, name: &str) -> Result<PathBuf> {
        self.which(name)
            .with_context(|| format!("no {name} on PATH"))
    }

    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = process::command(program, &self.path);
        command.current_dir(&self.dir);
        command
    }
}

/// The cargo that can build a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Toolchain {
    /// A hash that changes with the standard library. It is part of the target folder's name, because cargo does not
    /// detect such a change.
    pub(super) id: String,
    pub(super) cargo: PathBuf,
    /// `None` if cargo finds the right rustc itself.
    pub(super) rustc: Option<PathBuf>,
    path: OsString,
}

impl Toolchain {
    pub(super) fn new(
        cargo: PathBuf,
        rustc: Option<PathBuf>,
        standard_library: &str,
        path: &OsStr,
    ) -> Self {
        Toolchain {
            id: short_hash(standard_library),
            cargo,
            rustc,
            path: path.to_owned(),
        }
    }

    pub(super) fn cargo(&self, dir: &Path) -> Command {
        let mut command = process::command(&self.cargo, &self.path);
        command.current_dir(dir);
        if let Some(rustc) = &self.rustc {
            command.env("RUSTC", rustc);
        }
        command
    }
}

pub(super) fn short_hash(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let bytes = digest.iter().take(6);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

/// The first way that works, or the forced one. This may download, install packages and compile a standard library.
pub(super) fn find(search: &ToolchainSearch, say: ProgressSink) -> Result<Toolchain> {
    let (what, word) = match search.preference {
        Preference::Any => return first_of_all(search, say),
        Preference::Installed => ("the installed Rust", "installed"),
        Preference::Rustup => ("rustup", "rustup"),
        Preference::Packages => ("the system's packages", "packages"),
    };
    let found = match search.preference {
        Preference::Packages => packages::find(search, say),
        Preference::Rustup => installed(search).or_else(|_| through_rustup(search, say)),
        _ => installed(search),
    };
    found.with_context(|| format!("use {what}, as {PREFERENCE_VARIABLE}={word} says"))
}

fn first_of_all(search: &ToolchainSearch, say: ProgressSink) -> Result<Toolchain> {
    // An earlier run set up the packages because rustup failed: do not wait for its network again.
    let not_installed =
        match installed(search).or_else(|why| packages::ready(search).map_err(|_| why)) {
            Ok(toolchain) => return Ok(toolchain),
            Err(reason) => reason,
        };
    let no_rustup = match through_rustup(search, say) {
        Ok(toolchain) => return Ok(toolchain),
        Err(reason) => reason,
    };
    say(&format!("{no_rustup:#}; trying the system's packages"));
    packages::find(search, say).map_err(|no_packages| {
        anyhow!(
            "find a Rust toolchain that builds tools: no way to build for {TARGET} worked\n  \
             installed: {not_installed:#}\n  rustup: {no_rustup:#}\n  packages: {no_packages:#}\n{}",
            remedy(search)
        )
    })
}

/// The fix on this system.
pub(super) fn remedy(search: &ToolchainSearch) -> String {
    if search.which("rustup").is_some() {
        return format!("Run: rustup target add {TARGET}");
    }
    match packages::missing(search, &packages::NAMES) {
        Ok(missing) if missing.is_empty() => {
            "Fix what the message says about the packages, then run it again".to_owned()
        }
        Ok(_) => format!("Run: {}", packages::by_hand(&packages::NAMES)),
        Err(_) => format!("Install Rust with rustup, then run: rustup target add {TARGET}"),
    }
}

/// The user's own rustc, if it has the target's standard library.
pub(super) fn installed(search: &ToolchainSearch) -> Result<Toolchain> {
    let rustc = search.program("rustc")?;
    let cargo = search.program("cargo")?;
    let mut question = search.command(&rustc);
    question
        .args(["--print", "target-libdir", "--target", TARGET])
        .env("RUSTUP_AUTO_INSTALL", "0");
    let answer = process::output(question, Some(PROBE))?.text();
    let folder =
        answer.with_context(|| format!("{} cannot build for {TARGET}", rustc.display()))?;
    let folder = PathBuf::from(folder);
    let library = standard_library(&folder)
        .ok_or_else(|| anyhow!("{} has no standard library for {TARGET}", rustc.display()))?;
    Ok(Toolchain::new(
        cargo,
        None,
        &library.to_string_lossy(),
        &search.path,
    ))
}

pub(super) fn standard_library(folder: &Path) -> Option<PathBuf> {
    let mut files = std::fs::read_dir(folder).ok()?.flatten();
    let library = files.find(|file| {
        let name = file.file_name();
        let name = name.to_string_lossy();
        name.starts_with("libstd-") && name.ends_with(".rlib")
    });
    Some(library?.path())
}

fn through_rustup(search: &ToolchainSearch, say: ProgressSink) -> Result<Toolchain> {
    let rustup = search.program("rustup")?;
    say(&format!(
        "adding Rust's target {TARGET}, {TARGET_SIZE}: rustup target add {TARGET}"
    ));
    let mut add = search.command(&rustup);
    add.args(["target", "add", TARGET]);
    process::follow(add, Some(DOWNLOAD), say)
        .with_context(|| format!("rustup could not add {TARGET}"))?;
    installed(search).context("rustup added the target, but rustc does not see it")
}

#[cfg(test)]
mod tests {
    use super::super::shim::ShimPrograms;
    use super::*;

    const RUSTC: &str = r#"echo "${0%/*}/lib""#;

    const RUSTUP: &str = r#"[ "$*" = "target add wasm32-wasip2" ] || exit 9
        echo "info: downloading component 'rust-std'" >&2; mkdir "${0%/*}/lib"; : > "${0%/*}/lib/libstd-1.rlib""#;

    fn programs() -> ShimPrograms {
        // The stand-ins have only their own folder in PATH, so they start other programs by absolute path.
        ShimPrograms::new()
            .with("rustc", RUSTC)
            .with("cargo", "exit 0")
            .with("mkdir", r#"exec /bin/mkdir "$@""#)
    }

    fn found(search: &ToolchainSearch) -> (Result<Toolchain>, Vec<String>) {
        let mut said = Vec::new();
        let result = find(search, &mut |line| said.push(line.to_owned()));
        (result, said)
    }

    #[test]
    fn a_preference_is_one_of_three_words_or_absent() {
        assert_eq!("".parse::<Preference>().unwrap(), Preference::Any);
        assert_eq!(
            "installed".parse::<Preference>().unwrap(),
            Preference::Installed
        );
        assert_eq!("rustup".parse::<Preference>().unwrap(), Preference::Rustup);
        assert_eq!(
            "packages".parse::<Preference>().unwrap(),
            Preference::Packages
        );
        assert_eq!(
            "Rustup".parse::<Preference>().unwrap_err().to_string(),
            "TOOLCELL_GUEST_TOOLCHAIN is \"Rustup\": set it to installed, rustup or packages, or unset it to take the \
             first that works"
        );
    }

    #[test]
    fn an_installed_target_is_taken_without_a_word() {
        let programs = programs();
        std::fs::create_dir(programs.dir().join("lib")).unwrap();
        std::fs::write(programs.dir().join("lib/libstd-0a.rlib"), "").unwrap();
        for preference in [Preference::Any, Preference::Installed, Preference::Rustup] {
            let (toolchain, said) = found(&programs.search(preference));
            let toolchain = toolchain.unwrap();
            assert_eq!(toolchain.rustc, None);
            assert_eq!(toolchain.cargo, programs.dir().join("cargo"));
            assert!(said.is_empty(), "{said:?}");
        }
    }

    #[test]
    fn another_standard_library_is_another_id() {
        let programs = programs();
        let lib = programs.dir().join("lib");
        std::fs::create_dir(&lib).unwrap();
        std::fs::write(lib.join("libstd-0a.rlib"), "").unwrap();
        let search = programs.search(Preference::Installed);
        let before = find(&search, &mut |_| ()).unwrap().id;
        std::fs::rename(lib.join("libstd-0a.rlib"), lib.join("libstd-0b.rlib")).unwrap();
        assert_ne!(find(&search, &mut |_| ()).unwrap().id, before);
    }

    #[test]
    fn a_missing_target_is_added_by_rustup() {
        let programs = programs().with("rustup", RUSTUP);
        let (toolchain, said) = found(&programs.search(Preference::Any));
        assert!(toolchain.is_ok());
        assert_eq!(
            said,
            [
                "adding Rust's target wasm32-wasip2, some 30 MB: rustup target add wasm32-wasip2",
                "info: downloading component 'rust-std'"
            ]
        );
    }

    #[test]
    fn a_failed_download_falls_through_with_a_sentence_and_one_error_names_the_command() {
        let programs = programs().with("rustup", "echo 'error: could not download' >&2; exit 1");
        let (toolchain, said) = found(&programs.search(Preference::Any));
        let error = format!("{:#}", toolchain.unwrap_err());
        let last = said.last().unwrap();
        assert!(last.contains(
            "could not add wasm32-wasip2: error: could not download; trying the system's packages"
        ));
        for part in [
            "installed: ",
            "has no standard library",
            "rustup: ",
            "packages: ",
            "needs apt-get",
        ] {
            assert!(error.contains(part), "{part:?} is not in {error}");
        }
        assert!(
            error.ends_with("Run: rustup target add wasm32-wasip2"),
            "{error}"
        );
    }

    #[test]
    fn without_rustup_the_error_says_how_to_get_it() {
        let (toolchain, _) = found(&programs().search(Preference::Any));
        let error = format!("{:#}", toolchain.unwrap_err());
        assert!(
            error.ends_with("Install Rust with rustup, then run: rustup target add wasm32-wasip2"),
            "{error}"
        );
    }

    #[test]
    fn what_is_forced_is_not_replaced_and_its_error_says_why() {
        let programs = programs().with("rustup", RUSTUP);
        let (toolchain, said) = found(&programs.search(Preference::Installed));
        let error = format!("{:#}", toolchain.unwrap_err());
        assert!(
            error.starts_with(
                "use the installed Rust, as TOOLCELL_GUEST_TOOLCHAIN=installed says: "
            ),
            "{error}"
        );
        assert!(
            error.ends_with("has no standard library for wasm32-wasip2") && said.is_empty(),
            "{error}"
        );

        let (toolchain, _) = found(&programs.search(Preference::Packages));
        let error = format!("{:#}", toolchain.unwrap_err());
        assert!(
            error.starts_with(
                "use the system's packages, as TOOLCELL_GUEST_TOOLCHAIN=packages says: "
            ),
            "{error}"
        );
    }
}
