//! Promise: A tool reaches only what was granted.

use serde_json::json;

use super::{answer, answers, failed};
use crate::support::{Server, Test};

#[tokio::test]
async fn a_tool_reaches_what_it_declares_and_nothing_else_that_was_granted() {
    let server = Server::hello();
    let test = Test::new("egress#scoped")
        .net(&server.url(""))
        .net("http://localhost:*");
    let requests = [
        json!({ "authority": server.authority() }),
        json!({ "authority": format!("localhost:{}", server.port) }),
    ];
    let answers = answers(test, &requests).await;
    assert_eq!(answers[0]["status"], 200);
    failed(&answers[1], "HttpRequestDenied");
}

#[tokio::test]
async fn a_scope_that_names_the_argument_reaches_the_origin_of_the_argument() {
    let named = Server::hello();
    let other = Server::hello();
    let test = || {
        Test::new("egress#narrowed")
            .net(&named.url(""))
            .net(&other.url(""))
    };
    let requests = json!([{ "authority": named.authority() }, { "authority": other.authority() }]);
    let called = test()
        .call(json!({ "url": named.url("/a"), "requests": requests }))
        .await;
    let answers = &called.succeeded()["answers"];
    assert_eq!(answers[0]["status"], 200);
    failed(&answers[1], "HttpRequestDenied");
    assert_eq!((named.connections(), other.connections()), (1, 0));

    let called = test().call(json!({ "requests": requests })).await;
    called
        .failed("permission_denied", "not_granted")
        .never_ran();
    let called = test()
        .call(json!({ "url": "http://127.0.0.1:1/", "requests": requests }))
        .await;
    called
        .failed("permission_denied", "not_granted")
        .never_ran();
    assert!(
        called.message().contains("http://127.0.0.1:1"),
        "{}",
        called.message()
    );
}

#[tokio::test]
async fn an_argument_with_a_user_name_or_in_another_notation_names_nothing_new() {
    let server = Server::hello();
    let port = server.port;
    let requests = json!([{ "authority": server.authority() }]);
    for url in [
        format!("http://127.0.0.1:{port}@evil.test/"),
        format!("http://a:b@127.0.0.1:{port}/"),
    ] {
        let test = Test::new("egress#narrowed").net(&server.url(""));
        test.call(json!({ "url": url, "requests": requests }))
            .await
            .failed("permission_denied", "not_granted");
    }
    let mapped = format!("http://[::ffff:127.0.0.1]:{port}/");
    let test = Test::new("egress#narrowed").net(&server.url(""));
    test.call(json!({ "url": mapped, "requests": requests }))
        .await
        .failed("permission_denied", "not_granted");
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_tool_that_does_not_say_where_to_goes_nowhere_and_sockets_are_a_gap() {
    let server = Server::hello();
    let input = json!({ "requests": [{ "authority": server.authority() }] });
    let called = Test::new("egress#unscoped")
        .net(&server.url(""))
        .call(input.clone())
        .await;
    called
        .failed("permission_denied", "not_granted")
        .never_ran();
    let called = Test::new("egress#raw")
        .net(&server.url(""))
        .call(input)
        .await;
    called
        .failed("capability_gap", "network_scope_not_supported")
        .never_ran();
    assert!(called.message().contains("tcp"), "{}", called.message());
}

#[tokio::test]
async fn one_component_with_three_profiles_has_three_networks() {
    let server = Server::hello();
    let get = || json!({ "authority": server.authority() });
    let post = || json!({ "authority": server.authority(), "method": "POST" });
    for (tool, arrives) in [
        ("undeclared", [false, false]),
        ("ask", [true, false]),
        ("change", [true, true]),
    ] {
        for (request, arrives) in [get(), post()].into_iter().zip(arrives) {
            let before = server.heads().len();
            let answer = answer(
                Test::new(&format!("egress#{tool}")).net(&server.url("")),
                request,
            )
            .await;
            assert_eq!(answer["status"] == 200, arrives, "{tool}: {answer}");
            assert_eq!(server.heads().len() > before, arrives, "{tool}");
        }
    }
}
