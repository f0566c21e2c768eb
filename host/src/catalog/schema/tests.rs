use serde_json::{Value, json};

use super::{Schema, Unsatisfied};

/// What a check of `value` comes to.
fn check(schema: &Value, value: &Value) -> Result<(), Unsatisfied> {
    Schema::compile(schema).unwrap().check(value, value.to_string().len())
}

fn refused(schema: &Value) -> String {
    Schema::compile(schema).map(|_| ()).unwrap_err().root_cause().to_string()
}

/// On the stack that threads of the runtime have, and no more.
fn on_a_worker<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap()
}

/// `count` definitions, each of which holds the next one as `refer` says.
fn chain(count: usize, refer: impl Fn(Value) -> Value) -> Value {
    let mut definitions = serde_json::Map::new();
    for n in 0..count {
        definitions.insert(format!("d{n}"), refer(json!({ "$ref": format!("#/$defs/d{}", n + 1) })));
    }
    definitions.insert(format!("d{count}"), json!({}));
    json!({ "$ref": "#/$defs/d0", "$defs": definitions })
}

#[test]
fn the_deepest_schema_that_is_accepted_is_read_and_dropped_on_little_stack() {
    on_a_worker(|| {
        for schema in [chain(250, |next| next), chain(84, |next| json!({ "items": { "not": next } }))] {
            drop(Schema::compile(&schema).unwrap());
        }
    });
}

#[test]
fn recursion_with_one_way_down_may_be_as_deep_as_json_is() {
    let schema =
        json!({ "$ref": "#/$defs/n", "$defs": { "n": { "items": { "$ref": "#/$defs/n" }, "type": ["array"] } } });
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
    assert!(matches!(check(&schema, &nested(100)), Err(Unsatisfied::Costly(_))));
}

#[test]
fn a_cycle_that_stays_at_one_value_is_refused() {
    for schema in [
        json!({ "$ref": "#" }),
        json!({ "allOf": [{ "$ref": "#/$defs/a" }], "$defs": { "a": { "not": { "$ref": "#" } } } }),
        json!({ "$dynamicAnchor": "x", "anyOf": [{ "$dynamicRef": "#x" }] }),
    ] {
        assert!(refused(&schema).contains("refers to itself"), "{}", refused(&schema));
    }
}

#[test]
fn dynamic_references_count_as_everything_that_they_can_mean() {
    let schema = json!({
        "$dynamicAnchor": "node",
        "type": "object",
        "properties": { "children": { "type": "array", "items": { "$dynamicRef": "#node" } } },
        "unevaluatedProperties": false,
    });
    assert_eq!(check(&schema, &json!({ "children": [{ "children": [] }] })), Ok(()));
    let wrong = check(&schema, &json!({ "children": [{ "childen": [] }] }));
    assert!(matches!(wrong, Err(Unsatisfied::Mismatch(_))), "{wrong:?}");
}

#[test]
fn what_a_text_costs_grows_with_the_pattern() {
    let schema = json!({ "pattern": "(?:[a-c]*[a-b][a-d]{800}[e-g])" });
    assert_eq!(check(&schema, &json!(1)), Ok(()));
    assert!(matches!(check(&schema, &json!("a".repeat(2_000_000))), Err(Unsatisfied::Costly(_))));
    let named = json!({ "patternProperties": { "[a-c]*[a-b][a-d]{800}[e-g]": true } });
    assert!(matches!(check(&named, &json!({ "a".repeat(2_000_000): 1 })), Err(Unsatisfied::Costly(_))));
}

#[test]
fn items_that_must_differ_and_have_the_same_hash_cost_more() {
    let schema = json!({ "uniqueItems": true });
    let far: Vec<u64> = (0..60_000).map(|n| u64::MAX - n).collect();
    assert!(matches!(check(&schema, &json!(far)), Err(Unsatisfied::Costly(_))));
    let near: Vec<u64> = (0..60_000).collect();
    assert_eq!(check(&schema, &json!(near)), Ok(()));
}

#[test]
fn a_large_list_of_choices_counts_for_each_value() {
    let choices: Vec<u32> = (0..50_000).collect();
    let schema = json!({ "items": { "enum": choices } });
    assert_eq!(check(&schema, &json!([49_999])), Ok(()));
    assert!(matches!(check(&schema, &json!(vec![1; 1_000])), Err(Unsatisfied::Costly(_))));
}
