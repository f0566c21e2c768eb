//! What the structure of the repository promises: what a crate is made of, one name for the product, and a table of the
//! specification that is true.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;
use toolcell_spec::GUEST_BLOCKS;

use crate::support::{own_schemas, root};

/// A crate, and the crates that are in no build of it.
const FREE_OF: [(&str, &[&str]); 15] = [
    (
        "toolcell-spec",
        &["wasmtime", "hyper", "clap", "rusqlite", "tokio", "rustix"],
    ),
    (
        "toolcell-system",
        &["wasmtime", "hyper", "clap", "rusqlite", "toolcell_policy"],
    ),
    (
        "toolcell-policy",
        &["wasmtime", "hyper", "clap", "rusqlite", "toolcell_journal"],
    ),
    (
        "toolcell-workspace",
        &["wasmtime", "hyper", "clap", "rusqlite", "tokio_util"],
    ),
    (
        "toolcell-cluster",
        &["wasmtime", "hyper", "clap", "rusqlite", "toolcell_policy"],
    ),
    (
        "toolcell-journal",
        &["wasmtime", "hyper", "clap", "rmcp", "toolcell_executor"],
    ),
    (
        "toolcell-engine",
        &["wasmtime", "hyper", "clap", "rmcp", "indicatif"],
    ),
    (
        "toolcell-sandbox",
        &["clap", "rmcp", "indicatif", "toolcell_engine"],
    ),
    (
        "toolcell-dialect",
        &["wasmtime", "hyper", "axum", "clap", "indicatif", "toolcell"],
    ),
    (
        "toolcell-install",
        &["wasmtime", "clap", "rmcp", "indicatif"],
    ),
    ("toolcell", &["clap", "rmcp", "indicatif", "rpassword"]),
    (
        "toolcell-config",
        &["clap", "rmcp", "axum", "indicatif", "toolcell_toolchain"],
    ),
    (
        "toolcell-toolchain",
        &[
            "clap",
            "rmcp",
            "axum",
            "indicatif",
            "rpassword",
            "toolcell_config",
        ],
    ),
    (
        "toolcell-page",
        &["clap", "rmcp", "indicatif", "toolcell_config"],
    ),
    (
        "toolcell-server",
        &["clap", "indicatif", "toolcell_toolchain"],
    ),
];

/// The folders of the crates, below `host`.
const CRATES: [&str; 16] = [
    "cli",
    "cluster",
    "config",
    "dialect",
    "engine",
    "executor",
    "install",
    "journal",
    "page",
    "policy",
    "sandbox",
    "server",
    "spec",
    "system",
    "toolcell",
    "toolchain",
];

#[test]
fn each_crate_is_free_of_what_is_above_it() {
    for (package, forbidden) in FREE_OF {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([
            "tree",
            "--offline",
            "--locked",
            "--edges=normal",
            "--prefix=none",
            "--format={lib}",
            "-p",
            package,
        ]);
        let tree = cargo.current_dir(root()).output().unwrap();
        assert!(
            tree.status.success(),
            "{}",
            String::from_utf8_lossy(&tree.stderr)
        );
        let tree = String::from_utf8(tree.stdout).unwrap();
        let crates: Vec<&str> = tree.lines().collect();
        assert!(crates.contains(&"serde_json"), "{tree}");
        let found: Vec<&&str> = forbidden
            .iter()
            .filter(|name| crates.contains(name))
            .collect();
        assert!(found.is_empty(), "{package} is built with {found:?}");
    }
}

/// What an embedder leaves out, and the crates that are then in no build of the library.
#[test]
fn a_library_without_features_is_free_of_what_they_bring() {
    let tree = |features: &[&str]| -> String {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([
            "tree",
            "--offline",
            "--locked",
            "--edges=normal,build",
            "--prefix=none",
            "--format={p}",
            "-p",
            "toolcell",
        ]);
        let tree = cargo.args(features).current_dir(root()).output().unwrap();
        assert!(
            tree.status.success(),
            "{}",
            String::from_utf8_lossy(&tree.stderr)
        );
        String::from_utf8(tree.stdout).unwrap()
    };
    let names = |features: &[&str]| -> BTreeSet<String> {
        let tree = tree(features);
        let names = tree.lines().filter_map(|line| line.split(' ').next());
        names.map(str::to_owned).collect()
    };
    let brought = [
        "rusqlite",
        "libsqlite3-sys",
        "hickory-resolver",
        "hickory-net",
        "hickory-proto",
        "jsonschema-macros",
        "ciborium",
    ];
    let missing = |names: &BTreeSet<String>| {
        let missing = brought.iter().filter(|name| !names.contains(**name));
        missing.copied().collect::<Vec<_>>()
    };
    assert_eq!(missing(&names(&[])), Vec::<&str>::new());
    let left = names(&["--no-default-features"]);
    assert_eq!(missing(&left), brought, "{left:#?}");
    assert!(left.contains("wasmtime"), "{left:#?}");
}

/// The product's former name, from before the first release, belongs to another sandbox for agents.
#[test]
fn the_old_name_is_nowhere() {
    let old = ["hot", "cell"].concat();
    let files = tracked();
    let has = |text: &[u8]| {
        String::from_utf8_lossy(text)
            .to_ascii_lowercase()
            .contains(&old)
    };
    let left: Vec<&String> = files
        .iter()
        .filter(|file| {
            has(file.as_bytes()) || std::fs::read(root().join(file)).is_ok_and(|text| has(&text))
        })
        .collect();
    assert!(left.is_empty(), "{left:#?}");
}

/// The families of requirements that the table of `docs/agent-tool.md` must have.
const FAMILIES: &str = "OBJ DECL IF SURF NS IN INP OUT EXEC PERM DEC INV ST PIPE SCHED DEF PROG CAN RES CONT TERM PERS \
                        STRAT REND CIRC ERR EC MAP EV HOOK HEV HO MUT FS ACC";

#[test]
fn the_table_of_the_specification_names_what_exists_and_all_that_the_code_mentions() {
    let page = std::fs::read_to_string(root().join("docs/agent-tool.md")).unwrap();
    let rows: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| AT-"))
        .collect();
    let known: BTreeSet<&str> = rows
        .iter()
        .flat_map(|row| families(row.split('|').nth(1).unwrap()))
        .collect();
    let compiled = compiled();
    let mut wrong = Vec::new();
    for row in &rows {
        let words: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        if !words.iter().any(|word| word.contains("::")) {
            wrong.push(format!("this row names no test: {row}"));
        }
        let exists = |word: &str| match word.split_once("::") {
            Some((file, test)) => has_test(&compiled, file, test),
            None => !(word.ends_with(".rs") || word.ends_with(".json")) || place(word).is_file(),
        };
        wrong.extend(
            words
                .into_iter()
                .filter(|word| !exists(word))
                .map(|word| format!("there is no {word}")),
        );
    }
    wrong.extend(
        FAMILIES
            .split_whitespace()
            .filter(|family| !known.contains(family))
            .map(|id| format!("no AT-{id}")),
    );
    let scenarios = (1..=17).map(|number| format!("| AT-ACC-{number:02} "));
    wrong.extend(scenarios.filter(|scenario| !rows.iter().any(|row| row.starts_with(scenario))));
    let acceptance = std::fs::read_to_string(root().join("tests/acceptance/mod.rs")).unwrap();
    let named = |test: &str| page.contains(&format!("`tests/acceptance/mod.rs::{test}`"));
    let unnamed = tests_in(&acceptance)
        .into_iter()
        .filter(|test| !named(test));
    wrong.extend(unnamed.map(|test| format!("{test} is not named")));
    let is_meant = |file: &str| {
        (file.starts_with("host/") || file.starts_with("tests/")) && file.ends_with(".rs")
    };
    for file in tracked().iter().filter(|file| is_meant(file)) {
        let text = std::fs::read_to_string(root().join(file)).unwrap_or_default();
        wrong.extend(
            families(&text)
                .difference(&known)
                .map(|id| format!("{file} mentions AT-{id}")),
        );
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A reader looks for code in ARCHITECTURE.md first, and for its reasons in the decisions.
#[test]
fn the_map_and_the_decisions_name_files_that_exist() {
    let mut wrong = Vec::new();
    let is_map = |file: &str| file == "ARCHITECTURE.md" || file.starts_with("docs/decisions/");
    for page in tracked().iter().filter(|file| is_map(file)) {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        for word in text.split('`').skip(1).step_by(2) {
            let folder = word.split_once('/').map_or("", |(folder, _)| folder);
            let is_path = word.ends_with(".rs") || word.ends_with('/');
            let is_named = ["host", "tests"].contains(&folder) || CRATES.contains(&folder);
            if is_path && is_named && !word.contains('*') && !place(word).exists() {
                wrong.push(format!("{page}: there is no {word}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Where a call gets its authority, and where the engine makes a request of another one.
const REQUESTS: [&str; 2] = ["engine/src/pipeline/request.rs", "toolcell/src/tool_set.rs"];
/// What knows live calls: the engine those that run, to cancel them, and a server those that clients can ask about.
/// The store of approvals is in memory where a build has no database.
const REGISTRIES: [&str; 3] = [
    "engine/src/pipeline/running.rs",
    "journal/src/memory/store.rs",
    "server/src/calls/mod.rs",
];

/// A second place would forget one of a call's grants, rules, limits or answers.
#[test]
fn one_place_gives_a_call_its_authority_and_one_registry_knows_the_calls_of_a_server() {
    let mut requests = BTreeSet::new();
    let mut registries = BTreeSet::new();
    for file in sources() {
        let text = std::fs::read_to_string(&file).unwrap();
        let file = file.strip_prefix(root().join("host")).unwrap().to_owned();
        let code: String = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .take_while(|line| !line.contains("#[cfg(test)]"))
            .map(|line| format!("{line}\n"))
            .collect();
        let is_engines = text.contains("pipeline::Request")
            || text.contains("super::Request")
            || text.contains("struct Request {")
            || uses_of(&code).any(|names| names.contains(&"Request"));
        let makes = ["Request::new(", "Request {\n"];
        let makes_one = |made: &str| {
            code.match_indices(made)
                .any(|(at, _)| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == ':'))
        };
        if is_engines && makes.into_iter().any(makes_one) {
            requests.insert(file.display().to_string());
        }
        // What is measured of a call changes nothing for it.
        let measures = file.iter().any(|part| part == "telemetry");
        if code.contains("Map<InvocationId, ") && !measures {
            registries.insert(file.display().to_string());
        }
    }
    assert!(requests.iter().eq(REQUESTS), "{requests:#?}");
    assert!(registries.iter().eq(REGISTRIES), "{registries:#?}");
}

/// The names that each `use` of the library or of the pipeline brings in.
fn uses_of(code: &str) -> impl Iterator<Item = Vec<&str>> {
    let uses = code
        .split("\nuse ")
        .skip(1)
        .filter_map(|rest| rest.split(';').next());
    let is_meant = |path: &&str| path.starts_with("toolcell") || path.contains("pipeline");
    uses.filter(is_meant).map(|path| {
        path.split(|c: char| !c.is_alphanumeric() && c != '_')
            .collect()
    })
}

/// The SDK has the words of the contract in lists of its own, because it is built without the host. The words of the
/// schemas are those of the host's types.
#[test]
fn the_sdk_knows_the_words_of_the_host() {
    let blocks = listed("guest-sdk/rust/src/output.rs", "TYPES");
    assert_eq!(blocks, GUEST_BLOCKS);
    let macros = "guest-sdk/rust/macros/src/attributes.rs";
    // Structured output is no block, but a tool declares it among them.
    let declared = [&GUEST_BLOCKS[..], &["structured_content"]].concat();
    assert_eq!(listed(macros, "CONTENT"), declared);
    let words = &own_schemas()["common"]["$defs"];
    for (list, name) in [
        ("RISKS", "risk_level"),
        ("ACCESS_KINDS", "access_kind"),
        ("WRITE_EFFECTS", "write_effect"),
        ("CONTEXT_MODIFIER_POLICIES", "context_modifier_policy"),
    ] {
        assert_eq!(json!(listed(macros, list)), words[name]["enum"], "{list}");
    }
}

#[test]
fn the_clients_have_the_version_of_the_program() {
    let version = env!("CARGO_PKG_VERSION");
    for (file, before) in [
        ("clients/python/pyproject.toml", "version = "),
        ("clients/python/src/toolcell/_session.py", "VERSION = "),
        ("clients/npm/package.json", "\"version\": "),
        ("clients/npm/src/client.ts", "const VERSION = "),
    ] {
        let text = std::fs::read_to_string(place(file)).unwrap();
        assert!(text.contains(&format!("{before}\"{version}\"")), "{file}");
    }
}

/// The texts in the constant list `name` of a source file.
fn listed(file: &str, name: &str) -> Vec<String> {
    let source = std::fs::read_to_string(root().join(file)).unwrap();
    let list = source
        .split_once(&format!("const {name}: "))
        .and_then(|(_, rest)| rest.split_once(" ="));
    let list = list
        .and_then(|(_, rest)| rest.split_once("];"))
        .unwrap_or_else(|| panic!("{file} has no list {name}"))
        .0;
    list.split('"')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// The ids of families in `text`: `IN` of `AT-IN-06`.
fn families(text: &str) -> BTreeSet<&str> {
    let found = text.match_indices("AT-").filter_map(|(at, found)| {
        let before = &text[..at];
        let after = &text[at + found.len()..];
        let end = after
            .find(|c: char| !c.is_ascii_uppercase())
            .unwrap_or(after.len());
        (end > 0 && !before.ends_with(|c: char| c.is_alphanumeric())).then(|| &after[..end])
    });
    found.collect()
}

/// The file that the table calls `file`.
fn place(file: &str) -> PathBuf {
    match file.split_once('/') {
        Some((package, rest)) if CRATES.contains(&package) => {
            root().join("host").join(package).join("src").join(rest)
        }
        _ => root().join(file),
    }
}

/// Whether `file` has the test: among the `compiled` tests of this binary, or, if it belongs to another one, in the source.
fn has_test(compiled: &str, file: &str, test: &str) -> bool {
    let Some(path) = file.strip_prefix("tests/") else {
        return std::fs::read_to_string(place(file))
            .is_ok_and(|source| tests_in(&source).contains(&test));
    };
    let module = path
        .trim_end_matches(".rs")
        .trim_end_matches("/mod")
        .replace('/', "::");
    let name = format!("{module}::{test}: test");
    place(file).is_file() && compiled.lines().any(|line| line == name)
}

/// The tests of this binary, a line for each.
fn compiled() -> String {
    let listed = Command::new(std::env::current_exe().unwrap())
        .args(["--list", "--format=terse"])
        .output()
        .unwrap();
    assert!(
        listed.status.success(),
        "the tests cannot be listed: {}",
        String::from_utf8_lossy(&listed.stderr)
    );
    String::from_utf8(listed.stdout).unwrap()
}

/// The names of the functions in `source` that have the attribute of a test.
fn tests_in(source: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut is_marked = false;
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[") {
            is_marked |= line == "#[test]" || line.starts_with("#[tokio::test");
        } else if !line.is_empty() && !line.starts_with("//") {
            let function = line
                .strip_prefix("async ")
                .unwrap_or(line)
                .strip_prefix("fn ");
            found.extend(
                function
                    .filter(|_| is_marked)
                    .and_then(|rest| rest.split_once('('))
                    .map(|(name, _)| name),
            );
            is_marked = false;
        }
    }
    found
}

/// The files that git tracks.
fn tracked() -> Vec<String> {
    let listed = Command::new("git")
        .arg("-C")
        .arg(root())
        .args(["ls-files", "-z"])
        .output()
        .unwrap();
    assert!(
        listed.status.success(),
        "git cannot list the files: {}",
        String::from_utf8_lossy(&listed.stderr)
    );
    let files = String::from_utf8(listed.stdout).unwrap();
    let files: Vec<String> = files.split_terminator('\0').map(str::to_owned).collect();
    assert!(files.len() > 400, "git lists {} files only", files.len());
    files
}

/// All source files of the host.
pub(crate) fn sources() -> Vec<std::path::PathBuf> {
    fn files(path: &std::path::Path) -> Vec<std::path::PathBuf> {
        if path.is_dir() {
            std::fs::read_dir(path)
                .unwrap()
                .flat_map(|entry| files(&entry.unwrap().path()))
                .collect()
        } else {
            Some(path.to_owned())
                .filter(|path| path.extension().is_some_and(|ext| ext == "rs"))
                .into_iter()
                .collect()
        }
    }
    let crates = std::fs::read_dir(root().join("host")).unwrap();
    crates
        .flat_map(|entry| files(&entry.unwrap().path().join("src")))
        .collect()
}
