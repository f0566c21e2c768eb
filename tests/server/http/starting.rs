//! What a start finds: sockets, other servers, limits of the system, and proxies at a socket.
//!
//! Promise: A door has limits.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{ChildStderr, Command};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};

use super::deployment::{Ended, over_socket, passed, serve_at};
use crate::support::{Home, Toolcell, Web, kept, scratch};

/// What a server says until it is ready, or ends.
fn said(lines: &mut impl BufRead) -> String {
    let mut said = String::new();
    while lines.read_line(&mut said).unwrap() > 0 {
        if said.lines().last().unwrap().starts_with("MCP at ") {
            break;
        }
    }
    said
}

fn lines(server: &mut Ended) -> BufReader<ChildStderr> {
    BufReader::new(server.0.stderr.take().unwrap())
}

#[test]
fn of_servers_that_start_at_once_at_a_stale_socket_one_serves() {
    let (_guard, folder) = scratch();
    for round in 0..4 {
        let path = folder.join(format!("{round}.sock"));
        drop(UnixListener::bind(&path).unwrap());
        let mut servers: Vec<Ended> = (0..6)
            .map(|_| Ended(serve_at(&path, &[]).spawn()))
            .collect();
        let heard: Vec<String> = std::thread::scope(|scope| {
            let heard: Vec<_> = servers
                .iter_mut()
                .map(|server| scope.spawn(|| said(&mut lines(server))))
                .collect();
            heard.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let (ready, refused): (Vec<_>, Vec<_>) =
            heard.iter().partition(|said| said.contains("MCP at "));
        assert_eq!(ready.len(), 1, "{heard:#?}");
        assert!(
            refused
                .iter()
                .all(|said| said.contains("cannot listen at unix:")),
            "{heard:#?}"
        );
        let token = ready[0]
            .lines()
            .find_map(|line| line.strip_prefix("Authorization: Bearer "))
            .unwrap();
        assert!(over_socket(&path, token).starts_with("HTTP/1.1 200"));
    }
    // One waits until the other, which has looked at the file and does not listen yet, is done.
    let path = folder.join("next.sock");
    let other = File::open(&folder).unwrap();
    flock(&other, FlockOperation::LockExclusive).unwrap();
    let mut server = Ended(serve_at(&path, &[]).spawn());
    std::thread::sleep(Duration::from_secs(2));
    assert!(!path.exists());
    drop(other);
    assert!(said(&mut lines(&mut server)).contains("MCP at "));
}

#[test]
fn the_connection_of_one_client_in_place_of_a_socket_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let accepted = listener.accept().unwrap().0;
    let refused = Toolcell::exactly(passed(&accepted, &[])).run().exits(2);
    assert!(refused.stderr.contains("Accept=no"), "{}", refused.stderr);
    let (_client, accepted) = UnixStream::pair().unwrap();
    let refused = Toolcell::exactly(passed(&accepted, &[])).run().exits(2);
    assert!(refused.stderr.contains("Accept=no"), "{}", refused.stderr);
}

/// The program, which may open so many files at first, and so many if it asks.
#[cfg(target_os = "linux")]
fn with_files(limit: &str, arguments: &[std::ffi::OsString]) -> Toolcell {
    let mut command = Command::new("prlimit");
    command
        .arg(format!("--nofile={limit}"))
        .arg(env!("CARGO_BIN_EXE_toolcell"))
        .args(arguments)
        .env("TOOLCELL_HOME", kept("home"));
    Toolcell::exactly(command)
}

#[test]
#[cfg(target_os = "linux")]
fn a_server_takes_the_files_that_its_limits_need_and_says_if_it_cannot() {
    let mut arguments = Web::arguments(&["probe#echo"], ["--max-requests=1000"]);
    let mut web = Web::run(with_files("256:8192", &arguments));
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", web.pid())).unwrap();
    let files = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))
        .unwrap();
    // As many as these limits need, and no more.
    assert!(files.trim().starts_with("4714 "), "{files}");
    web.end();
    let mut server = Ended(with_files("256:256", &arguments).spawn());
    let said = said(&mut lines(&mut server));
    let meant = "may open 256 files, and the limits of the server need ";
    assert!(said.contains(meant) && said.contains("warning: "), "{said}");
    arguments.push("--check".into());
    let checked = with_files("256:256", &arguments).run().exits(1);
    assert!(checked.stdout.contains(meant), "{}", checked.stdout);
    with_files("256:8192", &arguments).run().exits(0);
}

#[test]
fn a_check_beside_the_service_that_it_is_for_finds_no_fault() {
    let web = Web::of(&["probe#echo"]);
    let home = Home::new();
    let check = |address: &str| {
        let mut arguments = Web::arguments(&["probe#echo"], ["--check", "--json"]);
        arguments[1] = format!("--listen={address}").into();
        let arguments: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
        home.toolcell(&arguments).run()
    };
    let state = |ran: &Value| {
        let checks = ran["checks"].as_array().unwrap();
        let address = checks.iter().find(|check| check["subject"] == "address");
        address.unwrap()["state"].clone()
    };
    let beside = check(&web.address.to_string()).exits(0).json();
    assert_eq!(state(&beside), "warning", "{beside}");
    // Another program does not end for a server.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let beside = check(&other.local_addr().unwrap().to_string())
        .exits(1)
        .json();
    assert_eq!(state(&beside), "missing", "{beside}");
}

#[test]
fn clients_that_stall_do_not_keep_metrics_from_others() {
    let options = ["--metrics-listen=127.0.0.1:0"];
    let mut server = Ended(Toolcell::new(Web::arguments(&["probe#echo"], options)).spawn());
    let mut lines = lines(&mut server);
    let said = said(&mut lines);
    let address = said
        .lines()
        .find_map(|line| line.strip_prefix("Metrics at http://")?.split('/').next())
        .unwrap();
    // More than there are places. Some of them begin, and go no further.
    let silent: Vec<TcpStream> = (0..20)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    for mut stream in &silent[..4] {
        stream.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
    }
    let began = Instant::now();
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(40)))
        .unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    // It ends the connection without being asked to.
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
}

/// The client of a refused request at the socket, as the log has it.
fn client_at_socket(options: &[&str]) -> Value {
    let (_guard, folder) = scratch();
    let path = folder.join("http.sock");
    let options = [options, &["--log=json"]].concat();
    let mut server = Ended(serve_at(&path, &options).spawn());
    let mut lines = lines(&mut server);
    said(&mut lines);
    let mut stream = UnixStream::connect(&path).unwrap();
    let request = "GET /v1/tools HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 6.6.6.6, 203.0.113.9\r\n\
                   Connection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    let refused = lines.lines().map_while(Result::ok);
    let refused = refused.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
    let mut refused = refused.filter(|line| line["event"] == "access_refused");
    refused.next().unwrap()["peer"].clone()
}

#[test]
fn a_trusted_proxy_at_the_socket_names_the_client() {
    let trusted = client_at_socket(&["--trusted-proxy=unix"]);
    assert_eq!(trusted, json!("203.0.113.9"));
    assert_eq!(client_at_socket(&[]), json!("unix"));
    let other = client_at_socket(&["--trusted-proxy=127.0.0.1"]);
    assert_eq!(other, json!("unix"));
}
