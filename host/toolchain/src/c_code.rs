//! C in the dependencies of a tool in Rust, whose build scripts look for a compiler with the crate `cc`. A package that
//! says so in its manifest gets Zig's:
//!
//! ```toml
//! [package.metadata.toolcell]
//! c-compiler = true
//! ```

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::find::ToolchainSearch;
use super::language::{ZIG, ZIG_PROGRAM, utf8};
use super::toolchain_cache::program;
use super::workspace::{manifest, setting};
use super::{ProgressSink, record};

/// The crate `cc` finds a compiler and an archiver by these, each of which is a subcommand of Zig.
const PROGRAMS: [(&str, &str); 2] = [(COMPILER, "cc"), ("AR_wasm32_wasip2", "ar")];
const COMPILER: &str = "CC_wasm32_wasip2";
const COMPLAINT: &str = "error occurred in cc-rs";

/// The user's own compiler comes first.
pub(super) fn is_wanted(dir: &Path) -> bool {
    std::env::var_os(COMPILER).is_none() && asks(&manifest(dir))
}

fn asks(manifest: &toml::Table) -> bool {
    let wanted = setting(manifest, &["package", "metadata", "toolcell", "c-compiler"]);
    wanted.and_then(toml::Value::as_bool).unwrap_or_default()
}

/// Fetched if it is not there; `None` if the package asks for none.
pub(super) fn compiler(search: &ToolchainSearch, say: ProgressSink) -> Result<Option<PathBuf>> {
    is_wanted(&search.dir)
        .then(|| ZIG.ready(search, say))
        .transpose()
}

/// The scripts that cargo calls stay in `target_dir`, because another path of the compiler would have everything
/// compiled again.
pub(super) fn use_in(cargo: &mut Command, part: &Path, target_dir: &Path) -> Result<()> {
    let zig = program(part, ZIG_PROGRAM)?;
    let folder = target_dir.join("c-compiler");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    for (variable, subcommand) in PROGRAMS {
        let script = folder.join(subcommand);
        record::replace(&script, script_of(&zig, subcommand)?.as_bytes())?;
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))
            .with_context(|| format!("cannot make {} executable", script.display()))?;
        cargo.env(variable, script);
    }
    cargo
        .env("ZIG_GLOBAL_CACHE_DIR", part.join("cache"))
        .env("ZIG_LOCAL_CACHE_DIR", folder.join("cache"));
    Ok(())
}

/// The crate `cc` gives the script the target in Rust's words.
fn script_of(zig: &Path, subcommand: &str) -> Result<String> {
    let zig = utf8(zig)?.replace('\'', r"'\''");
    Ok(match subcommand {
        "cc" => format!(
            "#!/bin/sh\nn=$#\nwhile [ $n -gt 0 ]; do\n  case $1 in --target=*) ;; *) set -- \"$@\" \"$1\" ;; esac\n  \
             shift\n  n=$((n - 1))\ndone\nexec '{zig}' cc -target wasm32-wasi \"$@\"\n"
        ),
        other => format!("#!/bin/sh\nexec '{zig}' {other} \"$@\"\n"),
    })
}

pub(super) fn advice(complaint: &str) -> Option<&'static str> {
    complaint.contains(COMPLAINT).then_some(
        "A dependency has C in it. Add to Cargo.toml:\n[package.metadata.toolcell]\nc-compiler = true\n\
         or set CC_wasm32_wasip2 to a compiler of your own",
    )
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn a_package_asks_for_a_compiler_in_its_manifest() {
        let asks = |text: &str| asks(&toml::from_str(text).unwrap_or_default());
        assert!(asks(
            "[package]\nname = \"a\"\n[package.metadata.toolcell]\nc-compiler = true\n"
        ));
        for other in [
            "",
            "[package]",
            "[package.metadata.toolcell]\nc-compiler = false",
            "[package.metadata]\ntoolcell = 1",
            "[",
        ] {
            assert!(!asks(other), "{other}");
        }
    }

    #[test]
    fn the_compiler_gets_every_argument_but_the_target_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let part = folder.path().join("it's a room");
        let zig = part.join(ZIG_PROGRAM);
        std::fs::create_dir_all(zig.parent().unwrap()).unwrap();
        std::fs::write(&zig, "#!/bin/sh\nprintf '<%s>' \"$@\"\n").unwrap();
        std::fs::set_permissions(&zig, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut cargo = Command::new("cargo");
        use_in(&mut cargo, &part, folder.path()).unwrap();
        let script = |variable: &str| {
            let found = cargo
                .get_envs()
                .find(|(name, _)| *name == OsStr::new(variable));
            found.and_then(|(_, value)| value).unwrap().to_owned()
        };
        let run = |variable: &str, arguments: &[&str]| {
            let output = Command::new(script(variable))
                .args(arguments)
                .output()
                .unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let arguments = ["-O2", "--target=wasm32-wasip2", "-DA=\"b c\"", "", "x.c"];
        assert_eq!(
            run("CC_wasm32_wasip2", &arguments),
            "<cc><-target><wasm32-wasi><-O2><-DA=\"b c\"><><x.c>"
        );
        assert_eq!(run("CC_wasm32_wasip2", &[]), "<cc><-target><wasm32-wasi>");
        assert_eq!(run("AR_wasm32_wasip2", &["cq", "a.a"]), "<ar><cq><a.a>");
    }

    #[test]
    fn a_build_without_a_compiler_is_told_what_to_add() {
        let complaint = "error occurred in cc-rs: failed to find tool \"clang\"";
        assert!(advice(complaint).unwrap().contains("c-compiler = true"));
        assert_eq!(advice("error: expected `;`"), None);
    }
}
