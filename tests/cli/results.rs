//! What the program prints of a result beside its record, and what the operator says of how results are kept.
//!
//! Promise: An output is kept as the strictest says.

use serde_json::{Value, json};

use super::guest;
use super::policy::Place;
use crate::support::check_record;

/// Arguments with which the probe answers an image, structured output, and a line for a person.
fn said() -> String {
    json!({
        "content": [{ "type": "image", "data": "AAAA", "media_type": "image/png" }],
        "structured": { "found": "zebra" },
        "summary": "One\u{1b}[31m picture.",
    })
    .to_string()
}

#[test]
fn a_result_has_each_of_its_representations_in_a_place_of_its_own() {
    let place = Place::new();
    let record = place
        .run(&["call", &guest("probe#say"), &said(), "--print-record"])
        .exits(0)
        .json();
    check_record(&record);
    let result = &record["result"];
    assert_eq!(
        result["model_facing_content"][1]["text"],
        "{\"found\":\"zebra\"}"
    );
    assert_eq!(result["structured_content"], json!({ "found": "zebra" }));
    let rendering = result["ui_facing_rendering"].as_str().unwrap();
    assert!(
        rendering.starts_with("One\u{1b}[31m picture.\n[image] image/png\n{"),
        "{rendering:?}"
    );
    assert_eq!(
        result["transcript_search_text"],
        "One [31m picture. found zebra"
    );
    let native = &result["native_output"];
    assert_eq!(
        (&native["content_types"], &native["structured"]),
        (&json!(["image"]), &json!(true))
    );
    assert_eq!(
        native["output_bytes"],
        result["usage"]["output_bytes"]["used"]
    );
    assert_eq!(
        (&native["outcome"], &native["output"]["structured"]),
        (&json!("success"), &json!({ "found": "zebra" }))
    );
    assert_eq!(native["output"]["content"][0]["type"], "image");
    assert_eq!(result["summary"], "{\"found\":\"zebra\"}");
    assert!(result.get("persisted_payload_ref").is_none());
    assert_eq!(
        (&result["artifact_refs"], &result["resource_refs"]),
        (&json!([]), &json!([]))
    );

    let large = place
        .run(&["call", &guest("probe#big"), "{\"bytes\": 100000}", "--json"])
        .exits(0)
        .json();
    assert_eq!(
        large["persisted_payload_ref"]["digest"],
        large["resource_refs"][0]["digest"]
    );
    let native = &large["native_output"];
    assert_eq!(native["content_types"], json!(["text"]));
    assert_eq!(
        native["output"]["content"], large["content"],
        "a reference to what was moved"
    );
    assert!(large["transcript_search_text"].as_str().unwrap().len() <= 8 << 10);
    // What is read back later is what was printed.
    let id = large["invocation_id"].as_str().unwrap();
    assert_eq!(
        place.run(&["show", id, "--json"]).exits(0).json()["result"],
        large
    );
}

#[test]
fn no_representation_holds_what_was_redacted() {
    let place = Place::new();
    let input = json!({ "secret": "a-value-of-thirty-characters.." }).to_string();
    let ran = place
        .run(&["call", &guest("probe#leak"), &input, "--print-record"])
        .exits(0);
    assert!(
        !ran.stdout.contains("a-value-of-thirty-characters"),
        "{}",
        ran.stdout
    );
    let result = ran.json()["result"].clone();
    assert!(
        result["transcript_search_text"]
            .as_str()
            .unwrap()
            .contains("[redacted]"),
        "{result:#}"
    );
}

fn strategy(place: &Place, tool: &str, input: &Value) -> Value {
    let record = place
        .run(&["call", &guest(tool), &input.to_string(), "--print-record"])
        .json();
    record["persistence"][0]["strategy"].clone()
}

#[test]
fn the_files_of_the_operator_say_how_outputs_are_kept_and_the_strictest_counts() {
    let choosing = |word: &str| format!("[results]\npersistence = \"{word}\"\n");
    let small = json!({ "bytes": 10 });
    let place = Place::new().user(&choosing("ref_only"));
    assert_eq!(strategy(&place, "probe#big", &small), "ref_only");
    // Another file can only narrow that.
    let place = place.project(&choosing("inline")).trusted();
    assert_eq!(strategy(&place, "probe#big", &small), "ref_only");
    let place = place.project(&choosing("never_persist")).trusted();
    assert_eq!(strategy(&place, "probe#big", &small), "drop_with_reason");
    let place = place.user("");
    assert_eq!(strategy(&place, "probe#big", &small), "never_persist");
    let shown = place.run(&["trust"]).exits(0).stdout;
    assert!(
        shown.contains("results.persistence: \"never_persist\""),
        "{shown}"
    );
    let wrong = place.user(&choosing("sometimes"));
    let ran = wrong
        .run(&["call", &guest("probe#big"), "{\"bytes\": 10}"])
        .exits(3);
    for words in ["toolcell.toml, line 2", "\"sometimes\"", "never_persist"] {
        assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }
}

#[test]
fn the_journal_does_not_repeat_an_output_that_may_be_on_no_disk() {
    let place = Place::new().user("[results]\npersistence = \"never_persist\"\n");
    let printed = place
        .run(&["call", &guest("probe#counter"), "{}", "--json"])
        .exits(0)
        .json();
    assert_eq!(printed["structured_content"], json!({ "count": 1 }));
    let id = printed["invocation_id"].as_str().unwrap();
    let shown = place.run(&["show", id, "--json"]).exits(0).json();
    check_record(&shown);
    let result = &shown["result"];
    assert!(result.get("structured_content").is_none(), "{result:#}");
    assert_eq!(
        (&result["status"], &result["redaction_state"]),
        (&json!("succeeded"), &json!("full"))
    );
}
