//! Every command in the `sh` blocks of the README is run as it stands. Those of `docs/worlds.md` are about components that are
//! not in this repository, so their options are checked.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::json;
use toolcell::Home;
use toolcell_cli::config::ConfigFile;

use crate::support::{Client, Toolcell, build_in, component, root, scratch};

use super::BUILDING;
use super::clients::{CLIENTS, started, tools};

const CARGO_RUN: &str = "cargo run -- ";
/// Prefixes of lines that are not run here: they set up, or they run these tests. The tests of the library run its
/// examples.
/// `tests/clients/amplifier/run` installs the Python package.
const SKIPPED: [&str; 6] =
    ["cargo test", "cargo install", "cargo run --example", "git clone", "export ", "pip install ./clients/amplifier"];

struct Line {
    /// The line in the README.
    text: String,
    /// The line for the shell, with the program's bare name, whatever its path.
    command: String,
    /// The exit code that a comment promises: `# refused, exit 3`.
    exit: i32,
}

#[derive(Debug, PartialEq)]
enum Kind {
    Run,
    Enter(String),
    Skip,
}

impl Line {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            return None;
        }
        let comment = text.rsplit_once(" # ").map_or("", |(_, comment)| comment);
        let exit = comment.rsplit_once("exit ").map_or(0, |(_, code)| code.trim().parse().unwrap());
        let command = match text.strip_prefix(CARGO_RUN) {
            Some(rest) => format!("toolcell {rest}"),
            None => text.to_owned(),
        };
        Some(Self { text: text.to_owned(), command, exit })
    }

    fn kind(&self) -> Kind {
        match self.command.split_once(' ') {
            Some(("toolcell", _)) => Kind::Run,
            Some(("cd", folder)) => Kind::Enter(folder.to_owned()),
            _ => {
                assert!(SKIPPED.iter().any(|start| self.text.starts_with(start)), "what is `{}`?", self.text);
                Kind::Skip
            }
        }
    }
}

/// The `sh` blocks of a text, line by line.
fn blocks(markdown: &str) -> Vec<Vec<Line>> {
    let parts = markdown.split("```sh\n").skip(1);
    parts.map(|part| part.split("```").next().unwrap().lines().filter_map(Line::parse).collect()).collect()
}

/// Runs one line in a shell in which `toolcell` is the program of this build, with its state in `home`.
fn output(line: &Line, dir: &Path, home: &Path) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_toolcell")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    Command::new("sh")
        .args(["-c", &line.command])
        .current_dir(dir)
        .env("PATH", path)
        .env("TOOLCELL_HOME", home)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Runs one line with the user's state. Returns what it prints.
fn run(line: &Line, dir: &Path) -> String {
    let output = output(line, dir, Home::find().unwrap().folder());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(line.exit), "{}\n{said}", line.text);
    assert!(line.exit != 0 || !output.stdout.is_empty(), "{} says nothing", line.text);
    String::from_utf8(output.stdout).unwrap()
}

/// A block that creates a tool runs in a separate folder, every other one in the checkout.
fn run_block(lines: &[Line]) -> usize {
    let starts = lines.iter().any(|line| line.command.starts_with("toolcell new "));
    let _turn = BUILDING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (_guard, place) = scratch();
    let mut dir: PathBuf = if starts { place } else { root() };
    let mut commands = 0;
    for line in lines {
        match line.kind() {
            Kind::Skip => {}
            Kind::Enter(folder) => dir = dir.join(folder).canonicalize().unwrap(),
            Kind::Run => {
                run(line, &dir);
                commands += 1;
            }
        }
    }
    commands
}

/// Builds example tools beforehand, with the user's state, and not at the same time as other tests.
fn built_by_the_user(examples: &[&str]) {
    for example in examples.iter().map(|example| format!("example-tools/{example}")) {
        component(&example);
        build_in(&example, &Home::find().unwrap());
    }
}

/// Runs the commands in the README of an example tool, in the checkout. Returns what each prints.
pub(super) fn commands_of(tool: &str) -> Vec<String> {
    let readme = std::fs::read_to_string(root().join(tool).join("README.md")).unwrap();
    let _turn = BUILDING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    blocks(&readme).iter().flatten().map(|line| run(line, &root())).collect()
}

#[test]
fn every_command_of_the_readme_does_what_it_says() {
    built_by_the_user(&["fetch", "files", "jq", "patch", "ticker"]);
    let markdown = std::fs::read_to_string(root().join("README.md")).unwrap();
    let commands: usize = blocks(&markdown).iter().map(|block| run_block(block)).sum();
    assert!(commands >= 5, "only {commands} commands were found");
}

#[test]
fn the_toolcell_toml_of_the_readme_is_understood_and_does_what_it_says() {
    let markdown = std::fs::read_to_string(root().join("README.md")).unwrap();
    let texts: Vec<&str> = markdown.split("```toml\n").skip(1).map(|part| part.split("```").next().unwrap()).collect();
    assert_eq!(texts.len(), 5);
    let (_guard, folder) = scratch();
    for made in ["src/secrets", "docs"] {
        std::fs::create_dir_all(folder.join(made)).unwrap();
    }
    std::fs::write(folder.join("src/.env"), "x").unwrap();
    std::fs::write(folder.join("config.toml"), texts[0]).unwrap();
    let tool = format!("{}#read", component("example-tools/files").display());
    let check = |path: &str| {
        let input = serde_json::json!({ "path": path }).to_string();
        Toolcell::new(["policy", "check", &tool, &input, "--config=config.toml"]).dir(&folder).run()
    };
    check("docs").exits(0);
    let denied = check("src/.env").exits(3);
    assert!(denied.stdout.contains("tools have no business there"), "{}", denied.stdout);
    check("src/secrets/key").exits(3);
}

#[test]
fn the_telemetry_of_the_readme_is_understood() {
    let markdown = std::fs::read_to_string(root().join("README.md")).unwrap();
    let texts: Vec<&str> = markdown.split("```toml\n").map(|part| part.split("```").next().unwrap()).collect();
    let whole = texts.into_iter().find(|text| text.starts_with("[telemetry]")).unwrap();
    let line = markdown.lines().find_map(|line| line.split('`').find(|code| code.starts_with("telemetry.export")));
    for (text, arguments) in [(whole, Some(true)), (line.unwrap(), None)] {
        let said = ConfigFile::parse(text, Path::new("/")).unwrap().telemetry;
        assert_eq!((said.export, said.arguments), (Some(true), arguments), "{text}");
    }
}

#[test]
fn the_journal_of_the_readme_is_for_the_users_own_file() {
    let markdown = std::fs::read_to_string(root().join("README.md")).unwrap();
    let text = markdown.split("```toml\n").find(|part| part.starts_with("[journal]")).unwrap();
    let (_guard, home) = scratch();
    std::fs::write(home.join("toolcell.toml"), text.split("```").next().unwrap()).unwrap();
    let echo = component("tests/guests/probe").display().to_string() + "#echo";
    Toolcell::at(&home, ["call", &echo, r#"{"text": "x"}"#, "--no-config"]).run().exits(0);
    Toolcell::at(&home, ["call", &echo, r#"{"text": "x"}"#]).run().exits(0);
    let listed = Toolcell::at(&home, ["calls", "--json"]).run().exits(0).json();
    assert_eq!(listed["calls"].as_array().unwrap().len(), 2);
    let doctor = Toolcell::at(&home, ["doctor", "--json"]).run().json();
    let said = doctor["checks"].as_array().unwrap().iter().find(|check| check["subject"] == "journal").unwrap();
    assert!(said["detail"].as_str().unwrap().contains("1024 MiB for 90 days"), "{said}");
    let of_a_project = format!("--config={}", home.join("toolcell.toml").display());
    let refused = Toolcell::at(&home, ["call", &echo, r#"{"text": "x"}"#, &of_a_project]).run().exits(3);
    assert!(refused.stderr.contains("[journal] is for your own"), "{}", refused.stderr);
}

#[test]
fn the_tools_of_the_readme_are_served() {
    let markdown = std::fs::read_to_string(root().join("README.md")).unwrap();
    let text =
        markdown.split("```toml\n").find(|part| part.contains("\n[[tool]]")).unwrap().split("```").next().unwrap();
    let (_guard, folder) = scratch();
    std::fs::create_dir(folder.join("src")).unwrap();
    std::fs::copy(component("example-tools/jq"), folder.join("jq.wasm")).unwrap();
    std::fs::write(folder.join("config.toml"), text).unwrap();
    let mut client = Client::run(Toolcell::new(["mcp", "--config=config.toml"]).dir(&folder));
    client.initialize("2025-11-25");
    let answer = client.call("jq", serde_json::json!({ "filter": ".a", "input": { "a": 1 } }));
    assert_eq!(answer["isError"], serde_json::json!(false), "{answer:#}");
}

#[test]
fn what_the_readme_has_clients_start_offers_the_tools_that_it_names() {
    built_by_the_user(&["files", "jq"]);
    let markdown = std::fs::read_to_string(root().join("README.md")).unwrap();
    let lines: Vec<Line> = blocks(&markdown).into_iter().flatten().collect();
    let printing: Vec<&Line> = lines.iter().filter(|line| line.command.contains("--print-config=")).collect();
    assert!(printing.len() >= 2, "only {} lines were found", printing.len());
    for line in printing {
        let name = line.command.rsplit_once("--print-config=").unwrap().1;
        let key = CLIENTS.iter().find(|(client, _)| *client == name).unwrap().1;
        let printed: serde_json::Value = serde_json::from_str(&run(line, &root())).unwrap();
        let mut client = started(&printed[key]["toolcell"]);
        let offered = tools(&mut client);
        assert!(offered.contains(&"jq".to_owned()), "{offered:?}");
        let answer = client.call("jq", json!({ "filter": ".a", "input": { "a": 7 } }));
        assert_eq!(answer["isError"], json!(false), "{answer:#}");
        if line.command.contains("example-tools/files --allow-read=.") {
            let path = root().join("README.md");
            let answer = client.call("read", json!({ "path": path }));
            assert!(answer.to_string().contains("toolcell"), "{answer:#}");
        }
    }
}

#[test]
fn the_hook_of_the_readme_runs_as_it_says() {
    let markdown = std::fs::read_to_string(root().join("README.md")).unwrap();
    let text = markdown.split("```toml\n").find(|part| part.starts_with("[[hook]]")).unwrap();
    let (_guard, folder) = scratch();
    std::fs::create_dir(folder.join("rules")).unwrap();
    std::fs::write(folder.join("note"), "see /home/ada/plans").unwrap();
    let hook = component("example-tools/redact-paths");
    let text = text.split("```").next().unwrap().replace("example-tools/redact-paths", hook.to_str().unwrap());
    std::fs::write(folder.join("config.toml"), text).unwrap();
    let tool = format!("{}#read", component("example-tools/files").display());
    let call = ["call", &tool, "{\"path\": \"note\"}", "--allow-read=.", "--config=config.toml"];
    let ran = Toolcell::new(call).dir(&folder).run().exits(0);
    assert!(ran.stdout.contains("plans") && !ran.stdout.contains("ada"), "{}", ran.stdout);
}

#[test]
fn the_hook_that_the_readme_shows_stops_dotfiles_wherever_they_lie() {
    let markdown = std::fs::read_to_string(root().join("README.md")).unwrap();
    let shown = markdown.split("```rust\n").find(|part| part.contains("#[hook(")).unwrap();
    let shown = shown.split("```").next().unwrap();
    let source = std::fs::read_to_string(root().join("example-tools/no-dotfiles/src/lib.rs")).unwrap();
    assert!(source.ends_with(shown), "the README shows another hook than example-tools/no-dotfiles");
    let (_guard, folder) = scratch();
    for name in [".env", "sub/.env", ".git/config", "sub/note.txt", "a.b"] {
        std::fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
        std::fs::write(folder.join(name), "what is in it").unwrap();
    }
    let entry = format!("[[hook]]\ncomponent = {:?}\ntimeout = \"20s\"\n", component("example-tools/no-dotfiles"));
    std::fs::write(folder.join("config.toml"), entry).unwrap();
    let tool = format!("{}#read", component("example-tools/files").display());
    let read = |path: &str| {
        let input = serde_json::json!({ "path": path }).to_string();
        Toolcell::new(["call", &tool, &input, "--allow-read=.", "--config=config.toml"]).dir(&folder).run()
    };
    for hidden in [".env", "./.env", "sub/.env", "sub/../.env", ".git/config"] {
        assert!(read(hidden).exits(3).stderr.contains("dotfiles are private"), "{hidden}");
    }
    for open in ["sub/note.txt", "./sub/note.txt", "sub/../a.b"] {
        assert!(read(open).exits(0).stdout.contains("what is in it"), "{open}");
    }
}

#[test]
fn the_commands_of_the_page_about_worlds_have_the_arguments_and_options_that_they_name() {
    let page = std::fs::read_to_string(root().join("docs/worlds.md")).unwrap().replace("\\\n", " ");
    let lines: Vec<Line> = blocks(&page).into_iter().flatten().collect();
    assert!(lines.len() >= 8, "only {} commands were found", lines.len());
    let (_guard, folder) = scratch();
    let home = folder.join("home");
    std::fs::create_dir(&home).unwrap();
    for line in lines {
        assert_eq!(line.kind(), Kind::Run, "{}", line.text);
        let ran = output(&line, &folder, &home);
        let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        // The component is missing. What the parser of the command line refuses, it answers with the usage.
        assert_eq!(ran.status.code(), Some(2), "{}\n{said}", line.text);
        let component = line.command.split([' ', '#']).find(|word| word.ends_with(".wasm")).unwrap();
        assert!(!said.contains("Usage:") && said.contains(component), "{}\n{said}", line.text);
    }
}

#[test]
fn lines_of_a_readme_are_understood() {
    let found = blocks(
        "x\n```sh\ncargo run -- call a '{}'  # refused, exit 3\ncd b\n\n# why\ncargo test\n```\n```rust\ntoolcell\n```\n",
    );
    assert_eq!(found.len(), 1);
    let [call, enter, skip] = found.into_iter().next().unwrap().try_into().ok().unwrap();
    assert_eq!((call.kind(), call.exit), (Kind::Run, 3));
    assert!(call.command.starts_with("toolcell call a '{}'"));
    assert_eq!(enter.kind(), Kind::Enter("b".to_owned()));
    assert_eq!((skip.kind(), skip.exit), (Kind::Skip, 0));
}

#[test]
#[should_panic(expected = "what is `rm -rf /`?")]
fn a_line_that_nobody_knows_is_not_passed_over() {
    Line::parse("rm -rf /").unwrap().kind();
}
