//! `toolcell install` and its companions: what is installed, under which names, and what it may become.
//!
//! Promise: Nothing is installed without consent.
//! Promise: A name means the bytes that the user agreed to.

mod impostors;
mod interpreters;
mod kills;
mod locks;
mod packages;
pub(crate) mod proxies;
mod updates;
mod web;

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use toolcell_spec::dialect::sections::with_custom;

use super::approvals::terminal::Terminal;
use super::policy::Place;
use crate::pipeline::doubles::echoing;
use crate::support::{Client, OLD, Ran, Web, frame};

/// A project with an empty `toolcell.toml` that the user trusts.
fn project() -> Place {
    Place::new().project("").trusted()
}

/// Writes the component of the tool `greet.echo` into the project as `greet.wasm`.
fn greet(place: &Place, change: impl FnOnce(&mut Value)) -> PathBuf {
    let file = place.project.join("greet.wasm");
    fs::write(&file, echoing("greet", change)).unwrap();
    file
}

/// Lets the only tool send requests to these hosts.
fn reaching(scope: &str) -> impl FnOnce(&mut Value) {
    let scope = scope.to_owned();
    move |toolkit| {
        toolkit["declarations"][0]["permission_profile_ref"] = json!("p");
        toolkit["permission_profiles"] = json!([{
            "schema_version": "0.2.0", "permission_profile_id": "p", "risk_level": "low",
            "access_kinds": ["network"], "write_effects": ["none"], "network_scope": scope,
        }]);
    }
}

/// The entry of the lock that an `--json` of install or update reports.
fn tool(ran: &Ran) -> Value {
    ran.json()["tools"][0]["tool"].clone()
}

/// The file of a component in the store.
fn stored(place: &Place, component: &Value) -> PathBuf {
    let hex = component.as_str().unwrap().strip_prefix("sha256:").unwrap();
    place
        .home
        .join("store/components")
        .join(format!("{hex}.wasm"))
}

#[test]
fn a_version_in_a_component_is_a_word() {
    let place = project();
    for (name, written, version) in [
        ("one", "1.2.0", json!("1.2.0")),
        ("two", "1.2.0 signed by Debian", Value::Null),
    ] {
        let component =
            with_custom(&echoing("greet", |_| {}), "version", written.as_bytes()).unwrap();
        fs::write(place.project.join("greet.wasm"), component).unwrap();
        let ran = place
            .run(&["install", "./greet.wasm", "--name", name, "--yes", "--json"])
            .exits(0);
        assert_eq!(tool(&ran)["version"], version, "{written}");
    }
}

#[test]
fn a_file_is_installed_and_every_door_knows_its_name() {
    let place = project();
    greet(&place, |_| {});
    let ran = place
        .run(&["install", "./greet.wasm", "--yes", "--json"])
        .exits(0);
    let entry = tool(&ran);
    assert_eq!(
        (&ran.json()["tools"][0]["state"], &entry["reference"]),
        (&json!("installed"), &json!("./greet.wasm"))
    );
    let declared = place.run(&["events", "--type=tool.declared", "--json"]);
    assert!(declared.stdout.contains("greet.echo"), "{declared:?}");
    assert!(
        place.project.join("toolcell.lock").is_file()
            && stored(&place, &entry["component"]).is_file()
    );
    // The file that it came from is not needed any more.
    fs::remove_file(place.project.join("greet.wasm")).unwrap();
    let called = place
        .run(&["call", "greet", r#"{"a":1}"#, "--json"])
        .exits(0)
        .json();
    assert_eq!(called["structured_content"], json!({ "a": 1 }));
    assert_eq!(called["provenance"]["component"], entry["component"]);
    place.run(&["call", "greet#echo"]).exits(0);
    assert!(
        place
            .run(&["describe", "greet"])
            .exits(0)
            .stdout
            .contains("toolcell call greet ")
    );
    assert!(
        place
            .run(&["search", "answers input", "greet"])
            .exits(0)
            .stdout
            .contains("describe greet#echo")
    );
    place.run(&["policy", "check", "greet"]).exits(0);
    let batch = place
        .toolcell(&["batch", "-", "--json"])
        .stdin("{\"id\": \"a\", \"tool\": \"greet\"}\n")
        .run()
        .exits(0);
    assert!(batch.stdout.contains("succeeded"), "{}", batch.stdout);
    let mut client = Client::run(place.toolcell(&["mcp", "greet"]));
    client.initialize(OLD);
    assert!(
        client
            .request("tools/list", json!({}))
            .to_string()
            .contains("greet")
    );
    let web = Web::run(place.toolcell(&["serve", "greet", "--listen=127.0.0.1:0"]));
    let session = web.session(json!({}));
    let listed = web.request(
        "POST /mcp",
        &web.in_session(&session),
        &frame(json!(7), "tools/list", json!({})),
    );
    assert!(listed.body.contains("greet"), "{listed:?}");
}

#[test]
fn a_name_belongs_to_its_project_and_the_users_own_are_known_everywhere() {
    let place = project();
    greet(&place, |_| {});
    place
        .run(&["install", "./greet.wasm", "--name=hello", "--yes"])
        .exits(0);
    place
        .run(&["install", "./greet.wasm", "--user", "--name=mine", "--yes"])
        .exits(0);
    let elsewhere = place.home.parent().unwrap().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    place.run(&["call", "hello"]).exits(0);
    place.run(&["call", "mine"]).exits(0);
    place.run_in(&elsewhere, &["call", "mine"]).exits(0);
    let unknown = place
        .run_in(&elsewhere, &["call", "hello", "--json"])
        .exits(2)
        .json();
    assert!(
        unknown["error"]["message"]
            .as_str()
            .unwrap()
            .contains("no installed tool has that name"),
        "{unknown}"
    );
    let listed = place.run(&["list", "--json"]).exits(0).json();
    let names: Vec<&Value> = listed["installed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["tool"]["name"])
        .collect();
    assert_eq!(names, ["hello", "mine"]);
    assert_eq!(listed["installed"][0]["state"], json!("ready"));
    let removed = place.run(&["remove", "hello", "--json"]).exits(0);
    assert_eq!(removed.json()["tools"][0]["state"], json!("removed"));
    place.run(&["call", "hello"]).exits(2);
    assert!(
        place
            .run(&["remove", "hello"])
            .exits(2)
            .stderr
            .contains("[not_installed]")
    );
    // The bytes stay for the other name, and go with it.
    assert_eq!(
        place.run(&["store", "prune", "--json"]).exits(0).json()["removed"],
        json!(0)
    );
    place.run(&["remove", "--user", "mine"]).exits(0);
    assert_eq!(
        place.run(&["store", "prune", "--json"]).exits(0).json()["removed"],
        json!(1)
    );
    // A project that is gone needs none either.
    fs::write(elsewhere.join("toolcell.toml"), "").unwrap();
    place.run_in(&elsewhere, &["trust"]).exits(0);
    place
        .run_in(&elsewhere, &["install", "../project/greet.wasm", "--yes"])
        .exits(0);
    assert_eq!(
        place.run(&["store", "prune", "--json"]).exits(0).json()["removed"],
        json!(0)
    );
    fs::remove_dir_all(&elsewhere).unwrap();
    assert_eq!(
        place.run(&["store", "prune", "--json"]).exits(0).json()["removed"],
        json!(1)
    );
}

#[test]
fn a_client_is_told_of_the_project_that_knows_the_name() {
    let place = project();
    greet(&place, |_| {});
    place
        .run(&["install", "./greet.wasm", "--name=hello", "--yes"])
        .exits(0);
    place
        .run(&["install", "./greet.wasm", "--name=mine", "--user", "--yes"])
        .exits(0);
    let arguments = |tool: &str| {
        let printed = place
            .run(&["mcp", tool, "--print-config=cursor"])
            .exits(0)
            .json();
        printed["mcpServers"]["toolcell"]["args"].clone()
    };
    let config = format!(
        "--config={}",
        place.file().canonicalize().unwrap().display()
    );
    assert_eq!(
        arguments("hello#echo"),
        json!(["mcp", "hello#echo", config])
    );
    assert_eq!(arguments("mine"), json!(["mcp", "mine"]));
    // That is what a client runs, in a folder of its own.
    let away = place.home.parent().unwrap();
    place
        .run_in(away, &["call", "hello", "{}", &config])
        .exits(0);
}

#[test]
fn nothing_is_installed_without_consent() {
    let place = project();
    greet(&place, reaching("api.example.com"));
    let ran = place.run(&["install", "./greet.wasm"]).exits(3);
    for words in [
        "send requests to api.example.com",
        "none, it is not signed",
        "[install_needs_consent]",
        "--yes",
    ] {
        assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }
    assert!(!place.project.join("toolcell.lock").exists());
    assert_eq!(
        place.run(&["store", "verify", "--json"]).exits(0).json()["components"],
        json!(0)
    );
    let dry = place
        .run(&["install", "./greet.wasm", "--dry-run", "--json"])
        .exits(0)
        .json();
    assert_eq!(dry["tools"][0]["plan"]["asks"], json!(true));
    assert!(!place.project.join("toolcell.lock").exists());
}

#[test]
fn a_project_is_trusted_before_it_installs_and_the_refusal_names_an_option_that_there_is() {
    let place = Place::new().project("");
    greet(&place, |_| {});
    for command in [
        &["install", "./greet.wasm", "--yes"][..],
        &["update"],
        &["info", "./greet.wasm"],
    ] {
        let ran = place.run(command).exits(3);
        assert!(
            ran.stderr.contains("toolcell trust") && ran.stderr.contains("--user goes on"),
            "{ran:?}"
        );
        assert!(!ran.stderr.contains("--no-config"), "{ran:?}");
    }
    place
        .run(&["install", "./greet.wasm", "--yes", "--user"])
        .exits(0);
}

#[test]
fn the_user_at_the_terminal_is_asked() {
    let place = super::approvals::Place::of("");
    fs::write(
        place.folder.join("greet.wasm"),
        echoing("greet", reaching("api.example.com")),
    )
    .unwrap();
    for (answer, code) in [("n\n", 3), ("y\n", 0)] {
        let mut terminal = Terminal::run(&place, "exec $TOOLCELL install ./greet.wasm");
        let shown = terminal.shows("Install greet? [y/N]");
        assert!(
            shown.contains("send requests to api.example.com"),
            "{shown}"
        );
        terminal.types(answer);
        assert_eq!(terminal.ends().0, Some(code));
        place
            .toolcell(&["call", "greet", "--allow-net=api.example.com"])
            .run()
            .exits(if code == 0 { 0 } else { 2 });
    }
}

#[test]
fn a_component_that_was_changed_in_the_store_is_not_used() {
    let place = project();
    greet(&place, |_| {});
    let entry = tool(
        &place
            .run(&["install", "./greet.wasm", "--yes", "--json"])
            .exits(0),
    );
    place.run(&["call", "greet"]).exits(0);
    let file = stored(&place, &entry["component"]);
    let other = echoing("greet", |toolkit| {
        toolkit["declarations"][0]["title"] = json!("other")
    });
    fs::remove_file(&file).unwrap();
    fs::write(&file, &other).unwrap();
    let refused = place.run(&["call", "greet", "--json"]).exits(3).json();
    assert_eq!(refused["error"]["error_code"], json!("store_changed"));
    for door in [&["describe", "greet"][..], &["policy", "check", "greet"]] {
        place.run(door).exits(3);
    }
    let verified = place.run(&["store", "verify", "--json"]).exits(1).json();
    assert_eq!(
        verified["damaged"].as_array().unwrap().len(),
        1,
        "{verified}"
    );
    // What is no component at all is named, too.
    let foreign = place.home.join("store/components/notes.txt");
    fs::write(&foreign, "x").unwrap();
    assert!(
        place
            .run(&["store", "verify"])
            .exits(1)
            .stdout
            .contains("2 files are not as they were installed")
    );
    fs::remove_file(foreign).unwrap();
    // It is put back from where it came from.
    assert_eq!(
        place.run(&["install", "--json"]).exits(0).json()["tools"][0]["state"],
        json!("restored")
    );
    place.run(&["store", "verify"]).exits(0);
    place.run(&["call", "greet"]).exits(0);
    fs::remove_file(&file).unwrap();
    let missing = place.run(&["call", "greet", "--json"]).exits(2).json();
    assert_eq!(missing["error"]["error_code"], json!("not_in_store"));
}

#[test]
fn what_cannot_be_loaded_is_not_installed() {
    let place = project();
    for bytes in [b"not wasm".to_vec(), crate::support::wat("describe-traps")] {
        fs::write(place.project.join("bad.wasm"), bytes).unwrap();
        let ran = place.run(&["install", "./bad.wasm", "--yes", "--json"]);
        assert!(
            ran.code != Some(0) && ran.json()["error"]["error_code"].is_string(),
            "{ran:?}"
        );
    }
    for (arguments, words) in [
        (&["install", "./missing.wasm", "--yes"][..], "no tool at"),
        (
            &["install", "http://example.com/x.wasm", "--yes"],
            "use `https`",
        ),
        (
            &["install", "./greet.wasm", "--name", "a/b"],
            "cannot be the name of a tool",
        ),
        (
            &["install", "./greet.wasm#echo", "--name=echo", "--yes"],
            "with all of its tools",
        ),
        (&["update", "nothing"], "no tool is installed as `nothing`"),
    ] {
        let ran = place.run(arguments).exits(2);
        assert!(ran.stderr.contains(words), "{arguments:?}: {}", ran.stderr);
    }
    assert_eq!(
        place.run(&["store", "verify", "--json"]).exits(0).json()["components"],
        json!(0)
    );
}

#[test]
fn the_project_names_what_is_installed_in_it() {
    let place = Place::new()
        .project("# ours\nmode = \"default\"\n")
        .trusted();
    let outside = place.home.parent().unwrap().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::rename(greet(&place, |_| {}), outside.join("greet.wasm")).unwrap();
    place
        .run(&["install", "../outside/greet.wasm", "--yes"])
        .exits(0);
    // The lock is committed, so it has no folder of this machine.
    let lock = || fs::read_to_string(place.project.join("toolcell.lock")).unwrap();
    assert!(
        lock().contains("reference = \"../outside/greet.wasm\"")
            && !lock().contains(outside.to_str().unwrap())
    );
    let named = "# ours\nmode = \"default\"\n\n[tools]\ngreet = \"../outside/greet.wasm\"\n";
    assert_eq!(fs::read_to_string(place.file()).unwrap(), named);
    // The file is trusted as before, and agrees with the lock.
    place.run(&["call", "greet"]).exits(0);
    let again = place
        .run(&["install", "--locked", "--json"])
        .exits(0)
        .json();
    assert_eq!(again["tools"][0]["state"], json!("unchanged"), "{again}");
    place.run(&["remove", "greet"]).exits(0);
    assert!(
        !fs::read_to_string(place.file()).unwrap().contains("greet") && !lock().contains("greet")
    );
    assert_eq!(
        place.run(&["install", "--json"]).exits(0).json()["tools"],
        json!([])
    );
    // Whatever way TOML has to write it.
    place
        .run(&["install", "../outside/greet.wasm", "--yes"])
        .exits(0);
    let place = place
        .project("[tools.greet]\nreference = \"../outside/greet.wasm\"\n\n[limits]\nfuel = 7\n")
        .trusted();
    place.run(&["remove", "greet"]).exits(0);
    let file = fs::read_to_string(place.file()).unwrap();
    assert!(
        !file.contains("greet") && file.contains("[limits]\nfuel = 7\n"),
        "{file}"
    );
}

#[test]
fn lists_have_heads_and_digests_stay_whole() {
    let place = project();
    greet(&place, |_| {});
    let digest = tool(
        &place
            .run(&["install", "./greet.wasm", "--dry-run", "--json"])
            .exits(0),
    )["component"]
        .clone();
    let digest = digest.as_str().unwrap();
    let offered = place
        .run(&["install", "./greet.wasm", "--yes"])
        .exits(0)
        .stderr;
    assert!(
        offered.contains(&format!("| component, the code that runs:\n|   {digest}\n")),
        "{offered}"
    );
    assert!(
        offered.contains(&format!("installed greet, component {digest}; ")),
        "{offered}"
    );
    let listed = place.run(&["list"]).exits(0).stdout;
    assert!(
        listed.starts_with("NAME                 VERSION      FROM\ngreet "),
        "{listed}"
    );
    greet(&place, reaching("a.example"));
    let outdated = place.run(&["outdated"]).exits(0).stdout;
    assert!(
        outdated.starts_with("NAME                 VERSION -> NOW           FROM\ngreet "),
        "{outdated}"
    );
    assert!(
        outdated.contains(&format!("\n  installed {digest}\n  now       sha256:")),
        "{outdated}"
    );
}

#[test]
fn info_runs_nothing_and_installs_nothing() {
    let place = project();
    // A component that traps as soon as it is asked for its description.
    fs::write(
        place.project.join("trap.wasm"),
        crate::support::wat("describe-traps"),
    )
    .unwrap();
    let told = place
        .run(&["info", "./trap.wasm", "--json"])
        .exits(0)
        .json();
    assert!(
        told["component"].as_str().unwrap().starts_with("sha256:") && told["signer"].is_null(),
        "{told}"
    );
    assert!(
        place
            .run(&["info", "./trap.wasm"])
            .exits(0)
            .stdout
            .contains("signer: none, it is not signed")
    );
    assert_eq!(
        (&told["imports"], &told["installed_as"]),
        (&json!([]), &json!([]))
    );
    assert_eq!(
        place.run(&["list", "--json"]).exits(0).json()["installed"],
        json!([])
    );
    greet(&place, |_| {});
    place.run(&["install", "./greet.wasm", "--yes"]).exits(0);
    assert!(
        place
            .run(&["info", "./greet.wasm"])
            .exits(0)
            .stdout
            .contains("installed: as greet")
    );
    let ran = place.run(&["install", "greet"]).exits(2);
    assert!(
        ran.stderr
            .contains("is a tool name, not a reference (its reference is ./greet.wasm)"),
        "{}",
        ran.stderr
    );
    // A name is shown as it is installed, whatever its source has become.
    fs::rename(
        place.project.join("greet.wasm"),
        place.project.join("away.wasm"),
    )
    .unwrap();
    let told = place.run(&["info", "greet", "--json"]).exits(0).json();
    assert_eq!(
        (&told["reference"], &told["installed_as"]),
        (&json!("./greet.wasm"), &json!(["greet"])),
        "{told}"
    );
    fs::rename(
        place.project.join("away.wasm"),
        place.project.join("greet.wasm"),
    )
    .unwrap();
    // From whichever folder, a file is the same.
    let deep = place.project.join("src/deep");
    let again = place
        .run_in(&deep, &["install", "../../greet.wasm", "--json"])
        .exits(0)
        .json();
    assert_eq!(again["tools"][0]["state"], json!("unchanged"), "{again}");
}
