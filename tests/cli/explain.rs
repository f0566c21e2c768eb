//! `toolcell explain`: every error code has a page (without one it does not compile), and every page is of a code that
//! toolcell has.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolcell::ErrorCode;

use super::{example, guest};
use crate::support::{Toolcell, own_schemas, root};

/// The pages of all codes.
pub(crate) fn pages() -> Vec<Value> {
    let listed = Toolcell::new(["explain", "--json"]).run().exits(0).json();
    listed["codes"].as_array().unwrap().clone()
}

/// The class and the code of each error that the clients for Python and JavaScript make.
fn of_clients() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for folder in ["clients/python/src/toolcell", "clients/npm/src"] {
        let files = std::fs::read_dir(root().join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().path());
        for file in files.filter(|path| path.is_file()) {
            let source = std::fs::read_to_string(&file).unwrap();
            let made = ["ToolcellError(\"", "FileFault(\""];
            for rest in made
                .iter()
                .flat_map(|made| source.split(made).skip(1).collect::<Vec<_>>())
            {
                if let [class, ", ", code, ..] = rest.splitn(4, '"').collect::<Vec<_>>()[..] {
                    found.push((class.to_owned(), code.to_owned()));
                }
            }
            let invalid = source
                .split("invalid(\"")
                .skip(1)
                .filter_map(|rest| rest.split('"').next());
            found.extend(invalid.map(|code| ("invalid_arguments".to_owned(), code.to_owned())));
        }
    }
    assert!(
        found.len() > 30,
        "only {} errors of the clients were found",
        found.len()
    );
    found
}

fn text<'a>(page: &'a Value, field: &str) -> &'a str {
    page[field].as_str().unwrap()
}

/// The sources of the host.
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

/// The codes that the sources of the host name, as `ErrorCode` has them.
fn of_host() -> HashSet<String> {
    let mut files = Vec::new();
    sources(&root().join("host"), &mut files);
    let mut found = HashSet::new();
    for file in files {
        let source = std::fs::read_to_string(file).unwrap();
        let names = source.split("ErrorCode::").skip(1).map(|rest| {
            let end = rest.find(|letter: char| !letter.is_alphanumeric());
            rest[..end.unwrap_or(rest.len())].to_owned()
        });
        found.extend(names);
    }
    found
}

#[test]
fn every_page_is_of_a_code_that_the_host_a_client_or_a_report_has() {
    let host = of_host();
    let clients = of_clients();
    let blockers = own_schemas()["common"]["$defs"]["replay_blocker"]["enum"].clone();
    let blockers = blockers.as_array().unwrap();
    let unused: Vec<ErrorCode> = ErrorCode::explanations()
        .iter()
        .map(|explanation| explanation.code)
        .filter(|code| !host.contains(&format!("{code:?}")))
        .filter(|code| !clients.iter().any(|(_, name)| name == code.as_str()))
        .filter(|code| !blockers.iter().any(|blocker| *blocker == code.as_str()))
        .collect();
    assert!(
        unused.is_empty(),
        "nothing has these codes of host/spec/errors.toml: {unused:?}"
    );
    let pages = pages();
    assert_eq!(pages.len(), ErrorCode::explanations().len());
    for blocker in blockers {
        assert!(
            pages.iter().any(|page| page["code"] == *blocker),
            "{blocker}"
        );
    }
    for (class, code) in clients {
        let page = pages.iter().find(|page| page["code"] == code.as_str());
        let page = page.unwrap_or_else(|| panic!("{code} of a client has no page"));
        let origins = page["origins"].as_array().unwrap();
        assert!(
            origins
                .iter()
                .any(|origin| origin["error_class"] == class.as_str()),
            "{code}: {class}"
        );
    }
}

#[test]
fn a_page_says_what_an_error_means_and_what_to_do() {
    let said = Toolcell::new(["explain", "sandbox_violation/memory_limit"])
        .run()
        .exits(0)
        .stdout;
    for words in [
        "memory_limit: ",
        "cause ",
        "remedy ",
        "--memory",
        "sandbox_violation (AT-EC-12)",
        "exit code  4",
        "retry ",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let page = Toolcell::new(["explain", "exit_3", "--json"])
        .run()
        .exits(0)
        .json();
    assert_eq!(page["code"], "exit_N");
    let problem = Toolcell::new(["explain", "unknown_call"])
        .run()
        .exits(0)
        .stdout;
    assert!(
        problem.contains("HTTP API   status 404") && !problem.contains("exit code"),
        "{problem}"
    );
    let listed = Toolcell::new(["explain"]).run().exits(0).stdout;
    assert_eq!(listed.lines().count(), pages().len());
}

#[test]
fn a_class_is_explained_by_its_codes() {
    let listed = Toolcell::new(["explain", "timeout"]).run().exits(0).stdout;
    assert!(
        listed.contains("deadline_exceeded  ") && listed.contains("fuel_exhausted  "),
        "{listed}"
    );
    assert!(!listed.contains("memory_limit"), "{listed}");
}

#[test]
fn an_unknown_code_is_exit_2_with_similar_ones() {
    let ran = Toolcell::new(["explain", "not_grantd"]).run().exits(2);
    assert!(
        ran.stdout.is_empty() && ran.stderr.contains("`not_granted`"),
        "{}",
        ran.stderr
    );
    Toolcell::new(["explain", "", "--json"]).run().exits(2);
}

#[test]
fn a_page_has_the_exit_code_and_the_class_of_the_call() {
    let spin = guest("hostile#spin");
    let search = format!("{}#search", example("files"));
    for call in [
        &["call", &spin, "--timeout=50ms"][..],
        &["call", &guest("probe#strict"), "{}"],
        &["call", "no/such/tool.wasm"],
        &["call", &search, "{\"pattern\": \"x\"}"],
        &["call", &guest("hostile#panic")],
        &[
            "call",
            &guest("probe#big"),
            "{\"bytes\": 9999}",
            "--max-output=1KiB",
        ],
    ] {
        let ran = Toolcell::new([call, &["--json"]].concat()).run();
        let error = ran.json()["error"].clone();
        let page = Toolcell::new(["explain", text(&error, "error_code"), "--json"])
            .run()
            .exits(0)
            .json();
        let same = page["origins"].as_array().unwrap().iter().any(|origin| {
            origin["error_class"] == error["error_class"]
                && origin["exit_code"] == json!(ran.code)
                && origin["recoverability"] == error["recoverability"]
        });
        assert!(same, "{call:?}: {error:#}\n{page:#}");
    }
}

#[test]
fn the_two_commands_called_explain_name_each_other() {
    let error = Toolcell::new(["explain", "--help"]).run().exits(0).stdout;
    let decision = Toolcell::new(["policy", "check", "--explain", "--help"])
        .run()
        .exits(0)
        .stdout;
    assert!(
        error.contains("`toolcell policy check --explain`"),
        "{error}"
    );
    assert!(decision.contains("`toolcell explain`"), "{decision}");
}
