//! Promise: An approval is for one thing.

use std::path::Path;

use serde_json::json;

use super::{Place, copy_of, ended, waiting};
use crate::cli::guest;
use crate::support::{Toolcell, scratch};

#[test]
fn always_holds_for_the_same_tool_with_the_same_access_in_the_same_session() {
    let mut place = Place::new();
    let file = place.folder.join("tool.wasm");
    place.tool = copy_of(&place.tool, &file);
    let session = ["--session=work", "--print-record"];
    let (child, id) = place.waiting("one", &session);
    let asked = place.show(&id);
    let suggested = &asked["decisions"][0]["suggested_updates"][0];
    assert_eq!(
        (&suggested["type"], &suggested["behavior"]),
        (&"session_rule".into(), &"allow".into())
    );
    // A yes does not mean always: a suggested rule is written only if it is accepted.
    place.run(&["approvals", "approve", &id]).exits(0);
    ended(child).exits(0);
    let (child, id) = place.waiting("two", &session);
    place
        .run(&["approvals", "approve", &id, "--always"])
        .exits(0);
    ended(child).exits(0);

    let record = place.call("three", &session).run().exits(0).json();
    assert_eq!(place.lines(), ["one", "two", "three"]);
    let decision = &record["decisions"][0];
    assert_eq!(
        (&decision["behavior"], &decision["source"]),
        (&"allow".into(), &"session".into())
    );
    assert!(
        decision["rule_refs"][0]
            .as_str()
            .unwrap()
            .starts_with("session:sha256:")
    );

    asks_again(&place, &["--session=other"]);
    asks_again(&place, &[]);
    let (_more, wider) = scratch();
    let more = format!("--allow-read={}", wider.display());
    asks_again(&place, &["--session=work", &more]);
    asks_again(&place, &["--session=work", "--memory=300MiB"]);
    let (child, id) = waiting(
        place
            .call("asks", &["--session=work"])
            .env("TOOLCELL_ACTOR", "agent:7"),
    );
    place.run(&["approvals", "deny", &id]).exits(0);
    ended(child).exits(3);
    // The same file with other bytes.
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.extend_from_slice(&[0, 3, 1, b'x', b'y']);
    std::fs::write(&file, bytes).unwrap();
    asks_again(&place, &["--session=work"]);
    assert_eq!(place.lines(), ["one", "two", "three"]);
}

#[track_caller]
fn asks_again(place: &Place, options: &[&str]) {
    let (child, id) = place.waiting("asks", options);
    place.run(&["approvals", "deny", &id]).exits(0);
    ended(child).exits(3);
}

/// A call in the session `work` that writes to `path`, and gets only the folder of it.
fn writing(place: &Place, path: &Path, options: &[&str]) -> Toolcell {
    let input = json!({ "path": path }).to_string();
    let grant = format!("--allow-write={}", place.folder.display());
    let mut arguments = vec![
        "call",
        &place.tool,
        &input,
        &grant,
        "--session=work",
        "--print-record",
    ];
    arguments.extend(options);
    place.toolcell(&arguments)
}

/// A place where a rule asks about each call of a tool that writes what its argument names.
fn asking() -> Place {
    let place = Place::of(&guest("probe#write_named"));
    std::fs::write(
        place.home.join("toolcell.toml"),
        "[[rule]]\nbehavior = \"ask\"\ntool = \"probe.*\"\n",
    )
    .unwrap();
    for folder in ["a/deep", "ab", "b"] {
        std::fs::create_dir_all(place.folder.join(folder)).unwrap();
    }
    place
}

#[test]
fn always_covers_what_lies_below_and_nothing_beside_it() {
    let place = asking();
    let folder = &place.folder;
    std::os::unix::fs::symlink("../b", folder.join("a/link")).unwrap();
    let (child, id) = waiting(writing(&place, &folder.join("a/file"), &[]));
    let question = place.run(&["approvals", "show", &id]).exits(0).stdout;
    let could = format!(
        "| access     read and change files in {}\n",
        folder.join("a").display()
    );
    assert!(
        question.contains("| always     would allow any call") && question.contains(&could),
        "{question}"
    );
    place
        .run(&["approvals", "approve", &id, "--always"])
        .exits(0);
    let made = ended(child).exits(0).json();
    assert_eq!(
        made["decisions"][0]["suggested_updates"][0]["type"],
        "session_rule"
    );

    for below in [
        "a/file",
        "a/other",
        "a/deep/file",
        "a/deep/../deep/file",
        "a/missing/file",
    ] {
        let record = writing(&place, &folder.join(below), &[])
            .run()
            .exits(0)
            .json();
        let decision = &record["decisions"][0];
        assert_eq!(
            (&decision["behavior"], &decision["source"]),
            (&"allow".into(), &"session".into()),
            "{below}"
        );
        assert!(
            decision["rule_refs"]
                .as_array()
                .unwrap()
                .iter()
                .any(|rule| rule.as_str().unwrap().starts_with("session:"))
        );
    }
    for beside in [
        "b/file",
        "ab/file",
        "file",
        "a/../b/file",
        "a/deep/../../file",
        "a/link/file",
    ] {
        let (child, id) = waiting(writing(&place, &folder.join(beside), &[]));
        place.run(&["approvals", "deny", &id]).exits(0);
        ended(child).exits(3);
        assert!(!folder.join(format!("{beside}.new")).exists(), "{beside}");
    }
    // A denial that is gone opens more than was approved.
    let denial = format!("--deny-write={}", folder.join("b/kept").display());
    let (child, id) = waiting(writing(&place, &folder.join("b/file"), &[&denial]));
    place
        .run(&["approvals", "approve", &id, "--always"])
        .exits(0);
    ended(child).exits(0);
    writing(&place, &folder.join("b/again"), &[&denial])
        .run()
        .exits(0);
    let (child, id) = waiting(writing(&place, &folder.join("b/more"), &[]));
    place.run(&["approvals", "deny", &id]).exits(0);
    ended(child).exits(3);
}

#[test]
fn the_journal_names_no_path_of_an_allowance_in_plain_text() {
    let place = asking();
    let (child, id) = waiting(writing(&place, &place.folder.join("a/file"), &[]));
    place
        .run(&["approvals", "approve", &id, "--always"])
        .exits(0);
    let rule = ended(child).exits(0).json()["decisions"][0]["suggested_updates"][0].to_string();
    assert!(
        rule.contains("capability") && !rule.contains(&*place.folder.to_string_lossy()),
        "{rule}"
    );
}

#[test]
fn a_session_rule_overrules_no_denial() {
    let place = Place::new();
    let (child, id) = place.waiting("one", &["--session=work"]);
    place
        .run(&["approvals", "approve", &id, "--always"])
        .exits(0);
    ended(child).exits(0);
    let denial = format!("--deny-write={}", place.folder.display());
    let refused = place
        .call("two", &["--session=work", &denial])
        .run()
        .exits(3);
    assert!(
        refused.stderr.contains("permission_denied"),
        "{}",
        refused.stderr
    );
    assert_eq!(place.lines(), ["one"]);
}

#[test]
fn what_was_approved_for_a_session_can_be_forgotten() {
    let place = Place::new();
    let forget = || {
        place
            .run(&["approvals", "revoke", "--json"])
            .exits(0)
            .json()["forgotten"]
            .clone()
    };
    assert_eq!(forget(), 0, "no approval was ever requested");
    let (child, id) = place.waiting("one", &["--session=work"]);
    place
        .run(&["approvals", "approve", &id, "--always"])
        .exits(0);
    ended(child).exits(0);
    place.call("two", &["--session=work"]).run().exits(0);
    assert_eq!(forget(), 1);
    asks_again(&place, &["--session=work"]);
    assert_eq!(place.lines(), ["one", "two"]);
}
