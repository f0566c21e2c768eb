//! Paths inside a granted folder that `--deny-read` and `--deny-write` close.
//!
//! Promise: Denials hold inside grants.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{snapshot, text};
use crate::support::{Called, Test, scratch};

const SECRET: &str = "secret-90a2-nobody-may-read-this";

/// A granted folder with an open part and a closed one: `sub/folder/secret.txt` and `sub/file.txt`.
struct Granted {
    _dir: TempDir,
    root: PathBuf,
    denied: PathBuf,
    write_only: bool,
}

impl Granted {
    fn new(denied: &str, write_only: bool) -> Self {
        let (guard, root) = scratch();
        fs::create_dir_all(root.join("sub/folder")).unwrap();
        fs::write(root.join("sub/folder/secret.txt"), SECRET).unwrap();
        fs::write(root.join("sub/file.txt"), SECRET).unwrap();
        fs::write(root.join("open.txt"), "open").unwrap();
        symlink("sub/folder", root.join("to-folder")).unwrap();
        symlink("sub/folder/secret.txt", root.join("to-secret")).unwrap();
        symlink("sub/file.txt", root.join("to-file")).unwrap();
        let denied = root.join(denied);
        Self {
            _dir: guard,
            root,
            denied,
            write_only,
        }
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.root.display())
    }

    async fn run(&self, tool: &str, input: Value) -> Called {
        let test = Test::new(tool).write(&self.root).grant(|grants| {
            let denied = text(&self.denied);
            if self.write_only {
                grants.deny_write(denied)
            } else {
                grants.deny_read(denied)
            }
            .unwrap();
        });
        test.call(input).await
    }

    /// Whether `tool` succeeded. Its record must not contain the secret.
    async fn works(&self, tool: &str, input: Value) -> bool {
        let called = self.run(tool, input).await;
        assert!(
            self.write_only || !called.record().to_string().contains(SECRET),
            "{tool} read the secret"
        );
        called.succeeded()["ok"].as_bool().unwrap()
    }

    async fn at(&self, tool: &str, name: &str) -> bool {
        let mut input = json!({ "path": self.path(name) });
        match tool {
            "probe#write" | "probe#append" => input["text"] = "changed".into(),
            "probe#truncate" => input["bytes"] = 0.into(),
            _ => {}
        }
        self.works(tool, input).await
    }

    async fn between(&self, tool: &str, from: &str, to: &str) -> bool {
        self.works(
            tool,
            json!({ "from": self.path(from), "to": self.path(to) }),
        )
        .await
    }

    /// Checks that no tool can change any of `names`, or give one of them another name.
    async fn is_unchangeable_at(&self, names: &[&str]) {
        let before = snapshot(&self.root);
        for name in names {
            for tool in ["write", "append", "truncate", "remove"] {
                assert!(
                    !self.at(&format!("probe#{tool}"), name).await,
                    "{tool} {name}"
                );
            }
            for tool in ["link", "rename"] {
                assert!(
                    !self.between(&format!("probe#{tool}"), name, "mine").await,
                    "{tool} {name}"
                );
                assert!(
                    !self
                        .between(&format!("probe#{tool}"), "open.txt", name)
                        .await,
                    "{tool} over {name}"
                );
            }
            let tried = self
                .run("probe#write_readonly", json!({ "path": self.path(name) }))
                .await
                .succeeded();
            assert_eq!(tried["succeeded"], json!([]), "{name}");
        }
        assert_eq!(snapshot(&self.root), before);
    }
}

#[tokio::test]
async fn what_is_denied_for_reading_cannot_be_read_by_any_name() {
    for (denied, names) in [
        (
            "sub/folder",
            vec![
                "sub/folder/secret.txt",
                "to-secret",
                "to-folder/secret.txt",
                "sub/../to-folder/secret.txt",
            ],
        ),
        (
            "sub/file.txt",
            vec!["sub/file.txt", "to-file", "sub/folder/../file.txt"],
        ),
    ] {
        let granted = Granted::new(denied, false);
        for name in names {
            for tool in ["probe#read", "probe#read_as_writer"] {
                assert!(!granted.at(tool, name).await, "{tool} {name}");
            }
        }
        assert!(!granted.at("probe#stat", denied).await);
        assert!(granted.at("probe#read", "open.txt").await);
        assert!(granted.at("probe#write", "new.txt").await);
    }
}

#[tokio::test]
async fn a_folder_that_is_denied_for_reading_can_neither_be_listed_nor_looked_at() {
    let granted = Granted::new("sub/folder", false);
    for name in [
        "sub/folder",
        "sub/folder/",
        "sub/folder/.",
        "to-folder",
        "to-folder/.",
    ] {
        assert!(!granted.at("probe#list", name).await, "list {name}");
    }
    for name in [
        "sub/folder",
        "sub/folder/secret.txt",
        "to-folder/",
        "to-folder/secret.txt",
    ] {
        assert!(!granted.at("probe#stat", name).await, "stat {name}");
    }
    // Its parent folders can be listed, and show its name.
    for (folder, names) in [("", 5), ("sub", 2)] {
        let listed = granted
            .run("probe#list", json!({ "path": granted.path(folder) }))
            .await
            .succeeded();
        assert_eq!(
            listed["value"].as_array().map(Vec::len),
            Some(names),
            "{listed}"
        );
    }
}

#[tokio::test]
async fn what_is_denied_for_reading_cannot_be_changed_either() {
    Granted::new("sub/folder", false)
        .is_unchangeable_at(&["sub/folder/secret.txt"])
        .await;
    Granted::new("sub/file.txt", false)
        .is_unchangeable_at(&["sub/file.txt"])
        .await;
}

#[tokio::test]
async fn what_is_denied_cannot_be_brought_to_another_place() {
    for write_only in [false, true] {
        for denied in ["sub/folder", "sub/file.txt", "sub/folder/secret.txt"] {
            let granted = Granted::new(denied, write_only);
            let before = snapshot(&granted.root);
            assert!(
                !granted.between("probe#rename", "sub", "moved").await,
                "{denied}: its parent was moved"
            );
            assert!(
                !granted.between("probe#rename", denied, "moved").await,
                "{denied} was moved"
            );
            assert!(
                !granted.between("probe#link", denied, "linked").await,
                "{denied} was linked"
            );
            assert_eq!(snapshot(&granted.root), before, "{denied}");
        }
    }
    let granted = Granted::new("sub/folder", false);
    assert!(
        !granted.between("probe#link", "to-secret", "linked").await,
        "linked through a link"
    );
}

#[tokio::test]
async fn a_link_that_the_guest_makes_is_no_way_around() {
    let granted = Granted::new("sub", false);
    granted.between("probe#symlink", "sub", "absolute").await;
    for (says, at) in [
        ("sub", "own"),
        ("./sub/folder", "own-folder"),
        ("own", "own-own"),
    ] {
        let made = granted
            .works(
                "probe#symlink",
                json!({ "from": says, "to": granted.path(at) }),
            )
            .await;
        assert!(made, "{at} was not made, so this test shows nothing");
    }
    for name in [
        "own/file.txt",
        "own-folder/secret.txt",
        "own-own/file.txt",
        "absolute/file.txt",
    ] {
        assert!(!granted.at("probe#read", name).await, "read {name}");
        assert!(!granted.at("probe#write", name).await, "write {name}");
    }
}

#[tokio::test]
async fn what_is_denied_for_writing_can_be_read_and_not_changed() {
    for (denied, names) in [
        ("sub/folder", vec!["sub/folder/secret.txt"]),
        ("sub/file.txt", vec!["sub/file.txt"]),
        ("sub", vec!["sub/file.txt", "sub/folder/secret.txt"]),
    ] {
        let granted = Granted::new(denied, true);
        for name in &names {
            let read = granted
                .run(
                    "probe#read_as_writer",
                    json!({ "path": granted.path(name) }),
                )
                .await
                .succeeded();
            assert_eq!(read["value"]["text"], SECRET, "{name}");
        }
        granted.is_unchangeable_at(&names).await;
        assert!(granted.at("probe#write", "open.txt").await);
    }
}

#[tokio::test]
async fn what_is_denied_for_writing_is_not_written_through_a_link() {
    let granted = Granted::new("sub", true);
    let before = snapshot(&granted.root);
    for name in [
        "to-secret",
        "to-file",
        "to-folder/secret.txt",
        "to-folder/new.txt",
    ] {
        assert!(!granted.at("probe#write", name).await, "write {name}");
        assert!(!granted.at("probe#truncate", name).await, "truncate {name}");
    }
    assert!(!granted.at("probe#mkdir", "to-folder/new").await);
    assert_eq!(snapshot(&granted.root), before);
}

#[tokio::test]
async fn nothing_new_appears_where_writing_is_denied() {
    let granted = Granted::new("sub/folder", true);
    // A link from before the call, to a file that does not exist yet.
    symlink("sub/folder/new.txt", granted.root.join("dangling")).unwrap();
    let before = snapshot(&granted.root);
    for name in ["sub/folder/new.txt", "to-folder/new.txt", "dangling"] {
        assert!(!granted.at("probe#write", name).await, "write {name}");
        assert!(!granted.at("probe#append", name).await, "append {name}");
    }
    assert!(!granted.at("probe#mkdir", "sub/folder/new").await);
    for tool in ["probe#symlink", "probe#link", "probe#rename"] {
        assert!(
            !granted.between(tool, "open.txt", "sub/folder/new").await,
            "{tool}"
        );
    }
    assert_eq!(snapshot(&granted.root), before);
}

#[tokio::test]
async fn a_denied_path_that_does_not_exist_cannot_be_made() {
    let granted = Granted::new("later/hooks", true);
    assert!(granted.at("probe#mkdir", "mine").await);
    assert!(granted.at("probe#mkdir", "mine/hooks").await);
    assert!(
        !granted.between("probe#rename", "mine", "later").await,
        "moved into place"
    );
    let linked = granted
        .works(
            "probe#symlink",
            json!({ "from": "mine", "to": granted.path("later") }),
        )
        .await;
    assert!(!linked, "linked into place");
    assert!(granted.at("probe#mkdir", "later").await);
    assert!(!granted.at("probe#mkdir", "later/hooks").await);
    assert!(!granted.at("probe#write", "later/hooks").await);
    assert!(!granted.root.join("later/hooks").exists());
}

#[tokio::test]
async fn what_is_missing_is_missing_also_where_something_is_denied() {
    let granted = Granted::new("sub/folder", false);
    for name in [
        "missing.txt",
        "missing/missing.txt",
        "open.txt/missing.txt",
        "sub/missing/missing.txt",
        "missing/../open.txt",
    ] {
        let seen = [
            granted
                .run("probe#read", json!({ "path": granted.path(name) }))
                .await
                .succeeded(),
            {
                let test = Test::new("probe#read").read(&granted.root);
                test.call(json!({ "path": granted.path(name) }))
                    .await
                    .succeeded()
            },
        ];
        assert_eq!(seen[0], seen[1], "{name}");
    }
}

#[tokio::test]
async fn a_denial_of_the_whole_folder_refuses_the_call() {
    let (_dir, dir) = scratch();
    fs::write(dir.join("file"), SECRET).unwrap();
    for denied in [dir.as_path(), dir.parent().unwrap()] {
        let called = Test::new("probe#read")
            .read(&dir)
            .grant(|grants| grants.deny_read(text(denied)).unwrap())
            .call(json!({ "path": text(&dir.join("file")) }))
            .await;
        called
            .failed("permission_denied", "denied_by_rule")
            .never_ran();
    }
    let called = Test::new("probe#write")
        .write(&dir)
        .grant(|grants| grants.deny_write(text(&dir)).unwrap())
        .call(json!({ "path": text(&dir.join("file")), "text": "x" }))
        .await;
    called
        .failed("permission_denied", "denied_by_rule")
        .never_ran();
    assert_eq!(fs::read_to_string(dir.join("file")).unwrap(), SECRET);
}

#[tokio::test]
async fn a_denial_holds_under_another_name_of_the_folder() {
    let granted = Granted::new("sub/folder", false);
    let mapped = format!("{}=/work", granted.root.display());
    let called = Test::new("probe#read")
        .grant(|grants| {
            grants.allow_read(&mapped).unwrap();
            grants.deny_read(text(&granted.denied)).unwrap();
        })
        .call(json!({ "path": "/work/sub/folder/secret.txt" }))
        .await;
    assert_eq!(called.succeeded()["ok"], false);
}

#[tokio::test]
async fn a_path_of_any_length_is_looked_at_safely() {
    let granted = Granted::new("sub/folder", false);
    for path in ["a/", "../", "./", "sub/../", "to-folder/../"] {
        let long = path.repeat(20_000);
        granted
            .run(
                "probe#stat",
                json!({ "path": granted.path(&format!("{long}open.txt")) }),
            )
            .await
            .succeeded();
        let closed = format!("{long}sub/folder/secret.txt");
        let called = granted
            .run("probe#stat", json!({ "path": granted.path(&closed) }))
            .await;
        assert_eq!(called.succeeded()["ok"], false, "{closed:.40}");
    }
    assert!(granted.at("probe#read", "open.txt").await);
}

#[tokio::test]
async fn a_path_that_the_kernel_would_not_take_is_refused_before_it_is_followed() {
    // The WASI number of the error "file name too long".
    const ENAMETOOLONG: u64 = 37;
    let granted = Granted::new("sub/folder", false);
    assert!(granted.at("probe#stat", "open.txt").await);
    // Paths with many `..` and many missing names: each look-up of a missing name would walk the whole path.
    let winding = |there: usize, missing: usize| {
        format!("{}{}x", "sub/../".repeat(there), "m/".repeat(missing))
    };
    for tool in ["probe#stat", "probe#read", "probe#mkdir", "probe#remove"] {
        let began = Instant::now();
        let told = granted
            .run(
                tool,
                json!({ "path": granted.path(&winding(4_000, 1_000)) }),
            )
            .await
            .succeeded();
        assert_eq!(
            (&told["ok"], &told["errno"]),
            (&json!(false), &json!(ENAMETOOLONG)),
            "{tool}: {told}"
        );
        assert!(
            began.elapsed() < Duration::from_secs(3),
            "{tool}: {:?}",
            began.elapsed()
        );
    }
    // A path of the maximum length gets the ordinary error.
    let told = granted
        .run(
            "probe#stat",
            json!({ "path": granted.path(&winding(400, 400)) }),
        )
        .await
        .succeeded();
    assert_eq!(told["kind"], "NotFound", "{told}");
}

#[tokio::test]
async fn links_that_lead_in_a_circle_end() {
    let granted = Granted::new("sub/folder", false);
    symlink("b", granted.root.join("a")).unwrap();
    symlink("a", granted.root.join("b")).unwrap();
    for tool in ["probe#read", "probe#write", "probe#mkdir"] {
        assert!(!granted.at(tool, "a").await, "{tool}");
        assert!(!granted.at(tool, "a/x").await, "{tool} below");
    }
}

/// A granted folder in which files of the closed part have hard links from before the call.
fn with_second_names(write_only: bool) -> Granted {
    let granted = Granted::new("sub/folder", write_only);
    fs::hard_link(
        granted.root.join("sub/folder/secret.txt"),
        granted.root.join("twin"),
    )
    .unwrap();
    fs::hard_link(
        granted.root.join("open.txt"),
        granted.root.join("open-twin"),
    )
    .unwrap();
    granted
}

#[tokio::test]
async fn a_second_name_of_a_closed_file_is_closed_as_well() {
    let granted = with_second_names(false);
    let before = snapshot(&granted.root);
    for tool in [
        "probe#read",
        "probe#read_as_writer",
        "probe#write",
        "probe#append",
        "probe#truncate",
    ] {
        assert!(!granted.at(tool, "twin").await, "{tool}");
    }
    assert_eq!(snapshot(&granted.root), before);
    // A third name does not work, either.
    granted.between("probe#link", "twin", "third").await;
    assert!(!granted.at("probe#read", "third").await);
    // Other files may have any number of names.
    assert!(granted.at("probe#read", "open-twin").await);
    assert!(granted.at("probe#append", "open-twin").await);
}

#[tokio::test]
async fn a_second_name_of_a_file_that_may_not_be_changed_can_be_read_and_not_changed() {
    let granted = with_second_names(true);
    assert!(granted.at("probe#read_as_writer", "twin").await);
    for tool in ["probe#write", "probe#append", "probe#truncate"] {
        granted.at(tool, "twin").await;
    }
    assert_eq!(
        fs::read_to_string(granted.root.join("sub/folder/secret.txt")).unwrap(),
        SECRET
    );
}

#[tokio::test]
async fn what_is_closed_and_missing_is_told_like_what_is_closed_and_there() {
    let granted = Granted::new("sub/folder", false);
    for tool in [
        "probe#read",
        "probe#stat",
        "probe#list",
        "probe#remove",
        "probe#mkdir",
    ] {
        let mut told = Vec::new();
        for name in [
            "sub/folder/secret.txt",
            "sub/folder/missing.txt",
            "sub/folder/missing/deep.txt",
        ] {
            told.push(
                granted
                    .run(tool, json!({ "path": granted.path(name) }))
                    .await
                    .succeeded(),
            );
        }
        assert!(
            told.iter().all(|answer| *answer == told[0]),
            "{tool}: {told:#?}"
        );
        assert_eq!(told[0]["ok"], false, "{tool}");
    }
}
