//! Unauthorized clients are refused, and nothing runs for them (FE-1, FE-2).
//!
//! Promise: Strangers stay out.

use serde_json::{Value, json};

use crate::support::{Reply, Web, frame, records, scratch};

fn call() -> String {
    frame(
        json!(1),
        "tools/call",
        json!({ "name": "invocation", "arguments": {} }),
    )
}

/// A server with one tool, and the file of its records.
fn recorded(options: &[&str]) -> (Web, tempfile::TempDir, std::path::PathBuf) {
    let (guard, path) = scratch();
    let file = path.join("records");
    let record = format!("--record-to={}", file.display());
    let web = Web::with(
        &["probe#invocation"],
        options.iter().copied().chain([record.as_str()]),
    );
    (web, guard, file)
}

fn ran(file: &std::path::Path) -> usize {
    records(file).len()
}

#[test]
fn another_host_or_origin_is_refused_on_every_route_and_nothing_runs() {
    let (web, _guard, file) = recorded(&[]);
    let port = web.address.port();
    let own = format!("http://127.0.0.1:{port}");
    for path in [
        "POST /mcp",
        "GET /mcp",
        "DELETE /mcp",
        "OPTIONS /mcp",
        "GET /",
    ] {
        for (header, value) in [
            ("Host", "evil.test".to_owned()),
            ("Host", format!("evil.test:{port}")),
            ("Host", format!("127.0.0.1.evil.test:{port}")),
            ("Host", "127.0.0.1:1".to_owned()),
            ("Origin", "http://evil.test".to_owned()),
            ("Origin", "null".to_owned()),
            ("Origin", format!("https://127.0.0.1:{port}")),
            ("Origin", format!("{own}.evil.test")),
        ] {
            let reply = web.request(path, &[(header, &value)], &call());
            assert_eq!(reply.status, 403, "{path} {header}: {value}: {reply:?}");
        }
        let none = web.request(path, &[("Host", "")], &call());
        assert!(
            [400, 403].contains(&none.status),
            "{path} without a Host: {none:?}"
        );
    }
    // The same request from an allowed origin.
    let stateless = |more: &[(&str, &str)]| {
        let mut params = json!({ "name": "invocation", "arguments": {} });
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        params["_meta"]["io.modelcontextprotocol/clientInfo"] =
            json!({ "name": "t", "version": "1" });
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        let mut headers = vec![
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "invocation"),
        ];
        headers.extend(more);
        web.request(
            "POST /mcp",
            &headers,
            &frame(json!(1), "tools/call", params),
        )
    };
    assert_eq!(ran(&file), 0);
    let reply = stateless(&[("Origin", &own)]);
    assert_eq!(
        (reply.status, reply.answer()["result"]["isError"].clone()),
        (200, json!(false)),
        "{reply:?}"
    );
    assert_eq!(web.terminate().0.to_string(), "exit status: 0");
    assert_eq!(ran(&file), 1);
}

#[test]
fn nobody_comes_in_without_the_token_and_nothing_runs() {
    let (web, _guard, file) = recorded(&[]);
    assert_eq!(web.token.len(), 64);
    let wrong = [
        "",
        "Bearer",
        "Bearer ",
        "Bearer x",
        "Basic dTpw",
        &format!("Bearer {}0", web.token),
    ]
    .map(str::to_owned);
    for authorization in wrong {
        for line in ["POST /mcp", "GET /mcp", "DELETE /mcp"] {
            let reply = web.request(line, &[("Authorization", &authorization)], &call());
            assert_eq!(reply.status, 401, "{line} {authorization:?}: {reply:?}");
            assert_eq!(reply.header("www-authenticate").as_deref(), Some("Bearer"));
        }
    }
    let mut twice = web.headers();
    twice.push(("Authorization".to_owned(), "Bearer x".to_owned()));
    assert_eq!(web.send("POST /mcp", &twice, &call()).whole().status, 401);
    // An unauthorized client does not learn which tools exist.
    let reply = web.request("POST /mcp", &[("Authorization", "")], &call());
    assert!(!reply.body.contains("invocation"), "{reply:?}");
    assert_eq!(web.terminate().0.to_string(), "exit status: 0");
    assert_eq!(ran(&file), 0);
}

#[test]
fn a_form_that_a_page_can_send_is_not_taken() {
    let (web, _guard, file) = recorded(&["--no-token"]);
    assert!(web.token.is_empty());
    let refused = |reply: Reply, status: u16| assert_eq!(reply.status, status, "{reply:?}");
    refused(
        web.request("POST /mcp", &[("Content-Type", "text/plain")], &call()),
        415,
    );
    refused(
        web.request(
            "POST /mcp",
            &[("Content-Type", "application/x-www-form-urlencoded")],
            &call(),
        ),
        415,
    );
    refused(
        web.request("POST /mcp", &[("Accept", "text/html")], &call()),
        406,
    );
    refused(web.request("GET /tools", &[], ""), 404);
    let preflight = web.request(
        "OPTIONS /mcp",
        &[("Origin", &format!("http://{}", web.address))],
        "",
    );
    assert!(
        preflight.header("access-control-allow-origin").is_none(),
        "{preflight:?}"
    );
    assert_eq!(web.terminate().0.to_string(), "exit status: 0");
    assert_eq!(ran(&file), 0);
}

#[test]
fn probes_answer_without_a_token_and_say_nothing() {
    let web = Web::of(&["probe#invocation"]);
    for path in ["GET /healthz", "GET /readyz"] {
        let reply = web.request(path, &[("Authorization", "")], "");
        assert_eq!((reply.status, reply.body.as_str()), (200, "ok"), "{path}");
    }
    let refused = web.request("POST /healthz", &[], "");
    assert_eq!(
        (refused.status, refused.header("allow").as_deref()),
        (405, Some("GET, HEAD"))
    );
}

#[test]
fn a_header_that_differs_from_the_body_is_refused() {
    let web = Web::of(&["probe#invocation", "probe#echo"]);
    let mut params = json!({ "name": "invocation", "arguments": {} });
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({ "name": "t", "version": "1" });
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let body = frame(json!(1), "tools/call", params);
    for (method, name, status) in [
        ("tools/call", "invocation", 200),
        ("tools/call", "echo", 400),
        ("tools/list", "invocation", 400),
    ] {
        let more = [
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", method),
            ("Mcp-Name", name),
        ];
        let reply = web.request("POST /mcp", &more, &body);
        assert_eq!(reply.status, status, "{method} {name}: {reply:?}");
    }
}

#[test]
fn tokens_of_a_file_name_their_principals_and_a_file_that_others_read_is_refused() {
    let (_guard, path) = scratch();
    let tokens = path.join("tokens");
    let file = path.join("records");
    std::fs::write(&tokens, "anna 0123456789abcdef0\nbert fedcba98765432100\n").unwrap();
    let options = [
        format!("--token-file={}", tokens.display()),
        format!("--record-to={}", file.display()),
    ];
    let refused =
        crate::support::Toolcell::new(Web::arguments(&["probe#invocation"], &options)).run();
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("chmod 600"), "{}", refused.stderr);
    std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let mut web = Web::with(&["probe#invocation"], &options);
    assert!(web.token.is_empty(), "a token of a file was printed");
    web.token = "fedcba98765432100".to_owned();
    let session = web.session(json!({}));
    assert_eq!(
        web.call(&session, "invocation", json!({}))["result"]["isError"],
        json!(false)
    );
    assert_eq!(web.terminate().0.to_string(), "exit status: 0");
    let record: Value = records(&file).pop().unwrap();
    assert_eq!(record["invocation"]["actor_ref"], "token:bert");
}

#[test]
fn others_than_this_machine_are_served_only_with_a_token_and_by_a_name() {
    for (options, why) in [
        (["--listen=0.0.0.0:0", "--no-token"], "loopback"),
        (
            ["--listen=0.0.0.0:0", "--allow-origin=https://app.example"],
            "--allow-host",
        ),
        (
            ["--listen=0.0.0.0:0", "--allow-host=https://tools.example"],
            "'https://tools.example'",
        ),
    ] {
        let mut arguments = Web::arguments(&["probe#invocation"], options);
        arguments.retain(|argument| argument != "--listen=127.0.0.1:0");
        let refused = crate::support::Toolcell::new(arguments).run();
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    }
}
