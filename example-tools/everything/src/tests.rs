use std::time::Duration;

use toolcell_guest::{
    ErrorClass, Outcome, interaction::Response, log::Level, serde_json::Value, serde_json::json,
    testing,
};

use super::*;

fn content(tool: &str, input: Value) -> Vec<Value> {
    let outcome = testing::invoke::<Toolkit>(tool, input);
    let Outcome::Success(output) = outcome else {
        panic!("{outcome:?}")
    };
    output.content.iter().map(|block| json!(block)).collect()
}

#[test]
fn every_kind_of_content_is_answered_as_the_suite_expects_it() {
    let text = json!({"type": "text", "text": "This is a simple text response for testing."});
    assert_eq!(content("test_simple_text", json!({})), [text]);
    let resource = json!({
        "type": "embedded_resource", "uri": "test://embedded-resource", "media_type": "text/plain",
        "text": "This is an embedded resource content.",
    });
    assert_eq!(content("test_embedded_resource", json!({})), [resource]);
    let mixed = content("test_multiple_content_types", json!({}));
    let types: Vec<_> = mixed
        .iter()
        .map(|block| block["type"].as_str().unwrap())
        .collect();
    assert_eq!(types, ["text", "image", "embedded_resource"]);
    assert_eq!(mixed[2]["text"], r#"{"test":"data","value":123}"#);
}

#[test]
fn image_and_sound_are_what_they_say() {
    let image = &content("test_image_content", json!({}))[0];
    assert_eq!(
        (&image["type"], &image["media_type"]),
        (&json!("image"), &json!("image/png"))
    );
    assert!(
        image["data"].as_str().unwrap().starts_with("iVBORw0KGgo"),
        "the signature of PNG"
    );
    let sound = &content("test_audio_content", json!({}))[0];
    assert_eq!(
        (&sound["type"], &sound["media_type"]),
        (&json!("audio"), &json!("audio/wav"))
    );
    assert!(sound["data"].as_str().unwrap().starts_with("UklGR"), "RIFF");
}

#[test]
fn the_failing_tool_fails_and_says_why() {
    let outcome = testing::invoke::<Toolkit>("test_error_handling", json!({}));
    let Outcome::Failure(error) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(error.class, ErrorClass::ExecutionFailed);
    assert_eq!(
        error.message,
        "This tool intentionally returns an error for testing"
    );
}

#[test]
fn a_parameter_that_is_also_a_header_is_marked_in_the_schema() {
    let described = testing::describe::<Toolkit>();
    let interface = of(&described["interfaces"], "test_parameter_in_header");
    assert_eq!(
        interface["model_input_schema"]["properties"]["region"]["x-mcp-header"],
        "Region"
    );
    let said = &content("test_parameter_in_header", json!({"region": "north"}))[0];
    assert_eq!(said["text"], "called for north");
}

#[test]
fn the_schema_keeps_the_words_of_2020_12() {
    let described = testing::describe::<Toolkit>();
    let schema = &of(&described["interfaces"], "json_schema_2020_12_tool")["model_input_schema"];
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
    assert_eq!(schema["$defs"]["address"]["$anchor"], "addressDef");
    assert_eq!(schema["properties"]["address"]["$ref"], "#/$defs/address");
    assert_eq!(schema["then"]["required"], json!(["phone"]));
    let input = json!({"name": "Ada", "address": {"city": "London"}, "contactMethod": "email", "email": "a@b.example"});
    assert_eq!(
        content("json_schema_2020_12_tool", input)[0]["text"],
        "Ada in London is reached by mail at a@b.example"
    );
    let phone = json!({"contactMethod": "phone", "phone": "1", "email": "a@b.example"});
    assert_eq!(
        content("json_schema_2020_12_tool", phone)[0]["text"],
        "the person is reached by phone at 1"
    );
}

#[test]
fn log_lines_come_while_the_tool_runs() {
    testing::reset();
    content("test_tool_with_logging", json!({}));
    let lines = testing::logs();
    let said: Vec<_> = lines
        .iter()
        .map(|line| (line.level, line.message.as_str()))
        .collect();
    let expected = [
        "Tool execution started",
        "Tool processing data",
        "Tool execution completed",
    ];
    assert_eq!(said, expected.map(|line| (Level::Info, line)));
    assert_eq!(testing::slept(), Duration::from_millis(100));
}

#[test]
fn progress_comes_while_the_tool_runs() {
    testing::reset();
    content("test_tool_with_progress", json!({}));
    let percents: Vec<_> = testing::progress()
        .iter()
        .map(|update| update.percent)
        .collect();
    assert_eq!(percents, [0.0, 50.0, 100.0].map(Some));
    assert_eq!(testing::slept(), Duration::from_millis(100));
}

#[test]
fn what_takes_long_says_so_and_asks_when_the_suite_expects_it() {
    testing::reset();
    let said =
        |tool: &str, input: Value| content(tool, input)[0]["text"].as_str().unwrap().to_owned();
    assert_eq!(said("greet", json!({"name": "Ada"})), "Hello, Ada!");
    assert_eq!(
        said("slow_compute", json!({"seconds": 2, "label": "sum"})),
        "sum took 2 s"
    );
    assert_eq!(testing::slept(), Duration::from_secs(2));
    let accepted = |key: &str, fields: Value| {
        let Value::Object(fields) = fields else {
            panic!("{fields}")
        };
        testing::respond(key, Response::Accept(fields));
    };
    accepted("confirm", json!({"confirm": true}));
    assert_eq!(
        said("confirm_delete", json!({"filename": "a"})),
        "a: confirmed: true"
    );
    accepted("first", json!({"name": "x"}));
    testing::respond("second", Response::Decline);
    assert_eq!(said("multi_input", json!({})), "1 of 2 answers");
    accepted("user_name", json!({"name": "Ada"}));
    assert_eq!(said("test_tool_with_task", json!({})), "Hello, Ada!");
    let described = testing::describe::<Toolkit>();
    let profiles = described["execution_profiles"].as_array().unwrap();
    let patient: Vec<_> = profiles
        .iter()
        .filter(|profile| profile["requires_background"] == true)
        .collect();
    assert_eq!(patient.len(), 2, "failing_job and test_tool_with_task");
}

fn of<'a>(records: &'a Value, name: &str) -> &'a Value {
    records
        .as_array()
        .unwrap()
        .iter()
        .find(|record| record["name"] == name)
        .unwrap()
}
