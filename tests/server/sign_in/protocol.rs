//! What a client sees of it that has no token yet, or sends one where none belongs.

use std::io::{Read, Write};

use serde_json::{Value, json};

use super::{Issuer, Serving};
use crate::support::Web;

const METADATA: &str = "GET /.well-known/oauth-protected-resource";

#[test]
fn a_client_finds_the_issuer_from_the_first_refusal() {
    let issuer = Issuer::new();
    let serving = Serving::for_anna(&issuer, "scopes = [\"tools\"]");
    let address = serving.web.address;
    let metadata = format!("http://{address}/.well-known/oauth-protected-resource/mcp");
    let refused = serving.greet("");
    assert_eq!(refused.status, 401);
    assert_eq!(
        refused.header("www-authenticate").unwrap(),
        format!("Bearer scope=\"tools\", resource_metadata=\"{metadata}\"")
    );
    let wrong = serving.greet("Bearer x.y.z");
    assert_eq!(wrong.status, 401);
    let challenge = wrong.header("www-authenticate").unwrap();
    assert!(challenge.starts_with("Bearer error=\"invalid_token\", error_description=\""));
    assert!(challenge.ends_with(&format!(
        "scope=\"tools\", resource_metadata=\"{metadata}\""
    )));
    for path in ["", "/mcp"] {
        let reply = serving
            .web
            .request(&format!("{METADATA}{path}"), &[("Authorization", "")], "");
        assert_eq!(
            reply.header("content-type").as_deref(),
            Some("application/json")
        );
        let meant = json!({
            "resource": format!("http://{address}/mcp"),
            "authorization_servers": [issuer.url()],
            "scopes_supported": ["tools"],
            "bearer_methods_supported": ["header"],
            "resource_name": "toolcell",
        });
        assert_eq!(serde_json::from_str::<Value>(&reply.body).unwrap(), meant);
    }
    let status = |line: &str| {
        serving
            .web
            .request(line, &[("Authorization", "")], "")
            .status
    };
    for (line, meant) in [
        (format!("{METADATA}/v1"), 404),
        (format!("{METADATA}/mcp/"), 404),
        (format!("{METADATA}mcp"), 404),
        (METADATA.replace("GET", "POST"), 405),
    ] {
        assert_eq!(status(&line), meant, "{line}");
    }
    // Without an issuer there is nothing to find, and the refusal is as before.
    let web = Web::of(&["probe#invocation"]);
    for path in ["", "/mcp"] {
        assert_eq!(
            web.request(&format!("{METADATA}{path}"), &[], "").status,
            404
        );
    }
}

/// A client signs in between its first request and the next one, which may use the same connection.
#[test]
fn a_refusal_before_the_body_says_that_its_connection_ends() {
    let issuer = Issuer::new();
    let serving = Serving::for_anna(&issuer, "");
    let said = |line: &str, length: usize| {
        let mut kept = serving.web.connect();
        let address = serving.web.address;
        let more = format!("Host: {address}\r\nContent-Length: {length}\r\n\r\n");
        kept.write_all(format!("{line} HTTP/1.1\r\n{more}").as_bytes())
            .unwrap();
        let mut head = vec![0; 4_096];
        let read = kept.read(&mut head).unwrap();
        String::from_utf8_lossy(&head[..read]).to_ascii_lowercase()
    };
    for (line, length, ends) in [
        ("POST /mcp", 2, true),
        ("POST /v1/calls", 2, true),
        ("GET /mcp", 0, false),
    ] {
        let said = said(line, length);
        assert!(said.starts_with("http/1.1 401"), "{said}");
        assert_eq!(said.contains("connection: close"), ends, "{line}: {said}");
    }
}

#[test]
fn a_page_of_an_allowed_origin_reads_the_metadata() {
    let issuer = Issuer::new();
    let page = "https://app.example";
    let allowed = format!("--allow-origin={page}");
    let anna = issuer.principal("anna", "{ sub = \"anna\" }");
    let settings = format!("{}{anna}", issuer.section(""));
    let serving = Serving::with(&settings, &[&allowed]);
    let get = |origin: &str| {
        let headers = [("Authorization", ""), ("Origin", origin)];
        serving.web.request(METADATA, &headers, "")
    };
    let reply = get(page);
    assert_eq!(
        (
            reply.status,
            reply.header("access-control-allow-origin").as_deref()
        ),
        (200, Some(page))
    );
    let exposed = reply.header("access-control-expose-headers").unwrap();
    assert!(exposed.contains("www-authenticate"), "{exposed}");
    for origin in ["null", "https://app.example.evil.test", "https://evil.test"] {
        assert_eq!(get(origin).status, 403, "{origin}");
    }
}

#[test]
fn a_server_with_a_name_is_that_resource() {
    let issuer = Issuer::new();
    let anna = issuer.principal("anna", "{ sub = \"anna\" }");
    let settings = |more: &str| format!("{}{anna}", issuer.section(more));
    let serving = Serving::with(&settings(""), &["--allow-host=tools.example"]);
    let token = |audience: &str| {
        let mut claims = issuer.claims(&serving.web, "anna");
        claims["aud"] = json!(audience);
        issuer.signer.token(&issuer.header(), &claims)
    };
    let reply = serving.web.request(METADATA, &[], "");
    let metadata: Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!(metadata["resource"], json!("https://tools.example/mcp"));
    assert_eq!(metadata.get("scopes_supported"), None);
    let challenge = serving.greet("").header("www-authenticate").unwrap();
    assert!(!challenge.contains("scope="), "{challenge}");
    serving.takes(&token("https://tools.example/mcp"));
    serving.takes(&token("https://tools.example"));
    // Any machine has such an address.
    let here = format!("http://{}/mcp", serving.web.address);
    for audience in [
        here.as_str(),
        "http://tools.example/mcp",
        "https://tools.example.evil.test",
    ] {
        serving.refuses(&token(audience), 401, "another audience");
    }
    let serving = Serving::of(&settings("audience = \"api://tools\""));
    serving.takes(&token("api://tools"));
    serving.refuses(&issuer.token(&serving.web, "anna"), 401, "another audience");
}

#[test]
fn a_token_is_in_one_header_and_nowhere_else() {
    let issuer = Issuer::new();
    let serving = Serving::for_anna(&issuer, "");
    let token = issuer.token(&serving.web, "anna");
    let bearer = format!("Bearer {token}");
    let body = json!({ "tool": "invocation", "input": {} }).to_string();
    for path in ["/v1/calls", "/mcp", "/metrics"] {
        for query in ["access_token=", "a=b&access_token=x&"] {
            let line = format!("POST {path}?{}{token}", query.replace('x', ""));
            for authorization in ["", &bearer] {
                let headers = [("Authorization", authorization)];
                let reply = serving.web.request(&line, &headers, &body);
                assert_eq!(reply.status, 400, "{line}: {reply:?}");
                assert!(reply.body.contains("a token in the URL"), "{reply:?}");
            }
        }
    }
    let mut twice = serving.web.changed(&[("Authorization", &bearer)]);
    twice.push(("Authorization".to_owned(), bearer.clone()));
    assert_eq!(
        serving
            .web
            .send("POST /v1/calls", &twice, &body)
            .whole()
            .status,
        401
    );
    for authorization in [
        format!("Basic {token}"),
        format!("DPoP {token}"),
        token.clone(),
        format!("{bearer}, {bearer}"),
        format!("Bearer {token} {token}"),
    ] {
        assert_eq!(serving.greet(&authorization).status, 401, "{authorization}");
    }
    assert_eq!(serving.records().len(), 0);
    assert_eq!(serving.greet(&format!("bearer  {token}")).status, 200);
    let said = serving.web.end();
    assert!(!said.contains(&token), "{said}");
}

#[test]
fn behind_a_proxy_metadata_is_between_the_origin_and_the_path() {
    let issuer = Issuer::new();
    let anna = issuer.principal("anna", "{ sub = \"anna\" }");
    let settings = format!("{}{anna}", issuer.section(""));
    let url = "--public-url=https://tools.example/agents";
    let serving = Serving::with(&settings, &[url]);
    let refused = serving.greet("");
    let metadata = "https://tools.example/.well-known/oauth-protected-resource/agents/mcp";
    assert_eq!(
        refused.header("www-authenticate").unwrap(),
        format!("Bearer resource_metadata=\"{metadata}\"")
    );
    let get = |line: &str| serving.web.request(line, &[("Authorization", "")], "");
    let below = METADATA.replace("GET ", "GET /agents");
    // The proxy removes the path, or does not.
    for line in [
        METADATA.to_owned(),
        format!("{METADATA}/mcp"),
        format!("{METADATA}/agents"),
        format!("{METADATA}/agents/mcp"),
        format!("{below}/mcp"),
    ] {
        let reply = get(&line);
        assert_eq!(reply.status, 200, "{line}: {reply:?}");
        let said: Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!(
            said["resource"], "https://tools.example/agents/mcp",
            "{line}"
        );
    }
    for path in ["/agentsmcp", "/agents/v1", "/other/mcp"] {
        assert_eq!(get(&format!("{METADATA}{path}")).status, 404, "{path}");
    }
}
