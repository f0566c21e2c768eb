//! The example tools, called as a user calls them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolcell_spec::digest;

use crate::support::{Server, Toolcell, scratch};

use super::example;
use super::readme::commands_of;

/// Every file below `folder` with the digest of its bytes.
fn digests(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(digests(&path));
            found.insert(path, "a folder".to_owned());
        } else {
            let digest = digest(&std::fs::read(&path).unwrap());
            found.insert(path, digest);
        }
    }
    found
}

#[test]
fn jq_filters() {
    let input = json!({"filter": "map(.n) | add", "input": [{"n": 1}, {"n": 2}]}).to_string();
    let ran = Toolcell::new(["call", &example("jq"), &input])
        .run()
        .exits(0);
    assert_eq!(ran.stdout, "3\n");
    let ran = Toolcell::new(["call", &example("jq"), "{\"filter\": \".[\"}"])
        .run()
        .exits(2);
    assert!(ran.stderr.contains("[invalid_arguments/"), "{}", ran.stderr);
}

#[test]
fn jq_cannot_reach_the_environment() {
    let ran = Toolcell::new([
        "call",
        &example("jq"),
        "{\"filter\": \"env | length\"}",
        "--json",
    ])
    .env("SECRET", "x")
    .run();
    assert!(!ran.stdout.contains("\"SECRET\""), "{}", ran.stdout);
}

#[test]
fn ticker_reports_progress_and_a_partial_result() {
    let input = "{\"ticks\": 4, \"interval_ms\": 5, \"partial\": true}";
    let record = Toolcell::new(["call", &example("ticker"), input, "--print-record"])
        .run()
        .exits(0)
        .json();
    let percents: Vec<&Value> = record["progress"]
        .as_array()
        .unwrap()
        .iter()
        .map(|update| &update["percent"])
        .collect();
    assert_eq!(
        percents,
        [
            &json!(25.0),
            &json!(50.0),
            &Value::Null,
            &json!(75.0),
            &json!(100.0),
            &Value::Null
        ]
    );
    assert_eq!(record["progress"][5]["status"], "completed");
    assert_eq!(
        record["progress"][2]["partial_content"],
        json!([{"type": "text", "text": "2 ticks so far"}])
    );
    assert_eq!(
        record["result"]["structured_content"],
        json!({"of": 4, "ticks": 4})
    );
}

#[test]
fn everything_answers_in_every_way() {
    let call = |tool: &str, input: &str| {
        let tool = format!("{}#{tool}", example("everything"));
        Toolcell::new(["call", &tool, input, "--print-record"]).run()
    };
    let mixed = call("test_multiple_content_types", "{}").exits(0).json();
    let types: Vec<&Value> = mixed["result"]["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| &block["type"])
        .collect();
    assert_eq!(types, ["text", "image", "embedded_resource"]);
    let progress = call("test_tool_with_progress", "{}").exits(0).json();
    let percents: Vec<&Value> = progress["progress"]
        .as_array()
        .unwrap()
        .iter()
        .map(|update| &update["percent"])
        .collect();
    assert_eq!(
        percents,
        [&json!(0.0), &json!(50.0), &json!(100.0), &Value::Null]
    );
    let failed = call("test_error_handling", "{}");
    assert!(failed.stdout.contains("intentional"), "{failed:?}");
    // `if`, `then` and `anyOf` of the schema are checked before the tool runs.
    call(
        "json_schema_2020_12_tool",
        "{\"contactMethod\": \"phone\", \"email\": \"a@b.example\"}",
    )
    .exits(2);
    call(
        "json_schema_2020_12_tool",
        "{\"contactMethod\": \"phone\", \"phone\": \"1\"}",
    )
    .exits(0);
}

#[test]
fn files_lists_reads_and_searches() {
    let (_guard, folder) = scratch();
    std::fs::write(folder.join("a.txt"), "one\ntwo three\n").unwrap();
    let call = |tool: &str, input: Value| {
        let tool = format!("{}#{tool}", example("files"));
        let ran = Toolcell::new([
            "call",
            &tool,
            &input.to_string(),
            "--allow-read=.",
            "--json",
        ])
        .dir(&folder)
        .run();
        ran.exits(0).json()["structured_content"].clone()
    };
    assert_eq!(
        call("list", json!({}))["entries"].as_array().unwrap().len(),
        1
    );
    assert_eq!(
        call("read", json!({"path": "a.txt", "offset": 2}))["count"],
        1
    );
    assert_eq!(
        call("search", json!({"pattern": "t.o"}))["matches"][0]["line"],
        2
    );
}

const DIFF: &str = "--- a/hello.txt\n+++ b/hello.txt\n@@ -1,2 +1,2 @@\n hello\n-world\n+toolcell\n\
                    --- /dev/null\n+++ b/new/file.txt\n@@ -0,0 +1 @@\n+new\n";

fn patch(folder: &Path, diff: &str, grant: &str) -> crate::support::Ran {
    let input = json!({ "diff": diff }).to_string();
    Toolcell::new(["call", &example("patch"), &input, grant, "--json"])
        .dir(folder)
        .run()
}

#[test]
fn patch_needs_the_right_to_write_and_changes_no_byte_without_it() {
    let (_guard, folder) = scratch();
    std::fs::write(folder.join("hello.txt"), "hello\nworld\n").unwrap();
    let before = digests(&folder);
    let ran = patch(&folder, DIFF, "--allow-read=.").exits(3);
    assert_eq!(ran.json()["error"]["error_class"], "permission_denied");
    assert_eq!(digests(&folder), before);
    // A write that is denied leaves the file unchanged, too.
    let input = json!({ "diff": DIFF }).to_string();
    let ran = Toolcell::new([
        "call",
        &example("patch"),
        &input,
        "--allow-write=.",
        "--deny-write=hello.txt",
    ])
    .dir(&folder)
    .run();
    assert_ne!(ran.code, Some(0), "{}", ran.stdout);
    assert_eq!(digests(&folder), before, "all of it or nothing");
}

#[test]
fn patch_changes_what_the_diff_says_and_nothing_when_a_hunk_does_not_fit() {
    let (_guard, folder) = scratch();
    std::fs::write(folder.join("hello.txt"), "hello\nworld\n").unwrap();
    let before = digests(&folder);
    let ran = patch(&folder, &DIFF.replace("-world", "-moon"), "--allow-write=.");
    assert!(ran.json()["error"]["error_code"].is_string());
    assert_eq!(digests(&folder), before);

    let result = patch(&folder, DIFF, "--allow-write=.").exits(0).json();
    assert_eq!(
        std::fs::read_to_string(folder.join("hello.txt")).unwrap(),
        "hello\ntoolcell\n"
    );
    assert_eq!(
        std::fs::read_to_string(folder.join("new/file.txt")).unwrap(),
        "new\n"
    );
    assert_eq!(digests(&folder).len(), 3, "no file is left beside them");
    assert_eq!(result["structured_content"]["added"], 2);
}

#[test]
fn patch_takes_hunks_without_numbers_or_with_wrong_ones_where_one_place_fits() {
    let (_guard, folder) = scratch();
    let file = folder.join("hello.txt");
    let lines = "hello\nworld\nagain\nhello\nmoon\n";
    let changed = lines.replace("world", "toolcell");
    let diff = |header: &str| {
        format!("--- a/hello.txt\n+++ b/hello.txt\n{header}\n hello\n-world\n+toolcell\n")
    };
    for (header, moved) in [("@@", 0), ("@@ ... @@", 0), ("@@ -900,7 +12 @@", 1)] {
        std::fs::write(&file, lines).unwrap();
        let result = patch(&folder, &diff(header), "--allow-write=.")
            .exits(0)
            .json();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), changed, "{header}");
        let summary = &result["structured_content"]["files"][0];
        assert_eq!(
            summary["moved"].as_u64().unwrap_or_default(),
            moved,
            "{header}"
        );
    }
    // `hello` alone is in two places.
    let twice = "--- a/hello.txt\n+++ b/hello.txt\n@@\n-hello\n+good day\n";
    let refused = patch(&folder, twice, "--allow-write=.").exits(2).json();
    let error = &refused["error"];
    assert_eq!(error["error_code"], "hunk_ambiguous");
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("at lines 1, 4;"),
        "{error}"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), changed);
    // The stated line decides between the two.
    let second = twice.replace("@@", "@@ -5 +5 @@");
    patch(&folder, &second, "--allow-write=.").exits(0);
    assert!(
        std::fs::read_to_string(&file)
            .unwrap()
            .ends_with("good day\nmoon\n")
    );
}

#[test]
fn the_readme_of_patch_shows_what_it_does() {
    let printed = commands_of("example-tools/patch");
    assert!(printed.last().unwrap().contains("+good day"), "{printed:?}");
}

#[test]
#[ignore = "builds five large tools: cargo test -- --ignored"]
fn the_readmes_of_tools_for_files_show_what_they_do() {
    for (tool, end) in [
        ("archive", "2004"),
        ("image", "small.jpg"),
        ("git", "toolcell"),
        ("chart", "pie chart of 2 rows"),
        ("pdf", "page 2 of 3"),
    ] {
        let printed = commands_of(&format!("example-tools/{tool}"));
        assert!(printed.last().unwrap().contains(end), "{printed:?}");
    }
}

#[test]
fn http_sends_what_it_is_given_and_no_secret_that_is_not_for_the_origin() {
    let (_guard, home) = scratch();
    let server = Server::saying(
        "HTTP/1.1 201 Created\r\nx-a: b\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok",
    );
    let http = |tool: &str, input: Value, options: &[&str]| {
        let tool = format!("{}#{tool}", example("http"));
        let net = format!("--allow-net={}", server.url(""));
        let input = input.to_string();
        let words = [&["call", &tool, &input, "--json", &net], options].concat();
        Toolcell::at(&home, words).dir(&home).run()
    };
    let sent = json!({ "url": server.url("/a"), "method": "PUT", "json": { "a": 1 }, "timeout_ms": 9_000 });
    let done = http("send", sent, &[]).exits(0).json();
    let answer = &done["structured_content"];
    assert_eq!(
        (&answer["status"], &answer["text"]),
        (&json!(201), &json!("ok")),
        "{done:#}"
    );
    let heads = server.heads();
    assert!(
        heads[0].starts_with("PUT /a ") && heads[0].contains("application/json"),
        "{heads:?}"
    );
    // Reading alone changes nothing elsewhere, and a caller cannot make it.
    let changing = json!({ "url": server.url("/a"), "method": "DELETE" });
    http("get", changing, &[]).exits(2);

    let put = Toolcell::at(&home, ["secrets", "set", "HTTP_TOKEN"]).stdin("token-9f2c41");
    put.run().exits(0);
    let read =
        |tool: &str, options: &[&str]| http(tool, json!({ "url": server.url("/b") }), options);
    let secret = format!("--allow-secret=HTTP_TOKEN@{}", server.url(""));
    let secret = secret.trim_end_matches('/');
    let done = read("get_authorized", &[secret]).exits(0);
    assert!(!done.stdout.contains("token-9f2c41") && !done.stderr.contains("token-9f2c41"));
    read("get_authorized", &[]).exits(3);
    read("get", &[]).exits(0);
    let with_token: Vec<bool> = server.heads()[1..]
        .iter()
        .map(|head| {
            head.to_lowercase()
                .contains("authorization: bearer token-9f2c41")
        })
        .collect();
    assert_eq!(with_token, [true, false]);

    let save = json!({ "url": server.url("/c"), "save_to": "page.txt" });
    http("download", save.clone(), &[]).exits(3);
    let saved = http("download", save, &["--workspace=w"]).exits(0).json();
    assert_eq!(
        saved["workspace"]["files"][0]["path"], "page.txt",
        "{saved:#}"
    );
}

#[test]
fn an_archive_with_a_link_is_extracted_nowhere() {
    let (_guard, home) = scratch();
    std::os::unix::fs::symlink("/etc/passwd", home.join("link")).unwrap();
    std::fs::write(home.join("plain"), "text").unwrap();
    let packed = std::process::Command::new("tar")
        .current_dir(&home)
        .args(["-cf", "all.tar", "plain", "link"])
        .status();
    assert!(packed.unwrap().success());
    let tar = home.join("all.tar");
    let run = |words: &[&str]| Toolcell::at(&home, words).run();
    run(&["workspace", "put", "w", tar.to_str().unwrap()]).exits(0);
    let archive = format!("{}#extract", example("archive"));
    let words = [
        "call",
        &archive,
        "path=all.tar",
        "to=out",
        "--workspace=w",
        "--json",
    ];
    let refused = run(&words).json();
    assert_eq!(refused["error"]["error_code"], "refused_entry");
    assert_eq!(refused["workspace"]["files"], json!([]), "{refused:#}");
    let shown = run(&["workspace", "show", "w", "--json"]).json();
    assert_eq!(shown["files"].as_array().unwrap().len(), 1, "{shown:#}");
}
