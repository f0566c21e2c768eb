//! Promise: Inspection starts no foreign program.

use serde_json::Value;

use crate::support::{Toolcell, root, scratch};

fn checks(ran: &crate::support::Ran) -> Vec<Value> {
    ran.json()["checks"].as_array().unwrap().clone()
}

fn check<'a>(checks: &'a [Value], subject: &str) -> &'a Value {
    checks
        .iter()
        .find(|check| check["subject"] == subject)
        .unwrap_or_else(|| panic!("no {subject} in {checks:?}"))
}

#[test]
fn doctor_says_of_everything_whether_it_is_there() {
    let (_guard, folder) = scratch();
    let ran = Toolcell::at(&folder, ["doctor", "--json"]).run();
    let checks = checks(&ran);
    for found in &checks {
        assert!(
            ["ready", "absent", "missing"].contains(&found["state"].as_str().unwrap()),
            "{found}"
        );
        assert!(found["detail"].is_string() && found["subject"].is_string());
    }
    let version = check(&checks, "toolcell")["detail"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        version.contains(env!("CARGO_PKG_VERSION")) && version.contains("wasmtime"),
        "{version}"
    );
    assert_eq!(check(&checks, "state")["state"], "ready");
    check(&checks, "building tools");
    assert!(
        check(&checks, "journal")["detail"]
            .as_str()
            .unwrap()
            .starts_with("all calls stay on record")
    );
    // The output for people has the same checks, one per line.
    let people = Toolcell::at(&folder, ["doctor"]).run();
    for found in &checks {
        assert!(
            people
                .stdout
                .contains(&format!("{}:", found["subject"].as_str().unwrap())),
            "{}",
            people.stdout
        );
    }
}

#[test]
fn doctor_tells_the_engine_what_is_off_and_what_the_kernel_offers() {
    let (_guard, folder) = scratch();
    let checks = checks(&Toolcell::at(&folder, ["doctor", "--json"]).run());
    let engine = check(&checks, "engine")["detail"].as_str().unwrap();
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let version = engine.strip_prefix("wasmtime ").unwrap();
    assert!(
        lock.contains(&format!("name = \"wasmtime\"\nversion = \"{version}\"")),
        "{engine} is not what is locked"
    );
    let off = check(&checks, "features off")["detail"].as_str().unwrap();
    for feature in ["gc", "threads", "memory64", "stack-switching"] {
        assert!(
            off.split(", ").any(|name| name == feature),
            "{feature}: {off}"
        );
    }
    for subject in [
        "openat2",
        "PAGEMAP_SCAN",
        "max_map_count",
        "open files",
        "seccomp",
    ] {
        assert!(["ready", "absent"].contains(&check(&checks, subject)["state"].as_str().unwrap()));
    }
}

#[test]
fn doctor_asks_the_kernel_itself_for_openat2() {
    // strace answers in place of a seccomp filter or an old kernel. Without strace this test shows nothing.
    let strace = [
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        "trace=openat2",
        "-e",
        "inject=openat2:error=ENOSYS",
    ];
    let toolcell = env!("CARGO_BIN_EXE_toolcell");
    let ran = std::process::Command::new("strace")
        .args(strace)
        .args([toolcell, "doctor", "--json"])
        .output();
    if let Ok(ran) = ran
        && let Ok(said) = serde_json::from_slice::<Value>(&ran.stdout)
    {
        assert_eq!(
            check(said["checks"].as_array().unwrap(), "openat2")["state"],
            "absent"
        );
    }
}

#[test]
fn doctor_changes_nothing() {
    let (_guard, folder) = scratch();
    for home in [folder.clone(), folder.join("not/yet/there")] {
        let state = check(
            &checks(&Toolcell::at(&home, ["doctor", "--json"]).run()),
            "state",
        )
        .clone();
        assert_eq!(state["state"], "ready");
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn what_is_missing_is_told_with_what_mends_it_and_a_failing_exit_code() {
    let (_guard, folder) = scratch();
    let home = folder.join("file");
    std::fs::write(&home, "").unwrap();
    let ran = Toolcell::at(&home, ["doctor", "--json"]).run().exits(1);
    let checks = checks(&ran);
    let state = check(&checks, "state");
    assert_eq!(
        (state["state"].as_str(), state["fix"].as_str()),
        (Some("missing"), Some("export TOOLCELL_HOME=DIR"))
    );
    let people = Toolcell::at(&home, ["doctor"]).run().exits(1);
    assert!(
        people.stdout.contains("fix: export TOOLCELL_HOME=DIR"),
        "{}",
        people.stdout
    );
}

#[test]
fn an_unknown_way_to_a_toolchain_is_told() {
    let (_guard, folder) = scratch();
    let ran = Toolcell::at(&folder, ["doctor"])
        .env("TOOLCELL_GUEST_TOOLCHAIN", "magic")
        .run();
    assert_ne!(ran.code, Some(0));
    assert!(
        ran.stderr.contains("magic") && ran.stderr.contains("TOOLCELL_GUEST_TOOLCHAIN"),
        "{}",
        ran.stderr
    );
}

#[test]
fn control_sequences_of_a_file_reach_no_terminal() {
    let (_guard, folder) = scratch();
    let home = folder.join("home");
    let project = folder.join("project");
    std::fs::create_dir_all(&project).unwrap();
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}";
    let write = |text: String| std::fs::write(project.join("toolcell.toml"), text).unwrap();
    let clean = |ran: &crate::support::Ran| {
        for text in [&ran.stdout, &ran.stderr] {
            let acts = |c: char| c == '\u{1b}' || c == '\u{7}' || c == '\u{202e}';
            assert!(!text.contains(acts), "{text:?}");
        }
        format!("{}{}", ran.stdout, ran.stderr)
    };
    let run = |arguments: &[&str]| Toolcell::at(&home, arguments).dir(&project).run();
    // In a key, in a value, and in text that is not TOML, because error messages quote each.
    for text in [
        format!("\"{evil}\" = 1\n"),
        format!(
            "mode = \"{}\"\n",
            evil.replace('\u{1b}', "\\u001b")
                .replace('\u{7}', "\\u0007")
        ),
        format!("[[tool]]\ncomponent = '{}.wasm'\n", "\u{202e}gone"),
        format!("{evil}\n"),
    ] {
        write(text);
        for arguments in [
            &["doctor", "--config=toolcell.toml"][..],
            &["doctor", "--config=toolcell.toml", "--json"],
            &["trust"],
        ] {
            clean(&run(arguments));
        }
    }
    write(format!("\"{evil}\" = 1\n"));
    let told = clean(&run(&["trust"]).exits(2));
    assert!(told.contains("\\u{1b}"), "{told}");
    std::fs::write(
        project.join("mcp.json"),
        format!(
            "{{\"mcpServers\": {{\"{}\": {{\"command\": \"/x/toolcell\"}}}}}}",
            "\\u001b[2J"
        ),
    )
    .unwrap();
    clean(&run(&["doctor", "--mcp-config=mcp.json"]).exits(1));
}
