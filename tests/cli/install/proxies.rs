//! Proxies and certificates of the environment: for what goes out on the operator's behalf, and never for a guest.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::super::guest;
use super::super::policy::Place;
use super::project;
use crate::pipeline::doubles::echoing;
use crate::support::{Identity, Mirror, Ran, Server, response};

/// A proxy that leads every connection to one port of this machine, and notes the heads of its requests.
pub(crate) struct Relay {
    port: u16,
    heads: Arc<Mutex<Vec<String>>>,
}

pub(crate) fn relay(to: u16, answer: &'static str) -> Relay {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let seen = Arc::clone(&seen);
            std::thread::spawn(move || pass_on(client, to, answer, &seen));
        }
    });
    Relay { port, heads }
}

fn pass_on(mut client: TcpStream, to: u16, answer: &str, seen: &Mutex<Vec<String>>) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if client.read(&mut byte).unwrap_or(0) == 0 {
            return;
        }
        head.extend(byte);
    }
    let head = String::from_utf8(head).unwrap();
    seen.lock().unwrap().push(head.clone());
    let mut server = TcpStream::connect(("127.0.0.1", to)).unwrap();
    if head.starts_with("CONNECT ") {
        client.write_all(answer.as_bytes()).unwrap();
    } else {
        server.write_all(head.as_bytes()).unwrap();
    }
    let (mut from_client, mut to_server) =
        (client.try_clone().unwrap(), server.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server);
    });
    let _ = std::io::copy(&mut server, &mut client);
    let _ = client.shutdown(std::net::Shutdown::Both);
}

impl Relay {
    pub(crate) fn url(&self) -> String {
        format!("http://ann:hunter2@127.0.0.1:{}", self.port)
    }

    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

pub(crate) const OPEN: &str = "HTTP/1.1 200 OK\r\n\r\n";

fn install(place: &Place, url: &str, variables: &[(&str, &str)]) -> Ran {
    let words = ["install", url, "--allow-unsigned", "--yes", "--json"];
    let mut program = place.toolcell(&words);
    for (name, value) in variables {
        program = program.env(name, value);
    }
    program.run()
}

#[test]
fn a_plain_request_goes_through_the_proxy_unless_its_host_is_left_out() {
    let place = project();
    let server = Mirror::new(|request| {
        let path = request.split(' ').nth(1).unwrap_or_default();
        if path.ends_with("/greet.wasm") {
            response(&[], &echoing("greet", |_| {}))
        } else {
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec()
        }
    });
    let proxy = relay(server.port(), OPEN);
    let url = format!("{}/greet.wasm", server.origin());
    install(
        &place,
        &url,
        &[("HTTP_PROXY", &proxy.url()), ("NO_PROXY", "127.0.0.1")],
    )
    .exits(0);
    assert!(proxy.heads().is_empty());
    place.run(&["remove", "greet"]).exits(0);
    install(&place, &url, &[("HTTP_PROXY", &proxy.url())]).exits(0);
    let heads = proxy.heads();
    let sent = heads
        .iter()
        .find(|head| head.starts_with(&format!("GET {url} HTTP/1.1")))
        .unwrap();
    assert!(
        sent.to_lowercase()
            .contains("proxy-authorization: basic yw5uomh1bnrlcji="),
        "{sent}"
    );
    // A guest's request goes straight to its server, whatever the environment says.
    let before = proxy.heads().len();
    let input = format!(
        "{{\"url\": \"{}/greet.wasm\", \"then\": \"answer\"}}",
        server.origin()
    );
    let net = format!("--allow-net={}", server.origin());
    let called = place
        .toolcell(&["call", &guest("courier#plain"), &input, &net])
        .env("HTTP_PROXY", &proxy.url())
        .run();
    assert!(called.code.is_some());
    assert!(
        server.seen().len() > heads.len(),
        "the guest sent no request: {called:?}"
    );
    assert_eq!(proxy.heads().len(), before);
}

#[test]
fn a_secure_request_goes_through_a_tunnel_and_trusts_the_file_of_the_environment() {
    let place = project();
    let identity = Identity::of(&["packages.example"]);
    let server = Server::secure(&identity, |visit| {
        let Some(head) = visit.head() else { return };
        if head.starts_with("GET /greet.wasm ") {
            visit.say_bytes(&response(&[], &echoing("greet", |_| {})));
        } else {
            visit.say("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    let proxy = relay(server.port, OPEN);
    let roots = identity.authority_in(&place.project);
    let roots = roots.to_str().unwrap();
    let url = "https://packages.example/greet.wasm";
    let variables = [
        ("HTTPS_PROXY", proxy.url()),
        ("SSL_CERT_FILE", roots.to_owned()),
    ];
    let variables = variables
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let untrusted = install(&place, url, &variables[..1]).exits(1);
    assert!(untrusted.stdout.contains("SSL_CERT_FILE"), "{untrusted:?}");
    install(&place, url, &variables).exits(0);
    let heads = proxy.heads();
    // The proxy learns host and port alone.
    assert!(
        heads
            .iter()
            .all(|head| head.starts_with("CONNECT packages.example:443 HTTP/1.1")),
        "{heads:?}"
    );
}

#[test]
fn a_proxy_that_fails_is_named_without_its_password() {
    let place = project();
    let url = "https://packages.example/greet.wasm";
    let forbidden =
        Server::saying("HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n");
    let forbidden = format!("http://ann:hunter2@{}", forbidden.authority());
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let closed = format!("http://ann:hunter2@127.0.0.1:{closed}");
    for (proxy, told) in [
        (closed.as_str(), "through the proxy 127.0.0.1:"),
        (&forbidden, "it answers 407"),
        (
            "socks5://ann:hunter2@127.0.0.1:1",
            "is not one of plain HTTP",
        ),
    ] {
        let ran = install(&place, url, &[("HTTPS_PROXY", proxy)]).exits(1);
        let message = ran.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(
            message.contains(told) && !message.contains("hunter2"),
            "{message}"
        );
    }
}
