//! Promise: An approval is for one thing.
//! Promise: At most once, and never lost.

use serde_json::json;

use super::{Place, copy_of, error, passed};
use crate::cli::{guest, interrupts::wait_until};
use crate::pipeline::doubles::{echoing, naming_paths};

#[test]
fn a_call_whose_process_was_killed_is_listed_and_runs_once_when_it_is_approved() {
    let place = Place::new();
    let id = place.orphan("one", &[]);
    assert_eq!(place.list(&[]), [(id.clone(), "pending".to_owned())]);
    let ran = place.run(&["approvals", "approve", &id, "--json"]).exits(0);
    assert_eq!(ran.json()["invocation_id"], id);
    assert_eq!(place.lines(), ["one"]);
    let shown = place.show(&id);
    assert_eq!(
        passed(&shown)[2..],
        ["awaiting_approval", "approved", "running", "succeeded"]
    );
    assert_eq!(shown["result"], ran.json());
    for _ in 0..2 {
        let again = place.run(&["approvals", "approve", &id]).exits(3);
        assert!(again.stderr.contains("nothing ran"), "{}", again.stderr);
    }
    assert_eq!(place.lines(), ["one"]);
}

#[test]
fn a_call_whose_process_was_killed_runs_what_was_asked_with_the_words_it_was_asked_with() {
    let place = Place::new();
    let tool = guest("probe#append_approved");
    let input = place.input("relative");
    // A relative grant is resolved against the working directory of the call.
    let call = place.toolcell(&["call", &tool, &input, "--allow-write=."]);
    let (child, id) = super::waiting(call);
    super::kill(child);
    let elsewhere = place
        .toolcell(&["approvals", "approve", &id])
        .dir(&place.home);
    elsewhere.run().exits(0);
    assert_eq!(place.lines(), ["relative"]);

    let id = place.orphan("asked", &[]);
    place
        .run(&[
            "approvals",
            "approve",
            &id,
            "--edit",
            &place.input("edited"),
            "--feedback",
            "why not",
        ])
        .exits(0);
    assert_eq!(place.lines(), ["relative", "edited"]);
    let shown = place.show(&id);
    assert_eq!(shown["mutations"][0]["source_type"], "permission_prompt");
    assert_eq!(
        shown["result"]["additional_context"],
        json!([{"approver_feedback": "why not"}])
    );
}

#[test]
fn a_call_whose_process_was_killed_names_the_paths_that_were_asked_about() {
    let place = Place::of("");
    let component = echoing("asked_paths", |toolkit| {
        naming_paths(toolkit);
        toolkit["permission_profiles"][0]["approval_required"] = json!(true);
    });
    let tool = place.folder.join("reader.wasm");
    let file = place.folder.join("a.txt");
    std::fs::write(&tool, component).unwrap();
    std::fs::write(&file, "").unwrap();
    let sent = json!({ "path": "a.txt", "note": "a.txt" });
    let call = place.toolcell(&[
        "call",
        tool.to_str().unwrap(),
        &sent.to_string(),
        "--allow-read=.",
    ]);
    let (child, id) = super::waiting(call);
    super::kill(child);
    place
        .toolcell(&["approvals", "approve", &id])
        .dir(&place.home)
        .run()
        .exits(0);
    let shown = place.show(&id);
    let given = json!({ "path": file, "note": "a.txt" });
    assert_eq!(shown["result"]["structured_content"], given);
    assert_eq!(shown["invocation"]["permission_input"], sent);
    assert_eq!(shown["invocation"]["call_input"], given);
}

#[test]
fn a_call_whose_process_was_killed_can_be_denied() {
    let place = Place::new();
    let id = place.orphan("one", &[]);
    place
        .run(&["approvals", "deny", &id, "--feedback", "no"])
        .exits(0);
    let shown = place.show(&id);
    assert_eq!(error(&shown), ("approval_rejected", "approval_rejected"));
    assert_eq!(shown["invocation"]["status"], "denied");
    place.run(&["approvals", "approve", &id]).exits(3);
    assert!(place.lines().is_empty());
}

#[test]
fn after_its_time_a_call_whose_process_was_killed_ends_without_running() {
    let place = Place::new();
    let id = place.orphan("one", &["--approval-timeout=600ms"]);
    wait_until("expiring", || place.list(&[]).is_empty());
    let late = place.run(&["approvals", "approve", &id]).exits(3);
    assert!(late.stderr.contains("nothing ran"), "{}", late.stderr);
    let shown = place.show(&id);
    assert_eq!(error(&shown), ("approval_rejected", "approval_expired"));
    assert_eq!(shown["invocation"]["status"], "denied");
    assert!(place.lines().is_empty());
}

#[test]
fn after_the_component_changed_an_approval_runs_nothing() {
    let mut place = Place::new();
    let file = place.folder.join("tool.wasm");
    place.tool = copy_of(&place.tool, &file);
    let id = place.orphan("one", &[]);
    // A custom section changes nothing but the bytes.
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.extend_from_slice(&[0, 3, 1, b'x', b'y']);
    std::fs::write(&file, bytes).unwrap();
    let ran = place.run(&["approvals", "approve", &id]).exits(3);
    assert!(
        ran.stderr
            .contains("since the approval was requested: the component; nothing ran"),
        "{}",
        ran.stderr
    );
    assert!(place.lines().is_empty());
    let shown = place.show(&id);
    assert_eq!(error(&shown), ("approval_rejected", "approval_outdated"));
    assert_eq!(
        (&shown["state"], &shown["invocation"]["status"]),
        (&json!("canceled"), &json!("denied"))
    );
    place.run(&["approvals", "approve", &id]).exits(3);
}

#[test]
fn after_the_component_went_away_nothing_runs_until_it_is_back() {
    let mut place = Place::new();
    let file = place.folder.join("tool.wasm");
    place.tool = copy_of(&place.tool, &file);
    let id = place.orphan("one", &[]);
    let away = place.folder.join("away.wasm");
    std::fs::rename(&file, &away).unwrap();
    let ran = place.run(&["approvals", "approve", &id]).exits(2);
    assert!(ran.stderr.contains("approve it again"), "{}", ran.stderr);
    assert!(place.lines().is_empty());
    assert_eq!(place.list(&[]), [(id.clone(), "approved".to_owned())]);
    std::fs::rename(&away, &file).unwrap();
    place.run(&["approvals", "approve", &id]).exits(0);
    assert_eq!(place.lines(), ["one"]);
}

#[test]
fn after_the_world_of_the_call_changed_an_approval_runs_nothing() {
    let place = Place::new();
    let link = place.folder.join("link");
    let a = place.folder.join("a");
    let b = place.folder.join("b");
    for folder in [&a, &b] {
        std::fs::create_dir(folder).unwrap();
    }
    std::os::unix::fs::symlink(&a, &link).unwrap();
    let input = json!({ "path": "/given/lines", "text": "one\n" }).to_string();
    let grant = format!("--allow-write={}=/given", link.display());
    let (child, id) = super::waiting(place.toolcell(&["call", &place.tool, &input, &grant]));
    super::kill(child);
    // The same path now leads to another folder.
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&b, &link).unwrap();
    let ran = place.run(&["approvals", "approve", &id]).exits(3);
    assert!(
        ran.stderr.contains(
            "since the approval was requested: what the call would be able to do; nothing ran"
        ),
        "{}",
        ran.stderr
    );
    assert!(!a.join("lines").exists() && !b.join("lines").exists());
}
