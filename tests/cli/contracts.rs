//! Contracts and values that cost more than a host can afford, from a component or a caller.
//!
//! Promise: Contracts cannot exhaust the host.
//! Promise: Redaction fails closed, and in time.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::pipeline::doubles::{declaring, echoing};
use crate::support::{Canary, Ran, Toolcell, scratch};

/// A component in `folder` with a declaration changed by `change`.
fn component(folder: &Path, name: &str, change: impl FnOnce(&mut Value)) -> String {
    let file = folder.join(format!("{name}.wasm"));
    std::fs::write(&file, declaring(name, change)).unwrap();
    file.display().to_string()
}

fn with_schema(folder: &Path, name: &str, schema: Value) -> String {
    component(folder, name, |declaration| {
        declaration["input_contract"] = json!({ "model_input_schema": schema })
    })
}

/// `count` definitions, each of which refers to the next one in the way of `refer`.
pub(crate) fn chain(count: usize, refer: impl Fn(Value) -> Value) -> Value {
    let mut definitions: serde_json::Map<String, Value> = (0..count)
        .map(|n| {
            (
                format!("d{n}"),
                refer(json!({ "$ref": format!("#/$defs/d{}", n + 1) })),
            )
        })
        .collect();
    definitions.insert(format!("d{count}"), json!({ "type": "object" }));
    json!({ "$ref": "#/$defs/d0", "$defs": definitions })
}

/// Each definition refers to the next one twice.
pub(crate) fn doubled(count: usize) -> Value {
    chain(count, |next| json!({ "allOf": [next, next] }))
}

/// `describe` and `call` of `component` must both refuse it in time.
fn does_not_load(component: &str, says: &[&str]) {
    for arguments in [
        &["describe", component][..],
        &["call", component, "{}", "--timeout=5s"],
    ] {
        let began = Instant::now();
        let ran = Toolcell::new(arguments).run();
        assert!(
            ran.code.is_some_and(|code| code != 0 && code != 70),
            "{ran:?}"
        );
        for word in says {
            assert!(ran.stderr.contains(word), "no {word:?} in {}", ran.stderr);
        }
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "{:?}",
            began.elapsed()
        );
    }
}

#[test]
fn a_chain_of_references_that_is_too_long_is_refused_at_load_with_its_place() {
    let (_guard, folder) = scratch();
    let long = chain(8_000, |next| next);
    does_not_load(
        &with_schema(&folder, "chained", long.clone()),
        &["model_input_schema", "256 subschemas deep"],
    );
    let example = component(&folder, "exemplary", |declaration| {
        declaration["input_contract"] = json!({ "model_input_schema": long, "examples": [{}] });
    });
    does_not_load(&example, &["256 subschemas deep"]);
    // Also if each step descends into the value.
    let deep = chain(8_000, |next| json!({ "properties": { "a": next } }));
    does_not_load(
        &with_schema(&folder, "deepening", deep),
        &["256 subschemas deep"],
    );
}

#[test]
fn a_small_schema_that_is_large_with_its_references_written_out_is_refused_at_load() {
    let (_guard, folder) = scratch();
    for (name, schema, says) in [
        ("doubled", doubled(40), "larger than 200000 subschemas"),
        ("doubled_less", doubled(24), "larger than 200000 subschemas"),
        (
            "not_nested",
            chain(40, |next| json!({ "anyOf": [next, { "not": next }] })),
            "larger than 200000",
        ),
        // `unevaluatedProperties` needs the evaluated properties again at each level.
        (
            "unevaluated",
            chain(
                30,
                |next| json!({ "allOf": [next], "unevaluatedProperties": false }),
            ),
            "larger than 200000",
        ),
        (
            "endless",
            json!({ "$ref": "#/$defs/a", "$defs": { "a": { "anyOf": [{ "$ref": "#/$defs/b" }] }, "b": { "$ref": "#/$defs/a" } } }),
            "refers to itself",
        ),
        (
            "abroad",
            json!({ "$ref": "https://json-schema.org/draft/2020-12/schema" }),
            "leads out of the schema",
        ),
    ] {
        does_not_load(
            &with_schema(&folder, name, schema),
            &["model_input_schema", says],
        );
    }
}

#[test]
fn a_pattern_whose_automaton_is_too_large_is_refused_at_load_with_its_place() {
    let (_guard, folder) = scratch();
    let schema =
        json!({ "properties": { "a": { "type": "string", "pattern": "(a{1000}){1000}" } } });
    does_not_load(
        &with_schema(&folder, "patterned", schema),
        &["model_input_schema", "/properties/a", "pattern"],
    );
    let many: serde_json::Map<String, Value> = (0..200)
        .map(|n| {
            (
                format!("p{n}"),
                json!({ "pattern": format!("^[a-z{n}]{{1200}}$") }),
            )
        })
        .collect();
    let schema = json!({ "properties": many });
    does_not_load(
        &with_schema(&folder, "many_patterns", schema),
        &["patterns together", "200000 states"],
    );
}

#[test]
fn a_schema_of_several_resources_is_refused_at_load_with_the_resource() {
    let (_guard, folder) = scratch();
    // Each resource refers to all others, and would be compiled once for each path through them.
    let resource = |n: u32| {
        let all: serde_json::Map<String, Value> = (0..3)
            .map(|to| (to.to_string(), json!({ "$ref": format!("http://x/r{to}") })))
            .collect();
        (
            format!("r{n}"),
            json!({ "$id": format!("http://x/r{n}"), "properties": all }),
        )
    };
    let all: serde_json::Map<String, Value> = (0..3).map(resource).collect();
    let schema = json!({ "properties": { "a": { "$ref": "http://x/r0" } }, "$defs": all });
    let resources = with_schema(&folder, "resources", schema);
    does_not_load(
        &resources,
        &["`$id` \"http://x/r0\" inside of a schema", "#/$defs/"],
    );
    let named = json!({ "$dynamicAnchor": "node", "items": { "$dynamicRef": "#node" } });
    let schema = json!({ "properties": { "a": named, "b": named } });
    does_not_load(
        &with_schema(&folder, "anchors", schema),
        &["two subschemas the name \"node\""],
    );
    // A property may have any name, even `$id`.
    let schema = json!({ "properties": { "$id": { "type": "string" } }, "required": ["$id"] });
    let tool = with_schema(&folder, "identified", schema);
    Toolcell::new([
        "call",
        &tool,
        &json!({ "$id": "http://x/r0" }).to_string(),
        "--json",
    ])
    .run()
    .exits(0);
}

#[test]
fn a_name_of_a_megabyte_above_many_others_is_refused_at_load() {
    let (_guard, folder) = scratch();
    let many: serde_json::Map<String, Value> =
        (0..200).map(|n| (format!("p{n}"), json!({}))).collect();
    let schema = json!({ "properties": { "a".repeat(1 << 20): { "properties": many } } });
    does_not_load(
        &with_schema(&folder, "placed", schema),
        &["places of its keywords", "shorter names"],
    );
}

#[test]
fn a_long_name_that_many_references_share_is_refused_at_load() {
    let (_guard, folder) = scratch();
    let all = vec![json!({ "$ref": "#/$defs/d" }); 400];
    let schema =
        json!({ "allOf": all, "$defs": { "d": { "properties": { "a".repeat(1 << 20): true } } } });
    does_not_load(
        &with_schema(&folder, "shared", schema),
        &["larger than 200000"],
    );
}

#[test]
fn many_tools_whose_patterns_together_are_too_large_are_refused_at_load() {
    let (_guard, folder) = scratch();
    let rules = vec![json!({ "pattern": "[a-d]{3000}" }); 32];
    let bytes = echoing("patterns", |toolkit| {
        let one = toolkit["declarations"][0].clone();
        let tool = |n: u32| {
            let mut tool = one.clone();
            tool["name"] = json!(format!("echo{n}"));
            tool["output_contract"] = json!({ "redaction_rules": rules });
            tool
        };
        toolkit["declarations"] = (0..14).map(tool).collect();
    });
    let file = folder.join("patterns.wasm");
    std::fs::write(&file, bytes).unwrap();
    does_not_load(
        &file.display().to_string(),
        &["all patterns of the component", "1000000 states"],
    );
}

#[test]
fn an_internal_field_that_the_schema_of_names_still_names_is_refused_at_load() {
    let (_guard, folder) = scratch();
    for (name, names) in [
        ("pattern", json!({ "pattern": "^(a|zz_top)$" })),
        (
            "choices",
            json!({ "anyOf": [{ "const": "a" }, { "const": "zz_top" }] }),
        ),
    ] {
        let tool = component(&folder, name, |declaration| {
            declaration["input_contract"] = json!({
                "model_input_schema": { "properties": { "a": {}, "zz_top": {} }, "propertyNames": names },
                "internal_only_fields": ["zz_top"],
            });
        });
        does_not_load(&tool, &["internal_only_fields", "/propertyNames/"]);
    }
}

#[test]
fn patterns_with_many_repetitions_of_large_classes_load_and_check() {
    let (_guard, folder) = scratch();
    for (name, pattern, fits, misfits) in [
        (
            "repository",
            r"^[^/\s]{1,100}/[^/\s]{1,100}$",
            "owner/name",
            "owner",
        ),
        ("slug", r"^[\w-]{1,255}$", "a-b", "a b"),
        ("words", r"^\S{1,1000}( \S{1,1000})?$", "a b", "a b c"),
    ] {
        let schema = json!({ "type": "object", "properties": { "a": { "type": "string", "pattern": pattern } } });
        let tool = with_schema(&folder, name, schema);
        let call =
            |value: &str| Toolcell::new(["call", &tool, &json!({ "a": value }).to_string()]).run();
        call(fits).exits(0);
        let refused = call(misfits).exits(2);
        assert!(
            refused.stderr.contains("does not match") && refused.stderr.contains("/a"),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn schemas_as_people_write_them_load_and_check() {
    let (_guard, folder) = scratch();
    let node = json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": { "type": "string", "pattern": "^[\\w .-]{1,64}$" },
            "size": { "$ref": "#/$defs/size" },
            "kind": { "enum": ["leaf", "branch"] },
            "children": { "type": "array", "items": { "$ref": "#/$defs/node" }, "uniqueItems": true },
        },
        "additionalProperties": false,
    });
    let schema = json!({
        "$id": "https://example.com/tree.json",
        "type": "object",
        "properties": { "root": { "$ref": "#/$defs/node" }, "alias": { "$ref": "#size" } },
        "$defs": { "node": node, "size": { "$anchor": "size", "type": "integer", "minimum": 0 } },
    });
    let tool = with_schema(&folder, "tree", schema);
    let mut tree = json!({ "name": "leaf", "size": 3 });
    for depth in 0..30 {
        let leaf = json!({ "name": format!("leaf {depth}"), "kind": "leaf" });
        tree = json!({ "name": "branch", "kind": "branch", "children": [tree, leaf] });
    }
    let call =
        |arguments: Value| Toolcell::new(["call", &tool, &arguments.to_string(), "--json"]).run();
    call(json!({ "root": tree, "alias": 1 })).exits(0);
    let refused = call(json!({ "root": { "name": "a", "children": [{ "name": 1 }] } })).exits(2);
    assert!(
        refused.stdout.contains("/root/children/0/name"),
        "{}",
        refused.stdout
    );
    assert_eq!(
        code(&call(json!({ "root": tree, "alias": -1 }))),
        "schema_mismatch"
    );
}

fn code(ran: &Ran) -> String {
    ran.json()["error"]["error_code"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Calls `tool` with arguments on standard input. Returns the run and its duration.
fn timed(tool: &str, arguments: &Value) -> (Ran, Duration) {
    let began = Instant::now();
    let ran = Toolcell::new(["call", tool, "-", "--json", "--timeout=2s"])
        .stdin(&arguments.to_string())
        .run();
    (ran, began.elapsed())
}

#[test]
fn recursion_that_multiplies_with_the_depth_of_the_arguments_is_refused_and_not_begun() {
    let (_guard, folder) = scratch();
    let branch = |name: &str| json!({ "required": [name], "properties": { "c": { "$ref": "#/$defs/node" } } });
    let schema = json!({
        "properties": { "c": { "$ref": "#/$defs/node" } },
        "$defs": { "node": { "anyOf": [branch("x"), branch("y"), branch("z")] } },
    });
    let tool = with_schema(&folder, "recursive", schema);
    let mut deep = json!({});
    for _ in 0..100 {
        deep = json!({ "c": deep });
    }
    let (ran, took) = timed(&tool, &deep);
    assert_eq!(code(&ran), "arguments_too_costly", "{ran:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(
        code(&timed(&tool, &json!({ "c": { "c": {} } })).0),
        "schema_mismatch"
    );
}

#[test]
fn long_texts_and_names_that_many_keywords_read_are_refused_and_not_read() {
    let (_guard, folder) = scratch();
    let text = "a".repeat(2 << 20);
    let measured = vec![json!({ "minLength": 0, "maxLength": 9_000_000_000_u64 }); 20_000];
    let named = vec![json!({ "properties": { "a": true } }); 15_000];
    let copied = vec![json!({ "propertyNames": { "type": "string" } }); 15_000];
    for (name, schema, arguments) in [
        (
            "measured",
            json!({ "properties": { "a": { "allOf": measured } } }),
            json!({ "a": text }),
        ),
        (
            "looked_up",
            json!({ "allOf": named }),
            json!({ text.as_str(): 1 }),
        ),
        (
            "copied",
            json!({ "allOf": copied }),
            json!({ text.as_str(): 1 }),
        ),
    ] {
        let tool = with_schema(&folder, name, schema);
        let (ran, took) = timed(&tool, &arguments);
        assert_eq!(
            code(&ran),
            "arguments_too_costly",
            "{name}: {:.2000}",
            ran.stdout
        );
        assert!(took < Duration::from_secs(10), "{name}: {took:?}");
    }
}

#[test]
fn items_that_have_one_hash_are_refused_where_all_must_differ() {
    let (_guard, folder) = scratch();
    let schema = json!({ "properties": { "list": { "type": "array", "uniqueItems": true } } });
    let tool = with_schema(&folder, "differing", schema);
    let list = |one: &Value, other: &Value| -> Vec<Value> {
        let bit = |n: u32, bit: u32| {
            if (n >> bit) & 1 == 0 {
                one.clone()
            } else {
                other.clone()
            }
        };
        (0..3_000)
            .map(|n| (0..12).map(|at| bit(n, at)).collect())
            .collect()
    };
    for (one, other) in [(json!([]), json!([[]])), (json!(0), json!(false))] {
        let (ran, took) = timed(&tool, &json!({ "list": list(&one, &other) }));
        assert_eq!(code(&ran), "arguments_too_costly", "{:.2000}", ran.stdout);
        assert!(took < Duration::from_secs(10), "{took:?}");
    }
    timed(&tool, &json!({ "list": list(&json!(0), &json!(1)) }))
        .0
        .exits(0);
}

#[test]
fn an_argument_that_is_wrong_in_a_large_schema_does_not_take_memory_for_every_violation() {
    let (_guard, folder) = scratch();
    let tool = with_schema(
        &folder,
        "violated",
        json!({
            "properties": { "list": { "type": "array", "items": { "$ref": "#/$defs/d0" } } },
            "$defs": doubled(9)["$defs"],
        }),
    );
    let list = vec![json!(1); 500];
    let (ran, took) = timed(&tool, &json!({ "list": list }));
    assert_eq!(code(&ran), "schema_mismatch", "{ran:?}");
    assert!(
        ran.stdout.contains("too large to say where"),
        "{}",
        ran.stdout
    );
    assert!(took < Duration::from_secs(15), "{took:?}");
}

#[test]
fn a_redaction_pattern_that_costs_too_much_withholds_the_answer_in_time() {
    let (_guard, folder) = scratch();
    let tool = component(&folder, "expensive", |declaration| {
        declaration["output_contract"] =
            json!({ "redaction_rules": [{ "pattern": "[a-c]*[a-b][a-d]{800}[e-g]" }] });
    });
    // Random letters, so that a lazy automaton needs a new state for nearly each.
    let mut state = 1u64;
    let mut letter = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ['a', 'b', 'c', 'd'][(state >> 62) as usize]
    };
    let text: String = (0..2_000_000).map(|_| letter()).collect();
    let (ran, took) = timed(&tool, &json!({ "text": text }));
    assert!(took < Duration::from_secs(10), "{took:?}");
    let result = ran.exits(0).json();
    assert_eq!(
        result["structured_content"]["text"],
        "[redacted]",
        "withheld whole: {:.2000}",
        result.to_string()
    );
    assert_eq!(result["redaction_state"], "partial");
    // A common pattern is searched for in all of a large answer.
    let tool = component(&folder, "cheap", |declaration| {
        declaration["output_contract"] =
            json!({ "redaction_rules": [{ "pattern": "AKIA[0-9A-Z]{16}" }] });
    });
    let (ran, _) = timed(
        &tool,
        &json!({ "text": format!("{} AKIAABCDEFGHIJKLMNOP", "word ".repeat(8_000)) }),
    );
    let text = ran.exits(0).json()["structured_content"]["text"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        text.ends_with("word  [redacted]") && text.len() > 40_000,
        "{}",
        text.len()
    );
}

#[test]
fn many_sensitive_values_take_no_time_and_too_many_are_refused() {
    let (_guard, folder) = scratch();
    let tool = component(&folder, "guarded", |declaration| {
        declaration["input_contract"] =
            json!({ "model_input_schema": { "type": "object" }, "sensitive_fields": ["keys"] });
    });
    let keys = |count: usize| json!({ "keys": (0..count).map(|n| format!("key-{n:08}")).collect::<Vec<_>>() });
    let (ran, took) = timed(&tool, &keys(90_000));
    assert_eq!(code(&ran), "too_many_sensitive_values", "{ran:?}");
    assert!(
        ran.stdout.contains("at most 10000 values"),
        "{}",
        ran.stdout
    );
    assert!(took < Duration::from_secs(10), "{took:?}");
    let (ran, took) = timed(&tool, &keys(9_000));
    assert!(took < Duration::from_secs(10), "{took:?}");
    let result = ran.exits(0);
    assert!(
        !result.stdout.contains("key-0000"),
        "{}",
        &result.stdout[..2_000.min(result.stdout.len())]
    );
}

#[test]
fn a_sensitive_value_does_not_come_back_as_programs_write_it() {
    const CANARY: Canary =
        Canary::new("pw-7f3/Qz+tT?x0~long-enough-to-be-wrapped-in-every-line-of-a-text");
    let (_guard, folder) = scratch();
    let tool = component(&folder, "disguised", |declaration| {
        declaration["input_contract"] =
            json!({ "model_input_schema": { "type": "object" }, "sensitive_fields": ["token"] });
    });
    let value = CANARY.value();
    let hex: Vec<String> = value.bytes().map(|byte| format!("{byte:02X}")).collect();
    let base64 =
        data_encoding::BASE64.encode(format!("Authorization: {value}").repeat(3).as_bytes());
    let wrapped = |width: usize, end: &str| {
        base64
            .as_bytes()
            .chunks(width)
            .map(|line| std::str::from_utf8(line).unwrap())
            .collect::<Vec<_>>()
            .join(end)
    };
    for (what, written) in [
        ("hex with spaces", hex.join(" ")),
        ("hex with colons", hex.join(":")),
        ("base64 in lines of 64", wrapped(64, "\n")),
        ("base64 in lines of 76", wrapped(76, "\r\n")),
        (
            "JSON escapes",
            value
                .chars()
                .map(|c| format!("\\u{:04X}", u32::from(c)))
                .collect(),
        ),
        (
            "bytes of a string",
            value.bytes().map(|byte| format!("\\x{byte:02x}")).collect(),
        ),
        (
            "UTF-16, the small byte first",
            value.chars().flat_map(|c| [c, '\0']).collect(),
        ),
        (
            "UTF-16, the large byte first",
            value.chars().flat_map(|c| ['\0', c]).collect(),
        ),
    ] {
        let (ran, _) = timed(
            &tool,
            &json!({ "token": value, "copy": format!("before {written} after") }),
        );
        let result = ran.exits(0).json();
        let copy = result["structured_content"]["copy"].as_str().unwrap();
        assert!(
            copy.starts_with("before ") && copy.contains("[redacted]"),
            "{what}: {copy:?}"
        );
        // In base64, the text before and after the value stays.
        let left = copy.len() < 60 || what.starts_with("base64") && copy.len() < written.len() / 2;
        assert!(left && !copy.contains(&written), "{what}: {copy:?}");
    }
}
