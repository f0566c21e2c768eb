//! Losses of a full log, and how often it has large arguments.

use std::fs;
use std::sync::Arc;

use serde_json::json;

use crate::log::{CallLog, LogSettings, Start};
use toolcell_spec::{
    CallRecord, ErrorCode, Input, Refusal, ResultMappings, ResultProvenance, Status,
    ToolInvocation, ToolResult, Trust, Writer,
};

use super::{files, log, remove_database, running, settle};

fn call(caller: &str, bytes: usize) -> ToolInvocation {
    let mut call = running("tool");
    call.actor_ref = Some(caller.to_owned());
    let input = Input::from_value(json!({ "text": "x".repeat(bytes) }));
    call.model_input = Arc::new(input.to_value());
    call.observable_input = Some(Arc::new(input.to_value()));
    call.permission_input = Some(Arc::new(input.to_value()));
    call.call_input = Some(Arc::new(input.to_value()));
    call
}

async fn run(log: &CallLog, mut call: ToolInvocation) -> String {
    log.started(Start::new(call.clone(), false), true)
        .await
        .unwrap();
    call.advance(Status::Succeeded, None).unwrap();
    let id = call.invocation_id;
    let error = Refusal::new(ErrorCode::ToolFailed, "it failed");
    let provenance = ResultProvenance {
        trust: Trust::Untrusted,
        written_by: Writer::Host,
        tool_id: None,
        component: None,
        hooks: Vec::new(),
    };
    let record = CallRecord {
        declaration: None,
        invocation: call,
        decisions: Vec::new(),
        hooks: Vec::new(),
        progress: Vec::new(),
        result_mappings: ResultMappings::default(),
        persistence: Vec::new(),
        result: ToolResult::failed(id, error.to_error(), provenance),
        events: Vec::new(),
    };
    log.large_ended(record).await.1.unwrap();
    settle(log);
    id.to_string()
}

#[tokio::test]
async fn a_caller_who_fills_the_log_removes_calls_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let writer = log(
        &folder,
        LogSettings {
            bytes_max: 14 << 20,
            ..LogSettings::default()
        },
    );
    let quiet = run(&writer, call("quiet", 30_000)).await;
    // Many small calls are less than few large ones.
    for _ in 0..50 {
        run(&writer, call("quiet", 10)).await;
    }
    let first = run(&writer, call("loud", 1 << 20)).await;
    for _ in 0..28 {
        run(&writer, call("loud", 1 << 20)).await;
    }
    let last = run(&writer, call("loud", 1 << 20)).await;
    assert!(files(&folder)[0] > 1, "nothing was removed");
    let there = |log: &CallLog| [&quiet, &first, &last].map(|id| log.record(id).unwrap().is_some());
    assert_eq!(there(&writer), [true, false, true]);
    let kept = writer.record(&quiet).unwrap().unwrap();
    assert_eq!(
        kept["invocation"]["call_input"]["text"]
            .as_str()
            .map(str::len),
        Some(30_000)
    );
    let verified = writer.verify().unwrap().unwrap();
    assert!((10..30).contains(&verified.evicted_calls), "{verified:?}");
    assert_eq!(writer.evicted_calls().unwrap(), verified.evicted_calls);
    // The segments alone say it too.
    remove_database(&folder);
    let reader = log(&folder, LogSettings::default());
    assert_eq!(there(&reader), [true, false, true]);
    assert_eq!(reader.evicted_calls().unwrap(), verified.evicted_calls);
}

#[tokio::test]
async fn large_arguments_are_in_the_log_once() {
    let folder = tempfile::tempdir().unwrap();
    let writer = log(&folder, LogSettings::default());
    let id = run(&writer, call("a", 1 << 20)).await;
    let bytes = fs::metadata(folder.path().join("calls/0000000001.log"))
        .unwrap()
        .len();
    assert!(bytes < (1 << 20) + 10_000, "{bytes}");
    let record = writer.record(&id).unwrap().unwrap();
    for input in [
        "model_input",
        "observable_input",
        "permission_input",
        "call_input",
    ] {
        assert_eq!(
            record["invocation"][input]["text"].as_str().map(str::len),
            Some(1 << 20),
            "{input}"
        );
    }
    assert!(record["invocation"].get("inputs_at_start").is_none());
    // A call whose process was killed.
    let mut left = call("a", 1 << 20);
    left.observable_input = None;
    let killed = left.invocation_id.to_string();
    writer
        .started(Start::new(left.clone(), false), true)
        .await
        .unwrap();
    drop(writer);
    let reader = log(&folder, LogSettings::default());
    let record = reader.record(&killed).unwrap().unwrap();
    assert_eq!(
        record["invocation"]["call_input"],
        record["invocation"]["model_input"]
    );
    assert!(
        record["invocation"].get("inputs_same").is_none()
            && record["invocation"].get("observable_input").is_none()
    );
}
