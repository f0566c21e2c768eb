//! From a printed configuration to a client that calls a tool.
//!
//! Promise: Inspection starts no foreign program.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Client, Toolcell, fixture, kept, scratch};

/// Starts exactly the program of `entry`, as a client would: from another folder, with almost none of the environment
/// in which the configuration was printed.
pub(super) fn started(entry: &Value) -> Client {
    let program = entry["command"].as_str().unwrap();
    assert!(Path::new(program).is_absolute(), "{program}");
    let mut command = Command::new(program);
    command.args(
        entry["args"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one.as_str().unwrap()),
    );
    command.env_clear().env("PATH", "/nowhere").current_dir("/");
    let variables = entry["env"].as_object().into_iter().flatten();
    command.envs(variables.map(|(name, value)| (name, value.as_str().unwrap())));
    let mut client = Client::run(Toolcell::exactly(command));
    client.initialize("2025-11-25");
    client
}

pub(super) fn tools(client: &mut Client) -> Vec<String> {
    let listed = client.request("tools/list", json!({}))["result"]["tools"].clone();
    listed
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

/// The clients whose configuration is JSON, and the key under which it lists servers.
pub(super) const CLIENTS: [(&str, &str); 8] = [
    ("claude-desktop", "mcpServers"),
    ("claude-code", "mcpServers"),
    ("vscode", "servers"),
    ("cursor", "mcpServers"),
    ("zed", "context_servers"),
    ("gemini-cli", "mcpServers"),
    ("windsurf", "mcpServers"),
    ("cline", "mcpServers"),
];

#[test]
fn what_is_printed_starts_from_any_folder_with_what_was_granted() {
    let (_guard, folder) = scratch();
    std::fs::copy(fixture("probe"), folder.join("probe.wasm")).unwrap();
    std::fs::write(folder.join("note"), "here").unwrap();
    for (client, key) in CLIENTS {
        let printed = Toolcell::new([
            "mcp",
            "--print-config",
            client,
            "probe.wasm#read",
            "--allow-read=.",
        ])
        .dir(&folder);
        let printed = printed.run().exits(0);
        let whole: Value = serde_json::from_str(&printed.stdout).unwrap();
        let entry = &whole[key]["toolcell"];
        assert_eq!(
            entry["env"]["TOOLCELL_HOME"],
            json!(kept("home").canonicalize().unwrap()),
            "{client}"
        );
        let mut started = started(entry);
        assert_eq!(
            tools(&mut started),
            ["probe_read", "read_result"],
            "{client}"
        );
        let answer = started.call("read", json!({ "path": folder.join("note") }));
        assert_eq!(answer["isError"], json!(false), "{client}: {answer:#}");
        assert!(answer.to_string().contains("here"));
        let (status, _, stderr, _) = started.close();
        assert!(status.success(), "{client}: {stderr}");
    }
    let missing = Toolcell::new(["mcp", "--print-config=cursor", "nothing.wasm"])
        .dir(&folder)
        .run();
    assert_eq!(missing.code, Some(2));
}

#[test]
fn a_client_with_another_format_gets_it_printed() {
    for (client, begins) in [
        ("codex", "[mcp_servers.toolcell]\ncommand = "),
        (
            "goose",
            "extensions:\n  toolcell:\n    enabled: true\n    type: \"stdio\"\n    name: \"toolcell\"\n    cmd: ",
        ),
        (
            "continue",
            "mcpServers:\n  - name: \"toolcell\"\n    command: ",
        ),
        (
            "opencode",
            "{\n  \"mcp\": {\n    \"toolcell\": {\n      \"type\": \"local\",\n      \"command\": [\n",
        ),
    ] {
        let tool = fixture("probe");
        let printed = Toolcell::new(["mcp", tool.to_str().unwrap(), "--print-config", client]);
        let printed = printed.run().exits(0);
        assert!(printed.stdout.starts_with(begins), "{}", printed.stdout);
        assert!(
            printed.stderr.starts_with("paste this into "),
            "{}",
            printed.stderr
        );
    }
}

#[test]
fn a_project_that_is_trusted_is_named_and_another_one_is_not() {
    let (_guard, path) = scratch();
    let folder = path.join("project");
    let home = path.join("home");
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(fixture("probe"), folder.join("probe.wasm")).unwrap();
    std::fs::write(
        folder.join("toolcell.toml"),
        "[[tool]]\ncomponent = \"probe.wasm#echo\"\n",
    )
    .unwrap();
    let print = || {
        Toolcell::at(&home, ["mcp", "--print-config=cursor"])
            .dir(&folder)
            .run()
    };
    let refused = print();
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.stderr.contains("toolcell trust"),
        "{}",
        refused.stderr
    );
    Toolcell::at(&home, ["trust"]).dir(&folder).run().exits(0);
    let whole: Value = serde_json::from_str(&print().exits(0).stdout).unwrap();
    let mut started = started(&whole["mcpServers"]["toolcell"]);
    assert_eq!(started.call("echo", json!({}))["isError"], json!(false));
}

fn checks(
    home: &std::path::Path,
    folder: &std::path::Path,
    options: &[&str],
) -> (Option<i32>, Vec<Value>) {
    let ran = Toolcell::at(home, ["doctor", "--json"].iter().chain(options))
        .dir(folder)
        .run();
    (ran.code, ran.json()["checks"].as_array().unwrap().clone())
}

fn wrong(checks: &[Value], subject: &str) -> Vec<String> {
    let found = checks
        .iter()
        .filter(|check| check["subject"] == subject && check["state"] == "missing");
    found
        .map(|check| {
            format!(
                "{} | {}",
                check["detail"].as_str().unwrap(),
                check["fix"].as_str().unwrap()
            )
        })
        .collect()
}

#[test]
fn doctor_says_what_is_wrong_with_a_configuration_and_how_to_mend_it() {
    let (_guard, path) = scratch();
    let folder = path.join("project");
    let home = path.join("home");
    std::fs::create_dir(&folder).unwrap();
    let write = |text: &str| std::fs::write(folder.join("toolcell.toml"), text).unwrap();
    let named = "--config=toolcell.toml";
    std::fs::copy(fixture("probe"), folder.join("probe.wasm")).unwrap();
    write("[[tool]]\ncomponent = \"probe.wasm#echo\"\n");
    let (code, untrusted) = checks(&home, &folder, &[]);
    assert_eq!(code, Some(1));
    assert!(wrong(&untrusted, "configuration")[0].contains("toolcell trust"));
    let (_, sound) = checks(&home, &folder, &[named]);
    assert!(
        wrong(&sound, "configuration").is_empty() && wrong(&sound, "tool").is_empty(),
        "{sound:#?}"
    );
    assert!(sound.iter().any(
        |check| check["subject"] == "tool" && check["detail"] == "probe.wasm#echo: probe.echo"
    ));
    write(
        "[grants]\nsecret = [\"KEY@https://api.example.com\"]\n[[tool]]\ncomponent = \"none.wasm\"\n\
         [[tool]]\ncomponent = \"probe.wasm#nothing\"\n",
    );
    let (code, broken) = checks(&home, &folder, &[named]);
    assert_eq!(code, Some(1));
    let tools = wrong(&broken, "tool");
    assert!(
        tools.len() == 2 && tools[0].contains("none.wasm") && tools[1].contains("nothing"),
        "{tools:?}"
    );
    assert_eq!(
        wrong(&broken, "secret"),
        ["KEY is not set | toolcell secrets set KEY"]
    );
    write("[grants]\nraed = [\".\"]\n");
    assert!(wrong(&checks(&home, &folder, &[named]).1, "configuration")[0].contains("raed"));
}

#[test]
fn doctor_starts_what_a_client_would_start() {
    let (_guard, folder) = scratch();
    let entry =
        |tool: String| json!({ "command": env!("CARGO_BIN_EXE_toolcell"), "args": ["mcp", tool] });
    let good = entry(format!("{}#echo", fixture("probe").display()));
    let file = folder.join("mcp.json");
    let servers = json!({ "mcpServers": {
        "good": good, "bad": entry("relative.wasm".to_owned()), "other": { "command": "true", "args": [] },
    } });
    std::fs::write(&file, servers.to_string()).unwrap();
    let (code, checks) = checks(&folder.join("home"), &folder, &["--mcp-config=mcp.json"]);
    assert_eq!(code, Some(1));
    let wrong = wrong(&checks, "server");
    assert!(
        wrong.len() == 1 && wrong[0].starts_with("bad: ") && wrong[0].contains("relative.wasm"),
        "{wrong:?}"
    );
    let starts = |check: &Value| {
        check["detail"]
            .as_str()
            .unwrap()
            .starts_with("good starts and offers its tools")
    };
    assert!(checks.iter().any(starts), "{checks:?}");
}

#[test]
fn doctor_starts_no_other_program_and_no_other_command_that_a_clients_file_names() {
    let (_guard, folder) = scratch();
    let program = folder.join("evil/toolcell");
    let marker = folder.join("started");
    std::fs::create_dir(folder.join("evil")).unwrap();
    std::fs::write(&program, format!("#!/bin/sh\nenv > {}\n", marker.display())).unwrap();
    std::fs::set_permissions(
        &program,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let home = folder.join("home");
    let looks = |entry: Value, options: &[&str]| {
        std::fs::write(
            folder.join("mcp.json"),
            json!({ "mcpServers": { "it": entry } }).to_string(),
        )
        .unwrap();
        let (code, checks) = checks(
            &home,
            &folder,
            &[&["--mcp-config=mcp.json"], options].concat(),
        );
        (code, wrong(&checks, "server").concat())
    };
    let evil = json!({ "command": program, "args": ["mcp"], "env": { "LD_EVIL": "x", "TOOLCELL_SESSION": "y" } });
    let (code, told) = looks(evil.clone(), &[]);
    assert_eq!(code, Some(1));
    assert!(
        told.contains(program.to_str().unwrap()) && told.contains("was not started"),
        "{told}"
    );
    assert!(!marker.exists(), "a program that a file names was started");
    // A user who has inspected the program may allow it; variables for the dynamic loader are dropped even then.
    looks(evil, &[&format!("--allow-program={}", program.display())]);
    let seen = std::fs::read_to_string(&marker).unwrap();
    assert!(
        seen.contains("TOOLCELL_SESSION=y") && !seen.contains("LD_EVIL"),
        "{seen}"
    );

    // The toolcell program itself, but with arguments that would trust a folder or build one.
    let own = env!("CARGO_BIN_EXE_toolcell");
    for (arguments, what) in [
        (json!(["trust", folder]), "trust"),
        (json!(["mcp", "x", "--build"]), "--build"),
    ] {
        let (_, told) = looks(json!({ "command": own, "args": arguments }), &[]);
        assert!(
            told.contains(what) && told.contains("was not started"),
            "{told}"
        );
    }
    // A copy of the program is accepted, too.
    let copy = folder.join("evil/copy/toolcell");
    std::fs::create_dir(folder.join("evil/copy")).unwrap();
    std::fs::copy(own, &copy).unwrap();
    let tool = format!("{}#echo", fixture("probe").display());
    assert_eq!(
        looks(json!({ "command": copy, "args": ["mcp", tool] }), &[]).1,
        ""
    );
}

#[test]
fn doctor_starts_no_server_with_its_state_in_another_folder() {
    let (_guard, folder) = scratch();
    let home = folder.join("home");
    let other = folder.join("other");
    let tool = format!("{}#echo", fixture("probe").display());
    let looks = |said: &Value| {
        let own = env!("CARGO_BIN_EXE_toolcell");
        let entry =
            json!({ "command": own, "args": ["mcp", tool], "env": { "TOOLCELL_HOME": said } });
        std::fs::write(
            folder.join("mcp.json"),
            json!({ "mcpServers": { "it": entry } }).to_string(),
        )
        .unwrap();
        wrong(
            &checks(&home, &folder, &["--mcp-config=mcp.json"]).1,
            "server",
        )
        .concat()
    };
    assert_eq!(looks(&json!(home)), "");
    std::os::unix::fs::symlink(&home, folder.join("link")).unwrap();
    assert_eq!(looks(&json!(folder.join("link"))), "");
    // The key that authenticates native code would be the key of the file's author.
    for said in [json!(other), json!("home"), json!(""), json!(7)] {
        let told = looks(&said);
        assert!(
            told.contains("TOOLCELL_HOME=") && told.contains("was not started"),
            "{said}: {told}"
        );
    }
    assert!(!other.exists());
}
