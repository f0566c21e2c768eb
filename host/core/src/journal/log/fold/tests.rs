use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::journal::Reference;
use crate::journal::log::{CallLog, CallQuery, FollowedEvent, LogSettings, Start, segment};
use crate::record::{
    ArtifactUsage, CallRecord, Content, ContextModifier, DecisionId, ErrorCode, EventId, EventType,
    FileUsage, Input, InputMutation, InvocationId, MeteredUsage, Mode, MutationSource,
    NetworkUsage, PersistedRef, PersistenceId, ProgressStatus, Refusal, ResultId, ResultStatus,
    RuleSource, SchemaVersion, Status, Timestamp, ToolInvocation, ToolProgress, Touch, TouchList,
    TouchedThing, Usage, Writer,
};

use super::samples::{TEXT, TO_RUNNING, after, decision, ended, event, observe, plain, usage};
use super::{ENDED, FoldedEnd, FoldedStart, Gist, STARTED, begun, is_same, record, unfold};

/// Maximum size of the payload of a small start, in bytes.
const START_BYTES: usize = 400;
/// Maximum size of the payload of the end of a small call, in bytes.
const END_BYTES: usize = 1_100;
/// The end of a call as it was written before steps, events and ids had a shorter form, and its id.
const LONGER: &str = include_str!("longer.json");
const LONGER_ID: &str = "01M8CBC8XCGKB0X3EEDVZKQ2B9";

fn id(record: &CallRecord) -> String {
    record.invocation.invocation_id.to_string()
}

fn whole(record: &CallRecord) -> Value {
    serde_json::to_value(record.undeclared()).unwrap()
}

fn folded(record: &CallRecord, what: &str) -> String {
    let folded =
        FoldedEnd::from_record(record).unwrap_or_else(|| panic!("{what}: it is not folded"));
    let text = serde_json::to_string(&folded).unwrap();
    assert!(
        text.starts_with(ENDED) && !text.contains('\n'),
        "{what}: {text}"
    );
    text
}

/// Folds `record`, and compares what comes back, with the order of its fields.
fn comes_back(record: &CallRecord, what: &str) {
    let text = folded(record, what);
    let back = unfold(&id(record), &text).unwrap_or_else(|error| panic!("{what}: {error}: {text}"));
    assert_eq!(back.to_string(), whole(record).to_string(), "{what}");
    let gist = Gist::read(&text).unwrap();
    let invocation = &record.invocation;
    assert_eq!(
        (gist.tool_id, gist.status),
        (invocation.tool_id.clone(), invocation.status()),
        "{what}"
    );
    assert_eq!(
        (gist.created_at, gist.ended_at),
        (invocation.created_at(), invocation.ended_at()),
        "{what}"
    );
    assert_eq!(gist.actor_ref, invocation.actor_ref, "{what}");
    assert_eq!(
        (gist.session_ref.as_deref(), gist.events.len()),
        (invocation.session_ref.as_deref(), record.events.len())
    );
}

#[test]
fn a_plain_call_takes_few_bytes_and_comes_back_as_it_was() {
    let record = record(LONGER_ID, LONGER).unwrap();
    comes_back(&record, "plain");
    let end = folded(&record, "plain");
    assert!(end.len() <= END_BYTES, "{} bytes: {end}", end.len());
    // All data of its events follows from the rest.
    assert!(
        !end.contains("fuel_limit") && !end.contains("deprecated"),
        "{end}"
    );
    // What is searched for in a line is still there.
    assert!(end.contains(&*record.invocation.model_input_ref));
    let mut started = record.invocation.clone();
    started.evidence_refs.clear();
    let start = serde_json::to_string(
        &FoldedStart::from_start(Start::new(&started, false), 25_627).unwrap(),
    )
    .unwrap();
    assert!(
        start.starts_with(STARTED) && start.len() <= START_BYTES,
        "{} bytes: {start}",
        start.len()
    );
}

#[test]
fn every_way_to_success_comes_back() {
    use Status::{
        Approved, ArgumentsReady, AwaitingApproval, NeedsInput, PostHooksRunning, PreHooksRunning,
        Queued, Running, Selected, Succeeded, Yielded,
    };
    let ways: [&[Status]; 3] = [
        &[
            Selected,
            ArgumentsReady,
            Approved,
            Queued,
            Running,
            Succeeded,
        ],
        &[
            Selected,
            ArgumentsReady,
            PreHooksRunning,
            AwaitingApproval,
            Approved,
            Queued,
            Running,
            NeedsInput,
            Running,
            Succeeded,
        ],
        &[
            Selected,
            ArgumentsReady,
            Approved,
            Running,
            PostHooksRunning,
            Yielded,
            Succeeded,
        ],
    ];
    for way in ways {
        comes_back(&ended(way), &format!("{way:?}"));
    }
}

type Change = fn(&mut CallRecord);

/// The optional parts of a plain call.
const PLAIN: &[(&str, Change)] = &[
    ("a caller and a surface", |record| {
        let call = &mut record.invocation;
        call.surface_id = Some("surface:1".into());
        call.native_call_id = Some("7\"\\\u{1f980}\n".to_owned());
        call.actor_ref = Some("agent:7".to_owned());
        call.policy_refs = vec!["p".to_owned()];
        record.result.policy_refs = vec!["p".to_owned()];
    }),
    ("what is usual of a single call", |record| {
        let call = &mut record.invocation;
        call.runtime_refs
            .push("session:run:01M82MPQY75EH229XYFT2YAAJM".to_owned());
        call.extra.insert("external_mappings".to_owned(), json!([]));
        let facts = json!({
            "is_concurrency_safe": true, "is_read_only": false, "is_destructive": true, "is_open_world": false,
            "requires_exclusive_context": false, "context_modifier_policy": null, "resource_locks": [],
        });
        call.extra.insert("scheduler".to_owned(), facts);
        call.extra.insert("z".to_owned(), json!(1));
        call.policy_refs = vec!["p".to_owned()];
        record.result.policy_refs = vec!["p".to_owned()];
        record.decisions.iter_mut().for_each(|decision| {
            decision.policy_refs = vec!["p".to_owned()];
            decision
                .extra
                .insert("sandbox_ref".to_owned(), json!("sandbox:00"));
        });
    }),
    ("other facts for the scheduler", |record| {
        record
            .invocation
            .extra
            .insert("scheduler".to_owned(), json!({ "is_read_only": true }));
    }),
    ("no session", |record| record.invocation.session_ref = None),
    ("an input that is not compact", |record| {
        record.invocation.model_input_text = Some("{\"text\": \"one two\"}".to_owned());
    }),
    ("defaults", |record| {
        let input = Input::from_text(r#"{"text":"one two","by":1.5}"#);
        observe(&mut record.invocation, &input.to_value(), input.reference());
    }),
    ("another order of the fields", |record| {
        record.invocation.model_input = json!({ "a": 1, "b": 2 }).into();
        let reference = record.invocation.model_input_ref.clone();
        observe(
            &mut record.invocation,
            &json!({ "b": 2, "a": 1 }),
            &reference,
        );
    }),
    ("no arguments", |record| {
        record.invocation.model_input = Value::Null.into();
        let reference = record.invocation.model_input_ref.clone();
        observe(&mut record.invocation, &Value::Null, &reference);
    }),
    ("more fields", |record| {
        record.invocation.extra.insert(
            "external_mappings".to_owned(),
            json!([{ "source": "mcp", "request_id": 7 }]),
        );
        record.invocation.extra.insert("z".to_owned(), json!(null));
    }),
    ("structured output", |record| {
        let structured = json!({ "z": [1, -2, 0.1, -0.0, 1e300, 5e-324, 0.30000000000000004, u64::MAX, "\u{e9}\n"], "a": {} });
        record.result.content.clear();
        record.result.model_facing_content = vec![Content::text(structured.to_string())];
        record.result.structured_content = Some(structured);
    }),
    ("structured output in other words", |record| {
        record.result.content.clear();
        record.result.model_facing_content = vec![Content::text("{ }")];
        record.result.structured_content = Some(json!({}));
    }),
    ("structured output in a block with more fields", |record| {
        record.result.content.clear();
        let fields = json!({ "text": "{}", "language": "json" });
        record.result.model_facing_content = vec![Content::new("text", fields)];
        record.result.structured_content = Some(json!({}));
    }),
    ("structured output beside text", |record| {
        record.result.structured_content = Some(json!([1]))
    }),
    ("a log", |record| {
        record.result.content.push(Content::log("stderr", "hidden"))
    }),
    ("blocks in another order of their fields", |record| {
        record.result.content = vec![Content::new(
            "image",
            json!({ "data": "AA", "media_type": "image/png" }),
        )];
        record.result.model_facing_content = vec![Content::new(
            "image",
            json!({ "media_type": "image/png", "data": "AA" }),
        )];
    }),
    ("nothing", |record| {
        record.result.content.clear();
        record.result.empty_result = true;
        record.result.ui_facing_summary = Some("none".to_owned());
    }),
    ("no measurements", |record| record.result.usage = None),
    ("files, requests and artifacts", |record| {
        record.result.usage = Some(Usage {
            files: Some(FileUsage {
                disk_bytes: MeteredUsage { used: 1, limit: 2 },
                ..FileUsage::default()
            }),
            network: Some(NetworkUsage {
                connections_limit: 3,
                ..NetworkUsage::default()
            }),
            artifacts: Some(ArtifactUsage::default()),
            touched: Some(TouchList {
                listed: vec![TouchedThing {
                    how: Touch::Requested,
                    what: "GET http://a/b".to_owned(),
                    status: Some(200),
                }],
                more: 1,
            }),
            ..usage()
        });
    }),
    ("a rule", |record| {
        let decision = &mut record.decisions[0];
        (decision.source, decision.mode) = (Some(RuleSource::UserSettings), Mode::Plan);
        decision.rule_refs = vec!["allow count.*".to_owned()];
        decision.policy_refs = vec!["p".to_owned()];
    }),
    ("two decisions", |record| {
        let id = DecisionId::new();
        record.decisions.push(decision(&record.invocation, id));
        record.invocation.permission_decision_refs.push(id);
    }),
    ("no decision", |record| {
        record.decisions.clear();
        record.invocation.permission_decision_refs.clear();
    }),
    ("nothing stored", |record| {
        record.persistence.clear();
        record.result.persistence_refs.clear();
    }),
    ("no component", |record| {
        record.invocation.runtime_refs.clear();
        record.result.provenance.component = None;
    }),
    ("two events before the tool is known", |record| {
        record.events[1].tool_id = None
    }),
    ("an event of another kind", |record| {
        let data = json!({ "target": "/etc", "why": null });
        let denied = event(
            &record.invocation,
            EventType::SandboxDenied,
            Some("count.count"),
            data,
        );
        record.events.insert(5, denied);
    }),
    ("a call under another name", |record| {
        let data = json!({ "requested": "c", "native_call_id": null });
        record.events[0] = event(&record.invocation, EventType::Planned, None, data);
        let data = json!({ "via": "alias", "deprecated": true });
        record.events[1] = event(
            &record.invocation,
            EventType::Selected,
            Some("count.count"),
            data,
        );
    }),
    ("data that is longer than usual", |record| {
        record.invocation.model_input_ref = "r".repeat(1_000).into();
        let data = json!({ "model_input_ref": record.invocation.model_input_ref });
        record.events[2] = event(
            &record.invocation,
            EventType::ArgumentsReady,
            Some("count.count"),
            data,
        );
    }),
    ("a clock that went back", |record| {
        record.events[3].time = record.invocation.created_at().minus(Duration::from_secs(5));
        record.result.created_at = record.events[3].time;
    }),
];

#[test]
fn what_a_plain_call_may_have_comes_back() {
    for (what, change) in PLAIN {
        let mut record = plain();
        change(&mut record);
        comes_back(&record, what);
    }
}

/// Features that make a call unusual.
const UNUSUAL: &[(&str, Change)] = &[
    ("a hook of the call", |record| {
        record.invocation.hook_refs.push("h".to_owned())
    }),
    ("progress", |record| {
        record.progress.push(ToolProgress::of_host(
            record.invocation.invocation_id,
            ProgressStatus::Queued,
        ));
    }),
    ("a mapping by a hook", |record| {
        record.result_mappings.hooks.push("h".to_owned())
    }),
    ("no mapping", |record| record.result_mappings.tool = 0),
    ("an error", |record| {
        record.result.error = Some(Refusal::new(ErrorCode::FilesNotKept, "half of it").to_error());
    }),
    ("an error without a reason", |record| {
        record.result.is_error = true
    }),
    ("another status", |record| {
        record.result.status = ResultStatus::PartialSucceeded
    }),
    ("a result of another call", |record| {
        record.result.invocation_id = InvocationId::new()
    }),
    ("structured null", |record| {
        record.result.structured_content = Some(Value::Null)
    }),
    ("a summary", |record| {
        record.result.summary = Some("s".to_owned())
    }),
    ("a resource", |record| {
        record.result.resource_refs.push(json!({}))
    }),
    ("an artifact", |record| {
        record.result.artifact_refs.push(json!({}))
    }),
    ("a policy of the result", |record| {
        record.result.policy_refs.push("p".to_owned())
    }),
    ("a redacted result", |record| {
        record.result.redaction_state = "partial".to_owned()
    }),
    ("a mutation", |record| {
        let from = Input::from_text("1");
        let to = Input::from_text("2");
        let id = record.invocation.invocation_id;
        record.result.input_mutations.push(InputMutation::new(
            id,
            MutationSource::Hook,
            "h",
            &from,
            &to,
            "r",
        ));
    }),
    ("context", |record| {
        record.result.additional_context.push(json!("c"))
    }),
    ("a context modifier", |record| {
        record.result.context_modifiers.push(ContextModifier {
            key: "k".to_owned(),
            value: json!(1),
        });
    }),
    ("an unknown field of the result", |record| {
        _ = record.result.extra.insert("x".to_owned(), json!(1))
    }),
    ("words of the host", |record| {
        record.result.provenance.written_by = Writer::Host
    }),
    ("an output that a hook replaced", |record| {
        record.result.provenance.hooks.push("h".to_owned())
    }),
    ("an output of another tool", |record| {
        record.result.provenance.tool_id = Some("other".to_owned())
    }),
    ("an output of another component", |record| {
        record.result.provenance.component = Some("sha256:00".into())
    }),
    ("another reference to a stored result", |record| {
        record.result.persistence_refs.push(PersistenceId::new())
    }),
    ("a payload", |record| {
        record.persistence[0].persisted_ref = Some(PersistedRef {
            uri: String::new(),
            digest: String::new(),
            media_type: String::new(),
            size_bytes: 1,
        });
    }),
    ("a redacted payload", |record| {
        record.persistence[0].redaction_state = "full".to_owned()
    }),
    ("storage for another result", |record| {
        record.persistence[0].result_id = ResultId::new()
    }),
    ("storage for another call", |record| {
        record.persistence[0].invocation_id = InvocationId::new()
    }),
    ("an unknown field of the storage", |record| {
        _ = record.persistence[0].extra.insert("x".to_owned(), json!(1))
    }),
    ("another reference to a decision", |record| {
        record.invocation.permission_decision_refs.clear()
    }),
    ("a decision on another call", |record| {
        record.decisions[0].invocation_id = InvocationId::new()
    }),
    ("an edited input", |record| {
        record.decisions[0].updated_input = Some(json!({}))
    }),
    ("an input that a user changed", |record| {
        record.decisions[0].user_modified = true
    }),
    ("a suggestion", |record| {
        record.decisions[0].suggested_updates.push(json!(1))
    }),
    ("a blocked path", |record| {
        record.decisions[0].blocked_path = Some("/etc".to_owned())
    }),
    ("a question", |record| {
        record.decisions[0].content_blocks.push(Content::text("t"))
    }),
    ("feedback", |record| {
        record.decisions[0].accept_feedback = Some("f".to_owned())
    }),
    ("an approval that ends", |record| {
        record.decisions[0].expires_at = Some(Timestamp::now())
    }),
    ("an unknown field of a decision", |record| {
        _ = record.decisions[0]
            .extra
            .insert("notes".to_owned(), json!([]))
    }),
    ("an unknown field of a reason", |record| {
        _ = record.decisions[0]
            .reason
            .extra
            .insert("x".to_owned(), json!(1))
    }),
    ("a missing input", |record| {
        record.invocation.call_input = None
    }),
    ("an input that was changed later", |record| {
        record.invocation.call_input = Some(Arc::new(json!({})))
    }),
    ("an input with another reference", |record| {
        record.invocation.call_input_ref = Some("sha256:00".into())
    }),
    ("an input that became null", |record| {
        observe(&mut record.invocation, &Value::Null, "sha256:00")
    }),
    ("no events", |record| record.events.clear()),
    ("an event of another host", |record| {
        record.events[6].source = "toolcell/9".into()
    }),
    ("an event of another tool", |record| {
        record.events[6].tool_id = Some("other".into())
    }),
    ("a late event without a tool", |record| {
        record.events[6].tool_id = None
    }),
    ("an event of no call", |record| {
        record.events[6].invocation_id = None
    }),
    ("an unknown field of an event", |record| {
        _ = record.events[6].extra.insert("x".to_owned(), json!(1))
    }),
    ("a time before 1970", |record| {
        record.events[6].time = Timestamp::of_unix_nanos(0).minus(Duration::from_secs(1));
    }),
];

#[test]
fn what_is_unusual_is_written_out() {
    for (what, change) in UNUSUAL {
        let mut record = plain();
        change(&mut record);
        assert!(FoldedEnd::from_record(&record).is_none(), "{what}");
    }
    assert!(
        FoldedEnd::from_record(&ended(&TO_RUNNING)).is_none(),
        "a call that has not ended"
    );
}

#[test]
fn a_start_comes_back_unless_a_step_has_a_reason() {
    let mut call = after(&TO_RUNNING);
    call.extra
        .insert("parent_invocation_id".to_owned(), json!("01"));
    for changes in [false, true] {
        let text =
            serde_json::to_string(&FoldedStart::from_start(Start::new(&call, changes), 7).unwrap())
                .unwrap();
        let id = call.invocation_id.to_string();
        let whole = json!({ "changes": changes, "process": 7, "invocation": call });
        assert_eq!(unfold(&id, &text).unwrap().to_string(), whole.to_string());
        // What was written before is read, too.
        for text in [text, whole.to_string()] {
            let begun = begun(&id, &text).unwrap();
            assert_eq!((begun.changes, &begun.invocation), (changes, &call));
        }
    }
    let id = call.permission_decision_refs[0];
    let decisions = [decision(&call, id)];
    let start = Start {
        decisions: &decisions,
        ..Start::new(&call, true)
    };
    let text = serde_json::to_string(&FoldedStart::from_start(start, 7).unwrap()).unwrap();
    let begun = begun(&call.invocation_id.to_string(), &text).unwrap();
    assert_eq!(
        (&begun.invocation, begun.decisions.as_slice()),
        (&call, &decisions[..])
    );
    let mut call = after(&TO_RUNNING[..2]);
    call.advance(Status::Approved, Some("why".to_owned()))
        .unwrap();
    assert!(FoldedStart::from_start(Start::new(&call, false), 7).is_none());
}

#[test]
fn what_is_not_folded_passes_through() {
    let record = plain();
    let text = whole(&record).to_string();
    assert_eq!(unfold(&id(&record), &text).unwrap().to_string(), text);
}

/// Folded lines do not name the version: one that is read later must still have the version with which it was written.
#[test]
fn a_folded_line_is_of_the_only_version_so_far() {
    assert_eq!(
        SchemaVersion::CURRENT,
        "0.2.0",
        "fold lines of the new version in a form of their own"
    );
}

#[test]
fn values_are_the_same_only_if_their_texts_are() {
    for (one, other, same) in [
        (
            json!({ "a": 1, "b": [null] }),
            json!({ "a": 1, "b": [null] }),
            true,
        ),
        (json!({ "a": 1, "b": 2 }), json!({ "b": 2, "a": 1 }), false),
        (
            json!([{ "a": 1, "b": 2 }]),
            json!([{ "b": 2, "a": 1 }]),
            false,
        ),
        (json!(0.0), json!(-0.0), false),
        (json!(1), json!(1.0), false),
        (json!([1]), json!([1, 2]), false),
        (json!({ "a": 1 }), json!({ "a": 1, "b": 2 }), false),
        (json!("a"), json!("b"), false),
    ] {
        assert_eq!(is_same(&one, &other), same, "{one} {other}");
        let [text, of_other] = [&one, &other].map(|value| value.to_string());
        assert_eq!(text == of_other, same, "{one} {other}");
    }
}

#[test]
fn a_line_of_the_longer_form_is_read_as_well() {
    let record = record(LONGER_ID, LONGER).unwrap();
    let events: Vec<String> = record
        .events
        .iter()
        .map(|event| event.event_id.to_string())
        .collect();
    assert_eq!(
        events.iter().map(|id| &id[24..]).collect::<Vec<_>>(),
        ["BA", "BB", "BC", "BE", "BF", "BJ", "BK"]
    );
    let steps: Vec<&str> = record
        .invocation
        .status_transitions()
        .iter()
        .map(|step| step.to.as_str())
        .collect();
    assert_eq!(
        steps,
        [
            "selected",
            "arguments_ready",
            "approved",
            "running",
            "succeeded"
        ]
    );
    assert_eq!(
        record.decisions[0].decision_id.to_string(),
        "01M8CBC8XCGKB0X3EEDVZKQ2BD"
    );
    let shorter = folded(&record, "shorter");
    assert_eq!(
        unfold(LONGER_ID, &shorter).unwrap().to_string(),
        unfold(LONGER_ID, LONGER).unwrap().to_string()
    );
    assert_eq!(Gist::read(LONGER).unwrap().events.len(), 7);
}

#[test]
fn an_id_of_another_millisecond_is_written_out() {
    let mut record = plain();
    let call = record.invocation.invocation_id.bits();
    record.events[3].event_id = EventId::of_bits(call + (1 << 80));
    record.result.result_id = ResultId::of_bits(call + (1 << 32));
    for event in &mut record.events[5..] {
        event.data.as_object_mut().unwrap()["result_id"] = json!(record.result.result_id);
    }
    record.persistence[0].result_id = record.result.result_id;
    let text = folded(&record, "later");
    let ids = [
        record.events[3].event_id.to_string(),
        record.result.result_id.to_string(),
    ];
    assert!(
        ids.iter().all(|id| text.matches(id.as_str()).count() == 1),
        "{text}"
    );
    comes_back(&record, "later");
    // One that was made before its call.
    record.events[0].event_id = EventId::of_bits(call - 1);
    assert!(folded(&record, "early").contains(&record.events[0].event_id.to_string()));
    comes_back(&record, "early");
}

#[test]
fn a_damaged_payload_is_an_error() {
    let id = LONGER_ID.to_owned();
    let sound = folded(&record(&id, LONGER).unwrap(), "plain");
    for end in 0..sound.len() {
        assert!(unfold(&id, &sound[..end]).is_err(), "{}", &sound[..end]);
    }
    for other in ["", "-", "01"] {
        assert!(unfold(other, &sound).is_err(), "{other:?}");
    }
    let sound: Value = serde_json::from_str(LONGER).unwrap();
    for (place, value) in [
        ("/ended/at", json!(-1)),
        ("/ended/at", json!("x")),
        ("/ended/at", json!(1e30)),
        // Every later time is out of range.
        ("/ended/at", json!(u64::MAX)),
        ("/ended/steps", json!({})),
        ("/ended/steps/0", json!(["selected"])),
        ("/ended/steps/0/0", json!("odd")),
        ("/ended/steps/0/1", json!(i64::MIN)),
        ("/ended/steps/0/1", json!(1.5)),
        ("/ended/ref", json!(null)),
        ("/decisions", json!(null)),
        ("/decisions/0/behavior", json!("odd")),
        ("/decisions/0/at", json!(i64::MIN)),
        ("/persistence/0/bytes", json!([1])),
        ("/persistence/0/at", json!(i64::MIN)),
        ("/result/at", json!(i64::MIN)),
        ("/result/usage", json!([1, 2, 3])),
        ("/result/usage/0", json!(-1)),
        ("/result/content", json!([{}])),
        ("/source", json!(7)),
        ("/unnamed", json!(-1)),
        ("/events/0", json!([])),
        ("/events/0/0", json!("tool.odd")),
        // What this one says follows from nothing.
        ("/events/0/0", json!("tool.sandbox.denied")),
        ("/events/0/1", json!("no id")),
        ("/events/0/2", json!(i64::MIN)),
    ] {
        let mut changed = sound.clone();
        *changed.pointer_mut(place).unwrap() = value.clone();
        assert!(
            unfold(&id, &changed.to_string()).is_err(),
            "{place} = {value}"
        );
        // It says less, but must not panic either.
        let _ = Gist::read(&changed.to_string());
    }
    for (part, name) in [
        ("", "result"),
        ("", "events"),
        ("", "unnamed"),
        ("/ended", "tool"),
        ("/ended", "steps"),
    ] {
        let mut changed = sound.clone();
        changed
            .pointer_mut(part)
            .unwrap()
            .as_object_mut()
            .unwrap()
            .remove(name);
        assert!(unfold(&id, &changed.to_string()).is_err(), "without {name}");
    }
    for (part, name) in [
        ("", "more"),
        ("/ended", "changed"),
        ("/ended", "changed_ref"),
        ("/result", "more"),
    ] {
        let mut changed = sound.clone();
        changed.pointer_mut(part).unwrap()[name] = json!("x");
        assert!(unfold(&id, &changed.to_string()).is_err(), "with {name}");
    }
    let mut changed = sound;
    changed["events"][0]
        .as_array_mut()
        .unwrap()
        .extend([json!({}), json!({})]);
    assert!(
        unfold(&id, &changed.to_string()).is_err(),
        "an event of five parts"
    );
}

#[test]
fn damage_of_what_is_short_at_its_place_is_an_error() {
    let sound =
        serde_json::to_value(FoldedEnd::from_record(&record(LONGER_ID, LONGER).unwrap()).unwrap())
            .unwrap();
    for (place, value) in [
        ("/ended/steps/0", json!(i64::MIN)),
        ("/ended/steps/0", json!(1.5)),
        ("/ended/steps/0", json!([1])),
        ("/ended/steps", json!([0, 1, 2, 3, 4, 5])),
        ("/decisions/0/id", json!(-1)),
        ("/decisions/0/id", json!("no id")),
        ("/result/id", json!(1_u64 << 32)),
        ("/events/0/0", json!(-1)),
        ("/events/0/1", json!(i64::MIN)),
        ("/events/0", json!([1])),
        ("/events/0", json!([1, 2, {}])),
        (
            "/events",
            json!([
                [1, 0],
                [1, 0],
                [1, 0],
                [1, 0],
                [1, 0],
                [1, 0],
                [1, 0],
                [1, 0]
            ]),
        ),
    ] {
        let mut changed = sound.clone();
        *changed.pointer_mut(place).unwrap() = value.clone();
        assert!(
            unfold(LONGER_ID, &changed.to_string()).is_err(),
            "{place} = {value}"
        );
        let _ = Gist::read(&changed.to_string());
    }
}

/// A call, when it starts and after its end.
fn both() -> (ToolInvocation, CallRecord) {
    let mut record = ended(&TO_RUNNING);
    let mut started = record.invocation.clone();
    started.extra.clear();
    started.evidence_refs.clear();
    record.invocation.advance(Status::Succeeded, None).unwrap();
    (started, record)
}

#[tokio::test]
async fn the_readers_of_the_log_see_no_difference() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("calls");
    let log = CallLog::new(
        dir.clone(),
        folder.path().join("key"),
        LogSettings::default(),
    );
    let (started, record) = both();
    let id = id(&record);
    let call = |log: &CallLog| {
        let mut calls = log
            .calls(&CallQuery {
                limit: 10,
                ..CallQuery::default()
            })
            .unwrap();
        assert_eq!(calls.len(), 1);
        calls.remove(0)
    };
    log.started(Start::new(&started, true), false)
        .await
        .unwrap();
    let shown = log.record(&id).unwrap().unwrap();
    let whole_start =
        json!({ "changes": true, "process": std::process::id(), "invocation": started });
    assert_eq!(shown.to_string(), whole_start.to_string());
    assert_eq!(
        (call(&log).status.as_str(), call(&log).elapsed_ms),
        ("running", None)
    );
    log.ended(&record).await.unwrap();
    let text = std::fs::read_to_string(segment::path(&dir, 1)).unwrap();
    assert!(text.contains(STARTED) && text.contains(ENDED), "{text}");
    assert_eq!(
        log.checked_record(&id)
            .unwrap()
            .unwrap()
            .unwrap()
            .to_string(),
        whole(&record).to_string()
    );
    let summary = call(&log);
    assert_eq!(
        (summary.tool_id.as_str(), summary.status.as_str()),
        ("count.count", "succeeded")
    );
    assert_eq!(
        summary.session.as_deref(),
        record.invocation.session_ref.as_deref()
    );
    assert!(summary.elapsed_ms.is_some() && summary.error_class.is_none());
    let mut events = Vec::new();
    for one in log.follow(Some(1)).unwrap().read().unwrap() {
        let logged = match one {
            FollowedEvent::Event(logged) => logged,
            missed => panic!("{missed:?}"),
        };
        assert_eq!(
            logged.session.as_deref(),
            record.invocation.session_ref.as_deref()
        );
        events.push(logged.event);
    }
    assert_eq!(events, record.events);
    let reference = Reference::parse(&record.invocation.call_input_ref.clone().unwrap()).unwrap();
    let known = log.look_up(&reference).unwrap().unwrap();
    assert_eq!((known.calls, known.text.as_deref()), (vec![id], Some(TEXT)));
    assert!(log.verify().unwrap().is_ok());
}

#[tokio::test]
async fn the_call_of_a_killed_process_ends_with_what_its_folded_start_says() {
    let folder = tempfile::tempdir().unwrap();
    let log = || {
        CallLog::new(
            folder.path().join("calls"),
            folder.path().join("key"),
            LogSettings::default(),
        )
    };
    let (started, _) = both();
    let writer = log();
    writer
        .started(Start::new(&started, true), false)
        .await
        .unwrap();
    drop(writer);
    let ended = log()
        .record(&started.invocation_id.to_string())
        .unwrap()
        .unwrap();
    let call = &ended["invocation"];
    assert_eq!(
        (&call["status"], &call["tool_id"]),
        (&json!("canceled"), &json!("count.count"))
    );
    assert_eq!(call["call_input"], *started.model_input);
    assert_eq!(ended["result"]["error"]["retry"]["safe"], json!(false));
}
