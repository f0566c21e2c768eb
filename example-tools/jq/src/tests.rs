use toolcell_guest::{
    ErrorClass, Outcome,
    serde_json::{Value, json},
    testing,
};

use crate::Toolkit;

fn call(filter: &str, input: Value) -> Outcome {
    testing::invoke::<Toolkit>("jq", json!({"filter": filter, "input": input}))
}

#[track_caller]
fn outputs(filter: &str, input: Value) -> Value {
    match call(filter, input) {
        Outcome::Success(output) => output.structured.unwrap()["outputs"].clone(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn error(filter: &str) -> String {
    match call(filter, Value::Null) {
        Outcome::Failure(error) => {
            assert_eq!(error.class, ErrorClass::InvalidArguments);
            format!("{}: {}", error.code, error.message)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_filter_chooses_and_transforms() {
    let shop = json!({"items": [{"name": "pen", "price": 2}, {"name": "desk", "price": 90}]});
    assert_eq!(
        outputs(".items[] | select(.price > 10) | .name", shop.clone()),
        json!(["desk"])
    );
    assert_eq!(
        outputs(".items | map(.price) | add, length", shop),
        json!([92, 2])
    );
    assert_eq!(outputs("empty", json!(1)), json!([]));
    assert_eq!(
        outputs("\"a-b\" | test(\"^a\"), @base64, ascii_upcase", json!(null)),
        json!([true, "YS1i", "A-B"])
    );
}

#[test]
fn numbers_keep_their_value() {
    let numbers = json!([1, -1.5, 9_007_199_254_740_993_i64, u64::MAX, 1e300]);
    assert_eq!(outputs(".[]", numbers.clone()), numbers);
    assert_eq!(
        outputs("nan, infinite", json!(null)),
        json!([null, f64::MAX])
    );
}

#[test]
fn a_filter_that_is_none_is_refused_with_the_position() {
    assert!(
        error(".a | ]")
            .starts_with("filter_invalid: the filter is not valid at line 1, column 6 (\"]\"): ")
    );
    assert!(
        error("1 +\n  foo").contains("line 2, column 3 (\"foo\"): unknown filter foo/0"),
        "{}",
        error("1 +\n  foo")
    );
    assert!(
        error("if 1 then 2").contains("(the end)"),
        "{}",
        error("if 1 then 2")
    );
    assert!(error("$x").contains("unknown variable"));
    assert!(
        error("import \"a\" as a; 1").contains("line 1"),
        "{}",
        error("import \"a\" as a; 1")
    );
}

#[test]
fn nothing_outside_is_reachable() {
    assert!(error("input").contains("unknown filter input/0"));
    assert_eq!(outputs("1, halt, 2", json!(null)), json!([1]));
}

#[test]
fn a_failure_on_the_way_keeps_the_outputs_before_it() {
    assert!(error(".a.b | error").starts_with("filter_failed"));
    let Outcome::Partial(output, error) = call("1, 2, (\"x\" | .a)", Value::Null) else {
        panic!()
    };
    assert_eq!(output.structured.unwrap()["outputs"], json!([1, 2]));
    assert_eq!(error.code, "filter_failed");
}

#[test]
fn endless_filters_are_cut() {
    let Outcome::Success(output) =
        testing::invoke::<Toolkit>("jq", json!({"filter": "repeat(1)", "max_outputs": 3}))
    else {
        panic!()
    };
    assert_eq!(
        output.structured,
        Some(json!({"outputs": [1, 1, 1], "truncated": true}))
    );
    let Outcome::Failure(error) = call("\"x\" * 2000000", Value::Null) else {
        panic!()
    };
    assert_eq!(error.class, ErrorClass::ResultTooLarge);
}
