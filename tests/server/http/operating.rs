//! What an operator sees of a server, and does with one that runs.
//!
//! Promise: A door has limits.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Home, Toolcell, Web, frame, kept, scratch};

const ANNA: &str = "0123456789abcdef0";
const BERT: &str = "fedcba98765432100";
const CARL: &str = "00112233445566778";

fn write_tokens(file: &Path, text: &str) {
    std::fs::write(file, text).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// The status of a call with this token.
fn call(web: &Web, token: &str, tool: &str) -> u16 {
    let body = json!({ "tool": tool, "input": {} }).to_string();
    web.request(
        "POST /v1/calls",
        &[("Authorization", &format!("Bearer {token}"))],
        &body,
    )
    .status
}

fn hang_up(web: &mut Web, says: &str) {
    let pid = web.pid().to_string();
    assert!(
        Command::new("kill")
            .args(["-HUP", &pid])
            .status()
            .unwrap()
            .success()
    );
    web.says(says);
}

#[test]
fn sighup_reads_the_tokens_again_and_ends_nothing_else() {
    let (_guard, path) = scratch();
    let tokens = path.join("tokens");
    write_tokens(&tokens, &format!("anna {ANNA}\nbert {BERT}\n"));
    let mut web = Web::with(
        &["probe#counter"],
        [format!("--token-file={}", tokens.display())],
    );
    web.token = ANNA.to_owned();
    let session = web.session(json!({}));
    assert_eq!(
        web.call(&session, "counter", json!({}))["result"]["isError"],
        json!(false)
    );
    assert_eq!(
        (call(&web, BERT, "counter"), call(&web, CARL, "counter")),
        (200, 401)
    );
    // Anna has another token, Bert has none any more, and Carl is new.
    let new = "another-token-of-anna";
    write_tokens(&tokens, &format!("anna {new}\ncarl {CARL}\n"));
    hang_up(&mut web, "SIGHUP");
    assert_eq!(
        (call(&web, ANNA, "counter"), call(&web, BERT, "counter")),
        (401, 401)
    );
    assert_eq!(
        (call(&web, new, "counter"), call(&web, CARL, "counter")),
        (200, 200)
    );
    web.token = new.to_owned();
    assert_eq!(
        web.call(&session, "counter", json!({}))["result"]["isError"],
        json!(false)
    );
    // The sessions of others do not exist for Carl.
    web.token = CARL.to_owned();
    let ping = frame(json!(3), "ping", json!({}));
    assert_eq!(
        web.request("POST /mcp", &web.in_session(&session), &ping)
            .status,
        404
    );
    // A file that cannot be used changes nothing.
    std::fs::set_permissions(&tokens, std::fs::Permissions::from_mode(0o644)).unwrap();
    hang_up(&mut web, "the tokens cannot be read again");
    assert_eq!(
        (call(&web, new, "counter"), call(&web, ANNA, "counter")),
        (200, 401)
    );
    assert!(web.terminate().0.success());
}

/// The lines of the log as JSON.
fn lines(said: &str) -> Vec<Value> {
    said.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

#[test]
fn each_call_and_refused_access_is_a_line() {
    let web = Web::with(&["probe#echo", "probe#invocation"], ["--log=json"]);
    assert_eq!(call(&web, &web.token, "echo"), 200);
    call(&web, &web.token, "no\u{1b}[2Jthing");
    let session = web.session(json!({}));
    web.call(&session, "invocation", json!({}));
    (0..200).for_each(|_| assert_eq!(call(&web, "wrong", "echo"), 401));
    assert_eq!(
        web.request("POST /mcp", &[("Origin", "https://evil.example")], "{}")
            .status,
        403
    );
    let said = web.end();
    assert!(!said.contains(['\u{1b}']), "{said}");
    let lines = lines(&said);
    let calls: Vec<&Value> = lines
        .iter()
        .filter(|line| line["event"] == "call")
        .collect();
    assert_eq!(calls.len(), 3, "{said}");
    assert_eq!(
        (&calls[0]["tool"], &calls[0]["status"], &calls[0]["level"]),
        (&json!("probe.echo"), &json!("succeeded"), &json!("info"))
    );
    assert_eq!(
        (&calls[0]["caller"], calls[0]["ms"].is_f64()),
        (&json!("token:generated"), true)
    );
    assert!(calls[0]["id"].as_str().unwrap().len() == 26 && calls[0]["time"].is_string());
    assert_eq!(
        (&calls[1]["error_code"], &calls[1]["level"]),
        (&json!("unknown_tool"), &json!("warning"))
    );
    assert_eq!(calls[2]["tool"], "probe.invocation");
    let refused: Vec<&Value> = lines
        .iter()
        .filter(|line| line["event"] == "access_refused")
        .collect();
    assert_eq!(
        (refused.len(), &refused[0]["request"]),
        (11, &json!("POST /v1/calls")),
        "{said}"
    );
    assert_eq!(
        (&refused[0]["status"], &refused[0]["peer"]),
        (&json!(401), &json!("127.0.0.1"))
    );
    assert_eq!(refused[10]["count"], 191, "{said}");
    assert!(!said.contains("wrong"), "a token was written: {said}");
}

#[test]
fn the_log_is_for_people_or_only_what_matters() {
    let web = Web::with(&["probe#echo"], [""; 0]);
    assert_eq!(call(&web, &web.token, "echo"), 200);
    let line = web.says(" info call probe.echo by token:generated: succeeded in ");
    assert!(line.ends_with(']'), "{line}");
    let web = Web::with(&["probe#echo"], ["--log-level=error"]);
    call(&web, &web.token, "echo");
    call(&web, "wrong", "echo");
    assert_eq!(web.end(), "");
}

#[test]
fn a_server_whose_calls_cannot_be_put_on_record_is_not_ready_and_says_so() {
    let home = Home::new();
    let options: Vec<String> = Web::arguments(&["probe#echo"], [""; 0])
        .into_iter()
        .map(|one| one.into_string().unwrap())
        .collect();
    let options: Vec<&str> = options
        .iter()
        .map(String::as_str)
        .filter(|option| !option.is_empty())
        .collect();
    let calls = home.path().join("journal/calls");
    std::fs::create_dir_all(home.path().join("journal")).unwrap();
    std::fs::write(&calls, "a file").unwrap();
    let doctor = home.toolcell(&["doctor", "--json"]).run().exits(1).json();
    let journal = doctor["checks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|check| check["subject"] == "journal")
        .unwrap()
        .clone();
    assert_eq!(journal["state"], "missing", "{journal}");
    let web = Web::run(home.toolcell(&options));
    let unready = web.request("GET /readyz", &[("Authorization", "")], "");
    assert_eq!(unready.status, 503, "{unready:?}");
    assert!(
        unready.body.contains("cannot be put on record") && !unready.body.contains("journal/calls"),
        "{unready:?}"
    );
    assert_eq!(web.request("GET /healthz", &[], "").status, 200);
    assert_eq!(call(&web, &web.token, "echo"), 503);
    let line = web.says("not ready: no call runs");
    assert!(
        line.contains(" error ")
            && line.contains("journal/calls")
            && line.contains("[journal_unavailable]"),
        "{line}"
    );
    // It becomes ready by itself.
    std::fs::remove_file(&calls).unwrap();
    let began = std::time::Instant::now();
    while web.request("GET /readyz", &[], "").status != 200 {
        assert!(began.elapsed() < std::time::Duration::from_secs(20));
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(call(&web, &web.token, "echo"), 200);
}

/// The program, in a control group that may have `mib` of memory, as far as files say.
#[cfg(target_os = "linux")]
fn with_memory(mib: u64, groups: &Path, options: &[&str]) -> Toolcell {
    std::fs::write(groups.join("memory.max"), format!("{}\n", mib << 20)).unwrap();
    let mut command = Command::new("unshare");
    let script = "mount --bind \"$0\" /sys/fs/cgroup && exec \"$@\"";
    command
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .arg(groups);
    command
        .arg(env!("CARGO_BIN_EXE_toolcell"))
        .args(Web::arguments(&["probe#echo", "probe#invocation"], options));
    command.env("TOOLCELL_HOME", kept("home"));
    Toolcell::exactly(command)
}

#[test]
#[cfg(target_os = "linux")]
fn large_arguments_do_not_take_more_memory_than_there_is() {
    let (_guard, groups) = scratch();
    let mut web = Web::run(with_memory(512, &groups, &[]));
    let pid = web.pid();
    let body = json!({ "tool": "echo", "input": { "text": "x".repeat(4_000_000) } }).to_string();
    let head: String = web
        .headers()
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let length = body.len();
    let call = format!(
        "POST /v1/calls HTTP/1.1\r\n{head}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let call = call.as_str();
    let address = web.address;
    let send = || {
        let mut stream = TcpStream::connect(address).unwrap();
        let _ = stream.write_all(call.as_bytes());
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .unwrap_or(0_u16)
    };
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let sent: Vec<_> = (0..24).map(|_| scope.spawn(send)).collect();
        sent.into_iter().map(|sent| sent.join().unwrap()).collect()
    });
    assert!(
        statuses.iter().all(|status| matches!(status, 200 | 503)) && statuses.contains(&200),
        "{statuses:?}"
    );
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 512 << 10, "{} MiB", peak >> 10);
}

#[test]
#[cfg(target_os = "linux")]
fn a_server_that_clients_could_get_killed_does_not_start() {
    let (_guard, groups) = scratch();
    let refused = with_memory(256, &groups, &[]).run().exits(2);
    assert!(
        refused.stderr.contains("[memory_too_small]") && refused.stderr.contains("256 MiB"),
        "{}",
        refused.stderr
    );
    let refused = with_memory(512, &groups, &["--memory-total=1GiB"])
        .run()
        .exits(2);
    assert!(
        refused.stderr.contains("--memory-total"),
        "{}",
        refused.stderr
    );
    // With smaller calls it does.
    let web = Web::run(with_memory(
        300,
        &groups,
        &["--memory=32MiB", "--max-output=1MiB"],
    ));
    assert_eq!(call(&web, &web.token, "echo"), 200);
}

#[test]
#[cfg(target_os = "linux")]
fn a_process_that_gets_no_threads_says_so() {
    let mut command = if rustix::process::geteuid().is_root() {
        // The limit does not hold for this user.
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--clear-groups", "prlimit"]);
        command
    } else {
        Command::new("prlimit")
    };
    command
        .arg("--nproc=1")
        .arg(env!("CARGO_BIN_EXE_toolcell"))
        .args(Web::arguments(&["probe#echo"], [""; 0]));
    let refused = Toolcell::exactly(command).run().exits(2);
    assert!(
        refused.stderr.contains("no more threads") && !refused.stderr.contains("panicked"),
        "{}",
        refused.stderr
    );
}

#[test]
#[cfg(target_os = "linux")]
fn a_home_that_cannot_be_written_is_something_to_set_up() {
    let (_guard, home) = scratch();
    let tool = Web::arguments(&["probe#echo"], [""; 0])[2].clone();
    let full = "mount -t tmpfs -o size=16k none \"$0\" && head -c 64k /dev/zero > \"$0/file\" 2>/dev/null; exec \"$@\"";
    let read_only = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && exec \"$@\"";
    for (script, what_to_do) in [
        (read_only, "make its file system writable"),
        (full, "free some space there"),
    ] {
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
            .arg(&home);
        command
            .arg(env!("CARGO_BIN_EXE_toolcell"))
            .arg("call")
            .arg(&tool)
            .arg("{}")
            .env("TOOLCELL_HOME", &home);
        let refused = Toolcell::exactly(command).run().exits(2);
        let told = refused.stderr;
        assert!(
            told.contains("home_unwritable]")
                && told.contains(what_to_do)
                && !told.contains("chmod"),
            "{told}"
        );
    }
}
