//! Tools of toolkits in the short form, in calls.

use serde_json::{Value, json};

use super::doubles::describing;
use crate::support::{Test, scratch};

/// A tool that answers its arguments, with the fields of `more`.
fn tool(namespace: &str, more: Value) -> Test {
    let mut tool = json!({
        "name": "echo",
        "description": "Answers its arguments.",
        "input": { "type": "object", "properties": { "path": { "type": "string" }, "url": { "type": "string" } } },
    });
    for (field, value) in more.as_object().unwrap() {
        tool[field] = value.clone();
    }
    Test::of_bytes(
        describing(&json!({ "namespace": namespace, "tools": [tool] }).to_string()),
        None,
    )
}

#[tokio::test]
async fn a_tool_without_access_gets_an_empty_world_whatever_is_granted() {
    let (_guard, folder) = scratch();
    let called = tool("short_pure", json!({}))
        .read(&folder)
        .net("example.com")
        .call(json!({ "path": "a" }))
        .await;
    assert_eq!(called.succeeded(), json!({ "path": "a" }));
    let record = called.record();
    assert_eq!(
        record["decisions"][0]["reason"]["message"],
        "the tool asks for no access"
    );
}

#[tokio::test]
async fn an_argument_in_paths_narrows_the_call_and_is_decided_on() {
    let (_guard, folder) = scratch();
    let test = || {
        tool(
            "short_reader",
            json!({ "access": ["file_read"], "paths": ["path"] }),
        )
    };
    let cwd = folder.clone();
    let path = folder.join("a.txt");
    let called = test()
        .read(&folder)
        .grant(|grants| grants.cwd = Some(cwd))
        .call(json!({ "path": "a.txt" }))
        .await;
    assert_eq!(called.succeeded(), json!({ "path": path }));
    let outside = test()
        .read(&folder)
        .call(json!({ "path": "/etc/passwd" }))
        .await;
    outside
        .failed("permission_denied", "path_not_granted")
        .never_ran();
    test()
        .call(json!({ "path": path }))
        .await
        .failed("permission_denied", "not_granted")
        .never_ran();
}

#[tokio::test]
async fn an_argument_in_urls_is_all_that_a_tool_may_reach() {
    let test = || {
        tool(
            "short_fetcher",
            json!({ "access": ["network"], "urls": ["url"] }),
        )
    };
    let granted = test()
        .net("example.com")
        .call(json!({ "url": "https://example.com/a" }))
        .await;
    granted.succeeded();
    let other = test()
        .net("example.com")
        .call(json!({ "url": "https://example.org/a" }))
        .await;
    other.failed("permission_denied", "not_granted").never_ran();
}

#[tokio::test]
async fn an_argument_that_the_schema_does_not_name_is_refused() {
    let called = tool("short_strict", json!({}))
        .call(json!({ "pth": "a" }))
        .await;
    called
        .failed("schema_validation_failed", "schema_mismatch")
        .never_ran();
}
