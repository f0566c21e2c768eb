//! The four inputs of a call: model input, observable input, permission input and call input.

use serde_json::{Value, json};
use toolcell_spec::digest;

use crate::support::Test;

#[tokio::test]
async fn what_was_sent_is_kept_byte_for_byte() {
    let odd = "{ \"b\" :\t1.0,\n \"a\":\"caf\\u00e9 \\/\", \"n\": 1e2 }";
    let called = Test::new("probe#echo").call_text(odd).await;
    let guest = called.succeeded();
    let invocation = &called.record()["invocation"];
    assert_eq!(invocation["model_input_ref"], digest(odd.as_bytes()));
    assert_eq!(invocation["model_input_text"], odd);
    assert_eq!(
        invocation["model_input"],
        json!({"b": 1.0, "a": "caf\u{e9} /", "n": 100.0})
    );
    // The input was not changed, so the tool got these very bytes.
    assert_eq!(guest["input_text"], odd);
    for input in ["observable", "permission", "call"] {
        assert_eq!(
            invocation[format!("{input}_input_ref")],
            invocation["model_input_ref"],
            "{input}"
        );
    }
    assert!(called.record()["result"].get("input_mutations").is_none());
}

#[tokio::test]
async fn a_number_that_is_none_in_json_is_refused_and_kept() {
    let sent = "{\"big\": 1e400000}";
    let called = Test::new("probe#echo").call_text(sent).await;
    called
        .failed("invalid_arguments", "arguments_not_json")
        .never_ran();
    assert_eq!(
        *called.0.invocation.model_input,
        Value::String(sent.to_owned())
    );
}

#[tokio::test]
async fn text_that_is_canonical_is_not_kept_twice() {
    let called = Test::new("probe#echo").call_text("{\"a\":1}").await;
    assert!(
        called.record()["invocation"]
            .get("model_input_text")
            .is_none()
    );
    assert_eq!(called.succeeded()["input_text"], "{\"a\":1}");
}

#[tokio::test]
async fn defaults_reach_the_tool_and_never_what_was_sent() {
    let sent = "{ \"query\": \"rust\", \"order\": \"oldest\" }";
    let called = Test::new("probe#defaults").call_text(sent).await;
    let full = json!({"query": "rust", "order": "oldest", "limit": 10});
    assert_eq!(called.succeeded()["input"], full);
    let record = called.record();
    let invocation = &record["invocation"];
    assert_eq!(
        invocation["model_input"],
        json!({"query": "rust", "order": "oldest"})
    );
    assert_eq!(invocation["model_input_ref"], digest(sent.as_bytes()));
    for input in ["observable_input", "permission_input", "call_input"] {
        assert_eq!(invocation[input], full, "{input}");
    }
    let mutations = record["result"]["input_mutations"].as_array().unwrap();
    assert_eq!(mutations.len(), 1);
    assert_eq!(mutations[0]["changed_fields"], json!(["/limit"]));
    assert_eq!(
        (&mutations[0]["source_type"], &mutations[0]["source_ref"]),
        (&json!("runtime"), &json!("input_contract.defaults"))
    );
    assert_eq!(
        mutations[0]["from_input_ref"],
        invocation["model_input_ref"]
    );
    assert_eq!(mutations[0]["to_input_ref"], invocation["call_input_ref"]);
}

#[tokio::test]
async fn defaults_do_not_replace_what_was_given() {
    let input = json!({"query": "rust", "limit": 1, "order": "newest"});
    let called = Test::new("probe#defaults").call(input.clone()).await;
    assert_eq!(called.succeeded()["input"], input);
    assert!(called.0.result.input_mutations.is_empty());
}

#[tokio::test]
async fn the_reference_of_the_call_input_is_the_digest_of_what_the_tool_was_given() {
    let called = Test::new("probe#echo").call_text("{\"x\" : [1.50]}").await;
    let text = called.succeeded()["input_text"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        called.record()["invocation"]["call_input_ref"],
        digest(text.as_bytes())
    );
}

#[tokio::test]
async fn the_tool_learns_the_id_of_its_invocation() {
    let called = Test::new("probe#invocation").call(json!({})).await;
    let id = called.0.invocation.invocation_id.to_string();
    assert_eq!(
        called.succeeded(),
        json!({"invocation_id": id, "attempt": 1})
    );
}
