//! `policy check`, `policy check --explain`, `call` and an MCP client must agree on one call: one verdict, one class, one
//! cause, and the matching exit code.
//!
//! Promise: All interfaces give the same verdict.

use serde_json::{Value, json};

use super::policy::Place;
use super::{example, guest};
use crate::support::{Client, Ran, Server};

/// One call, and the verdict that every interface must report.
struct Row {
    what: &'static str,
    tool: String,
    input: Value,
    options: Vec<String>,
    /// The user's toolcell.toml.
    user: &'static str,
    heard: Heard,
}

enum Heard {
    Allowed,
    /// Class, code, exit code, and words of the cause.
    Refused(&'static str, &'static str, i32, &'static str),
    /// The call needs an approval, and no approver answers.
    Asked(&'static str),
}

fn row(what: &'static str, tool: &str, input: Value, options: &[&str], heard: Heard) -> Row {
    let tool = match tool.split_once('#') {
        Some(("files", name)) => format!("{}#{name}", example("files")),
        None => example(tool),
        Some(_) => guest(tool),
    };
    let options = options.iter().map(|option| (*option).to_owned()).collect();
    Row {
        what,
        tool,
        input,
        options,
        user: "",
        heard,
    }
}

fn with(user: &'static str, row: Row) -> Row {
    Row { user, ..row }
}

fn denied(code: &'static str, cause: &'static str) -> Heard {
    Heard::Refused("permission_denied", code, 3, cause)
}

fn of_files() -> Vec<Row> {
    let read = |what, path: &str, options: &[&str], heard| {
        row(what, "files#read", json!({ "path": path }), options, heard)
    };
    let rule = "[[rule]]\nbehavior = \"deny\"\ntool = \"files.*\"\nreason = \"not on a friday\"\n";
    let asks = "[[rule]]\nbehavior = \"ask\"\ntool = \"files.*\"\nreason = \"say why\"\n";
    vec![
        read(
            "nothing granted",
            "src/a.txt",
            &[],
            denied("not_granted", "add --allow-read=src to grant"),
        ),
        read(
            "granted",
            "src/a.txt",
            &["--allow-read=src"],
            Heard::Allowed,
        ),
        read(
            "outside",
            "/etc/passwd",
            &["--allow-read=src"],
            denied("path_not_granted", "--allow-read=/etc/passwd adds a folder"),
        ),
        read(
            "the granted folder is closed",
            "src/a.txt",
            &["--allow-read=src", "--deny-read=src"],
            denied("denied_by_rule", "a deny rule overrides --allow-read=src"),
        ),
        read(
            "the granted folder is closed, and another one is open",
            "src/a.txt",
            &[
                "--allow-read=src",
                "--allow-read=src/deep",
                "--deny-read=src/a.txt",
                "--deny-read=src/secret.txt",
            ],
            denied("denied_by_rule", "is blocked by a deny rule"),
        ),
        read(
            "one of two granted folders is closed",
            "docs/b.txt",
            &["--allow-read=src", "--allow-read=docs", "--deny-read=docs"],
            denied(
                "denied_by_rule",
                "--deny-read=docs overrides --allow-read=docs",
            ),
        ),
        with(
            rule,
            read(
                "a rule denies",
                "src/a.txt",
                &["--allow-read=src"],
                denied("denied_by_rule", "not on a friday"),
            ),
        ),
        with(
            asks,
            read(
                "a rule asks",
                "src/a.txt",
                &["--allow-read=src"],
                Heard::Asked("say why"),
            ),
        ),
        with(
            asks,
            read(
                "a rule asks, and approvals are not allowed",
                "src/a.txt",
                &["--allow-read=src", "--mode=non_interactive"],
                denied("approval_not_possible", "this mode asks for none"),
            ),
        ),
        row(
            "plan mode",
            "probe#append_approved",
            json!({ "path": "src/lines", "text": "x" }),
            &["--allow-write=src", "--mode=plan"],
            denied("plan_mode", "plan mode runs only calls without effects"),
        ),
        row(
            "the profile asks",
            "probe#append_approved",
            json!({ "path": "src/lines", "text": "x" }),
            &["--allow-write=src"],
            Heard::Asked("Every line costs money."),
        ),
    ]
}

fn of_the_network(server: &Server) -> Vec<Row> {
    let fetch = |what, url: &str, options: &[&str], heard| {
        row(what, "fetch", json!({ "url": url }), options, heard)
    };
    let own = format!("--allow-net={}", server.url(""));
    let deeper = format!("--allow-net={}", server.url("/docs"));
    let rule =
        "[[rule]]\nbehavior = \"deny\"\nurl = \"https://b.example.com/\"\nreason = \"theirs\"\n";
    vec![
        fetch("granted", &server.url("/a"), &[&own], Heard::Allowed),
        fetch(
            "a host below the granted name is denied",
            "https://a.example.com/x",
            &["--allow-net=*.example.com", "--deny-net=a.example.com"],
            denied("denied_by_rule", "--deny-net=a.example.com denies it"),
        ),
        fetch(
            "another host",
            "https://other.test/",
            &[&own],
            denied("not_granted", "add --allow-net=https://other.test"),
        ),
        fetch(
            "another path",
            &server.url("/a"),
            &[&deeper],
            denied("not_granted", "which no grant covers"),
        ),
        fetch(
            "an address that has to be named",
            &server.url("/a"),
            &["--allow-net=http://*:*"],
            denied("special_address", "loopback address"),
        ),
        with(
            rule,
            fetch(
                "a rule denies",
                "https://b.example.com/x",
                &["--allow-net=*.example.com"],
                denied("denied_by_rule", "theirs"),
            ),
        ),
    ]
}

fn of_secrets(server: &Server) -> Vec<Row> {
    let own = format!("--allow-net={}", server.url(""));
    let unset = format!("--allow-secret=API_KEY@{}", server.url(""));
    let input = || json!({ "url": server.url("/a") });
    vec![
        row(
            "no secret granted",
            "courier#bearer",
            input(),
            &[&own],
            denied("not_granted", "with --allow-secret=API_KEY@"),
        ),
        row(
            "a secret that is not set",
            "courier#bearer",
            input(),
            &[&own, &unset],
            Heard::Refused("credential_missing", "secret_not_set", 2, "API_KEY"),
        ),
    ]
}

fn of_arguments() -> Vec<Row> {
    vec![
        row(
            "wrong arguments",
            "probe#strict",
            json!({}),
            &[],
            Heard::Refused("schema_validation_failed", "", 2, ""),
        ),
        row(
            "the tool's own check",
            "validated#even",
            json!({ "n": 1 }),
            &[],
            Heard::Refused("invalid_arguments", "odd_number", 2, ""),
        ),
        row(
            "no access at all",
            "probe#echo",
            json!({}),
            &[],
            Heard::Allowed,
        ),
    ]
}

#[test]
fn everybody_hears_the_same_of_one_call() {
    let server = Server::hello();
    for row in [
        of_files(),
        of_the_network(&server),
        of_secrets(&server),
        of_arguments(),
    ]
    .concat_all()
    {
        let place = Place::new().user(row.user);
        std::fs::create_dir(place.project.join("docs")).unwrap();
        std::fs::write(place.project.join("docs/b.txt"), "content of b").unwrap();
        hears(&place, &row);
    }
}

trait ConcatAll<T> {
    fn concat_all(self) -> Vec<T>;
}

impl<T, const N: usize> ConcatAll<T> for [Vec<T>; N] {
    fn concat_all(self) -> Vec<T> {
        self.into_iter().flatten().collect()
    }
}

fn hears(place: &Place, row: &Row) {
    let what = row.what;
    let input = row.input.to_string();
    let options: Vec<&str> = row.options.iter().map(String::as_str).collect();
    let run = |command: &[&str], more: &[&str]| {
        place.run(
            &[
                command,
                &[row.tool.as_str(), input.as_str(), "--json"],
                options.as_slice(),
                more,
            ]
            .concat(),
        )
    };
    let check = run(&["policy", "check"], &[]);
    let explain = run(&["policy", "check", "--explain"], &[]);
    let call = run(&["call"], &["--approval-timeout=200ms"]);
    let client = through_mcp(place, row);
    assert_eq!(
        check.json()["behavior"],
        explain.json()["behavior"],
        "{what}"
    );
    assert_eq!(check.code, explain.code, "{what}: check and explain");
    match row.heard {
        Heard::Allowed => {
            assert_eq!(check.json()["behavior"], "allow", "{what}: {check:?}");
            assert_eq!(
                (check.code, call.code),
                (Some(0), Some(0)),
                "{what}: {call:?}"
            );
            assert_eq!(client["isError"], json!(false), "{what}: {client:#}");
        }
        Heard::Refused(class, code, exit, cause) => {
            let of_check = error(&check);
            let of_call = error(&call);
            assert_eq!(of_check, error(&explain), "{what}: check and explain");
            assert_eq!(of_check, of_call, "{what}: check and call");
            assert_eq!(
                (check.code, call.code),
                (Some(exit), Some(exit)),
                "{what}: {of_call:?}"
            );
            let told = &client["_meta"]["toolcell/error"];
            assert_eq!(
                (&told["class"], &told["code"]),
                (&json!(of_call.0), &json!(of_call.1)),
                "{what}: {client:#}"
            );
            let text = client["content"][0]["text"].as_str().unwrap();
            assert!(
                text.contains(&of_call.2),
                "{what}: {text} is not {}",
                of_call.2
            );
            assert_eq!(of_call.0, class, "{what}: {of_call:?}");
            assert!(code.is_empty() || of_call.1 == code, "{what}: {of_call:?}");
            assert!(of_call.2.contains(cause), "{what}: {of_call:?}");
            if check.json()["decision"].is_object() {
                assert_eq!(check.json()["behavior"], "deny", "{what}");
                assert_eq!(
                    check.json()["decision"]["reason"]["message"],
                    of_call.2.as_str(),
                    "{what}"
                );
            }
        }
        Heard::Asked(cause) => {
            assert_eq!(
                (check.json()["behavior"].as_str(), check.code),
                (Some("ask"), Some(6)),
                "{what}"
            );
            assert!(
                check.json()["decision"]["reason"]["message"]
                    .as_str()
                    .unwrap()
                    .contains(cause),
                "{what}: {check:?}"
            );
            assert_eq!(
                (error(&call).1.as_str(), call.code),
                ("approval_expired", Some(3)),
                "{what}"
            );
            assert!(
                call.stderr.contains(cause),
                "{what}: the question names the cause: {}",
                call.stderr
            );
            let text = client["content"][0]["text"].as_str().unwrap();
            assert!(
                text.contains("a person has to approve this call"),
                "{what}: {text}"
            );
        }
    }
}

/// Class, code and message.
fn error(ran: &Ran) -> (String, String, String) {
    let error = &ran.json()["error"];
    let word = |name: &str| {
        error[name]
            .as_str()
            .unwrap_or_else(|| panic!("no {name} in {ran:?}"))
            .to_owned()
    };
    (word("error_class"), word("error_code"), word("message"))
}

fn through_mcp(place: &Place, row: &Row) -> Value {
    let mut arguments = vec!["mcp", &row.tool, "--if-client-cannot-ask=return"];
    arguments.extend(row.options.iter().map(String::as_str));
    let mut client = Client::run(place.toolcell(&arguments));
    client.initialize("2025-11-25");
    // By its name, because a tool that a rule blocks is not listed; the only tool of a component is named like its file.
    let file = std::path::Path::new(&row.tool)
        .file_stem()
        .unwrap()
        .to_str()
        .unwrap();
    let name = row.tool.rsplit_once('#').map_or(file, |(_, name)| name);
    client.call(name, row.input.clone())
}

#[test]
fn a_grant_that_gives_a_call_nothing_is_named() {
    let server = Server::hello();
    let place = Place::new();
    place.secret("API_KEY", "a value of thirty characters..");
    let said = |tool: &str, input: &Value, options: &[&str], notes: &[&str]| {
        let tool = guest(tool);
        let input = input.to_string();
        let run = |command: &[&str], more: &[&str]| {
            place.run(&[command, &[&tool, &input], options, more].concat())
        };
        let called = run(&["call"], &[]);
        let record = run(&["call"], &["--print-record"]).json()["decisions"][0]["notes"].clone();
        let check = run(&["policy", "check"], &[]).stdout;
        let explain =
            run(&["policy", "check", "--explain"], &["--json"]).json()["decision"]["notes"].clone();
        assert_eq!(record, explain);
        assert_eq!(
            record.as_array().map_or(0, Vec::len),
            notes.len(),
            "{record:#}"
        );
        for note in notes {
            for (who, text) in [("call", &called.stderr), ("check", &check)] {
                assert!(
                    text.contains(&format!("note: {note}")),
                    "{who}: {note}: {text}"
                );
            }
        }
        called
    };
    said(
        "probe#echo",
        &json!({}),
        &[
            "--allow-read=src",
            "--allow-write=src/deep",
            "--allow-net=example.com",
            "--allow-env=HOME",
            "--allow-secret=API_KEY@https://a.test",
            "--allow-tool=files.*",
        ],
        &[
            "--allow-read=src has no effect",
            "--allow-write=src/deep has no effect",
            "--allow-net=example.com has no effect",
            "--allow-env=HOME has no effect",
            "--allow-secret=API_KEY@https://a.test has no effect",
            "--allow-tool=files.* has no effect",
        ],
    )
    .exits(0);
    let net = format!("--allow-net={}", server.url(""));
    let right = format!("--allow-secret=API_KEY@{}", server.url(""));
    let input = json!({ "url": server.url("/a") });
    let other = "--allow-secret=API_KEY@https://other.test";
    said(
        "courier#bearer",
        &input,
        &[&net, other],
        &["--allow-secret=API_KEY@https://other.test is not sent by this call"],
    );
    said("courier#bearer", &input, &[&net, &right], &[]).exits(0);
    // Files grant to many tools, so an unused grant from a file gets no note.
    let place = Place::new().user("[grants]\nnet = [\"example.com\"]\n");
    let called = place.run(&["call", &guest("probe#echo"), "{}"]).exits(0);
    assert!(!called.stderr.contains("note:"), "{}", called.stderr);
}

#[test]
fn a_request_that_the_sandbox_did_not_send_is_a_refusal_and_no_limit() {
    let granted = Server::hello();
    let other = Server::hello();
    let place = Place::new();
    // This tool does not declare which of its arguments are URLs, so the host cannot know them before the call.
    let input = json!({ "url": other.url("/"), "then": "fail" }).to_string();
    let net = format!("--allow-net={}", granted.url(""));
    let called = place.run(&["call", &guest("courier#plain"), &input, &net, "--json"]);
    assert_eq!(other.connections(), 0);
    let (class, code, _) = error(&called);
    assert_eq!(
        (class.as_str(), code.as_str(), called.code),
        ("sandbox_violation", "network_denied", Some(3))
    );
}
