//! Ways out of a granted folder.
//!
//! Promise: A guest stays in its folders.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{snapshot, text};
use crate::support::{Called, Test, scratch};

const CANARY: &str = "canary-3b1f-nobody-may-read-this";

/// A folder to confine a guest to, and its surroundings.
struct Prison {
    _dir: TempDir,
    dir: PathBuf,
    root: PathBuf,
    outside: PathBuf,
}

impl Prison {
    /// `link` creates the link that is in the folder before the call, to the file outside or to its folder.
    fn new(link: impl Fn(&Path, &Path)) -> Self {
        let (guard, dir) = scratch();
        let root = dir.join("root");
        for folder in ["root", "root-evil", "outside"] {
            fs::create_dir(dir.join(folder)).unwrap();
        }
        let outside = dir.join("outside/canary.txt");
        fs::write(&outside, CANARY).unwrap();
        fs::write(dir.join("root-evil/canary.txt"), CANARY).unwrap();
        fs::write(root.join("inside.txt"), "inside").unwrap();
        link(&outside, &root.join("link-out"));
        Self {
            _dir: guard,
            dir,
            root,
            outside,
        }
    }

    /// Everything but the folder itself.
    fn around(&self) -> Vec<(PathBuf, Vec<u8>)> {
        snapshot(&self.dir)
            .into_iter()
            .filter(|(path, _)| !path.starts_with(&self.root) || *path == self.root)
            .collect()
    }

    async fn attack(&self, test: Test) -> Called {
        let before = self.around();
        let input = json!({ "root": text(&self.root), "outside": text(&self.outside) });
        let called = test.call(input).await;
        assert_eq!(self.around(), before, "something outside was changed");
        assert!(
            !called.record().to_string().contains(CANARY),
            "the canary was read"
        );
        let tried = called.succeeded();
        assert!(
            tried["attempts"].as_array().unwrap().len() > 50,
            "{tried:#}"
        );
        assert_eq!(tried["succeeded"], json!([]), "{tried:#}");
        for path in fs::read_dir(&self.root)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            let is_the_canary = path.is_file()
                && !path.symlink_metadata().unwrap().is_symlink()
                && fs::read_to_string(&path).unwrap().contains(CANARY);
            assert!(
                !is_the_canary,
                "{} is a second name of the canary",
                path.display()
            );
        }
        called
    }
}

fn to_the_file(outside: &Path, link: &Path) {
    symlink(outside, link).unwrap();
}

fn to_its_folder(outside: &Path, link: &Path) {
    symlink(outside.parent().unwrap(), link).unwrap();
}

fn climbing(_: &Path, link: &Path) {
    symlink("../outside/canary.txt", link).unwrap();
}

#[tokio::test]
async fn a_writer_cannot_leave_its_folder() {
    for link in [to_the_file, to_its_folder, climbing] {
        let prison = Prison::new(link);
        prison
            .attack(Test::new("probe#escape").write(&prison.root))
            .await;
    }
}

#[tokio::test]
async fn a_reader_cannot_leave_its_folder_and_makes_nothing_in_it() {
    let prison = Prison::new(to_the_file);
    let before = snapshot(&prison.dir);
    prison
        .attack(Test::new("probe#escape_reader").read(&prison.root))
        .await;
    assert_eq!(snapshot(&prison.dir), before);
}

#[tokio::test]
async fn a_guest_cannot_leave_a_folder_with_another_name() {
    let prison = Prison::new(to_the_file);
    let spec = format!("{}={}", prison.root.display(), prison.root.display());
    prison
        .attack(Test::new("probe#escape").grant(|grants| grants.allow_write(&spec).unwrap()))
        .await;
    let before = prison.around();
    let mapped = format!("{}=/jail", prison.root.display());
    let called = Test::new("probe#escape")
        .grant(|grants| grants.allow_write(&mapped).unwrap())
        .call(json!({ "root": "/jail", "outside": text(&prison.outside), "sibling": "/jail-evil" }))
        .await;
    assert_eq!(called.succeeded()["succeeded"], json!([]));
    assert_eq!(prison.around(), before);
}

#[tokio::test]
async fn a_guest_cannot_leave_a_folder_in_which_something_is_denied() {
    let prison = Prison::new(to_the_file);
    let denied = prison.root.join("inside.txt");
    let test = Test::new("probe#escape").write(&prison.root);
    prison
        .attack(test.grant(|grants| grants.deny_read(text(&denied)).unwrap()))
        .await;
}

#[tokio::test]
async fn a_link_within_the_folder_still_works() {
    let prison = Prison::new(|_, link| symlink("inside.txt", link).unwrap());
    let path = prison.root.join("link-out");
    let read = Test::new("probe#read")
        .read(&prison.root)
        .call(json!({ "path": text(&path) }))
        .await
        .succeeded();
    assert_eq!(read["value"]["text"], "inside");
}

/// Also where a filter forbids `openat2`, and where paths are resolved name by name, because something is denied.
#[tokio::test]
async fn a_folder_is_the_same_through_a_link_and_with_a_slash_at_its_end() {
    for denied in [false, true] {
        let (_guard, root) = scratch();
        fs::create_dir(root.join("folder")).unwrap();
        fs::write(root.join("folder/old.txt"), "old").unwrap();
        fs::write(root.join("closed.txt"), CANARY).unwrap();
        symlink("folder", root.join("link")).unwrap();
        let run = async |tool: &str, path: &str, more: Value| {
            let mut test = Test::new(tool).write(&root);
            if denied {
                let closed = root.join("closed.txt");
                test = test.grant(|grants| grants.deny_read(text(&closed)).unwrap());
            }
            let mut input = json!({ "path": format!("{}/{path}", root.display()) });
            if !more.is_null() {
                input["text"] = more;
            }
            let answer = test.call(input).await.succeeded();
            assert_eq!(
                answer["ok"], true,
                "{tool} {path}, with a denial: {denied}: {answer}"
            );
            answer["value"].clone()
        };
        let listed = run("probe#list", "link", Value::Null).await;
        assert_eq!(listed, json!(["old.txt"]));
        run("probe#write", "link/new.txt", json!("four")).await;
        let seen = run("probe#stat", "link/new.txt", Value::Null).await;
        assert_eq!(seen, json!({ "kind": "file", "bytes": 4 }));
        assert_eq!(
            fs::read_to_string(root.join("folder/new.txt")).unwrap(),
            "four"
        );
        run("probe#set_times", "folder/", Value::Null).await;
        let changed = fs::metadata(root.join("folder")).unwrap().modified();
        assert_eq!(changed.unwrap(), SystemTime::UNIX_EPOCH);
    }
}

/// The errors that a guest got for each path, without the path itself.
fn errors(tried: &Value) -> Vec<(String, String)> {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let attempts = tried["attempts"].as_array().unwrap().iter();
    attempts
        .map(|attempt| (word(&attempt["attempt"]), word(&attempt["error"])))
        .collect()
}

#[tokio::test]
async fn a_guest_cannot_tell_what_exists_outside_from_what_does_not() {
    for denied in [false, true] {
        let mut seen = Vec::new();
        for exists in [true, false] {
            let prison = Prison::new(|_, _| {});
            if !exists {
                fs::remove_dir_all(prison.dir.join("outside")).unwrap();
                fs::remove_dir_all(prison.dir.join("root-evil")).unwrap();
            }
            let mut test = Test::new("probe#escape_reader").read(&prison.root);
            if denied {
                let path = prison.root.join("inside.txt");
                test = test.grant(|grants| grants.deny_read(text(&path)).unwrap());
            }
            seen.push(errors(&prison.attack(test).await.succeeded()));
        }
        assert_eq!(seen[0], seen[1], "with a denial: {denied}");
    }
}

#[tokio::test]
async fn a_path_that_climbs_out_and_in_again_tells_nothing_either() {
    let prison = Prison::new(to_the_file);
    let denied = prison.root.join("inside.txt");
    let mut seen = Vec::new();
    for place in ["outside", "nowhere", "root"] {
        let path = format!("{}/../{place}/../root/other.txt", prison.root.display());
        let plain = Test::new("probe#stat").read(&prison.root);
        let denying = Test::new("probe#stat")
            .read(&prison.root)
            .grant(|grants| grants.deny_read(text(&denied)).unwrap());
        for test in [plain, denying] {
            seen.push(test.call(json!({ "path": path })).await.succeeded());
        }
    }
    assert_eq!(seen[0]["ok"], false);
    assert!(seen.iter().all(|answer| *answer == seen[0]), "{seen:#?}");
}
