//! Promise: Internal addresses are not reached.
//! Promise: Redirects are requests.

use std::sync::Arc;

use serde_json::json;

use super::{answer, denials, failed, looking_up_in};
use crate::support::{Called, SPECIAL_HOSTS, ScriptedResolver, Server, Test, component};

fn spellings(port: u16) -> Vec<String> {
    SPECIAL_HOSTS
        .iter()
        .map(|host| format!("{host}:{port}"))
        .collect()
}

#[tokio::test]
async fn no_spelling_of_a_special_address_gets_through_a_wide_grant() {
    let server = Server::hello();
    let resolver = Arc::new(ScriptedResolver::answering(&[&["127.0.0.1"]]));
    let host = looking_up_in(&resolver);
    for authority in spellings(server.port) {
        let test = Test::new("egress#ask").on(&host).net("http://*:*");
        let answer = answer(test, json!({ "authority": authority })).await;
        assert!(answer["error"].is_string(), "{authority}: {answer}");
    }
    assert_eq!(server.connections(), 0);
    assert!(
        resolver.asked().iter().all(|name| name == "localhost"),
        "{:?}",
        resolver.asked()
    );
}

#[tokio::test]
async fn an_address_is_granted_in_one_spelling_and_reached_in_that_one() {
    let server = Server::hello();
    for authority in spellings(server.port).iter().skip(1) {
        let test = Test::new("egress#ask").net(&server.url(""));
        let answer = answer(test, json!({ "authority": authority })).await;
        assert!(answer["error"].is_string(), "{authority}: {answer}");
    }
    assert_eq!(server.connections(), 0);
    let test = Test::new("egress#ask").net(&server.url(""));
    assert_eq!(
        answer(test, json!({ "authority": server.authority() })).await["status"],
        200
    );
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_following_it_is_another_request() {
    let other = Server::hello();
    let location = format!(
        "HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n",
        other.url("/")
    );
    let named = Server::start(move |visit| {
        if visit.head().is_some() {
            visit.say(&location);
        }
    });
    let test = Test::new("egress#ask").net(&named.url(""));
    let asked = [
        json!({ "authority": named.authority() }),
        json!({ "authority": other.authority() }),
    ];
    let answers = super::answers(test, &asked).await;
    assert_eq!(answers[0]["status"], 302);
    failed(&answers[1], "HttpRequestDenied");
    assert_eq!((named.heads().len(), other.connections()), (1, 0));
}

/// Checks that the refusal says what is there, and suggests no option that would open it.
#[track_caller]
fn warns(called: &Called) {
    let error = called.0.result.error.as_ref().unwrap();
    assert!(
        error
            .message
            .contains("gives the credentials of this machine"),
        "{}",
        error.message
    );
    assert!(
        !error.message.contains("--allow-net") && error.needs_authorization.is_none(),
        "{error:?}"
    );
}

#[tokio::test]
async fn no_refusal_suggests_to_open_the_metadata_of_a_cloud() {
    let resolver = Arc::new(ScriptedResolver::answering(&[&["169.254.169.254"]]));
    let host = looking_up_in(&resolver);
    let fetch = || Test::of_file(&component("example-tools/fetch"), None).on(&host);
    let metadata = [
        "169.254.169.254",
        "[fd00:ec2::254]",
        "100.100.100.200",
        "metadata.google.internal",
    ];
    for url in metadata.map(|authority| format!("http://{authority}/latest")) {
        // Nothing granted, a grant that does not cover it, and one that covers it without naming it.
        warns(&fetch().call(json!({ "url": url })).await);
        warns(
            fetch()
                .net("http://ex.test")
                .call(json!({ "url": url }))
                .await
                .never_ran(),
        );
        warns(&fetch().net("http://*:*").call(json!({ "url": url })).await);
    }
    // A name that leads there, which is known when the request is sent.
    let called = fetch()
        .net("http://ex.test")
        .call(json!({ "url": "http://ex.test/" }))
        .await;
    warns(called.failed("sandbox_violation", "network_denied"));
    assert_eq!(
        denials(&called)[0]["target_class"],
        "cloud metadata address"
    );
    // Other special addresses are suggested.
    let called = fetch()
        .net("http://*:*")
        .call(json!({ "url": "http://10.0.0.1/" }))
        .await;
    assert!(
        called.message().contains("--allow-net=http://10.0.0.1"),
        "{}",
        called.message()
    );
}
