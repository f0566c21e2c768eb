use std::{
    env, fs,
    path::PathBuf,
    process,
    sync::atomic::{AtomicU32, Ordering},
};

use toolcell_guest::{
    Outcome, Output, ToolError,
    serde_json::{Value, json},
    testing,
};

use crate::{
    Action, Toolkit,
    apply::Applied,
    write::{Change, commit},
};

/// A temporary folder for one test, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder =
            Self(env::temp_dir().join(format!("toolcell-patch-{}-{number}", process::id())));
        fs::create_dir_all(&folder.0).unwrap();
        for (path, text) in files {
            fs::create_dir_all(folder.0.join(path).parent().unwrap()).unwrap();
            fs::write(folder.0.join(path), text).unwrap();
        }
        folder
    }

    /// Every file with its text, in path order.
    fn files(&self) -> Vec<(String, String)> {
        let mut files = Vec::new();
        let mut folders = vec![self.0.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path)
                } else {
                    files.push((
                        path.strip_prefix(&self.0).unwrap().display().to_string(),
                        fs::read_to_string(&path).unwrap_or_default(),
                    ))
                }
            }
        }
        files.sort();
        files
    }

    fn patch(&self, diff: &str) -> Outcome {
        testing::invoke::<Toolkit>(
            "patch",
            json!({"path": self.0.display().to_string(), "diff": diff}),
        )
    }

    fn patched(&self, diff: &str) -> Output<Value> {
        match self.patch(diff) {
            Outcome::Success(output) => output,
            other => panic!("{other:?}"),
        }
    }

    fn refused(&self, diff: &str) -> ToolError {
        match self.patch(diff) {
            Outcome::Failure(error) => error,
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn owned(files: &[(&str, &str)]) -> Vec<(String, String)> {
    files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
        .collect()
}

const MODIFY: &str = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n";
const CREATE: &str = "--- /dev/null\n+++ b/deep/er/new.txt\n@@ -0,0 +1 @@\n+new\n";
const DELETE: &str = "--- a/old.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n";

#[test]
fn files_are_modified_created_and_deleted_together() {
    let folder = Folder::new(&[("a.txt", "one\ntwo\n"), ("old.txt", "old\n")]);
    let output = folder.patched(&format!("{MODIFY}{CREATE}{DELETE}"));
    assert_eq!(
        folder.files(),
        owned(&[("a.txt", "one\n2\n"), ("deep/er/new.txt", "new\n")])
    );
    let summary = output.structured.unwrap();
    assert_eq!(
        (&summary["added"], &summary["removed"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(
        summary["files"][1],
        json!({"path": "deep/er/new.txt", "action": "created", "added": 1, "removed": 0, "hunks": 1})
    );
    let diffs: Vec<_> = output
        .content
        .iter()
        .filter(|block| block.kind() == "diff")
        .collect();
    assert_eq!(diffs.len(), 3);
    assert_eq!(diffs[0].get("diff"), Some(&json!(MODIFY)));
    assert_eq!(output.ui_summary.as_deref(), Some("3 files changed, +2 -2"));
}

#[test]
fn one_hunk_that_does_not_fit_leaves_everything_as_it_was() {
    let files = [("a.txt", "one\ntwo\n"), ("b.txt", "other\n")];
    let folder = Folder::new(&files);
    let error = folder.refused(&format!(
        "{MODIFY}{CREATE}--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-this\n+that\n"
    ));
    assert_eq!(error.code, "hunk_mismatch");
    assert_eq!(folder.files(), owned(&files));
    assert!(!folder.0.join("deep").exists());
}

/// A planned change.
fn change(folder: &Folder, name: &str, action: Action, before: Option<&str>, text: &str) -> Change {
    Change {
        name: name.to_owned(),
        path: folder.0.join(name),
        action,
        before: before.map(str::to_owned),
        applied: Applied {
            text: text.to_owned(),
            ..Applied::default()
        },
    }
}

#[test]
fn a_failure_while_writing_puts_everything_back() {
    let files = [("a.txt", "a\n"), ("b.txt", "b\n"), ("file", "no folder\n")];
    let folder = Folder::new(&files);
    let good = || {
        [
            change(&folder, "a.txt", Action::Modified, Some("a\n"), "A\n"),
            change(&folder, "b.txt", Action::Deleted, Some("b\n"), ""),
            change(&folder, "new/er.txt", Action::Created, None, "new\n"),
        ]
    };
    // The first change fails before any file is replaced, the second after all others are.
    for bad in [
        change(&folder, "file/x", Action::Created, None, "x\n"),
        change(&folder, "missing", Action::Deleted, Some("m\n"), ""),
    ] {
        let changes: Vec<Change> = good().into_iter().chain([bad]).collect();
        let error = commit(&changes).unwrap_err();
        assert!(error.message.ends_with("; nothing was changed"), "{error}");
        assert_eq!(folder.files(), owned(&files));
        assert!(!folder.0.join("new").exists());
    }
    commit(&good()).unwrap();
    assert_eq!(
        folder.files(),
        owned(&[
            ("a.txt", "A\n"),
            ("file", "no folder\n"),
            ("new/er.txt", "new\n")
        ])
    );
}

#[test]
fn a_file_that_changed_since_it_was_read_is_not_overwritten() {
    let files = [("a.txt", "a\n"), ("b.txt", "theirs\n")];
    let folder = Folder::new(&files);
    for (bad, code) in [
        (
            change(&folder, "b.txt", Action::Modified, Some("read\n"), "mine\n"),
            "changed_meanwhile",
        ),
        (
            change(
                &folder,
                "b.txt",
                Action::Modified,
                Some("mineee\n"),
                "mine\n",
            ),
            "changed_meanwhile",
        ),
        (
            change(&folder, "b.txt", Action::Deleted, Some("read\n"), ""),
            "changed_meanwhile",
        ),
        (
            change(&folder, "b.txt", Action::Created, None, "mine\n"),
            "already_exists",
        ),
    ] {
        let good = change(&folder, "a.txt", Action::Modified, Some("a\n"), "A\n");
        let error = commit(&[good, bad]).unwrap_err();
        assert_eq!(error.code, code, "{error}");
        assert!(error.message.ends_with("; nothing was changed"), "{error}");
        assert_eq!(folder.files(), owned(&files));
    }
}

#[test]
fn a_file_that_is_in_the_way_is_not_overwritten() {
    let folder = Folder::new(&[("deep/er/new.txt", "mine\n")]);
    assert_eq!(folder.refused(CREATE).code, "already_exists");
    assert_eq!(folder.refused(MODIFY).code, "not_found");
    assert_eq!(folder.files(), owned(&[("deep/er/new.txt", "mine\n")]));
}

#[test]
fn a_deletion_must_remove_every_line() {
    let folder = Folder::new(&[("old.txt", "old\nand more\n")]);
    assert_eq!(folder.refused(DELETE).code, "deletes_too_little");
    assert_eq!(folder.files(), owned(&[("old.txt", "old\nand more\n")]));
}

#[test]
fn paths_that_lead_out_are_refused_before_anybody_is_asked() {
    let diff = MODIFY.replace("a.txt", "../a.txt");
    let error = testing::validate::<Toolkit>("patch", json!({"diff": diff})).unwrap_err();
    assert_eq!(error.code, "path_outside");
    assert_eq!(Folder::new(&[]).refused(&diff).code, "path_outside");
    assert_eq!(
        testing::validate::<Toolkit>("patch", json!({"diff": MODIFY})),
        Ok(())
    );
    assert_eq!(
        testing::validate::<Toolkit>("patch", json!({"diff": "hi"}))
            .unwrap_err()
            .code,
        "diff_invalid"
    );
}

#[cfg(unix)]
#[test]
fn links_are_not_followed() {
    let outside = Folder::new(&[("a.txt", "one\ntwo\n")]);
    let folder = Folder::new(&[]);
    std::os::unix::fs::symlink(&outside.0, folder.0.join("way")).unwrap();
    assert_eq!(
        folder.refused(&MODIFY.replace("a.txt", "way/a.txt")).code,
        "path_is_link"
    );
    assert_eq!(outside.files(), owned(&[("a.txt", "one\ntwo\n")]));
}

#[test]
fn the_path_may_be_the_file_itself() {
    let folder = Folder::new(&[("src/a.txt", "one\ntwo\n")]);
    let path = folder.0.join("src/a.txt").display().to_string();
    let outcome = testing::invoke::<Toolkit>("patch", json!({"path": path, "diff": MODIFY}));
    assert!(matches!(outcome, Outcome::Success(_)), "{outcome:?}");
    assert_eq!(folder.files(), owned(&[("src/a.txt", "one\n2\n")]));
    let Outcome::Failure(error) =
        testing::invoke::<Toolkit>("patch", json!({"path": path, "diff": CREATE}))
    else {
        panic!()
    };
    assert_eq!(error.code, "other_file");
}
