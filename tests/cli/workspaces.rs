//! Workspaces on the command line: files that outlive a call, for their owner alone, within a quota.
//!
//! Promise: A workspace is its owner's alone.
//! Promise: A workspace stays within its quota.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::guest;
use crate::support::{Ran, Toolcell, scratch};

fn toolcell(home: &Path, arguments: &[&str]) -> Ran {
    Toolcell::at(home, arguments).run()
}

/// Runs `toolcell workspace`, for its JSON.
fn workspace(home: &Path, arguments: &[&str]) -> Value {
    let words = [&["workspace", "--json"], arguments].concat();
    toolcell(home, &words).exits(0).json()
}

fn call(home: &Path, tool: &str, input: &Value, options: &[&str]) -> Ran {
    let (tool, input) = (guest(tool), input.to_string());
    let words = [&["call", &tool, &input, "--json"], options].concat();
    toolcell(home, &words)
}

/// Calls a tool of the probe in the workspace `w`; the structured output.
fn probe(home: &Path, tool: &str, input: &Value) -> Value {
    let tool = format!("probe#{tool}");
    let result = call(home, &tool, input, &["--workspace=w"]).exits(0).json();
    let output = result["structured_content"].clone();
    assert_eq!(output["ok"], true, "{result:#}");
    output
}

fn write(home: &Path, path: &str, text: &str) -> Value {
    let input = json!({ "path": path, "text": text });
    let tool = guest("probe#write");
    let words = ["call", &tool, &input.to_string(), "--json", "--workspace=w"];
    toolcell(home, &words).exits(0).json()
}

fn changes(told: &Value) -> Vec<(&str, &str)> {
    let files = told["files"].as_array().unwrap().iter();
    let text = |value: &'_ Value| value.as_str().unwrap().to_owned();
    files
        .map(|file| {
            let (path, change) = (&file["path"], &file["change"]);
            assert_eq!(text(change) == "removed", file.get("digest").is_none());
            (path.as_str().unwrap(), change.as_str().unwrap())
        })
        .collect()
}

fn paths(shown: &Value) -> Vec<&str> {
    let files = shown["files"].as_array().unwrap().iter();
    files.map(|file| file["path"].as_str().unwrap()).collect()
}

#[test]
fn files_outlive_a_call_and_each_result_says_what_changed() {
    let (_guard, home) = scratch();
    let first = write(&home, "data.txt", "one");
    assert_eq!(first["workspace"]["name"], "w");
    assert_eq!(changes(&first["workspace"]), [("data.txt", "added")]);
    assert_eq!(first["workspace"]["files"][0]["size"], 3);
    // A relative path and the guest's own name of the folder are the same file.
    assert_eq!(
        probe(&home, "read", &json!({ "path": "/workspace/data.txt" }))["value"]["text"],
        "one"
    );
    let second = write(&home, "/workspace/data.txt", "two");
    assert_eq!(changes(&second["workspace"]), [("data.txt", "changed")]);
    let same = write(&home, "data.txt", "two");
    assert_eq!(changes(&same["workspace"]), []);
    probe(&home, "mkdir", &json!({ "path": "sub" }));
    probe(
        &home,
        "rename",
        &json!({ "from": "data.txt", "to": "sub/moved.txt" }),
    );
    let shown = workspace(&home, &["show", "w"]);
    assert_eq!(paths(&shown), ["sub/moved.txt"]);
    assert_eq!(shown["usage"], json!({ "bytes": 3, "files": 2 }));
    // People see it beside the result.
    let tool = guest("probe#write");
    let input = json!({ "path": "new.txt", "text": "x" }).to_string();
    let people = toolcell(&home, &["call", &tool, &input, "--workspace=w"]).exits(0);
    assert!(
        people.stderr.contains("workspace| added new.txt (1 bytes)"),
        "{people:?}"
    );
}

#[test]
fn without_the_option_a_tool_reaches_no_workspace_and_with_it_nothing_else() {
    let (_guard, home) = scratch();
    write(&home, "data.txt", "one");
    let input = json!({ "path": "/workspace/data.txt" });
    let denied = call(&home, "probe#read", &input, &[]).exits(3).json();
    assert_eq!(denied["status"], "denied");
    for path in [
        "/etc/passwd",
        "../workspace.json",
        "/workspace/../lock",
        "sub/../../lock",
    ] {
        let ran = call(
            &home,
            "probe#read",
            &json!({ "path": path }),
            &["--workspace=w"],
        );
        let result = ran.json();
        assert_ne!(
            result["structured_content"]["ok"], true,
            "{path}: {result:#}"
        );
    }
    // A tool that declares no access to files gets none.
    let pure = call(&home, "probe#echo", &json!({ "a": 1 }), &["--workspace=w"])
        .exits(0)
        .json();
    assert!(pure.get("workspace").is_none());
    // One that only reads changes nothing, whatever it tries.
    call(
        &home,
        "probe#write_readonly",
        &json!({ "path": "/workspace/data.txt" }),
        &["--workspace=w"],
    );
    let read = probe(&home, "read", &json!({ "path": "data.txt" }));
    assert_eq!(read["value"]["text"], "one");
    assert_eq!(paths(&workspace(&home, &["show", "w"])), ["data.txt"]);
}

#[test]
fn links_of_a_guest_lead_nowhere() {
    let (_guard, home) = scratch();
    let secret = home.join("secret");
    fs::write(&secret, "secret").unwrap();
    write(&home, "data.txt", "one");
    for target in [
        "../../../../secret",
        "../workspace.json",
        secret.to_str().unwrap(),
    ] {
        // Whether or not the sandbox lets the guest make it, nobody follows it.
        let input = json!({ "from": target, "to": "/workspace/link" });
        call(&home, "probe#symlink", &input, &["--workspace=w"]);
        let read = call(
            &home,
            "probe#read",
            &json!({ "path": "link" }),
            &["--workspace=w"],
        )
        .json();
        assert_ne!(read["structured_content"]["ok"], true, "{target}: {read:#}");
        let got = toolcell(&home, &["workspace", "get", "w", "link"]);
        assert!(
            got.code != Some(0) && !got.stdout.contains("secret"),
            "{got:?}"
        );
        call(
            &home,
            "probe#remove",
            &json!({ "path": "/workspace/link" }),
            &["--workspace=w"],
        );
    }
}

#[test]
fn a_snapshot_is_compared_restored_forked_and_removed() {
    let (_guard, home) = scratch();
    write(&home, "a.txt", "one");
    assert_eq!(workspace(&home, &["snapshot", "w"])["id"], "s1");
    write(&home, "a.txt", "two");
    write(&home, "b.txt", "new");
    let expected = [("a.txt", "changed"), ("b.txt", "added")];
    assert_eq!(changes(&workspace(&home, &["diff", "w", "s1"])), expected);
    workspace(&home, &["fork", "w", "other"]);
    let restored = workspace(&home, &["restore", "w", "s1"]);
    assert_eq!(
        changes(&restored),
        [("a.txt", "changed"), ("b.txt", "removed")]
    );
    assert_eq!(
        probe(&home, "read", &json!({ "path": "a.txt" }))["value"]["text"],
        "one"
    );
    assert_eq!(
        paths(&workspace(&home, &["show", "other"])),
        ["a.txt", "b.txt"]
    );
    let shown = workspace(&home, &["show", "w"]);
    assert_eq!(
        (&shown["snapshot_count"], &shown["snapshot_bytes"]),
        (&json!(1), &json!(3))
    );
    workspace(&home, &["remove", "w", "--snapshot=s1"]);
    let unknown = toolcell(&home, &["workspace", "restore", "w", "s1", "--json"]).exits(2);
    assert_eq!(unknown.json()["error"]["error_code"], "unknown_snapshot");
    workspace(&home, &["remove", "w"]);
    let listed = workspace(&home, &["list"]);
    assert_eq!(listed["workspaces"].as_array().unwrap().len(), 1);
    let gone = toolcell(&home, &["workspace", "show", "w"]).exits(2);
    assert!(gone.stderr.contains("there is no workspace w"), "{gone:?}");
}

#[test]
fn files_and_archives_go_in_and_out() {
    let (_guard, home) = scratch();
    let folder = home.join("files");
    fs::create_dir_all(folder.join("sub")).unwrap();
    fs::write(folder.join("a.csv"), "1,2\n").unwrap();
    fs::write(folder.join("sub/b.csv"), "3,4\n").unwrap();
    let file = folder.join("a.csv");
    let put = workspace(&home, &["put", "w", file.to_str().unwrap()]);
    assert_eq!((&put["path"], &put["size"]), (&json!("a.csv"), &json!(4)));
    let piped = Toolcell::at(&home, ["workspace", "put", "w", "-", "in/c.csv"])
        .stdin("5,6\n")
        .run();
    piped.exits(0);
    let tar = home.join("in.tar");
    let pack = |arguments: &[&str]| {
        let ran = std::process::Command::new("tar")
            .args(arguments)
            .output()
            .unwrap();
        assert!(ran.status.success(), "{ran:?}");
    };
    pack(&[
        "-C",
        folder.to_str().unwrap(),
        "-cf",
        tar.to_str().unwrap(),
        ".",
    ]);
    let added = workspace(&home, &["put", "w", tar.to_str().unwrap(), "--tar"]);
    assert_eq!(changes(&added), [("sub/b.csv", "added")]);
    assert_eq!(
        probe(&home, "read", &json!({ "path": "sub/b.csv" }))["value"]["text"],
        "3,4\n"
    );
    let got = toolcell(&home, &["workspace", "get", "w", "in/c.csv"]).exits(0);
    assert_eq!(got.stdout, "5,6\n");
    let out = home.join("out.tar");
    let words = [
        "workspace",
        "get",
        "w",
        "--tar",
        "--output",
        out.to_str().unwrap(),
    ];
    toolcell(&home, &words).exits(0);
    toolcell(&home, &words).exits(2);
    let unpacked = home.join("unpacked");
    fs::create_dir(&unpacked).unwrap();
    pack(&[
        "-C",
        unpacked.to_str().unwrap(),
        "-xf",
        out.to_str().unwrap(),
    ]);
    assert_eq!(
        fs::read_to_string(unpacked.join("sub/b.csv")).unwrap(),
        "3,4\n"
    );
    // A link in an archive is refused, and nothing of the archive is kept.
    std::os::unix::fs::symlink("/etc/passwd", folder.join("link")).unwrap();
    fs::write(folder.join("a.csv"), "other").unwrap();
    pack(&[
        "-C",
        folder.to_str().unwrap(),
        "-cf",
        tar.to_str().unwrap(),
        ".",
    ]);
    let refused = toolcell(
        &home,
        &[
            "workspace",
            "put",
            "w",
            tar.to_str().unwrap(),
            "--tar",
            "--json",
        ],
    );
    assert_eq!(
        refused.exits(2).json()["error"]["error_code"],
        "archive_refused"
    );
    assert_eq!(
        toolcell(&home, &["workspace", "get", "w", "a.csv"]).stdout,
        "1,2\n"
    );
    for path in ["../x", "/etc/x", "a/../../x"] {
        let words = [
            "workspace",
            "put",
            "w",
            file.to_str().unwrap(),
            path,
            "--json",
        ];
        let refused = toolcell(&home, &words).exits(2).json();
        assert_eq!(
            refused["error"]["error_code"], "workspace_path_invalid",
            "{path}"
        );
    }
    toolcell(&home, &["workspace", "rm", "w", "in"]).exits(0);
    assert_eq!(
        paths(&workspace(&home, &["show", "w"])),
        ["a.csv", "sub/b.csv"]
    );
}

#[test]
fn a_quota_ends_the_call_that_would_exceed_it_and_nothing_is_lost() {
    let (_guard, home) = scratch();
    workspace(&home, &["create", "w", "--quota=10KiB", "--max-files=3"]);
    write(&home, "kept", "kept");
    let fill = |how: &str| {
        let input = json!({ "path": "/workspace", "how": how });
        let options = ["--workspace=w", "--timeout=20s"];
        call(&home, "hostile#fill_disk", &input, &options).json()
    };
    for how in ["blocks", "append", "set_size"] {
        let result = fill(how);
        assert_eq!(
            result["error"]["error_code"], "workspace_full",
            "{how}: {result:#}"
        );
        let shown = workspace(&home, &["show", "w"]);
        assert!(
            shown["usage"]["bytes"].as_u64().unwrap() <= 10 << 10,
            "{how}: {shown:#}"
        );
        for path in paths(&shown).into_iter().filter(|path| *path != "kept") {
            toolcell(&home, &["workspace", "rm", "w", path]).exits(0);
        }
    }
    let many = fill("files");
    assert_eq!(many["error"]["error_code"], "workspace_full", "{many:#}");
    let shown = workspace(&home, &["show", "w"]);
    assert!(shown["usage"]["files"].as_u64().unwrap() <= 3, "{shown:#}");
    let read = probe(&home, "read", &json!({ "path": "kept" }));
    assert_eq!(read["value"]["text"], "kept");
    // Overwriting takes no more room than there is.
    workspace(&home, &["create", "v", "--quota=8"]);
    for text in ["12345678", "87654321"] {
        let input = json!({ "path": "a", "text": text });
        call(&home, "probe#write", &input, &["--workspace=v"]).exits(0);
    }
}

#[test]
fn a_call_that_fails_can_be_rolled_back_and_otherwise_leaves_its_files() {
    let (_guard, home) = scratch();
    write(&home, "a", "before");
    let fail = |options: &[&str]| {
        let input = json!({ "path": "/workspace", "how": "append" });
        let options = [&["--workspace=w", "--max-disk=1MiB"], options].concat();
        let result = call(&home, "hostile#fill_disk", &input, &options).json();
        assert_eq!(result["error"]["error_code"], "disk_limit", "{result:#}");
        changes(&result["workspace"]).len()
    };
    assert_eq!(fail(&["--workspace-rollback"]), 0);
    assert_eq!(paths(&workspace(&home, &["show", "w"])), ["a"]);
    assert_eq!(fail(&[]), 1);
    assert_eq!(paths(&workspace(&home, &["show", "w"])).len(), 2);
}

#[test]
fn a_killed_call_that_can_be_rolled_back_leaves_the_files_of_before() {
    let (_guard, home) = scratch();
    write(&home, "a", "before");
    let tool = guest("hostile#fill_disk");
    let input = json!({ "path": "/workspace", "how": "append" }).to_string();
    let words = [
        "call",
        &tool,
        &input,
        "--workspace=w",
        "--workspace-rollback",
    ];
    let mut child = Toolcell::at(&home, words).spawn();
    let tree = tree(&home);
    while fs::read_dir(&tree).unwrap().count() < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Meanwhile another writer waits for its turn, and gives up.
    let busy = call(
        &home,
        "probe#write",
        &json!({ "path": "a", "text": "x" }),
        &["--workspace=w", "--timeout=200ms"],
    );
    assert_eq!(
        busy.json()["error"]["error_code"],
        "workspace_busy",
        "{busy:?}"
    );
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert_eq!(paths(&workspace(&home, &["show", "w"])), ["a"]);
    assert_eq!(
        probe(&home, "read", &json!({ "path": "a" }))["value"]["text"],
        "before"
    );
}

/// The only workspace's files.
fn tree(home: &Path) -> std::path::PathBuf {
    let mut owners = fs::read_dir(home.join("workspaces")).unwrap();
    owners.next().unwrap().unwrap().path().join("w/tree")
}

#[test]
fn a_name_that_leads_elsewhere_is_refused_and_a_second_folder_at_the_same_place_too() {
    let (_guard, home) = scratch();
    let tool = guest("probe#read");
    for name in ["../other", "/etc", "", ".hidden", "a/b"] {
        let option = format!("--workspace={name}");
        let words = ["call", &tool, "{}", &option];
        let refused = toolcell(&home, &words).exits(2);
        assert!(
            refused.stderr.contains("no name of a workspace"),
            "{name}: {refused:?}"
        );
    }
    assert!(!home.join("workspaces").exists());
    let folder = home.join("folder");
    fs::create_dir(&folder).unwrap();
    let grant = format!("--allow-read={}=/workspace", folder.display());
    let ran = call(
        &home,
        "probe#read",
        &json!({ "path": "a" }),
        &["--workspace=w", &grant],
    );
    assert_eq!(ran.exits(2).json()["error"]["error_code"], "grant_invalid");
}

#[test]
fn a_workspace_that_is_not_used_for_its_time_is_gone() {
    let (_guard, home) = scratch();
    workspace(&home, &["create", "w", "--ttl=1s"]);
    let lock = tree(&home).with_file_name("lock");
    let then = std::time::SystemTime::now() - Duration::from_secs(5);
    fs::File::options()
        .write(true)
        .open(lock)
        .unwrap()
        .set_modified(then)
        .unwrap();
    assert_eq!(workspace(&home, &["list"])["workspaces"], json!([]));
}

/// Kills the program at any moment of a change, again and again: what is there is the state of before, or of after.
#[test]
fn a_change_that_is_killed_leaves_one_of_the_two_states() {
    const KILLS: u64 = 200;
    let (_guard, home) = scratch();
    let fill = |name: &str, text: &str| {
        let folder = home.join(name);
        fs::create_dir(&folder).unwrap();
        for n in 0..20 {
            fs::write(folder.join(format!("f{n}")), format!("{text} {n}")).unwrap();
        }
        let tar = home.join(format!("{name}.tar"));
        let words = [
            "-C",
            folder.to_str().unwrap(),
            "-cf",
            tar.to_str().unwrap(),
            ".",
        ];
        let packed = std::process::Command::new("tar")
            .args(words)
            .status()
            .unwrap();
        assert!(packed.success());
        tar.to_str().unwrap().to_owned()
    };
    let (old, new) = (fill("old", "old"), fill("new", "other"));
    workspace(&home, &["put", "w", &old, "--tar"]);
    workspace(&home, &["snapshot", "w", "old"]);
    workspace(&home, &["put", "w", &new, "--tar"]);
    workspace(&home, &["snapshot", "w", "new"]);
    let sizes = |name: &str| -> Option<Vec<u64>> {
        let ran = toolcell(&home, &["workspace", "show", name, "--json"]);
        if ran.code != Some(0) {
            assert_eq!(
                ran.json()["error"]["error_code"],
                "unknown_workspace",
                "{ran:?}"
            );
            return None;
        }
        let shown = ran.json();
        let files = shown["files"].as_array().unwrap().iter();
        Some(files.map(|file| file["size"].as_u64().unwrap()).collect())
    };
    workspace(&home, &["restore", "w", "old"]);
    let before = sizes("w").unwrap();
    workspace(&home, &["restore", "w", "new"]);
    let after = sizes("w").unwrap();
    assert!(before != after && before.len() == 20);
    let steps: [&[&str]; 6] = [
        &["restore", "w", "old"],
        &["put", "w", &new, "--tar"],
        &["snapshot", "w"],
        &["fork", "w", "fork"],
        &["remove", "fork"],
        &["put", "w", &old, "--tar"],
    ];
    // As long as a change takes on this machine now, and half as long again.
    let began = Instant::now();
    workspace(&home, &["put", "w", &old, "--tar"]);
    let longest = u64::try_from(began.elapsed().as_micros()).unwrap() * 3 / 2;
    let mut random = 7_u64;
    let mut ended = 0;
    for at in 0..KILLS {
        let words = [
            &["workspace"],
            steps[usize::try_from(at).unwrap() % steps.len()],
        ]
        .concat();
        let mut child = Toolcell::at(&home, &words).spawn();
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        std::thread::sleep(Duration::from_micros((random >> 33) % longest));
        let _ = child.kill();
        ended += u64::from(child.wait().unwrap().success());
        let now = sizes("w").unwrap();
        assert!(now == before || now == after, "{words:?}: {now:?}");
        let fork = sizes("fork");
        assert!(
            fork.as_ref()
                .is_none_or(|fork| *fork == before || *fork == after),
            "{fork:?}"
        );
    }
    assert!(
        ended > 0 && ended < KILLS,
        "{ended} of {KILLS} ended before they were killed"
    );
    // Nothing is left of what was begun.
    for id in ["old", "new"] {
        workspace(&home, &["restore", "w", id]);
    }
    let owner = tree(&home).parent().unwrap().parent().unwrap().to_owned();
    workspace(&home, &["create", "last"]);
    let hidden = fs::read_dir(owner).unwrap().flatten();
    let hidden = hidden.filter(|entry| entry.file_name().to_string_lossy().starts_with('.'));
    assert_eq!(hidden.count(), 0);
}

/// What a call is given is narrowed to the folders that its arguments name.
#[test]
fn a_call_within_a_folder_of_the_workspace_is_counted_told_and_rolled_back_too() {
    let (_guard, home) = scratch();
    workspace(&home, &["create", "w", "--quota=100"]);
    let files = super::example("files");
    let write = |path: &str, bytes: usize, options: &[&str]| {
        let tool = format!("{files}#write");
        let input = json!({ "path": path, "text": "x".repeat(bytes) }).to_string();
        let words = [&["call", &tool, &input, "--json", "--workspace=w"], options].concat();
        toolcell(&home, &words).json()
    };
    let first = write("d/a.txt", 10, &[]);
    assert_eq!(changes(&first["workspace"]), [("d/a.txt", "added")]);
    let second = write("d/b.txt", 10, &[]);
    assert_eq!(changes(&second["workspace"]), [("d/b.txt", "added")]);
    for options in [&[][..], &["--workspace-rollback"]] {
        let refused = write("d/large.txt", 5_000, options);
        assert_eq!(
            refused["error"]["error_code"], "workspace_full",
            "{refused:#}"
        );
        let shown = workspace(&home, &["show", "w"]);
        assert!(
            shown["usage"]["bytes"].as_u64().unwrap() <= 100,
            "{shown:#}"
        );
    }
    let rolled_back = workspace(&home, &["show", "w"]);
    let is_draft = |path: &&str| path.contains(".files-");
    assert_eq!(
        paths(&rolled_back).into_iter().filter(is_draft).count(),
        1,
        "{rolled_back:#}"
    );
}
