use serde_json::Value;

use crate::support::{Hotcell, scratch};

fn checks(ran: &crate::support::Ran) -> Vec<Value> {
    ran.json()["checks"].as_array().unwrap().clone()
}

fn check<'a>(checks: &'a [Value], subject: &str) -> &'a Value {
    checks.iter().find(|check| check["subject"] == subject).unwrap_or_else(|| panic!("no {subject} in {checks:?}"))
}

#[test]
fn doctor_says_of_everything_whether_it_is_there() {
    let (_guard, folder) = scratch();
    let ran = Hotcell::at(&folder, ["doctor", "--json"]).run();
    let checks = checks(&ran);
    for found in &checks {
        assert!(["ready", "absent", "missing"].contains(&found["state"].as_str().unwrap()), "{found}");
        assert!(found["detail"].is_string() && found["subject"].is_string());
    }
    let version = check(&checks, "hotcell")["detail"].as_str().unwrap().to_owned();
    assert!(version.contains(env!("CARGO_PKG_VERSION")) && version.contains("wasmtime"), "{version}");
    assert_eq!(check(&checks, "state")["state"], "ready");
    check(&checks, "building tools");
    // For people it is the same, a line each.
    let people = Hotcell::at(&folder, ["doctor"]).run();
    for found in &checks {
        assert!(people.stdout.contains(&format!("{}:", found["subject"].as_str().unwrap())), "{}", people.stdout);
    }
}

#[test]
fn doctor_changes_nothing() {
    let (_guard, folder) = scratch();
    for home in [folder.clone(), folder.join("not/yet/there")] {
        let state = check(&checks(&Hotcell::at(&home, ["doctor", "--json"]).run()), "state").clone();
        assert_eq!(state["state"], "ready");
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn what_is_missing_is_told_with_what_mends_it_and_a_failing_exit_code() {
    let (_guard, folder) = scratch();
    let home = folder.join("file");
    std::fs::write(&home, "").unwrap();
    let ran = Hotcell::at(&home, ["doctor", "--json"]).run().exits(1);
    let checks = checks(&ran);
    let state = check(&checks, "state");
    assert_eq!((state["state"].as_str(), state["mend"].as_str()), (Some("missing"), Some("export HOTCELL_HOME=DIR")));
    let people = Hotcell::at(&home, ["doctor"]).run().exits(1);
    assert!(people.stdout.contains("mend it: export HOTCELL_HOME=DIR"), "{}", people.stdout);
}

#[test]
fn an_unknown_way_to_a_toolchain_is_told() {
    let (_guard, folder) = scratch();
    let ran = Hotcell::at(&folder, ["doctor"]).env("HOTCELL_GUEST_TOOLCHAIN", "magic").run();
    assert_ne!(ran.code, Some(0));
    assert!(ran.stderr.contains("magic") && ran.stderr.contains("HOTCELL_GUEST_TOOLCHAIN"), "{}", ran.stderr);
}
