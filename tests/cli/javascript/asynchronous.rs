//! Tools in TypeScript and JavaScript that wait: promises, timers and `fetch`, and what ends a call that waits.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::super::BUILDING;
use super::super::build::with_toolchain;
use super::super::interrupts::{interrupt, listens, wait_until};
use super::super::npm_tools::install;
use super::{project, succeeds};
use crate::support::{
    Canary, Client, Mirror, Ran, Server, Toolcell, Visit, kept, response, root, scratch,
};

const CANARY: Canary = Canary::new("sk-live/5a0+cD~eF\"0123=waits");

const WAITS: &str = include_str!("asynchronous.ts");

/// Far more than a call takes to end, far less than what it waits for.
const BOUND: Duration = Duration::from_secs(20);

/// The component of `asynchronous.ts`, built once.
fn waits() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let _turn = BUILDING
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let (_guard, place) = scratch();
        project(&place, "typescript", Some(WAITS));
        with_toolchain(&place, &["build", "many"]).run().exits(0);
        let folder = kept("asynchronous");
        std::fs::create_dir_all(&folder).unwrap();
        let component = folder.join("waits.wasm");
        std::fs::copy(place.join("many/target/toolcell/many.wasm"), &component).unwrap();
        component
    })
}

fn arguments(how: &str, url: &str, options: &[&str]) -> Vec<String> {
    let tool = format!("{}#run", waits().display());
    let input = json!({ "how": how, "url": url }).to_string();
    let options = options.iter().map(|option| (*option).to_owned());
    ["call".to_owned(), tool, input]
        .into_iter()
        .chain(options)
        .collect()
}

fn call(how: &str, options: &[&str]) -> Ran {
    let online = ["--allow-net=example.invalid", "--json"];
    Toolcell::new(arguments(how, "", &[&online[..], options].concat())).run()
}

/// Calls it with a grant for `server`.
fn reach(server: &Server, how: &str, path: &str, options: &[&str]) -> Ran {
    let net = format!("--allow-net=GET+POST@{}", server.url(""));
    let options = [&[net.as_str(), "--json"][..], options].concat();
    Toolcell::new(arguments(how, &server.url(path), &options)).run()
}

#[track_caller]
fn value(ran: Ran) -> Value {
    ran.exits(0).json()["structured_content"].clone()
}

#[track_caller]
fn error(ran: &Ran) -> (String, String) {
    let error = &ran.json()["error"];
    let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
    (text("error_code"), text("message"))
}

#[test]
fn timers_and_jobs_run_in_order_and_what_nothing_handles_fails_the_call() {
    let seen = ["now", "job", "then", "tick", "early", "late"];
    assert_eq!(value(call("order", &[])), json!({ "seen": seen }));
    assert_eq!(value(call("handled", &[])), json!({ "caught": 20_001 }));
    let told = |how: &str| error(&call(how, &[]));
    assert_eq!(
        told("unhandled"),
        ("exception".into(), "RangeError: lost".into())
    );
    assert_eq!(
        told("timer"),
        ("exception".into(), "RangeError: of a timer".into())
    );
    assert_eq!(told("never").0, "never_settled");
    assert_eq!(
        error(&call("spin", &["--fuel=1000000000"])).0,
        "fuel_exhausted"
    );
    assert_eq!(error(&call("spin", &["--timeout=1s"])).0, "epoch_deadline");
    let forgotten = call("forgotten", &[]).exits(0);
    assert!(!forgotten.stderr.contains("never"), "{forgotten:?}");
    assert_eq!(forgotten.json()["content"][0]["text"], "at once");
}

/// Answers as the path of a request wants it.
fn page(visit: &mut Visit) {
    let Some(head) = visit.head() else { return };
    let path = head.split(' ').nth(1).unwrap_or_default();
    let moved =
        |to: &str| format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
    let text = |body: &str| {
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\nx-made: yes\r\ncontent-length: {length}\r\n\r\n{body}")
    };
    let answer = match path {
        "/moved" => moved("/here"),
        "/loop" => moved("/loop"),
        "/away" => moved("http://example.invalid/"),
        "/missing" => "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned(),
        "/cut" => "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".to_owned(),
        "/post" => {
            let sent = visit.until(".");
            let letters = sent.matches('x').count();
            text(&json!({ "letters": letters, "one": head.contains("x-one: 1") }).to_string())
        }
        "/pieces" => {
            visit.say("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n");
            // In the middle of a character.
            for piece in [
                "€ü".as_bytes().split_at(2).0,
                "€ü".as_bytes().split_at(2).1,
                b".",
            ] {
                visit.say_bytes(piece);
                std::thread::sleep(Duration::from_millis(100));
            }
            return;
        }
        other => text(other),
    };
    visit.say(&answer);
}

#[test]
fn requests_answer_as_in_a_browser() {
    let server = Server::start(page);
    let one = |path: &str| value(reach(&server, "one", path, &[]));
    let here =
        json!({ "status": 200, "ok": true, "redirected": false, "at": "/here", "made": "yes" });
    let seen = one("/here");
    for (name, expected) in here.as_object().unwrap() {
        assert_eq!(&seen[name], expected, "{seen}");
    }
    let moved = one("/moved");
    assert_eq!(
        (&moved["redirected"], &moved["at"]),
        (&json!(true), &json!("/here"))
    );
    let missing = one("/missing");
    assert_eq!(
        (&missing["status"], &missing["ok"]),
        (&json!(404), &json!(false))
    );
    let pieces = value(reach(&server, "pieces", "/pieces", &[]));
    assert_eq!(pieces, json!({ "text": "€ü.", "isMany": true }));
    let looped = value(reach(&server, "cause", "/loop", &[]));
    assert_eq!(
        looped["message"], "fetch failed: more than 20 redirects",
        "{looped}"
    );
    let cut = reach(&server, "text", "/cut", &[]).exits(1);
    assert!(
        error(&cut).1.starts_with("TypeError: the body broke off: "),
        "{cut:?}"
    );
    let canceled = reach(&server, "canceled", "/pieces", &[]).exits(0);
    assert_eq!(canceled.json()["content"][0]["text"], "true");
    // A redirect is a request like others.
    let away = reach(&server, "text", "/away", &[]);
    assert_eq!(error(&away).0, "network_denied", "{away:?}");
    assert!(
        error(&away).1.contains("GET http://example.invalid"),
        "{away:?}"
    );
    let post = value(reach(&server, "post", "/post", &[]));
    assert_eq!(post, json!({ "letters": 500_000, "one": true }));
}

#[test]
fn requests_run_at_the_same_time() {
    // Each waits for the others.
    let arrived = AtomicUsize::new(0);
    let all = Server::start(move |visit| {
        let began = Instant::now();
        if visit.head().is_some() {
            arrived.fetch_add(1, Ordering::SeqCst);
            while arrived.load(Ordering::SeqCst) < 3 && began.elapsed() < BOUND {
                std::thread::sleep(Duration::from_millis(5));
            }
            visit.say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
        }
    });
    let texts = value(reach(&all, "together", "/", &[]));
    assert_eq!(texts, json!({ "texts": ["ok", "ok", "ok"] }));
    assert_eq!(all.most_open(), 3);
}

#[test]
fn a_request_that_fails_says_why_and_one_that_was_not_granted_decides_how_the_call_ends() {
    let server = Server::hello();
    let (denied, said) = error(
        &Toolcell::new(arguments(
            "text",
            &server.url("/"),
            &["--allow-net=example.invalid", "--json"],
        ))
        .run(),
    );
    assert_eq!(denied, "network_denied");
    assert!(
        said.contains("The tool says: TypeError: fetch failed: HTTP-request-denied"),
        "{said}"
    );
    assert_eq!(server.connections(), 0);
    let closed = Server::hello();
    let url = closed.url("/");
    let net = format!("--allow-net={}", closed.url(""));
    drop(closed);
    let refused = value(Toolcell::new(arguments("cause", &url, &[&net, "--json"])).run());
    let expected = json!({ "name": "TypeError", "message": "fetch failed: connection-refused", "code": "connection-refused" });
    assert_eq!(refused, expected);
    for (url, why) in [
        ("ftp://example.invalid/", "neither http: nor https:"),
        ("http://me@example.invalid/", "a user name"),
        ("nowhere", "is no URL"),
    ] {
        let told = value(Toolcell::new(arguments("cause", url, &[&net, "--json"])).run());
        assert!(told["message"].as_str().unwrap().contains(why), "{told}");
    }
}

#[test]
fn a_secret_reaches_the_server_and_nothing_else() {
    let (_guard, home) = scratch();
    let toolcell = |arguments: &[&str]| Toolcell::at(&home, arguments);
    toolcell(&["secrets", "set", "API_KEY"])
        .stdin(CANARY.value())
        .run()
        .exits(0);
    let mirror = Mirror::new(|request| response(&[], request.as_bytes()));
    let tool = format!("{}#carry", waits().display());
    let input = json!({ "url": format!("{}/", mirror.origin()) }).to_string();
    let net = format!("--allow-net={}", mirror.origin());
    let secret = format!("--allow-secret=API_KEY@{}", mirror.origin());
    let ran = toolcell(&["call", &tool, &input, &net, &secret])
        .run()
        .exits(0);
    CANARY.is_not_in("standard output", &ran.stdout);
    assert!(
        ran.stdout
            .contains("authorization: Bearer [secret API_KEY]"),
        "{ran:?}"
    );
    assert!(mirror.seen()[0].contains(CANARY.value()));
}

#[test]
fn what_never_answers_ends_with_its_signal_its_deadline_or_the_call() {
    let silent = Server::start(|visit| {
        visit.head();
        visit.drain();
    });
    let aborted = value(reach(&silent, "aborted", "/", &[]));
    assert_eq!(
        aborted,
        json!({ "names": ["TimeoutError", "RangeError", "AbortError"] })
    );
    let began = Instant::now();
    let late = reach(&silent, "text", "/", &["--timeout=1s"]);
    assert_eq!(error(&late).0, "deadline_exceeded");
    assert!(began.elapsed() < BOUND);

    let net = format!("--allow-net={}", silent.url(""));
    let before = silent.connections();
    let child = Toolcell::new(arguments(
        "text",
        &silent.url("/"),
        &[&net, "--print-record"],
    ))
    .spawn();
    wait_until("the request", || {
        silent.connections() > before && listens(&child)
    });
    let record = interrupt(child, Signal::INT).exits(5).json();
    assert_eq!(record["result"]["status"], "canceled", "{record}");

    let mut client = Client::run(Toolcell::new([
        "mcp",
        &format!("{}#run", waits().display()),
        &net,
    ]));
    client.initialize("2025-11-25");
    let before = silent.connections();
    let id = client.begin_call("run", json!({ "how": "text", "url": silent.url("/") }));
    wait_until("the request", || silent.connections() > before);
    client.notify("notifications/cancelled", json!({ "requestId": id }));
    wait_until("the end of the request", || silent.open() == 0);
    client.close();
}

#[test]
fn a_body_without_an_end_meets_the_limits_of_the_call() {
    let endless = Server::start(|visit| {
        if visit.head().is_some() && visit.say("HTTP/1.1 200 OK\r\n\r\n") {
            while visit.say(&"x".repeat(64 << 10)) {}
        }
    });
    let over = reach(&endless, "text", "/", &["--memory=32MiB"]);
    assert_eq!(error(&over).0, "memory_limit", "{over:?}");
    assert_eq!(
        error(&reach(&endless, "text", "/", &[])).0,
        "network_received_limit"
    );
    assert_eq!(
        reach(&endless, "first", "/", &[]).exits(0).json()["content"][0]["text"],
        "true"
    );
    wait_until("the end of the connections", || endless.open() == 0);
    let slow = Server::start(|visit| {
        if visit.head().is_some() && visit.say("HTTP/1.1 200 OK\r\n\r\n") {
            while visit.say("x") {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    });
    // On a busy machine, it may compute when its time is up.
    let late = error(&reach(&slow, "text", "/", &["--timeout=1s"])).0;
    assert!(
        ["deadline_exceeded", "epoch_deadline"].contains(&late.as_str()),
        "{late}"
    );
}

#[test]
fn packages_of_npm_that_wait_work_and_a_build_is_reproducible() {
    let from = root().join("tests/cli/javascript/packages");
    let place = kept("npm-packages");
    let project = place.join("packages");
    std::fs::create_dir_all(project.join("src")).unwrap();
    for file in ["package.json", "package-lock.json", "src/tool.js"] {
        std::fs::copy(from.join(file), project.join(file)).unwrap();
    }
    install(&project, &place.join("packages.installed"));
    let _turn = BUILDING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    with_toolchain(&place, &["build", "packages"])
        .run()
        .exits(0);
    let tool = format!(
        "{}#get",
        project.join("target/toolcell/packages.wasm").display()
    );
    let server = Server::saying(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 7\r\n\r\n{\"n\":3}",
    );
    let input = json!({ "url": server.url("/"), "times": 6 }).to_string();
    let net = format!("--allow-net={}", server.url(""));
    let answer = value(Toolcell::new(["call", &tool, &input, &net, "--json"]).run());
    assert_eq!((&answer["sum"], &answer["most"]), (&json!(18), &json!(2)));
    assert_eq!(answer["id"].as_str().unwrap().len(), 21);

    // Twice, from nothing.
    let toolchain = std::fs::read_to_string(project.join(".toolcell/toolchain")).unwrap();
    let made = |name: &str| {
        let component = place.join(name).join("component.wasm");
        std::fs::remove_dir_all(place.join(name)).ok();
        let mut node = Command::new("node");
        node.arg(root().join("guest-sdk/typescript/build.mjs"))
            .arg(toolchain.trim_end());
        node.arg(&project).arg(root().join("wit")).arg(&component);
        succeeds(node);
        std::fs::read(component).unwrap()
    };
    assert!(
        made("one") == made("two"),
        "two builds of the same sources differ"
    );
}
