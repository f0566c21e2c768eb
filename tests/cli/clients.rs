//! From a printed configuration to a client that calls a tool.

use serde_json::{Value, json};

use crate::support::{Client, Hotcell, fixture, scratch};

/// Starts what `entry` says, as a client would: from another folder.
fn started(entry: &Value, home: &std::path::Path) -> Client {
    let arguments: Vec<&str> = entry["args"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    assert!(std::path::Path::new(entry["command"].as_str().unwrap()).is_absolute());
    Client::run(Hotcell::at(home, arguments).dir(std::path::Path::new("/")))
}

#[test]
fn what_is_printed_starts_from_any_folder_with_what_was_granted() {
    let (_guard, folder) = scratch();
    std::fs::copy(fixture("probe"), folder.join("probe.wasm")).unwrap();
    std::fs::write(folder.join("note"), "here").unwrap();
    for (client, key) in [
        ("claude-desktop", "mcpServers"),
        ("claude-code", "mcpServers"),
        ("vscode", "servers"),
        ("cursor", "mcpServers"),
    ] {
        let printed = Hotcell::new(["mcp", "--print-config", client, "probe.wasm#read", "--allow-read=."]).dir(&folder);
        let printed = printed.run().exits(0);
        let whole: Value = serde_json::from_str(&printed.stdout).unwrap();
        let entry = &whole[key]["hotcell"];
        let home = std::path::PathBuf::from(entry["env"]["HOTCELL_HOME"].as_str().unwrap());
        let mut started = started(entry, &home);
        started.initialize("2025-11-25");
        let answer = started.call("read", json!({ "path": folder.join("note") }));
        assert_eq!(answer["isError"], json!(false), "{client}: {answer:#}");
        assert!(answer.to_string().contains("here"));
    }
    let missing = Hotcell::new(["mcp", "--print-config=cursor", "nothing.wasm"]).dir(&folder).run();
    assert_eq!(missing.code, Some(2));
}

#[test]
fn a_project_that_is_trusted_is_named_and_another_one_is_not() {
    let (_guard, path) = scratch();
    let (folder, home) = (path.join("project"), path.join("home"));
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(fixture("probe"), folder.join("probe.wasm")).unwrap();
    std::fs::write(folder.join("hotcell.toml"), "[[tool]]\ncomponent = \"probe.wasm#echo\"\n").unwrap();
    let print = || Hotcell::at(&home, ["mcp", "--print-config=cursor"]).dir(&folder).run();
    let refused = print();
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("hotcell policy trust"), "{}", refused.stderr);
    Hotcell::at(&home, ["policy", "trust"]).dir(&folder).run().exits(0);
    let whole: Value = serde_json::from_str(&print().exits(0).stdout).unwrap();
    let mut started = started(&whole["mcpServers"]["hotcell"], &home);
    started.initialize("2025-11-25");
    assert_eq!(started.call("echo", json!({}))["isError"], json!(false));
}

fn checks(home: &std::path::Path, folder: &std::path::Path, options: &[&str]) -> (Option<i32>, Vec<Value>) {
    let ran = Hotcell::at(home, ["doctor", "--json"].iter().chain(options)).dir(folder).run();
    (ran.code, ran.json()["checks"].as_array().unwrap().clone())
}

fn wrong(checks: &[Value], subject: &str) -> Vec<String> {
    let found = checks.iter().filter(|check| check["subject"] == subject && check["state"] == "missing");
    found.map(|check| format!("{} | {}", check["detail"].as_str().unwrap(), check["mend"].as_str().unwrap())).collect()
}

#[test]
fn doctor_says_what_is_wrong_with_a_configuration_and_how_to_mend_it() {
    let (_guard, path) = scratch();
    let (folder, home) = (path.join("project"), path.join("home"));
    std::fs::create_dir(&folder).unwrap();
    let write = |text: &str| std::fs::write(folder.join("hotcell.toml"), text).unwrap();
    let named = "--config=hotcell.toml";
    std::fs::copy(fixture("probe"), folder.join("probe.wasm")).unwrap();
    write("[[tool]]\ncomponent = \"probe.wasm#echo\"\n");
    let (code, untrusted) = checks(&home, &folder, &[]);
    assert_eq!(code, Some(1));
    assert!(wrong(&untrusted, "configuration")[0].contains("hotcell policy trust"));
    let (_, sound) = checks(&home, &folder, &[named]);
    assert!(wrong(&sound, "configuration").is_empty() && wrong(&sound, "tool").is_empty(), "{sound:#?}");
    assert!(sound.iter().any(|check| check["subject"] == "tool" && check["detail"] == "probe.wasm#echo: probe.echo"));
    write(
        "[grants]\nsecret = [\"KEY@https://api.example.com\"]\n[[tool]]\ncomponent = \"none.wasm\"\n\
         [[tool]]\ncomponent = \"probe.wasm#nothing\"\n",
    );
    let (code, broken) = checks(&home, &folder, &[named]);
    assert_eq!(code, Some(1));
    let tools = wrong(&broken, "tool");
    assert!(tools.len() == 2 && tools[0].contains("none.wasm") && tools[1].contains("nothing"), "{tools:?}");
    assert_eq!(wrong(&broken, "secret"), ["KEY is not set | hotcell secret set KEY"]);
    write("[grants]\nraed = [\".\"]\n");
    assert!(wrong(&checks(&home, &folder, &[named]).1, "configuration")[0].contains("raed"));
}

#[test]
fn doctor_starts_what_a_client_would_start() {
    let (_guard, folder) = scratch();
    let entry = |tool: String| json!({ "command": env!("CARGO_BIN_EXE_hotcell"), "args": ["mcp", tool] });
    let good = entry(format!("{}#echo", fixture("probe").display()));
    let file = folder.join("mcp.json");
    let servers = json!({ "mcpServers": {
        "good": good, "bad": entry("relative.wasm".to_owned()), "other": { "command": "true", "args": [] },
    } });
    std::fs::write(&file, servers.to_string()).unwrap();
    let (code, checks) = checks(&folder.join("home"), &folder, &["--client=mcp.json"]);
    assert_eq!(code, Some(1));
    let wrong = wrong(&checks, "server");
    assert!(wrong.len() == 1 && wrong[0].starts_with("bad: ") && wrong[0].contains("relative.wasm"), "{wrong:?}");
    assert!(checks.iter().any(|check| check["detail"] == "good starts and offers its tools"));
}
