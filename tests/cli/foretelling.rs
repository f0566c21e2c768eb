//! `toolcell policy check` and `explain` predict exactly the outcome of `toolcell call`.
//!
//! Promise: `policy check` and `call` agree.
//! Promise: All interfaces give the same verdict.

use serde_json::{Value, json};

use super::guest;
use super::policy::Place;
use crate::support::{Ran, Server, fixture};

/// Runs `tool` with `input` as a call and as a prediction of it.
fn both(place: &Place, tool: &str, input: &Value, options: &[&str]) -> (Ran, Ran) {
    let tool = guest(tool);
    let input = input.to_string();
    let run =
        |command: &[&str]| place.run(&[command, &[&tool, &input, "--json"], options].concat());
    (run(&["call"]), run(&["policy", "check"]))
}

fn explained(place: &Place, tool: &str, input: &Value, options: &[&str]) -> (Value, String) {
    let tool = guest(tool);
    let input = input.to_string();
    let run = |more: &[&str]| {
        place.run(
            &[
                &["policy", "check", "--explain", &tool, &input],
                options,
                more,
            ]
            .concat(),
        )
    };
    (run(&["--json"]).json(), run(&[]).stdout)
}

fn code(ran: &Ran) -> String {
    ran.json()["error"]["error_code"]
        .as_str()
        .unwrap_or("none")
        .to_owned()
}

#[test]
fn a_hook_that_is_missing_refuses_what_it_would_block() {
    let missing = |more: &str| format!("[[hook]]\ncomponent = \"gone.wasm\"\n{more}\n");
    let place = Place::new().user(&missing(""));
    let (called, checked) = both(&place, "probe#echo", &json!({}), &[]);
    assert_eq!(
        (code(&called.exits(3)), code(&checked.exits(3))),
        ("hook_not_loaded".into(), "hook_not_loaded".into())
    );
    for (more, why) in [
        ("on_failure = \"warn\"", "warns only"),
        ("matcher = { tool = \"files.*\" }", "fits others"),
    ] {
        let place = Place::new().user(&missing(more));
        let (called, checked) = both(&place, "probe#echo", &json!({}), &[]);
        assert_eq!(
            (called.code, checked.code),
            (Some(0), Some(0)),
            "{why}: {checked:?}"
        );
    }
    let place = Place::new().user(&missing("").repeat(2));
    let (called, checked) = both(&place, "probe#echo", &json!({}), &[]);
    assert_eq!(
        (called.code, checked.code),
        (Some(2), Some(2)),
        "two hooks with one name"
    );
}

#[test]
fn the_hooks_that_would_be_heard_are_named_and_not_asked() {
    let hook = |id: &str, more: &str| {
        format!(
            "[[hook]]\nid = {id:?}\ncomponent = {:?}\ntimeout = \"20s\"\n{more}\n",
            fixture("hooks")
        )
    };
    let text = [
        hook("early", "events = [\"pre_tool_use\"]"),
        hook("all", ""),
        hook("other", "matcher = { tool = \"files.*\" }"),
    ];
    let place = Place::new().user(&text.concat());
    let input = json!({"hook": {"pre_tool_use": [{"stop": "the hook was asked"}]}});
    let (json, people) = explained(&place, "probe#echo", &input, &[]);
    assert_eq!(json["behavior"], "allow");
    assert_eq!(
        json["hooks"][0],
        json!({"hook_id": "early", "events": ["pre_tool_use"]})
    );
    assert_eq!(json["hooks"][1]["hook_id"], "all");
    assert_eq!(json["hooks"].as_array().unwrap().len(), 2, "{json}");
    assert!(
        people.contains("the hook early would be heard at: pre_tool_use"),
        "{people}"
    );
    assert!(!people.contains("other"), "{people}");
    let checked = place
        .run(&["policy", "check", &guest("probe#echo"), &input.to_string()])
        .exits(0)
        .stdout;
    assert!(
        checked.contains("hooks can still stop it: early, all"),
        "{checked}"
    );
}

#[test]
fn the_tools_own_checks_speak_before_the_decision() {
    let place = Place::new();
    let (called, checked) = both(&place, "validated#even", &json!({"n": 1}), &[]);
    assert_eq!(
        (code(&called.exits(2)), code(&checked.exits(2))),
        ("odd_number".into(), "odd_number".into())
    );
    let (called, checked) = both(&place, "validated#even", &json!({"n": 2}), &[]);
    called.exits(0);
    checked.exits(0);
}

#[test]
fn what_was_approved_for_a_session_is_said_not_to_be_looked_up() {
    let place = Place::new().user("[[rule]]\nbehavior = \"ask\"\ntool = \"probe.echo\"\n");
    let check = |more: &[&str]| {
        place
            .run(&[&["policy", "check", &guest("probe#echo"), "{}"], more].concat())
            .exits(6)
    };
    assert!(
        check(&[])
            .stdout
            .contains("approved for its session before is not looked up")
    );
    assert_eq!(check(&["--json"]).json()["session_rules"], "not_looked_up");
}

#[test]
fn the_network_and_the_secrets_of_a_call_are_shown_in_both_forms() {
    let server = Server::hello();
    let rule = format!(
        "[[rule]]\nbehavior = \"deny\"\nurl = {:?}\n",
        server.url("/admin")
    );
    let place = Place::new().user(&rule);
    let net = server.url("");
    let secret = format!("API_KEY@{}", server.url(""));
    place.secret("API_KEY", "a value of thirty characters..");
    let options = [
        &format!("--allow-net={net}") as &str,
        "--deny-net=evil.test",
        &format!("--allow-secret={secret}"),
    ];
    let (json, people) = explained(
        &place,
        "courier#header",
        &json!({ "url": server.url("/a") }),
        &options,
    );
    let capability = &json["capability"];
    assert_eq!(
        capability["network"],
        json!([format!("GET+HEAD+OPTIONS@{net}")]),
        "{json:#}"
    );
    assert_eq!(capability["network_denied"], json!(["*://evil.test:*"]));
    assert_eq!(capability["closed_urls"], json!([server.url("/admin")]));
    assert_eq!(
        capability["secrets"],
        json!([{ "name": "API_KEY", "origin": net, "header": "x-custom-key" }])
    );
    for line in [
        format!("may send requests to: GET+HEAD+OPTIONS@{net}\n"),
        "may not send requests to: *://evil.test:*\n".to_owned(),
        format!("may not send requests to: {}\n", server.url("/admin")),
        format!("requests to {net} carry the secret: API_KEY\n"),
    ] {
        assert!(people.contains(&line), "{line}: {people}");
    }
    assert!(!people.contains("thirty") && server.connections() == 0);
}
