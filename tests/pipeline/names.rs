//! Promise: A name allows nothing by itself.

use std::sync::Arc;
use toolcell::ErrorCode;

use serde_json::json;
use toolcell_engine::pipeline::Request;

use super::doubles::{declaring, own_host};
use crate::support::{Called, Test};

fn echo(namespace: &str) -> Test {
    Test::of_bytes(declaring(namespace, |_| {}), None)
}

#[tokio::test]
async fn a_name_that_nothing_has_is_refused_with_the_names_that_there_are() {
    let host = own_host(|settings| settings);
    let called = echo("names_unknown")
        .on(&host)
        .typed("eccho")
        .call(json!({"a": 1}))
        .await;
    called
        .failed("unknown_tool", "unknown_tool")
        .ended("failed", "failed")
        .never_ran();
    assert_eq!(
        called.message(),
        "no tool named `eccho`; available: names_unknown.echo"
    );
    assert_eq!(called.0.invocation.tool_id, "unresolved:eccho");
    assert!(called.0.declaration.is_none());
    // The requested call is recorded even so.
    assert_eq!(*called.0.invocation.model_input, json!({"a": 1}));
}

#[tokio::test]
async fn a_bare_name_that_two_tools_have_is_ambiguous_and_a_qualified_one_is_not() {
    let host = own_host(|settings| settings);
    for namespace in ["names_one", "names_two"] {
        let called = echo(namespace)
            .on(&host)
            .call(json!({"from": namespace}))
            .await;
        assert_eq!(called.succeeded(), json!({"from": namespace}));
    }
    let called = echo("names_one")
        .on(&host)
        .typed("echo")
        .call(json!({}))
        .await;
    called
        .failed("unknown_tool", "ambiguous_tool")
        .ended("failed", "failed")
        .never_ran();
    assert_eq!(
        called.message(),
        "`echo` is ambiguous; use one of: names_one.echo, names_two.echo"
    );
    let called = echo("names_one")
        .on(&host)
        .typed("names_two.echo")
        .call(json!({}))
        .await;
    assert_eq!(called.0.invocation.tool_id, "names_two.echo");
}

#[tokio::test]
async fn a_bare_name_that_one_tool_has_finds_it() {
    let host = own_host(|settings| settings);
    let called = echo("names_single")
        .on(&host)
        .typed("echo")
        .call(json!({}))
        .await;
    called.succeeded();
    assert_eq!(called.0.invocation.tool_id, "names_single.echo");
    assert_eq!(called.0.events[1].data["via"], "name");
}

#[tokio::test]
async fn a_tool_that_the_caller_has_resolved_is_not_looked_up() {
    let host = own_host(|settings| settings);
    let other = own_host(|settings| settings);
    let tools = host
        .load(&declaring("names_resolved", |_| {}))
        .await
        .unwrap()
        .tools;
    let tool = Arc::clone(tools.first().unwrap());
    let called = Called(
        host.call(Request::new(Arc::clone(&tool), json!({"a": 1})))
            .await,
    );
    assert_eq!(called.succeeded(), json!({"a": 1}));
    assert_eq!(called.0.events[0].data["requested"], "names_resolved.echo");
    assert_eq!(called.0.events[1].data["via"], "name");
    // A host that did not load it does not know the name, and does not have its code.
    let called = Called(
        other
            .call(Request::new("names_resolved.echo", json!({})))
            .await,
    );
    called.failed("unknown_tool", "unknown_tool").never_ran();
    let called = Called(other.call(Request::new(tool, json!({}))).await);
    called.failed("dependency_unavailable", "component_not_loaded");
    assert_eq!(called.0.invocation.tool_id, "names_resolved.echo");
}

#[tokio::test]
async fn two_components_cannot_share_a_qualified_name() {
    let host = own_host(|settings| settings);
    echo("names_taken")
        .on(&host)
        .call(json!({}))
        .await
        .succeeded();
    let other = declaring("names_taken", |declaration| {
        declaration["title"] = json!("an impostor")
    });
    let refusal = Test::of_bytes(other, None)
        .on(&host)
        .load()
        .await
        .unwrap_err();
    assert_eq!(
        (refusal.class.result_status(), refusal.code),
        (
            toolcell_spec::ResultStatus::Failed,
            ErrorCode::ToolNameTaken
        )
    );
    let called = echo("names_taken").on(&host).call(json!({})).await;
    assert_eq!(
        called.0.declaration.as_ref().unwrap().title,
        None,
        "the first one stays"
    );
}

#[tokio::test]
async fn an_alias_finds_the_tool_and_is_recorded_as_such() {
    for alias in ["nicknamed", "probe_alias"] {
        let called = Test::new("probe#aliased")
            .typed(alias)
            .call(json!({}))
            .await;
        assert_eq!(
            called.succeeded()["ran"],
            "aliased",
            "the guest knows its own name only"
        );
        assert_eq!(called.0.invocation.tool_id, "probe.aliased");
        assert_eq!(called.0.events[0].data["requested"], alias);
        assert_eq!(called.0.events[1].data["via"], "alias");
    }
    let called = Test::new("probe#aliased").call(json!({})).await;
    assert_eq!(called.0.events[1].data["via"], "name");
}

#[tokio::test]
async fn an_alias_does_not_win_over_the_name_of_another_tool() {
    let host = own_host(|settings| settings);
    let named = |name: &'static str, aliases: serde_json::Value| {
        Test::of_bytes(
            declaring("names_alias", |declaration| {
                declaration["name"] = json!(name);
                declaration["namespace"] = json!(format!("names_{name}"));
                declaration["aliases"] = aliases;
            }),
            None,
        )
    };
    named("thief", json!(["safe", "loot"]))
        .on(&host)
        .call(json!({}))
        .await
        .succeeded();
    let called = named("safe", json!([]))
        .on(&host)
        .typed("safe")
        .call(json!({}))
        .await;
    assert_eq!(called.0.invocation.tool_id, "names_safe.safe");
    let called = named("safe", json!([]))
        .on(&host)
        .typed("loot")
        .call(json!({}))
        .await;
    assert_eq!(called.0.invocation.tool_id, "names_thief.thief");
}

#[tokio::test]
async fn every_call_has_ids_of_its_own_and_keeps_the_callers_id_as_it_was() {
    let call = || async {
        echo("names_ids")
            .native_call_id("call_7 \u{e9}")
            .call(json!({}))
            .await
    };
    let first = call().await;
    let second = call().await;
    assert_ne!(
        first.0.invocation.invocation_id,
        second.0.invocation.invocation_id
    );
    assert_ne!(first.0.result.result_id, second.0.result.result_id);
    assert_ne!(
        first.0.decisions[0].decision_id,
        second.0.decisions[0].decision_id
    );
    for called in [first, second] {
        assert_eq!(
            called.0.invocation.native_call_id.as_deref(),
            Some("call_7 \u{e9}")
        );
        assert_eq!(called.0.events[0].data["native_call_id"], "call_7 \u{e9}");
        let ids: std::collections::HashSet<_> =
            called.0.events.iter().map(|event| event.event_id).collect();
        assert_eq!(ids.len(), called.0.events.len());
    }
}
