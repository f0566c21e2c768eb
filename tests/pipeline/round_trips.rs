//! Unknown fields of a record survive being read and written (AT-N-31).

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolcell_spec::{
    Content, ExecutionProfile, ExternalMapping, InputContract, InputMutation, OutputContract,
    PermissionDecision, PermissionProfile, ResultPersistence, ToolDeclaration, ToolError,
    ToolEvent, ToolInterface, ToolInvocation, ToolProgress, ToolResult, Toolkit,
};

use crate::support::Test;

use super::doubles::{declaring, describing};

/// Checks that `record` keeps an unknown field and all known ones.
#[track_caller]
fn survives<T: DeserializeOwned + Serialize>(mut record: Value) {
    let unknown = json!({"from": "0.9", "list": [1.5, null, "\u{e9}"]});
    record["a_field_of_tomorrow"] = unknown.clone();
    let name = std::any::type_name::<T>();
    let read: T =
        serde_json::from_value(record.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let written = serde_json::to_value(&read).unwrap();
    for (field, value) in record.as_object().unwrap() {
        assert_eq!(written.get(field), Some(value), "{name}: {field}");
    }
}

const VERSION: &str = "0.2.0";

#[test]
fn records_that_others_write_keep_what_is_not_known() {
    survives::<ToolDeclaration>(json!({
        "schema_version": "0.2.7", "tool_id": "a.b", "namespace": "a", "name": "b", "description": "c",
        "lifecycle": "available", "tool_kind": "tea_ceremony", "annotations": {"x": [1]},
    }));
    survives::<InputContract>(
        json!({"strict": true, "argument_mode": "json", "mutation_policy": {"hooks": "deny"}}),
    );
    survives::<OutputContract>(json!({"max_inline_chars": 7, "redaction_rules": ["/a"]}));
    survives::<ToolInterface>(
        json!({"schema_version": VERSION, "interface_id": "i", "tool_id": "a.b", "is_read_only": "feature:x"}),
    );
    survives::<ExecutionProfile>(
        json!({"schema_version": VERSION, "execution_profile_id": "e", "execution_kind": "hybrid"}),
    );
    survives::<PermissionProfile>(json!({
        "schema_version": VERSION, "permission_profile_id": "p", "risk_level": "critical",
        "access_kinds": ["file_read"], "write_effects": ["none"],
    }));
    survives::<ExternalMapping>(json!({"source": "mcp", "jsonrpc_request_id": 7}));
    survives::<Content>(json!({"type": "hologram", "data": "x"}));
    survives::<Toolkit>(json!({"declarations": []}));
}

#[tokio::test]
async fn records_that_this_host_writes_can_be_read_again_and_extended() {
    let record = Test::new("probe#partial").call(json!({})).await.record();
    survives::<ToolInvocation>(record["invocation"].clone());
    survives::<PermissionDecision>(record["decisions"][0].clone());
    survives::<ToolError>(record["result"]["error"].clone());
    assert_eq!(record["result"]["error"]["schema_version"], VERSION);
    survives::<ToolDeclaration>(record["declaration"].clone());
    survives::<ToolResult>(record["result"].clone());
    survives::<ToolEvent>(record["events"][0].clone());
    survives::<ResultPersistence>(record["persistence"][0].clone());
    let record = Test::new("probe#defaults")
        .call(json!({"query": "x"}))
        .await
        .record();
    survives::<InputMutation>(record["result"]["input_mutations"][0].clone());
    let record = Test::new("probe#progress")
        .call(json!({"count": 1}))
        .await
        .record();
    survives::<ToolProgress>(record["progress"][0].clone());
}

#[tokio::test]
async fn what_a_tool_says_of_itself_comes_back_as_it_was() {
    let record = Test::new("probe#external").call(json!({})).await.record();
    let mapping =
        json!([{"source": "mcp", "server": "example", "native_id": 7, "kept": [1.5, null]}]);
    assert_eq!(record["declaration"]["external_mappings"], mapping);
    let record = Test::new("probe#unusual_kind")
        .call(json!({}))
        .await
        .record();
    assert_eq!(record["declaration"]["tool_kind"], "tea_ceremony");
    let bytes = declaring("round_trips", |declaration| {
        declaration["a_field_of_tomorrow"] = json!({"x": [1]})
    });
    let record = Test::of_bytes(bytes, None).call(json!({})).await.record();
    assert_eq!(
        record["declaration"]["a_field_of_tomorrow"],
        json!({"x": [1]})
    );
}

#[tokio::test]
async fn the_mappings_of_a_tool_come_back_as_they_were_written() {
    let declared = async |namespace: &str, mappings: &str, more: &str| {
        let declaration = json!({
            "schema_version": VERSION, "namespace": namespace, "name": "echo", "description": "Answers its input",
            "lifecycle": "available", "tool_kind": "function", "external_mappings": "HERE",
            "input_contract": { "model_input_schema": { "type": "object" } },
        });
        let text = json!({ "declarations": [declaration] }).to_string();
        let text = text.replace("\"HERE\"", &format!("{mappings}{more}"));
        let called = Test::of_bytes(describing(&text), None).call(json!({}));
        called.await.record()["declaration"].clone()
    };
    let written = r#"[{"source":"mcp","id":12345678901234567890123,"at":[1e2]}]"#;
    let ordered = r#"[ {"at": [1.50, "\u00e9 \" ,"], "source": "mcp"} ]"#;
    let plain = r#"[ {"source": "mcp", "at": [1.5, "\" ,"]} ]"#;
    let own = format!(r#","external_mappings_text":{}"#, json!(written));
    // A text says what the mappings say, or is not kept.
    let rounded = r#"[{"source":"mcp","id":1.2345678901234568e+22,"at":[100.0]}]"#;
    for (namespace, mappings, more, text) in [
        ("mapped_exactly", written, "", json!(written)),
        ("mapped_in_order", ordered, "", json!(ordered)),
        ("mapped_plainly", plain, "", Value::Null),
        ("mapped_again", rounded, own.as_str(), json!(written)),
        (
            "mapped_falsely",
            r#"[{"source":"mcp","id":7}]"#,
            own.as_str(),
            Value::Null,
        ),
    ] {
        let declaration = declared(namespace, mappings, more).await;
        let kept = declaration
            .get("external_mappings_text")
            .unwrap_or(&Value::Null);
        assert_eq!(kept, &text, "{declaration}");
    }
    assert_eq!(
        declared("mapped_to_none", "[]", "").await["external_mappings"],
        json!([])
    );
}

#[test]
fn every_known_kind_of_tool_is_known() {
    use toolcell_spec::ToolKind;
    let open = [
        "browser_action",
        "shell_command",
        "web_search",
        "mcp_tool",
        "openapi_operation",
        "peer_agent_tool",
    ];
    for kind in ToolKind::KNOWN {
        let read: ToolKind = serde_json::from_value(kind.into()).unwrap();
        assert!(read.is_known());
        assert_eq!(read.is_open_world(), open.contains(&kind), "{kind}");
    }
    assert!(!ToolKind("tea_ceremony".to_owned()).is_known());
}
