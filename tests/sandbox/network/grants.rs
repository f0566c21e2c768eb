//! Promise: Another spelling does not evade a URL rule.
//! Promise: A tool reaches only what was granted.

use serde_json::json;
use toolcell_policy::{Policy, Provenance, Rule, RuleWords};
use toolcell_spec::{Mode, RuleSource};

use crate::support::{Server, Test};

use super::{answer, answers, denials, failed};

#[tokio::test]
async fn a_server_that_was_named_is_reached_and_the_meters_say_so() {
    let server = Server::hello();
    let request =
        json!({ "authority": server.authority(), "path": "/a?b=c", "headers": [["x-one", "1"]] });
    let called = Test::new("egress#ask")
        .net(&server.url(""))
        .call(json!({ "requests": [request] }))
        .await;
    let answer = &called.succeeded()["answers"][0];
    assert_eq!(
        (&answer["status"], &answer["body"]),
        (&json!(200), &json!("hello")),
        "{answer}"
    );
    assert_eq!((server.connections(), server.heads().len()), (1, 1));
    let head = &server.heads()[0];
    assert!(
        head.starts_with("GET /a?b=c HTTP/1.1\r\n") && head.contains("x-one: 1\r\n"),
        "{head}"
    );
    assert!(
        head.contains(&format!("host: {}\r\n", server.authority())),
        "{head}"
    );
    let usage = called.0.result.usage.as_ref().unwrap().network.unwrap();
    assert_eq!(
        (usage.requests.used, usage.sent_bytes.used),
        (1, head.len() as u64)
    );
    assert!(usage.received_bytes.used > 5 && usage.requests.limit > 1);
    assert_eq!(denials(&called), Vec::<serde_json::Value>::new());
}

#[tokio::test]
async fn nothing_is_sent_without_a_grant_nor_without_a_declaration() {
    let server = Server::hello();
    let input = json!({ "requests": [{ "authority": server.authority() }] });
    let called = Test::new("egress#ask").call(input.clone()).await;
    called
        .failed("permission_denied", "not_granted")
        .never_ran();
    assert!(
        called.message().contains("--allow-net"),
        "{}",
        called.message()
    );

    let called = Test::new("egress#undeclared")
        .net(&server.url(""))
        .call(input)
        .await;
    failed(&called.succeeded()["answers"][0], "HttpRequestDenied");
    assert_eq!(
        denials(&called)[0]["target"],
        format!("GET {}", server.url(""))
    );
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn another_port_another_scheme_and_another_host_are_not_what_was_granted() {
    let named = Server::hello();
    let other = Server::hello();
    let asked = [
        json!({ "authority": other.authority() }),
        json!({ "authority": named.authority(), "scheme": "https" }),
        json!({ "authority": format!("localhost:{}", named.port) }),
        json!({ "authority": format!("127.0.0.2:{}", named.port) }),
        json!({ "authority": named.authority() }),
    ];
    let answers = answers(Test::new("egress#ask").net(&named.url("")), &asked).await;
    answers[..4]
        .iter()
        .for_each(|answer| failed(answer, "HttpRequestDenied"));
    assert_eq!(answers[4]["status"], 200);
    assert_eq!((named.connections(), other.connections()), (1, 0));
}

#[tokio::test]
async fn plain_http_is_sent_only_where_it_was_written_out() {
    let server = Server::hello();
    for grant in [
        server.authority(),
        format!("https://{}", server.authority()),
        "*:*".to_owned(),
    ] {
        failed(
            &answer(
                Test::new("egress#ask").net(&grant),
                json!({ "authority": server.authority() }),
            )
            .await,
            "Denied",
        );
    }
    for grant in ["http://*:*", "http://localhost:*"] {
        let answer = answer(
            Test::new("egress#ask").net(grant),
            json!({ "authority": server.authority() }),
        )
        .await;
        assert!(
            answer["error"].is_string(),
            "an address that is not public was not named: {answer}"
        );
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn localhost_reaches_this_machine_without_a_look_up() {
    let server = Server::hello();
    let authority = format!("localhost:{}", server.port);
    let test = Test::new("egress#ask").net(&format!("http://{authority}"));
    assert_eq!(
        answer(test, json!({ "authority": authority })).await["status"],
        200
    );
    assert!(server.heads()[0].contains(&format!("host: {authority}\r\n")));
}

#[tokio::test]
async fn a_tool_without_remote_effects_sends_only_what_changes_nothing() {
    let server = Server::hello();
    let methods = [
        "GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "PROPFIND", "get",
    ];
    let requests =
        methods.map(|method| json!({ "authority": server.authority(), "method": method }));
    let asked = answers(Test::new("egress#ask").net(&server.url("")), &requests).await;
    asked[..3]
        .iter()
        .for_each(|answer| assert_eq!(answer["status"], 200, "{answer}"));
    asked[3..]
        .iter()
        .for_each(|answer| failed(answer, "HttpRequestDenied"));
    assert_eq!(server.heads().len(), 3);
    let changed = answers(Test::new("egress#change").net(&server.url("")), &requests).await;
    changed[..8]
        .iter()
        .for_each(|answer| assert_eq!(answer["status"], 200, "{answer}"));
}

#[tokio::test]
async fn a_grant_can_be_for_some_methods_and_paths() {
    let server = Server::hello();
    let grant = format!("GET+POST@http://{}/v1", server.authority());
    let request = |method: &str, path: &str| json!({ "authority": server.authority(), "method": method, "path": path });
    let allowed = [request("GET", "/v1"), request("POST", "/v1/a?b=/../c")];
    let refused = [
        request("PUT", "/v1"),
        request("GET", "/"),
        request("GET", "/v10"),
        request("GET", "/v1/../admin"),
        request("GET", "/v1/%2e%2e/admin"),
        request("GET", "/v1/..%2fadmin"),
        request("GET", "/v1//../admin"),
    ];
    let answers = answers(
        Test::new("egress#change").net(&grant),
        &[&allowed[..], &refused].concat(),
    )
    .await;
    answers[..2]
        .iter()
        .for_each(|answer| assert_eq!(answer["status"], 200, "{answer}"));
    answers[2..]
        .iter()
        .for_each(|answer| failed(answer, "HttpRequestDenied"));
    assert_eq!(server.heads().len(), 2);
}

#[tokio::test]
async fn a_denial_wins_over_a_grant() {
    let server = Server::hello();
    let test = |deny: &str| {
        let deny = deny.to_owned();
        Test::new("egress#ask")
            .net(&server.url(""))
            .grant(move |grants| grants.deny_net(&deny).unwrap())
    };
    for deny in [
        "127.0.0.1",
        "*",
        &format!("127.0.0.1:{}/secret", server.port),
    ] {
        let answer = answer(
            test(deny),
            json!({ "authority": server.authority(), "path": "/%73ecret/../secret" }),
        )
        .await;
        failed(&answer, "HttpRequestDenied");
    }
    assert_eq!(server.connections(), 0);
    let request = json!({ "authority": server.authority() });
    assert_eq!(
        answer(test("GET@127.0.0.1/secret"), request).await["status"],
        200
    );
}

#[tokio::test]
async fn a_tool_never_reaches_the_host_that_runs_it() {
    let server = Server::hello();
    for own in [
        format!("127.0.0.1:{}", server.port),
        format!("0.0.0.0:{}", server.port),
    ] {
        let _listening = toolcell_sandbox::ListenGuard::at(own.parse().unwrap());
        let test = Test::new("egress#ask").net(&server.url(""));
        failed(
            &answer(test, json!({ "authority": server.authority() })).await,
            "DestinationIpProhibited",
        );
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_call_that_fails_after_a_denial_ends_with_the_verdict_of_the_sandbox() {
    let named = Server::hello();
    let other = Server::hello();
    let input = json!({ "requests": [{ "authority": other.authority() }], "fail": true });
    let called = Test::new("egress#ask")
        .net(&named.url(""))
        .call(input)
        .await;
    called
        .failed("sandbox_violation", "network_denied")
        .ended("failed", "failed");
    let named_policies = &called.0.result.error.as_ref().unwrap().policy_refs;
    assert_eq!(*named_policies, called.0.decisions[0].policy_refs);
    assert!(!named_policies.is_empty());
    let message = called.message();
    assert!(
        message.contains(&other.url("")) && message.contains("the tool was told to fail"),
        "{message}"
    );
    assert!(
        message.contains(&format!("--allow-net={}", other.url(""))),
        "{message}"
    );
    let denied = denials(&called);
    assert_eq!(denied.len(), 1);
    assert_eq!(denied[0]["capability"], "network");
    assert_eq!(denied[0]["target_class"], "loopback address");
    assert_eq!(other.connections(), 0);
}

/// A request tool granted `server`, under one rule about a URL.
fn ruled(tool: &str, server: &Server, behavior: &str, url: &str) -> Test {
    let words = RuleWords {
        behavior,
        url: Some(url),
        ..RuleWords::default()
    };
    let rule = Rule::compile(
        &words,
        &Provenance {
            source: RuleSource::UserSettings,
            file: None,
        },
    )
    .unwrap();
    let test = Test::new(tool)
        .net(&server.url(""))
        .net("http://localhost:*");
    test.policy(|policy| *policy = Policy::new(Mode::Default, vec![rule]))
}

#[tokio::test]
async fn a_rule_about_a_url_is_not_passed_by_another_spelling_of_the_path() {
    let server = Server::hello();
    let paths = [
        "/admin",
        "/admin/x",
        "//admin/x",
        "/admin/../x",
        "/x/../admin",
        "/./admin",
        "/admin;a/x",
        "/%61dmin",
        "/%2561dmin",
        "/x%2f..%2fadmin",
        "/admin?q",
    ];
    for path in paths {
        let request = json!({ "authority": server.authority(), "path": path });
        failed(
            &answer(
                ruled("egress#ask", &server, "deny", &server.url("/admin")),
                request,
            )
            .await,
            "HttpRequestDenied",
        );
    }
    assert_eq!(server.connections(), 0);
    let request = json!({ "authority": server.authority(), "path": "/administrator" });
    assert_eq!(
        answer(
            ruled("egress#ask", &server, "deny", &server.url("/admin")),
            request
        )
        .await["status"],
        200
    );
}

#[tokio::test]
async fn a_rule_without_a_port_is_about_every_port() {
    let server = Server::hello();
    for url in [
        "127.0.0.1",
        "http://127.0.0.1",
        "127.0.0.1/",
        "*",
        "127.0.0.1/admin",
    ] {
        let request = json!({ "authority": server.authority(), "path": "/admin" });
        failed(
            &answer(ruled("egress#ask", &server, "deny", url), request).await,
            "HttpRequestDenied",
        );
    }
    assert_eq!(server.connections(), 0);
    for url in ["127.0.0.1:1", "https://127.0.0.1", "127.0.0.2"] {
        let request = json!({ "authority": server.authority() });
        assert_eq!(
            answer(ruled("egress#ask", &server, "deny", url), request).await["status"],
            200,
            "{url}"
        );
    }
}

#[tokio::test]
async fn an_argument_is_held_against_rules_about_urls_in_every_reading() {
    let server = Server::hello();
    for path in [
        "/admin",
        "//admin/x",
        "/admin/../x",
        "/x/../admin",
        "/admin;a/x",
        "\\\\admin",
    ] {
        for url in [
            server.url("/admin"),
            "127.0.0.1/admin".to_owned(),
            "127.0.0.1".to_owned(),
        ] {
            for (behavior, code) in [("deny", "denied_by_rule"), ("ask", "nobody_to_ask")] {
                let input = json!({ "url": server.url(path), "requests": [{ "authority": server.authority() }] });
                let called = ruled("egress#narrowed", &server, behavior, &url)
                    .call(input)
                    .await;
                called.failed("permission_denied", code).never_ran();
            }
        }
    }
    assert_eq!(server.connections(), 0);
}
