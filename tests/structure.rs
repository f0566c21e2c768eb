//! The module boundaries: which module may import which, and which names belong to one module alone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::support::root;

/// A module, and the modules that it may import. `ARCHITECTURE.md` gives the reasons.
const DOORS: [(&str, &[&str]); 22] = [
    ("guard", &[]),
    ("file_state", &[]),
    ("pool", &[]),
    ("way", &[]),
    ("search", &[]),
    ("record", &[]),
    ("dialect", &["record"]),
    ("policy", &["record", "way"]),
    ("hook", &["record"]),
    ("scheduler", &["record"]),
    ("journal", &["pool", "record", "secret"]),
    ("secret", &["pool", "record", "search"]),
    ("catalog", &["pool", "record", "search"]),
    ("approval", &["record", "policy", "catalog"]),
    ("executor", &["record", "policy", "scheduler", "secret"]),
    ("sandbox", &["file_state", "pool", "way", "record", "policy", "hook", "executor", "secret"]),
    (
        "pipeline",
        &[
            "pool",
            "record",
            "search",
            "policy",
            "hook",
            "scheduler",
            "journal",
            "catalog",
            "approval",
            "executor",
            "secret",
        ],
    ),
    ("toolchain", &["file_state"]),
    ("config", &["way"]),
    (
        "host",
        &[
            "pool",
            "record",
            "dialect",
            "policy",
            "hook",
            "scheduler",
            "journal",
            "catalog",
            "approval",
            "executor",
            "secret",
            "sandbox",
            "pipeline",
            "config",
        ],
    ),
    ("server", &["pool", "host", "catalog", "dialect", "record"]),
    ("cli", &["host", "server", "catalog", "toolchain", "record", "config"]),
];

/// A crate that only one module may name.
const KEPT: [(&str, &[&str]); 18] = [
    ("wasmtime", &["sandbox"]),
    ("wasmtime_wasi", &["sandbox"]),
    ("clap", &["cli"]),
    ("indicatif", &["cli"]),
    ("jsonschema", &["catalog"]),
    ("jsonschema_regex", &["catalog"]),
    ("referencing", &["catalog"]),
    ("regex_automata", &["search"]),
    ("rmcp", &["dialect", "server"]),
    ("hyper", &["server", "sandbox"]),
    ("rusqlite", &["journal"]),
    ("tempfile", &["sandbox", "journal", "toolchain", "config", "cli", "secret"]),
    ("chacha20poly1305", &["secret"]),
    ("aho_corasick", &["secret"]),
    ("rpassword", &["cli"]),
    ("globset", &["policy", "hook"]),
    ("unicode_width", &["approval"]),
    ("unicode_security", &["approval"]),
];

#[test]
fn rooms_import_only_what_their_door_allows() {
    let mut wrong = Vec::new();
    for (room, files) in rooms() {
        let allowed = DOORS.iter().find(|(name, _)| *name == room).unwrap_or_else(|| panic!("no door for {room}")).1;
        for file in files {
            let text = code(&file);
            for (name, _) in DOORS {
                let uses = text.contains(&format!("crate::{name}::")) || text.contains(&format!("crate::{name};"));
                if uses && name != room && !allowed.contains(&name) {
                    wrong.push(format!("{} imports {name}", file.display()));
                }
            }
            for (name, owners) in KEPT {
                if text.contains(&format!("{name}::")) && !owners.contains(&room.as_str()) {
                    wrong.push(format!("{} names {name}", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_room_of_the_tree_has_a_door() {
    let rooms: BTreeSet<String> = rooms().into_iter().map(|(room, _)| room).collect();
    let doors: BTreeSet<String> = DOORS.iter().map(|(room, _)| (*room).to_owned()).collect();
    assert_eq!(rooms, doors);
}

/// The product's former name, from before the first release, belongs to another sandbox for agents.
#[test]
fn the_old_name_is_nowhere() {
    let old = ["hot", "cell"].concat();
    let listed = std::process::Command::new("git").arg("-C").arg(root()).args(["ls-files", "-z"]).output().unwrap();
    assert!(listed.status.success(), "git cannot list the files: {}", String::from_utf8_lossy(&listed.stderr));
    let files: Vec<&str> = std::str::from_utf8(&listed.stdout).unwrap().split_terminator('\0').collect();
    assert!(files.len() > 400, "git lists {} files only", files.len());
    let has = |text: &[u8]| String::from_utf8_lossy(text).to_ascii_lowercase().contains(&old);
    let left: Vec<&&str> = files
        .iter()
        .filter(|file| has(file.as_bytes()) || std::fs::read(root().join(file)).is_ok_and(|text| has(&text)))
        .collect();
    assert!(left.is_empty(), "{left:#?}");
}

/// All source files of the host.
#[cfg(feature = "mutants")]
pub(crate) fn sources() -> Vec<PathBuf> {
    rooms().into_iter().flat_map(|(_, files)| files).collect()
}

/// Each module with its files. `lib.rs` and `main.rs` only name the modules.
fn rooms() -> Vec<(String, Vec<PathBuf>)> {
    let entries = std::fs::read_dir(root().join("host/src")).unwrap().map(|entry| entry.unwrap().path());
    entries
        .filter_map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name != "lib" && name != "main").then(|| (name, files(&path)))
        })
        .collect()
}

fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return path
            .extension()
            .is_some_and(|extension| extension == "rs")
            .then(|| path.to_owned())
            .into_iter()
            .collect();
    }
    std::fs::read_dir(path).unwrap().flat_map(|entry| files(&entry.unwrap().path())).collect()
}

/// The text of a file without its comments.
fn code(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}
