//! Approvals through the API: a role of its own, for the calls of this server.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::approvals::channelled;
use super::super::place::Place;
use super::{ANNA, Api, SOON, Said, endless, token_file};
use crate::support::{Reply, Toolcell, Web, check_one, fixture, scratch};

const CARA: &str = "cccccccccccccccc0";

/// A server whose tool needs an approval, with a caller and an approver.
fn of_approver(place: &Place) -> Web {
    of_approver_and(place, &["probe#append_approved"], &[])
}

/// A server of `tools` with more `options`, a caller and an approver.
fn of_approver_and(place: &Place, tools: &[&str], options: &[&str]) -> Web {
    let tokens = token_file(&place.home, "tokens", &format!("anna {ANNA}\n"));
    let approvers = token_file(&place.home, "approvers", &format!("cara {CARA}\n"));
    let more = [
        format!("--token-file={tokens}"),
        format!("--approver-token-file={approvers}"),
    ];
    let more: Vec<&str> = more
        .iter()
        .map(String::as_str)
        .chain(options.iter().copied())
        .collect();
    let arguments = Web::arguments(tools, place.options(&more));
    let arguments = arguments
        .into_iter()
        .map(|argument| argument.into_string().unwrap())
        .collect();
    let mut web = Web::run(place.toolcell(arguments));
    web.token = ANNA.to_owned();
    web
}

fn as_cara(web: &Web, line: &str, body: &str) -> Reply {
    web.request(line, &[("Authorization", &format!("Bearer {CARA}"))], body)
}

fn asked_channel(place: &Place, id: &str) -> Value {
    let record = place.run(&["show", id, "--json"]).exits(0).json();
    let mut events = record["events"].as_array().unwrap().iter();
    let asked = events.find(|event| event["event_type"] == "tool.permission.requested");
    asked.unwrap()["data"]["channel"].clone()
}

#[test]
fn an_approver_answers_about_the_calls_of_this_server_and_makes_none() {
    let place = Place::new();
    let web = of_approver(&place);
    let call = |line: &str| {
        web.begin_call(&json!({ "tool": "append_approved", "input": place.line(line) }))
    };
    let yes = call("yes");
    let no = call("no");
    let began = Instant::now();
    let questions = loop {
        let listed = as_cara(&web, "GET /v1/approvals", "").value();
        check_one("approvals-list", &listed);
        if listed["approvals"].as_array().unwrap().len() == 2 {
            break listed;
        }
        assert!(began.elapsed() < SOON, "{listed:#}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(
        questions["approvals"]
            .as_array()
            .unwrap()
            .iter()
            .all(|one| one["actor_ref"] == "token:anna")
    );
    assert_eq!(
        web.get(&format!("/v1/calls/{yes}")).value()["status"],
        "awaiting_approval"
    );
    let question = as_cara(&web, &format!("GET /v1/approvals/{yes}"), "").value();
    assert!(
        question["prompt"]
            .as_str()
            .unwrap()
            .contains("append_approved"),
        "{question:#}"
    );
    assert!(place.lines().is_empty());
    let answer = |id: &str, body: &str| as_cara(&web, &format!("POST /v1/approvals/{id}"), body);
    assert_eq!(
        answer(&yes, r#"{"approved": true}"#).value()["state"],
        "approved"
    );
    assert_eq!(
        answer(&no, r#"{"approved": false, "feedback": "not this"}"#).value()["state"],
        "rejected"
    );
    assert_eq!(web.ended(&yes)["status"], "succeeded");
    assert_eq!(
        asked_channel(&place, &yes),
        "any",
        "whoever sees the question"
    );
    assert_eq!(
        web.ended(&no)["result"]["error"]["error_class"],
        "approval_rejected"
    );
    assert_eq!(place.lines(), ["yes"]);
    answer(&yes, r#"{"approved": true}"#).is_problem(409, "request_closed");
    answer("01ARZ3NDEKTSV4RRFFQ69G5FAV", r#"{"approved": true}"#)
        .is_problem(404, "unknown_request");
    answer(&no, "{}").is_problem(400, "body_invalid");
    // Each role has its own routes.
    as_cara(&web, "POST /v1/calls", r#"{"tool": "append_approved"}"#)
        .is_problem(403, "not_a_caller");
    as_cara(&web, "GET /v1/tools", "").is_problem(403, "not_a_caller");
    assert_eq!(as_cara(&web, "POST /mcp", "{}").status, 401);
    assert_eq!(
        (
            as_cara(&web, "GET /metrics", "").status,
            web.get("/metrics").status
        ),
        (403, 404)
    );
}

#[test]
fn a_tool_that_names_http_takes_the_answer_of_an_approver_of_the_server() {
    let place = Place::new();
    let web = of_approver_and(&place, &[], &[&channelled(&place, "http")]);
    let waits = || {
        let id = web.begin_call(&json!({ "tool": "echo", "input": {} }));
        let began = Instant::now();
        while web.get(&format!("/v1/calls/{id}")).value()["status"] != "awaiting_approval" {
            assert!(began.elapsed() < SOON);
            std::thread::sleep(Duration::from_millis(20));
        }
        id
    };
    let id = waits();
    place.run(&["approvals", "approve", &id]).exits(3);
    let ended = web.ended(&id);
    assert_eq!(
        ended["result"]["error"]["error_code"], "approval_channel",
        "{ended:#}"
    );
    let id = waits();
    as_cara(
        &web,
        &format!("POST /v1/approvals/{id}"),
        r#"{"approved": true}"#,
    );
    assert_eq!(web.ended(&id)["status"], "succeeded");
    assert_eq!(asked_channel(&place, &id), "http");
}

#[test]
fn a_caller_approves_no_call() {
    let place = Place::new();
    let web = of_approver(&place);
    let id = web.begin_call(&json!({ "tool": "append_approved", "input": place.line("mine") }));
    let path = format!("/v1/approvals/{id}");
    web.get("/v1/approvals").is_problem(403, "not_an_approver");
    web.get(&path).is_problem(403, "not_an_approver");
    web.post(&path, &[], &json!({ "approved": true }))
        .is_problem(403, "not_an_approver");
    std::thread::sleep(Duration::from_millis(300));
    assert!(place.lines().is_empty());
    assert_eq!(
        web.request(&format!("DELETE /v1/calls/{id}"), &[], "")
            .status,
        202
    );
    assert_eq!(web.ended(&id)["status"], "canceled");
    // A question about a call of another door is not this approver's.
    let tool = format!("{}#append_approved", fixture("probe").display());
    let mut arguments = vec!["call".to_owned(), tool, place.line("other").to_string()];
    arguments.extend(
        place
            .options(&[])
            .into_iter()
            .filter(|option| option.starts_with("--allow")),
    );
    let mut other = place.toolcell(arguments).spawn();
    let began = Instant::now();
    let id = loop {
        let listed = place.run(&["approvals", "list", "--json"]).exits(0).json();
        if let Some(id) = listed["approvals"][0]["invocation_id"].as_str() {
            break id.to_owned();
        }
        assert!(
            other.try_wait().unwrap().is_none() && began.elapsed() < SOON,
            "nothing waits"
        );
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(
        as_cara(&web, "GET /v1/approvals", "").value()["approvals"],
        json!([])
    );
    as_cara(&web, &format!("GET /v1/approvals/{id}"), "").is_problem(404, "unknown_request");
    as_cara(
        &web,
        &format!("POST /v1/approvals/{id}"),
        r#"{"approved": true}"#,
    )
    .is_problem(404, "unknown_request");
    let _ = other.kill();
    let _ = other.wait();
}

#[test]
fn a_call_goes_on_without_its_request_while_it_waits_for_an_approver_only_if_there_is_room() {
    let place = Place::new();
    let options = ["--if-client-cannot-ask=return", "--timeout=2m"];
    let web = of_approver_and(
        &place,
        &["probe#append_approved", "probe#progress"],
        &options,
    );
    let asks = |line: &str| json!({ "tool": "append_approved", "input": place.line(line) });
    let left = web.post("/v1/calls", &[], &asks("left"));
    assert_eq!(
        (left.status, &left.value()["status"]),
        (202, &json!("awaiting_approval"))
    );
    (1..64).for_each(|_| _ = web.begin_call(&endless()));
    web.post("/v1/calls", &[("Prefer", "respond-async")], &endless())
        .is_problem(429, "too_many_open_calls");
    let questions = |count: usize| {
        let began = Instant::now();
        while as_cara(&web, "GET /v1/approvals", "").value()["approvals"]
            .as_array()
            .unwrap()
            .len()
            != count
        {
            assert!(began.elapsed() < SOON, "there are not {count} questions");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let waiting = web.begin("POST /v1/calls", &web.headers(), &asks("waits").to_string());
    questions(2);
    drop(waiting);
    questions(1);
    let id = left.value()["invocation_id"].as_str().unwrap().to_owned();
    assert_eq!(
        web.get(&format!("/v1/calls/{id}")).value()["status"],
        "awaiting_approval"
    );
    assert!(place.lines().is_empty());
}

#[test]
fn a_call_that_its_request_left_goes_on_in_a_later_process_once_it_is_approved() {
    let place = Place::new();
    let serve = || {
        of_approver_and(
            &place,
            &["probe#append_approved"],
            &["--if-client-cannot-ask=return"],
        )
    };
    let web = serve();
    let asks = |line: &str| json!({ "tool": "append_approved", "input": place.line(line) });
    let told = web.post("/v1/calls", &[], &asks("told"));
    assert_eq!(told.status, 202, "{told:?}");
    let told = told.value()["invocation_id"].as_str().unwrap().to_owned();
    let left = web.begin_call(&asks("left"));
    let began = Instant::now();
    while web.get(&format!("/v1/calls/{left}")).value()["status"] != "awaiting_approval" {
        assert!(began.elapsed() < SOON, "it does not ask");
        std::thread::sleep(Duration::from_millis(20));
    }
    web.end();
    let web = serve();
    for id in [told, left] {
        assert_eq!(
            web.get(&format!("/v1/calls/{id}")).value()["status"],
            "awaiting_approval"
        );
        let answered = as_cara(
            &web,
            &format!("POST /v1/approvals/{id}"),
            r#"{"approved": true}"#,
        );
        assert_eq!(answered.status, 200, "{answered:?}");
        assert_eq!(web.ended(&id)["status"], "succeeded");
    }
    assert_eq!(place.lines(), ["told", "left"]);
}

#[test]
fn a_token_is_for_a_caller_or_for_an_approver() {
    let (_guard, path) = scratch();
    let tokens = format!("anna {ANNA}\n");
    let both = format!("cara {ANNA}\n");
    let tokens = token_file(&path, "tokens", &tokens);
    let both = token_file(&path, "both", &both);
    let more = [
        format!("--token-file={tokens}"),
        format!("--approver-token-file={both}"),
    ];
    let ran = Toolcell::new(Web::arguments(&["probe#echo"], more))
        .run()
        .exits(2);
    assert!(
        ran.stderr.contains("cannot approve its own calls"),
        "{}",
        ran.stderr
    );
    let same = token_file(&path, "same", &format!("anna {CARA}\n"));
    let more = [
        format!("--token-file={tokens}"),
        format!("--approver-token-file={same}"),
    ];
    let ran = Toolcell::new(Web::arguments(&["probe#echo"], more))
        .run()
        .exits(2);
    assert!(
        ran.stderr
            .contains("cannot use the name anna for an approver"),
        "{}",
        ran.stderr
    );
}
