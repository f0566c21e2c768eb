use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{AcceptedSchema, CheckFailure, LoadBudget};

fn compile(schema: &Value) -> anyhow::Result<AcceptedSchema> {
    AcceptedSchema::compile(schema, &mut LoadBudget::new(Duration::MAX))
}

fn check(schema: &Value, value: &Value) -> Result<(), CheckFailure> {
    compile(schema).unwrap().check(value)
}

fn refused(schema: &Value) -> String {
    compile(schema)
        .map(|_| ())
        .unwrap_err()
        .root_cause()
        .to_string()
}

fn on_a_worker<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(work)
        .unwrap()
        .join()
        .unwrap()
}

/// `count` definitions; `refer` puts each into the one before.
fn chain(count: usize, refer: impl Fn(Value) -> Value) -> Value {
    let mut definitions = serde_json::Map::new();
    for n in 0..count {
        definitions.insert(
            format!("d{n}"),
            refer(json!({ "$ref": format!("#/$defs/d{}", n + 1) })),
        );
    }
    definitions.insert(format!("d{count}"), json!({}));
    json!({ "$ref": "#/$defs/d0", "$defs": definitions })
}

#[test]
fn the_deepest_schema_that_is_accepted_is_read_and_dropped_on_little_stack() {
    on_a_worker(|| {
        for schema in [
            chain(250, |next| next),
            chain(84, |next| json!({ "items": { "not": next } })),
        ] {
            drop(compile(&schema).unwrap());
        }
    });
}

#[test]
fn recursion_with_one_way_down_may_be_as_deep_as_json_is() {
    let schema = json!({ "$ref": "#/$defs/n", "$defs": { "n": { "items": { "$ref": "#/$defs/n" }, "type": ["array"] } } });
    let mut value = json!([]);
    for _ in 0..120 {
        value = json!([value]);
    }
    assert_eq!(check(&schema, &value), Ok(()));
}

#[test]
fn recursion_with_two_ways_down_is_bounded_by_the_depth_of_the_value() {
    let schema = json!({
        "$ref": "#/$defs/n",
        "$defs": { "n": { "anyOf": [
            { "items": { "$ref": "#/$defs/n" }, "maxItems": 0 },
            { "items": { "$ref": "#/$defs/n" }, "maxItems": 9 },
        ] } },
    });
    let nested = |depth: usize| (0..depth).fold(json!([]), |inner, _| json!([inner]));
    assert_eq!(check(&schema, &nested(8)), Ok(()));
    assert!(matches!(
        check(&schema, &nested(100)),
        Err(CheckFailure::Costly(_))
    ));
}

#[test]
fn a_cycle_that_stays_at_one_value_is_refused() {
    for schema in [
        json!({ "$ref": "#" }),
        json!({ "allOf": [{ "$ref": "#/$defs/a" }], "$defs": { "a": { "not": { "$ref": "#" } } } }),
        json!({ "$dynamicAnchor": "x", "anyOf": [{ "$dynamicRef": "#x" }] }),
    ] {
        assert!(
            refused(&schema).contains("refers to itself"),
            "{}",
            refused(&schema)
        );
    }
}

#[test]
fn a_dynamic_reference_leads_to_the_anchor_of_its_name() {
    let schema = json!({
        "$dynamicAnchor": "node",
        "type": "object",
        "properties": { "children": { "type": "array", "items": { "$dynamicRef": "#node" } } },
        "unevaluatedProperties": false,
    });
    assert_eq!(
        check(&schema, &json!({ "children": [{ "children": [] }] })),
        Ok(())
    );
    let wrong = check(&schema, &json!({ "children": [{ "childen": [] }] }));
    assert!(matches!(wrong, Err(CheckFailure::Mismatch(_))), "{wrong:?}");
}

#[test]
fn a_schema_is_one_resource() {
    for (inner, says) in [
        (
            json!({ "$id": "http://x/r1" }),
            "`$id` \"http://x/r1\" inside",
        ),
        (
            json!({ "$schema": "http://json-schema.org/draft-04/schema#", "id": "http://x/r1" }),
            "`$schema`",
        ),
        (
            json!({ "$dynamicAnchor": "top" }),
            "two subschemas the name \"top\"",
        ),
    ] {
        for outer in [
            json!({ "$dynamicAnchor": "top", "properties": { "default": inner } }),
            json!({ "$dynamicAnchor": "top", "allOf": [{ "not": inner }] }),
            json!({ "$dynamicAnchor": "top", "$defs": { "a": { "dependentSchemas": { "b": inner } } } }),
        ] {
            assert!(refused(&outer).contains(says), "{}", refused(&outer));
        }
    }
    let behind = json!({ "$ref": "#/x-more/a", "x-more": { "a": { "$id": "http://x/r1" } } });
    assert!(refused(&behind).contains("`$id`"), "{}", refused(&behind));
}

#[test]
fn what_only_looks_like_a_resource_is_none() {
    let id = json!({ "$id": "http://x/r1", "$schema": "http://json-schema.org/draft-04/schema#" });
    let schema = json!({
        "$id": "http://x/root",
        "properties": { "$id": { "type": "string" }, "$schema": true, "b": { "const": id, "default": id } },
        "enum": [{ "$id": "http://x/r1" }, id, { "b": id }],
        "examples": [id],
        "dependentRequired": { "$id": ["$schema"] },
        "x-note": id,
    });
    assert_eq!(check(&schema, &json!({ "b": id })), Ok(()));
}

#[test]
fn names_that_are_kept_for_everything_below_them_are_bounded_together() {
    let many: serde_json::Map<String, Value> =
        (0..200).map(|n| (format!("p{n}"), json!({}))).collect();
    let below =
        |bytes: usize| json!({ "properties": { "a".repeat(bytes): { "properties": many } } });
    assert!(refused(&below(1 << 20)).contains("places of its keywords"));
    compile(&below(1 << 10)).unwrap();
}

#[test]
fn a_long_name_in_a_schema_counts_wherever_it_is_looked_up() {
    let name = "a".repeat(1 << 20);
    for named in [
        json!({ "properties": { name.as_str(): true } }),
        json!({ "dependentSchemas": { name.as_str(): true } }),
        json!({ "dependentRequired": { name.as_str(): [] } }),
        json!({ "required": [name] }),
    ] {
        let all = vec![json!({ "$ref": "#/$defs/d" }); 400];
        let schema = json!({ "allOf": all, "$defs": { "d": named } });
        assert!(
            refused(&schema).contains("larger than 200000"),
            "{}",
            refused(&schema)
        );
    }
}

#[test]
fn a_long_text_counts_for_each_keyword_that_reads_it() {
    let ten: Vec<String> = (0..10).map(|n| n.to_string()).collect();
    for word in [
        json!({ "minLength": 0, "maxLength": 9_000_000_000_u64 }),
        json!({ "not": { "enum": ten } }),
    ] {
        let schema = json!({ "allOf": vec![word; 9_000] });
        assert!(matches!(
            check(&schema, &json!("a".repeat(1 << 20))),
            Err(CheckFailure::Costly(_))
        ));
        assert_eq!(check(&schema, &json!("a".repeat(100))), Ok(()));
    }
}

#[test]
fn long_names_of_a_value_count_before_they_are_read() {
    for word in [
        json!({ "properties": { "a": true } }),
        json!({ "propertyNames": { "minLength": 1 } }),
    ] {
        let schema = json!({ "allOf": vec![word; 15_000] });
        let schema = compile(&schema).unwrap();
        let value = json!({ "b".repeat(2 << 20): 1 });
        let began = Instant::now();
        assert!(matches!(schema.check(&value), Err(CheckFailure::Costly(_))));
        assert!(!schema.is_light(&value));
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{:?}",
            began.elapsed()
        );
    }
}

#[test]
fn names_that_no_keyword_knows_count_for_each_subschema_that_looks_at_them() {
    let many: serde_json::Map<String, Value> =
        (0..50).map(|n| (format!("p{n}"), json!(true))).collect();
    let all = vec![json!({ "$ref": "#/$defs/d" }); 1_000];
    let schema = json!({ "allOf": all, "$defs": { "d": { "properties": many } } });
    let value: serde_json::Map<String, Value> =
        (0..20_000).map(|n| (format!("q{n}"), json!(1))).collect();
    assert!(matches!(
        check(&schema, &Value::Object(value)),
        Err(CheckFailure::Costly(_))
    ));
}

#[test]
fn the_places_of_violations_take_no_more_memory_than_they_are_worth() {
    let schema = json!({ "additionalProperties": { "items": { "type": "string" } } });
    let wrong = check(&schema, &json!({ "a".repeat(100 << 10): vec![1; 2_000] }));
    assert!(
        matches!(&wrong, Err(CheckFailure::Mismatch(why)) if why.message.contains("too large to say where")),
        "{wrong:?}"
    );
    let wrong = check(&schema, &json!({ "a": vec![1; 2_000] }));
    assert!(
        matches!(&wrong, Err(CheckFailure::Mismatch(why)) if why.message.contains("/a/0")),
        "{wrong:?}"
    );
}

#[test]
fn ordinary_values_are_light_whatever_words_the_schema_has() {
    let properties: serde_json::Map<String, Value> = (0..10)
        .map(|n| {
            (
                format!("p{n}"),
                json!({ "type": "string", "minLength": 1, "maxLength": 200 }),
            )
        })
        .collect();
    let ten = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    let tree = json!({
        "type": "object",
        "properties": { "children": { "type": "array", "uniqueItems": true, "items": { "$ref": "#" } } },
    });
    let arguments: serde_json::Map<String, Value> = (0..10)
        .map(|n| (format!("p{n}"), json!("a".repeat(60))))
        .collect();
    for (schema, value) in [
        (ten, Value::Object(arguments)),
        (
            json!({ "items": { "type": "integer" }, "uniqueItems": true }),
            (0..1_000).collect(),
        ),
        (tree, json!({ "children": [{ "children": [{}] }, {}] })),
    ] {
        assert!(compile(&schema).unwrap().is_light(&value), "{schema}");
    }
}

#[test]
fn what_a_text_costs_grows_with_the_pattern() {
    let schema = json!({ "pattern": "(?:[a-c]*[a-b][a-d]{800}[e-g])" });
    assert_eq!(check(&schema, &json!(1)), Ok(()));
    assert!(matches!(
        check(&schema, &json!("a".repeat(2_000_000))),
        Err(CheckFailure::Costly(_))
    ));
    let named = json!({ "patternProperties": { "[a-c]*[a-b][a-d]{800}[e-g]": true } });
    assert!(matches!(
        check(&named, &json!({ "a".repeat(2_000_000): 1 })),
        Err(CheckFailure::Costly(_))
    ));
}

#[test]
fn items_that_must_differ_and_have_the_same_hash_cost_more() {
    let schema = json!({ "uniqueItems": true });
    let far: Vec<u64> = (0..60_000).map(|n| u64::MAX - n).collect();
    assert!(matches!(
        check(&schema, &json!(far)),
        Err(CheckFailure::Costly(_))
    ));
    let near: Vec<u64> = (0..60_000).collect();
    assert_eq!(check(&schema, &json!(near)), Ok(()));
    // The evaluator hashes an array as the sequence of its items.
    let empty = |n: u32| {
        Value::Array(
            (0..12)
                .map(|bit| {
                    if (n >> bit) & 1 == 0 {
                        json!([])
                    } else {
                        json!([[]])
                    }
                })
                .collect(),
        )
    };
    let nested: Vec<Value> = (0..4_000).map(empty).collect();
    assert!(matches!(
        check(&schema, &json!(nested)),
        Err(CheckFailure::Costly(_))
    ));
    let points: Vec<[u32; 2]> = (0..10_000).map(|n| [n, n + 1]).collect();
    assert_eq!(check(&schema, &json!(points)), Ok(()));
}

#[test]
fn a_large_list_of_choices_counts_for_each_value() {
    let choices: Vec<u32> = (0..50_000).collect();
    let schema = json!({ "items": { "enum": choices } });
    assert_eq!(check(&schema, &json!([49_999])), Ok(()));
    assert!(matches!(
        check(&schema, &json!(vec![1; 1_000])),
        Err(CheckFailure::Costly(_))
    ));
}
