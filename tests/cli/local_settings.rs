//! `toolcell.local.toml`: the user's own settings for one checkout, with the trust and the limits of a project's file.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::policy::Place;
use super::{example, guest};
use crate::pipeline::doubles::echoing;
use crate::support::{Client, OLD, Ran};

const READ: &str = "[grants]\nread = [\"src\"]\n";
const DENY: &str = "[[rule]]\nbehavior = \"deny\"\npath = \"src/secret.txt\"\n";

/// Reads `path` of the project with `files#read`.
fn read(place: &Place, path: &str) -> Ran {
    let tool = format!("{}#read", example("files"));
    let input = json!({ "path": place.project.join(path) }).to_string();
    place.run(&["call", &tool, &input, "--print-record"])
}

#[track_caller]
fn is_untrusted(ran: &Ran, file: &str) {
    let error = ran.json()["result"]["error"].clone();
    assert_eq!(error["error_code"], "project_not_trusted", "{error:#}");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains(&format!("/{file} ")) && message.contains("`toolcell trust "),
        "{message}"
    );
}

#[test]
fn a_local_file_counts_once_it_is_trusted_with_or_without_a_projects_file() {
    let place = Place::new().local(READ);
    is_untrusted(&read(&place, "src/a.txt").exits(3), "toolcell.local.toml");
    let local = place.project.join("toolcell.local.toml");
    let trusted = place.run(&["trust"]).exits(0).stdout;
    assert_eq!(
        trusted,
        format!(
            "trusted: {}\n  grants.read: \"src\"\n",
            local.canonicalize().unwrap().display()
        )
    );
    let record = read(&place, "src/a.txt").exits(0).json();
    let decision = &record["decisions"][0];
    assert_eq!(decision["source"], "local_settings");
    let rule = format!("grants.read \"src\" in {}", local.display());
    assert_eq!(decision["rule_refs"], json!([rule]));
    let deep = place.project.join("src/deep");
    let input = json!({ "path": place.project.join("src/a.txt") }).to_string();
    let tool = format!("{}#read", example("files"));
    let checked = place
        .run_in(&deep, &["policy", "check", "--explain", &tool, &input])
        .exits(0)
        .stdout;
    assert!(checked.contains(&local.display().to_string()), "{checked}");

    // Each file needs its own trust, whichever came first.
    let place = place.project(DENY);
    is_untrusted(&read(&place, "src/a.txt").exits(3), "toolcell.toml");
    let trusted = place.run(&["trust"]).exits(0).stdout;
    assert!(
        trusted.contains("/toolcell.local.toml\n  grants.read")
            && trusted.contains("/toolcell.toml\n  rule"),
        "{trusted}"
    );
    read(&place, "src/a.txt").exits(0);
    let denied = read(&place, "src/secret.txt").exits(3).json();
    assert_eq!(denied["decisions"][0]["source"], "project_settings");
    let place = place.local(&format!("{READ}{DENY}"));
    is_untrusted(&read(&place, "src/a.txt").exits(3), "toolcell.local.toml");
    place.run(&["trust"]).exits(0);
    // Of the same rule in both, the local one is named.
    let denied = read(&place, "src/secret.txt").exits(3).json();
    assert_eq!(denied["decisions"][0]["source"], "local_settings");

    let revoked = place.run(&["trust", "--revoke"]).exits(0).stdout;
    assert_eq!(
        revoked.matches("no longer trusted: ").count(),
        2,
        "{revoked}"
    );
    is_untrusted(&read(&place, "src/a.txt").exits(3), "toolcell.local.toml");
}

#[test]
fn a_named_file_takes_the_place_of_both_and_without_files_none_is_read() {
    let place = Place::new().project(READ).local("mode = \"plan\"\n");
    let call = |option: &str| place.run(&["call", &guest("probe#echo"), "{}", option, "--json"]);
    assert_eq!(
        call("--timeout=9s").exits(3).json()["error"]["error_code"],
        "project_not_trusted"
    );
    call("--no-config").exits(0);
    call("--config=toolcell.toml").exits(0);
}

#[test]
fn a_local_file_may_not_say_what_a_projects_file_may_not() {
    let place = Place::new();
    symlink("../home", place.project.join("link")).unwrap();
    for (text, said) in [
        (
            "telemetry.export = true\n",
            "[telemetry] is for your own toolcell.toml",
        ),
        (
            "trusted_root = \"root.json\"\n",
            "`trusted_root` is not for a project's file",
        ),
        (
            "[registry]\nplain_http = [\"registry.lan\"]\n",
            "[registry] is for your own toolcell.toml",
        ),
        (
            "[log]\nkeep = \"none\"\n",
            "[log] is for your own toolcell.toml",
        ),
        (
            "[tools]\ngreet = \"./greet.wasm\"\n",
            "[tools] is for the project's toolcell.toml",
        ),
        (
            "[grants]\nread = [\"link\"]\n",
            "a link inside of the project",
        ),
        (
            "[[hook]]\nevents = [\"pre_tool_use\"]\ncomponent = \"src\"\n",
            "is a source folder",
        ),
    ] {
        fs::write(place.project.join("toolcell.local.toml"), text).unwrap();
        let refused = place.run(&["trust"]).exits(2).stderr;
        assert!(
            refused.contains(said) && refused.contains("toolcell.local.toml"),
            "{text}: {refused}"
        );
        is_untrusted(&read(&place, "src/a.txt").exits(3), "toolcell.local.toml");
    }
    let local = place.project.join("toolcell.local.toml");
    fs::rename(&local, place.project.join("elsewhere.toml")).unwrap();
    symlink("elsewhere.toml", &local).unwrap();
    assert!(
        place
            .run(&["trust"])
            .exits(2)
            .stderr
            .contains("toolcell.local.toml is a link")
    );
}

#[test]
fn no_tool_reads_or_writes_a_local_file_or_creates_one() {
    let place = Place::new().local("").trusted();
    let local = place.project.join("toolcell.local.toml");
    let call = |tool: &str, input: Value, grant: &str| {
        let ran = place.run(&[
            "call",
            &guest(&format!("probe#{tool}")),
            &input.to_string(),
            grant,
            "--json",
        ]);
        ran.json()["structured_content"]["ok"] == json!(true)
    };
    let other = json!({ "path": place.project.join("other"), "text": READ });
    assert!(call("write", other, "--allow-write=."));
    assert!(!call("read", json!({ "path": local }), "--allow-read=."));
    let write = json!({ "path": local, "text": READ });
    assert!(!call("write", write.clone(), "--allow-write=."));
    assert_eq!(fs::read_to_string(&local).unwrap(), "");
    fs::remove_file(&local).unwrap();
    assert!(!call("write", write, "--allow-write=."));
    assert!(!local.exists());
}

#[test]
fn a_server_reads_a_local_file_that_appears() {
    let place = Place::new();
    let mut client = Client::run(place.toolcell(&["mcp", &guest("probe#echo")]));
    client.initialize(OLD);
    assert_eq!(client.call("echo", json!({}))["isError"], json!(false));
    let rule = "[[rule]]\nbehavior = \"deny\"\ntool = \"probe.*\"\n";
    fs::write(place.project.join("toolcell.local.toml"), rule).unwrap();
    client.says("toolcell.local.toml is not trusted");
    place.run(&["trust"]).exits(0);
    client.says("now serving the new version");
    let refused = client.call("echo", json!({}));
    assert!(
        refused["isError"] == json!(true) && refused.to_string().contains("denied_by_rule"),
        "{refused:#}"
    );
}

#[test]
fn a_rule_of_a_local_file_means_what_is_installed_beside_it() {
    let place = Place::new().project("").trusted();
    let component = echoing("risky", |toolkit| {
        toolkit["declarations"][0]["permission_profile_ref"] = json!("p");
        toolkit["permission_profiles"] = json!([{
            "schema_version": "0.2.0", "permission_profile_id": "p", "risk_level": "high",
        }]);
    });
    fs::write(place.project.join("risky.wasm"), component).unwrap();
    place
        .run(&["install", "./risky.wasm", "--name=safe", "--yes"])
        .exits(0);
    place.run(&["policy", "check", "safe"]).exits(6);
    let place = place
        .local("[[rule]]\nbehavior = \"allow\"\ntool = \"safe\"\n")
        .trusted();
    place.run(&["policy", "check", "safe"]).exits(0);
}

#[test]
fn a_client_that_starts_elsewhere_is_not_configured_without_the_local_settings() {
    let place = Place::new()
        .project(&format!(
            "[[tool]]\ncomponent = {:?}\n",
            guest("probe#echo")
        ))
        .trusted();
    let print = || place.run(&["mcp", "--print-config=cursor"]);
    print().exits(0);
    fs::write(place.project.join("toolcell.local.toml"), DENY).unwrap();
    place.run(&["trust"]).exits(0);
    let refused = print().exits(2).stderr;
    assert!(
        refused.contains("toolcell.local.toml is read in its folder alone"),
        "{refused}"
    );
}
