//! Context modifiers: what a tool would change in the context of its caller, who gets that, and in which order.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::batch::{batch, call, overlap, printed};
use super::guest;
use crate::support::{Canary, Home, Toolcell, fixture};

/// Letters that a key may have, so that it can be a key too.
const CANARY: Canary = Canary::new("mod-7b2/xy-qr-z1-long-enough");

/// The arguments of a tool that makes these changes, in this order.
fn changing(changes: &[(&str, Value)]) -> Value {
    let change = |(key, value): &(&str, Value)| json!({ "key": key, "value": value });
    json!({ "changes": changes.iter().map(change).collect::<Vec<_>>() })
}

/// The result of one call of a tool of `modifier`.
fn result(tool: &str, input: &Value) -> Value {
    Toolcell::new([
        "call",
        &guest(&format!("modifier#{tool}")),
        &input.to_string(),
        "--json",
    ])
    .run()
    .json()
}

/// The record of a call as the log has it.
#[track_caller]
fn logged(home: &Home, invocation_id: &Value) -> Value {
    home.toolcell(&["show", invocation_id.as_str().unwrap(), "--json"])
        .run()
        .exits(0)
        .json()
}

#[test]
fn a_result_has_what_its_tool_changes_if_the_call_succeeds() {
    let input = changing(&[
        ("b", json!([1, { "c": null }])),
        ("a", json!(1)),
        ("a", json!("last")),
    ]);
    let then = |then: &str| {
        let mut input = input.clone();
        input["then"] = json!(then);
        result("modify", &input)
    };
    let changes =
        json!([{ "key": "a", "value": "last" }, { "key": "b", "value": [1, { "c": null }] }]);
    assert_eq!(then("answer")["context_modifiers"], changes);
    for ended in ["fail", "partial"].map(then) {
        assert_eq!(
            (&ended["is_error"], ended.get("context_modifiers")),
            (&json!(true), None),
            "{ended:#}"
        );
    }
    let shown = Toolcell::new(["call", &guest("modifier#modify"), &input.to_string()])
        .run()
        .exits(0);
    assert!(
        shown
            .stderr
            .contains("context| a = \"last\"\ncontext| b = [1,{\"c\":null}]\n"),
        "{}",
        shown.stderr
    );
}

/// The context of a caller that makes the changes in the order in which they are printed.
fn final_state(lines: &[Value]) -> BTreeMap<String, Value> {
    let changes = lines.iter().flat_map(|line| {
        let places = [
            &line["result"]["context_modifiers"],
            &line["context_modifiers"],
        ];
        places.into_iter().filter_map(Value::as_array).flatten()
    });
    changes
        .map(|change| {
            (
                change["key"].as_str().unwrap().to_owned(),
                change["value"].clone(),
            )
        })
        .collect()
}

#[test]
fn two_calls_that_change_one_key_end_in_the_same_state_in_fifty_runs() {
    let calls = |first_is_slow: bool| {
        ["first", "second"].map(|id| {
            let mut input = changing(&[("key", json!(id)), (id, json!(true))]);
            input["ms"] = json!(if (id == "first") == first_is_slow {
                30
            } else {
                0
            });
            call(id, "modifier#modify", input)
        })
    };
    let options: [&[&str]; 5] = [
        &["--context-modifiers=allow_serial_only"],
        &["--ordering=allow_unordered"],
        &[
            "--ordering=allow_unordered",
            "--output-order=unordered_streaming",
        ],
        &["--context-modifiers=defer_until_batch_complete"],
        &[
            "--context-modifiers=defer_until_batch_complete",
            "--output-order=unordered_streaming",
        ],
    ];
    for run in 0..50 {
        let options = [options[run % options.len()], &["--json"][..]].concat();
        let lines = printed(&batch(&calls(run % 2 == 0), &options).run().exits(0));
        let state = final_state(&lines);
        assert_eq!(state["key"], "second", "{options:?}: {lines:#?}");
        assert_eq!(state.len(), 3, "{options:?}: {lines:#?}");
    }
}

#[test]
fn calls_that_can_change_the_context_run_one_at_a_time_unless_their_changes_are_deferred() {
    let overlaps = |tools: [&str; 2], policy: &str| {
        let calls = tools.map(|tool| call(tool, &format!("modifier#{tool}"), json!({ "ms": 500 })));
        let ran = batch(
            &calls,
            &[&format!("--context-modifiers={policy}"), "--print-record"],
        )
        .run()
        .exits(0);
        let records = printed(&ran);
        overlap(&records[0], &records[1])
    };
    let serial = "allow_serial_only";
    let deferred = "defer_until_batch_complete";
    assert!(!overlaps(["modify", "modify_secretly"], serial));
    assert!(
        !overlaps(["modify", "modify_later"], serial),
        "the batch says so, whatever the tool says"
    );
    assert!(overlaps(["modify", "modify_later"], deferred));
    assert!(
        !overlaps(["modify", "modify_serially"], deferred),
        "the tool says so, whatever the batch says"
    );
    assert!(
        overlaps(["modify", "modify_never"], serial),
        "one of them cannot change the context"
    );
    assert!(overlaps(["modify", "modify_later"], "forbid"));
}

#[test]
fn deferred_changes_come_after_all_results_in_the_order_of_the_calls() {
    let home = Home::new();
    let made = [
        ("slow", "modify", 300),
        ("never", "modify_never", 0),
        ("fast", "modify", 0),
    ]
    .map(|(id, tool, ms)| {
        let mut input = changing(&[("by", json!(id))]);
        input["ms"] = json!(ms);
        call(id, &format!("modifier#{tool}"), input).to_string()
    });
    let batch = |options: &[&str]| {
        let options = [
            &[
                "batch",
                "-",
                "--context-modifiers=defer_until_batch_complete",
            ],
            options,
        ]
        .concat();
        home.toolcell(&options)
            .stdin(&made.join("\n"))
            .run()
            .exits(0)
    };
    let lines = printed(&batch(&["--json"]));
    let of = |id: &str| json!({ "id": id, "context_modifiers": [{ "key": "by", "value": id }] });
    assert_eq!(lines[3..], [of("slow"), of("fast")]);
    for (line, id) in lines.iter().zip(["slow", "never", "fast"]) {
        assert_eq!(
            (&line["id"], line["result"].get("context_modifiers")),
            (&json!(id), None)
        );
        // The log has what a call changes in its record.
        let logged = logged(&home, &line["result"]["invocation_id"]);
        assert_eq!(
            logged["result"].get("context_modifiers").is_some(),
            id != "never",
            "{logged:#}"
        );
    }
    assert_eq!(
        printed(&batch(&["--print-record"]))[3..],
        [of("slow"), of("fast")]
    );
    let shown = batch(&[]);
    assert!(
        shown
            .stderr
            .ends_with("slow: context| by = \"slow\"\nfast: context| by = \"fast\"\n"),
        "{}",
        shown.stderr
    );
}

#[test]
fn a_tool_can_have_its_own_changes_deferred() {
    let changes = |id: &str, tool: &str| {
        call(
            id,
            &format!("modifier#{tool}"),
            changing(&[("by", json!(id))]),
        )
    };
    let calls = [changes("later", "modify_later"), changes("now", "modify")];
    let lines = printed(&batch(&calls, &["--json"]).run().exits(0));
    assert_eq!(lines[1]["result"]["context_modifiers"][0]["value"], "now");
    assert_eq!(
        lines[2..],
        [json!({ "id": "later", "context_modifiers": [{ "key": "by", "value": "later" }] })]
    );
    let records = printed(&batch(&calls, &["--print-record"]).run().exits(0));
    let policy = |at: usize| &records[at]["invocation"]["scheduler"]["context_modifier_policy"];
    assert_eq!(
        (policy(0), policy(1)),
        (
            &json!("defer_until_batch_complete"),
            &json!("allow_serial_only")
        )
    );
}

#[test]
fn where_they_are_forbidden_a_tool_gets_an_error_and_changes_nothing() {
    let input = changing(&[("key", json!(1))]);
    let calls = ["modify", "modify_never"]
        .map(|tool| call(tool, &format!("modifier#{tool}"), input.clone()));
    let records = printed(
        &batch(&calls, &["--context-modifiers=forbid", "--print-record"])
            .run()
            .exits(0),
    );
    for (record, why) in records.iter().zip([
        "of this batch is forbid",
        "the interface of the tool declares",
    ]) {
        let result = &record["result"];
        let refused = result["structured_content"]["refused"][0]["forbidden"]
            .as_str()
            .unwrap();
        assert!(
            refused.starts_with("cannot change the context: ") && refused.contains(why),
            "{refused}"
        );
        assert!(result.get("context_modifiers").is_none(), "{result:#}");
    }
    assert_eq!(
        records[0]["invocation"]["scheduler"]["context_modifier_policy"],
        "forbid"
    );
    let alone = result("modify_never", &input);
    assert!(
        alone["structured_content"]["refused"][0]["forbidden"].is_string(),
        "{alone:#}"
    );
}

#[test]
fn a_call_changes_so_much_and_no_more() {
    let keys: Vec<String> = (0..33).map(|n| format!("key/{n}")).collect();
    let many: Vec<(&str, Value)> = keys.iter().map(|key| (key.as_str(), json!(1))).collect();
    let long = "x".repeat(10_000);
    let large = [("a", json!(long)), ("b", json!(long)), ("a", json!(long))];
    for (changes, kept, refused_at) in [(&many[..], 32, 32), (&large[..], 1, 1)] {
        let result = result("modify", &changing(changes));
        assert_eq!(result["context_modifiers"].as_array().unwrap().len(), kept);
        let refused = result["structured_content"]["refused"].as_array().unwrap();
        let at: Vec<usize> = (0..refused.len())
            .filter(|at| refused[*at].get("quota_exceeded").is_some())
            .collect();
        assert_eq!(at, [refused_at], "{refused:#?}");
    }
    let text = |key: &str, text: &str| json!({ "changes": [{ "key": key, "text": text }] });
    for wrong in [
        text("two words", "1"),
        text("key", "nonsense"),
        text("key", "{\"a\": 1, \"a\": 2}"),
    ] {
        let result = result("modify", &wrong);
        assert!(
            result["structured_content"]["refused"][0]["invalid"].is_string(),
            "{result:#}"
        );
    }
}

#[test]
fn what_no_result_may_show_is_in_no_change() {
    let home = Home::new();
    let mut secret = changing(&[("said", json!({ "it": [CANARY.value()] }))]);
    secret["secret"] = json!(CANARY.value());
    let record = home.call(&guest("modifier#modify_secretly"), &secret, &[]);
    CANARY.is_not_in("the record", &record.to_string());
    let changes = record["result"]["context_modifiers"].as_array().unwrap();
    assert_eq!(changes.len(), 3, "{changes:#?}");
    assert!(
        changes.contains(&json!({ "key": "said", "value": { "it": ["[redacted]"] } })),
        "{changes:#?}"
    );
    assert!(
        changes.contains(&json!({ "key": "[redacted]", "value": true })),
        "{changes:#?}"
    );
    assert!(CANARY.is_nowhere_below(&home.path().join("journal")) > 0);

    let value = || json!(CANARY.value());
    let output = |hiv: Value| json!({ "patient": { "hiv": hiv, "name": "x" } });
    let ruled = changing(&[
        ("token", value()),
        ("last_output", output(json!(true))),
        ("list", json!([{ "token": value() }])),
        ("note", value()),
    ]);
    let record = home.call(&guest("modifier#modify_ruled"), &ruled, &[]);
    CANARY.is_not_in(
        "a result with redaction rules",
        &record["result"].to_string(),
    );
    assert_eq!(
        record["result"]["context_modifiers"][3],
        json!({ "key": "token", "value": "[redacted]" })
    );
    // A rule that is a JSON Pointer holds for an output that a tool keeps under one key.
    let kept = json!({ "key": "last_output", "value": output(json!("[redacted]")) });
    assert_eq!(record["result"]["context_modifiers"][0], kept);
    assert_eq!(record["result"]["redaction_state"], "partial");

    let by_reference = home.call(
        &guest("modifier#modify_by_reference"),
        &changing(&[("key", value())]),
        &[],
    );
    assert!(
        by_reference["result"].get("context_modifiers").is_none(),
        "{by_reference:#}"
    );
}

#[test]
fn what_may_be_on_no_disk_is_changed_and_not_logged() {
    let home = Home::new();
    let record = home.call(
        &guest("modifier#modify_in_passing"),
        &changing(&[("key", json!(1))]),
        &[],
    );
    assert_eq!(
        record["result"]["context_modifiers"],
        json!([{ "key": "key", "value": 1 }])
    );
    let logged = logged(&home, &record["invocation"]["invocation_id"]);
    assert!(
        logged["result"].get("context_modifiers").is_none(),
        "{logged:#}"
    );
    assert_eq!(logged["result"]["redaction_state"], "full");
}

#[test]
fn what_a_called_tool_changes_stays_in_its_own_record() {
    let home = Home::new();
    let input = json!({ "tool": "modifier.modify", "input": changing(&[("key", json!(1))]) });
    let options = [
        format!("--with={}", fixture("modifier").display()),
        "--allow-tool=modifier.modify".to_owned(),
    ];
    let [tool, grant] = [&options[0], &options[1]];
    let record = home.call(&guest("caller#call"), &input, &[tool, grant]);
    assert!(
        record["result"].get("context_modifiers").is_none(),
        "{record:#}"
    );
    let below = logged(&home, &record["invocation"]["child_invocation_ids"][0]);
    assert_eq!(
        below["result"]["context_modifiers"],
        json!([{ "key": "key", "value": 1 }])
    );
    // What a batch forbids, it forbids the tools that its tools call, too.
    let line = call("a", "caller#call", input).to_string();
    let arguments = [
        "batch",
        "-",
        tool,
        grant,
        "--context-modifiers=forbid",
        "--json",
    ];
    let answers = home.toolcell(&arguments).stdin(&line).run().exits(0).json()["result"]["structured_content"].clone();
    assert!(
        answers["answers"][0]["structured"]["refused"][0]["forbidden"].is_string(),
        "{answers:#}"
    );
}
