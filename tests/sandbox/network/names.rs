//! Promise: Internal addresses are not reached.

use std::sync::Arc;

use serde_json::json;

use super::{answer, answers, denials, failed, looking_up_in};
use crate::support::{ScriptedResolver, Server, Test};

#[tokio::test]
async fn a_name_that_was_granted_is_looked_up_once_and_reached() {
    let server = Server::hello();
    let resolver = Arc::new(ScriptedResolver::answering(&[
        &["127.0.0.1"],
        &["10.0.0.1"],
    ]));
    let test = Test::new("egress#ask")
        .on(&looking_up_in(&resolver))
        .net("http://api.ex.test:*")
        .net(&server.url(""));
    let authority = format!("API.ex.test.:{}", server.port);
    assert_eq!(
        answer(test, json!({ "authority": authority })).await["status"],
        200
    );
    assert_eq!(resolver.asked(), ["api.ex.test"]);
    assert!(server.heads()[0].contains(&format!("host: api.ex.test:{}\r\n", server.port)));
}

#[tokio::test]
async fn a_name_of_a_private_address_is_not_reached_unless_the_address_was_granted() {
    let server = Server::hello();
    let resolver = Arc::new(ScriptedResolver::answering(&[&["127.0.0.1"]]));
    let test = Test::new("egress#ask")
        .on(&looking_up_in(&resolver))
        .net("http://api.ex.test:*")
        .net("http://*:*");
    let request = json!({ "authority": format!("api.ex.test:{}", server.port) });
    let called = test
        .call(json!({ "requests": [request], "fail": true }))
        .await;
    called.failed("sandbox_violation", "network_denied");
    assert!(
        called.message().contains("loopback"),
        "{}",
        called.message()
    );
    assert_eq!(denials(&called)[0]["rule"], "loopback address");
    assert_eq!((server.connections(), resolver.asked().len()), (0, 1));
}

#[tokio::test]
async fn one_private_address_among_public_ones_spoils_the_answer() {
    let server = Server::hello();
    for spoiled in [
        &["93.184.215.14", "127.0.0.1"],
        &["127.0.0.1", "93.184.215.14"],
        &["::ffff:127.0.0.1", "1.1.1.1"],
    ] {
        let resolver = Arc::new(ScriptedResolver::answering(&[spoiled]));
        let test = Test::new("egress#ask")
            .on(&looking_up_in(&resolver))
            .net("http://api.ex.test:*");
        let answer = answer(
            test,
            json!({ "authority": format!("api.ex.test:{}", server.port) }),
        )
        .await;
        failed(&answer, "DestinationIpProhibited");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_name_that_changes_its_address_is_vetted_each_time_and_connected_to_as_vetted() {
    let server = Server::hello();
    // The granted address stands for a public one: the first answer may be used, the second one may not.
    let resolver = Arc::new(ScriptedResolver::answering(&[
        &["127.0.0.1"],
        &["127.0.0.2"],
    ]));
    let test = Test::new("egress#ask")
        .on(&looking_up_in(&resolver))
        .net("http://api.ex.test:*")
        .net(&server.url(""));
    let request = json!({ "authority": format!("api.ex.test:{}", server.port) });
    let answers = answers(test, &[request.clone(), request]).await;
    assert_eq!(answers[0]["status"], 200);
    failed(&answers[1], "DestinationIpProhibited");
    assert_eq!(
        (server.connections(), resolver.asked().len()),
        (1, 2),
        "one look-up for each request"
    );
}

#[tokio::test]
async fn a_name_that_was_not_granted_is_not_even_looked_up() {
    let resolver = Arc::new(ScriptedResolver::answering(&[&["93.184.215.14"]]));
    let names = [
        "api.ex.test.evil.test",
        "evilapi.ex.test",
        "sub.api.ex.test",
        "ex.test",
        "api-ex.test",
        "xn--pi-7ia.ex.test",
        "api.ex.test:22",
        "metadata.google.internal",
        "localhost.",
        "73656372.evil.test",
    ];
    let requests: Vec<_> = names
        .iter()
        .map(|name| json!({ "authority": name, "scheme": "https" }))
        .collect();
    let test = Test::new("egress#ask")
        .on(&looking_up_in(&resolver))
        .net("https://api.ex.test");
    for answer in answers(test, &requests).await {
        failed(&answer, "HttpRequestDenied");
    }
    let plain = json!({ "authority": "api.ex.test", "scheme": "http" });
    let test = Test::new("egress#ask")
        .on(&looking_up_in(&resolver))
        .net("https://api.ex.test");
    failed(&answer(test, plain).await, "HttpRequestDenied");
    assert!(resolver.asked().is_empty(), "{:?}", resolver.asked());
}

#[tokio::test]
async fn what_is_no_plain_host_is_refused_before_anything_is_looked_up() {
    let server = Server::hello();
    let port = server.port;
    let resolver = Arc::new(ScriptedResolver::answering(&[&["127.0.0.1"]]));
    let authorities = [
        format!("api.ex.test@127.0.0.1:{port}"),
        format!("127.0.0.1:{port}@api.ex.test"),
        "a:b@api.ex.test".to_owned(),
        "api.ex.test:".to_owned(),
        "api.ex.test:0".to_owned(),
        "api.ex.test:99999".to_owned(),
        "api%2eex%2etest".to_owned(),
        "*.ex.test".to_owned(),
        "127.0.0.1#@api.ex.test".to_owned(),
        String::new(),
        "b\u{fc}cher.test".to_owned(),
        "api.ex.test/x".to_owned(),
        "api.ex.test api".to_owned(),
    ];
    for authority in authorities {
        let test = Test::new("egress#ask")
            .on(&looking_up_in(&resolver))
            .net("http://*:*")
            .net("*:*");
        let answer = answer(test, json!({ "authority": authority })).await;
        assert!(answer["error"].is_string(), "{authority}: {answer}");
    }
    assert_eq!((resolver.asked().len(), server.connections()), (0, 0));
}

#[tokio::test]
async fn a_name_that_nobody_knows_is_an_error_of_the_look_up() {
    let resolver = Arc::new(ScriptedResolver::default());
    let test = Test::new("egress#ask")
        .on(&looking_up_in(&resolver))
        .net("http://api.ex.test");
    failed(
        &answer(test, json!({ "authority": "api.ex.test" })).await,
        "DnsError",
    );
}
