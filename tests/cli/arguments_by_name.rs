//! Arguments that are typed one by one, with the types that the tool declares.

use serde_json::json;

use super::guest;
use crate::pipeline::doubles::declaring;
use crate::support::{Home, Toolcell};

#[test]
fn arguments_by_name_get_the_types_of_the_schema() {
    let home = Home::new();
    let tool = home.keep(
        "typed.wasm",
        &declaring("by_name", |declaration| {
            declaration["input_contract"] = json!({ "strict": true, "model_input_schema": {
            "type": "object", "required": ["path"], "properties": {
                "path": { "$ref": "#/$defs/Text" }, "count": { "type": ["integer", "null"] },
                "all": { "type": "boolean" }, "tags": { "type": "array", "items": { "type": "string" } }, "any": {},
            },
            "$defs": { "Text": { "type": "string" } },
        } });
        }),
    );
    let words = [
        "path=7",
        "count=12345678901234567890",
        "all=true",
        "tags=a",
        "tags=b",
        "any:={\"n\": 1.0}",
    ];
    let called = home
        .toolcell(&[&["call", &tool], &words[..], &["--print-record"]].concat())
        .run()
        .exits(0)
        .json();
    let text =
        r#"{"path":"7","count":12345678901234567890,"all":true,"tags":["a","b"],"any":{"n": 1.0}}"#;
    assert_eq!(
        called["invocation"]["model_input_text"], text,
        "{}",
        called["invocation"]
    );
    let foretold = home
        .toolcell(&["policy", "check", &tool, "path=7", "all=false"])
        .run();
    assert_eq!(foretold.code, Some(0), "{foretold:?}");

    let wrong = home
        .toolcell(&["call", &tool, "path=7", "count=many"])
        .run()
        .exits(2);
    assert!(
        wrong.stderr.contains("(at /count)") && wrong.stderr.contains("integer"),
        "{}",
        wrong.stderr
    );
    let unknown = home
        .toolcell(&["call", &tool, "path=7", "pth=8"])
        .run()
        .exits(2);
    assert!(unknown.stderr.contains("pth"), "{}", unknown.stderr);
}

#[test]
fn words_that_are_no_arguments_are_told_how_to_be() {
    for (words, told) in [
        (
            &["path=a", "b"][..],
            "cannot read the argument \"b\": pass NAME=VALUE or NAME:=JSON",
        ),
        (&["{}", "b=c"], "as one JSON object"),
        (&["n:=x"], "cannot read the argument \"n:=x\" as JSON"),
        (&["n=1", "n:=2"], "given twice"),
    ] {
        let ran = Toolcell::new([&["call", &guest("probe#echo")], words].concat())
            .run()
            .exits(2);
        assert!(
            ran.stderr.contains(told) && ran.stdout.is_empty(),
            "{ran:?}"
        );
    }
}
