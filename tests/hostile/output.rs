//! Attacks on the readers of output: terminals, logs, and programs at the other end of a pipe.

use std::process::{Command, Output};

use serde_json::{Value, json};

use super::arena::{Arena, guest_variable};
use crate::support::{Ran, Toolcell, check_one, kept, wat};

fn guest(tool: &str) -> String {
    let (guest, name) = tool.split_once('#').unwrap();
    format!("{}#{name}", std::env::var(guest_variable(guest)).unwrap())
}

/// Runs toolcell with a terminal as `stream`. Returns the output that the terminal received.
fn on_a_terminal(arena: &Arena, stream: &str, arguments: &[&str]) -> String {
    let other = arena.root().join("other-stream");
    let quoted: Vec<String> = arguments
        .iter()
        .map(|text| format!("'{}'", text.replace('\'', "'\\''")))
        .collect();
    let redirected = match stream {
        "stdout" => "2>",
        _ => ">",
    };
    let line = format!(
        "{} {} {redirected}'{}'",
        env!("CARGO_BIN_EXE_toolcell"),
        quoted.join(" "),
        other.display()
    );
    let Output { stdout, .. } = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env("TOOLCELL_HOME", kept("home"))
        .env("SHELL", "/bin/sh")
        .env("TERM", "xterm")
        .output()
        .unwrap();
    // The host's own emphasis.
    String::from_utf8_lossy(&stdout).replace("\u{1b}[1m\u{1b}[31merror:\u{1b}[0m", "error:")
}

/// The characters of a text that control a terminal, or are invisible on one. A terminal ends lines with CR LF.
fn acting(text: &str) -> Vec<char> {
    let text = text.replace("\r\n", "\n");
    let acts = |c: &char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c,
                '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
    };
    text.chars().filter(acts).collect()
}

/// Wherever a guest puts escape sequences, they reach a terminal as text.
pub(super) async fn terminal_escapes(arena: &Arena) {
    for (place, stream) in [
        ("content", "stdout"),
        ("structured", "stdout"),
        ("summary", "stderr"),
        ("message", "stderr"),
        ("code", "stderr"),
        ("class", "stderr"),
        ("stdout", "stderr"),
        ("log", "stderr"),
    ] {
        let input = json!({ "where": place }).to_string();
        let text = on_a_terminal(
            arena,
            stream,
            &["call", &guest("hostile#control_chars"), &input],
        );
        arena.shown(&text);
        let acts = acting(&text);
        arena.holds(
            acts.is_empty(),
            format!("L: {place} on a terminal: {acts:?} in {text:?}"),
        );
        let is_shown = text.contains("red") || matches!(place, "code" | "class");
        arena.holds(is_shown, format!("{place} was not shown at all: {text:?}"));
        // A program gets one line of JSON without control characters.
        let ran = Toolcell::new(["call", &guest("hostile#control_chars"), &input, "--json"]).run();
        let acts = acting(ran.stdout.trim_end_matches('\n'));
        arena.holds(
            acts.is_empty(),
            format!("L: {place} as JSON: {acts:?} in {:?}", ran.stdout),
        );
        // The guest chooses the code of this failure.
        arena.verdict(
            verdict(&ran)
                .split('/')
                .next()
                .unwrap_or_default()
                .to_owned(),
        );
    }
}

/// Hostile and very long function names in a component that crashes, under settings that make programs verbose.
pub(super) async fn hostile_names(arena: &Arena) {
    let long = format!("n{}\u{1b}[31m\nforged", "x".repeat(90_000));
    let named = super::arena::assembled(
        1,
        &format!(
            "(func $long (@name \"{}\") unreachable)",
            long.replace('\u{1b}', "\\1b").replace('\n', "\\n")
        ),
        "",
        "(call $long)",
    );
    for (number, component) in [wat("hostile-names"), named].into_iter().enumerate() {
        let file = arena.root().join(format!("named-{number}.wasm"));
        std::fs::write(&file, component).unwrap();
        for format in [&["--json"][..], &["--print-record"], &[]] {
            let file = file.to_str().unwrap();
            let mut arguments = vec!["call", file];
            arguments.extend(format);
            let ran = Toolcell::new(&arguments)
                .env("RUST_BACKTRACE", "full")
                .env("RUST_LOG", "trace")
                .run();
            let said = format!("{}{}", ran.stdout, ran.stderr);
            arena.shown(&said);
            let acts = acting(&said);
            arena.holds(acts.is_empty(), format!("L: {acts:?} in {said:.500}"));
            arena.holds(
                !said.contains("forged") && !said.contains("xxxx"),
                format!("L: a name of the guest: {said:.500}"),
            );
            for host in ["/src/", ".cargo", "wasmtime-48", "stack backtrace"] {
                arena.holds(
                    !said.contains(host),
                    format!("L: the host tells of itself: {said:.500}"),
                );
            }
            if format == ["--json"] {
                arena.holds(
                    said.len() < 4_096,
                    format!("L: {} bytes are said", said.len()),
                );
                arena.verdict(verdict(&ran));
            }
        }
    }
}

/// Guest output never reaches standard output, which belongs to the protocol.
pub(super) async fn stdout_hijack(arena: &Arena) {
    let print = json!({ "out": "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n", "err": "{\"jsonrpc\":\"2.0\"}\n" });
    for (tool, input) in [("hostile#forged_record", json!({})), ("probe#stdio", print)] {
        for format in ["--json", "--print-record"] {
            let ran = Toolcell::new(["call", &guest(tool), &input.to_string(), format]).run();
            arena.shown(&ran.stdout);
            arena.holds(
                ran.stderr.is_empty(),
                format!("L: standard error holds {:?}", ran.stderr),
            );
            arena.holds(
                ran.stdout.lines().count() == 1,
                format!("L: not one frame: {:?}", ran.stdout),
            );
            match serde_json::from_str::<Value>(&ran.stdout) {
                Ok(frame) => {
                    let result = if format == "--print-record" {
                        &frame["result"]
                    } else {
                        &frame
                    };
                    check_one("result", result);
                    arena.holds(
                        frame.get("jsonrpc").is_none(),
                        format!("the guest's frame came out: {frame}"),
                    );
                }
                Err(error) => arena.holds(false, format!("L: not JSON: {error}: {:?}", ran.stdout)),
            }
            let ended = verdict(&ran);
            let expected = if tool == "probe#stdio" {
                "ok"
            } else {
                "execution_failed/content_invalid"
            };
            arena.holds(ended == expected, format!("{tool} ended as {ended}"));
            arena.verdict(ended);
        }
    }
}

/// The verdict of a run with `--json` or `--print-record`.
fn verdict(ran: &Ran) -> String {
    let frame: Value = serde_json::from_str(&ran.stdout).unwrap_or_default();
    let result = if frame.get("result").is_some() {
        &frame["result"]
    } else {
        &frame
    };
    match (&result["error"], ran.code) {
        (Value::Null, Some(0)) => "ok".to_owned(),
        (Value::Null, code) => format!("exit {code:?}"),
        (error, _) => format!(
            "{}/{}",
            error["error_class"].as_str().unwrap_or_default(),
            error["error_code"].as_str().unwrap_or_default()
        ),
    }
}
