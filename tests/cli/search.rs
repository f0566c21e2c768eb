//! `toolcell search`.

use serde_json::{Value, json};

use super::{echo_in, example};
use crate::pipeline::doubles::{crowd, echoing};
use crate::support::{Toolcell, scratch};

fn search(arguments: &[&str]) -> Value {
    Toolcell::new(["search", "--json"].iter().chain(arguments))
        .run()
        .exits(0)
        .json()
}

#[test]
fn words_find_the_tool_and_the_command_that_describes_it() {
    let files = example("files");
    let jq = example("jq");
    let ran = Toolcell::new([
        "search",
        "search text files by regular expression",
        &files,
        &jq,
    ])
    .run()
    .exits(0);
    assert!(
        ran.stdout.starts_with("files.search\n  Searches "),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout
            .contains(&format!("\n  toolcell describe {files}#search\n")),
        "{}",
        ran.stdout
    );
    let found = search(&["filter JSON", &files, &jq]);
    assert_eq!(
        (
            &found["matches"][0]["name"],
            &found["matches"][0]["loading_state"]
        ),
        (&json!("jq.jq"), &json!("loaded"))
    );
    assert_eq!(
        (&found["query_type"], &found["next_action"]),
        (&json!("keyword"), &json!("call"))
    );
    let one = search(&["files", &files, "--limit=1"]);
    assert_eq!(one["matches"].as_array().unwrap().len(), 1);
}

#[test]
fn exact_names_are_found_and_missing_ones_are_told() {
    let files = example("files");
    let found = search(&["select:files.read,nothing,search", &files]);
    let names: Vec<&Value> = found["matches"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| &tool["name"])
        .collect();
    assert_eq!(names, ["files.read", "files.search"]);
    assert_eq!(
        (&found["query_type"], &found["missing_names"]),
        (&json!("select"), &json!(["nothing"]))
    );
    let people = Toolcell::new(["search", "select:nothing", &files])
        .run()
        .exits(0);
    assert!(
        people.stdout.is_empty() && people.stderr.contains("there is no tool \"nothing\""),
        "{}",
        people.stderr
    );
    // One tool of a component is searched if it alone was named.
    let one = search(&["select:files.read", &format!("{files}#search")]);
    assert_eq!(
        (&one["matches"], &one["missing_names"]),
        (&json!([]), &json!(["files.read"]))
    );
}

#[test]
fn no_match_is_a_result() {
    let files = example("files");
    let found = search(&["zebra", &files]);
    assert_eq!(
        (&found["matches"], &found["next_action"]),
        (&json!([]), &json!("search_again"))
    );
    let people = Toolcell::new(["search", "zebra", &files]).run().exits(0);
    assert!(
        people.stdout.is_empty() && people.stderr.contains("no tool matches \"zebra\""),
        "{}",
        people.stderr
    );
    // What would be syntax of the search engine is a word like any other.
    for query in ["\"", "read* OR", "name:(", "NEAR(a b)", "a -b"] {
        search(&[&format!("{query} zebra"), &files]);
    }
}

#[test]
fn the_tools_of_the_configuration_are_searched_if_none_is_named() {
    let (_guard, folder) = scratch();
    echo_in(&folder);
    let search = |query: &str| {
        let arguments = ["search", query, "--config=toolcell.toml", "--json"];
        Toolcell::at(&folder.join("home"), arguments)
            .dir(&folder)
            .run()
    };
    std::fs::write(folder.join("toolcell.toml"), "").unwrap();
    assert_eq!(
        search("answer").exits(2).json()["error"]["error_code"],
        "no_tools"
    );
    std::fs::write(
        folder.join("toolcell.toml"),
        "[[tool]]\ncomponent = \"echo.wasm\"\n",
    )
    .unwrap();
    assert_eq!(
        search("answers").exits(0).json()["matches"][0]["name"],
        "wat.echo"
    );
    std::fs::write(
        folder.join("toolcell.toml"),
        "[[tool]]\ncomponent = \"gone.wasm\"\n",
    )
    .unwrap();
    let refused = search("answers").exits(2).json();
    assert!(
        refused["error"]["message"]
            .as_str()
            .unwrap()
            .starts_with("gone.wasm: "),
        "{refused}"
    );
}

#[test]
fn a_component_that_cannot_be_loaded_is_named_and_the_others_are_searched() {
    let (_guard, folder) = scratch();
    echo_in(&folder);
    std::fs::write(folder.join("broken.wasm"), "not a component").unwrap();
    let search = |options: &[&str]| {
        let fixed = ["search", "answers", "broken.wasm", "gone.wasm", "echo.wasm"];
        Toolcell::at(&folder.join("home"), fixed.iter().chain(options))
            .dir(&folder)
            .run()
            .exits(0)
    };
    let found = search(&["--json"]).json();
    assert_eq!(
        (&found["matches"][0]["name"], &found["pending_providers"]),
        (&json!("wat.echo"), &json!([]))
    );
    let unavailable = found["unavailable_providers"].as_array().unwrap();
    let named: Vec<&Value> = unavailable.iter().map(|one| &one["provider"]).collect();
    assert_eq!(named, ["broken.wasm", "gone.wasm"]);
    assert_eq!(unavailable[1]["error_code"], "unknown_tool");
    let people = search(&[]);
    assert!(people.stdout.starts_with("wat.echo\n"), "{}", people.stdout);
    for name in named {
        let said = format!("not searched: {}: ", name.as_str().unwrap());
        assert!(people.stderr.contains(&said), "{}", people.stderr);
    }
}

#[test]
fn a_query_that_cannot_be_searched_is_a_bad_request() {
    let files = example("files");
    let long = "x".repeat(1_001);
    for (query, code) in [
        (" ", "query_empty"),
        ("select:", "query_empty"),
        (long.as_str(), "query_too_long"),
    ] {
        let refused = Toolcell::new(["search", query, &files, "--json"])
            .run()
            .exits(2)
            .json();
        assert_eq!(refused["error"]["error_code"], code);
    }
    for limit in ["0", "51", "-1", "many"] {
        Toolcell::new(["search", "x", &files, &format!("--limit={limit}")])
            .run()
            .exits(2);
    }
}

#[test]
fn tools_over_the_budget_are_deferred_and_found() {
    let (_guard, folder) = scratch();
    let tool = folder.join("crowd.wasm");
    std::fs::write(&tool, crowd("search_crowd", 200, |_| {})).unwrap();
    let tool = tool.display().to_string();
    for (n, state, reason) in [
        (7, "loaded", Value::Null),
        (124, "loaded", Value::Null),
        (125, "deferred", json!("deferred_until_discovered")),
    ] {
        let found = search(&[&format!("word{n}x"), &tool]);
        let first = &found["matches"][0];
        assert_eq!(first["name"], format!("search_crowd.t{n}"));
        assert_eq!(
            (first["loading_state"].as_str(), &first["reason"]),
            (Some(state), &reason)
        );
        assert_eq!(
            (
                &found["total_deferred_tools"],
                found["matches"].as_array().unwrap().len()
            ),
            (&json!(75), 1)
        );
    }
}

#[test]
fn a_description_acts_on_no_terminal() {
    let (_guard, folder) = scratch();
    let tool = folder.join("evil.wasm");
    let evil = echoing("search_evil", |toolkit| {
        toolkit["declarations"][0]["description"] =
            json!("zebra \u{1b}[2J\u{202e}\nforged.tool\n  toolcell describe x");
    });
    std::fs::write(&tool, evil).unwrap();
    let ran = Toolcell::new(["search", "zebra", &tool.display().to_string()])
        .run()
        .exits(0);
    assert!(
        !ran.stdout.contains(['\u{1b}', '\u{202e}']) && ran.stdout.lines().count() == 3,
        "{:?}",
        ran.stdout
    );
}
