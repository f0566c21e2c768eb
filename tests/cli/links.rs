//! Symbolic links in folders that tools may write: a grant or a denial means the same at the next call.
//!
//! Promise: A project grants nothing by itself.
//! Promise: A tool does not widen its grants.
//! Promise: Denials hold inside grants.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::guest;
use super::policy::Place;
use crate::support::{Ran, Toolcell, kept, scratch};

const SECRET: &str = "secret-7f31-of-another-user";

/// A folder that tools may write, `work`, beside one that they may not see, `private`.
struct Beside {
    _guard: tempfile::TempDir,
    root: PathBuf,
}

impl Beside {
    fn new() -> Self {
        let (guard, root) = scratch();
        fs::create_dir_all(root.join("work/input")).unwrap();
        fs::create_dir_all(root.join("work/real")).unwrap();
        fs::create_dir(root.join("private")).unwrap();
        fs::write(root.join("private/key"), SECRET).unwrap();
        fs::write(root.join("work/real/key"), SECRET).unwrap();
        fs::write(root.join("work/input/open"), "open").unwrap();
        Self {
            _guard: guard,
            root,
        }
    }

    fn path(&self, name: &str) -> String {
        self.root.join(name).display().to_string()
    }

    /// Calls `probe#tool`, always with the same arguments.
    fn call(&self, options: &[&str], tool: &str, input: &Value) -> Ran {
        let tool = guest(&format!("probe#{tool}"));
        let input = input.to_string();
        let mut arguments = vec!["call", &tool, &input, "--no-config", "--json"];
        arguments.extend(options);
        Toolcell::at(&kept("home"), arguments).dir(&self.root).run()
    }

    /// Whether the tool succeeded; the call itself must succeed.
    fn does(&self, options: &[&str], tool: &str, input: &Value) -> bool {
        let ran = self.call(options, tool, input).exits(0);
        assert!(!ran.stdout.contains(SECRET), "{}", ran.stdout);
        ran.json()["structured_content"]["ok"] == true
    }

    /// Replaces `name` with a link to `to`, as a tool with write access can. The calls have no other grants, because
    /// the folder is missing between the two.
    fn swap(&self, name: &str, to: &str) {
        let from = self.path(name);
        let aside = self.path(&format!("{name}-aside"));
        let options = ["--allow-write=work"];
        assert!(self.does(&options, "rename", &json!({ "from": from, "to": aside })));
        assert!(self.does(&options, "symlink", &json!({ "from": to, "to": from })));
    }

    fn is_refused(&self, options: &[&str], tool: &str, path: &str, words: &[&str]) {
        let ran = self
            .call(options, tool, &json!({ "path": self.path(path) }))
            .exits(3);
        let error = ran.json()["error"].clone();
        assert_eq!(error["error_code"], "grant_leads_through_link", "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    }
}

#[test]
fn a_tool_that_puts_a_link_in_place_of_a_granted_folder_gets_no_more_at_the_next_call() {
    for options in [
        &["--allow-write=work", "--allow-read=work/input"][..],
        &["--allow-read=work/input", "--allow-write=work"],
        &["--allow-write=work", "--allow-write=work/input"],
        &["--allow-write=work", "--allow-read=work/input=/elsewhere"],
        &["--allow-write=work", "--allow-read=work/../work/input"],
    ] {
        let beside = Beside::new();
        assert!(
            beside.does(
                options,
                "read",
                &json!({ "path": beside.path("work/input/open") })
            ),
            "{options:?}"
        );
        beside.swap("work/input", "../private");
        let link = beside.path("work/input");
        beside.is_refused(
            options,
            "read",
            "work/input/key",
            &[&link, "--allow-write=work", &beside.path("private")],
        );
        beside.is_refused(options, "read", "work/real/key", &[]);
        // A link in the middle of a path is refused like one at the end.
        let deeper = beside.path("work/input/deeper");
        fs::create_dir(beside.root.join("private/deeper")).unwrap();
        let options = ["--allow-write=work", &format!("--allow-read={deeper}")];
        beside.is_refused(&options, "read", "work/input/deeper/key", &[&link]);
        // The link's target can be granted by its own path.
        let named = format!("--allow-read={}", beside.path("private"));
        let ran = beside.call(
            &["--allow-write=work", &named],
            "read",
            &json!({ "path": beside.path("private/key") }),
        );
        assert!(ran.exits(0).stdout.contains(SECRET));
    }
}

#[test]
fn links_above_what_tools_may_write_are_followed() {
    let beside = Beside::new();
    symlink("work", beside.root.join("home")).unwrap();
    let options = ["--allow-write=home", "--allow-read=home/input"];
    assert!(beside.does(
        &options,
        "read",
        &json!({ "path": beside.path("work/input/open") })
    ));
}

#[test]
fn policy_check_says_the_same_of_a_link() {
    let beside = Beside::new();
    let options = ["--allow-write=work", "--allow-read=work/input"];
    beside.swap("work/input", "../private");
    let tool = guest("probe#read");
    let input = json!({ "path": beside.path("work/input/key") }).to_string();
    for explain in [&[][..], &["--explain"][..]] {
        let call = ["policy", "check", &tool, &input, "--no-config", "--json"];
        let ran = Toolcell::at(&kept("home"), [&call[..], &options, explain].concat())
            .dir(&beside.root)
            .run()
            .exits(3);
        assert_eq!(
            ran.json()["error"]["error_code"],
            "grant_leads_through_link"
        );
    }
}

#[test]
fn a_denial_that_leads_through_a_link_cannot_be_led_elsewhere() {
    for denial in [
        "--deny-read=work/link",
        "--deny-write=work/link",
        "--deny-read=work/input/../real",
    ] {
        let beside = Beside::new();
        symlink("real", beside.root.join("work/link")).unwrap();
        let options = ["--allow-write=work", denial];
        for name in ["link", "input", "real"] {
            let held = if denial.contains("..") {
                name != "link"
            } else {
                name != "input"
            };
            let from = beside.path(&format!("work/{name}"));
            let to = beside.path("work/aside");
            let moved = beside.does(&options, "rename", &json!({ "from": from, "to": to }));
            assert_eq!(moved, !held, "{denial}: {name}");
            if held {
                assert!(
                    !beside.does(&options, "remove", &json!({ "path": from })),
                    "{denial}: {name}"
                );
                let over = json!({ "from": beside.path("work/input/open"), "to": from });
                assert!(!beside.does(&options, "rename", &over), "{denial}: {name}");
            } else {
                fs::rename(to, from).unwrap();
            }
        }
        let changed = json!({ "path": beside.path("work/real/key"), "text": "changed" });
        assert!(!beside.does(&options, "write", &changed), "{denial}");
        if denial.contains("read") {
            assert!(
                !beside.does(
                    &options,
                    "read",
                    &json!({ "path": beside.path("work/real/key") })
                ),
                "{denial}"
            );
        }
    }
}

#[test]
fn a_rule_over_a_path_cannot_be_led_elsewhere_either() {
    let rule =
        |behavior: &str| format!("[[rule]]\nbehavior = \"{behavior}\"\npath = \"work/link/**\"\n");
    let beside = Beside::new();
    symlink("real", beside.root.join("work/link")).unwrap();
    fs::write(beside.root.join("rules.toml"), rule("deny")).unwrap();
    let call = |tool: &str, input: &Value| {
        let tool = guest(&format!("probe#{tool}"));
        let input = input.to_string();
        let options = ["--allow-write=work", "--config=rules.toml", "--json"];
        let mut arguments = vec!["call", &tool, &input];
        arguments.extend(options);
        Toolcell::at(&kept("home"), arguments)
            .dir(&beside.root)
            .run()
    };
    let link = json!({ "path": beside.path("work/link") });
    assert_eq!(
        call("remove", &link).exits(0).json()["structured_content"]["ok"],
        false
    );
    let read = call("read", &json!({ "path": beside.path("work/real/key") })).exits(0);
    assert!(!read.stdout.contains(SECRET), "{}", read.stdout);
    // An allow rule through a link that tools can change allows nothing.
    fs::write(beside.root.join("rules.toml"), rule("allow")).unwrap();
    let tool = guest("probe#read");
    let input = json!({ "path": beside.path("work/real/key") }).to_string();
    let arguments = [
        "policy",
        "check",
        "--explain",
        &tool,
        &input,
        "--allow-write=work",
        "--config=rules.toml",
        "--json",
    ];
    let explained = Toolcell::at(&kept("home"), arguments)
        .dir(&beside.root)
        .run()
        .exits(0)
        .json();
    assert_eq!(explained["rules"][0]["matched"], false, "{explained}");
    assert!(
        explained["rules"][0]["why"]
            .as_str()
            .unwrap()
            .contains("work/link"),
        "{explained}"
    );
}

#[test]
fn a_link_that_is_closed_by_its_name_is_closed_wherever_it_leads() {
    let beside = Beside::new();
    fs::create_dir(beside.root.join("work/config")).unwrap();
    fs::write(beside.root.join("work/config/settings"), SECRET).unwrap();
    symlink("config/settings", beside.root.join("work/.env")).unwrap();
    symlink(".env", beside.root.join("work/other")).unwrap();
    fs::write(
        beside.root.join("rules.toml"),
        "[[rule]]\nbehavior = \"deny\"\npath = \"**/.env\"\n",
    )
    .unwrap();
    let call = |tool: &str, name: &str| {
        let mut input = json!({ "path": beside.path(name) });
        if tool.ends_with("write") || tool.ends_with("append") {
            input["text"] = "changed".into();
        }
        let input = input.to_string();
        let arguments = [
            "call",
            tool,
            &input,
            "--allow-write=work",
            "--config=rules.toml",
            "--json",
        ];
        Toolcell::at(&kept("home"), arguments)
            .dir(&beside.root)
            .run()
    };
    for name in ["work/.env", "work/other"] {
        for tool in ["read", "write", "append"] {
            let ran = call(&guest(&format!("probe#{tool}")), name).exits(0);
            assert_eq!(
                ran.json()["structured_content"]["ok"],
                false,
                "{tool} {name}"
            );
        }
        // A tool that declares which argument is a path is not even started.
        let named = call(&guest("probe#read_named"), name).exits(3);
        assert_eq!(named.json()["error"]["error_code"], "denied_by_rule");
    }
    let listed = call(&guest("probe#list"), "work").exits(0).json()["structured_content"]["value"]
        .to_string();
    assert!(
        listed.contains("other") && listed.contains("config"),
        "{listed}"
    );
    assert_eq!(
        fs::read_to_string(beside.root.join("work/config/settings")).unwrap(),
        SECRET
    );
}

#[test]
fn a_closed_link_behind_more_names_than_toolcell_counts_is_closed_as_well() {
    const LINKS: usize = 12;
    let beside = Beside::new();
    fs::create_dir_all(beside.root.join("work/d")).unwrap();
    symlink("real/key", beside.root.join("work/.env")).unwrap();
    // Each link holds 390 path components, because the kernel limits links, not components.
    for at in 1..=LINKS {
        let next = if at == LINKS {
            ".env".to_owned()
        } else {
            format!("link-{}", at + 1)
        };
        symlink(
            format!("{}{next}", "d/../".repeat(195)),
            beside.root.join(format!("work/link-{at}")),
        )
        .unwrap();
    }
    fs::write(
        beside.root.join("rules.toml"),
        "[[rule]]\nbehavior = \"deny\"\npath = \"**/.env\"\n",
    )
    .unwrap();
    let path = beside.path("work/link-1");
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        SECRET,
        "the kernel follows them all"
    );
    let tool = guest("probe#read");
    let input = json!({ "path": path }).to_string();
    let arguments = [
        "call",
        &tool,
        &input,
        "--allow-write=work",
        "--config=rules.toml",
        "--json",
    ];
    let ran = Toolcell::at(&kept("home"), arguments)
        .dir(&beside.root)
        .run()
        .exits(0);
    assert_eq!(ran.json()["structured_content"]["ok"], false);
    assert!(!ran.stdout.contains(SECRET), "{}", ran.stdout);
}

#[test]
fn a_hook_and_a_tool_cannot_widen_each_others_grants() {
    let beside = Beside::new();
    let hook = crate::support::fixture("hooks");
    let of_hook = |grants: &str| {
        let entry =
            format!("[[hook]]\ncomponent = {hook:?}\ntimeout = \"20s\"\ngrants = {{ {grants} }}\n");
        fs::write(beside.root.join("hook.toml"), entry).unwrap();
    };
    let call = |option: &str| {
        let tool = guest("probe#list");
        let input = json!({ "path": beside.path("work") }).to_string();
        let arguments = [
            "call",
            &tool,
            &input,
            option,
            "--config=hook.toml",
            "--json",
        ];
        Toolcell::at(&kept("home"), arguments)
            .dir(&beside.root)
            .run()
    };
    fs::rename(
        beside.root.join("work/input"),
        beside.root.join("work/aside"),
    )
    .unwrap();
    symlink("../private", beside.root.join("work/input")).unwrap();
    of_hook("write = [\"work\"]");
    let error = call("--allow-read=work/input").exits(3).json()["error"].clone();
    assert_eq!(error["error_code"], "grant_leads_through_link", "{error}");
    of_hook("read = [\"work/input\"]");
    let ran = call("--allow-write=work").exits(3);
    assert!(
        ran.stderr.contains("leads through the link"),
        "{}",
        ran.stderr
    );
    call("--allow-read=work").exits(0);
}

/// Reads `path` with `files#read`.
fn read(place: &Place, path: &str) -> Ran {
    let tool = format!("{}#read", super::example("files"));
    let input = json!({ "path": path }).to_string();
    place.run(&["call", &tool, &input, "--json"])
}

fn error(ran: &Ran) -> (String, String) {
    let error = ran.json()["error"].clone();
    (
        error["error_code"].as_str().unwrap().to_owned(),
        error["message"].as_str().unwrap().to_owned(),
    )
}

fn linked(target: &Path, link: &Path) {
    let _ = fs::remove_dir_all(link);
    let _ = fs::remove_file(link);
    symlink(target, link).unwrap();
}

#[test]
fn a_trusted_project_that_puts_a_link_in_place_of_its_folder_is_refused() {
    let place = Place::new()
        .project("[grants]\nread = [\"src\"]\n")
        .trusted();
    read(&place, "src/a.txt").exits(0);
    let private = place.project.parent().unwrap().join("private");
    fs::create_dir(&private).unwrap();
    fs::write(private.join("a.txt"), SECRET).unwrap();
    linked(&private, &place.project.join("src"));
    let refused = read(&place, "src/a.txt").exits(3);
    assert!(!refused.stdout.contains(SECRET));
    let (code, message) = error(&refused);
    assert_eq!(code, "policy_unreadable");
    let link = place.project.join("src").display().to_string();
    assert!(
        message.contains(&link) && message.contains(&private.display().to_string()),
        "{message}"
    );
    assert!(message.contains("line 2"), "{message}");
    // The project cannot be trusted in this state, either.
    assert!(place.run(&["trust"]).exits(2).stderr.contains(&link));
}

#[test]
fn a_trusted_project_whose_words_lead_elsewhere_than_when_it_was_trusted_asks_again() {
    let place = Place::new();
    let around = place.project.parent().unwrap().to_owned();
    for name in ["one", "two"] {
        fs::create_dir(around.join(name)).unwrap();
        fs::write(around.join(name).join("a.txt"), name).unwrap();
    }
    linked(&around.join("one"), &around.join("shared"));
    let place = place
        .project("[grants]\nread = [\"../shared\"]\n")
        .trusted();
    let path = |name: &str| around.join(name).join("a.txt").display().to_string();
    assert!(read(&place, &path("one")).exits(0).stdout.contains("one"));
    linked(&around.join("two"), &around.join("shared"));
    let (code, message) = error(&read(&place, &path("two")).exits(3));
    assert_eq!(code, "project_not_trusted");
    assert!(
        message.contains("../shared") && message.contains("toolcell trust"),
        "{message}"
    );
    place.run(&["trust"]).exits(0);
    assert!(read(&place, &path("two")).exits(0).stdout.contains("two"));
}

#[test]
fn a_project_whose_file_is_a_link_does_not_get_what_another_one_was_granted() {
    let place = Place::new()
        .project("[grants]\nread = [\"src\"]\n")
        .trusted();
    let stranger = place.project.parent().unwrap().join("stranger");
    fs::create_dir(&stranger).unwrap();
    symlink(
        place.project.join("toolcell.toml"),
        stranger.join("toolcell.toml"),
    )
    .unwrap();
    let tool = format!("{}#read", super::example("files"));
    let input = json!({ "path": place.project.join("src/a.txt") }).to_string();
    let refused = place
        .run_in(&stranger, &["call", &tool, &input, "--json"])
        .exits(3);
    let (code, message) = error(&refused);
    assert_eq!(code, "policy_unreadable");
    assert!(
        message.contains("is a link") && message.contains("--config="),
        "{message}"
    );
    assert!(
        place
            .run_in(&stranger, &["trust"])
            .exits(2)
            .stderr
            .contains("is a link")
    );
}
