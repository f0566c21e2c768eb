//! One client leaves room for the others.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Web, scratch};

/// Longer than anything takes on a busy machine.
const SOON: Duration = Duration::from_secs(8);

fn works(web: &Web) {
    let reply = web.stateless("tools/call", json!({ "name": "invocation", "arguments": {} }), json!({}));
    assert_eq!(reply.answer()["result"]["isError"], json!(false), "{reply:?}");
}

#[test]
fn all_the_streams_of_one_principal_leave_room_for_another() {
    let (_guard, path) = scratch();
    let tokens = path.join("tokens");
    std::fs::write(&tokens, "anna 0123456789abcdef0\nbert fedcba98765432100\n").unwrap();
    std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let mut web = Web::with(&["probe#invocation"], [format!("--token-file={}", tokens.display())]);
    web.token = "0123456789abcdef0".to_owned();
    let session = web.session(json!({}));
    let headers = web.changed(&web.in_session(&session));
    let streams: Vec<TcpStream> = (0..256).map(|_| web.begin("GET /mcp", &headers, "")).collect();
    // All of them are served that will be.
    let mut status = [0; 12];
    (&streams[0]).read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    web.token = "fedcba98765432100".to_owned();
    let began = Instant::now();
    works(&web);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    drop(streams);
    web.token = "0123456789abcdef0".to_owned();
    works(&web);
}

#[test]
fn silent_connections_without_a_token_leave_room_for_who_has_one() {
    let web = Web::of(&["probe#invocation"]);
    let silent: Vec<TcpStream> = (0..300).map(|_| web.connect()).collect();
    let began = Instant::now();
    works(&web);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    // Also those that begin a request, and send no token.
    for stream in &silent {
        let _ = (&*stream).write_all(b"POST /mcp HTTP/1.1\r\nHost: ");
    }
    let begun: Vec<TcpStream> = (0..100).map(|_| web.connect()).collect();
    for stream in &begun {
        let _ = (&*stream).write_all(b"POST /mcp HTTP/1.1\r\nHost: ");
    }
    let began = Instant::now();
    works(&web);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[test]
fn a_connection_that_says_nothing_is_closed_soon() {
    let web = Web::of(&["probe#invocation"]);
    let mut stream = web.connect();
    let began = Instant::now();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.is_empty() && began.elapsed() < SOON, "{:?}", began.elapsed());
}
