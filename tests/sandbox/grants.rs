//! Granted folders: a tool gets the intersection of its declaration and the grants.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use toolcell_policy::Grants;

use super::{snapshot, text};
use crate::support::{Test, scratch};

async fn answered(test: Test, input: Value) -> Value {
    test.call(input).await.succeeded()
}

fn folder_with_a_file(dir: &Path) -> std::path::PathBuf {
    fs::create_dir_all(dir).unwrap();
    let file = dir.join("file.txt");
    fs::write(&file, "what is in it").unwrap();
    file
}

#[tokio::test]
async fn a_tool_that_reads_is_not_started_without_a_grant() {
    let (_dir, dir) = scratch();
    let file = folder_with_a_file(&dir);
    let called = Test::new("probe#read")
        .call(json!({ "path": text(&file) }))
        .await;
    called
        .failed("permission_denied", "not_granted")
        .never_ran();
    assert!(
        called.message().contains("--allow-read"),
        "{}",
        called.message()
    );
}

#[tokio::test]
async fn a_tool_that_writes_is_not_started_with_a_grant_to_read() {
    let (_dir, dir) = scratch();
    let file = folder_with_a_file(&dir);
    let called = Test::new("probe#write")
        .read(&dir)
        .call(json!({ "path": text(&file), "text": "new" }))
        .await;
    called
        .failed("permission_denied", "not_granted")
        .never_ran();
    assert!(
        called.message().contains("--allow-write"),
        "{}",
        called.message()
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "what is in it");
}

#[tokio::test]
async fn a_tool_that_declares_to_read_cannot_write_where_writing_was_granted() {
    let (_dir, dir) = scratch();
    let file = folder_with_a_file(&dir);
    let before = snapshot(&dir);
    let modified = file.metadata().unwrap().modified().unwrap();
    let tried = answered(
        Test::new("probe#write_readonly").write(&dir),
        json!({ "path": text(&file) }),
    )
    .await;
    assert_eq!(tried["attempts"].as_array().unwrap().len(), 13);
    assert_eq!(tried["succeeded"], json!([]), "{tried:#}");
    assert_eq!(snapshot(&dir), before);
    assert_eq!(file.metadata().unwrap().modified().unwrap(), modified);

    // The same component and the same grant, with a tool that declares writing.
    let wrote = answered(
        Test::new("probe#write").write(&dir),
        json!({ "path": text(&file), "text": "written" }),
    )
    .await;
    assert_eq!(wrote["ok"], true, "{wrote}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "written");
}

#[tokio::test]
async fn a_grant_to_read_is_enough_to_read_and_no_more() {
    let (_dir, dir) = scratch();
    let file = folder_with_a_file(&dir);
    let before = snapshot(&dir);
    let read = answered(
        Test::new("probe#read").read(&dir),
        json!({ "path": text(&file) }),
    )
    .await;
    assert_eq!(read["value"]["text"], "what is in it");
    let tried = answered(
        Test::new("probe#write_readonly").read(&dir),
        json!({ "path": text(&file) }),
    )
    .await;
    assert_eq!(tried["succeeded"], json!([]), "{tried:#}");
    assert_eq!(snapshot(&dir), before);
}

#[tokio::test]
async fn what_a_tool_touched_is_in_its_result_by_the_names_that_it_has() {
    let (_dir, dir) = scratch();
    let file = folder_with_a_file(&dir);
    std::os::unix::fs::symlink(&file, dir.join("link")).unwrap();
    let at = |name: &str| format!("{}/{name}", text(&dir));
    let cases = [
        (
            "read",
            json!({ "path": at("./link") }),
            vec![("read", at("link"))],
        ),
        ("read", json!({ "path": at("none") }), vec![]),
        (
            "list",
            json!({ "path": text(&dir) }),
            vec![("listed", text(&dir).to_owned())],
        ),
        (
            "write",
            json!({ "path": at("new"), "text": "x" }),
            vec![("written", at("new"))],
        ),
        (
            "mkdir",
            json!({ "path": at("sub") }),
            vec![("written", at("sub"))],
        ),
        (
            "rename",
            json!({ "from": at("new"), "to": at("sub/old") }),
            vec![("removed", at("new")), ("written", at("sub/old"))],
        ),
        (
            "remove",
            json!({ "path": at("sub/old") }),
            vec![("removed", at("sub/old"))],
        ),
    ];
    for (tool, input, expected) in cases {
        for denied in [false, true] {
            let test = Test::new(&format!("probe#{tool}")).write(&dir);
            // Files are opened in another way where some are closed.
            let deny = |grants: &mut Grants| grants.deny_read(&at("closed")).unwrap();
            let test = if denied { test.grant(deny) } else { test };
            // Only the first of both finds what it changes.
            if denied && tool == "rename" {
                fs::write(dir.join("new"), "x").unwrap();
            }
            let called = test.call(input.clone()).await;
            let touched = called.record()["result"]["usage"]["touched"].clone();
            let done = called.succeeded()["ok"] == true;
            let listed = expected
                .iter()
                .filter(|_| done)
                .map(|(how, what)| json!({ "how": how, "what": what }));
            let listed: Vec<Value> = listed.collect();
            if listed.is_empty() {
                assert_eq!(touched, Value::Null, "{tool}")
            } else {
                assert_eq!(
                    touched,
                    json!({ "listed": listed, "more": 0 }),
                    "{tool}, {denied}"
                )
            }
            assert!(done || denied || tool == "read", "{tool}");
        }
    }
}

#[tokio::test]
async fn of_many_files_the_first_are_listed_and_the_others_counted() {
    let (_dir, dir) = scratch();
    let test = Test::new("hostile#fill_disk")
        .write(&dir)
        .limit(|limits| limits.files_created = 100);
    let called = test
        .call(json!({ "path": text(&dir), "how": "files" }))
        .await;
    let touched = called
        .0
        .result
        .usage
        .as_ref()
        .unwrap()
        .touched
        .as_ref()
        .unwrap();
    assert_eq!((touched.listed.len(), touched.more), (64, 36));
    assert_eq!(touched.listed[63].what, format!("{}/file-63", text(&dir)));
}

#[tokio::test]
async fn a_classified_component_may_lie_about_its_input_and_gains_nothing() {
    let (_dir, dir) = scratch();
    let file = folder_with_a_file(&dir);
    let input =
        json!({ "path": text(&file), "text": "new", "read_only": "no", "destructive": "yes" });
    let answer = answered(Test::new("classified#reader").write(&dir), input).await;
    assert_eq!(answer["ok"], false, "{answer}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "what is in it");
}

#[tokio::test]
async fn a_mapped_folder_is_seen_under_its_new_name_only() {
    let (_dir, dir) = scratch();
    let file = folder_with_a_file(&dir);
    let mapped = || {
        let spec = format!("{}=/work", dir.display());
        Test::new("probe#read").grant(move |grants| grants.allow_read(&spec).unwrap())
    };
    let read = answered(mapped(), json!({ "path": "/work/file.txt" })).await;
    assert_eq!(read["value"]["text"], "what is in it");
    let by_host_name = answered(mapped(), json!({ "path": text(&file) })).await;
    assert_eq!(by_host_name["ok"], false, "{by_host_name}");
    assert!(!by_host_name.to_string().contains("what is in it"));
}

#[tokio::test]
async fn two_folders_keep_their_own_rights() {
    let (_dir, dir) = scratch();
    let source = folder_with_a_file(&dir.join("source"));
    let target = dir.join("target");
    fs::create_dir(&target).unwrap();
    fs::create_dir(dir.join("source/folder")).unwrap();
    let before = snapshot(&dir.join("source"));
    let both = |tool: &str| Test::new(tool).read(&dir.join("source")).write(&target);
    // A file that is moved or linked into the writable folder would become writable.
    for tool in ["probe#link", "probe#rename"] {
        let input = json!({ "from": text(&source), "to": text(&target.join("mine")) });
        assert_eq!(answered(both(tool), input).await["ok"], false, "{tool}");
        let folder =
            json!({ "from": text(&dir.join("source/folder")), "to": text(&target.join("mine")) });
        assert_eq!(
            answered(both(tool), folder).await["ok"],
            false,
            "{tool} of a folder"
        );
    }
    let over = json!({ "from": text(&target.join("x")), "to": text(&source) });
    fs::write(target.join("x"), "other").unwrap();
    assert_eq!(answered(both("probe#rename"), over).await["ok"], false);
    for tool in ["probe#write", "probe#append"] {
        let input = json!({ "path": text(&source), "text": "x" });
        assert_eq!(answered(both(tool), input).await["ok"], false, "{tool}");
    }
    assert_eq!(snapshot(&dir.join("source")), before);
    // A symbolic link from one folder to the other does not work.
    let link = json!({ "from": text(&source), "to": text(&target.join("link")) });
    answered(both("probe#symlink"), link).await;
    answered(
        both("probe#write"),
        json!({ "path": text(&target.join("link")), "text": "x" }),
    )
    .await;
    assert_eq!(snapshot(&dir.join("source")), before);
}

#[tokio::test]
async fn a_writable_folder_inside_a_readable_one_is_all_that_can_be_written() {
    let (_dir, dir) = scratch();
    let file = folder_with_a_file(&dir);
    fs::create_dir(dir.join("out")).unwrap();
    let test = || Test::new("probe#write").read(&dir).write(&dir.join("out"));
    let inside = answered(
        test(),
        json!({ "path": text(&dir.join("out/new")), "text": "x" }),
    )
    .await;
    assert_eq!(inside["ok"], true, "{inside}");
    for path in [file.clone(), dir.join("new"), dir.join("out/../file.txt")] {
        let outside = answered(test(), json!({ "path": text(&path), "text": "x" })).await;
        assert_eq!(outside["ok"], false, "{outside}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "what is in it");
    assert!(!dir.join("new").exists());
}

#[tokio::test]
async fn what_was_granted_and_is_gone_fails_the_call_and_not_the_host() {
    let (_dir, dir) = scratch();
    let file = folder_with_a_file(&dir.join("folder"));
    let test = Test::new("probe#read").read(&dir.join("folder"));
    fs::remove_dir_all(dir.join("folder")).unwrap();
    test.call(json!({ "path": text(&file) }))
        .await
        .failed("setup_required", "world_not_available")
        .ended("failed", "blocked")
        .never_ran();
}
