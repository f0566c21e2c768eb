//! The example tool `git`, beside git itself.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::example;
use crate::support::{Toolcell, scratch};

/// A repository that git makes and changes.
struct Repository {
    folder: PathBuf,
    home: PathBuf,
    _guards: [tempfile::TempDir; 2],
}

impl Repository {
    fn new() -> Self {
        let (home_guard, home) = scratch();
        let (folder_guard, folder) = scratch();
        let repository = Self {
            folder,
            home,
            _guards: [home_guard, folder_guard],
        };
        repository.git(&["init", "-q", "-b", "main"]);
        repository
    }

    /// Three commits, of which the last is a merge; then one staged change, one that is not, and a new file.
    fn with_history() -> Self {
        let repository = Self::new();
        repository.write("src/one.txt", "a\nb\nc\n");
        repository.write("two.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n");
        repository.write("picture", "\0\u{1}\u{2}");
        repository.write("short", "x\ny");
        repository.write("gone", "nothing like the others\n");
        repository.commit("Anna", "begin\n\nWith a body.");
        repository.git(&["checkout", "-q", "-b", "side"]);
        repository.write("src/one.txt", "a\nB\nc\nd\n");
        repository.write("added", "fresh\nlines\n");
        repository.commit("Bert", "change one");
        repository.git(&["checkout", "-q", "main"]);
        repository.git(&["mv", "two.txt", "three.txt"]);
        repository.write("picture", "\0\u{3}");
        repository.write("short", "x\nz");
        repository.git(&["rm", "-q", "gone"]);
        repository.commit("Anna", "rename two");
        repository.git(&["merge", "-q", "--no-ff", "-m", "merge side", "side"]);
        repository.git(&["gc", "-q"]);
        repository.write("src/one.txt", "a\nB\nc\nd\ne\n");
        repository.git(&["add", "src/one.txt"]);
        repository.write("three.txt", "1\n2\n3\n4\n5\nsix\n7\n8\n9\n10\n");
        repository.write("new/file", "x");
        repository
    }

    fn write(&self, file: &str, text: &str) {
        let file = self.folder.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    fn commit(&self, author: &str, message: &str) {
        self.git(&["add", "-A"]);
        let author = format!("--author={author} <{author}@example.com>");
        self.git(&["commit", "-q", &author, "-m", message]);
    }

    #[track_caller]
    fn git(&self, arguments: &[&str]) -> String {
        let ran = Command::new("git")
            .args(["-c", "core.pager=cat", "-c", "diff.renames=true"])
            .args(arguments)
            .current_dir(&self.folder)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .env("GIT_AUTHOR_NAME", "Carl")
            .env("GIT_AUTHOR_EMAIL", "carl@example.com")
            .env("GIT_COMMITTER_NAME", "Carl")
            .env("GIT_COMMITTER_EMAIL", "carl@example.com")
            .output()
            .unwrap();
        assert!(ran.status.success(), "{arguments:?}: {ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    }

    fn result(&self, tool: &str, mut input: Value, options: &[&str]) -> Value {
        input["path"] = json!(self.folder);
        let tool = format!("{}#{tool}", example("git"));
        let input = input.to_string();
        let words = [&["call", &tool, &input, "--json"], options].concat();
        let ran = Toolcell::at(&self.home, &words).dir(&self.home).run();
        ran.json()
    }

    /// The structured answer, and the text.
    #[track_caller]
    fn call(&self, tool: &str, input: Value) -> (Value, String) {
        let grant = format!("--allow-read={}", self.folder.display());
        let result = self.result(tool, input, &[&grant]);
        assert_eq!(result["status"], "succeeded", "{result:#}");
        let text = result["content"][0]["text"].as_str().unwrap().to_owned();
        (result["structured_content"].clone(), text)
    }

    #[track_caller]
    fn code(&self, tool: &str, input: Value) -> String {
        let grant = format!("--allow-read={}", self.folder.display());
        let result = self.result(tool, input, &[&grant]);
        let code = result["error"]["error_code"].as_str();
        code.unwrap_or_else(|| panic!("{result:#}")).to_owned()
    }
}

fn each<'a>(values: &'a Value, field: &str) -> Vec<&'a str> {
    let values = values.as_array().unwrap().iter();
    values.map(|value| value[field].as_str().unwrap()).collect()
}

/// Without the lines that name the blobs, which the tool leaves out, and what git writes after the places of a hunk.
fn bare(patch: &str) -> String {
    let mut text = String::new();
    for line in patch.lines() {
        if line.starts_with("index ") || line.starts_with("similarity ") {
            continue;
        }
        let place = line.strip_prefix("@@").and_then(|rest| rest.find("@@"));
        text.push_str(&line[..place.map_or(line.len(), |at| at + 4)]);
        text.push('\n');
    }
    text
}

#[test]
#[ignore = "gix compiles for minutes: `just nightly` runs it"]
fn history_is_as_git_tells_it() {
    let repository = Repository::with_history();
    let ids = |arguments: &[&str]| {
        let words = [&["log", "--format=%H"], arguments].concat();
        repository.git(&words)
    };
    for (input, arguments) in [
        (json!({}), &[][..]),
        (json!({ "revision": "side" }), &["side"]),
        (
            json!({ "revision": "main~1", "limit": 1 }),
            &["main~1", "-1"],
        ),
        (json!({ "since": "side" }), &["side..main"]),
        (json!({ "author": "BERT" }), &["--author=Bert"]),
        (json!({ "message": "with a BODY" }), &["--grep=With a body"]),
        (json!({ "file": "src/one.txt" }), &["--", "src/one.txt"]),
        (json!({ "file": "src/" }), &["--", "src"]),
        (json!({ "file": "nothing" }), &["--", "nothing"]),
    ] {
        let (log, text) = repository.call("log", input.clone());
        let mut found = each(&log["commits"], "id");
        let expected = ids(arguments);
        let mut expected: Vec<&str> = expected.lines().collect();
        // Commits of one second have no order.
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{input}");
        assert!(found.iter().all(|id| text.contains(id)));
    }
    let (log, _) = repository.call("log", json!({ "message": "begin" }));
    let commit = &log["commits"][0];
    let dated = repository.git(&["log", "-1", "--format=%aI", "--grep=begin"]);
    let date = dated.trim().replace('Z', "+00:00");
    assert_eq!(
        *commit,
        json!({ "id": commit["id"], "parents": [], "author": "Anna", "email": "Anna@example.com", "date": date,
                "subject": "begin", "body": "With a body." })
    );
}

#[test]
#[ignore = "gix compiles for minutes: `just nightly` runs it"]
fn changes_are_as_git_shows_them() {
    let repository = Repository::with_history();
    for (input, arguments) in [
        (json!({}), &["diff", "HEAD"][..]),
        (json!({ "context": 1 }), &["diff", "-U1", "HEAD"]),
        (json!({ "context": 0 }), &["diff", "-U0", "HEAD"]),
        (json!({ "staged": true }), &["diff", "--staged"]),
        (json!({ "file": "src" }), &["diff", "HEAD", "--", "src"]),
        (
            json!({ "from": "side", "to": "main" }),
            &["diff", "side", "main"],
        ),
        (
            json!({ "from": "main", "to": "side" }),
            &["diff", "main", "side"],
        ),
    ] {
        let (_, patch) = repository.call("diff", input.clone());
        let expected = bare(&repository.git(arguments));
        assert_eq!(bare(&patch), expected, "{input}");
    }
    let (diff, _) = repository.call("diff", json!({ "from": "side", "to": "main" }));
    assert_eq!(
        diff["files"],
        json!([
            { "path": "gone", "change": "deleted", "added": 0, "removed": 1 },
            { "path": "picture", "change": "modified", "added": 0, "removed": 0, "binary": true },
            { "path": "short", "change": "modified", "added": 1, "removed": 1 },
            { "path": "three.txt", "change": "renamed", "old_path": "two.txt", "added": 0, "removed": 0 },
        ])
    );
    let (_, shown) = repository.call("show", json!({ "revision": "side" }));
    let expected = repository.git(&["show", "--format=", "side"]);
    assert!(
        bare(&shown).ends_with(&bare(&expected)),
        "{shown}\n{expected}"
    );
    let (cut, patch) = repository.call("diff", json!({ "max_chars": 60 }));
    assert_eq!(cut["truncated"], true);
    assert!(
        patch.len() < 80 && patch.ends_with("(there is more)"),
        "{patch}"
    );
}

#[test]
#[ignore = "gix compiles for minutes: `just nightly` runs it"]
fn files_and_their_state_are_as_git_has_them() {
    let repository = Repository::with_history();
    let (status, text) = repository.call("status", json!({}));
    assert_eq!(status["branch"], "main");
    assert_eq!(
        status["head"],
        repository.git(&["rev-parse", "HEAD"]).trim()
    );
    assert_eq!(
        status["files"],
        json!([
            { "path": "new/", "unstaged": "untracked" },
            { "path": "src/one.txt", "staged": "modified" },
            { "path": "three.txt", "unstaged": "modified" },
        ]),
        "{text}"
    );
    let (file, text) = repository.call("show", json!({ "revision": "HEAD~1:src/one.txt" }));
    assert_eq!((text.as_str(), &file["size"]), ("a\nb\nc\n", &json!(6)));
    let (folder, _) = repository.call("show", json!({ "revision": "HEAD:" }));
    assert_eq!(
        folder["entries"],
        json!(["added", "picture", "short", "src/", "three.txt"])
    );

    let (blame, _) = repository.call("blame", json!({ "file": "src/one.txt" }));
    let mut lines = Vec::new();
    for part in blame["parts"].as_array().unwrap() {
        let count = part["lines"].as_array().unwrap().len();
        lines.extend(std::iter::repeat_n(part["commit"].as_str().unwrap(), count));
    }
    let expected = repository.git(&["blame", "-l", "--root", "HEAD", "--", "src/one.txt"]);
    let expected: Vec<&str> = expected.lines().map(|line| &line[..40]).collect();
    assert_eq!(lines, expected);

    // Nothing is written, not even the index.
    let index = repository.folder.join(".git/index");
    let before = std::fs::read(&index).unwrap();
    repository.call("status", json!({}));
    assert_eq!(std::fs::read(index).unwrap(), before);
}

#[test]
#[ignore = "gix compiles for minutes: `just nightly` runs it"]
fn what_cannot_be_read_is_an_error_that_says_why() {
    let repository = Repository::new();
    let (status, text) = repository.call("status", json!({}));
    assert_eq!(
        (&status["head"], &status["files"]),
        (&Value::Null, &json!([]))
    );
    assert!(
        text.starts_with("on branch main, without commits"),
        "{text}"
    );
    assert_eq!(repository.code("log", json!({})), "unknown_revision");

    let repository = Repository::with_history();
    for (tool, input, code) in [
        ("log", json!({ "revision": "nowhere" }), "unknown_revision"),
        ("log", json!({ "revision": "HEAD:src" }), "unknown_revision"),
        (
            "diff",
            json!({ "staged": true, "to": "main" }),
            "two_questions",
        ),
        ("blame", json!({ "file": "src" }), "no_such_file"),
        (
            "blame",
            json!({ "file": "src/one.txt", "first": 9 }),
            "no_such_line",
        ),
    ] {
        assert_eq!(repository.code(tool, input), code);
    }
    let shallow = Repository::new();
    let origin = format!("file://{}", repository.folder.display());
    std::fs::remove_dir_all(shallow.folder.join(".git")).unwrap();
    repository.git(&[
        "clone",
        "-q",
        "--depth=1",
        &origin,
        shallow.folder.to_str().unwrap(),
    ]);
    let (log, _) = shallow.call("log", json!({ "file": "src" }));
    assert_eq!(log["commits"].as_array().unwrap().len(), 1);
    let (shown, _) = shallow.call("show", json!({}));
    assert_eq!(each(&shown["files"], "change"), ["added"; 5]);
    let blame = json!({ "file": "src/one.txt" });
    assert_eq!(shallow.code("blame", blame), "shallow_clone");

    let denied = repository.result("log", json!({}), &[]);
    assert_eq!(denied["status"], "denied", "{denied:#}");

    // A filter of the repository is a program of a stranger.
    repository.write(".git/config", "[core]\n\trepositoryformatversion = 0\n[filter \"evil\"]\n\tclean = touch evil\n\tprocess = touch evil\n\
                      [core]\n\tfsmonitor = touch evil\n[diff \"evil\"]\n\tcommand = touch evil\n\ttextconv = touch evil\n");
    repository.write(".gitattributes", "* filter=evil diff=evil\n");
    let grant = format!("--allow-read={}", repository.folder.display());
    let result = repository.result("diff", json!({}), &[&grant]);
    assert!(
        !Path::new(&repository.folder).join("evil").exists(),
        "{result:#}"
    );

    let packs = repository.folder.join(".git/objects/pack");
    for file in std::fs::read_dir(packs).unwrap() {
        let file = file.unwrap().path();
        let bytes = std::fs::read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    }
    let code = repository.code("log", json!({}));
    assert!(
        ["unknown_revision", "unreadable_repository"].contains(&code.as_str()),
        "{code}"
    );
}
