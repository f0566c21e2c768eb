//! What proxies, Kubernetes and systemd expect of a server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown, symlink};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Coming, Home, Toolcell, Web, kept, scratch};

const ANNA: &str = "0123456789abcdef0";
const OTHER: &str = "fedcba98765432100";
const SCRAPER: &str = "a-token-for-metrics";

pub(super) fn write(file: &Path, text: &str, mode: u32) {
    std::fs::write(file, text).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn call(web: &Web, token: &str) -> u16 {
    let body = json!({ "tool": "echo", "input": {} }).to_string();
    let authorization = format!("Bearer {token}");
    web.request(
        "POST /v1/calls",
        &[("Authorization", &authorization)],
        &body,
    )
    .status
}

/// Whole requests, with nothing added.
fn raw(web: &Web, text: &str) -> String {
    let mut stream = web.connect();
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn probes_come_by_any_address_and_pages_of_others_do_not() {
    let web = Web::of(&["probe#echo"]);
    for path in ["/livez", "/healthz", "/readyz"] {
        for text in [
            format!("GET {path} HTTP/1.1\r\nHost: 10.1.2.3:8080\r\nConnection: close\r\n\r\n"),
            format!("GET {path} HTTP/1.1\r\nHost: tools.internal\r\nConnection: close\r\n\r\n"),
            format!("GET {path} HTTP/1.0\r\n\r\n"),
        ] {
            let answer = raw(&web, &text);
            assert!(
                answer.contains(" 200 OK\r\n") && answer.ends_with("ok"),
                "{text}{answer}"
            );
        }
        let page = format!(
            "GET {path} HTTP/1.1\r\nHost: 10.1.2.3\r\nOrigin: http://evil.example\r\nConnection: close\r\n\r\n"
        );
        assert!(raw(&web, &page).contains(" 403 "));
    }
    let other = "GET /v1/tools HTTP/1.1\r\nHost: 10.1.2.3:8080\r\nConnection: close\r\n\r\n";
    assert!(raw(&web, other).contains(" 403 "));
}

/// A secret as Kubernetes mounts it: the folder of a version behind a link, and links to its files.
fn mount(folder: &Path, version: &str, text: &str, mode: u32) -> PathBuf {
    let data = folder.join(format!("..{version}"));
    std::fs::create_dir(&data).unwrap();
    write(&data.join("tokens"), text, mode);
    let link = folder.join("..data_tmp");
    symlink(format!("..{version}"), &link).unwrap();
    std::fs::rename(&link, folder.join("..data")).unwrap();
    let file = folder.join("tokens");
    if file.symlink_metadata().is_err() {
        symlink("..data/tokens", &file).unwrap();
    }
    file
}

#[test]
fn a_mounted_secret_is_read_and_replaced_and_one_that_others_read_is_refused() {
    let (_guard, folder) = scratch();
    let tokens = mount(&folder, "2026_01", &format!("anna {ANNA}\n"), 0o440);
    let option = format!("--token-file={}", tokens.display());
    let mut web = Web::with(&["probe#echo"], [&option]);
    assert_eq!((call(&web, ANNA), call(&web, OTHER)), (200, 401));
    mount(&folder, "2026_02", &format!("anna {OTHER}\n"), 0o440);
    let pid = web.pid().to_string();
    assert!(
        Command::new("kill")
            .args(["-HUP", &pid])
            .status()
            .unwrap()
            .success()
    );
    web.says("SIGHUP: the tokens were read again");
    assert_eq!((call(&web, ANNA), call(&web, OTHER)), (401, 200));
    web.end();
    let refused = |file: &Path, why: &str| {
        let option = format!("--token-file={}", file.display());
        let ran = Toolcell::new(Web::arguments(&["probe#echo"], [&option]))
            .run()
            .exits(2);
        assert!(
            ran.stderr.contains("others can read the tokens") && ran.stderr.contains(why),
            "{}",
            ran.stderr
        );
    };
    let file = mount(&folder, "2026_03", &format!("anna {ANNA}\n"), 0o444);
    refused(&file, "any user");
    let file = mount(&folder, "2026_04", &format!("anna {ANNA}\n"), 0o460);
    refused(&file, "a group");
    if rustix::process::geteuid().is_root() {
        // A group that this process does not have.
        let file = mount(&folder, "2026_05", &format!("anna {ANNA}\n"), 0o440);
        chown(&file, None, Some(54_321)).unwrap();
        refused(&file, "a group of other users");
        chown(&file, Some(54_321), Some(0)).unwrap();
        refused(&file, "another user");
    }
}

#[test]
fn behind_a_proxy_urls_are_those_of_clients() {
    let options = [
        "--public-url=https://tools.example/agents",
        "--trusted-proxy=127.0.0.1",
        "--log=json",
    ];
    let web = Web::with(&["probe#echo"], options);
    let body = json!({ "tool": "echo", "input": {} }).to_string();
    let named = [("Host", "tools.example"), ("Prefer", "respond-async")];
    // The proxy removes the path, or does not.
    for line in ["POST /v1/calls", "POST /agents/v1/calls"] {
        let reply = web.request(line, &named, &body);
        assert_eq!(reply.status, 202, "{reply:?}");
        let location = reply.header("location").unwrap();
        assert!(location.starts_with("/agents/v1/calls/"), "{location}");
        let followed = web.request(&format!("GET {location}"), &[("Host", "tools.example")], "");
        assert_eq!(followed.status, 200, "{followed:?}");
    }
    assert_eq!(web.request("GET /agentsx/v1/tools", &[], "").status, 404);
    assert_eq!(
        web.request("GET /agents/livez", &[("Host", "10.0.0.1")], "")
            .status,
        200
    );
    // The address that the proxy saw is the client's; a client can write those before it.
    let forwarded = [
        ("X-Forwarded-For", "6.6.6.6, 203.0.113.9"),
        ("Authorization", "Bearer wrong"),
    ];
    assert_eq!(web.request("GET /v1/tools", &forwarded, "").status, 401);
    let line: Value = serde_json::from_str(&web.says("access_refused")).unwrap();
    assert_eq!(line["peer"], "203.0.113.9", "{line}");
    web.end();
    let web = Web::with(&["probe#echo"], ["--log=json"]);
    assert_eq!(web.request("GET /v1/tools", &forwarded, "").status, 401);
    let line: Value = serde_json::from_str(&web.says("access_refused")).unwrap();
    assert_eq!(line["peer"], "127.0.0.1", "{line}");
    assert_eq!(web.request("GET /agents/v1/tools", &[], "").status, 404);
}

/// Reads one answer, whose body has a length.
fn answer(stream: &mut BufReader<impl Read>) -> Option<(String, String)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).unwrap() == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| {
        line.to_ascii_lowercase()
            .strip_prefix("content-length: ")?
            .parse()
            .ok()
    });
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).unwrap();
    Some((head, String::from_utf8(body).unwrap()))
}

#[test]
fn an_idle_connection_stays_longer_than_a_head_may_take_and_as_long_as_is_set() {
    let again = |web: &Web, pause: Duration| {
        let mut stream = BufReader::new(web.connect());
        let probe = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.get_mut().write_all(probe).unwrap();
        assert!(answer(&mut stream).is_some());
        std::thread::sleep(pause);
        let _ = stream.get_mut().write_all(probe);
        let mut byte = [0];
        matches!(stream.get_ref().peek(&mut byte), Ok(1))
    };
    let patient = Web::of(&["probe#echo"]);
    let web = Web::with(&["probe#echo"], ["--keep-alive=500ms"]);
    assert!(!again(&web, Duration::from_secs(2)), "it was not closed");
    assert!(again(&web, Duration::from_millis(50)));
    // By default a proxy's connection outlasts the time for a head, 10 s.
    assert!(again(&patient, Duration::from_millis(11_500)));
}

pub(super) struct Ended(pub(super) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server, and waits for the last line of its greeting. Returns the token, too.
fn started(program: Toolcell) -> (Ended, String) {
    let mut server = Ended(program.spawn());
    let mut lines = BufReader::new(server.0.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let mut token = String::new();
    let mut heard = Vec::new();
    for line in lines.by_ref() {
        heard.push(line.clone());
        if let Some(text) = line.strip_prefix("Authorization: Bearer ") {
            token = text.to_owned();
        }
        if line.starts_with("MCP at ") {
            std::thread::spawn(move || lines.for_each(drop));
            return (server, token);
        }
    }
    panic!("the program ended: {heard:#?}")
}

pub(super) fn over_socket(path: &Path, token: &str) -> String {
    let mut stream = UnixStream::connect(path).unwrap();
    let body = json!({ "tool": "echo", "input": { "n": 1 } }).to_string();
    let request = format!(
        "POST /v1/calls HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

pub(super) fn serve_at(path: &Path, more: &[&str]) -> Toolcell {
    let mut arguments = Web::arguments(&["probe#echo"], more);
    arguments[1] = format!("--listen=unix:{}", path.display()).into();
    Toolcell::new(arguments)
}

#[test]
fn a_socket_in_the_file_system_is_for_its_user_alone() {
    let (_guard, folder) = scratch();
    let path = folder.join("http.sock");
    let (mut server, token) = started(serve_at(&path, &[]));
    let metadata = path.symlink_metadata().unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    assert!(over_socket(&path, &token).starts_with("HTTP/1.1 200"));
    assert!(over_socket(&path, "wrong-token-of-nobody").starts_with("HTTP/1.1 401"));
    // Another server does not take it, and what is no socket stays.
    let refused = serve_at(&path, &[]).run().exits(2);
    assert!(
        refused.stderr.contains("cannot listen at unix:"),
        "{}",
        refused.stderr
    );
    let file = folder.join("file");
    std::fs::write(&file, "text").unwrap();
    let refused = serve_at(&file, &[]).run().exits(2);
    assert!(
        refused.stderr.contains("not a socket"),
        "{}",
        refused.stderr
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "text");
    // One that a killed server left does not stop the next.
    server.0.kill().unwrap();
    server.0.wait().unwrap();
    assert!(path.exists());
    let (mut server, _) = started(serve_at(&path, &["--no-token", "--listen-mode=600"]));
    assert!(over_socket(&path, "").starts_with("HTTP/1.1 200"));
    let pid = server.0.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .unwrap()
            .success()
    );
    assert!(server.0.wait().unwrap().success());
    assert!(!path.exists(), "the file of a server that ended");
    let refused = serve_at(&path, &["--no-token", "--listen-mode=660"])
        .run()
        .exits(2);
    assert!(refused.stderr.contains("--no-token"), "{}", refused.stderr);
    let (_server, token) = started(serve_at(&path, &["--listen-mode=660"]));
    let mode = path.symlink_metadata().unwrap().permissions().mode();
    assert_eq!((mode & 0o777, token.len()), (0o660, 64));
}

/// Waits for a message that contains `meant`.
fn told(socket: &UnixDatagram, meant: &str) -> String {
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    loop {
        let mut bytes = [0; 512];
        let read = socket
            .recv(&mut bytes)
            .unwrap_or_else(|error| panic!("no {meant}: {error}"));
        let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
        if text.contains(meant) {
            return text;
        }
    }
}

/// The program as systemd starts it with a socket.
pub(super) fn passed(listener: &impl std::os::fd::AsFd, options: &[&str]) -> Command {
    rustix::io::fcntl_setfd(listener, rustix::io::FdFlags::empty()).unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&listener.as_fd());
    let mut command = Command::new("bash");
    let script = format!(
        "exec 3<&{fd}; [ {fd} = 3 ] || exec {fd}<&-; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\""
    );
    command.args(["-c", &script, "bash", env!("CARGO_BIN_EXE_toolcell")]);
    // Its own option is left out.
    command.args(Web::arguments(&["probe#echo"], options));
    command.env("TOOLCELL_HOME", kept("home"));
    command
}

#[cfg(target_os = "linux")]
#[test]
fn a_socket_of_systemd_that_others_can_open_needs_a_token() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    let (_guard, folder) = scratch();
    let path = folder.join("socket");
    let in_file = UnixListener::bind(&path).unwrap();
    let mode = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(&path, mode).unwrap();
    let name = SocketAddr::from_abstract_name(folder.display().to_string()).unwrap();
    let nameless = UnixListener::bind_addr(&name).unwrap();
    for listener in [in_file, nameless] {
        let refused = Toolcell::exactly(passed(&listener, &["--no-token"])).run();
        assert!(refused.exits(2).stderr.contains("--no-token"));
    }
}

#[test]
fn systemd_passes_the_socket_and_is_told_what_happens() {
    let (_guard, folder) = scratch();
    let notify = folder.join("notify");
    let manager = UnixDatagram::bind(&notify).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut command = passed(&listener, &[]);
    command.env("NOTIFY_SOCKET", &notify);
    let mut web = Web::run(Toolcell::exactly(command));
    assert_eq!(web.address, address);
    drop(listener);
    told(&manager, "READY=1");
    assert_eq!(call(&web, &web.token), 200);
    let pid = web.pid().to_string();
    let signal = |name: &str| {
        assert!(
            Command::new("kill")
                .args([name, &pid])
                .status()
                .unwrap()
                .success()
        );
    };
    signal("-HUP");
    let reloading = told(&manager, "RELOADING=1");
    assert!(reloading.contains("MONOTONIC_USEC="), "{reloading}");
    told(&manager, "READY=1");
    signal("-TERM");
    told(&manager, "STOPPING=1");
}

#[test]
fn metrics_have_a_token_or_an_address_of_their_own() {
    let (_guard, folder) = scratch();
    let tokens = folder.join("tokens");
    let metrics = folder.join("metrics");
    write(&tokens, &format!("anna {ANNA}\n"), 0o600);
    write(&metrics, &format!("prometheus {SCRAPER}\n"), 0o600);
    let file = format!("--token-file={}", tokens.display());
    let scraper = format!("--metrics-token-file={}", metrics.display());
    let web = Web::with(&["probe#echo"], [&file, &scraper]);
    assert_eq!(call(&web, ANNA), 200);
    assert_eq!(call(&web, "wrong"), 401);
    let read = |web: &Web, token: &str| {
        web.request(
            "GET /metrics",
            &[("Authorization", &format!("Bearer {token}"))],
            "",
        )
    };
    assert_eq!(
        (read(&web, ANNA).status, read(&web, "wrong").status),
        (403, 401)
    );
    assert_eq!(call(&web, SCRAPER), 401, "it makes no calls");
    let text = read(&web, SCRAPER).body;
    for line in [
        "toolcell_http_requests_total{interface=\"api\",status=\"200\"} 1",
        "toolcell_http_requests_total{interface=\"api\",status=\"401\"} 2",
        "toolcell_http_requests_total{interface=\"metrics\",status=\"403\"} 1",
        "toolcell_connections_refused_total 0",
        "toolcell_connections_evicted_total{state=\"idle\"} 0",
        "toolcell_call_places 64",
        "toolcell_log_writable 1",
    ] {
        assert!(text.lines().any(|known| known == line), "{line}\n{text}");
    }
    for name in [
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_threads",
        "toolcell_budget_bytes{budget=\"calls\"}",
        "toolcell_connections{state=\"unauthenticated\"}",
    ] {
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        assert!(value.is_some_and(|value| value > 0.0), "{name}\n{text}");
    }
    // A call of less than a millisecond takes time, too.
    let sum = "toolcell_call_duration_seconds_sum{tool=\"probe.echo\"} ";
    let sum = text
        .lines()
        .find_map(|line| line.strip_prefix(sum)?.parse::<f64>().ok());
    assert!(
        sum.is_some_and(|sum| sum > 0.0 && (sum * 1e3).fract() != 0.0),
        "{sum:?}"
    );
    web.end();
    for options in [
        &["--metrics-listen=127.0.0.1:0"][..],
        &["--metrics-listen=127.0.0.1:0", &scraper],
    ] {
        apart(options);
    }
    let same = format!("--metrics-token-file={}", tokens.display());
    let refused = Toolcell::new(Web::arguments(&["probe#echo"], [&file, &same]))
        .run()
        .exits(2);
    assert!(
        refused.stderr.contains("give each its own"),
        "{}",
        refused.stderr
    );
}

/// Metrics at an address of their own, with a token if the options name some.
fn apart(options: &[&str]) {
    let mut server = Ended(Toolcell::new(Web::arguments(&["probe#echo"], options)).spawn());
    let mut lines = BufReader::new(server.0.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let mut place = |begins: &str| {
        lines
            .find_map(|line| {
                line.strip_prefix(begins)?
                    .split('/')
                    .next()
                    .map(str::to_owned)
            })
            .unwrap()
    };
    let metrics = place("Metrics at http://");
    let main = place("MCP at http://");
    let get = |address: &str, path: &str, host: &str, token: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        Coming::head(stream).whole().status
    };
    let needs_token = options.len() > 1;
    let alone = if needs_token { 401 } else { 200 };
    assert_eq!(get(&metrics, "/metrics", "10.1.2.3:9090", ""), alone);
    assert_eq!(get(&metrics, "/metrics", "10.1.2.3:9090", SCRAPER), 200);
    // A page can point its own name here.
    assert_eq!(get(&metrics, "/metrics", "evil.example", SCRAPER), 403);
    assert_eq!(get(&metrics, "/readyz", "10.1.2.3:9090", ""), 200);
    assert_eq!(get(&metrics, "/v1/tools", "10.1.2.3:9090", SCRAPER), 404);
    assert_eq!(get(&main, "/metrics", &main, SCRAPER), 404);
    drop(server);
}

#[test]
fn a_check_finds_what_would_keep_a_server_from_starting() {
    let home = Home::new();
    let (_guard, folder) = scratch();
    let tokens = folder.join("tokens");
    write(&tokens, &format!("anna {ANNA}\nbert {OTHER}\n"), 0o600);
    let tool = Web::arguments(&["probe#echo"], [""; 0])[2]
        .clone()
        .into_string()
        .unwrap();
    let file = format!("--token-file={}", tokens.display());
    let check = |listen: &str, more: &[&str]| {
        let fixed = ["serve", "--check", "--json", listen];
        home.toolcell(&[&fixed[..], more].concat()).run()
    };
    let states = |ran: &Value| -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let checks = ran["checks"].as_array().unwrap();
        checks
            .iter()
            .map(|check| (text(&check["subject"]), text(&check["state"])))
            .collect()
    };
    let good = check("--listen=127.0.0.1:0", &[&file, &tool])
        .exits(0)
        .json();
    let good = states(&good);
    for subject in ["state", "journal", "tokens", "address", "tools"] {
        assert!(
            good.contains(&(subject.to_owned(), "ready".to_owned())),
            "{subject}: {good:?}"
        );
    }
    // Each fault is found, and they are found together.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("--listen={}", taken.local_addr().unwrap());
    std::fs::set_permissions(&tokens, std::fs::Permissions::from_mode(0o644)).unwrap();
    let bad = states(
        &check(&listen, &[&file, "/nonexistent.wasm"])
            .exits(1)
            .json(),
    );
    for subject in ["tokens", "address", "tools"] {
        assert!(
            bad.contains(&(subject.to_owned(), "missing".to_owned())),
            "{subject}: {bad:?}"
        );
    }
    home.configure("[server]\ndrain = 5\n");
    let began = Instant::now();
    let ran = home
        .toolcell(&["serve", "--check", "--listen=127.0.0.1:0", &tool])
        .run()
        .exits(1);
    assert!(
        ran.stdout.contains("drain") && ran.stdout.contains("fix:"),
        "{}",
        ran.stdout
    );
    assert!(began.elapsed() < Duration::from_secs(30));
}
