//! `toolcell backup`: a copy of all state, while other processes use it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use super::guest;
use crate::support::{Client, Home, OLD, Ran, Toolcell, scratch};

/// Runs a command with the copy as its home.
#[track_caller]
fn with_copy(copy: &Path, arguments: &[&str], code: i32) -> Ran {
    Toolcell::at(copy, arguments).run().exits(code)
}

#[test]
fn the_copy_of_a_busy_home_is_sound_and_has_every_call_that_had_ended() {
    let home = Home::new();
    let (_guard, folder) = scratch();
    let is_over = AtomicBool::new(false);
    let lines: String = (0..50)
        .map(|number| {
            let call = json!({ "id": number.to_string(), "tool": guest("probe#echo"), "input": { "text": "x" } });
            format!("{call}\n")
        })
        .collect();
    std::thread::scope(|scope| {
        let busy: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        home.toolcell(&["batch", "-"]).stdin(&lines).run().exits(0);
                        // Each copy takes longer than the one before, the more calls there are.
                        std::thread::sleep(Duration::from_millis(200));
                    }
                })
            })
            .collect();
        let first = home.call(&guest("probe#echo"), &json!({ "text": "one" }), &[]);
        let id = first["invocation"]["invocation_id"].as_str().unwrap();
        for number in 0..4 {
            let copy = folder.join(number.to_string());
            home.toolcell(&["backup", copy.to_str().unwrap()])
                .run()
                .exits(0);
            with_copy(&copy, &["log", "verify"], 0);
            let shown = with_copy(&copy, &["show", id, "--json"], 0).json();
            assert_eq!(shown["result"], first["result"]);
            // It can be used.
            let echo = guest("probe#echo");
            with_copy(&copy, &["call", &echo, r#"{"text":"two"}"#], 0);
            with_copy(&copy, &["log", "verify"], 0);
        }
        is_over.store(true, Ordering::Relaxed);
        busy.into_iter().for_each(|busy| busy.join().unwrap());
    });
}

/// SQLite keeps what was written last in files beside a database that a process uses.
#[test]
fn the_list_of_payloads_is_whole_while_a_server_uses_it() {
    let home = Home::new();
    let mut server = Client::run(home.toolcell(&["mcp", &guest("probe#big")]));
    server.initialize(OLD);
    server.call("big", json!({ "bytes": 200_000 }));
    let lists = |folder: &Path| -> Vec<String> {
        std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("payloads.owners"))
            .collect()
    };
    assert_eq!(lists(home.path()).len(), 3);
    let (_guard, folder) = scratch();
    let copy = folder.join("copy");
    home.toolcell(&["backup", copy.to_str().unwrap()])
        .run()
        .exits(0);
    assert_eq!(lists(&copy), ["payloads.owners"]);
    let list = copy.join("payloads.owners");
    let mode = std::fs::metadata(&list).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let listed: i64 = rusqlite::Connection::open(&list)
        .unwrap()
        .query_row("SELECT count(*) FROM kept", [], |row| row.get(0))
        .unwrap();
    assert_eq!(listed, 1);
}

#[test]
fn no_copy_is_made_inside_of_the_original_whatever_links_lead_there() {
    let home = Home::new();
    home.call(&guest("probe#echo"), &json!({ "text": "one" }), &[]);
    let (_guard, folder) = scratch();
    let link = folder.join("link");
    std::os::unix::fs::symlink(home.path(), &link).unwrap();
    for inside in [home.path().join("copy"), link.join("copy")] {
        let ran = home
            .toolcell(&["backup", inside.to_str().unwrap()])
            .run()
            .exits(2);
        assert!(ran.stderr.contains("name a new folder"), "{}", ran.stderr);
        assert!(!inside.exists());
    }
}

#[test]
fn damage_is_in_the_copy_too_and_the_command_says_so() {
    let home = Home::new();
    home.call(&guest("probe#echo"), &json!({ "text": "one" }), &[]);
    let [file] = home.segments().try_into().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replacen("probe.echo", "probe.ecHo", 1)).unwrap();
    let (_guard, folder) = scratch();
    let copy = folder.join("copy");
    let ran = home
        .toolcell(&["backup", copy.to_str().unwrap()])
        .run()
        .exits(1);
    assert!(ran.stdout.contains("damaged before"), "{}", ran.stdout);
    with_copy(&copy, &["log", "verify"], 1);
    // Nothing is overwritten.
    home.toolcell(&["backup", copy.to_str().unwrap()])
        .run()
        .exits(2);
    let inside = home.path().join("copy");
    home.toolcell(&["backup", inside.to_str().unwrap()])
        .run()
        .exits(2);
}
