use http_body_util::BodyExt;
use serde_json::{Value, json};
use toolcell_spec::dialect::routes::RouteRequest;

use super::{ServerRequest, routed, spelled_out};

const HEADER_BYTES: usize = 200;

/// Method, path with query, headers and body.
async fn shown(request: ServerRequest) -> Value {
    let (parts, body) = request.into_parts();
    let headers = parts.headers.iter();
    let headers: Value = headers
        .map(|(name, value)| (name.to_string(), json!(value.to_str().unwrap())))
        .collect();
    let body = body.collect().await.unwrap().to_bytes();
    let target = parts.uri.path_and_query().unwrap().as_str();
    json!([
        parts.method.as_str(),
        target,
        headers,
        String::from_utf8_lossy(&body)
    ])
}

#[tokio::test]
async fn a_request_is_sent_as_it_is_spelled_out() {
    let text = "text/plain; charset=utf-8";
    let with = |body: Value| json!({ "method": "post", "body": body });
    let sent = |kind: &str, body: &str| {
        let length = body.len().to_string();
        json!(["POST", "/", { "content-type": kind, "content-length": length }, body])
    };
    for (input, expected) in [
        (json!({}), json!(["GET", "/", {}, ""])),
        (
            json!({ "path": "/a b?c=d", "query": { "e": ["1", 2], "f&": true, "g": null } }),
            json!(["GET", "/a%20b?c=d&e=1&e=2&f%26=true", {}, ""]),
        ),
        (json!({ "query": "?a=b" }), json!(["GET", "/?a=b", {}, ""])),
        (
            json!({ "headers": { "X-A": "1" } }),
            json!(["GET", "/", { "x-a": "1" }, ""]),
        ),
        (with(json!("hi")), sent(text, "hi")),
        (
            with(json!({ "base64": "aGk=" })),
            sent("application/octet-stream", "hi"),
        ),
        (
            with(json!({ "base64": "aGk=", "b": 1 })),
            sent("application/json", r#"{"base64":"aGk=","b":1}"#),
        ),
        (with(json!([1])), sent("application/json", "[1]")),
        (with(json!(null)), json!(["POST", "/", {}, ""])),
        (
            json!({ "body": "<a/>", "headers": { "content-type": "text/xml" } }),
            json!(["GET", "/", { "content-type": "text/xml", "content-length": "4" }, "<a/>"]),
        ),
    ] {
        let request = spelled_out(&input.to_string(), HEADER_BYTES).unwrap();
        assert_eq!(shown(request).await, expected, "{input}");
    }
    let exact = r#"{"body": {"n": 1.10000000000000000001}}"#;
    let request = spelled_out(exact, HEADER_BYTES).unwrap();
    assert_eq!(shown(request).await[3], r#"{"n": 1.10000000000000000001}"#);
}

#[test]
fn what_no_request_can_have_is_refused_with_the_reason() {
    for (input, why) in [
        (json!({ "method": "GE T" }), "not a method"),
        (json!({ "method": "CONNECT" }), "not a method"),
        (json!({ "method": "X".repeat(100) }), "not a method"),
        (json!({ "path": "a" }), "does not begin with /"),
        (
            json!({ "path": "http://example.com/" }),
            "does not begin with /",
        ),
        (json!({ "path": "/a#b" }), "fragment"),
        (json!({ "path": "/a\r\nb" }), "must be escaped"),
        (
            json!({ "path": format!("/{}", "a".repeat(9_000)) }),
            "more than 8192 bytes",
        ),
        (json!({ "query": { "a": { "b": [[]] } } }), "not a text"),
        (json!({ "headers": { "a b": "1" } }), "not valid"),
        (json!({ "headers": { "a": "1\r\nb: 2" } }), "not valid"),
        (
            json!({ "headers": { "a": "x".repeat(300) } }),
            "more than 200 bytes",
        ),
        (json!({ "body": { "base64": "?" } }), "base64"),
        (json!({ "other": 1 }), "unknown field"),
        (json!([]), "cannot read"),
    ] {
        let refusal = spelled_out(&input.to_string(), HEADER_BYTES).unwrap_err();
        assert!(refusal.contains(why), "{input}: {refusal}");
    }
}

#[test]
fn headers_of_the_connection_and_credentials_are_of_no_caller() {
    for name in [
        "Host",
        "Connection",
        "Transfer-Encoding",
        "Content-Length",
        "Proxy-Authorization",
        "Authorization",
        "cookie",
        "X-API-Key",
    ] {
        let input = json!({ "headers": { name: "1" } }).to_string();
        let refusal = spelled_out(&input, HEADER_BYTES).unwrap_err();
        assert!(
            refusal.contains(name) && refusal.contains("on record"),
            "{refusal}"
        );
    }
}

fn route(request: Value) -> RouteRequest {
    serde_json::from_value(request).unwrap()
}

#[tokio::test]
async fn a_route_places_its_arguments() {
    let route = route(json!({
        "method": "PUT",
        "path": "/pets/{id}.json",
        "parameters": {
            "tags": { "in": "query", "name": "tag" },
            "ids": { "in": "query", "style": "comma" },
            "filter": { "in": "query", "style": "deep" },
            "trace": { "in": "header", "name": "x-trace" },
        },
        "body": { "argument": "pet" },
    }));
    let input = json!({
        "id": "a/b?c",
        "tags": ["x", "y"],
        "ids": [1, 2],
        "filter": { "name": "r s" },
        "trace": 7,
        "pet": "Rex",
    });
    let request = routed(&route, &input.to_string(), HEADER_BYTES).unwrap();
    let headers =
        json!({ "x-trace": "7", "content-type": "application/json", "content-length": "5" });
    let target = "/pets/a%2Fb%3Fc.json?filter%5Bname%5D=r%20s&ids=1%2C2&tag=x&tag=y";
    assert_eq!(
        shown(request).await,
        json!(["PUT", target, headers, "\"Rex\""])
    );
    let request = routed(&route, r#"{"id": 7}"#, HEADER_BYTES).unwrap();
    assert_eq!(shown(request).await, json!(["PUT", "/pets/7.json", {}, ""]));
}

#[tokio::test]
async fn a_form_is_encoded() {
    let form = "application/x-www-form-urlencoded";
    let route = route(
        json!({ "method": "POST", "path": "/", "body": { "argument": "a", "media_type": form } }),
    );
    let input = json!({ "a": { "b": "c&d", "e": [1, 2] } }).to_string();
    let request = shown(routed(&route, &input, HEADER_BYTES).unwrap()).await;
    assert_eq!(
        (&request[2]["content-type"], &request[3]),
        (&json!(form), &json!("b=c%26d&e=1&e=2"))
    );
}

#[test]
fn an_argument_leads_to_no_other_route() {
    let route = route(json!({ "path": "/pets/{id}/tags" }));
    for (input, why) in [
        (json!({ "id": ".." }), "part of the path"),
        (json!({ "id": "." }), "part of the path"),
        (json!({ "id": "" }), "part of the path"),
        (json!({ "id": {} }), "not a text"),
        (json!({}), "missing"),
        (json!({ "id": 1, "other": 2 }), "no place"),
        (json!({ "id": "a", "path": "/admin" }), "no place"),
    ] {
        let refusal = routed(&route, &input.to_string(), HEADER_BYTES).unwrap_err();
        assert!(refusal.contains(why), "{input}: {refusal}");
    }
}
