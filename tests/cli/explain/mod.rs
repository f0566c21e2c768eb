//! `toolcell explain`: every error code has a page, and every page is of a code that toolcell has.

mod emitted;
mod source;

use std::collections::BTreeSet;

use serde_json::{Value, json};

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
            for rest in source.split("ToolcellError(\"").skip(1) {
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

#[test]
fn every_code_of_the_sources_has_a_page_and_every_page_a_code() {
    let emitted = emitted::emitted();
    assert!(
        emitted.unclear.is_empty(),
        "the code of an error is no literal, constant or `code`: {:#?}",
        emitted.unclear
    );
    let mut codes: BTreeSet<String> = emitted.codes.keys().cloned().collect();
    let blockers = own_schemas()["common"]["$defs"]["replay_blocker"]["enum"]
        .as_array()
        .unwrap();
    let clients = of_clients();
    codes.extend(clients.iter().map(|(_, code)| code.clone()));
    codes.extend(
        blockers
            .iter()
            .map(|blocker| blocker.as_str().unwrap().to_owned()),
    );
    let pages = pages();
    let known: BTreeSet<String> = pages
        .iter()
        .map(|page| text(page, "code").to_owned())
        .collect();
    assert!(codes.len() > 200, "only {} codes were found", codes.len());
    let unexplained: Vec<_> = codes
        .difference(&known)
        .map(|code| (code, emitted.codes.get(code)))
        .collect();
    assert!(
        unexplained.is_empty(),
        "add a page in host/inspect/src/explain/pages: {unexplained:#?}"
    );
    let unused: Vec<&String> = known.difference(&codes).collect();
    assert!(
        unused.is_empty(),
        "no source emits the codes of these pages: {unused:?}"
    );
    let mut wrong = Vec::new();
    let of_host = emitted
        .classes
        .into_iter()
        .map(|(class, code)| (json!(class), code));
    for (class, code) in of_host.chain(
        clients
            .into_iter()
            .map(|(class, code)| (json!(class), code)),
    ) {
        let page = pages
            .iter()
            .find(|page| page["code"] == code.as_str())
            .unwrap();
        let has = page["origins"]
            .as_array()
            .unwrap()
            .iter()
            .any(|origin| origin["error_class"] == class);
        wrong.extend((!has).then(|| format!("{code}: {class}")));
    }
    assert!(
        wrong.is_empty(),
        "pages without a class that errors of the code have: {wrong:?}"
    );
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
