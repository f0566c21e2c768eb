//! Secrets and tokens that a request brings: they go to the origin that the operator granted, and no disk has them.
//!
//! Promise: A secret of a request is for its call alone.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::http_api::{ANNA, Api, Said, token_file};
use super::super::place::Place;
use super::{CANARY, SECRET, SOON, engine, output, prompt, request};
use crate::support::{Mirror, Reply, Toolcell, Web, check_record};

/// Wants a token; [`PLAIN`] a secret.
const TOOL: &str = "courier.authorized";
const PLAIN: &str = "courier.bearer";

/// A server of `courier#authorized` that logs all it can, with more `options`. No secret is set.
fn serving(place: &Place, options: &[String]) -> Web {
    serving_tools(place, &["courier#authorized"], options)
}

fn serving_tools(place: &Place, tools: &[&str], options: &[String]) -> Web {
    let tokens = token_file(&place.home, "tokens", &format!("anna {ANNA}\n"));
    let more = [
        format!("--token-file={tokens}"),
        format!("--record-to={}", place.home.join("records").display()),
    ];
    let arguments = Web::arguments(tools, more.iter().chain(options));
    let mut web = Web::run(Toolcell::at(&place.home, arguments).env("RUST_LOG", "trace"));
    web.token = ANNA.to_owned();
    web
}

/// Options that grant requests to `mirror`, with the secret.
fn grants(mirror: &Mirror) -> Vec<String> {
    vec![
        format!("--allow-net={}", mirror.origin()),
        format!("--allow-secret=API_KEY@{}", mirror.origin()),
    ]
}

fn send(web: &Web, dialect: &str, body: &Value) -> Reply {
    web.post(&format!("/v1/dialects/{dialect}/execute"), &[], body)
}

#[test]
fn a_secret_or_token_of_a_request_goes_to_the_granted_origin_alone() {
    let place = Place::new();
    let mirror = Mirror::reflecting();
    let other = Mirror::reflecting();
    let mut options = grants(&mirror);
    options.push(format!("--allow-net={}", other.origin()));
    let web = serving_tools(&place, &["courier#authorized", "courier#bearer"], &options);
    let value = CANARY.value();
    let contexts = [
        ("otc", TOOL, json!({ "authorization": { "token": value } })),
        (
            "otc-seed",
            PLAIN,
            json!({ "secrets": { "API_KEY": value, "OTHER": value } }),
        ),
        (
            "arcade",
            PLAIN,
            json!({ "secrets": [{ "key": "API_KEY", "value": value }] }),
        ),
    ];
    for (dialect, tool, context) in &contexts {
        for (id, server) in [("granted", &mirror), ("elsewhere", &other)] {
            let id = format!("{dialect} {id}");
            let mut body = request(&web, tool, &id, &json!({ "url": server.origin() }));
            body["context"] = context.clone();
            let reply = send(&web, dialect, &body);
            let value = output(&reply, dialect)["value"].to_string();
            assert_eq!(
                value.contains("[secret API_KEY]"),
                id.ends_with("granted"),
                "{value}"
            );
            CANARY.is_not_in("the answer", &reply.body);
            assert_eq!(
                send(&web, dialect, &body).body,
                reply.body,
                "the same execution"
            );
        }
    }
    let carried = mirror.seen();
    assert_eq!(carried.len(), contexts.len());
    let header = format!("\r\nauthorization: Bearer {value}\r\n");
    assert!(
        carried.iter().all(|request| request.contains(&header)),
        "{carried:#?}"
    );
    assert_eq!(other.seen().len(), contexts.len());
    CANARY.is_not_in("requests to elsewhere", &other.seen().concat());
    CANARY.is_not_in("what the server printed", &web.end());
    let records = place.records();
    records.iter().for_each(check_record);
    assert!(
        records
            .iter()
            .all(|record| record["invocation"]["request_secrets"] == json!(["API_KEY"]))
    );
    let ignored =
        |record: &&Value| record["invocation"]["external_mappings"][0]["ignored_secrets"] == 1;
    assert_eq!(
        (records.len(), records.iter().filter(ignored).count()),
        (6, 2)
    );
    CANARY.is_nowhere_below(&place.home);
}

#[test]
fn a_secret_that_the_operator_did_not_grant_or_the_tool_does_not_declare_goes_nowhere() {
    let place = Place::new();
    let mirror = Mirror::reflecting();
    let ask = |web: &Web, context: Value| {
        let mut body = request(web, TOOL, "one", &json!({ "url": mirror.origin() }));
        body["context"] = context;
        let reply = send(web, "otc", &body);
        CANARY.is_not_in("the answer", &reply.body);
        output(&reply, "otc")
    };
    let web = serving(&place, &grants(&mirror)[..1]);
    let refused = ask(
        &web,
        json!({ "authorization": { "token": CANARY.value() } }),
    );
    assert!(
        prompt(&refused).starts_with("permission_denied/not_granted"),
        "{refused:#}"
    );
    CANARY.is_not_in("what the server printed", &web.end());
    let web = serving(&place, &grants(&mirror));
    let asked = ask(&web, json!({ "secrets": { "OTHER": CANARY.value() } }));
    assert!(asked["requires_authorization"].is_object(), "{asked:#}");
    CANARY.is_not_in("what the server printed", &web.end());
    assert!(mirror.seen().is_empty());
    CANARY.is_nowhere_below(&place.home);
}

#[test]
fn an_engine_gets_the_definition_of_a_tool_whose_secret_it_brings() {
    let place = Place::new();
    let mirror = Mirror::reflecting();
    let secret = token_file(&place.home, "engine", &format!("{SECRET}\n"));
    let mut options = grants(&mirror);
    options.push(format!("--arcade-secret-file={secret}"));
    let web = serving(&place, &options);
    let right = engine(SECRET);
    let right = [("Authorization", right.as_str())];
    let listed = web.request("GET /worker/tools", &right, "").value();
    assert_eq!(
        (listed.as_array().unwrap().len(), &listed[0]["name"]),
        (1, &json!("authorized")),
        "{listed:#}"
    );
    assert_eq!(web.get("/v1/dialects/arcade/tools").value(), listed);
    assert_eq!(
        web.get("/v1/tools").value()["tools"],
        json!([]),
        "a call of the API brings no secret"
    );
    let body = json!({
        "tool": { "name": "authorized", "toolkit": "courier" }, "inputs": { "url": mirror.origin() },
        "context": { "authorization": { "token": CANARY.value() } },
    });
    let reply = web.post("/worker/tools/invoke", &right, &body);
    assert!(output(&reply, "arcade")["value"].is_object(), "{reply:?}");
    CANARY.is_not_in("the answer", &reply.body);
    assert!(mirror.seen()[0].contains(CANARY.value()));
}

#[test]
fn a_call_whose_process_ended_does_not_go_on_without_the_secrets_of_its_request() {
    let place = Place::new();
    let mirror = Mirror::reflecting();
    std::fs::write(
        place.home.join("toolcell.toml"),
        "[[rule]]\nbehavior = \"ask\"\ntool = \"courier.*\"\n",
    )
    .unwrap();
    let web = serving_tools(&place, &["courier#bearer"], &grants(&mirror));
    let mut body = request(&web, PLAIN, "one", &json!({ "url": mirror.origin() }));
    body["context"] = json!({ "secrets": { "API_KEY": CANARY.value() } });
    let waiting = web.begin(
        "POST /v1/dialects/otc/execute",
        &web.headers(),
        &body.to_string(),
    );
    let began = Instant::now();
    let id = loop {
        let listed = place.run(&["approvals", "list", "--json"]).exits(0).json();
        if let Some(id) = listed["approvals"][0]["invocation_id"].as_str() {
            break id.to_owned();
        }
        assert!(began.elapsed() < SOON, "nothing waits: {listed:#}");
        std::thread::sleep(Duration::from_millis(20));
    };
    CANARY.is_nowhere_below(&place.home);
    // Kills the server. The operator's own secret must not take the place of the caller's.
    drop((web, waiting));
    Toolcell::at(&place.home, ["secrets", "set", "API_KEY"])
        .stdin("the secret of the operator")
        .run()
        .exits(0);
    let ran = place.run(&["approvals", "approve", &id]);
    assert_ne!(ran.code, Some(0), "{ran:?}");
    assert!(mirror.seen().is_empty(), "{ran:?}");
    let shown = place
        .run(&["approvals", "show", &id, "--json"])
        .exits(0)
        .json();
    assert_eq!(
        shown["result"]["error"]["error_code"], "request_secrets_lost",
        "{shown:#}"
    );
    CANARY.is_nowhere_below(&place.home);
}
