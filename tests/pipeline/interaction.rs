//! Calls in which the tool asks its caller's user, through the embedder's interface.
//!
//! Promise: A tool's question stays the tool's.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use toolcell::RetryPolicy;
use toolcell_engine::approval::{Inquiry, Respondent};
use toolcell_spec::{InputResponses, Mode};

use crate::support::{Called, Canary, Test};

const CANARY: Canary = Canary::new("ask-9c1/Qz+tT\"x0~long-enough");

/// Gives its answers in order, and keeps the questions; after the last answer it never answers again.
#[derive(Default)]
pub(crate) struct Person {
    answers: Mutex<Vec<Option<Value>>>,
    asked: Mutex<Vec<String>>,
    schemas: Mutex<Vec<Value>>,
}

impl Person {
    pub(crate) fn who_says(answers: impl IntoIterator<Item = Value>) -> Arc<Self> {
        let mut answers: Vec<Option<Value>> = answers.into_iter().map(Some).collect();
        answers.reverse();
        Arc::new(Self {
            answers: Mutex::new(answers),
            ..Self::default()
        })
    }

    fn who_goes_away() -> Arc<Self> {
        Arc::new(Self {
            answers: Mutex::new(vec![None]),
            ..Self::default()
        })
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Respondent for Person {
    fn respond<'a>(
        &'a self,
        inquiry: &'a Inquiry,
    ) -> Pin<Box<dyn Future<Output = Option<InputResponses>> + Send + 'a>> {
        let asked = inquiry
            .requests
            .iter()
            .map(|request| format!("{}: {}", request.key(), request.message()));
        self.asked.lock().unwrap().extend(asked);
        self.schemas.lock().unwrap().extend(
            inquiry
                .requests
                .iter()
                .map(|request| request.schema().clone()),
        );
        let answer = self.answers.lock().unwrap().pop();
        Box::pin(async move {
            match answer {
                Some(Some(answer)) => Some(serde_json::from_value(answer).unwrap()),
                Some(None) => None,
                None => std::future::pending().await,
            }
        })
    }
}

pub(super) fn name(key: &str) -> Value {
    let schema = json!({
        "type": "object",
        "properties": { "name": { "type": "string", "minLength": 1 } },
        "required": ["name"],
    });
    json!({ "key": key, "message": format!("Name of {key}?"), "schema": schema })
}

pub(super) fn accept(name: &str) -> Value {
    json!({ "action": "accept", "content": { "name": name } })
}

async fn ask(person: &Arc<Person>, input: Value) -> Called {
    Test::new("probe#ask")
        .answered_by(Arc::clone(person) as _)
        .call(input)
        .await
}

#[tokio::test]
async fn a_tool_goes_on_with_the_answers_in_a_fresh_instance_of_the_same_call() {
    let person = Person::who_says([
        json!({ "a": accept("Ada") }),
        json!({ "b": { "action": "decline" } }),
    ]);
    let called = ask(
        &person,
        json!({ "rounds": [[name("a")], [name("b")]], "state": "x" }),
    )
    .await;
    let output = called.succeeded();
    assert_eq!(
        output["responses"],
        json!({ "a": accept("Ada"), "b": { "action": "decline" } })
    );
    assert_eq!(
        output["state"], "xx",
        "what it remembered at each question came back"
    );
    assert_eq!(
        output["invocation_id"],
        json!(called.0.invocation.invocation_id)
    );
    assert_eq!(person.asked(), ["a: Name of a?", "b: Name of b?"]);
    called.ended("succeeded", "succeeded");
    let passed: Vec<_> = called
        .0
        .invocation
        .status_transitions()
        .iter()
        .map(|step| step.to.as_str().to_owned())
        .collect();
    let end = [
        "running",
        "needs_input",
        "running",
        "needs_input",
        "running",
        "succeeded",
    ];
    assert!(passed.ends_with(&end.map(str::to_owned)), "{passed:?}");
    let events = called.events();
    let of_this: Vec<_> = events
        .iter()
        .filter(|event| event.ends_with("needs_input") || event.ends_with("resumed"))
        .collect();
    assert_eq!(of_this.len(), 4, "{events:?}");
    let logs = called
        .0
        .result
        .content
        .iter()
        .filter(|block| block.kind == "log")
        .count();
    assert_eq!(logs, 3, "what each instance logged is kept");
}

#[tokio::test]
async fn what_is_missing_or_does_not_fit_is_asked_again_and_nothing_else_is_passed_on() {
    let person = Person::who_says([
        json!({ "other": accept("Eve") }),
        json!({ "a": accept(""), "b": accept("Bob") }),
        json!({ "a": accept("Ada"), "b": accept("Eve") }),
    ]);
    let called = ask(&person, json!({ "rounds": [[name("a"), name("b")]] })).await;
    assert_eq!(
        called.succeeded()["responses"],
        json!({ "a": accept("Ada"), "b": accept("Bob") })
    );
    assert_eq!(
        person.asked().len(),
        5,
        "both, both, and the one that was left: {:?}",
        person.asked()
    );
}

#[tokio::test]
async fn where_nobody_can_be_asked_the_call_fails_and_says_what_it_wanted() {
    let called = Test::new("probe#ask")
        .call(json!({ "rounds": [[name("a")]] }))
        .await;
    called
        .failed("capability_gap", "nobody_to_ask")
        .ended("failed", "failed");
    let alone = Test::new("probe#ask").policy(|policy| policy.mode = Mode::NonInteractive);
    let person = Person::who_says([json!({ "a": accept("Ada") })]);
    let refused = alone
        .answered_by(Arc::clone(&person) as _)
        .call(json!({ "rounds": [[name("a")]] }))
        .await;
    refused.failed("capability_gap", "nobody_to_ask");
    assert!(person.asked().is_empty(), "no user is asked in this mode");
    let message = &called.0.result.error.as_ref().unwrap().message;
    assert!(message.contains("Name of a?"), "{message}");
}

#[tokio::test]
async fn a_question_has_an_end() {
    let test = Test::new("probe#ask")
        .answered_by(Person::who_says([]))
        .asking(|terms| terms.expire = Duration::from_millis(50));
    let called = test.call(json!({ "rounds": [[name("a")]] })).await;
    called
        .failed("timeout", "input_expired")
        .ended("timed_out", "timed_out");

    let called = ask(&Person::who_goes_away(), json!({ "rounds": [[name("a")]] })).await;
    called
        .failed("canceled", "canceled")
        .ended("canceled", "canceled");

    let test = Test::new("probe#ask")
        .answered_by(Person::who_says([]))
        .cancel_after(Duration::from_millis(50));
    let called = test.call(json!({ "rounds": [[name("a")]] })).await;
    called
        .failed("canceled", "canceled")
        .ended("canceled", "canceled");
}

#[tokio::test]
async fn a_call_that_asks_has_one_budget_for_all_its_instances() {
    let spin = 2_000_000;
    let once = ask(&Person::who_says([]), json!({ "rounds": [], "spin": spin })).await;
    let fuel = once.0.result.usage.as_ref().unwrap().fuel.used;
    let answers = (0..8).map(|_| json!({ "a": accept("Ada") }));
    let person = Person::who_says(answers);
    let budget = fuel * 7 / 2;
    let called = Test::new("probe#ask")
        .answered_by(Arc::clone(&person) as _)
        .limit(|limits| limits.fuel = budget)
        .call(json!({ "rounds": [[name("a")]], "spin": spin, "always": true }))
        .await;
    called.failed("timeout", "fuel_exhausted");
    assert_eq!(person.asked().len(), 3);
    let used = called.0.result.usage.as_ref().unwrap().fuel;
    assert_eq!(
        (used.limit, used.used),
        (budget, budget),
        "the bill is for all of them"
    );
}

#[tokio::test]
async fn an_attempt_that_is_repeated_keeps_every_answer_of_the_earlier_ones() {
    let person = Person::who_says([json!({ "a": accept("Ada") }), json!({ "b": accept("Bob") })]);
    let retry = RetryPolicy {
        attempts: 2,
        backoff: Duration::from_millis(1),
        ..RetryPolicy::default()
    };
    let called = Test::new("probe#ask")
        .policy(|policy| policy.retry = retry)
        .answered_by(Arc::clone(&person) as _)
        .asking(|terms| terms.expire = Duration::from_secs(10))
        .call(json!({ "rounds": [[name("a")], [name("b")]], "fail_after": 1 }))
        .await;
    let output = called.succeeded();
    assert_eq!(
        called.record()["invocation"]["discarded_attempts"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    assert_eq!(
        output["responses"],
        json!({ "a": accept("Ada"), "b": accept("Bob") })
    );
    assert_eq!(
        person.asked(),
        ["a: Name of a?", "b: Name of b?"],
        "no question twice"
    );
}

#[tokio::test]
async fn a_tool_asks_only_so_often() {
    let person = Person::who_says((0..40).map(|_| json!({ "a": accept("Ada") })));
    let called = ask(&person, json!({ "rounds": [[name("a")]], "always": true })).await;
    called.failed("sandbox_violation", "question_limit");
    assert_eq!(person.asked().len(), 16);
}

#[tokio::test]
async fn what_cannot_be_asked_ends_the_call() {
    let schema = |schema: Value| json!([[{ "key": "a", "message": "?", "schema": schema }]]);
    let flat = |field: Value| schema(json!({ "type": "object", "properties": { "a": field } }));
    for rounds in [
        json!([[]]),
        json!([(0..9).map(|at| name(&format!("k{at}"))).collect::<Vec<_>>()]),
        json!([[name("a"), name("a")]]),
        json!([[name("")]]),
        json!([[name("a b")]]),
        schema(json!("no JSON")),
        schema(json!({ "type": "string" })),
        flat(json!({ "type": "object" })),
        flat(json!({ "type": "string", "title": "a\u{202e}b" })),
        flat(json!({ "type": "string", "description": "x".repeat(70_000) })),
    ] {
        let called = ask(&Person::who_says([]), json!({ "rounds": rounds })).await;
        called
            .failed("execution_failed", "question_invalid")
            .ended("failed", "failed");
    }
    let called = ask(
        &Person::who_says([]),
        json!({ "rounds": [[name("a")]], "state_bytes": 65_537 }),
    )
    .await;
    called.failed("execution_failed", "question_invalid");
}

#[tokio::test]
async fn what_must_not_be_shown_is_in_no_question() {
    let person = Person::who_says([json!({ "a": accept("Ada") })]);
    let called = ask(
        &person,
        json!({ "rounds": [[name("a")]], "secret": CANARY.value() }),
    )
    .await;
    called.succeeded();
    assert_eq!(person.asked().len(), 1);
    CANARY.is_not_in("the question", &person.asked().concat());
    let schemas = json!(*person.schemas.lock().unwrap());
    assert!(schemas[0]["title"].is_string(), "{schemas}");
    CANARY.is_not_in("the form", &schemas.to_string());
    CANARY.is_not_in("the record", &called.record().to_string());
}
