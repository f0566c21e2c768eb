//! The sandbox of a call contains only the part of the grants that its arguments name.
//!
//! Promise: A call gets what its arguments name.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{Called, Test, scratch};

/// `a/b.txt`, `a/inner/c.txt`, `other/d.txt` and `top.txt`.
struct Tree {
    _guard: tempfile::TempDir,
    root: PathBuf,
}

impl Tree {
    fn new() -> Self {
        let (guard, root) = scratch();
        for file in ["a/b.txt", "a/inner/c.txt", "other/d.txt", "top.txt"] {
            fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            fs::write(root.join(file), file).unwrap();
        }
        Self {
            _guard: guard,
            root,
        }
    }

    fn at(&self, path: &str) -> String {
        format!("{}/{path}", self.root.display())
    }

    async fn read(&self, path: &str, other: &str) -> Called {
        let test = Test::new("probe#read_named").read(&self.root);
        test.call(json!({ "path": path, "other": other })).await
    }
}

fn text<'a>(touched: &'a Value, what: &str) -> Option<&'a str> {
    touched[what]["ok"].as_str()
}

#[tokio::test]
async fn a_file_brings_its_own_folder_and_nothing_else_of_the_grant() {
    let tree = Tree::new();
    let touched = tree
        .read(&tree.at("a/b.txt"), &tree.at("other/d.txt"))
        .await
        .succeeded();
    assert_eq!(touched["preopens"], json!([tree.at("a")]));
    assert_eq!(text(&touched, "read"), Some("a/b.txt"));
    assert_eq!(touched["listed"]["ok"], json!(["b.txt", "inner"]));
    assert_eq!(
        text(&touched, "other"),
        None,
        "it was granted, and not named"
    );
    for above in ["top.txt", "a/../top.txt", "a/../other/d.txt"] {
        let touched = tree
            .read(&tree.at("a/b.txt"), &tree.at(above))
            .await
            .succeeded();
        assert_eq!(text(&touched, "other"), None, "{above}");
    }
    // The same call of a tool that does not declare its path argument sees the whole grant.
    let input = json!({ "path": tree.at("a/b.txt"), "other": tree.at("other/d.txt") });
    let wide = Test::new("probe#touch_reads")
        .read(&tree.root)
        .call(input)
        .await
        .succeeded();
    assert_eq!(text(&wide, "other"), Some("other/d.txt"));
}

#[tokio::test]
async fn a_folder_brings_itself() {
    let tree = Tree::new();
    for name in ["a", "a/", "a/inner/..", "./a", "other/../a"] {
        let touched = tree
            .read(&tree.at(name), &tree.at("a/inner/c.txt"))
            .await
            .succeeded();
        assert_eq!(
            touched["listed"]["ok"],
            json!(["b.txt", "inner"]),
            "{name}: {touched}"
        );
        assert_eq!(text(&touched, "other"), Some("a/inner/c.txt"), "{name}");
        assert!(
            !touched["preopens"]
                .as_array()
                .unwrap()
                .contains(&json!(tree.root)),
            "{name}: {touched}"
        );
    }
}

#[tokio::test]
async fn names_keep_the_meaning_that_they_had_in_the_wide_grant() {
    let tree = Tree::new();
    symlink("a", tree.root.join("link")).unwrap();
    symlink("b.txt", tree.root.join("a/same.txt")).unwrap();
    for (path, content) in [
        ("link/b.txt", "a/b.txt"),
        ("a/same.txt", "a/b.txt"),
        ("a/./b.txt", "a/b.txt"),
    ] {
        let touched = tree
            .read(&tree.at(path), &tree.at("other/d.txt"))
            .await
            .succeeded();
        assert_eq!(
            (text(&touched, "read"), text(&touched, "other")),
            (Some(content), None),
            "{path}: {touched}"
        );
    }
    // A mapped folder keeps its guest path; a relative path starts at the caller's working directory.
    let spec = format!("{}=/w", tree.root.display());
    let mapped =
        Test::new("probe#read_named").grant(move |grants| grants.allow_read(&spec).unwrap());
    let touched = mapped
        .call(json!({ "path": "/w/a/b.txt", "other": "/w/top.txt" }))
        .await
        .succeeded();
    assert_eq!(
        (text(&touched, "read"), text(&touched, "other")),
        (Some("a/b.txt"), None)
    );
    assert_eq!(touched["preopens"], json!(["/w/a"]));
}

#[tokio::test]
async fn what_leads_out_of_the_grant_is_refused_before_the_tool_runs() {
    let tree = Tree::new();
    let (_guard, outside) = scratch();
    fs::write(outside.join("canary"), "secret").unwrap();
    symlink(&outside, tree.root.join("out")).unwrap();
    symlink(outside.join("canary"), tree.root.join("a/canary")).unwrap();
    let evil = PathBuf::from(format!("{}-evil", tree.root.display()));
    fs::create_dir(&evil).unwrap();
    fs::write(evil.join("canary"), "secret").unwrap();
    for path in [
        tree.at("out/canary"),
        tree.at("out"),
        tree.at("a/canary"),
        format!("{}/canary", evil.display()),
        tree.at("../../etc/passwd"),
        format!("{}/canary", outside.display()),
        "/etc/passwd".to_owned(),
    ] {
        let called = tree.read(&path, "").await;
        called
            .failed("permission_denied", "path_not_granted")
            .ended("denied", "denied")
            .never_ran();
        assert!(
            !called.record().to_string().contains("\"secret\""),
            "{path}"
        );
    }
    // The refusals are the same, so that the guest cannot learn which files exist outside.
    symlink("/", tree.root.join("a/root")).unwrap();
    let mut refusals = [
        "etc/passwd",
        "none",
        "none/../x",
        "etc/../none",
        "etc/passwd/x",
    ]
    .map(|path| tree.at(&format!("a/root/{path}")));
    for path in &mut refusals {
        let called = tree.read(path, "").await;
        called
            .failed("permission_denied", "path_not_granted")
            .never_ran();
        *path = called.message().replace(path.as_str(), "");
    }
    assert!(
        refusals.iter().all(|message| *message == refusals[0]),
        "{refusals:?}"
    );
    let decision =
        serde_json::to_value(&tree.read(&tree.at("a/canary"), "").await.0.decisions[0]).unwrap();
    assert_eq!(
        decision["blocked_path"],
        json!(outside.join("canary")),
        "where it really leads"
    );
    fs::remove_dir_all(evil).unwrap();
}

#[tokio::test]
async fn a_link_to_a_file_of_another_folder_widens_nothing() {
    let tree = Tree::new();
    symlink("../other/d.txt", tree.root.join("a/elsewhere")).unwrap();
    let called = tree.read(&tree.at("a/elsewhere"), "").await;
    called
        .failed("permission_denied", "path_leads_elsewhere")
        .never_ran();
}

#[tokio::test]
async fn what_is_not_there_brings_no_more_than_what_is() {
    let tree = Tree::new();
    let touched = tree
        .read(&tree.at("a/none"), &tree.at("top.txt"))
        .await
        .succeeded();
    assert_eq!(
        (text(&touched, "read"), text(&touched, "other")),
        (None, None)
    );
    assert_eq!(touched["preopens"], json!([tree.at("a")]));
    let touched = tree
        .read(&tree.at("none/none"), &tree.at("top.txt"))
        .await
        .succeeded();
    assert_eq!(
        (&touched["preopens"], text(&touched, "other")),
        (&json!([]), None)
    );
}

#[tokio::test]
async fn a_writer_gets_the_folder_of_its_file_to_write_and_a_new_one_the_nearest_there_is() {
    let tree = Tree::new();
    let write = |path: String, other: String| {
        let test = Test::new("probe#write_named").write(&tree.root);
        test.call(json!({ "path": path, "other": other }))
    };
    let touched = write(tree.at("a/b.txt"), tree.at("other/d.txt"))
        .await
        .succeeded();
    assert!(
        touched["wrote"].get("ok").is_some() && text(&touched, "other").is_none(),
        "{touched}"
    );
    assert!(tree.root.join("a/b.txt.new").exists());
    let touched = write(tree.at("a/inner/new/deep/file"), tree.at("a/b.txt"))
        .await
        .succeeded();
    assert_eq!(touched["preopens"], json!([tree.at("a/inner")]));
    assert_eq!(text(&touched, "other"), None);
    // Reading is granted for one folder, writing for another; the rights stay as they are.
    let read_only = Test::new("probe#write_named")
        .read(&tree.root)
        .write(&tree.root.join("other"));
    let touched = read_only
        .call(json!({ "path": tree.at("a/b.txt") }))
        .await
        .succeeded();
    assert!(
        touched["read"].get("ok").is_some() && touched["wrote"].get("error").is_some(),
        "{touched}"
    );
    let both = Test::new("probe#write_named")
        .read(&tree.root)
        .write(&tree.root.join("other"));
    let touched = both
        .call(json!({ "path": tree.at("other/d.txt") }))
        .await
        .succeeded();
    assert!(touched["wrote"].get("ok").is_some(), "{touched}");
}

#[tokio::test]
async fn denials_hold_in_a_narrowed_world() {
    let tree = Tree::new();
    let closed = tree.at("a/inner");
    let test = || {
        Test::new("probe#read_named")
            .read(&tree.root)
            .grant(|grants| grants.deny_read(&closed).unwrap())
    };
    let touched = test()
        .call(json!({ "path": tree.at("a/b.txt"), "other": tree.at("a/inner/c.txt") }))
        .await
        .succeeded();
    assert_eq!(
        (text(&touched, "read"), text(&touched, "other")),
        (Some("a/b.txt"), None)
    );
    let called = test()
        .call(json!({ "path": tree.at("a/inner/c.txt") }))
        .await;
    called
        .failed("permission_denied", "denied_by_rule")
        .never_ran();
    symlink("inner", tree.root.join("a/link")).unwrap();
    let called = test()
        .call(json!({ "path": tree.at("a/link/c.txt") }))
        .await;
    called
        .failed("permission_denied", "denied_by_rule")
        .never_ran();
}

#[tokio::test]
async fn an_absent_argument_means_the_default_of_its_schema() {
    let tree = Tree::new();
    fs::create_dir(tree.root.join("sub")).unwrap();
    fs::write(tree.root.join("sub/e.txt"), "e").unwrap();
    let cwd = tree.root.clone();
    let test = Test::new("probe#read_default")
        .read(&tree.root)
        .grant(move |grants| grants.cwd = Some(cwd));
    let touched = test.call(json!({})).await.succeeded();
    let preopens: Vec<&str> = touched["preopens"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p.as_str().unwrap())
        .collect();
    assert!(preopens.contains(&tree.at("sub").as_str()), "{preopens:?}");
    // The working directory can be opened, and is empty.
    assert!(
        preopens.contains(&tree.root.to_str().unwrap()),
        "{preopens:?}"
    );
    assert!(!preopens.contains(&tree.at("a").as_str()), "{preopens:?}");
    assert_eq!(
        touched["listed"]
            .get("ok")
            .map_or(0, |names| names.as_array().unwrap().len()),
        0,
        "{touched}"
    );
}

#[tokio::test]
async fn a_folder_that_becomes_a_link_after_it_was_looked_at_is_not_followed() {
    let (_guard, outside) = scratch();
    fs::write(outside.join("b.txt"), "secret").unwrap();
    let tree = Tree::new();
    let test = Test::new("probe#touch_reads").read(&tree.root.join("a"));
    swap_for_link(&tree.root.join("a"), &outside);
    let called = test.call(json!({ "path": tree.at("a/b.txt") })).await;
    called.failed("setup_required", "world_not_available");
    assert!(!called.record().to_string().contains("secret"));
}

fn swap_for_link(folder: &Path, target: &Path) {
    fs::rename(folder, folder.with_extension("moved")).unwrap();
    symlink(target, folder).unwrap();
}
