//! Open Tool Calling over HTTP, an Arcade engine's worker, and the registry of agentool: the calls of `/v1/calls` in other
//! terms.

mod secrets;
mod status;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use data_encoding::BASE64URL_NOPAD;
use ring::hmac;
use serde_json::{Value, json};

use super::http_api::{ANNA, Api, BERT, Said, of_two, token_file};
use super::place::Place;
use crate::support::{
    Canary, Mirror, Reply, Toolcell, Web, check_one, check_record, fixture, records, scratch,
};

const DIALECTS: [&str; 3] = ["otc", "otc-seed", "arcade"];
const CANARY: Canary = Canary::new("sk-live-8c1f-of-one-engine-alone");
/// Longer than any step takes on a busy machine.
const SOON: Duration = Duration::from_secs(20);
const SECRET: &str = "the secret of this engine";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// The version of a tool's component, as its definition says it.
#[track_caller]
fn version(web: &Web, name: &str) -> String {
    let reply = web.get(&format!("/v1/dialects/otc/tools/{name}"));
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.value()["toolkit"]["version"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// A request that executes `Toolkit.Tool`.
fn request(web: &Web, name: &str, id: &str, inputs: &Value) -> Value {
    let (toolkit, tool) = name.split_once('.').unwrap();
    json!({
        "run_id": "run-1", "execution_id": id, "created_at": "2026-01-01T00:00:00Z",
        "tool": { "name": tool, "toolkit": toolkit, "version": version(web, name) }, "inputs": inputs, "context": {},
    })
}

/// Checks a response of Open Tool Calling, and returns its output.
#[track_caller]
fn output(reply: &Reply, dialect: &str) -> Value {
    assert_eq!(
        (reply.status, reply.header("content-type").as_deref()),
        (200, Some("application/json")),
        "{reply:?}"
    );
    let response = reply.value();
    check_one(
        if dialect == "arcade" {
            "otc/arcade-tool-call-response"
        } else {
            "otc/execute-tool-response"
        },
        &response,
    );
    response["output"].clone()
}

#[track_caller]
fn execute(web: &Web, dialect: &str, body: &Value) -> Value {
    output(
        &web.post(&format!("/v1/dialects/{dialect}/execute"), &[], body),
        dialect,
    )
}

/// What the model reads of an error: its class, its code and a hint.
fn prompt(output: &Value) -> &str {
    output["error"]["additional_prompt_content"]
        .as_str()
        .unwrap_or_default()
}

/// What an engine sends as `Authorization`.
fn engine(secret: &str) -> String {
    let part = |value: Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let expiry = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(600);
    let claims = json!({ "aud": "worker", "exp": expiry.as_secs(), "ver": "1" });
    let signed = format!(
        "{}.{}",
        part(json!({ "alg": "HS256", "typ": "JWT" })),
        part(claims)
    );
    let tag = hmac::sign(
        &hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()),
        signed.as_bytes(),
    );
    format!("Bearer {signed}.{}", BASE64URL_NOPAD.encode(tag.as_ref()))
}

#[test]
fn tools_are_defined_in_each_format() {
    let web = Web::of(&["probe#echo", "probe#fail"]);
    for dialect in DIALECTS {
        let path = format!("/v1/dialects/{dialect}/tools");
        let listed = web.get(&path).value();
        let kind = if dialect == "arcade" {
            "otc/arcade-tool-definition"
        } else {
            "otc/tool-definition"
        };
        let [echo, fail] = listed.as_array().unwrap().as_slice() else {
            panic!("{listed:#}")
        };
        check_one(kind, echo);
        check_one(kind, fail);
        let name = echo["fully_qualified_name"].as_str().unwrap();
        assert_eq!(web.get(&format!("{path}/{name}")).value(), *echo);
        // These are no executions, so they are not answered as one.
        web.get(&format!("{path}/probe.nothing"))
            .is_problem(404, "unknown_tool");
        let registered = web.post(&path, &[], echo);
        assert_eq!(
            (registered.status, &registered.value()["id"]),
            (201, &echo["fully_qualified_name"]),
            "{registered:?}"
        );
        let place = registered.header("location").unwrap();
        assert_eq!(web.get(&place).value(), *echo);
        let mut other = echo.clone();
        other["toolkit"]["version"] = json!(format!("sha256:{}", "0".repeat(64)));
        other
            .as_object_mut()
            .unwrap()
            .retain(|field, _| !matches!(field.as_str(), "fully_qualified_name" | "id"));
        web.post(&path, &[], &other)
            .is_problem(403, "may_not_install");
        web.get(&format!("/v1/dialects/{dialect}/authorizations/none"))
            .is_problem(404, "unknown_authorization");
    }
    web.get("/v1/dialects/unknown/tools")
        .is_problem(404, "unknown_path");
    web.request("GET /v1/dialects/otc/tools", &[("Authorization", "")], "")
        .is_problem(401, "unauthorized");
    web.request("PUT /v1/dialects/otc/execute", &[], "")
        .is_problem(405, "method_not_allowed");
}

#[test]
fn a_deferred_tool_is_listed_once_its_definition_was_asked_for() {
    let web = Web::with(&["probe#echo", "probe#fail"], ["--max-listed=1"]);
    let names = || {
        let listed = web.get("/v1/dialects/otc/tools").value();
        listed
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let before = names();
    let other = if before.contains(&"echo".to_owned()) {
        "probe.fail"
    } else {
        "probe.echo"
    };
    // The error says how it is loaded.
    let mut early = request(&web, &format!("probe.{}", before[0]), "early", &json!({}));
    early["tool"]["name"] = json!(other.trim_start_matches("probe."));
    let refused = execute(&web, "otc", &early);
    assert!(prompt(&refused).starts_with("schema_not_loaded/"));
    let message = refused["error"]["message"].as_str().unwrap();
    let path = format!("/v1/tools/{other}");
    assert!(
        message.contains(&format!("GET {path} ")) && message.contains(&format!("select:{other}")),
        "{message}"
    );
    assert_eq!(web.get(&path).status, 200);
    early["execution_id"] = json!("later");
    let later = execute(&web, "otc", &early);
    assert!(!prompt(&later).contains("schema_not_loaded"), "{later:#}");
    assert_eq!(names().len(), before.len() + 1);
    let tools = web.get("/v1/tools").value();
    assert_eq!(
        tools["tools"].as_array().unwrap().len(),
        before.len() + 1,
        "the API has the same surface"
    );
}

#[test]
fn an_execution_ends_in_a_value_nothing_an_artifact_or_an_error() {
    let web = Web::of(&[
        "probe#good_structured",
        "probe#null",
        "probe#say_by_reference",
        "probe#fail",
    ]);
    let run = |name: &str, inputs: Value| execute(&web, "otc", &request(&web, name, name, &inputs));
    assert_eq!(
        run("probe.good_structured", json!({})),
        json!({ "value": { "n": 7 } })
    );
    assert_eq!(run("probe.null", json!({})), Value::Null);
    let content = json!([{ "type": "text", "text": "kept" }]);
    assert!(run("probe.say_by_reference", json!({ "content": content }))["artifact"].is_object());
    let failed = run("probe.fail", json!({ "class": "invalid_arguments" }));
    assert!(
        prompt(&failed).starts_with("invalid_arguments/") && failed["error"]["can_retry"] == true,
        "{failed:#}"
    );
    // What does not fit the schema of the tool is a call that failed.
    let wrong = execute(
        &web,
        "otc-seed",
        &request(&web, "probe.fail", "wrong", &json!({})),
    );
    let classes = ["schema_validation_failed/", "invalid_arguments/"];
    assert!(
        classes
            .iter()
            .any(|class| prompt(&wrong).starts_with(class)),
        "{wrong:#}"
    );
    let mut other = request(&web, "probe.null", "another", &json!({}));
    other["tool"]["version"] = json!(format!("sha256:{}", "0".repeat(64)));
    assert!(prompt(&execute(&web, "otc", &other)).starts_with("unknown_tool/version_mismatch"));
    for body in ["", "[]", r#"{"tool": "probe.null"}"#] {
        web.request("POST /v1/dialects/otc/execute", &[], body)
            .is_problem(400, "protocol_error");
    }
    web.post(
        "/v1/dialects/otc/execute",
        &[("Content-Type", "text/plain")],
        &other,
    )
    .is_problem(415, "media_type_unsupported");
}

#[test]
fn the_url_of_an_artifact_gives_its_bytes_to_the_caller_of_the_tool_alone() {
    let mut web = of_two(&["probe#say_by_reference"], &[]);
    let here = format!("http://{}", web.address);
    let inputs = json!({ "content": [{ "type": "text", "text": "kept" }] });
    for dialect in DIALECTS {
        let said = execute(
            &web,
            dialect,
            &request(&web, "probe.say_by_reference", dialect, &inputs),
        );
        let artifact = artifact(&said);
        let path = artifact["url"]
            .as_str()
            .unwrap()
            .strip_prefix(&here)
            .unwrap()
            .to_owned();
        let got = web.get(&path);
        assert_eq!(
            (got.status, got.header("content-type").as_deref()),
            (200, artifact["content_type"].as_str())
        );
        assert!(
            json!(got.body.len()) == artifact["size"] && got.body.contains("kept"),
            "{got:?}"
        );
        assert_eq!(
            got.header("x-content-type-options").as_deref(),
            Some("nosniff")
        );
        web.token = BERT.to_owned();
        web.get(&path).is_problem(404, "unknown_call");
        web.token = ANNA.to_owned();
        web.request(&format!("GET {path}"), &[("Authorization", "")], "")
            .is_problem(401, "unauthorized");
    }
}

/// The artifact in an output, wherever the format has it.
#[track_caller]
fn artifact(output: &Value) -> Value {
    let places = ["/artifact", "/value/artifact"];
    places
        .iter()
        .find_map(|place| output.pointer(place))
        .unwrap_or_else(|| panic!("{output:#}"))
        .clone()
}

#[test]
fn an_error_tells_developers_which_call_it_was_and_the_code_of_the_host() {
    let web = Web::of(&["hostile#panic", "probe#fail"]);
    let said = |name: &str, inputs: Value| {
        let failed = execute(&web, "otc", &request(&web, name, name, &inputs));
        failed["error"]["developer_message"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let trap = said("hostile.panic", json!({}));
    assert!(
        trap.contains("hostile.panic (sha256:") && trap.contains("execution_failed/guest_panicked"),
        "{trap}"
    );
    // What the engine said and the tool printed is the operator's.
    assert!(
        !trap.contains("panicked at") && !trap.contains("unreachable"),
        "{trap}"
    );
    let call = said("probe.fail", json!({ "class": "invalid_arguments" }));
    let id = call.split(' ').nth(1).unwrap();
    assert_eq!(
        web.get(&format!("/v1/calls/{id}")).value()["tool_id"],
        "probe.fail",
        "{call}"
    );
}

#[test]
fn an_execution_runs_once_for_its_own_principal() {
    let (_guard, path) = scratch();
    let file = path.join("records");
    let mut web = of_two(
        &["probe#progress"],
        &[&format!("--record-to={}", file.display())],
    );
    let body = request(
        &web,
        "probe.progress",
        "one",
        &json!({ "count": 3, "interval_ms": 200 }),
    );
    let waiting = web.begin(
        "POST /v1/dialects/otc/execute",
        &web.headers(),
        &body.to_string(),
    );
    std::thread::sleep(Duration::from_millis(300));
    // Its client comes back for the answer.
    drop(waiting);
    let first = web.post("/v1/dialects/otc/execute", &[], &body);
    output(&first, "otc");
    assert_eq!(
        web.post("/v1/dialects/otc/execute", &[], &body).value(),
        first.value()
    );
    let mut other = body.clone();
    other["inputs"]["count"] = json!(1);
    let reused = web.post("/v1/dialects/otc/execute", &[], &other);
    assert!(
        reused.status == 409 && reused.body.contains("execution_id_reused"),
        "{reused:?}"
    );
    web.post(
        "/v1/dialects/otc/execute",
        &[("Authorization", "Bearer 00000000000000000")],
        &body,
    )
    .is_problem(401, "unauthorized");
    web.token = BERT.to_owned();
    output(&web.post("/v1/dialects/otc/execute", &[], &other), "otc");
    web.end();
    let actors: Vec<Value> = records(&file)
        .iter()
        .map(|record| record["invocation"]["actor_ref"].clone())
        .collect();
    assert_eq!(actors, ["token:anna", "token:bert"]);
}

/// A record without what differs from call to call.
fn stable(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let differs = |name: &str| name.ends_with("_id") || name.ends_with("_at");
            let fields = fields.iter().filter(|(name, _)| !differs(name));
            Value::Object(
                fields
                    .map(|(name, value)| (name.clone(), stable(value)))
                    .collect(),
            )
        }
        Value::Array(items) => Value::Array(items.iter().map(stable).collect()),
        other => other.clone(),
    }
}

#[test]
fn a_call_has_the_decision_limits_and_trace_of_the_api() {
    let (_guard, path) = scratch();
    let file = path.join("records");
    let options = [
        format!("--record-to={}", file.display()),
        "--timeout=1s".to_owned(),
    ];
    let web = Web::with(&["probe#progress"], options);
    let inputs = json!({ "count": 10_000, "interval_ms": 100 });
    let parent = format!("00-{TRACE}-b7ad6b7169203331-01");
    let trace = [("traceparent", parent.as_str()), ("tracestate", "vendor=1")];
    let api = web.post(
        "/v1/calls",
        &trace,
        &json!({ "tool": "progress", "input": inputs }),
    );
    assert_eq!(api.status, 504, "{api:?}");
    let mut body = request(&web, "probe.progress", "one", &inputs);
    body["context"]["user_id"] = json!("user-7");
    body["context"]["user_info"] = json!({ "name": "Anna", "roles": ["a"] });
    let ended = output(&web.post("/v1/dialects/otc/execute", &trace, &body), "otc");
    assert!(prompt(&ended).starts_with("timeout/"), "{ended:#}");
    web.end();
    let records = records(&file);
    records.iter().for_each(check_record);
    let [api, otc] = records.as_slice() else {
        panic!("{} records", records.len())
    };
    for part in [
        "/declaration",
        "/decisions",
        "/invocation/status",
        "/result/error/error_class",
        "/result/error/error_code",
    ] {
        assert_eq!(
            api.pointer(part).map(stable),
            otc.pointer(part).map(stable),
            "{part}"
        );
    }
    assert_eq!(
        (
            api["decisions"][0]["behavior"].is_string(),
            &api["invocation"]["status"]
        ),
        (true, &json!("timed_out"))
    );
    for record in [api, otc] {
        let reference = &record["invocation"]["telemetry_refs"][0];
        assert_eq!(
            (&reference["trace_id"], &reference["trace_state"]),
            (&json!(TRACE), &json!("vendor=1"))
        );
    }
    let (invocation, mapping) = (
        &otc["invocation"],
        &otc["invocation"]["external_mappings"][0],
    );
    assert_eq!(
        (&invocation["native_call_id"], &mapping["source"]),
        (&json!("one"), &json!("open-tool-calling"))
    );
    assert_eq!(
        (&mapping["run_id"], &mapping["user_id"]),
        (&json!("run-1"), &json!("user-7"))
    );
    assert_eq!(
        mapping["user_info"],
        json!({ "name": "Anna", "roles": ["a"] })
    );
    assert_eq!(invocation["actor_ref"], api["invocation"]["actor_ref"]);
    assert_eq!(
        invocation["actor_refs"],
        json!([{ "actor_ref": "user-7", "relation": "claimed_user" }])
    );
}

/// A server of `courier#authorized` for Anna and Bert, and what the tool sends requests to. Its secret is granted, and not set.
fn courier(place: &Place) -> (Web, Mirror) {
    let mirror = Mirror::reflecting();
    let origin = mirror.origin();
    let options = [
        format!(
            "--token-file={}",
            token_file(
                &place.home,
                "tokens",
                &format!("anna {ANNA}\nbert {BERT}\n")
            )
        ),
        format!("--record-to={}", place.home.join("records").display()),
        format!("--allow-net={origin}"),
        format!("--allow-secret=API_KEY@{origin}"),
    ];
    let mut web = Web::run(Toolcell::at(
        &place.home,
        Web::arguments(&["courier#authorized"], options),
    ));
    web.token = ANNA.to_owned();
    (web, mirror)
}

#[test]
fn an_execution_waits_for_the_secret_that_the_operator_sets() {
    let place = Place::new();
    let (mut web, mirror) = courier(&place);
    let url = format!("{}/path", mirror.origin());
    let mut body = request(&web, "courier.authorized", "one", &json!({ "url": url }));
    body["context"]["user_info"] = json!({ "name": "Anna" });
    let asked = execute(&web, "otc", &body)["requires_authorization"].clone();
    let id = asked["id"].as_str().unwrap();
    let path = format!("/v1/dialects/otc/authorizations/{id}");
    // A person without a token reads there what to do.
    let page = format!("/authorizations/{id}");
    assert_eq!(
        (&asked["status"], &asked["url"]),
        (
            &json!("pending"),
            &json!(format!("http://{}{page}", web.address))
        )
    );
    let read = |path: &str| web.request(&format!("GET {path}"), &[("Authorization", "")], "");
    let shown = read(&page);
    assert!(
        shown.status == 200
            && shown.body.contains("Authorization: pending")
            && shown.body.contains("toolcell secrets set API_KEY"),
        "{shown:?}"
    );
    assert_eq!(read("/authorizations/none").status, 404);
    let poll = web.get(&path).value();
    check_one("otc/authorization", &poll);
    assert_eq!(poll, asked);
    web.token = BERT.to_owned();
    assert_eq!(
        web.get(&path).status,
        404,
        "another principal does not see it"
    );
    web.token = ANNA.to_owned();
    Toolcell::at(&place.home, ["secrets", "set", "API_KEY"])
        .stdin(CANARY.value())
        .run()
        .exits(0);
    assert_eq!(web.get(&path).value()["status"], "completed");
    let shown = web.request(&format!("GET {page}"), &[("Authorization", "")], "");
    assert!(shown.body.contains("Authorization: completed"), "{shown:?}");
    CANARY.is_not_in("the page", &shown.body);
    let done = web.post("/v1/dialects/otc/execute", &[], &body);
    // Its profile asks for what the client says of its user.
    let value = output(&done, "otc")["value"].clone();
    let context = value["surroundings"]["context"].as_str().unwrap();
    assert_eq!(context, r#"{"user_info":{"name":"Anna"}}"#);
    CANARY.is_not_in("the answer", &done.body);
    assert!(
        mirror
            .seen()
            .iter()
            .any(|request| request.contains(CANARY.value())),
        "the request carried it"
    );
    web.end();
    let classes: Vec<Value> = place
        .records()
        .iter()
        .map(|record| record["result"]["error"]["error_class"].clone())
        .collect();
    assert_eq!(classes, [json!("credential_missing"), Value::Null]);
}

#[test]
fn an_authorization_fails_if_the_operator_takes_the_grant_back() {
    let place = Place::new();
    let mirror = Mirror::reflecting();
    let origin = mirror.origin();
    let file = place.home.join("granting.toml");
    let grants = format!("[grants]\nnet = [\"{origin}\"]\n");
    let secret = format!("{grants}secret = [\"API_KEY@{origin}\"]\n");
    std::fs::write(&file, secret).unwrap();
    let options = [format!("--config={}", file.display())];
    let web = Web::run(Toolcell::at(
        &place.home,
        Web::arguments(&["courier#authorized"], options),
    ));
    let inputs = json!({ "url": format!("{origin}/path") });
    let body = request(&web, "courier.authorized", "one", &inputs);
    let asked = execute(&web, "otc", &body)["requires_authorization"].clone();
    let id = asked["id"].as_str().unwrap();
    let next = file.with_extension("next");
    std::fs::write(&next, grants).unwrap();
    std::fs::rename(next, file).unwrap();
    let began = Instant::now();
    let status = || {
        let poll = web.get(&format!("/v1/dialects/otc/authorizations/{id}"));
        check_one("otc/authorization", &poll.value());
        poll.value()["status"].clone()
    };
    while status() != "failed" {
        assert!(began.elapsed() < SOON, "{}", status());
        std::thread::sleep(Duration::from_millis(50));
    }
    let page = web.get(&format!("/authorizations/{id}"));
    assert!(page.body.contains("Authorization: failed"), "{page:?}");
}

#[test]
fn an_arcade_engine_calls_with_its_own_token_alone() {
    let (_guard, path) = scratch();
    let file = path.join("records");
    let secret = token_file(&path, "secret", &format!("{SECRET}\n"));
    let web = of_two(
        &["probe#echo", "probe#good_structured"],
        &[
            &format!("--record-to={}", file.display()),
            &format!("--arcade-secret-file={secret}"),
            "--max-listed=1",
        ],
    );
    let health = web
        .request("GET /worker/health", &[("Authorization", "")], "")
        .value();
    check_one("otc/worker-health", &health);
    assert_eq!(
        health["tool_count"], "2",
        "no tool is deferred for an engine"
    );
    let body = json!({ "tool": { "name": "good_structured", "toolkit": "probe" }, "inputs": {}, "context": {} });
    let right = engine(SECRET);
    for wrong in [
        "",
        &format!("Bearer {ANNA}"),
        &engine("another secret of an engine"),
        &right[..right.len() - 2],
    ] {
        let wrong = [("Authorization", wrong)];
        for reply in [
            web.request("GET /worker/tools", &wrong, ""),
            web.post("/worker/tools/invoke", &wrong, &body),
        ] {
            reply.is_problem(401, "unauthorized");
            assert_eq!(
                reply.header("www-authenticate").as_deref(),
                Some("Bearer"),
                "{wrong:?}"
            );
        }
    }
    let right = [("Authorization", right.as_str())];
    web.request("GET /v1/tools", &right, "")
        .is_problem(401, "unauthorized");
    web.request("GET /worker/nothing", &right, "")
        .is_problem(404, "unknown_path");
    let listed = web.request("GET /worker/tools", &right, "").value();
    assert_eq!(listed.as_array().unwrap().len(), 2);
    listed
        .as_array()
        .unwrap()
        .iter()
        .for_each(|tool| check_one("otc/arcade-tool-definition", tool));
    for _ in 0..2 {
        let ended = output(&web.post("/worker/tools/invoke", &right, &body), "arcade");
        assert_eq!(ended["value"], json!({ "n": 7 }));
    }
    let document = web.get("/v1/openapi.json").value();
    assert!(document["paths"]["/worker/tools/invoke"].is_object());
    web.end();
    let records = records(&file);
    assert_eq!(
        records.len(),
        2,
        "a request without an id is a call of its own"
    );
    records.iter().for_each(check_record);
    assert_eq!(records[0]["invocation"]["actor_ref"], "arcade:engine");
    assert_eq!(
        records[0]["invocation"]["external_mappings"][0]["method"],
        "POST /worker/tools/invoke"
    );
}

#[test]
fn a_call_without_an_id_ends_with_its_request() {
    let (_guard, path) = scratch();
    let file = path.join("records");
    let web = Web::with(
        &["probe#progress"],
        [format!("--record-to={}", file.display())],
    );
    let inputs = json!({ "count": 10_000, "interval_ms": 100 });
    let body = json!({ "tool": { "name": "progress", "toolkit": "probe" }, "inputs": inputs, "context": {} });
    let waiting = web.begin(
        "POST /v1/dialects/arcade/execute",
        &web.headers(),
        &body.to_string(),
    );
    std::thread::sleep(Duration::from_millis(500));
    drop(waiting);
    let began = Instant::now();
    while std::fs::read_to_string(&file)
        .unwrap_or_default()
        .is_empty()
    {
        assert!(
            began.elapsed() < SOON,
            "the call runs on, and no client can find it again"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    web.end();
    assert_eq!(records(&file)[0]["invocation"]["status"], "canceled");
}

#[test]
fn a_server_is_no_worker_without_a_secret_that_only_its_owner_reads() {
    let web = Web::of(&["probe#echo"]);
    assert_eq!(web.request("GET /worker/health", &[], "").status, 404);
    let (_guard, path) = scratch();
    let refused = |file: &str| {
        let option = format!("--arcade-secret-file={file}");
        Toolcell::new(Web::arguments(&["probe#echo"], [option]))
            .run()
            .exits(2)
            .stderr
    };
    let short = refused(&token_file(&path, "short", "dev"));
    assert!(short.contains("shorter than 16 characters"), "{short}");
    let open = token_file(&path, "open", SECRET);
    std::fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let open = refused(&open);
    assert!(
        open.contains("others can read the secret of the Arcade engine"),
        "{open}"
    );
}

#[test]
fn a_registry_of_agentool_has_the_tools_that_match() {
    let web = Web::with(&["probe#echo", "probe#fail"], ["--max-listed=1"]);
    let registry = |query: &str| {
        let registry = web
            .get(&format!("/v1/dialects/agentool/registry{query}"))
            .value();
        check_one("agentool-tool-registry", &registry);
        let tools = registry["tools"].as_array().unwrap().iter();
        tools
            .map(|tool| tool["spec"]["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let listed = web.get("/v1/tools").value()["tools"]
        .as_array()
        .unwrap()
        .len();
    assert_eq!(registry("").len(), listed);
    assert_eq!(registry("?q=echo"), ["probe_echo"]);
    assert_eq!(
        registry("?q=fail"),
        ["probe_fail"],
        "a search finds the deferred tools, too"
    );
    assert_eq!(registry("?tag=no-such-tag").len(), 0);
    assert_eq!(registry("?category=no-such-category").len(), 0);
    web.get("/v1/dialects/agentool/registry?limit=1")
        .is_problem(400, "query_invalid");
}

#[test]
fn an_endpoint_of_agentool_takes_the_calls_of_its_tool() {
    let (_guard, path) = scratch();
    let file = path.join("records");
    let options = [
        format!("--record-to={}", file.display()),
        "--max-listed=1".to_owned(),
    ];
    let web = Web::with(&["probe#echo", "probe#fail"], options);
    let entry = |name: &str| {
        let found = web
            .get(&format!("/v1/dialects/agentool/registry?q={name}"))
            .value()["tools"][0]
            .clone();
        assert_eq!(
            (&found["spec"]["name"], &found["auth"]),
            (&json!(format!("probe_{name}")), &json!("bearer"))
        );
        let endpoint = found["endpoint"].as_str().unwrap();
        endpoint
            .strip_prefix(&format!("http://{}", web.address))
            .unwrap()
            .to_owned()
    };
    let listed = web.get("/v1/dialects/agentool/registry").value();
    let [first] = listed["tools"].as_array().unwrap().as_slice() else {
        panic!("{listed:#}")
    };
    let other = if first["spec"]["name"] == "probe_echo" {
        "fail"
    } else {
        "echo"
    };
    let call = |endpoint: &str, name: &str, arguments: &str| {
        let body = format!(
            r#"{{"id": "call_{name}", "name": "probe_{name}", "arguments": {arguments}, "more": [1.5]}}"#
        );
        web.request(&format!("POST {endpoint}"), &[], &body)
    };
    let result = |reply: &Reply, name: &str| {
        assert!(
            reply.status == 200 && reply.header("location").is_some(),
            "{reply:?}"
        );
        check_one("agentool-tool-result", &reply.value());
        assert_eq!(reply.value()["call_id"], json!(format!("call_{name}")));
        reply.value()
    };
    // A deferred tool takes calls once its entry was asked for.
    let endpoint = entry(other);
    let refused = result(&call(&endpoint, other, "{}"), other);
    assert!(
        refused["error"]
            .as_str()
            .unwrap()
            .starts_with("schema_not_loaded: "),
        "{refused:#}"
    );
    let shown = web.get(&endpoint).value();
    check_one("agentool-tool-registry", &shown);
    assert_eq!(shown["tools"].as_array().unwrap().len(), 1);
    let echo = entry("echo");
    let said = result(
        &call(&echo, "echo", r#"{ "n": 1.50, "a": "\u0061" }"#),
        "echo",
    );
    assert!(
        said["error"].is_null() && said["output"]["input"]["a"] == "a",
        "{said:#}"
    );
    let fail = entry("fail");
    let failed = result(&call(&fail, "fail", r#"{"class": "rate_limited"}"#), "fail");
    assert!(
        failed["output"].is_null()
            && failed["error"]
                .as_str()
                .unwrap()
                .starts_with("rate_limited: "),
        "{failed:#}"
    );
    call(&echo, "fail", "{}").is_problem(400, "body_invalid");
    // As the specification shows a call, beside its result; and without an id, so that the host's stands for it.
    let exchange = json!({
        "tool_call": { "id": "call_seed", "name": "probe_echo", "arguments": {}, "timestamp": "2026-03-01T10:00:00Z" },
        "tool_result": { "call_id": "call_seed", "output": [], "error": null, "duration_ms": 1240, "cost_tokens": 0 },
    });
    let unnamed = json!({ "name": "probe_echo", "arguments": {} });
    for body in [&exchange, &unnamed] {
        check_one("agentool-tool-call", body);
        let reply = web.post(&echo, &[], body);
        let id = reply
            .header("location")
            .unwrap()
            .rsplit('/')
            .next()
            .unwrap()
            .to_owned();
        let meant = body.pointer("/tool_call/id").cloned().unwrap_or(json!(id));
        assert_eq!(
            (reply.status, &reply.value()["call_id"]),
            (200, &meant),
            "{reply:?}"
        );
    }
    call("/v1/dialects/agentool/tools/nothing", "nothing", "{}").is_problem(404, "unknown_tool");
    web.request(&format!("POST {echo}"), &[], r#"{"name": "echo"}"#)
        .is_problem(400, "body_invalid");
    let mut untimely = exchange.clone();
    untimely["tool_call"]["timestamp"] = json!("today");
    web.post(&echo, &[], &untimely)
        .is_problem(400, "body_invalid");
    web.request(&format!("POST {echo}"), &[("Authorization", "")], "{}")
        .is_problem(401, "unauthorized");
    web.end();
    let records = records(&file);
    records.iter().for_each(check_record);
    let ids: Vec<&Value> = records
        .iter()
        .map(|record| &record["invocation"]["native_call_id"])
        .collect();
    let named = [
        json!(format!("call_{other}")),
        json!("call_echo"),
        json!("call_fail"),
        json!("call_seed"),
        Value::Null,
    ];
    assert_eq!(ids, named.iter().collect::<Vec<_>>());
    let sent = &records[1]["invocation"];
    assert_eq!(
        sent["external_mappings"][0]["method"],
        "POST /v1/dialects/agentool/tools/{name}"
    );
    assert_eq!(sent["model_input_text"], r#"{ "n": 1.50, "a": "\u0061" }"#);
    let posted = |at: usize| &records[at]["invocation"]["external_mappings"][0]["tool_call"];
    assert_eq!(*posted(1), json!({ "more": [1.5] }));
    assert_eq!(*posted(3), json!({ "timestamp": "2026-03-01T10:00:00Z" }));
    assert_eq!(*posted(4), Value::Null);
}

#[test]
fn what_is_posted_beside_a_call_is_redacted_as_its_arguments() {
    let (_guard, path) = scratch();
    let file = path.join("records");
    let web = Web::with(
        &["probe#sensitive"],
        [format!("--record-to={}", file.display())],
    );
    let body = json!({
        "name": "probe_sensitive", "arguments": { "user": "ada", "token": CANARY.value() },
        "x_again": CANARY.value(), "x_large": "x".repeat(10),
    });
    let listed = web.get("/v1/dialects/agentool/registry").value();
    let endpoint = listed["tools"][0]["endpoint"].as_str().unwrap();
    let endpoint = endpoint
        .strip_prefix(&format!("http://{}", web.address))
        .unwrap();
    let reply = web.post(endpoint, &[], &body);
    assert_eq!(reply.status, 200, "{reply:?}");
    let mut large = body;
    large["x_large"] = json!("x".repeat(5_000));
    web.post(endpoint, &[], &large);
    web.end();
    let records = records(&file);
    records.iter().for_each(check_record);
    CANARY.is_not_in("the records", &format!("{records:?}"));
    let posted = |at: usize| &records[at]["invocation"]["external_mappings"][0]["tool_call"];
    assert_eq!(posted(0)["x_large"], "x".repeat(10));
    assert_eq!(*posted(1), json!({ "fields_left_out": 2 }));
}

#[test]
fn a_specification_of_agentool_that_was_exported_is_imported_and_calls_the_same_component() {
    let (_guard, path) = scratch();
    let file = path.join("records");
    // Of the two tools, the second one is deferred.
    let config = path.join("settings.toml");
    std::fs::write(&config, "[surface]\nmax_listed = 1\n").unwrap();
    let options = [
        format!("--record-to={}", file.display()),
        format!("--config={}", config.display()),
    ];
    let web = Web::with(&["probe#fail", "probe#echo"], options);
    let tool = format!("{}#echo", fixture("probe").display());
    let exported = Toolcell::new(["export", &tool, "--dialect=agentool", "--no-config"])
        .run()
        .exits(0);
    let spec = exported.json()[0].clone();
    check_one("agentool-tool-spec", &spec);
    let import = |spec: &Value| web.post("/v1/dialects/agentool/registry", &[], spec);
    let early = web.post(
        "/v1/dialects/agentool/tools/probe_echo",
        &[],
        &json!({ "name": "probe_echo", "arguments": {} }),
    );
    assert!(early.body.contains("schema_not_loaded"), "{early:?}");
    let imported = import(&spec).value();
    check_one("agentool-tool-registry", &imported);
    let [entry] = imported["tools"].as_array().unwrap().as_slice() else {
        panic!("{imported:#}")
    };
    let endpoint = entry["endpoint"]
        .as_str()
        .unwrap()
        .strip_prefix(&format!("http://{}", web.address))
        .unwrap();
    let called = web.post(
        endpoint,
        &[],
        &json!({ "id": "a", "name": entry["spec"]["name"], "arguments": {} }),
    );
    assert_eq!(
        (called.status, &called.value()["error"]),
        (200, &Value::Null),
        "{called:?}"
    );
    for (field, other, status, code) in [
        (
            "component",
            json!(format!("sha256:{}", "0".repeat(64))),
            409,
            "version_mismatch",
        ),
        ("tool_id", json!("probe.nothing"), 404, "unknown_tool"),
        ("component", Value::Null, 400, "body_invalid"),
    ] {
        let mut spec = spec.clone();
        spec[field] = other;
        import(&spec).is_problem(status, code);
    }
    for metadata in [
        json!("mine"),
        json!({ "category": "search", "side_effects": "no" }),
    ] {
        let mut spec = spec.clone();
        spec["metadata"] = metadata;
        assert_eq!(import(&spec).status, 200, "others may have written it");
    }
    assert_eq!(version(&web, "probe.echo"), spec["component"]);
    let mut marked = spec.clone();
    marked["x_team"] = json!({ "owner": "search" });
    marked["metadata"]["x_level"] = json!(3);
    let again = import(&marked).value();
    check_one("agentool-tool-registry", &again);
    let kept = &again["tools"][0]["spec"];
    assert_eq!(
        (&kept["x_team"], &kept["metadata"]["x_level"]),
        (&marked["x_team"], &marked["metadata"]["x_level"])
    );
    let mut known = again.clone();
    let fields = known["tools"][0]["spec"].as_object_mut().unwrap();
    fields.remove("x_team");
    fields["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("x_level");
    assert_eq!(known, imported, "they change nothing");
    // A tool that no call can reach is not imported.
    std::fs::write(
        path.join("denying.toml"),
        "[[rule]]\nbehavior = \"deny\"\ntool = \"probe.echo\"\n",
    )
    .unwrap();
    let denying = Web::with(
        &["probe#fail", "probe#echo"],
        [format!("--config={}/denying.toml", path.display())],
    );
    let refused = denying.post("/v1/dialects/agentool/registry", &[], &spec);
    assert!(
        refused
            .body
            .contains("echo cannot be loaded: a rule denies its calls"),
        "{refused:?}"
    );
    refused.is_problem(403, "denied_by_rule");
    denying
        .get("/v1/dialects/agentool/tools/echo")
        .is_problem(403, "denied_by_rule");
    web.end();
    assert_eq!(
        records(&file).last().unwrap()["result"]["provenance"]["component"],
        spec["component"]
    );
}
