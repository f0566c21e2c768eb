//! Artifacts at the command line: what is printed of them, the files of `--artifacts`, and what a killed call leaves.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::guest;
use super::interrupts::wait_until;
use crate::support::{Toolcell, kept, scratch, share_compiled};

fn call(home: &Path, files: &Value, options: &[&str]) -> Toolcell {
    let tool = guest("probe#artifacts");
    let input = json!({ "files": files }).to_string();
    Toolcell::at(
        home,
        ["call", tool.as_str(), input.as_str()]
            .iter()
            .chain(options),
    )
}

#[test]
fn a_person_reads_one_line_for_each_artifact_and_how_to_get_it() {
    let files = json!([{ "name": "a\u{1b}[2J.csv", "media_type": "text/csv", "text": "1,2\n" }, { "text": "other" }]);
    let ran = call(&kept("home"), &files, &[]).run().exits(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let structured = lines[2..].concat();
    assert_eq!(
        structured.replace(' ', ""),
        "{\"errors\":[]}",
        "{}",
        ran.stdout
    );
    let start = "[artifact a[2J.csv: 4 bytes, text/csv; toolcell artifact toolcell:payload/sha256:";
    assert!(
        lines[0].starts_with(start) && lines[0].ends_with(']'),
        "{}",
        lines[0]
    );
    assert!(
        lines[1].starts_with("[artifact file: 5 bytes, text/plain; "),
        "{}",
        lines[1]
    );
}

#[test]
fn artifacts_become_new_files_of_a_folder_whatever_they_are_called() {
    let (_guard, folder) = scratch();
    let out = folder.join("deep/out");
    let outside = folder.join("outside");
    fs::create_dir_all(&out).unwrap();
    fs::write(out.join("a.txt"), "mine").unwrap();
    std::os::unix::fs::symlink(&outside, out.join("b.txt")).unwrap();
    let files = json!([
        { "name": "a.txt", "text": "first" },
        { "name": "a.txt", "text": "second" },
        { "name": "b.txt", "text": "third" },
        { "name": "x/../../.profile", "text": "fourth" },
        { "name": "x/y/a.txt", "text": "fifth" },
    ]);
    let option = format!("--artifacts={}", out.display());
    let ran = call(&kept("home"), &files, &[&option, "--json"])
        .run()
        .exits(0);
    assert_eq!(ran.json()["artifact_refs"].as_array().unwrap().len(), 5);
    let text = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    assert_eq!(
        [
            "a.txt",
            "2-a.txt",
            "3-a.txt",
            "2-b.txt",
            "x/profile",
            "x/y/a.txt"
        ]
        .map(text),
        ["mine", "first", "second", "third", "fourth", "fifth"]
    );
    assert!(!outside.exists());
    let saved = format!(
        "artifact x/.profile: saved as {}",
        out.join("x/profile").display()
    );
    assert!(
        ran.stderr.lines().any(|line| line == saved),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_folder_that_the_tool_swaps_for_a_link_while_it_runs_is_not_followed() {
    let (_guard, root) = scratch();
    fs::create_dir_all(root.join("work")).unwrap();
    fs::create_dir(root.join("private")).unwrap();
    let path = |name: &str| root.join(name).display().to_string();
    let input = json!({
        "files": [{ "name": "a.txt", "text": "content" }],
        "from": path("work/out"), "to": path("work/aside"), "link": "../private",
    });
    let tool = guest("probe#artifacts_swapping");
    let input = input.to_string();
    let options = [
        format!("--artifacts={}", path("work/out")),
        format!("--allow-write={}", path("work")),
    ];
    let arguments = [
        "call",
        &tool,
        &input,
        "--no-config",
        "--json",
        &options[0],
        &options[1],
    ];
    let ran = Toolcell::at(&kept("home"), arguments).run().exits(0);
    assert_eq!(ran.json()["artifact_refs"].as_array().unwrap().len(), 1);
    assert_eq!(
        fs::read_link(root.join("work/out")).unwrap(),
        Path::new("../private")
    );
    assert_eq!(
        fs::read_dir(root.join("private")).unwrap().count(),
        0,
        "a file was saved through the link"
    );
    assert_eq!(
        fs::read_to_string(root.join("work/aside/a.txt")).unwrap(),
        "content"
    );
}

#[test]
fn a_folder_that_cannot_be_created_is_a_bad_request_before_the_call() {
    let (_guard, folder) = scratch();
    fs::write(folder.join("file"), "in the way").unwrap();
    let option = format!("--artifacts={}", folder.join("file/out").display());
    let ran = call(&kept("home"), &json!([{ "text": "x" }]), &[&option])
        .run()
        .exits(2);
    assert!(
        ran.stderr.contains("cannot create the folder") && ran.stdout.is_empty(),
        "{}",
        ran.stderr
    );
}

#[test]
fn the_limit_of_a_file_and_of_the_command_line_apply() {
    let (_guard, home) = scratch();
    share_compiled(&home);
    fs::write(
        home.join("toolcell.toml"),
        "[limits]\nmax_artifact_bytes = \"1KiB\"\n",
    )
    .unwrap();
    let files = json!([{ "bytes": 2_000 }]);
    let limited = call(&home, &files, &["--json"]).run().exits(0).json();
    let told = limited["structured_content"]["errors"][0].as_str().unwrap();
    assert!(
        told.contains("1024 are allowed; --max-artifact-bytes raises it"),
        "{told}"
    );
    let raised = call(&home, &files, &["--max-artifact-bytes=4KiB", "--json"])
        .run()
        .exits(0)
        .json();
    assert_eq!(raised["artifact_refs"][0]["size_bytes"], json!(2_000));
    assert_eq!(
        raised["usage"]["artifacts"]["bytes"],
        json!({ "used": 2_000, "limit": 4_096 })
    );
}

#[test]
fn what_a_killed_call_left_is_removed_by_the_next_start() {
    let (_guard, home) = scratch();
    share_compiled(&home);
    let drafts = home.join("payloads/drafts");
    let left = || fs::read_dir(&drafts).map_or(0, Iterator::count);
    let tool = guest("probe#artifacts");
    let input = json!({ "files": [{ "text": "x" }, { "bytes": 300_000, "finish": "keep_open" }], "then": "sleep" });
    let mut child = Toolcell::at(&home, ["call", tool.as_str(), &input.to_string()]).spawn();
    wait_until("the first artifact", || left() > 0);
    // Another process starts, and leaves alone what is in use.
    Toolcell::at(&home, ["call", guest("probe#empty").as_str()])
        .run()
        .exits(0);
    assert_eq!(left(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(left(), 1, "a killed process cannot clean up");
    Toolcell::at(&home, ["call", guest("probe#empty").as_str()])
        .run()
        .exits(0);
    assert_eq!(left(), 0);
    assert_eq!(
        fs::read_dir(home.join("payloads")).unwrap().count(),
        1,
        "only the folder of drafts"
    );
}
