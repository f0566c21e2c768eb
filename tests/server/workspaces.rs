//! Workspaces of a server: whose calls share one, what results say, and files over MCP and the plain API.
//!
//! Promise: A workspace is its owner's alone.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::http_api::{ANNA, Api, BERT, Said, token_file};
use crate::support::{Client, Toolcell, Web, check_one, fixture, scratch};

const TOOLS: [&str; 3] = ["probe#write", "probe#read", "probe#list"];

fn tool(name: &str) -> String {
    format!("{}#{name}", fixture("probe").display())
}

/// A session of `toolcell mcp`.
fn session(home: &Path, options: &[&str]) -> Client {
    let tools = ["write", "read", "list"].map(tool);
    let words = tools
        .iter()
        .map(String::as_str)
        .chain(options.iter().copied());
    let mut client = Client::run(Toolcell::at(home, ["mcp"].into_iter().chain(words)));
    client.initialize("2025-11-25");
    client
}

fn write(client: &mut Client, path: &str, text: &str) -> Value {
    let result = client.call("write", json!({ "path": path, "text": text }));
    assert_eq!(result["structuredContent"]["ok"], true, "{result:#}");
    result
}

fn list(client: &mut Client) -> Value {
    client.call("list", json!({ "path": "/workspace" }))["structuredContent"]["value"].clone()
}

fn named(client: &mut Client, name: &str, workspace: &str, arguments: Value) -> Value {
    let params = json!({ "name": name, "arguments": arguments, "_meta": { "toolcell/workspace": workspace } });
    let answer = client.request("tools/call", params);
    assert!(answer.get("result").is_some(), "{answer:#}");
    answer["result"].clone()
}

#[test]
fn a_session_keeps_its_files_and_no_other_session_sees_them() {
    let (_guard, home) = scratch();
    let mut first = session(&home, &["--workspace"]);
    let mut second = session(&home, &["--workspace"]);
    let told = write(&mut first, "a.txt", "one");
    let note = &told["_meta"]["toolcell/workspace"];
    assert_eq!(
        (&note["name"], &note["files"][0]["path"]),
        (&json!("default"), &json!("a.txt"))
    );
    let link = told["content"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&link["type"], &link["size"]),
        (&json!("resource_link"), &json!(3))
    );
    let uri = link["uri"].as_str().unwrap();
    assert_eq!(uri, "toolcell://workspace/default/a.txt");
    let read = first.request("resources/read", json!({ "uri": uri }));
    assert_eq!(read["result"]["contents"][0]["text"], "one", "{read:#}");
    let part = first.request(
        "resources/read",
        json!({ "uri": format!("{uri}?offset=1") }),
    );
    assert_eq!(part["result"]["contents"][0]["text"], "ne", "{part:#}");
    let listed = first.request("resources/list", json!({}));
    assert_eq!(listed["result"]["resources"][0]["uri"], uri);
    assert_eq!(list(&mut first), json!(["a.txt"]));
    // Another session has another one, also under the same name.
    assert_eq!(list(&mut second), json!([]));
    let unread = second.request("resources/read", json!({ "uri": uri }));
    assert_eq!(
        unread["error"]["data"]["state"], "unknown_workspace_file",
        "{unread:#}"
    );
    named(
        &mut first,
        "write",
        "other",
        json!({ "path": "b.txt", "text": "two" }),
    );
    assert_eq!(list(&mut first), json!(["a.txt"]));
    let bad = named(&mut first, "list", "../x", json!({ "path": "/workspace" }));
    assert_eq!(
        bad["_meta"]["toolcell/error"]["code"],
        "workspace_name_invalid"
    );
    for uri in [
        "toolcell://workspace/default/../workspace.json",
        "toolcell://workspace/../x/a.txt",
    ] {
        let refused = first.request("resources/read", json!({ "uri": uri }));
        assert!(refused.get("error").is_some(), "{refused:#}");
    }
}

#[test]
fn a_named_workspace_is_the_users_and_a_client_reaches_no_other() {
    let (_guard, home) = scratch();
    let run = |words: &[&str]| Toolcell::at(&home, words).run();
    for name in ["report", "private"] {
        let file = home.join(name);
        fs::write(&file, name).unwrap();
        run(&["workspace", "put", name, file.to_str().unwrap()]).exits(0);
    }
    let mut client = session(&home, &["--workspace=report"]);
    assert_eq!(list(&mut client), json!(["report"]));
    let refused = named(
        &mut client,
        "list",
        "private",
        json!({ "path": "/workspace" }),
    );
    assert_eq!(
        refused["_meta"]["toolcell/error"]["code"],
        "unknown_workspace"
    );
    let unread = client.request(
        "resources/read",
        json!({ "uri": "toolcell://workspace/private/private" }),
    );
    assert_eq!(unread["error"]["data"]["state"], "unknown_workspace");
    write(&mut client, "new.txt", "x");
    let got = run(&["workspace", "get", "report", "new.txt"]).exits(0);
    assert_eq!(got.stdout, "x");
    // Without a workspace, a client that names one gets none.
    let mut without = session(&home, &[]);
    let none = named(
        &mut without,
        "list",
        "report",
        json!({ "path": "/workspace" }),
    );
    assert_eq!(none["_meta"]["toolcell/error"]["code"], "unknown_workspace");
}

/// Two callers of one server.
struct Served {
    _guard: tempfile::TempDir,
    home: PathBuf,
    web: Web,
}

#[test]
fn the_files_of_a_session_go_with_it() {
    let served = served("[workspace]\nper = \"session\"\n");
    let web = &served.web;
    let bearer = format!("Bearer {ANNA}");
    let mut sent = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
    let ask = |method: &str, session: &str, params: &Value| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let more = [
            ("Authorization", bearer.as_str()),
            ("Mcp-Session-Id", session),
        ];
        web.request("POST /mcp", &more, &body.to_string())
    };
    let session = ask("initialize", "", &sent)
        .header("mcp-session-id")
        .unwrap();
    sent = json!({ "name": "write", "arguments": { "path": "a.txt", "text": "x" } });
    let written = ask("tools/call", &session, &sent).answer();
    assert_eq!(
        written["result"]["structuredContent"]["ok"], true,
        "{written:#}"
    );
    let kept = served.home.join("workspaces");
    assert_eq!(fs::read_dir(&kept).unwrap().count(), 1);
    let more = [
        ("Authorization", bearer.as_str()),
        ("Mcp-Session-Id", session.as_str()),
    ];
    web.request("DELETE /mcp", &more, "");
    let began = std::time::Instant::now();
    while fs::read_dir(&kept).unwrap().count() > 0 {
        assert!(
            began.elapsed().as_secs() < 20,
            "the files of the session stay"
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn served(settings: &str) -> Served {
    let (guard, path) = scratch();
    let home = path.join("home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("toolcell.toml"), settings).unwrap();
    let tokens = token_file(&path, "tokens", &format!("anna {ANNA}\nbert {BERT}\n"));
    let words = Web::arguments(&TOOLS, [format!("--token-file={tokens}")]);
    let web = Web::run(Toolcell::at(&home, words));
    Served {
        _guard: guard,
        home,
        web,
    }
}

impl Served {
    fn ask(
        &self,
        token: &str,
        line: &str,
        more: &[(&str, &str)],
        body: &str,
    ) -> crate::support::Reply {
        let bearer = format!("Bearer {token}");
        let headers = [&[("Authorization", bearer.as_str())], more].concat();
        self.web.request(line, &headers, body)
    }

    fn call(&self, token: &str, name: &str, input: Value, more: &[(&str, &str)]) -> Value {
        let body = json!({ "tool": name, "input": input }).to_string();
        let reply = self.ask(token, "POST /v1/calls", more, &body);
        let result = reply.value();
        check_one("result", &result);
        result
    }
}

#[test]
fn each_caller_has_files_of_its_own() {
    let served = served("[workspace]\nper = \"principal\"\nquota = \"1KiB\"\n");
    let input = json!({ "path": "a.txt", "text": "anna's" });
    let written = served.call(ANNA, "write", input, &[]);
    assert_eq!(
        written["workspace"]["files"][0]["path"], "a.txt",
        "{written:#}"
    );
    let of = |token: &str, more: &[(&str, &str)]| {
        let read = served.call(token, "read", json!({ "path": "a.txt" }), more);
        read["structured_content"]["value"]["text"].clone()
    };
    assert_eq!(
        (of(ANNA, &[]), of(BERT, &[])),
        (json!("anna's"), json!(null))
    );
    assert_eq!(of(ANNA, &[("Toolcell-Workspace", "other")]), json!(null));
    let file = "/v1/workspaces/default/files/a.txt";
    let get = |token: &str| served.ask(token, &format!("GET {file}"), &[], "");
    assert_eq!(get(ANNA).body, "anna's");
    get(BERT).is_problem(404, "unknown_workspace_file");
    served
        .ask(BERT, "GET /v1/workspaces/other", &[], "")
        .is_problem(404, "unknown_workspace");
    let large = "x".repeat(2_000);
    let too_large = served.ask(ANNA, "PUT /v1/workspaces/default/files/large", &[], &large);
    too_large.is_problem(413, "workspace_full");
    let batch = json!([{ "id": "1", "tool": "list", "input": { "path": "/workspace" } }]);
    let batch = served
        .ask(ANNA, "POST /v1/batches", &[], &batch.to_string())
        .value();
    let listed = &batch["results"][0]["result"]["structured_content"]["value"];
    assert_eq!(listed, &json!(["a.txt"]), "{batch:#}");
}

#[test]
fn calls_of_other_protocols_have_the_workspace_that_their_header_names() {
    let served = served("[workspace]\nper = \"principal\"\n");
    let agent = [("Toolcell-Workspace", "agent")];
    let input = |path: &str| json!({ "path": path, "text": "x" });
    let call = json!({ "name": "probe_write", "arguments": input("a.txt") });
    let endpoint = "POST /v1/dialects/agentool/tools/write";
    let called = served.ask(ANNA, endpoint, &agent, &call.to_string());
    assert_eq!(called.status, 200, "{called:?}");
    let listed = served.ask(ANNA, "GET /v1/dialects/otc/tools", &[], "");
    let listed = listed.value();
    let mut tools = listed.as_array().unwrap().iter();
    let write = tools.find(|tool| tool["name"] == "write").unwrap();
    let execution = json!({
        "run_id": "run", "execution_id": "1", "created_at": "2026-01-01T00:00:00Z",
        "tool": {
            "name": "write",
            "toolkit": write["toolkit"]["name"],
            "version": write["toolkit"]["version"],
        },
        "inputs": input("b.txt"), "context": {},
    });
    let executed = served.ask(
        ANNA,
        "POST /v1/dialects/otc/execute",
        &agent,
        &execution.to_string(),
    );
    assert_eq!(executed.status, 200, "{executed:?}");
    // In another workspace it would be another call.
    let again = served.ask(
        ANNA,
        "POST /v1/dialects/otc/execute",
        &[("Toolcell-Workspace", "other")],
        &execution.to_string(),
    );
    assert_eq!(again.status, 409, "{again:?}");
    let get = |token: &str, path: &str| {
        served.ask(
            token,
            &format!("GET /v1/workspaces/agent/files/{path}"),
            &[],
            "",
        )
    };
    for path in ["a.txt", "b.txt"] {
        assert_eq!(get(ANNA, path).body, "x");
    }
    get(BERT, "a.txt").is_problem(404, "unknown_workspace");
}

#[test]
fn the_api_puts_gets_snapshots_restores_forks_and_removes() {
    let served = served("[workspace]\nper = \"principal\"\n");
    let ask = |line: &str, body: &str| served.ask(ANNA, line, &[], body);
    let at = "/v1/workspaces/w";
    ask(&format!("GET {at}"), "").is_problem(404, "unknown_workspace");
    let made = ask(&format!("PUT {at}"), "").value();
    check_one("workspace", &made);
    let put = ask(&format!("PUT {at}/files/data/a.csv"), "1,2\n").value();
    assert_eq!(
        (&put["path"], &put["size"]),
        (&json!("data/a.csv"), &json!(4))
    );
    // In parts, one of which is sent again.
    let part = |range: &str, body: &str| {
        let range = format!("bytes {range}");
        served.ask(
            ANNA,
            &format!("PUT {at}/files/b.txt"),
            &[("Content-Range", &range)],
            body,
        )
    };
    assert_eq!(part("0-2/6", "123").value(), json!({ "arrived": 3 }));
    part("4-5/6", "56").is_problem(409, "upload_out_of_order");
    part("3-9/6", "456").is_problem(400, "body_invalid");
    let asked = part("*/6", "");
    assert_eq!(
        (asked.status, asked.header("range").as_deref()),
        (202, Some("bytes=0-2"))
    );
    assert_eq!(part("3-5/6", "456").value()["size"], 6);
    let range = served.ask(
        ANNA,
        &format!("GET {at}/files/b.txt"),
        &[("Range", "bytes=1-2")],
        "",
    );
    assert_eq!((range.status, range.body.as_str()), (206, "23"));
    assert_eq!(
        range.header("content-range").as_deref(),
        Some("bytes 1-2/6")
    );
    let snapshot = ask(&format!("POST {at}/snapshots"), "{}");
    assert_eq!(
        (snapshot.status, &snapshot.value()["id"]),
        (201, &json!("s1"))
    );
    ask(&format!("PUT {at}/files/b.txt"), "changed");
    let diff = ask(&format!("GET {at}/diff?from=s1"), "").value();
    check_one("workspace-changes", &diff);
    assert_eq!(diff["files"][0]["change"], "changed");
    let fork = ask(&format!("POST {at}/fork"), "{\"name\": \"v\"}");
    assert_eq!(fork.header("location").as_deref(), Some("/v1/workspaces/v"));
    ask(&format!("POST {at}/fork"), "{\"name\": \"v\"}").is_problem(409, "workspace_exists");
    let restored = ask(&format!("POST {at}/restore"), "{\"id\": \"s1\"}").value();
    assert_eq!(restored["files"][0]["path"], "b.txt");
    assert_eq!(ask(&format!("GET {at}/files/b.txt"), "").body, "123456");
    assert_eq!(ask("GET /v1/workspaces/v/files/b.txt", "").body, "changed");
    let listed = ask("GET /v1/workspaces", "").value();
    check_one("workspace-list", &listed);
    assert_eq!(listed["workspaces"].as_array().unwrap().len(), 2);
    for (line, status, code) in [
        (
            format!("GET {at}/files/none"),
            404,
            "unknown_workspace_file",
        ),
        (
            format!("PUT {at}/files/a/../../x"),
            400,
            "workspace_path_invalid",
        ),
        (
            format!("DELETE {at}/snapshots/none"),
            404,
            "unknown_snapshot",
        ),
        (
            "PUT /v1/workspaces/.hidden".to_owned(),
            400,
            "workspace_name_invalid",
        ),
    ] {
        ask(&line, "").is_problem(status, code);
    }
    ask(&format!("PUT {at}/archive"), "no archive").is_problem(422, "archive_refused");
    assert_eq!(ask(&format!("DELETE {at}/files/data"), "").status, 204);
    assert_eq!(ask(&format!("DELETE {at}/snapshots/s1"), "").status, 204);
    let shown = ask(&format!("GET {at}"), "").value();
    check_one("workspace", &shown);
    assert_eq!(
        (&shown["usage"]["files"], &shown["snapshot_bytes"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(ask(&format!("DELETE {at}"), "").status, 204);
    ask(&format!("GET {at}"), "").is_problem(404, "unknown_workspace");
}

#[test]
fn without_a_workspace_the_api_says_so() {
    let web = Web::of(&["probe#read"]);
    web.get("/v1/workspaces")
        .is_problem(404, "unknown_workspace");
}
