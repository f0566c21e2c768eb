//! What the pages claim and the sources can confirm: tests that they name, codes that they list, and who acts in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::pages;
use crate::cli::explain;
use crate::support::root;

/// Words in place of the one who acts: the caller, the client, the approver, the operator, the author, another user.
const VAGUE: [&str; 8] = [
    "nobody",
    "somebody",
    "anybody",
    "everybody",
    "someone",
    "anyone",
    "everyone",
    "whoever",
];

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

#[test]
fn the_pages_and_the_help_name_who_acts() {
    let others = [
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
    ];
    let others = others.map(|path| (path.to_owned(), read(path)));
    let mut found = Vec::new();
    for (path, text) in pages().into_iter().chain(others) {
        // A name with an underscore, such as that of a code or a test, is one word.
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        let vague = words.filter(|word| VAGUE.contains(&word.to_ascii_lowercase().as_str()));
        found.extend(vague.map(|word| format!("{path}: {word}")));
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// The Rust sources below `folder`.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The first words of each promise, in the order of their page.
fn promises() -> Vec<String> {
    let page = read("docs/security/promises.md");
    let listed = page
        .lines()
        .filter_map(|line| line.strip_prefix("- **")?.split("**").next());
    listed.map(str::to_owned).collect()
}

/// The promises that the first comments of tests name, with the files of each.
fn shown() -> BTreeMap<String, BTreeSet<String>> {
    let mut files = Vec::new();
    sources(&root().join("tests"), &mut files);
    // The protocol between machines is simulated beside its code, and tested with servers by scripts.
    sources(&root().join("host/cluster/src/simulation"), &mut files);
    let scripts = std::fs::read_dir(root().join("tests/cluster")).unwrap();
    let scripts = scripts.map(|entry| entry.unwrap().path());
    files
        .extend(scripts.filter(|path| path.extension().is_some_and(|extension| extension == "py")));
    let mut shown: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = file.strip_prefix(root()).unwrap().to_str().unwrap();
        for promise in text
            .lines()
            .take_while(|line| line.starts_with("//!") || line.starts_with("# "))
            .filter_map(|line| line.split_once(" Promise: "))
            .map(|(_, promise)| promise)
        {
            shown
                .entry(promise.to_owned())
                .or_default()
                .insert(name.to_owned());
        }
    }
    shown
}

/// The page of the book with the tests of each promise.
pub(super) fn tests_of_promises() -> String {
    let mut text = "# Tests of the promises\n\nThe files of tests that show each [promise](promises.md), as their first comments name them. \
                    `tests/cli/book` fails if a promise has none.\n\n| promise | tests |\n|---|---|\n"
        .to_owned();
    let shown = shown();
    for promise in promises() {
        let files: Vec<String> = shown
            .get(&promise)
            .into_iter()
            .flatten()
            .map(|file| format!("`{file}`"))
            .collect();
        writeln!(text, "| {promise} | {} |", files.join(", ")).unwrap();
    }
    text
}

#[test]
fn each_promise_has_a_test_and_each_test_names_a_promise() {
    let promised = BTreeSet::from_iter(promises());
    let shown = BTreeSet::from_iter(shown().into_keys());
    assert!(promised.len() > 60, "only {} were found", promised.len());
    let untested: Vec<&String> = promised.difference(&shown).collect();
    assert!(untested.is_empty(), "no test names {untested:#?}");
    let unknown: Vec<&String> = shown.difference(&promised).collect();
    assert!(
        unknown.is_empty(),
        "docs/security/promises.md lacks {unknown:#?}"
    );
}

#[test]
fn unsafe_code_is_where_security_says() {
    let mut files = Vec::new();
    for package in std::fs::read_dir(root().join("host")).unwrap() {
        sources(&package.unwrap().path().join("src"), &mut files);
    }
    let is_unsafe = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        let shipped = text.split("mod tests {").next().unwrap();
        let mut code = shipped
            .lines()
            .map(str::trim_start)
            .filter(|line| !line.starts_with("//"));
        code.any(|line| {
            ["unsafe {", "unsafe fn ", "unsafe impl "]
                .iter()
                .any(|start| line.contains(start))
        })
    };
    let found: BTreeSet<PathBuf> = files
        .iter()
        .filter(|path| is_unsafe(path))
        .map(|path| path.strip_prefix(root()).unwrap().to_owned())
        .collect();
    let places = [
        "host/cli/src/main.rs",
        "host/sandbox/src/component.rs",
        "host/sandbox/src/stack.rs",
    ];
    assert_eq!(found, BTreeSet::from(places.map(PathBuf::from)));
}

#[test]
fn the_pages_for_shippers_list_every_code() {
    let page = read("docs/publishing.md");
    let commands = ["check", "published", "push", "reproduce"]
        .map(|name| format!("host/cli/src/command/{name}.rs"));
    let mut codes = BTreeSet::new();
    for path in commands
        .iter()
        .map(String::as_str)
        .chain(["host/install/src/check.rs"])
    {
        let text = read(path);
        let made = ["Error,", "Warning,", "Note,"].map(|severity| text.split(severity).skip(1));
        let made = made.into_iter().flatten();
        let made = made.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next());
        codes.extend(made.map(str::to_owned));
    }
    assert!(codes.len() > 12, "{codes:?}");
    let unlisted: Vec<&String> = codes
        .iter()
        .filter(|code| !page.contains(&format!("`{code}`")))
        .collect();
    assert!(unlisted.is_empty(), "docs/publishing.md lacks {unlisted:?}");
    let page = read("docs/signatures.md");
    let known = explain::pages();
    let codes = known.iter().filter_map(|entry| entry["code"].as_str());
    let codes: Vec<&str> = codes.filter(|code| code.starts_with("sign")).collect();
    assert!(codes.len() > 12, "{codes:?}");
    let unlisted: Vec<&&str> = codes
        .iter()
        .filter(|code| !page.contains(&format!("`{code}`")))
        .collect();
    assert!(unlisted.is_empty(), "docs/signatures.md lacks {unlisted:?}");
}
