//! Promise: A call that needs an approval waits for it.
//! Promise: At most once, and never lost.
//! Promise: A question cannot be forged, neither by its characters nor by its length.
//! Promise: No caller approves its own call.

use serde_json::json;

use super::{Place, ended, error, kill, passed, waiting};
use crate::cli::guest;
use crate::cli::interrupts::wait_until;
use crate::pipeline::doubles::echoing;
use crate::support::{check_record, scratch};

#[test]
fn a_call_that_is_approved_from_another_process_runs_in_its_own() {
    let place = Place::new();
    let (child, id) = place.waiting("one", &["--print-record"]);
    assert_eq!(place.list(&[]), [(id.clone(), "pending".to_owned())]);
    assert!(
        place.lines().is_empty(),
        "nothing runs before it is approved"
    );
    let calls = |more: &[&str]| {
        place
            .run(&[&["calls", "--json"][..], more].concat())
            .exits(0)
            .json()["calls"]
            .clone()
    };
    for more in [&[][..], &["--status=awaiting_approval"], &["--since=60m"]] {
        let listed = calls(more);
        assert_eq!(
            (&listed[0]["invocation_id"], &listed[0]["status"]),
            (&json!(id), &json!("awaiting_approval"))
        );
    }
    assert_eq!(calls(&["--status=succeeded"]), json!([]));
    let waits = place.run(&["show", &id, "--json"]).exits(0).json();
    assert_eq!(waits["invocation"]["status"], "awaiting_approval");
    place.run(&["show", &id]).exits(0);
    let said = place
        .run(&["approvals", "approve", &id, "--feedback", "this once"])
        .exits(0);
    assert_eq!(
        said.stderr,
        format!("{id}: approved; the process that asked runs it\n")
    );
    let record = ended(child).exits(0).json();
    assert_eq!(place.lines(), ["one"]);
    assert_eq!(record["invocation"]["invocation_id"], id);
    assert_eq!(
        passed(&record),
        [
            "selected",
            "arguments_ready",
            "awaiting_approval",
            "approved",
            "running",
            "succeeded"
        ]
    );
    let decisions = record["decisions"].as_array().unwrap();
    assert_eq!(
        decisions.iter().map(|d| &d["behavior"]).collect::<Vec<_>>(),
        ["ask", "allow"]
    );
    assert_eq!(decisions[1]["accept_feedback"], "this once");
    assert_eq!(decisions[1]["reason"]["channel"], "command");
    let mut events = record["events"].as_array().unwrap().iter();
    let asked = events.find(|event| event["event_type"] == "tool.permission.requested");
    assert_eq!(asked.unwrap()["data"]["channel"], "any");
    assert_eq!(
        record["result"]["additional_context"],
        json!([{"approver_feedback": "this once"}])
    );
    assert!(place.list(&[]).is_empty());
    assert_eq!(calls(&[])[0]["status"], "succeeded");
    let shown = place.show(&id);
    assert_eq!(
        shown["result"], record["result"],
        "the stored result is the one that was given"
    );
    assert_eq!(shown["events"], record["events"]);
}

#[test]
fn a_call_that_its_tool_refuses_after_the_approval_has_failed() {
    let place = Place::of(&guest("validated#prepared"));
    std::fs::write(place.folder.join("lines"), "not yet").unwrap();
    let rules = place.folder.join("rules.toml");
    std::fs::write(
        &rules,
        "[[rule]]\nbehavior = \"ask\"\ntool = \"validated.prepared\"\n",
    )
    .unwrap();
    let config = format!("--config={}", rules.display());
    let input = json!({ "path": place.folder.join("lines") }).to_string();
    let grant = format!("--allow-write={}", place.folder.display());
    let call = [
        "call",
        &place.tool,
        &input,
        &grant,
        &config,
        "--print-record",
    ];
    let (child, id) = waiting(place.toolcell(&call));
    let said = place.run(&["approvals", "approve", &id]).exits(3);
    assert_eq!(
        said.stderr,
        format!("{id} ended before it was run: it is failed\n")
    );
    let record = ended(child).exits(2).json();
    assert_eq!(error(&record), ("setup_required", "not_ready"));
    assert!(passed(&record).ends_with(&["approved", "running", "failed"]));
}

#[test]
fn a_call_that_is_denied_ends_with_the_note_and_runs_nothing() {
    let place = Place::new();
    let (child, id) = place.waiting("one", &["--print-record"]);
    place
        .run(&["approvals", "deny", &id, "--feedback", "not on a friday"])
        .exits(0);
    let record = ended(child).exits(3).json();
    assert_eq!(error(&record), ("approval_rejected", "approval_rejected"));
    assert!(
        record["result"]["error"]["message"]
            .as_str()
            .unwrap()
            .contains("not on a friday")
    );
    assert_eq!(record["result"]["status"], "rejected");
    assert_eq!(passed(&record).last(), Some(&"denied"));
    assert_eq!(record["decisions"][1]["behavior"], "deny");
    place.run(&["approvals", "approve", &id]).exits(3);
    assert!(place.lines().is_empty());
}

#[test]
fn a_call_whose_approval_ended_long_ago_leaves_the_journal_when_the_next_one_asks() {
    let place = Place::new();
    let ended_call = |line: &str| {
        let (child, id) = place.waiting(line, &["--print-record"]);
        place.run(&["approvals", "deny", &id]).exits(0);
        ended(child).exits(3);
        id
    };
    let old = ended_call("old");
    let young = ended_call("young");
    let store = rusqlite::Connection::open(place.home.join("journal/journal.db")).unwrap();
    let days = 98 * 24 * 60 * 60 * 1_000_i64;
    let earlier = "UPDATE approvals SET asked_at = asked_at - ?2, expires_at = expires_at - ?2 WHERE invocation = ?1";
    assert_eq!(
        store
            .execute(earlier, rusqlite::params![old, days])
            .unwrap(),
        1
    );
    let (child, open) = place.waiting("open", &[]);
    kill(child);
    let mut left: Vec<String> = place
        .list(&["--all"])
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    left.sort();
    assert_eq!(left, [young, open]);
    for (table, id) in [("invocations", "id"), ("approvals", "invocation")] {
        let count = format!("SELECT count(*) FROM {table} WHERE {id} = ?1");
        assert_eq!(
            store
                .query_row(&count, [&old], |row| row.get::<_, i64>(0))
                .unwrap(),
            0,
            "{table}"
        );
    }
    place.run(&["approvals", "approve", &old]).exits(2);
}

#[test]
fn an_edit_is_what_runs_and_the_record_says_who_changed_what() {
    let place = Place::new();
    let (child, id) = place.waiting("asked", &["--print-record"]);
    place
        .run(&[
            "approvals",
            "approve",
            &id,
            "--edit",
            &place.input("edited"),
        ])
        .exits(0);
    let record = ended(child).exits(0).json();
    assert_eq!(place.lines(), ["edited"]);
    let invocation = &record["invocation"];
    let answer = &record["decisions"][1];
    assert_eq!(answer["user_modified"], true);
    assert_eq!(answer["updated_input"], invocation["call_input"]);
    assert_eq!(answer["updated_input_ref"], invocation["call_input_ref"]);
    assert_eq!(invocation["permission_input"]["text"], "asked\n");
    let mutation = &record["result"]["input_mutations"][0];
    assert_eq!(mutation["source_type"], "permission_prompt");
    assert_eq!(mutation["changed_fields"], json!(["/text"]));
    assert_eq!(
        mutation["from_input_ref"],
        invocation["permission_input_ref"]
    );
    assert_eq!(mutation["to_input_ref"], invocation["call_input_ref"]);
    assert_eq!(
        invocation["model_input"]["text"], "asked\n",
        "what the model said stays what it said"
    );
}

#[test]
fn an_edit_that_changes_nothing_is_none() {
    let place = Place::new();
    let (child, id) = place.waiting("same", &["--print-record"]);
    let reordered = json!({ "text": "same\n", "path": place.file() }).to_string();
    place
        .run(&["approvals", "approve", &id, "--edit", &reordered])
        .exits(0);
    let record = ended(child).exits(0).json();
    assert_eq!(record["decisions"][1]["user_modified"], false);
    assert!(record["result"].get("input_mutations").is_none());
    assert_eq!(
        record["invocation"]["call_input_ref"],
        record["invocation"]["model_input_ref"]
    );
}

#[test]
fn an_edit_that_breaks_the_schema_is_refused_and_the_question_stays_open() {
    let place = Place::new();
    place
        .run(&[
            "approvals",
            "approve",
            "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "--edit",
            "{",
        ])
        .exits(2);
    let (child, id) = place.waiting("one", &["--print-record"]);
    for (wrong, why) in [
        ("{\"path\": 7}", "path"),
        ("{\"pth\": \"x\", \"text\": \"y\"}", "pth"),
        ("{", "JSON"),
    ] {
        let refused = place
            .run(&["approvals", "approve", &id, "--edit", wrong])
            .exits(2);
        assert!(
            refused.stderr.contains("--edit: ") && refused.stderr.contains(why),
            "{}",
            refused.stderr
        );
        assert_eq!(place.state(&id), "pending");
    }
    place
        .run(&["approvals", "approve", &id, "--edit", &place.input("right")])
        .exits(0);
    ended(child).exits(0);
    assert_eq!(place.lines(), ["right"]);
}

#[test]
fn a_question_that_is_cut_takes_a_step_of_its_own() {
    let place = Place::new();
    let long = format!("{}the end", "word ".repeat(2_000));
    let (child, id) = place.waiting(&long, &[]);
    let refused = place.run(&["approvals", "approve", &id]).exits(2);
    assert!(
        refused.stderr.contains("--accept-partial-view") && refused.stderr.contains("--full"),
        "{}",
        refused.stderr
    );
    assert_eq!(place.state(&id), "pending");
    let shown = place.run(&["approvals", "show", &id]).exits(0).stdout;
    assert!(
        shown.contains("WARNING: this view is incomplete") && !shown.contains("the end"),
        "{shown}"
    );
    let full = place
        .run(&["approvals", "show", &id, "--full"])
        .exits(0)
        .stdout;
    assert!(
        full.contains("the end") && full.lines().all(|row| row.chars().count() <= 78),
        "{full}"
    );
    place
        .run(&["approvals", "approve", &id, "--accept-partial-view"])
        .exits(0);
    ended(child).exits(0);
    assert_eq!(place.lines().len(), 1);
}

#[test]
fn a_question_that_nobody_answers_in_time_is_a_no() {
    let place = Place::new();
    let ran = place
        .call("one", &["--print-record", "--approval-timeout=300ms"])
        .run()
        .exits(3);
    let record = ran.json();
    assert_eq!(error(&record), ("approval_rejected", "approval_expired"));
    let asked_by = &record["decisions"][0]["policy_refs"];
    assert!(!asked_by.as_array().unwrap().is_empty(), "{record:#}");
    assert_eq!(&record["result"]["error"]["policy_refs"], asked_by);
    assert_eq!(passed(&record).last(), Some(&"denied"));
    let id = record["invocation"]["invocation_id"].as_str().unwrap();
    assert_eq!(place.state(id), "expired");
    let late = place.run(&["approvals", "approve", id]).exits(3);
    assert!(late.stderr.contains("it is expired"), "{}", late.stderr);
    assert!(place.lines().is_empty());
}

#[test]
fn a_call_that_is_stopped_while_it_waits_ends_and_cannot_be_approved() {
    use rustix::process::{Pid, Signal, kill_process};
    for (signal, reason) in [
        (Signal::INT, "user_interruption"),
        (Signal::TERM, "runtime_shutdown"),
    ] {
        let place = Place::new();
        let (child, id) = place.waiting("one", &["--print-record"]);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let record = ended(child).exits(5).json();
        assert_eq!(passed(&record).last(), Some(&"canceled"));
        let requested = record["events"]
            .as_array()
            .unwrap()
            .iter()
            .find(|e| e["event_type"] == "tool.invocation.cancel_requested");
        assert_eq!(requested.unwrap()["data"]["abort_reason"], reason);
        assert_eq!(place.state(&id), "canceled");
        place.run(&["approvals", "approve", &id]).exits(3);
        assert!(place.lines().is_empty());
    }
}

#[test]
fn of_ten_who_approve_at_once_one_does() {
    let place = Place::new();
    // Once with a process that waits for the answer, once with an orphaned call.
    for attended in [true, false] {
        let (child, id) = place.waiting("one", &[]);
        let child = if attended {
            Some(child)
        } else {
            super::kill(child);
            None
        };
        let before = place.lines().len();
        let answers: Vec<_> = (0..10)
            .map(|_| place.toolcell(&["approvals", "approve", &id]).spawn())
            .collect();
        let codes: Vec<_> = answers.into_iter().map(|child| ended(child).code).collect();
        assert_eq!(
            codes.iter().filter(|code| **code == Some(0)).count(),
            1,
            "{codes:?}"
        );
        assert!(
            codes.iter().all(|code| matches!(code, Some(0 | 3))),
            "{codes:?}"
        );
        if let Some(child) = child {
            ended(child).exits(0);
        }
        assert_eq!(place.lines().len(), before + 1);
        let shown = place.show(&id);
        assert_eq!(shown["state"], "finished");
        let answers = shown["decisions"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|d| d["behavior"] == "allow")
            .count();
        assert_eq!(answers, 1);
    }
}

#[test]
fn nobody_approves_their_own_call_and_denying_it_is_fine() {
    let place = Place::new();
    let (child, id) = super::waiting(
        place
            .call("one", &["--print-record"])
            .env("TOOLCELL_ACTOR", "agent:7"),
    );
    let own = place
        .toolcell(&["approvals", "approve", &id])
        .env("TOOLCELL_ACTOR", "agent:7")
        .run()
        .exits(3);
    assert!(own.stderr.contains("agent:7 called"), "{}", own.stderr);
    assert_eq!(place.state(&id), "pending");
    place
        .toolcell(&["approvals", "deny", &id])
        .env("TOOLCELL_ACTOR", "agent:7")
        .run()
        .exits(0);
    let record = ended(child).exits(3).json();
    assert_eq!(record["invocation"]["actor_ref"], "agent:7");

    let (child, id) = super::waiting(place.call("two", &[]).env("TOOLCELL_ACTOR", "agent:7"));
    place
        .toolcell(&["approvals", "approve", &id])
        .env("TOOLCELL_ACTOR", "somebody:else")
        .run()
        .exits(0);
    ended(child).exits(0);
    assert_eq!(place.lines(), ["two"]);
}

#[test]
fn the_end_of_an_id_names_the_call_as_the_list_prints_it() {
    let place = Place::new();
    let (child, id) = place.waiting("one", &[]);
    let listed = place.run(&["approvals", "list"]).exits(0).stdout;
    let short = listed.split_whitespace().next().unwrap();
    assert!(id.ends_with(short) && short.len() < id.len(), "{listed}");
    // Who wants what, and why it is asked, comes with it.
    assert!(
        listed
            .lines()
            .nth(1)
            .is_some_and(|row| row.starts_with("| call ") && row.contains(" wants to ")),
        "{listed}"
    );
    assert_eq!(
        place.show(&short.to_lowercase())["invocation"]["invocation_id"],
        id
    );
    // The beginning of an id is its time, which names no call.
    let unknown = place.run(&["approvals", "approve", &id[..8]]).exits(2);
    assert!(
        unknown.stderr.contains("toolcell approvals list"),
        "{}",
        unknown.stderr
    );
    let brief = place.run(&["approvals", "approve", &id[23..]]).exits(2);
    assert!(brief.stderr.contains("last 4 or more"), "{}", brief.stderr);
    assert_eq!(place.state(&id), "pending");
    place.run(&["approvals", "approve", short]).exits(0);
    ended(child).exits(0);
    assert_eq!(place.lines(), ["one"]);
    // The same letters name the call after its end.
    assert_eq!(place.state(short), "finished");
    let help = place
        .run(&["approvals", "approve", "--help"])
        .exits(0)
        .stdout;
    assert!(help.contains("last letters"), "{help}");
}

#[test]
fn what_was_never_asked_about_cannot_be_answered() {
    let place = Place::new();
    place
        .run(&["approvals", "approve", "01ARZ3NDEKTSV4RRFFQ69G5FAV"])
        .exits(2);
    assert!(
        !place.home.join("journal").exists(),
        "asking about nothing makes nothing"
    );
    for id in [
        "../../etc/passwd",
        "",
        "a\0b",
        "%2f",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV'; DROP TABLE approvals; --",
    ] {
        let arguments = ["approvals", "show", id];
        if !id.contains('\0') {
            place.run(&arguments).exits(2);
        }
    }
    assert!(place.list(&[]).is_empty());
}

#[test]
fn a_call_that_nobody_has_to_approve_does_not_open_the_journal() {
    let place = Place::new();
    place
        .run(&["call", &super::guest("probe#echo"), "{}"])
        .exits(0);
    assert!(!place.home.join("journal/journal.db").exists());
}

#[test]
fn a_waiting_call_does_not_keep_others_from_running() {
    let place = Place::new();
    let (first, id) = place.waiting("first", &[]);
    let (second, other) = place.waiting("second", &[]);
    assert_eq!(place.list(&[]).len(), 2);
    place.run(&["approvals", "approve", &other]).exits(0);
    ended(second).exits(0);
    assert_eq!(place.lines(), ["second"]);
    place.run(&["approvals", "approve", &id]).exits(0);
    ended(first).exits(0);
    wait_until("running", || place.lines() == ["second", "first"]);
}

#[test]
fn the_journal_belongs_to_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let id = place.orphan("one", &[]);
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let journal = place.home.join("journal");
    assert_eq!(mode(&journal), 0o700);
    let files: Vec<_> = std::fs::read_dir(&journal)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(
        files
            .iter()
            .filter(|file| file.is_file())
            .all(|file| mode(file) == 0o600),
        "{files:?}"
    );
    let record = place.show(&id);
    assert_eq!(record["state"], "pending");
}

#[test]
fn the_record_of_a_call_that_another_process_finished_is_whole() {
    let place = Place::new();
    let id = place.orphan("one", &[]);
    place.run(&["approvals", "approve", &id]).exits(0);
    let shown = place.show(&id);
    let mut record = json!({
        "declaration": null, "progress": [], "persistence": [],
        "result_mappings": toolcell_spec::ResultMappings::default(),
    });
    for field in ["invocation", "decisions", "hooks", "result", "events"] {
        record[field] = shown[field].clone();
    }
    check_record(&record);
    assert_eq!(
        passed(&record),
        [
            "selected",
            "arguments_ready",
            "awaiting_approval",
            "approved",
            "running",
            "succeeded"
        ]
    );
}

#[test]
fn the_journal_is_found_through_a_link() {
    let mut place = Place::new();
    let link = place.home.with_file_name("link");
    std::os::unix::fs::symlink(&place.home, &link).unwrap();
    let id = place.orphan("one", &[]);
    place.home = link;
    place.run(&["approvals", "approve", &id]).exits(0);
    assert_eq!(place.lines(), ["one"]);
}

#[test]
fn an_approval_counts_only_through_the_channel_that_the_tool_names() {
    for (channel, counts) in [("mcp_elicitation", false), ("http", false), ("tty", true)] {
        let (_guard, folder) = scratch();
        let component = echoing("channelled", |toolkit| {
            toolkit["declarations"][0]["permission_profile"] = json!({
                "risk_level": "low", "approval_required": true, "permission_channel": channel,
            });
        });
        let file = folder.join("tool.wasm");
        std::fs::write(&file, component).unwrap();
        let place = Place::of(&file.display().to_string());
        let (child, id) = place.waiting("one", &["--print-record"]);
        place
            .run(&["approvals", "approve", &id])
            .exits(if counts { 0 } else { 3 });
        let record = ended(child).json();
        if counts {
            assert_eq!(record["result"]["status"], "succeeded", "{record:#}")
        } else {
            assert_eq!(error(&record), ("approval_rejected", "approval_channel"));
            let decision = &record["decisions"][1];
            assert_eq!(
                (&decision["behavior"], &decision["reason"]["channel"]),
                (&json!("deny"), &json!("command"))
            );
            assert!(
                decision["reason"]["message"]
                    .as_str()
                    .unwrap()
                    .contains("does not accept"),
                "{decision:#}"
            );
            let named = &record["result"]["error"]["policy_refs"][0];
            assert!(
                named.as_str().unwrap().starts_with("permission_profile:"),
                "{record:#}"
            );
            assert!(
                record["invocation"]["policy_refs"]
                    .as_array()
                    .unwrap()
                    .contains(named),
                "{record:#}"
            );
        }
    }
}
