use serde_json::{Value, json};

use crate::support::{Client, NEW, OLD};

#[test]
fn both_revisions_are_negotiated() {
    let mut client = Client::silent(&["probe#echo"], [""; 0]);
    let greeted = client.initialize(OLD)["result"].clone();
    assert_eq!(greeted["protocolVersion"], OLD);
    assert_eq!(greeted["serverInfo"]["name"], "toolcell");
    assert!(greeted["capabilities"]["tools"].is_object() && greeted["capabilities"]["resources"].is_object());
    let mut client = Client::silent(&["probe#echo"], [""; 0]);
    client.speak_new();
    let found = client.request("server/discover", json!({}))["result"].clone();
    let versions: Vec<&str> = found["supportedVersions"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(versions.contains(&OLD) && versions.contains(&NEW), "{found}");
    let answer = client.request("tools/call", json!({ "name": "echo", "arguments": { "a": 1 } }))["result"].clone();
    assert_eq!((&answer["resultType"], &answer["isError"]), (&json!("complete"), &json!(false)));
    assert_eq!(answer["structuredContent"]["input"], json!({ "a": 1 }));
}

#[test]
fn an_unknown_revision_gets_one_that_the_server_speaks() {
    let mut client = Client::silent(&["probe#echo"], [""; 0]);
    let greeted = client.initialize("1999-01-01");
    assert_eq!(greeted["result"]["protocolVersion"], OLD);
}

#[test]
fn tools_are_listed_with_what_a_model_may_see() {
    let mut client = Client::of(&["probe"]);
    let listed = client.request("tools/list", json!({}))["result"]["tools"].clone();
    let tool = |name: &str| listed.as_array().unwrap().iter().find(|tool| tool["name"] == name).cloned();
    let echo = tool("echo").unwrap();
    assert_eq!(echo["inputSchema"]["type"], "object");
    assert!(echo["description"].as_str().unwrap().contains("verbatim"));
    assert_eq!(echo["annotations"]["readOnlyHint"], json!(true));
    assert_eq!(tool("write").unwrap()["annotations"]["destructiveHint"], json!(true));
    assert_eq!(tool("net").unwrap()["annotations"]["openWorldHint"], json!(true));
    assert_eq!(tool("good_structured").unwrap()["outputSchema"]["type"], "object");
    for hidden in ["draft", "disabled", "deferred", "deprecated", "retired", "requires_setup"] {
        assert!(tool(&format!("lifecycle_{hidden}")).is_none(), "{hidden} is listed");
    }
    // A deprecated tool still runs for clients that know its name.
    assert_eq!(client.call("lifecycle_deprecated", json!({}))["isError"], json!(false));
    // A field that only hooks may fill is in no answer, and a client cannot send it.
    assert!(!listed.to_string().contains("zz_internal_7f3"));
    let refused = client.call("internal", json!({ "query": "q", "zz_internal_7f3": "x" }));
    assert_eq!(refused["isError"], json!(true));
    assert_eq!(refused["_meta"]["toolcell/error"]["class"], "schema_validation_failed");
}

#[test]
fn only_what_was_offered_can_be_called() {
    let mut client = Client::of(&["probe#echo"]);
    let listed = client.request("tools/list", json!({}))["result"]["tools"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 2);
    for name in ["counter", "probe.counter", "nothing"] {
        let id = client.begin_call(name, json!({}));
        let answer = client.answer(&id);
        assert_eq!(answer["error"]["code"], json!(-32602), "{answer}");
        assert_eq!(answer["error"]["data"]["error"]["error_class"], "unknown_tool");
        assert_eq!(answer["error"]["data"]["status"], "failed");
    }
}

#[test]
fn names_that_collide_are_qualified_and_others_are_not() {
    let mut client = Client::of(&["cancellable", "hostile"]);
    let listed = client.request("tools/list", json!({}))["result"]["tools"].clone();
    let names: Vec<&str> = listed.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    for name in ["cancellable__sleep_ignore_cancel", "hostile__sleep_ignore_cancel", "cooperative", "spin"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    assert!(!names.contains(&"sleep_ignore_cancel"));
    let answer = client.call("acknowledge_unasked", json!({}));
    assert_eq!(answer["_meta"]["toolcell/error"], Value::Null, "{answer}");
}

#[test]
fn a_server_without_its_tools_does_not_start() {
    let client = Client::silent(&["probe#no_such_tool"], [""; 0]);
    let (status, _, stderr, frames) = client.close();
    assert_eq!(status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("no_such_tool") && frames.is_empty());
}
