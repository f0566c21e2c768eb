//! The status of a tool, and what agents report of it (OTC-D-16).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::http_api::{ANNA, Api, BERT, Said, of_two, token_file};
use super::super::place::Place;
use super::{DIALECTS, execute, request};
use crate::support::{Toolcell, Web, scratch};

/// A server for Anna and Bert with a log of calls of its own.
fn serving(place: &Place, tools: &[&str], option: &str) -> Web {
    let tokens = token_file(
        &place.home,
        "tokens",
        &format!("anna {ANNA}\nbert {BERT}\n"),
    );
    let options = [format!("--token-file={tokens}"), option.to_owned()];
    let mut web = Web::run(Toolcell::at(&place.home, Web::arguments(tools, options)));
    web.token = ANNA.to_owned();
    web
}

fn path(dialect: &str, tool: &str) -> String {
    format!("/v1/dialects/{dialect}/tools/{tool}/status")
}

#[test]
fn the_status_of_a_tool_says_whether_it_can_be_called_and_how_own_calls_ended() {
    let place = Place::new();
    let mut web = serving(&place, &["probe#echo", "probe#fail"], "--max-listed=1");
    for dialect in DIALECTS {
        let status = web.get(&path(dialect, "probe.echo"));
        let definition = web
            .get(&format!("/v1/dialects/{dialect}/tools/probe.echo"))
            .value();
        assert_eq!(
            (status.status, status.value()),
            (
                200,
                json!({
                    "id": definition["fully_qualified_name"], "available": true, "loading_state": "loaded", "recent_calls": {},
                })
            ),
            "{dialect}"
        );
    }
    let deferred = || web.get(&path("otc", "probe.fail")).value();
    let status = deferred();
    assert_eq!(
        (
            &status["available"],
            &status["loading_state"],
            &status["reason"]
        ),
        (
            &json!(false),
            &json!("deferred"),
            &json!("deferred_until_discovered")
        ),
        "{status:#}"
    );
    assert_eq!(deferred(), status, "a question loads nothing");
    assert_eq!(
        web.get("/v1/dialects/otc/tools/probe.fail").status,
        200,
        "its definition loads it"
    );
    assert_eq!(deferred()["available"], true);
    for id in ["1", "2"] {
        execute(&web, "otc", &request(&web, "probe.echo", id, &json!({})));
    }
    execute(
        &web,
        "otc",
        &request(
            &web,
            "probe.fail",
            "3",
            &json!({ "class": "execution_failed" }),
        ),
    );
    let counts = |web: &Web, tool: &str| -> BTreeMap<String, u32> {
        let status = web.get(&path("otc", tool)).value();
        serde_json::from_value(status["recent_calls"].clone()).unwrap()
    };
    assert_eq!(
        counts(&web, "probe.echo"),
        BTreeMap::from([("succeeded".to_owned(), 2)])
    );
    assert_eq!(
        counts(&web, "probe.fail"),
        BTreeMap::from([("failed".to_owned(), 1)])
    );
    web.token = BERT.to_owned();
    assert!(
        counts(&web, "probe.echo").is_empty(),
        "the calls of others are not counted"
    );
}

#[test]
fn a_report_of_an_agent_is_one_line_of_the_log_and_changes_nothing() {
    let message = "broke\n2026-01-01T00:00:00Z info \u{1b}[2J\u{202e} once";
    for form in ["--log=text", "--log=json"] {
        let place = Place::new();
        let web = serving(&place, &["probe#echo"], form);
        let before = web.get(&path("otc", "probe.echo")).value();
        for status in ["success", "failure"] {
            let body = json!({ "status": status, "message": message });
            let reply = web.post(&path("otc", "probe.echo"), &[], &body);
            assert_eq!(
                (reply.status, reply.value()),
                (202, json!({ "id": before["id"], "status": "acknowledged" }))
            );
            let line = web.says(status);
            assert!(
                line.contains("once") && !line.contains(['\u{1b}', '\u{202e}']),
                "{line}"
            );
            let level = if status == "success" {
                "info"
            } else {
                "warning"
            };
            if form == "--log=json" {
                let mut said: Value = serde_json::from_str(&line).unwrap();
                said.as_object_mut().unwrap().remove("time");
                assert_eq!(
                    said,
                    json!({
                        "level": level, "event": "report", "tool": "probe.echo", "caller": "token:anna",
                        "status": status, "message": message,
                    })
                );
            } else {
                let start = format!(" {level} report on probe.echo by token:anna: {status}: broke");
                assert!(line.contains(&start), "{line}");
            }
        }
        let silent = web.post(
            &path("arcade", "probe.echo"),
            &[],
            &json!({ "status": "success" }),
        );
        assert_eq!(silent.status, 202, "{silent:?}");
        assert_eq!(web.get(&path("otc", "probe.echo")).value(), before);
    }
}

#[test]
fn a_status_has_the_limits_and_problems_of_the_other_routes() {
    let boss = "6f1d1c2b7a9e4d508e3f";
    let (_guard, folder) = scratch();
    let approvers = token_file(&folder, "approvers", &format!("boss {boss}\n"));
    let web = of_two(
        &["probe#echo"],
        &[&format!("--approver-token-file={approvers}")],
    );
    let echo = path("otc", "probe.echo");
    let report = |message: usize| {
        web.post(
            &echo,
            &[],
            &json!({ "status": "failure", "message": "x".repeat(message) }),
        )
    };
    assert_eq!(report(1_024).status, 202);
    report(1_025).is_problem(400, "body_invalid");
    for body in [
        json!({ "status": "broken" }),
        json!({}),
        json!(["success"]),
        json!({ "status": "success", "message": 1 }),
    ] {
        web.post(&echo, &[], &body).is_problem(400, "body_invalid");
    }
    let good = json!({ "status": "success" });
    for (path, code) in [
        (path("otc", "probe.nothing"), "unknown_tool"),
        (path("unknown", "probe.echo"), "unknown_path"),
    ] {
        web.get(&path).is_problem(404, code);
        web.post(&path, &[], &good).is_problem(404, code);
    }
    for (authorization, status, code) in [
        (String::new(), 401, "unauthorized"),
        (format!("Bearer {boss}"), 403, "not_a_caller"),
    ] {
        let headers = [("Authorization", authorization.as_str())];
        web.request(&format!("GET {echo}"), &headers, "")
            .is_problem(status, code);
        web.post(&echo, &headers, &good).is_problem(status, code);
    }
    web.request(
        &format!("POST {echo}"),
        &[("Content-Type", "text/plain")],
        "{}",
    )
    .is_problem(415, "media_type_unsupported");
    web.request(&format!("PUT {echo}"), &[], "")
        .is_problem(405, "method_not_allowed");
    let document = web.get("/v1/openapi.json").value();
    let listed = &document["paths"]["/v1/dialects/{dialect}/tools/{name}/status"];
    assert_eq!(
        (
            &listed["get"]["responses"]["200"]["content"]["application/json"]["schema"]["$ref"],
            &listed["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        ),
        (
            &json!("#/components/schemas/ToolStatusDocument"),
            &json!("#/components/schemas/ToolReport")
        )
    );
}
