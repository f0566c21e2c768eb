use super::{Place, copy_of, ended, waiting};
use crate::support::scratch;

#[test]
fn always_holds_for_the_same_tool_with_the_same_access_in_the_same_session() {
    let mut place = Place::new();
    let file = place.folder.join("tool.wasm");
    place.tool = copy_of(&place.tool, &file);
    let session = ["--session=work", "--record"];
    let (child, id) = place.waiting("one", &session);
    let asked = place.show(&id);
    let suggested = &asked["decisions"][0]["suggested_updates"][0];
    assert_eq!((&suggested["type"], &suggested["behavior"]), (&"session_rule".into(), &"allow".into()));
    // A yes does not mean always: a suggested rule is written only if it is accepted.
    place.run(&["approvals", "approve", &id]).exits(0);
    ended(child).exits(0);
    let (child, id) = place.waiting("two", &session);
    place.run(&["approvals", "approve", &id, "--always"]).exits(0);
    ended(child).exits(0);

    let record = place.call("three", &session).run().exits(0).json();
    assert_eq!(place.lines(), ["one", "two", "three"]);
    let decision = &record["decisions"][0];
    assert_eq!((&decision["behavior"], &decision["source"]), (&"allow".into(), &"session".into()));
    assert!(decision["rule_refs"][0].as_str().unwrap().starts_with("session:sha256:"));

    asks_again(&place, &["--session=other"]);
    asks_again(&place, &[]);
    let (_more, wider) = scratch();
    let more = format!("--allow-read={}", wider.display());
    asks_again(&place, &["--session=work", &more]);
    asks_again(&place, &["--session=work", "--memory=300MiB"]);
    let (child, id) = waiting(place.call("asks", &["--session=work"]).env("TOOLCELL_ACTOR", "agent:7"));
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

#[test]
fn a_session_rule_overrules_no_denial() {
    let place = Place::new();
    let (child, id) = place.waiting("one", &["--session=work"]);
    place.run(&["approvals", "approve", &id, "--always"]).exits(0);
    ended(child).exits(0);
    let denial = format!("--deny-write={}", place.folder.display());
    let refused = place.call("two", &["--session=work", &denial]).run().exits(3);
    assert!(refused.stderr.contains("permission_denied"), "{}", refused.stderr);
    assert_eq!(place.lines(), ["one"]);
}

#[test]
fn what_was_approved_for_a_session_can_be_forgotten() {
    let place = Place::new();
    let forget = || place.run(&["approvals", "forget", "--json"]).exits(0).json()["forgotten"].clone();
    assert_eq!(forget(), 0, "nobody was ever asked");
    let (child, id) = place.waiting("one", &["--session=work"]);
    place.run(&["approvals", "approve", &id, "--always"]).exits(0);
    ended(child).exits(0);
    place.call("two", &["--session=work"]).run().exits(0);
    assert_eq!(forget(), 1);
    asks_again(&place, &["--session=work"]);
    assert_eq!(place.lines(), ["one", "two"]);
}
