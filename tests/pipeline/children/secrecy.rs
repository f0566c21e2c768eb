//! What the calls of a tool may show and store of what it was given and told.

use super::*;
use crate::support::Canary;

const CANARY: Canary = Canary::new("child-7b2/Xy+qR\"z1~long-enough");

#[tokio::test]
async fn arguments_that_are_wrong_or_sensitive_are_treated_like_those_of_any_call() {
    let family = Family::new().await;
    let wrong = family
        .free("call")
        .call(calling("probe.read", json!({ "path": 7 })))
        .await;
    refused(
        &answer(&wrong),
        "other(schema_validation_failed)",
        "schema_mismatch",
    );
    let garbage = json!({ "tool": "probe.echo", "input_text": "{" });
    refused(
        &answer(&family.free("call").call(garbage).await),
        "InvalidArguments",
        "arguments_not_json",
    );
    let huge = json!({ "tool": "probe.echo", "input_text": " ".repeat((1 << 20) + 1) });
    let huge = family.free("call").call(huge).await;
    refused(&answer(&huge), "InvalidArguments", "child_call_too_large");
    assert!(children(&huge).is_empty());
    let secret = calling(
        "probe.sensitive",
        json!({ "user": "ada", "token": CANARY.value() }),
    );
    let called = family.free("call").call(secret).await;
    let child = family.record(&children(&called)[0]);
    assert_eq!(child["invocation"]["model_input"]["token"], "[redacted]");
    CANARY.is_not_in("the record of the call", &child.to_string());
}

#[tokio::test]
async fn what_is_sensitive_of_a_call_is_in_no_record_of_the_calls_below_it() {
    let family = Family::new().await;
    let call = calling("probe.echo", json!({ "text": CANARY.value() }));
    let called = family.free("call_secretly").call(call).await;
    let child = family.record(&children(&called)[0]);
    assert_eq!(
        child["invocation"]["model_input"],
        json!({ "[redacted]": "[redacted]" })
    );
    assert!(
        !child["invocation"]["model_input_ref"]
            .as_str()
            .unwrap()
            .starts_with("sha256:")
    );
    CANARY.is_not_in("the record of the call below", &child.to_string());
    CANARY.is_not_in("the record of the call", &called.record().to_string());
    // A name that means no tool is on record too, with arguments that no tool has rules for.
    for name in ["probe.no_such_tool", CANARY.value()] {
        let called = family
            .free("call_secretly")
            .call(calling(name, json!({ "text": CANARY.value() })))
            .await;
        refused(
            &answer(&called),
            "other(permission_denied)",
            "tool_not_callable",
        );
        let child = family.record(&children(&called)[0]);
        CANARY.is_not_in("the record of a call of nothing", &child.to_string());
    }
}

#[tokio::test]
async fn the_names_of_files_that_were_touched_are_redacted_like_any_text_of_the_tool() {
    let family = Family::new().await;
    let (_guard, folder) = scratch();
    let file = folder.join("file");
    std::fs::write(&file, "content").unwrap();
    for (tool, shown) in [
        ("call_reading", file.to_str().unwrap()),
        ("call_reading_secretly", "[redacted]"),
    ] {
        let called = family
            .free(tool)
            .read(&folder)
            .call(calling("probe.read", json!({ "path": file })))
            .await;
        let child = family.record(&children(&called)[0]);
        assert_eq!(
            child["result"]["usage"]["touched"]["listed"],
            json!([{ "how": "read", "what": shown }]),
            "{tool}"
        );
    }
}

#[tokio::test]
async fn what_a_call_says_in_passing_is_in_no_record_of_the_call_that_made_it_nor_of_its_later_calls()
 {
    let family = Family::new().await;
    let saying = |tool: &str, then: &str| {
        let content = json!([{ "type": "text", "text": "a word in passing" }]);
        let mut input = calling(tool, json!({ "content": content }));
        (input["times"], input["then"]) = (json!(2), json!(then));
        input
    };
    let kept = |called: &Called| family.record(&json!(called.0.invocation.invocation_id));
    let called = family
        .free("call")
        .call(saying("probe.say_in_passing", "answer"))
        .await;
    let answers = called.succeeded()["answers"].clone();
    assert_eq!(
        answers[1]["content"][0]["text"], "a word in passing",
        "the caller has it"
    );
    let record = kept(&called);
    assert_eq!(record["persistence"][0]["strategy"], "never_persist");
    assert_eq!(record["result"]["redaction_state"], "full");
    assert!(
        !record["result"].to_string().contains("a word in passing"),
        "{record:#}"
    );
    // Only the arguments of the second call can repeat what the first one said.
    let [first, second] = [0, 1].map(|at| family.record(&children(&called)[at]));
    assert_eq!(
        first["invocation"]["model_input"]["content"][0]["text"],
        "a word in passing"
    );
    assert_eq!(second["invocation"]["model_input"], "[redacted]");
    assert!(
        !second.to_string().contains("a word in passing"),
        "{second:#}"
    );

    let failed = family
        .free("call")
        .call(saying("probe.say_in_passing", "fail"))
        .await;
    failed.failed("execution_failed", "as_asked");
    let record = kept(&failed);
    assert_eq!(record["result"]["error"]["error_code"], "tool_failed");
    for words in ["as_asked", "told to fail"] {
        assert!(!record.to_string().contains(words), "{words}: {record:#}");
    }
    // What may be stored still is.
    let called = family
        .free("call")
        .call(saying("probe.say", "answer"))
        .await;
    assert!(
        kept(&called)["result"]
            .to_string()
            .contains("a word in passing")
    );
    let [_, second] = [0, 1].map(|at| family.record(&children(&called)[at]));
    assert_eq!(
        second["invocation"]["model_input"]["content"][0]["text"],
        "a word in passing"
    );
}

#[tokio::test]
async fn the_question_about_a_call_whose_arguments_may_be_on_no_disk_is_stored_without_them() {
    let (_guard, folder) = place();
    let (host, sayer) = asked(
        &folder,
        Some(Reply {
            approved: true,
            ..Reply::default()
        }),
    );
    loaded(&host).await;
    let ask = RuleWords {
        behavior: "ask",
        tool: Some("probe.say_in_passing"),
        ..RuleWords::default()
    };
    let test = Test::new("caller#call")
        .on(&host)
        .grant(|grants| grants.allow_tool("probe.*").unwrap());
    let test =
        test.policy(|policy| policy.add(Rule::compile(&ask, &Provenance::COMMAND_LINE).unwrap()));
    let content = json!([{ "type": "text", "text": "zanzibar" }]);
    let called = test
        .call(twice(calling(
            "probe.say_in_passing",
            json!({ "content": content }),
        )))
        .await;
    assert_eq!(
        called.succeeded()["answers"][1]["content"][0]["text"],
        "zanzibar"
    );
    let asked = sayer.asked.lock().unwrap();
    let stored = |at: usize| format!("{:?}", asked[at].1.history.decisions);
    assert!(stored(0).contains("zanzibar"), "{}", stored(0));
    // Only the arguments of the second call can repeat what the first one said.
    assert!(!stored(1).contains("zanzibar"), "{}", stored(1));
}

#[tokio::test]
async fn an_approver_learns_that_a_tool_makes_the_call() {
    let (_guard, folder) = place();
    let (host, sayer) = asked(
        &folder,
        Some(Reply {
            approved: true,
            always: true,
            ..Reply::default()
        }),
    );
    loaded(&host).await;
    let append = calling("probe.append_approved", line(&folder));
    for turn in 1..=2 {
        let test = Test::new("caller#call_writing").on(&host).write(&folder);
        let test = test.grant(|grants| grants.allow_tool("probe.*").unwrap());
        let test = test.asking(|terms| terms.session = Session::Named("s".to_owned()));
        let called = test.call(append.clone()).await;
        assert_eq!(answer(&called)["structured"]["ok"], true);
        // What a person approves "for the session" is not for calls of tools.
        assert_eq!(
            (lines(&folder), sayer.asked.lock().unwrap().len()),
            (turn, turn)
        );
    }
    let asked = sayer.asked.lock().unwrap();
    let reason = &asked[0].1.history.decisions[0].reason.message;
    assert!(
        reason.contains("the tool caller.call_writing makes this call"),
        "{reason}"
    );
    let words = asked[0]
        .0
        .text()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(words.contains("caller.call_writing"), "{words}");
}
