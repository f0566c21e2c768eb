//! Names are looked up at the name server of the command line.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::thread;

use serde_json::json;

use super::guest;
use crate::support::{Server, Toolcell};

const HEADER: usize = 12;
/// DNS flags of a response with recursion available; with NXDOMAIN; and with a truncated answer.
const ANSWER: [u8; 2] = [0x81, 0x80];
const NO_NAME: [u8; 2] = [0x81, 0x83];
const CUT: [u8; 2] = [0x83, 0x80];

/// A name server on the loopback interface. Every name but `none..` resolves to 127.0.0.1; answers to names that begin
/// with `long` do not fit into UDP.
fn name_server() -> SocketAddr {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap();
    let udp = UdpSocket::bind(address).unwrap();
    thread::spawn(move || {
        let mut question = [0; 1 << 10];
        while let Ok((length, from)) = udp.recv_from(&mut question) {
            let answer = answer(&question[..length], true);
            let _ = udp.send_to(&answer, from);
        }
    });
    thread::spawn(move || {
        for stream in tcp.incoming() {
            let mut stream = stream.unwrap();
            let mut length = [0; 2];
            while stream.read_exact(&mut length).is_ok() {
                let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
                stream.read_exact(&mut question).unwrap();
                let answer = answer(&question, false);
                let length = u16::try_from(answer.len()).unwrap().to_be_bytes();
                let _ = stream.write_all(&[&length[..], &answer].concat());
            }
        }
    });
    address
}

fn answer(message: &[u8], over_udp: bool) -> Vec<u8> {
    let mut end = HEADER;
    while message[end] != 0 {
        end += 1 + usize::from(message[end]);
    }
    let question = &message[HEADER..end + 5];
    let name = &message[HEADER + 1..end];
    let is_v4 = question[question.len() - 3] == 1;
    let flags = match name {
        name if name.starts_with(b"none") => NO_NAME,
        name if name.starts_with(b"long") && over_udp => CUT,
        _ => ANSWER,
    };
    let answers = u8::from(is_v4 && flags == ANSWER);
    let mut reply = [
        &message[..2],
        &flags,
        &[0, 1, 0, answers, 0, 0, 0, 0],
        question,
    ]
    .concat();
    if answers == 1 {
        // A pointer to the name of the question, type A, class IN, TTL 9 s.
        reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 127, 0, 0, 1]);
    }
    reply
}

#[test]
fn a_name_is_looked_up_at_the_name_server_that_was_named_also_where_the_answer_is_long() {
    let server = Server::hello();
    let options = [
        format!("--dns-server={}", name_server()),
        "--allow-net=http://*.ex.test:*".to_owned(),
        format!("--allow-net={}", server.url("")),
    ];
    let request = |host: &str| json!({ "authority": format!("{host}:{}", server.port) });
    let requests = ["short.ex.test", "long.ex.test", "none.ex.test"].map(request);
    let input = json!({ "requests": requests }).to_string();
    let arguments = [
        "call".to_owned(),
        guest("egress#ask"),
        input,
        "--json".to_owned(),
    ];
    let answers = Toolcell::new(arguments.iter().chain(&options))
        .run()
        .exits(0)
        .json();
    let answers = &answers["structured_content"]["answers"];
    assert_eq!(
        (&answers[0]["status"], &answers[1]["status"]),
        (&json!(200), &json!(200)),
        "{answers}"
    );
    assert!(
        answers[2]["error"]
            .as_str()
            .is_some_and(|error| error.contains("Dns")),
        "{answers}"
    );
}
