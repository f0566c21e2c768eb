use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::time::Duration;

use toolcell_guest::serde_json::{Value, json};
use toolcell_guest::{
    Artifact, Content, Facts, Output, ToolError, cancellation, configuration, context,
    context_modifiers, data, http, interaction, log, progress, tool, toolkit, tools,
};

#[data]
struct Part {
    label: String,
    #[schemars(range(min = 0))]
    weight: f64,
}

#[data]
struct Place {
    street: String,
    #[serde(default)]
    floor: i64,
}

#[data]
#[derive(Default)]
#[serde(rename_all = "lowercase")]
enum Size {
    #[default]
    Small,
    Large,
}

fn one() -> i64 {
    1
}

fn half() -> f64 {
    0.5
}

#[data]
struct Order {
    /// Who orders.
    #[schemars(regex(pattern = "^[a-z]+$"))]
    name: String,
    #[serde(default)]
    size: Size,
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 10))]
    count: i64,
    #[serde(default = "half")]
    #[schemars(range(min = 0, max = 1))]
    ratio: f64,
    #[serde(default)]
    urgent: bool,
    tags: Vec<String>,
    parts: Vec<Part>,
    place: Place,
    labels: BTreeMap<String, i64>,
    extra: Value,
    note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// Answers an order.
#[tool]
fn order(input: Order) -> Order {
    input
}

#[data]
struct Text {
    text: String,
}

/// Answers JSON.
#[tool]
fn say(input: Text) -> Value {
    json!({ "text": input.text, "list": [1, 2.5, true, null], "inner": { "a\"b": "c\\d" } })
}

#[data]
struct Half {
    #[serde(default)]
    half: bool,
}

/// Answers blocks.
#[tool]
fn blocks(input: Half) -> Output<Value> {
    let made = Output::new()
        .text("block")
        .structured(json!({ "a": 1 }))
        .ui_summary("one line");
    if !input.half {
        return made;
    }
    made.partial_failure(ToolError::partial_failure(
        "rest_missing",
        "the rest is missing",
    ))
}

/// Fails.
#[tool]
fn fail() -> Result<String, ToolError> {
    let error = ToolError::rate_limited("slow_down", "slow down");
    Err(error.detail("why").retry_after(Duration::from_secs(60)))
}

#[data]
struct File {
    path: String,
}

/// Reads a file.
#[tool(access = ["file_read", "file_write"], write_effects = ["local_draft"], paths = ["path"])]
fn look(input: File) -> Result<Value, ToolError> {
    let call = context();
    let draft = format!("{}/draft", call.scratch.unwrap_or_default());
    let text = fs::read_to_string(&input.path)?;
    fs::write(&draft, &text)?;
    let again = fs::read_to_string(&draft)?;
    Ok(json!({ "text": text, "draft": again, "cwd": call.cwd, "attempt": call.attempt }))
}

/// Reads a variable.
#[tool(env = ["PARITY"])]
fn variable() -> String {
    std::env::var("PARITY").unwrap_or_default()
}

/// Reports.
#[tool]
fn report() -> String {
    let half = progress::Update::new().message("half").percent(50.0);
    progress::report(half);
    let all = progress::Update {
        message: Some("all".to_owned()),
        percent: Some(100.0),
        current_step: Some("last".to_owned()),
        total_steps: Some(2),
        bytes_read: Some(3),
        bytes_written: Some(4),
        line_count: Some(5),
    };
    progress::report(all);
    progress::partial([Content::text("early")]);
    log::log(log::Level::Warn, "odd", Some(&json!({ "n": 1 })));
    "reported".to_owned()
}

/// Waits for a stop.
#[tool]
fn wait() -> Value {
    let stopped = cancellation::sleep(Duration::from_secs(60)).err();
    if stopped.is_some() {
        cancellation::acknowledge();
    }
    let reason = stopped.map(|stopped| stopped.reason.as_str().replace(' ', "_"));
    json!({ "stopped": reason })
}

fn form(name: &str, kind: &str) -> Value {
    json!({ "type": "object", "properties": { name: { "type": kind } }, "required": [name] })
}

/// Asks.
#[tool]
fn ask() -> Result<String, ToolError> {
    let state = String::from_utf8_lossy(&interaction::remembered()).into_owned();
    let (who, sure) = (form("name", "string"), form("yes", "boolean"));
    let questions = [("who", "Who?", &who), ("sure", "Sure?", &sure)].map(|(key, message, schema)| {
        interaction::Question {
            key,
            message,
            schema,
        }
    });
    interaction::remember("one");
    let answers = interaction::ask_forms(&questions)?;
    interaction::remember(format!("{state} two"));
    let last = interaction::ask_form("last", "How many?", &form("n", "integer"))?.accepted()?;
    let mut answers = answers.into_iter().map(interaction::Response::accepted);
    let (who, sure) = (answers.next().unwrap()?, answers.next().unwrap()?);
    let name = who["name"].as_str().unwrap_or_default();
    Ok(format!("{name} {} {} {state}", sure["yes"], last["n"]))
}

/// Keeps a file.
#[tool]
fn keep() -> Result<Output, ToolError> {
    let mut file = Artifact::create("rows.csv", "text/csv")?;
    for chunk in ["a,b\n", &"x".repeat(1_500_000), "\nend\n"] {
        file.write_all(chunk.as_bytes())?;
    }
    Ok(Output::new().block(file.finish()?))
}

/// Changes the context.
#[tool]
fn mark() -> Result<String, ToolError> {
    context_modifiers::modify("branch", json!({ "name": "fix" }))?;
    Ok("marked".to_owned())
}

#[data]
struct Target {
    url: String,
}

/// Sends a request.
#[tool(access = ["network"], urls = ["url"], network_scope = "argument", write_effects = ["remote_mutation"])]
fn fetch(input: Target) -> Result<Value, ToolError> {
    let mut response = http::request("POST", input.url)
        .header("x-probe", "yes")
        .body("ping")
        .send()?;
    let body = response.read(1 << 20)?;
    Ok(json!({ "status": response.status, "body": String::from_utf8_lossy(&body) }))
}

#[data]
struct Other {
    tool: String,
    input: Value,
}

/// Calls a tool.
#[tool(tool_calls = ["*"])]
fn relay(input: Other) -> Result<Value, ToolError> {
    let answer = tools::call(&input.tool, &input.input)?;
    Ok(json!({ "answer": answer.structured, "callable": !tools::list().is_empty() }))
}

#[data]
struct Settings {
    unit: String,
}

/// Says its setting.
#[tool]
fn setting() -> String {
    configuration::<Settings>().map_or_else(|| "none".to_owned(), |given| given.unit.clone())
}

#[data]
struct Number {
    n: i64,
}

fn is_even(input: &Number) -> Result<(), ToolError> {
    if input.n % 2 == 0 {
        return Ok(());
    }
    Err(ToolError::invalid_arguments("odd", "the number is odd"))
}

fn is_ready(input: &Number) -> Result<(), ToolError> {
    if input.n != 0 {
        return Ok(());
    }
    Err(ToolError::setup_required("not_ready", "not for 0"))
}

/// Takes even numbers.
#[tool(validate = is_even, preflight = is_ready)]
fn even(input: Number) -> String {
    input.n.to_string()
}

#[data]
struct Change {
    change: bool,
}

fn facts(input: &Change) -> Facts {
    Facts {
        read_only: Some(!input.change),
        ..Facts::default()
    }
}

/// Says whether it changes things.
#[tool(access = ["file_read", "file_write"], classify = facts)]
fn touch(_input: Change) -> String {
    "touched".to_owned()
}

toolkit! {
    namespace: "parity",
    tools: [
        order, say, blocks, fail, look, variable, report, wait, ask, keep, mark, fetch, relay, setting, even, touch
    ],
    configuration: Settings
}

#[cfg(test)]
mod tests {
    use toolcell_guest::interaction::Response;
    use toolcell_guest::{Context, Outcome, testing, tools::Answer};

    use super::*;

    fn call(tool: &str, input: Value) -> Outcome {
        testing::invoke::<Toolkit>(tool, input)
    }

    #[test]
    fn a_stop_answers_and_the_context_are_those_of_the_test() {
        testing::reset();
        testing::cancel(cancellation::AbortReason::Timeout);
        assert_eq!(wait(), json!({ "stopped": "timeout" }));
        assert!(testing::acknowledged());

        testing::reset();
        let accept = |content: Value| {
            let Value::Object(fields) = content else { panic!() };
            Response::Accept(fields)
        };
        testing::respond("who", accept(json!({ "name": "Ada" })));
        testing::respond("sure", accept(json!({ "yes": true })));
        testing::respond("last", accept(json!({ "n": 3 })));
        testing::set_remembered("s");
        assert_eq!(ask().unwrap(), "Ada true 3 s");

        let folder = std::env::temp_dir().to_string_lossy().into_owned();
        testing::set_context(Context {
            scratch: Some(folder),
            cwd: Some("/".to_owned()),
            ..Context::default()
        });
        let input = File {
            path: "/etc/hostname".to_owned(),
        };
        assert_eq!(look(input).unwrap()["cwd"], "/");
    }

    #[test]
    fn other_tools_servers_settings_checks_and_facts_are_those_of_the_test() {
        testing::reset();
        testing::offer("other.one", |_| Ok(Answer::structured(7)));
        let Outcome::Success(made) = call("relay", json!({ "tool": "other.one", "input": {} })) else {
            panic!()
        };
        assert_eq!(made.structured, Some(json!({ "answer": 7, "callable": true })));
        testing::serve(|_| {
            Ok(testing::Served {
                status: 200,
                body: vec![b"pong".to_vec()],
                ..testing::Served::default()
            })
        });
        let target = Target {
            url: "http://a".to_owned(),
        };
        assert_eq!(fetch(target).unwrap(), json!({ "status": 200, "body": "pong" }));
        assert!(testing::validate::<Toolkit>("even", json!({ "n": 3 })).is_err());
        let facts = testing::classify::<Toolkit>("touch", json!({ "change": true }));
        assert_eq!(facts.read_only, Some(false));
        testing::configure::<Toolkit>(json!({ "unit": "mile" })).unwrap();
        assert_eq!(setting(), "mile");
    }
}
