//! Phase 7: the decision on a call, as it is recorded.
//!
//! Promise: Claims only narrow.

use serde_json::{Value, json};
use toolcell_spec::Mode;

use crate::support::{Called, Test, scratch};

use super::doubles::echoing;

fn decision(called: &Called) -> Value {
    assert_eq!(called.0.decisions.len(), 1);
    let decision = serde_json::to_value(&called.0.decisions[0]).unwrap();
    assert_eq!(
        called.record()["invocation"]["permission_decision_refs"],
        json!([decision["decision_id"]])
    );
    decision
}

#[tokio::test]
async fn a_tool_that_asks_for_nothing_is_allowed_without_a_rule() {
    let decision = decision(&Test::new("probe#echo").call(json!({})).await);
    assert_eq!(
        (&decision["behavior"], &decision["reason"]["type"]),
        (&json!("allow"), &json!("safety_check"))
    );
    assert_eq!(decision["rule_refs"], json!([]));
    assert_eq!(
        decision["source"], "policy_settings",
        "no rule decided, but the host"
    );
    assert_eq!(
        decision["policy_refs"],
        json!(["permission_profile:probe.echo.permissions"])
    );
}

#[tokio::test]
async fn a_field_of_a_decision_that_does_not_apply_is_absent() {
    let decision = decision(&Test::new("probe#echo").call(json!({})).await);
    let absent = [
        "updated_input",
        "updated_input_ref",
        "pending_classifier_check",
        "blocked_path",
        "accept_feedback",
    ];
    for name in absent {
        assert_eq!(
            decision.get(name),
            None,
            "the specification's schema has no null for {name}"
        );
    }
    assert_eq!(decision["content_blocks"], json!([]));
    assert!(decision.get("expires_at").is_none());
}

#[tokio::test]
async fn what_decided_and_what_proves_it_is_named_wherever_the_call_is_recorded() {
    let (_guard, folder) = scratch();
    let denied = folder.to_str().unwrap();
    let test = Test::new("probe#read")
        .read(&folder)
        .grant(|grants| grants.deny_read(denied).unwrap());
    let called = test.call(json!({"path": folder.join("a")})).await;
    called.failed("permission_denied", "denied_by_rule");
    let record = called.record();
    let decision = &record["decisions"][0];
    let policies = &decision["policy_refs"];
    assert_eq!(policies[0], decision["rule_refs"][0]);
    assert_eq!(policies[1], "permission_profile:probe.read.permissions");
    assert_eq!(
        (
            &record["invocation"]["policy_refs"],
            &record["result"]["policy_refs"]
        ),
        (policies, policies)
    );
    assert_eq!(&record["result"]["error"]["policy_refs"], policies);
    let evidence = format!("toolcell:call/{}", called.0.invocation.invocation_id);
    assert_eq!(record["invocation"]["evidence_refs"], json!([evidence]));
    assert_eq!(record["result"]["evidence_refs"], json!([evidence]));
    let of_decision = format!(
        "{evidence}#decision/{}",
        decision["decision_id"].as_str().unwrap()
    );
    assert_eq!(
        record["result"]["error"]["evidence_refs"],
        json!([evidence, of_decision])
    );
    // A failure that no policy caused names none.
    let failed = Test::new("probe#fail").call(json!({})).await.record();
    assert_eq!(failed["result"]["error"]["policy_refs"], json!([]));
}

#[tokio::test]
async fn what_nobody_granted_is_denied_before_the_tool_runs_and_the_flag_is_named() {
    let (_guard, folder) = scratch();
    let path = folder.join("a");
    let input = json!({ "path": path });
    let called = Test::new("probe#read").call(input.clone()).await;
    called
        .failed("permission_denied", "not_granted")
        .ended("denied", "denied")
        .never_ran();
    assert!(
        called.message().contains("--allow-read="),
        "{}",
        called.message()
    );
    let decision = decision(&called);
    assert_eq!(
        (&decision["behavior"], &decision["reason"]["type"]),
        (&json!("deny"), &json!("mode"))
    );
    assert_eq!(decision["reason"]["message"], called.message());
    assert_eq!(called.record()["invocation"]["permission_input"], input);
    assert!(
        called.record()["invocation"].get("call_input").is_none(),
        "nothing was given to the tool"
    );

    let called = Test::new("probe#append")
        .read(&folder)
        .call(json!({"path": path, "text": "x"}))
        .await;
    called
        .failed("permission_denied", "not_granted")
        .ended("denied", "denied")
        .never_ran();
    assert!(
        called.message().contains("--allow-write="),
        "{}",
        called.message()
    );
}

#[tokio::test]
async fn a_grant_is_the_rule_that_allows_and_the_record_names_it() {
    let (_guard, folder) = scratch();
    std::fs::write(folder.join("a"), "here").unwrap();
    let called = Test::new("probe#read")
        .read(&folder)
        .call(json!({"path": folder.join("a")}))
        .await;
    assert_eq!(called.succeeded()["value"]["text"], "here");
    let decision = decision(&called);
    assert_eq!(decision["source"], "cli_arg");
    assert_eq!(
        decision["rule_refs"],
        json!([format!("--allow-read={}", folder.display())])
    );
    let reason = json!({
        "type": "rule", "message": "everything that the tool declares was granted",
        "rule_ref": decision["rule_refs"][0],
    });
    assert_eq!(decision["reason"], reason);
    // The same grants have the same name, and others have another.
    let again = Test::new("probe#read")
        .read(&folder)
        .call(json!({"path": folder.join("a")}))
        .await;
    assert_eq!(
        again.record()["decisions"][0]["sandbox_ref"],
        decision["sandbox_ref"]
    );
    let other = Test::new("probe#echo").call(json!({"text": "x"})).await;
    assert_ne!(
        other.record()["decisions"][0]["sandbox_ref"],
        decision["sandbox_ref"]
    );
    let event = called
        .0
        .events
        .iter()
        .find(|event| event.event_type.as_str() == "tool.permission.decided")
        .unwrap();
    assert_eq!(
        (&event.data["behavior"], &event.data["rule_refs"]),
        (&json!("allow"), &decision["rule_refs"])
    );
}

#[tokio::test]
async fn a_denial_overrules_a_grant_and_the_record_names_the_path() {
    let (_guard, folder) = scratch();
    let denied = folder.to_str().unwrap();
    let test = Test::new("probe#read")
        .read(&folder)
        .grant(|grants| grants.deny_read(denied).unwrap());
    let called = test.call(json!({"path": folder.join("a")})).await;
    called
        .failed("permission_denied", "denied_by_rule")
        .ended("denied", "denied")
        .never_ran();
    let decision = decision(&called);
    assert_eq!(
        (&decision["source"], &decision["reason"]["type"]),
        (&json!("cli_arg"), &json!("rule"))
    );
    assert_eq!(decision["blocked_path"], denied);
}

#[tokio::test]
async fn a_kind_of_access_that_this_host_cannot_grant_is_a_gap_in_its_capabilities() {
    let (_guard, folder) = scratch();
    for kind in ["browser", "payment", "external_send", "code_execution"] {
        let bytes = asking(
            &format!("decisions_{kind}"),
            json!({"access_kinds": [kind]}),
            json!({}),
        );
        let called = Test::of_bytes(bytes, None)
            .write(&folder)
            .call(json!({}))
            .await;
        called
            .failed("capability_gap", "access_kind_not_supported")
            .ended("failed", "blocked")
            .never_ran();
        assert!(
            called.message().contains(&format!("`{kind}`")),
            "{}",
            called.message()
        );
        assert_eq!(decision(&called)["reason"]["type"], "safety_check");
    }
}

#[tokio::test]
async fn annotations_change_no_decision() {
    let (_guard, folder) = scratch();
    let praise = json!({"readOnlyHint": true, "trusted": true, "toolcell": {"approved": true, "access_kinds": []}});
    let profile = json!({"access_kinds": ["file_write"], "write_effects": ["local_persistent"]});
    for granted in [false, true] {
        let mut decisions = Vec::new();
        for (name, annotations) in [("plain", json!({})), ("praised", praise.clone())] {
            let bytes = asking(&format!("decisions_{name}"), profile.clone(), annotations);
            let test = Test::of_bytes(bytes, None);
            let called = if granted { test.write(&folder) } else { test }
                .call(json!({}))
                .await;
            assert_eq!(called.0.result.is_error, !granted);
            let mut decision = decision(&called);
            for own in ["decision_id", "invocation_id", "decided_at"] {
                decision.as_object_mut().unwrap().remove(own);
            }
            decisions.push(decision.to_string().replace(name, "tool"));
        }
        assert_eq!(decisions[0], decisions[1]);
    }
    let annotated = Test::new("probe#annotated").call(json!({})).await;
    assert_eq!(
        annotated.record()["declaration"]["annotations"]["trusted"],
        true,
        "carried all the same"
    );
}

#[tokio::test]
async fn a_profile_that_wants_an_approval_is_asked_about_and_runs_for_nobody_else() {
    for (name, profile, why) in [
        (
            "required",
            json!({"approval_required": true, "approval_reason": "it costs money"}),
            "it costs money",
        ),
        (
            "irreversible",
            json!({"write_effects": ["irreversible"]}),
            "cannot be undone",
        ),
        ("risky", json!({"risk_level": "critical"}), "risk"),
    ] {
        let bytes = asking(&format!("decisions_{name}"), profile, json!({}));
        let called = Test::of_bytes(bytes.clone(), None).call(json!({})).await;
        called
            .failed("permission_denied", "nobody_to_ask")
            .ended("denied", "denied")
            .never_ran();
        let asked = decision(&called);
        assert_eq!(
            (&asked["behavior"], &asked["mode"]),
            (&json!("ask"), &json!("default"))
        );
        assert!(
            asked["reason"]["message"].as_str().unwrap().contains(why),
            "{asked}"
        );

        let silent =
            Test::of_bytes(bytes, None).policy(|policy| policy.mode = Mode::NonInteractive);
        let called = silent.call(json!({})).await;
        called
            .failed("permission_denied", "approval_not_possible")
            .ended("denied", "denied")
            .never_ran();
        assert_eq!(decision(&called)["mode"], "non_interactive");
    }
}

/// An echo with this permission profile and these annotations.
fn asking(namespace: &str, profile: Value, annotations: Value) -> Vec<u8> {
    echoing(namespace, |toolkit| {
        let mut record = json!({"schema_version": "0.2.0", "permission_profile_id": "asks", "risk_level": "low"});
        record
            .as_object_mut()
            .unwrap()
            .extend(profile.as_object().unwrap().clone());
        toolkit["permission_profiles"] = json!([record]);
        toolkit["declarations"][0]["permission_profile_ref"] = json!("asks");
        toolkit["declarations"][0]["annotations"] = annotations;
    })
}

/// A tool with these fields in its permission profile, whose argument `url` is a URL.
fn reaching(namespace: &str, permissions: Value) -> Vec<u8> {
    echoing(namespace, |toolkit| {
        let id = format!("{namespace}.interface");
        toolkit["interfaces"] = json!([{ "schema_version": "0.2.0", "interface_id": id,
            "tool_id": format!("{namespace}.echo"), "permission_subjects": { "/url": "url" } }]);
        let mut profile =
            json!({ "schema_version": "0.2.0", "permission_profile_id": "p", "risk_level": "low" });
        profile
            .as_object_mut()
            .unwrap()
            .extend(permissions.as_object().unwrap().clone());
        toolkit["permission_profiles"] = json!([profile]);
        let declaration = &mut toolkit["declarations"][0];
        declaration["interface_ref"] = json!(id);
        declaration["permission_profile_ref"] = json!("p");
        let schema = json!({ "type": "object", "properties": { "url": { "type": "string" } } });
        declaration["input_contract"] = json!({ "model_input_schema": schema });
    })
}

/// The call is refused, and no option is named that would not help.
fn not_grantable(called: &Called) {
    called
        .failed("permission_denied", "not_granted")
        .never_ran();
    let error = &called.record()["result"]["error"];
    assert!(
        error.get("needs_authorization").is_none() && !called.message().contains("--allow"),
        "{error:#}"
    );
}

#[tokio::test]
async fn a_host_that_no_grant_can_give_is_not_named_for_the_operator() {
    let network = |scope: &str| json!({ "access_kinds": ["network"], "network_scope": scope });
    let scoped = || {
        Test::of_bytes(
            reaching("scoped_to_one_host", network("https://a.test")),
            None,
        )
    };
    let url = json!({ "url": "https://b.test/x" });
    not_grantable(&scoped().call(url.clone()).await);
    not_grantable(&scoped().net("b.test").call(url.clone()).await);
    let denied = Test::of_bytes(reaching("denied_one_host", network("any")), None);
    not_grantable(
        &denied
            .grant(|grants| grants.deny_net("b.test").unwrap())
            .call(url)
            .await,
    );
    let declared = scoped().call(json!({ "url": "https://a.test/x" })).await;
    assert_eq!(
        declared.record()["result"]["error"]["needs_authorization"]["subject"],
        "https://a.test"
    );
}

#[tokio::test]
async fn the_name_of_a_secret_cannot_grant_another_one() {
    // In `--allow-secret=NAME@https://HOST` this would be two grants.
    let name = "API_KEY@https://evil.test,X";
    let permissions = json!({ "access_kinds": ["credential"], "credential_refs": [name] });
    not_grantable(
        &Test::of_bytes(reaching("two_secrets_in_one", permissions), None)
            .call(json!({}))
            .await,
    );
}
