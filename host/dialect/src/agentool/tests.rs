use std::collections::HashSet;

use serde_json::{Value, json};
use toolcell_engine::catalog::RecordSchema;
use toolcell_spec::{
    Content, ContextModifier, ErrorClass, ErrorCode, Input, PermissionProfile, PersistedRef,
    Refusal, Status, Timestamp, ToolDeclaration, ToolInterface, ToolInvocation, ToolKind,
    ToolResult as Recorded,
};

use super::*;
use crate::ListedTool;
use crate::evaluation::{EvalCase, EvalResult};

macro_rules! example {
    ($name:literal) => {
        serde_json::from_str::<Value>(include_str!(concat!("examples/", $name, ".json"))).unwrap()
    };
}

macro_rules! schema {
    ($name:literal) => {
        serde_json::from_str::<Value>(include_str!(concat!(
            "../../../../schemas/agentool-",
            $name,
            ".schema.json"
        )))
        .unwrap()
    };
}

fn schemas() -> Vec<Value> {
    vec![
        schema!("tool-spec"),
        schema!("tool-call"),
        schema!("tool-result"),
        schema!("reasoning-trace"),
        schema!("tool-registry"),
        schema!("eval-case"),
        schema!("eval-result"),
    ]
}

fn examples() -> Vec<(&'static str, Value)> {
    let exchange = example!("exchange");
    vec![
        ("tool-spec", example!("tool_spec")),
        ("tool-call", exchange["tool_call"].clone()),
        ("tool-result", exchange["tool_result"].clone()),
        ("reasoning-trace", example!("reasoning_trace")),
        ("tool-registry", example!("tool_registry")),
        ("eval-case", example!("eval_case")),
        ("eval-result", example!("eval_result")),
    ]
}

fn is_valid(name: &str, value: &Value) -> bool {
    let all = schemas();
    let title = format!("agentool-{name}");
    let schema = all
        .iter()
        .find(|schema| schema["title"] == title.as_str())
        .unwrap();
    RecordSchema::compile(schema, &all)
        .unwrap()
        .violations(value, 1)
        .is_empty()
}

/// Adds an unknown field to every object.
fn extended(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let known = fields
                .iter()
                .map(|(name, value)| (name.clone(), extended(value)));
            Value::Object(
                known
                    .chain([("x_unknown".to_owned(), json!({ "a": [1.0, null] }))])
                    .collect(),
            )
        }
        Value::Array(items) => items.iter().map(extended).collect(),
        other => other.clone(),
    }
}

#[test]
fn every_example_of_the_specification_is_valid_with_and_without_unknown_fields() {
    for (name, plain) in examples() {
        assert!(is_valid(name, &plain), "{name}");
        assert!(is_valid(name, &extended(&plain)), "{name}");
    }
}

#[test]
fn every_example_is_written_as_it_was_read() {
    fn again<T: serde::de::DeserializeOwned + Serialize>(value: &Value) -> Value {
        to_value(&serde_json::from_value::<T>(value.clone()).unwrap())
    }
    for (name, plain) in examples() {
        for value in [extended(&plain), plain] {
            let written = match name {
                "tool-spec" => again::<ToolSpec>(&value),
                "tool-call" => again::<ToolCall>(&value),
                "tool-result" => again::<ToolResult>(&value),
                "reasoning-trace" => again::<ReasoningTrace>(&value),
                "tool-registry" => again::<ToolRegistry>(&value),
                "eval-case" => again::<EvalCase>(&value),
                "eval-result" => again::<EvalResult>(&value),
                other => panic!("{other}"),
            };
            assert_eq!(written, value, "{name}");
        }
    }
}

/// A `null` removes the field.
#[test]
fn a_document_with_one_thing_wrong_is_refused() {
    for (name, place, wrong) in [
        ("tool-spec", "/name", json!("searchWeb")),
        ("tool-spec", "/name", Value::Null),
        ("tool-spec", "/description", json!("")),
        ("tool-spec", "/parameters", json!([])),
        ("tool-spec", "/parameters/type", json!("array")),
        ("tool-spec", "/metadata/category", json!("search")),
        ("tool-spec", "/metadata/cost_tier", json!("cheapest")),
        ("tool-spec", "/metadata/side_effects", json!("no")),
        ("tool-call", "/id", json!("")),
        ("tool-call", "/arguments", json!("{}")),
        ("tool-call", "/timestamp", json!("today")),
        ("tool-result", "/call_id", Value::Null),
        ("tool-result", "/output", Value::Null),
        ("tool-result", "/error", json!({ "message": "m" })),
        ("tool-result", "/error", json!("")),
        ("tool-result", "/duration_ms", json!(-1)),
        ("tool-result", "/cost_tokens", json!(0.5)),
        ("reasoning-trace", "/trace_id", Value::Null),
        ("reasoning-trace", "/status", json!("succeeded")),
        ("reasoning-trace", "/status", Value::Null),
        ("reasoning-trace", "/started_at", json!("yesterday")),
        ("reasoning-trace", "/metrics", Value::Null),
        ("reasoning-trace", "/metrics/step_count", json!("4")),
        ("reasoning-trace", "/metrics/total_cost_usd", json!(-1)),
        ("reasoning-trace", "/steps/0/type", json!("thought")),
        ("reasoning-trace", "/steps/0/content", Value::Null),
        ("reasoning-trace", "/steps/0/step_id", Value::Null),
        ("reasoning-trace", "/steps/1/tool_call", Value::Null),
        ("reasoning-trace", "/steps/1/tool_call/name", Value::Null),
        ("reasoning-trace", "/steps/2/tool_result/call_id", json!(7)),
        ("tool-registry", "/updated_at", Value::Null),
        ("tool-registry", "/tools/0/spec", Value::Null),
        ("tool-registry", "/tools/0/spec/name", json!("Search")),
        ("eval-case", "/assertions/0/type", json!("calls_tool")),
        ("eval-case", "/assertions/0/tool_name", Value::Null),
        ("eval-case", "/assertions", Value::Null),
        ("eval-result", "/composite_score", json!(1.5)),
        ("eval-result", "/passed", json!("yes")),
        ("eval-result", "/assertion_results/0/reason", Value::Null),
    ] {
        let mut value = examples()
            .into_iter()
            .find(|(known, _)| *known == name)
            .unwrap()
            .1;
        let (object, field) = place.rsplit_once('/').unwrap();
        let fields = value.pointer_mut(object).unwrap().as_object_mut().unwrap();
        if wrong.is_null() {
            _ = fields.remove(field).unwrap()
        } else {
            _ = fields.insert(field.to_owned(), wrong.clone())
        }
        assert!(!is_valid(name, &value), "{name} {place} {wrong}");
    }
}

fn declared(name: &str, kind: &str, annotations: Value) -> ToolDeclaration {
    serde_json::from_value(json!({
        "schema_version": "0.2.0", "tool_id": format!("acme.{name}"), "namespace": "acme", "name": name,
        "description": "Finds\u{200b} pages.", "lifecycle": "available", "tool_kind": kind, "annotations": annotations,
    }))
    .unwrap()
}

fn profile(fields: Value) -> PermissionProfile {
    let mut profile =
        json!({ "schema_version": "0.2.0", "permission_profile_id": "p", "risk_level": "low" });
    profile
        .as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    serde_json::from_value(profile).unwrap()
}

fn with_listed<T>(
    declaration: &ToolDeclaration,
    access: Value,
    with: impl FnOnce(ListedTool<'_>) -> T,
) -> T {
    let interface = json!({ "schema_version": "0.2.0", "interface_id": "i", "tool_id": "t", "is_read_only": true });
    let interface: ToolInterface = serde_json::from_value(interface).unwrap();
    with(ListedTool {
        name: &declaration.name,
        title: None,
        description: &declaration.description,
        declaration,
        interface: Some(&interface),
        permission: &profile(access),
        note: "",
        input_schema: &json!({ "properties": { "query": { "type": "string" } } }),
        output_schema: Some(&json!({ "type": "array" })),
        component: "sha256:00",
        strict_schemas: true,
    })
}

#[test]
fn a_tool_is_described_by_what_it_can_do_and_not_by_what_it_claims() {
    let reads = json!({ "access_kinds": ["file_read"], "write_effects": ["none"] });
    let declaration = declared("searchPages", "web_search", json!({ "cost_tier": "cheap" }));
    let spec = with_listed(&declaration, reads, |listed| spec(&listed));
    let expected = json!({
        "name": "search_pages", "description": "Finds pages.",
        "parameters": { "properties": { "query": { "type": "string" } }, "type": "object" },
        "returns": { "type": "array" },
        "metadata": { "category": "retrieval", "cost_tier": "cheap", "side_effects": false },
        "tool_id": "acme.searchPages", "component": "sha256:00",
    });
    assert_eq!(spec, expected);
    assert!(is_valid("tool-spec", &spec));
    let declaration = declared(
        "write",
        "file_operation",
        json!({ "cost_tier": "priceless" }),
    );
    let writes = json!({ "access_kinds": ["file_write"], "write_effects": ["local_persistent"] });
    let metadata = with_listed(&declaration, writes, |listed| {
        ToolSpec::from_listed(&listed)
    })
    .metadata
    .unwrap();
    assert_eq!(
        to_value(&metadata),
        json!({ "category": "io", "side_effects": true })
    );
}

#[test]
fn each_kind_of_tool_has_its_category() {
    let categories: Vec<(&str, Option<&str>)> = ToolKind::KNOWN
        .into_iter()
        .map(|kind| {
            (
                kind,
                category(&ToolKind(kind.to_owned())).map(|category| category.into_str()),
            )
        })
        .collect();
    let expected = [
        ("function", Some("compute")),
        ("mcp_tool", None),
        ("openapi_operation", None),
        ("native_tool", None),
        ("browser_action", Some("side_effect")),
        ("shell_command", Some("side_effect")),
        ("code_execution", Some("compute")),
        ("file_operation", Some("io")),
        ("web_search", Some("retrieval")),
        ("retrieval", Some("retrieval")),
        ("model_task", Some("coordination")),
        ("skill_tool", Some("coordination")),
        ("peer_agent_tool", Some("coordination")),
        ("policy_check", Some("compute")),
        ("artifact_operation", Some("io")),
        ("evidence_export", Some("side_effect")),
        ("custom", None),
    ];
    assert_eq!(categories, expected);
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table of cases")]
fn names_are_in_snake_case_and_unique_in_a_registry() {
    for (name, snake) in [
        ("search_web", "search_web"),
        ("searchWeb", "search_web"),
        ("Files.Read-all", "files_read_all"),
        ("7zip", "tool_7zip"),
        ("_x", "tool__x"),
        ("\u{e9}", "tool__"),
        ("", "tool_"),
    ] {
        assert_eq!(snake_case(name), snake, "{name:?}");
    }
    let declarations = [
        declared(
            "read_all",
            "file_operation",
            json!({ "tags": ["disk", "", 7, "t".repeat(100)] }),
        ),
        declared("read-all", "web_search", json!({})),
    ];
    let access = json!({ "access_kinds": ["file_read"], "write_effects": ["none"] });
    let registry = with_listed(&declarations[0], access.clone(), |first| {
        with_listed(&declarations[1], access, |second| {
            let entry = |listed, endpoint| {
                RegistryEntry::from_offer(&RegistryOffer {
                    listed,
                    endpoint,
                    auth: Auth::Bearer,
                })
            };
            let tools = vec![
                entry(first, Some("https://example.com/read_all")),
                entry(second, None),
            ];
            registry("acme", "0.1.0", Timestamp::now(), tools)
        })
    });
    assert!(is_valid("tool-registry", &to_value(&registry)));
    let [first, second] = registry.tools.as_slice() else {
        panic!("{registry:?}")
    };
    assert_eq!(first.spec.name, "read_all");
    assert!(
        second.spec.name.starts_with("read_all_")
            && second.spec.name.len() == "read_all_".len() + 6
    );
    for (name, exported, is_its_name) in [
        (first.spec.name.as_str(), "read_all", true),
        (second.spec.name.as_str(), "read-all", true),
        ("read-all", "read-all", true),
        ("read_all_files", "read-all", false),
        ("write_all", "read_all", false),
    ] {
        assert_eq!(is_named(name, exported), is_its_name, "{name} {exported}");
    }
    assert_eq!(first.tags, ["io", "file_operation", "disk"]);
    assert_eq!(
        (first.provider.as_deref(), &first.extra["tool_id"]),
        (Some("acme"), &json!("acme.read_all"))
    );
    let found = |wanted: RegistryQuery<'_>| query(&registry, &wanted).len();
    let words = |words| RegistryQuery {
        words: Some(words),
        ..RegistryQuery::default()
    };
    assert_eq!(
        (
            found(RegistryQuery::default()),
            found(words("")),
            found(words("FINDS disk")),
            found(words("disk web"))
        ),
        (2, 2, 1, 0)
    );
    assert_eq!(
        found(RegistryQuery {
            tag: Some("Disk"),
            ..RegistryQuery::default()
        }),
        1
    );
    assert_eq!(
        found(RegistryQuery {
            category: Some("retrieval"),
            ..RegistryQuery::default()
        }),
        1
    );
    assert_eq!(
        found(RegistryQuery {
            tag: Some("disk"),
            category: Some("retrieval"),
            ..RegistryQuery::default()
        }),
        0
    );
}

fn invocation(tool_id: &str, native: Option<&str>, input: Value, status: Status) -> ToolInvocation {
    let mut invocation = ToolInvocation::planned(tool_id, &Input::from_value(input));
    tool_id.clone_into(&mut invocation.tool_id);
    invocation.native_call_id = native.map(str::to_owned);
    let way: &[Status] = match status {
        Status::Succeeded | Status::Failed | Status::TimedOut => &[
            Status::Selected,
            Status::ArgumentsReady,
            Status::Approved,
            Status::Running,
            status,
        ],
        _ => &[Status::Selected, Status::ArgumentsReady, status],
    };
    way.iter()
        .for_each(|step| invocation.advance(*step, None).unwrap());
    invocation
}

fn failed(invocation: &ToolInvocation, class: ErrorClass) -> Recorded {
    let error = Refusal::new(ErrorCode::TooManyCalls, "it failed")
        .with_class(class)
        .detail("a secret place")
        .to_error();
    let provenance = serde_json::from_value(
        json!({ "trust": "untrusted", "written_by": "tool", "tool_id": "t" }),
    );
    let provenance = provenance.unwrap_or_else(|error| panic!("{error}"));
    Recorded::failed(invocation.invocation_id, error, provenance)
}

fn succeeded(
    invocation: &ToolInvocation,
    content: Vec<Content>,
    structured: Option<Value>,
) -> Recorded {
    let mut result = failed(invocation, ErrorClass::ExecutionFailed);
    (result.error, result.is_error, result.status) =
        (None, false, toolcell_spec::ResultStatus::Succeeded);
    (result.model_facing_content, result.structured_content) = (content, structured);
    result
}

#[test]
fn an_output_is_structured_or_text_and_media_are_uris() {
    let call = invocation("acme.read", None, json!({}), Status::Succeeded);
    let output = |content: Value, structured: Option<Value>| {
        let content: Vec<Content> = serde_json::from_value(content).unwrap();
        result(&call, &succeeded(&call, content, structured))["output"].clone()
    };
    let text = |text: &str| json!({ "type": "text", "text": text });
    assert_eq!(
        output(json!([text("t")]), Some(json!({ "n": 1 }))),
        json!({ "n": 1 })
    );
    assert_eq!(output(json!([text("a"), text("b")]), None), json!("a\nb"));
    assert_eq!(output(json!([]), None), Value::Null);
    let image = json!({ "type": "image", "data": "AAAA", "media_type": "image/png" });
    assert_eq!(
        output(json!([image]), None),
        json!("data:image/png;base64,AAAA")
    );
    let link = json!({ "type": "resource_link", "uri": "memo:1", "name": "m" });
    assert_eq!(
        output(json!([text("a"), link]), None),
        json!(["a", "memo:1"])
    );
    let handoff = json!({ "type": "handoff_ref", "to_agent": "billing", "message": "m" });
    assert_eq!(
        output(json!([handoff]), None),
        json!("the tool proposes to hand over to \"billing\": m")
    );
    let reference: PersistedRef = serde_json::from_value(json!({
        "uri": "toolcell:payload/sha256:00", "digest": "sha256:00", "media_type": "text/plain", "size_bytes": 9,
    }))
    .unwrap();
    let cut = json!([Content::persisted("text", "pre", &reference)]);
    assert_eq!(
        output(cut, None),
        json!("pre\n[cut: 9 bytes of text in all, in the resource toolcell:payload/sha256:00]")
    );
}

#[test]
fn each_class_of_error_is_a_text_without_what_is_for_developers() {
    for class in ErrorClass::ALL {
        let call = invocation("acme.read", Some("c1"), json!({}), Status::Failed);
        let mut ended = failed(&call, class);
        ended.model_facing_content.insert(0, Content::text("half"));
        let told = result(&call, &ended);
        let word = to_value(&class);
        assert_eq!(
            told["error"],
            format!("{}: it failed", word.as_str().unwrap()),
            "{told}"
        );
        assert_eq!(
            (&told["call_id"], &told["cost_tokens"]),
            (&json!("c1"), &json!(0))
        );
        // What is usable of a partial failure is its output.
        let usable = if class == ErrorClass::PartialFailure {
            json!("half")
        } else {
            Value::Null
        };
        assert_eq!(told["output"], usable, "{told}");
        assert!(!told.to_string().contains("secret place"), "{told}");
        assert!(is_valid("tool-result", &told));
    }
}

#[test]
fn arguments_that_are_no_object_or_in_no_record_are_told_as_they_were_sent() {
    let shown = |call: &ToolInvocation| to_value(&ToolCall::from_invocation(call));
    let call = |input| shown(&ToolInvocation::planned("acme.read", &input));
    assert_eq!(
        call(Input::from_text("{\"b\": 1}"))["arguments"],
        json!({ "b": 1 })
    );
    let malformed = call(Input::from_text("{not JSON"));
    assert_eq!(
        (&malformed["arguments"], &malformed["arguments_sent"]),
        (&json!({}), &json!("{not JSON"))
    );
    assert!(is_valid("tool-call", &malformed));
    let mut concealed = ToolInvocation::planned("acme.read", &Input::from_text("{}"));
    concealed.observable_input = Some(std::sync::Arc::new(
        json!({ "token": "[redacted]", "all": false }),
    ));
    assert_eq!(shown(&concealed)["arguments"], json!({}));
    concealed.model_input_ref = "blake3-keyed:00".into();
    assert_eq!(
        shown(&concealed)["arguments"],
        json!({ "token": "[redacted]", "all": false })
    );
}

/// Checks beyond the schemas: unique ids, order of times, a call before each result, counts.
#[track_caller]
fn check_steps(trace: &ReasoningTrace) {
    let steps = &trace.steps;
    let ids: HashSet<&str> = steps.iter().map(|step| step.step_id.as_str()).collect();
    assert_eq!(
        (ids.len(), trace.metrics.step_count),
        (steps.len(), steps.len())
    );
    let time =
        |step: &TraceStep| serde_json::from_value::<Timestamp>(json!(step.timestamp)).unwrap();
    assert!(steps.is_sorted_by_key(time), "{steps:#?}");
    let mut calls = HashSet::new();
    for step in steps {
        calls.extend(step.tool_call.as_ref().map(|call| &call.id));
        let answered = step.tool_result.as_ref().map(|result| &result.call_id);
        assert!(answered.is_none_or(|id| calls.contains(id)), "{steps:#?}");
    }
    assert_eq!(trace.metrics.tool_call_count, calls.len());
}

fn traced(
    calls: &[(ToolInvocation, Option<ErrorClass>)],
    posts: &[Value],
    detectors: Detectors,
) -> Value {
    let mut builder = TraceBuilder::new("s", detectors);
    for (invocation, class) in calls {
        let result = match class {
            Some(class) => failed(invocation, *class),
            None => succeeded(invocation, vec![Content::text("fine")], None),
        };
        builder.call(invocation, Some(&result));
    }
    posts
        .iter()
        .for_each(|post| builder.post(TracePost::read(post.clone(), Timestamp::now()).unwrap()));
    let trace = builder.finish().unwrap();
    check_steps(&trace);
    let trace = to_value(&trace);
    assert!(is_valid("reasoning-trace", &trace), "{trace:#}");
    trace
}

fn ok(tool: &str, input: Value) -> (ToolInvocation, Option<ErrorClass>) {
    (invocation(tool, None, input, Status::Succeeded), None)
}

#[test]
fn the_status_is_what_was_found_or_posted_or_seen() {
    let status =
        |calls: &[_], posts: &[Value], detectors| traced(calls, posts, detectors)["status"].clone();
    let plain = Detectors::default();
    let fine = ok("a.b", json!({ "n": 1 }));
    let late = || {
        (
            invocation("a.b", None, json!({}), Status::TimedOut),
            Some(ErrorClass::Timeout),
        )
    };
    let denied = (
        invocation("a.b", None, json!({}), Status::Denied),
        Some(ErrorClass::PermissionDenied),
    );
    assert_eq!(status(std::slice::from_ref(&fine), &[], plain), "success");
    assert_eq!(status(&[fine.clone(), denied.clone()], &[], plain), "error");
    assert_eq!(status(&[fine.clone(), late()], &[], plain), "timeout");
    assert_eq!(
        status(&[late(), ok("a.b", json!({}))], &[], plain),
        "error",
        "the last call did not end so"
    );
    for word in ["success", "error", "timeout", "refusal"] {
        assert_eq!(
            status(
                std::slice::from_ref(&denied),
                &[json!({ "type": "end", "status": word })],
                plain
            ),
            word
        );
    }
    let budget = |tokens| Detectors {
        token_budget: Some(tokens),
        ..plain
    };
    let tokens = json!({ "type": "end", "status": "success", "total_tokens": 100 });
    let thought = json!({ "type": "reasoning", "content": "c", "context_tokens": 100 });
    for post in [tokens, thought] {
        assert_eq!(
            status(
                std::slice::from_ref(&fine),
                std::slice::from_ref(&post),
                budget(100)
            ),
            "success"
        );
        assert_eq!(
            status(std::slice::from_ref(&fine), &[post], budget(99)),
            "context_overflow"
        );
    }
}

#[test]
fn a_loop_is_one_tool_with_equal_arguments_so_often() {
    let found = |calls: &[_], loop_after| {
        let trace = traced(
            calls,
            &[json!({ "type": "end", "status": "success" })],
            Detectors {
                loop_after,
                ..Detectors::default()
            },
        );
        (trace["status"] == "loop_detected").then(|| trace["metadata"]["toolcell"].clone())
    };
    let one = || ok("a.read", json!({ "x": { "p": 1, "q": [2] }, "y": null }));
    let same = || ok("a.read", json!({ "y": null, "x": { "q": [2], "p": 1 } }));
    let other = ok("a.read", json!({ "x": { "p": 1, "q": [3] }, "y": null }));
    let other_tool = ok("b.read", json!({ "x": { "p": 1, "q": [2] }, "y": null }));
    assert_eq!(
        found(&[one(), same(), other.clone(), other_tool.clone()], 3),
        None
    );
    let noted = found(
        &[
            one(),
            other.clone(),
            same(),
            other_tool.clone(),
            one(),
            same(),
        ],
        3,
    )
    .unwrap();
    let expected =
        json!({ "loop": { "tool_name": "a__read", "equal_calls": 4 }, "posted_status": "success" });
    assert_eq!(noted, expected);
    assert_eq!(found(&[one(), same(), one()], 4), None);
    let concealed = || {
        let mut call = one();
        call.0.model_input_ref = "blake3-keyed:00".into();
        call
    };
    assert_eq!(
        found(&[concealed(), concealed(), concealed()], 3),
        None,
        "the arguments may differ"
    );
}

#[test]
fn a_result_is_followed_by_what_it_proposes_and_calls_by_tools_are_left_out() {
    let call = invocation("a.read", Some("1"), json!({}), Status::Succeeded);
    let twin = invocation("a.read", Some("1"), json!({ "n": 2 }), Status::Succeeded);
    let handoff = Content::new(
        "handoff_ref",
        json!({ "to_agent": "billing", "message": "m" }),
    );
    let mut answer = succeeded(&call, vec![Content::text("t"), handoff], None);
    answer.context_modifiers = vec![ContextModifier {
        key: "branch".to_owned(),
        value: json!({ "a": 1 }),
    }];
    let mut child = invocation("a.child", None, json!({}), Status::Succeeded);
    child
        .extra
        .insert("parent_invocation_id".to_owned(), json!(call.invocation_id));
    let mut builder = TraceBuilder::new("s", Detectors::default());
    builder.call(&call, Some(&answer));
    builder.call(&child, Some(&succeeded(&child, vec![], None)));
    builder.call(&twin, None);
    let trace = builder.finish().unwrap();
    check_steps(&trace);
    assert!(is_valid("reasoning-trace", &to_value(&trace)));
    assert_eq!(
        (&trace.finished_at, &trace.output, &trace.status),
        (&None, &None, &None),
        "one call is running"
    );
    let kinds: Vec<&str> = trace.steps.iter().map(|step| step.kind.as_str()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "tool_call").count(), 2);
    let at = kinds
        .iter()
        .position(|kind| *kind == "tool_result")
        .unwrap();
    assert_eq!(
        kinds[at..at + 3],
        ["tool_result", "handoff", "memory_write"]
    );
    assert_eq!(trace.steps[at + 1].extra["to_agent"], "billing");
    let written = &trace.steps[at + 2].extra;
    assert_eq!(
        (written["key"].as_str(), written["content"].as_str()),
        (Some("branch"), Some("{\"a\":1}"))
    );
    let ids: Vec<String> = trace
        .steps
        .iter()
        .filter_map(|step| Some(step.tool_call.as_ref()?.id.clone()))
        .collect();
    assert_eq!(ids, ["1".to_owned(), twin.invocation_id.to_string()]);
}

#[test]
fn no_two_tools_of_a_trace_have_one_name() {
    let calls = ["a.b", "c.b", "x.a__b", "y.c__b"].map(|tool| ok(tool, json!({})));
    let trace = traced(&calls, &[], Detectors::default());
    let steps = trace["steps"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|step| step["type"] == "tool_call");
    let names: std::collections::BTreeSet<&str> = steps
        .map(|step| step["tool_call"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), calls.len(), "{names:?}");
}

#[test]
fn a_post_reads_back_as_it_was_written() {
    let now = Timestamp::now();
    for post in [
        json!({ "type": "start", "input": "i", "agent_id": "a", "metadata": { "team": "x" }, "x_unknown": [1.5], "trace_id": "mine" }),
        json!({ "type": "reasoning", "content": "c", "context_tokens": 7, "x_unknown": [1.5], "step_id": "mine" }),
        json!({ "type": "handoff", "to_agent": "b", "message": "m" }),
        json!({ "type": "memory_read", "query": "q", "results": [null] }),
        json!({ "type": "memory_write", "content": "c", "key": "k" }),
        json!({ "type": "memory_read", "query": "q", "results": null, "content": 1, "context_tokens": "many" }),
        json!({ "type": "reasoning", "content": "c", "key": [], "tool_call": 7, "tool_result": { "cost_tokens": -1 } }),
        json!({ "type": "end", "output": "o", "status": "refusal", "total_tokens": 3200, "total_cost_usd": 0.0032, "x_unknown": { "a": null } }),
    ] {
        let read = TracePost::read(post.clone(), now).unwrap();
        let again = TracePost::read(read.to_value(), Timestamp::of_unix_millis(0)).unwrap();
        assert_eq!(again, read, "{post}");
        for (name, value) in post.as_object().unwrap() {
            assert!(
                name == "step_id" || read.to_value()[name] == *value,
                "{name} of {post}"
            );
        }
    }
    let step = TracePost::read(
        json!({ "type": "reasoning", "content": "c", "step_id": "mine" }),
        now,
    )
    .unwrap()
    .to_value();
    assert_eq!(
        (&step["caller_step_id"], step.get("step_id")),
        (&json!("mine"), None)
    );
}
