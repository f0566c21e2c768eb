//! Network access, once with a profile that declares it and once with one that does not.

use std::io;
use std::net::{TcpListener, TcpStream, ToSocketAddrs, UdpSocket};

use fixture::{Access, Attempts, Input, Tool};
use serde_json::json;

use crate::{Call, Handler, Outcome, answer};

pub(crate) fn tools() -> Vec<Tool> {
    let tool = |name, access, description| {
        Tool::new(name, access, description).input(
            json!({
                "host": { "type": "string" },
                "port": { "type": "integer", "minimum": 1, "maximum": 65535 },
                "name": { "type": "string" },
            }),
            &[],
        )
    };
    vec![
        tool(
            "net",
            Access::Network,
            "Tries TCP, UDP and DNS, and declares it",
        ),
        tool(
            "net_undeclared",
            Access::Nothing,
            "Tries TCP, UDP and DNS, and declares no network",
        ),
    ]
}

pub(crate) fn handler(tool: &str) -> Option<Handler> {
    matches!(tool, "net" | "net_undeclared").then_some(net as Handler)
}

fn net(_: &Call, input: &Input) -> Outcome {
    let host = input.text_or("host", "127.0.0.1");
    let port = input.number_or("port", 9) as u16;
    let name = input.text_or("name", "localhost");
    let address = format!("{host}:{port}");
    let mapped = format!("[::ffff:{host}]:{port}");
    let mut attempts = Attempts::default();
    let mut attempt = |what: &str, target: &str, outcome: io::Result<String>| {
        let outcome = outcome.map_err(|error| format!("{:?}: {error}", error.kind()));
        attempts.record(what, target, outcome);
    };
    attempt("tcp_connect", &address, connect(&address));
    attempt("tcp_connect_mapped", &mapped, connect(&mapped));
    attempt("tcp_listen", "0.0.0.0:0", listen("0.0.0.0:0"));
    attempt("udp_send", &address, send(&address));
    attempt("dns_lookup", name, look_up(name));
    answer(attempts.to_value())
}

fn connect(address: &str) -> io::Result<String> {
    Ok(format!(
        "peer {}",
        TcpStream::connect(address)?.peer_addr()?
    ))
}

fn listen(address: &str) -> io::Result<String> {
    Ok(format!(
        "listening on {}",
        TcpListener::bind(address)?.local_addr()?
    ))
}

fn send(address: &str) -> io::Result<String> {
    let sent = UdpSocket::bind("0.0.0.0:0")?.send_to(b"probe", address)?;
    Ok(format!("{sent} bytes"))
}

fn look_up(name: &str) -> io::Result<String> {
    let found: Vec<_> = (name, 80).to_socket_addrs()?.collect();
    Ok(format!("{found:?}"))
}
