//! Tools of IronClaw.
//!
//! Promise: A component of another world gets no more.

use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use toolcell_policy::secret::{SecretStore, SecretValue};
use toolcell_spec::dialect::near::SECTION;
use toolcell_spec::dialect::sections::with_custom;
use toolcell_spec::{ErrorClass, ErrorCode, Refusal};

use super::{alone, with_namespace};
use crate::pipeline::doubles::{home_with_own_payloads, own_host};
use crate::sandbox::logged;
use crate::support::{Called, Canary, Home, Mirror, Server, Test, fixture, scratch};

const CANARY: Canary = Canary::new("sk-live/4f9+aB~cD\"eF0123=near");

fn bare() -> Vec<u8> {
    std::fs::read(fixture("near")).unwrap()
}

/// The guest `near` with tools that differ by what they declare. `origin` gets the credential `token`.
fn kit(id: &str, origin: &str) -> Vec<u8> {
    let (host, port) = origin
        .rsplit_once(':')
        .map_or((origin, None), |(host, port)| {
            (host, port.parse::<u16>().ok())
        });
    let tool = |name: &str, effects: &[&str], permission: &str| {
        json!({
            "id": format!("{id}.{name}"),
            "description": format!("Does it as {name}"),
            "effects": effects,
            "default_permission": permission,
            "input_schema": { "type": "object" },
        })
    };
    let mut secret = tool("secret", &["network", "use_secret"], "allow");
    secret["credentials"] = json!([{
        "handle": "token",
        "audience": { "scheme": "http", "host": host, "port": port },
        "injection": { "type": "header", "name": "authorization", "prefix": "token " },
    }]);
    let tools = [
        tool("plain", &[], "allow"),
        tool("files", &["read_filesystem"], "allow"),
        tool("look", &["network"], "allow"),
        tool("send", &["network", "external_write"], "allow"),
        tool("call", &["dispatch_capability"], "allow"),
        tool("closed", &[], "deny"),
        tool("asking", &["network"], "ask"),
        secret,
    ];
    carrying(&json!({ "id": id, "tools": tools }).to_string())
}

fn carrying(manifest: &str) -> Vec<u8> {
    with_custom(&bare(), SECTION, manifest.as_bytes()).unwrap()
}

fn of(id: &str, tool: &str) -> Test {
    alone(kit(id, "127.0.0.1:1"), Some(tool))
}

fn steps(steps: Value) -> Value {
    json!({ "steps": steps })
}

/// The answers of the steps.
async fn answers(test: Test, each: Value) -> Vec<Value> {
    test.call(steps(each)).await.succeeded()["answers"]
        .as_array()
        .unwrap()
        .clone()
}

async fn answer(test: Test, step: Value) -> Value {
    answers(test, json!([step])).await.remove(0)
}

/// A tool of this world that imports nothing, and answers its arguments. `schema` is the body of a core function that returns
/// an address at which the address and the length of the schema `text` are kept.
fn echoing(imports: &str, schema: &str, text: &str) -> Vec<u8> {
    let escaped: String = text.bytes().map(|byte| format!("\\{byte:02x}")).collect();
    let text = format!(
        r#"(component
          {imports}
          (component $tool
            (core module $main
              (memory (export "memory") 64)
              (data (i32.const 1024) "Answers its arguments")
              (data (i32.const 65536) "{escaped}")
              (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 32768))
              (func (export "schema") (result i32)
                (i32.store (i32.const 16) (i32.const 65536))
                (i32.store (i32.const 20) (i32.const {length}))
                {schema})
              (func (export "description") (result i32)
                (i32.store (i32.const 16) (i32.const 1024))
                (i32.store (i32.const 20) (i32.const 21))
                (i32.const 16))
              (func (export "execute") (param $params i32) (param $length i32) (param i32 i32 i32) (result i32)
                (i32.store8 (i32.const 64) (i32.const 0))
                (i32.store (i32.const 68) (local.get $params))
                (i32.store (i32.const 72) (local.get $length))
                (i32.const 64)))
            (core instance $main (instantiate $main))
            (type $asked (record (field "params" string) (field "context" (option string))))
            (export $request "request" (type $asked))
            (type $kinds (enum
              "auth-required" "input" "output-too-large" "executor" "network-denied" "client" "operation-failed"))
            (export $error-kind "error-kind" (type $kinds))
            (type $failed (record
              (field "kind" $error-kind) (field "code" (option string)) (field "message" (option string))))
            (export $guest-failure "guest-failure" (type $failed))
            (type $ended (variant (case "success" string) (case "failure" $guest-failure)))
            (export $response "response" (type $ended))
            (func (export "execute") (param "req" $request) (result $response)
              (canon lift (core func $main "execute") (memory (core memory $main "memory"))
                (realloc (core func $main "realloc"))))
            (func (export "schema") (result string)
              (canon lift (core func $main "schema") (memory (core memory $main "memory"))))
            (func (export "description") (result string)
              (canon lift (core func $main "description") (memory (core memory $main "memory")))))
          (instance $guest (instantiate $tool))
          (export "near:agent/tool@0.4.1" (instance $guest)))"#,
        length = text.len(),
    );
    wat::parse_str(text).unwrap()
}

const AT_16: &str = "(i32.const 16)";

async fn refused(component: Vec<u8>) -> Refusal {
    alone(component, None).load().await.unwrap_err()
}

#[tokio::test]
async fn a_tool_that_imports_nothing_needs_nothing() {
    let component = echoing("", AT_16, r#"{"type": "object"}"#);
    let test = alone(component, None);
    let names = test.load().await.unwrap();
    assert!(
        names.len() == 1 && names[0].starts_with("near.tool-"),
        "{names:?}"
    );
    assert_eq!(
        test.call(json!({ "a": [1] })).await.succeeded(),
        json!({ "a": [1] })
    );
}

#[tokio::test]
async fn a_namespace_that_was_written_into_a_tool_is_that_of_its_tools() {
    let single = with_namespace(&echoing("", AT_16, r#"{"type": "object"}"#));
    let names = alone(single, None).load().await.unwrap();
    assert!(
        names.len() == 1 && names[0].starts_with("mine.tool-"),
        "{names:?}"
    );
    let several = with_namespace(&kit("github", "127.0.0.1:1"));
    let names = alone(several, None).load().await.unwrap();
    assert!(
        names.len() > 1 && names.iter().all(|name| name.starts_with("mine.")),
        "{names:?}"
    );
}

#[tokio::test]
async fn without_a_manifest_a_tool_asks_for_what_it_imports() {
    let (_guard, folder) = scratch();
    let bare = || alone(bare(), None);
    let nothing = || steps(json!([]));
    bare()
        .call(nothing())
        .await
        .failed("permission_denied", "not_granted")
        .never_ran();
    bare()
        .read(&folder)
        .call(nothing())
        .await
        .failed("permission_denied", "not_granted")
        .never_ran();
    let called = bare()
        .read(&folder)
        .net("http://127.0.0.1:1")
        .call(nothing())
        .await;
    assert_eq!(
        called.succeeded(),
        json!({ "context": null, "answers": [] })
    );
}

#[tokio::test]
async fn a_tool_of_a_manifest_knows_by_its_context_which_one_it_is() {
    for tool in ["plain", "files", "look"] {
        let (_guard, folder) = scratch();
        let called = of("near_context", tool)
            .read(&folder)
            .net("http://127.0.0.1:1")
            .call(steps(json!([])))
            .await;
        assert_eq!(
            called.succeeded()["context"],
            json!({ "capability_id": format!("near_context.{tool}") })
        );
    }
    // The code is loaded again from the cache, with the same tools.
    let home = Home::new();
    let component = home.keep("near.wasm", &kit("near_cached", "127.0.0.1:1"));
    for _ in 0..2 {
        let record = home.call(&format!("{component}#plain"), &steps(json!([])), &[]);
        let context = &record["result"]["structured_content"]["context"];
        assert_eq!(
            *context,
            json!({ "capability_id": "near_cached.plain" }),
            "{record}"
        );
    }
}

#[tokio::test]
async fn in_an_empty_world_the_host_gives_a_clock_and_a_log_alone() {
    let each = json!([
        { "do": "log", "message": "hello from it" },
        { "do": "now" },
        { "do": "secret", "name": "token" },
        { "do": "read", "path": "file.txt" },
        { "do": "invoke", "alias": "probe.echo", "params": "{}" },
        { "do": "request", "url": "http://127.0.0.1:1/" },
    ]);
    let called = of("near_empty", "plain").call(steps(each)).await;
    let answers = called.succeeded()["answers"].as_array().unwrap().clone();
    assert_eq!(
        logged(&called.record(), "log").trim_end(),
        "warn hello from it"
    );
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_millis();
    let told = u128::from(answers[1].as_u64().unwrap());
    assert!(told <= now && told + 60_000 > now, "{told} {now}");
    assert_eq!((&answers[2], &answers[3]), (&json!(false), &Value::Null));
    assert!(
        answers[4]["error"]
            .as_str()
            .unwrap()
            .starts_with("tool_not_callable: "),
        "{}",
        answers[4]
    );
    assert_eq!(
        (&answers[5]["kind"], &answers[5]["sent"]),
        (&json!("network-denied"), &json!(false))
    );
}

#[test]
fn the_clock_of_a_tool_comes_back_in_a_replay() {
    let home = Home::new();
    let component = home.keep("near.wasm", &kit("near_replayed", "127.0.0.1:1"));
    let record = home.call(
        &format!("{component}#plain"),
        &steps(json!([{ "do": "now" }])),
        &[],
    );
    assert_eq!(
        record["invocation"]["replay"]["wall_clock"]["count"], 1,
        "{record}"
    );
    let id = record["invocation"]["invocation_id"].as_str().unwrap();
    std::thread::sleep(Duration::from_millis(5));
    let report = home
        .toolcell(&["replay", id, "--json"])
        .run()
        .exits(0)
        .json();
    assert_eq!(report["verdict"], "same", "{report}");
}

#[tokio::test]
async fn a_tool_reads_texts_in_its_folders_and_nothing_that_is_denied() {
    let (_guard, root) = scratch();
    std::fs::create_dir_all(root.join("sub/folder")).unwrap();
    std::fs::write(root.join("open.txt"), "open \u{e4}").unwrap();
    std::fs::write(root.join("sub/open.txt"), "deeper").unwrap();
    std::fs::write(root.join("sub/folder/closed.txt"), "closed").unwrap();
    std::fs::write(root.join("bytes"), b"\xff").unwrap();
    std::fs::write(root.join("large.txt"), vec![b'x'; (4 << 20) + 1]).unwrap();
    std::fs::write(root.join("largest.txt"), vec![b'x'; 4 << 20]).unwrap();
    symlink("sub/folder/closed.txt", root.join("to-closed")).unwrap();
    symlink("/etc/passwd", root.join("out")).unwrap();
    let denied = root.join("sub/folder");
    let test = || {
        let closing = of("near_files", "files").read(&root);
        closing.grant(|grants| grants.deny_read(denied.to_str().unwrap()).unwrap())
    };
    let read = |path: &str| answer(test(), json!({ "do": "read", "path": path }));
    assert_eq!(read("open.txt").await, "open \u{e4}");
    assert_eq!(read("sub/open.txt").await, "deeper");
    let largest = json!({ "do": "read", "path": "largest.txt", "measure": true });
    assert_eq!(answer(test(), largest).await, 4 << 20);
    let absolute = root.join("open.txt");
    for path in [
        "sub/folder/closed.txt",
        "to-closed",
        "out",
        "sub/../open.txt",
        "../open.txt",
        absolute.to_str().unwrap(),
        "missing.txt",
        "sub",
        "",
        "bytes",
        "large.txt",
    ] {
        assert_eq!(read(path).await, Value::Null, "{path}");
    }
    // Another tool of the same component does not declare files.
    let plain = of("near_files", "plain").read(&root);
    assert_eq!(
        answer(plain, json!({ "do": "read", "path": "open.txt" })).await,
        Value::Null
    );
}

#[tokio::test]
async fn a_request_goes_where_it_may_and_its_response_comes_whole() {
    let server = Server::start(|visit| {
        visit.head();
        // An unread body would reset the connection.
        visit.until("hi");
        visit.say("HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx-a: 1\r\nX-A: 2\r\nconnection: close\r\n\r\nhello");
    });
    let test = of("near_http", "send").net(&server.url(""));
    let headers = r#"{"X-Mine": "yes"}"#;
    let step = json!({ "do": "request", "method": "POST", "url": server.url("/a?b"), "headers": headers, "body": "hi" });
    let told = answer(test, step).await;
    assert_eq!(
        (&told["status"], &told["body"]),
        (&json!(200), &json!("hello")),
        "{told}"
    );
    assert_eq!(
        (&told["headers"]["x-a"], told["headers"].get("connection")),
        (&json!("1, 2"), None)
    );
    let head = server.heads().pop().unwrap().to_lowercase();
    assert!(
        head.starts_with("post /a?b http/1.1\r\n") && head.contains("x-mine: yes\r\n"),
        "{head}"
    );
    assert!(head.contains("content-length: 2\r\n"), "{head}");
}

#[tokio::test]
async fn a_request_that_may_not_be_sent_is_denied_and_the_verdict_is_the_hosts() {
    let server = Server::hello();
    let other = Server::hello();
    let look = || of("near_denied", "look").net(&server.url(""));
    look().call(steps(json!([]))).await.succeeded();
    of("near_denied", "look")
        .call(steps(json!([])))
        .await
        .failed("permission_denied", "not_granted")
        .never_ran();
    let get = |url: &str, headers: &str| json!({ "do": "request", "url": url, "headers": headers });
    let denied = |told: &Value| {
        (told["kind"].clone(), told["sent"].clone()) == (json!("network-denied"), json!(false))
    };
    // Elsewhere, with a credential of its own, and with a method that could change something.
    let post = json!({ "do": "request", "method": "POST", "url": server.url("/") });
    for step in [
        get(&other.url("/"), ""),
        get(&server.url("/"), r#"{"Authorization": "Bearer x"}"#),
        post,
    ] {
        let told = answer(look(), step.clone()).await;
        assert!(denied(&told), "{step}: {told}");
    }
    for (url, headers) in [
        ("nonsense", ""),
        ("http://ex test/", ""),
        (server.url("/").as_str(), r#"{"Host": "evil.test"}"#),
        (server.url("/").as_str(), "[]"),
        (server.url("/").as_str(), r#"{"a": 1}"#),
    ] {
        let told = answer(look(), get(url, headers)).await;
        let kind = told["kind"].as_str().unwrap();
        assert!(kind == "input" || denied(&told), "{url} {headers}: {told}");
    }
    assert_eq!((server.connections(), other.connections()), (0, 0));
    let failing = json!([get(&other.url("/"), ""), { "do": "fail", "kind": "network-denied", "message": "no way" }]);
    let called = look().call(steps(failing)).await;
    called.failed("sandbox_violation", "network_denied");
    assert!(called.message().contains("no way"), "{}", called.message());
    assert!(called.events().contains(&"tool.sandbox.denied"));
}

#[tokio::test]
async fn headers_and_bodies_of_requests_are_bounded() {
    let large = Server::start(|visit| {
        visit.head();
        visit.say(&format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n",
            20 << 20
        ));
        let piece = "x".repeat(1 << 20);
        for _ in 0..20 {
            if !visit.say(&piece) {
                break;
            }
        }
    });
    let look = || of("near_bounds", "look").net(&large.url(""));
    let told = answer(look(), json!({ "do": "request", "url": large.url("/") })).await;
    assert_eq!(
        (&told["kind"], &told["code"]),
        (&json!("output-too-large"), &json!("body_too_large")),
        "{told}"
    );
    let headers = json!({ "x-a": "x".repeat(1 << 20) }).to_string();
    let told = answer(
        look(),
        json!({ "do": "request", "url": large.url("/"), "headers": headers }),
    )
    .await;
    assert_eq!(
        (&told["kind"], &told["message"]),
        (&json!("input"), &json!("the headers are too large")),
        "{told}"
    );
    assert_eq!(large.connections(), 1);
}

#[tokio::test]
async fn a_body_counts_as_memory_of_its_call() {
    const MIB: usize = 1 << 20;
    // Of what is left of 16 MiB, half is more than 4 MiB, and less than 10 MiB.
    for (mib, fits) in [(4, true), (10, false)] {
        let server = Server::start(move |visit| {
            visit.head();
            visit.say(&format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n",
                mib * MIB
            ));
            let piece = "x".repeat(MIB);
            for _ in 0..mib {
                if !visit.say(&piece) {
                    break;
                }
            }
        });
        let look = of("near_memory", "look")
            .net(&server.url(""))
            .limit(|limits| limits.memory_bytes = 16 << 20);
        let told = answer(look, json!({ "do": "request", "url": server.url("/") })).await;
        if fits {
            assert_eq!(told["bytes"], mib * MIB, "{told}")
        } else {
            assert_eq!(told["code"], "body_too_large", "{told}")
        }
    }
}

#[tokio::test]
async fn the_time_of_a_request_is_the_tools_own_where_it_is_shorter() {
    let silent = Server::start(|visit| {
        visit.head();
        visit.drain();
    });
    let look = of("near_time", "look").net(&silent.url(""));
    let told = answer(
        look,
        json!({ "do": "request", "url": silent.url("/"), "timeout_ms": 100 }),
    )
    .await;
    assert_eq!(
        (&told["kind"], &told["code"], &told["sent"]),
        (&json!("client"), &json!("timeout"), &json!(true))
    );
    let gone = Server::hello();
    let url = gone.url("/");
    let net = gone.url("");
    drop(gone);
    // The listener ends with the next connection at the latest.
    std::thread::sleep(Duration::from_millis(200));
    let told = answer(
        of("near_time", "look").net(&net),
        json!({ "do": "request", "url": url }),
    )
    .await;
    assert_eq!(
        (&told["kind"], &told["sent"]),
        (&json!("client"), &json!(false)),
        "{told}"
    );
}

#[tokio::test]
async fn a_secret_is_sent_and_never_seen() {
    let mirror = Mirror::reflecting();
    let (_guard, folder) = scratch();
    let home = home_with_own_payloads(&folder);
    let store = SecretStore::new(home.secrets(), home.secret_key());
    store
        .set("token", &SecretValue::new(CANARY.value().to_owned()))
        .unwrap();
    let host = own_host(|settings| settings.home(home));
    let component = kit("near_secret", &format!("127.0.0.1:{}", mirror.port()));
    let secret = || {
        alone(component.clone(), Some("secret"))
            .on(&host)
            .net(&mirror.origin())
    };
    let each = || {
        steps(json!([
            { "do": "secret", "name": "token" },
            { "do": "secret", "name": "other" },
            { "do": "request", "url": mirror.origin() + "/" },
        ]))
    };
    secret()
        .call(each())
        .await
        .failed("permission_denied", "not_granted")
        .never_ran();
    let granted = secret().grant(|grants| {
        grants
            .allow_secret(&format!("token@{}", mirror.origin()))
            .unwrap()
    });
    let called = granted.call(each()).await;
    let answers = called.succeeded()["answers"].clone();
    assert_eq!((&answers[0], &answers[1]), (&json!(true), &json!(false)));
    let request = mirror.seen().pop().unwrap();
    assert!(
        request.contains(&format!("\r\nauthorization: token {}\r\n", CANARY.value())),
        "{request}"
    );
    assert!(
        answers[2]["body"]
            .as_str()
            .unwrap()
            .contains("[secret token]"),
        "{}",
        answers[2]
    );
    CANARY.is_not_in("the record", &called.record().to_string());
}

#[tokio::test]
async fn a_tool_calls_others_that_were_granted() {
    let (_guard, folder) = scratch();
    let home = home_with_own_payloads(&folder);
    let host = own_host(|settings| settings.home(home));
    Test::new("probe#echo").on(&host).load().await.unwrap();
    let component = kit("near_calls", "127.0.0.1:1");
    let test = |tool: &str, pattern: &str| {
        let test = alone(component.clone(), Some(tool)).on(&host);
        test.grant(|grants| grants.allow_tool(pattern).unwrap())
    };
    let step = || json!({ "do": "invoke", "alias": "probe.invocation", "params": "{}" });
    let told = answer(test("call", "probe.*"), step()).await;
    assert_eq!(told["ok"]["attempt"], 1, "{told}");
    // Not granted, and not declared.
    for (tool, pattern) in [("call", "probe.echo"), ("plain", "probe.*")] {
        let told = answer(test(tool, pattern), step()).await;
        assert!(
            told["error"].as_str().unwrap().contains(": "),
            "{tool} {pattern}: {told}"
        );
    }
}

#[tokio::test]
async fn the_kind_of_a_failure_is_its_class() {
    for (kind, class) in [
        ("auth-required", "credential_missing"),
        ("input", "invalid_arguments"),
        ("output-too-large", "result_too_large"),
        ("executor", "execution_failed"),
        ("network-denied", "dependency_unavailable"),
        ("client", "execution_failed"),
        ("operation-failed", "execution_failed"),
    ] {
        let failing = json!([{ "do": "fail", "kind": kind, "code": "a_code", "message": "why" }]);
        let called = of("near_fails", "plain").call(steps(failing)).await;
        assert_eq!(called.failed(class, "a_code").message(), "why");
    }
    let long = json!([{ "do": "fail", "message": "x".repeat(10_000) }]);
    assert_eq!(
        of("near_fails", "plain")
            .call(steps(long))
            .await
            .message()
            .len(),
        4_000
    );
}

#[tokio::test]
async fn a_text_is_content_and_what_is_no_json_is_refused() {
    let say =
        |text: &str| of("near_says", "plain").call(steps(json!([{ "do": "say", "text": text }])));
    let called: Called = say("\"plain words\"").await;
    assert_eq!(called.0.result.content[0].as_text(), Some("plain words"));
    for text in ["", "nonsense", "{", "\"half"] {
        say(text)
            .await
            .failed("execution_failed", "output_schema_mismatch");
    }
}

#[tokio::test]
async fn limits_and_a_cancellation_end_a_tool_like_any_other() {
    let plain = || of("near_limits", "plain");
    let one = |what: &str| steps(json!([{ "do": what }]));
    plain()
        .limit(|limits| limits.fuel = 50_000_000)
        .call(one("spin"))
        .await
        .failed("timeout", "fuel_exhausted");
    for (what, code) in [("spin", "epoch_deadline"), ("sleep", "deadline_exceeded")] {
        let called = plain().timeout_ms(200).call(one(what)).await;
        called
            .failed("timeout", code)
            .ended("timed_out", "timed_out");
        let called = plain()
            .cancel_after(Duration::from_millis(100))
            .call(one(what))
            .await;
        called
            .failed("canceled", "canceled")
            .ended("canceled", "canceled");
    }
    plain()
        .call(one("no such step"))
        .await
        .failed("execution_failed", "guest_panicked");
    // A request that waits is stopped with its call.
    let silent = Server::start(|visit| _ = visit.drain());
    let look = of("near_limits", "look")
        .net(&silent.url(""))
        .timeout_ms(200);
    let called = look
        .call(steps(json!([{ "do": "request", "url": silent.url("/") }])))
        .await;
    called.failed("timeout", "deadline_exceeded");
}

#[tokio::test]
async fn a_schema_that_cannot_be_used_is_refused_when_the_tool_is_loaded() {
    let large = format!("{{\"title\": \"{}\"}}", "x".repeat(2 << 20));
    for text in ["", "[]", "7", "{", large.as_str()] {
        let refusal = refused(echoing("", AT_16, text)).await;
        assert_eq!(
            (refusal.class, refusal.code),
            (ErrorClass::SetupRequired, ErrorCode::DescriptionInvalid),
            "{refusal:?}"
        );
    }
    let refusal = refused(echoing("", "unreachable", "{}")).await;
    assert_eq!(
        (refusal.class, refusal.code),
        (ErrorClass::ExecutionFailed, ErrorCode::GuestPanicked)
    );
    let refusal = refused(echoing(
        "",
        "(loop $again (br $again)) (i32.const 16)",
        "{}",
    ))
    .await;
    assert_eq!(refusal.class, ErrorClass::Timeout);
}

#[tokio::test]
async fn an_older_interface_of_the_host_is_refused() {
    let import = |name: &str, function: &str| {
        format!(r#"(import "{name}" (instance (export "now-millis" {function})))"#)
    };
    for (name, function) in [
        ("near:agent/host@0.3.0", "(func (result u64))"),
        ("near:agent/host@0.4.1", "(func (result string))"),
        ("toolcell:tool/tools@0.2.0", "(func (result u64))"),
    ] {
        let refusal = refused(echoing(&import(name, function), AT_16, "{}")).await;
        assert_eq!(
            (refusal.class, refusal.code),
            (ErrorClass::CapabilityGap, ErrorCode::ImportNotAvailable),
            "{name}"
        );
        assert!(
            refusal.message.contains(name.split('@').next().unwrap()),
            "{}",
            refusal.message
        );
    }
    // Other components do not get the interface.
    let import = import("near:agent/host@0.4.1", "(func (result u64))");
    let text =
        std::fs::read_to_string(crate::support::root().join("tests/guests/wat/echo.wat")).unwrap();
    let text = text.replacen("(component\n", &format!("(component\n  {import}\n"), 1);
    assert_eq!(
        refused(wat::parse_str(text).unwrap()).await.code,
        ErrorCode::ImportNotAvailable
    );
}

#[tokio::test]
async fn a_manifest_that_cannot_be_read_is_refused_at_its_place() {
    let tool = r#"{"id": "a.b", "description": "", "effects": [], "default_permission": "allow", "input_schema": {}}"#;
    let with = |tool: &str| format!(r#"{{"id": "a", "tools": [{tool}]}}"#);
    let large = with(&tool.replace(
        "\"description\": \"\"",
        &format!("\"description\": \"{}\"", "x".repeat(1 << 20)),
    ));
    let twice = [
        carrying(&with(tool)),
        with_custom(b"\0asm\x0d\0\x01\0", SECTION, b"{}").unwrap()[8..].to_vec(),
    ];
    for (component, why) in [
        (carrying("nonsense"), "expected"),
        (carrying(&with("")), "tools: there are 0"),
        (
            carrying(&with(&tool.replace("[]", "[\"teleport\"]"))),
            "teleport",
        ),
        (carrying(&with(&format!("{tool},{tool}"))), "tools[1].id"),
        (
            carrying(&with(&tool.replace("{}", "7"))),
            "tools[0].input_schema",
        ),
        (twice.concat(), "two custom sections"),
    ] {
        let refusal = refused(component).await;
        assert_eq!(
            (refusal.class, refusal.code),
            (ErrorClass::SetupRequired, ErrorCode::DescriptionInvalid),
            "{refusal:?}"
        );
        assert!(refusal.message.contains(why), "{why}: {}", refusal.message);
    }
    assert!(
        with_custom(&bare(), SECTION, large.as_bytes())
            .unwrap_err()
            .contains("more than")
    );
}

#[test]
fn the_program_describes_the_tools_of_a_manifest() {
    let home = Home::new();
    let component = home.keep("near.wasm", &kit("near_described", "127.0.0.1:80"));
    let records = home
        .toolcell(&["describe", &component, "--json"])
        .run()
        .exits(0)
        .json();
    let names: Vec<&str> = records["declarations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["plain", "files", "look", "send", "call", "asking", "secret"]
    );
    assert!(
        records["notes"]
            .to_string()
            .contains("near_described.closed: its manifest denies its calls"),
        "{records}"
    );
    let of = |list: &str, name: &str| {
        let at = names.iter().position(|known| *known == name).unwrap();
        records[list][at].clone()
    };
    assert_eq!(
        of("declarations", "look")["external_mappings"],
        json!([{ "source": "near:agent", "capability_id": "near_described.look" }])
    );
    let profile = of("permission_profiles", "secret");
    assert_eq!(
        (&profile["access_kinds"], &profile["network_scope"]),
        (
            &json!(["network", "credential"]),
            &json!("http://127.0.0.1:80")
        )
    );
    assert_eq!(profile["credential_refs"], json!(["token"]));
    assert_eq!(
        of("permission_profiles", "asking")["approval_required"],
        true
    );
    assert_eq!(
        of("permission_profiles", "call")["tool_calls"],
        json!(["*"])
    );
    assert_eq!(
        of("permission_profiles", "send")["write_effects"],
        json!(["remote_mutation"])
    );
    assert_eq!(of("interfaces", "look")["is_read_only"], true);
    assert_eq!(
        of("execution_profiles", "secret")["credential_delegation"],
        true
    );
}
