//! Every command in the `sh` blocks of the README and of the book is run as it stands, in the order of a reader. Those of `docs/worlds.md` are about
//! components that are not in this repository, so their options are checked; `cli::guides` runs the guides.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use toolcell::Home;
use toolcell_config::ConfigFile;

use crate::support::{Client, Toolcell, build_in, component, root, scratch};

use super::BUILDING;
use super::book::pages;
use super::clients::{CLIENTS, started, tools};
use super::guides::FETCHING;

const CARGO_RUN: &str = "cargo run -- ";
/// Prefixes of lines that are not run here: they set up, or they run these tests. The tests of the library run its
/// examples.
/// `tests/clients/amplifier/run` installs the Python package.
const SKIPPED: [&str; 6] = [
    "cargo test",
    "cargo install",
    "cargo run --example",
    "git clone",
    "export ",
    "pip install ./clients/amplifier",
];

/// The page whose commands are about components that are not in this repository.
const OF_OTHERS: &str = "docs/worlds.md";
/// The pages that `cli::guides` runs.
const GUIDES: &str = "docs/guides/";

/// Blocks with commands that are not run as they stand: the page, the first command, and the reason.
const NOT_RUN: [(&str, &str, &str); 18] = [
    (
        "README.md",
        "toolcell connect claude-code example-tools/jq example-tools/files --allow-read=.",
        "a test of its own starts what it would write",
    ),
    (
        "docs/bundles.md",
        "$ toolcell bundle example-tools/files --ask-read=\"Notes\" --timeout=5s --author=\"Ada\" -o notes.mcpb",
        "cli::bundle runs the commands of the pages",
    ),
    (
        "docs/bundles.md",
        "$ toolcell bundle example-tools/jq --author=\"Ada\" --bundle-version=1.0.0 -o jq-mcp.mcpb --server-json=server.json \
         --server-name=io.github.ada/jq --url=https://github.com/ada/jq/releases/download/v1.0.0/jq-mcp.mcpb",
        "cli::bundle runs the commands of the pages",
    ),
    (
        "docs/dialects/http.md",
        "toolcell serve example-tools/jq",
        "server::http_api sends its request",
    ),
    (
        "docs/install.md",
        "toolcell install https://example.org/jq.wasm     # or ./jq.wasm, or a source folder that is built",
        "cli::install installs from servers of its own",
    ),
    (
        "docs/operators/approvals.md",
        "toolcell approvals list",
        "cli::approvals answers questions of calls that wait",
    ),
    (
        "docs/operators/cluster.md",
        "toolcell work jq.wasm",
        "tests/cluster starts servers, gateways and workers",
    ),
    (
        "docs/operators/cluster.md",
        "toolcell cluster approvals",
        "tests/cluster answers questions of calls that wait",
    ),
    (
        "docs/operators/managed-agents.md",
        "(umask 077; cat > environment.key)     # paste the key, then Ctrl-D",
        "tests/managed starts workers with a fake of the API",
    ),
    (
        "docs/operators/page.md",
        "toolcell inspect",
        "cli::inspect opens the page",
    ),
    (
        "docs/operators/principals.md",
        "toolcell policy check files#read path=/srv/projects/bert/a.txt --principal=anna --explain",
        "server::principals asks about principals of its own",
    ),
    (
        "docs/operators/secrets.md",
        "toolcell secrets set API_KEY",
        "cli::secrets sets a secret of its own",
    ),
    (
        "docs/operators/serving.md",
        "toolcell connect claude-code example-tools/jq example-tools/files --allow-read=.",
        "a test of its own starts what it would write",
    ),
    (
        "docs/packages.md",
        "$ toolcell call jq '{\"filter\": \"map(.n) | add\", \"input\": [{\"n\": 1}, {\"n\": 2}]}'",
        "dist/check makes it from each package",
    ),
    (
        "docs/publishing.md",
        "$ toolcell new word-count",
        "cli::check looks at tools of its own",
    ),
    (
        "docs/signatures.md",
        "toolcell sign jq.wasm --key cosign.key",
        "cli::signatures signs with keys of its own",
    ),
    (
        "docs/signatures.md",
        "toolcell verify jq.wasm",
        "cli::signatures verifies what it signed",
    ),
    (
        "docs/start.md",
        "$ toolcell new hello --lang python",
        "cli::languages begins a tool in each language",
    ),
];

/// A block of commands.
struct Block {
    lines: Vec<Line>,
    /// Lines that the page shows directly below: output of the last command.
    shown: Vec<String>,
}

pub(super) struct Line {
    /// The line in the page.
    text: String,
    /// The line for the shell, with the program's bare name, whatever its path.
    pub(super) command: String,
    /// The exit code that a comment promises: `# refused, exit 3`.
    pub(super) exit: i32,
}

#[derive(Debug, PartialEq)]
enum Kind {
    Run,
    Enter(String),
    Skip,
}

impl Line {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            return None;
        }
        let comment = text.rsplit_once(" # ").map_or("", |(_, comment)| comment);
        let exit = comment
            .rsplit_once("exit ")
            .map_or(0, |(_, code)| code.trim().parse().unwrap());
        let command = match text.strip_prefix(CARGO_RUN) {
            Some(rest) => format!("toolcell {rest}"),
            None => text.to_owned(),
        };
        Some(Self {
            text: text.to_owned(),
            command,
            exit,
        })
    }

    fn kind(&self) -> Kind {
        match self.command.split_once(' ') {
            Some(("toolcell", _)) => Kind::Run,
            Some(("cd", folder)) => Kind::Enter(folder.to_owned()),
            _ => {
                assert!(
                    SKIPPED.iter().any(|start| self.text.starts_with(start)),
                    "what is `{}`?",
                    self.text
                );
                Kind::Skip
            }
        }
    }
}

/// The `sh` blocks of a text.
fn blocks(markdown: &str) -> Vec<Block> {
    let block = |part: &str| {
        let (commands, rest) = part.split_once("```").unwrap();
        let shown = rest
            .strip_prefix("\n\n```text\n")
            .and_then(|shown| shown.split("```").next())
            .unwrap_or_default();
        Block {
            lines: commands.lines().filter_map(Line::parse).collect(),
            shown: shown.lines().map(str::to_owned).collect(),
        }
    };
    markdown.split("```sh\n").skip(1).map(block).collect()
}

/// All commands in the `sh` blocks of a text.
fn commands(markdown: &str) -> Vec<Line> {
    blocks(markdown)
        .into_iter()
        .flat_map(|block| block.lines)
        .collect()
}

/// The text of a page.
fn page(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// The only `toml` block of a page that starts with `start`.
fn toml(path: &str, start: &str) -> String {
    let page = page(path);
    let texts = page
        .split("```toml\n")
        .skip(1)
        .map(|part| part.split("```").next().unwrap());
    let mut found = texts.filter(|text| text.starts_with(start));
    let text = found
        .next()
        .unwrap_or_else(|| panic!("{path} has no such block"));
    assert!(found.next().is_none(), "{path} has several such blocks");
    text.to_owned()
}

/// A `PATH` with the program of this build.
pub(super) fn on_path() -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_toolcell")).parent().unwrap();
    format!("{}:{}", program.display(), std::env::var("PATH").unwrap())
}

/// Runs one line in a shell in which `toolcell` is the program of this build, with its state in `home`.
fn output(line: &Line, dir: &Path, home: &Path) -> Output {
    Command::new("sh")
        .args(["-c", &line.command])
        .current_dir(dir)
        .env("PATH", on_path())
        .env("TOOLCELL_HOME", home)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Runs one line with the user's state. Returns what it prints on both streams.
fn run(line: &Line, dir: &Path) -> (String, String) {
    run_at(Home::find().unwrap().folder(), line, dir)
}

/// Runs one line with its state in `home`.
fn run_at(home: &Path, line: &Line, dir: &Path) -> (String, String) {
    let output = output(line, dir, home);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        output.status.code(),
        Some(line.exit),
        "{}\n{said}",
        line.text
    );
    assert!(
        line.exit != 0 || !output.stdout.is_empty(),
        "{} says nothing",
        line.text
    );
    (String::from_utf8(output.stdout).unwrap(), said)
}

/// The state of a new user, whose toolchain is that of this machine: nothing is built yet, and no tool is trusted.
pub(super) fn new_user(home: &Path) {
    let cache = Home::find().unwrap().cache();
    std::fs::create_dir(home.join("cache")).unwrap();
    // What compilers keep saves time, and changes nothing of what a command does.
    for shared in ["toolchain", "builds"] {
        std::fs::create_dir_all(cache.join(shared)).unwrap();
        std::os::unix::fs::symlink(cache.join(shared), home.join("cache").join(shared)).unwrap();
    }
}

/// The pages in the order of a reader: the README, then those of the summary.
fn in_order() -> Vec<(String, String)> {
    let summary = page("docs/SUMMARY.md");
    let place = |path: &str| {
        path.strip_prefix("docs/")
            .map_or(Some(0), |rest| summary.find(&format!("({rest})")))
    };
    let mut pages = pages();
    pages.sort_by_key(|(path, _)| place(path));
    pages
}

/// A block that creates a tool runs in a separate folder, every other one in the checkout.
fn run_block(block: &Block, home: &Path) -> usize {
    let lines = &block.lines;
    let starts = lines
        .iter()
        .any(|line| line.command.starts_with("toolcell new "));
    let _turn = BUILDING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let (_guard, place) = scratch();
    let mut dir: PathBuf = if starts { place } else { root() };
    let mut commands = 0;
    let mut printed = String::new();
    for line in lines {
        match line.kind() {
            Kind::Skip => {}
            Kind::Enter(folder) => dir = dir.join(folder).canonicalize().unwrap(),
            Kind::Run => {
                let (stdout, stderr) = run_at(home, line, &dir);
                printed = stdout + &stderr;
                commands += 1;
            }
        }
    }
    for line in &block.shown {
        assert!(
            printed.lines().any(|known| known == line),
            "{line}\nis not in\n{printed}"
        );
    }
    commands
}

/// Builds example tools beforehand, with the user's state, and not at the same time as other tests.
fn built_by_the_user(examples: &[&str]) {
    for example in examples
        .iter()
        .map(|example| format!("example-tools/{example}"))
    {
        component(&example);
        build_in(&example, &Home::find().unwrap());
    }
}

/// Runs the commands in the README of an example tool, in the checkout, as a new user. Returns what each prints.
pub(super) fn commands_of(tool: &str) -> Vec<String> {
    let readme = std::fs::read_to_string(root().join(tool).join("README.md")).unwrap();
    let (_guard, home) = scratch();
    new_user(&home);
    let _turn = BUILDING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    commands(&readme)
        .iter()
        .map(|line| run_at(&home, line, &root()).0)
        .collect()
}

#[test]
fn every_command_of_the_readme_and_the_book_does_what_it_says() {
    let (_guard, home) = scratch();
    new_user(&home);
    let mut commands = 0;
    let is_run = |path: &str| path != OF_OTHERS && !path.starts_with(GUIDES);
    for (_, markdown) in in_order().into_iter().filter(|(path, _)| is_run(path)) {
        commands += blocks(&markdown)
            .iter()
            .map(|block| run_block(block, &home))
            .sum::<usize>();
    }
    assert!(commands >= 20, "only {commands} commands were found");
}

#[test]
fn commands_that_are_not_run_are_listed_and_stand_in_no_other_block() {
    let mut found = Vec::new();
    for (path, markdown) in pages() {
        let mut blocks = markdown.split("\n```").skip(1);
        while let Some(block) = blocks.next() {
            let (kind, text) = block.split_once('\n').unwrap();
            assert!(blocks.next().is_some(), "{path}: a block does not end");
            let first = text.lines().next().unwrap_or_default();
            match kind {
                "sh" => {}
                FETCHING if path.starts_with(GUIDES) => {}
                "sh,not-run" | "console" => found.push((path.clone(), first.to_owned())),
                _ => {
                    let is_command = |line: &str| {
                        ["$ ", "toolcell ", "cargo ", "curl "]
                            .iter()
                            .any(|start| line.starts_with(start))
                    };
                    let is_help = path == "docs/reference/commands.md";
                    assert!(
                        is_help || !text.lines().any(is_command),
                        "{path} has commands in a block `{kind}`: {text}"
                    );
                    assert!(
                        !kind.is_empty(),
                        "{path}: a block without a language: {text}"
                    );
                }
            }
        }
    }
    let listed: Vec<(String, String)> = NOT_RUN
        .iter()
        .map(|(path, first, _)| ((*path).to_owned(), (*first).to_owned()))
        .collect();
    assert_eq!(found, listed);
}

#[test]
fn the_toolcell_toml_of_the_book_is_understood_and_does_what_it_says() {
    let text = toml("docs/operators/policy.md", "mode = ");
    let (_guard, folder) = scratch();
    for made in ["src/secrets", "docs"] {
        std::fs::create_dir_all(folder.join(made)).unwrap();
    }
    std::fs::write(folder.join("src/.env"), "x").unwrap();
    std::fs::write(folder.join("config.toml"), text).unwrap();
    let tool = format!("{}#read", component("example-tools/files").display());
    let check = |path: &str| {
        let input = serde_json::json!({ "path": path }).to_string();
        Toolcell::new(["policy", "check", &tool, &input, "--config=config.toml"])
            .dir(&folder)
            .run()
    };
    check("docs").exits(0);
    let denied = check("src/.env").exits(3);
    assert!(
        denied.stdout.contains("tools have no business there"),
        "{}",
        denied.stdout
    );
    check("src/secrets/key").exits(3);
}

#[test]
fn the_telemetry_of_the_book_is_understood() {
    let markdown = page("docs/operators/telemetry.md");
    let whole = toml("docs/operators/telemetry.md", "[telemetry]");
    let line = markdown.lines().find_map(|line| {
        line.split('`')
            .find(|code| code.starts_with("telemetry.export"))
    });
    for (text, arguments) in [(whole.as_str(), Some(true)), (line.unwrap(), None)] {
        let said = ConfigFile::parse(text, Path::new("/")).unwrap().telemetry;
        assert_eq!(
            (said.export, said.arguments),
            (Some(true), arguments),
            "{text}"
        );
    }
}

#[test]
fn the_journal_of_the_book_is_for_the_users_own_file() {
    let text = toml("docs/operators/journal.md", "[log]");
    let (_guard, home) = scratch();
    std::fs::write(home.join("toolcell.toml"), text).unwrap();
    let echo = component("tests/guests/probe").display().to_string() + "#echo";
    Toolcell::at(&home, ["call", &echo, r#"{"text": "x"}"#, "--no-config"])
        .run()
        .exits(0);
    Toolcell::at(&home, ["call", &echo, r#"{"text": "x"}"#])
        .run()
        .exits(0);
    let listed = Toolcell::at(&home, ["calls", "--json"])
        .run()
        .exits(0)
        .json();
    assert_eq!(listed["calls"].as_array().unwrap().len(), 2);
    let doctor = Toolcell::at(&home, ["doctor", "--json"]).run().json();
    let said = doctor["checks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|check| check["subject"] == "journal")
        .unwrap();
    assert!(
        said["detail"]
            .as_str()
            .unwrap()
            .contains("1024 MiB for 90 days"),
        "{said}"
    );
    let of_a_project = format!("--config={}", home.join("toolcell.toml").display());
    let refused = Toolcell::at(&home, ["call", &echo, r#"{"text": "x"}"#, &of_a_project])
        .run()
        .exits(3);
    assert!(
        refused.stderr.contains("[log] is for your own"),
        "{}",
        refused.stderr
    );
}

#[test]
fn the_tools_of_the_book_are_served() {
    let text = toml("docs/operators/serving.md", "[grants]");
    assert!(text.contains("\n[[tool]]"), "{text}");
    let (_guard, folder) = scratch();
    std::fs::create_dir(folder.join("src")).unwrap();
    std::fs::copy(component("example-tools/jq"), folder.join("jq.wasm")).unwrap();
    std::fs::write(folder.join("config.toml"), text).unwrap();
    let mut client = Client::run(Toolcell::new(["mcp", "--config=config.toml"]).dir(&folder));
    client.initialize("2025-11-25");
    let answer = client.call(
        "jq",
        serde_json::json!({ "filter": ".a", "input": { "a": 1 } }),
    );
    assert_eq!(answer["isError"], serde_json::json!(false), "{answer:#}");
}

#[test]
fn what_the_pages_have_clients_start_offers_the_tools_that_they_name() {
    built_by_the_user(&["files", "jq"]);
    let pages = page("README.md") + &page("docs/operators/serving.md");
    let lines = pages.lines().filter_map(Line::parse);
    let of_servers = lines.filter(|line| {
        line.command.contains("--print-config=")
            || line.command.starts_with("toolcell connect ") && !line.command.ends_with("--undo")
    });
    let of_servers: Vec<Line> = of_servers.collect();
    assert!(
        of_servers.len() >= 3,
        "only {} lines were found",
        of_servers.len()
    );
    let (_guard, folder) = scratch();
    for line in &of_servers {
        let entry = if let Some((_, client)) = line.command.rsplit_once("--print-config=") {
            let (_, key) = CLIENTS.iter().find(|(name, _)| *name == client).unwrap();
            let printed: Value = serde_json::from_str(&run(line, &root()).0).unwrap();
            printed[key]["toolcell"].clone()
        } else {
            let file = folder.join("mcp.json");
            let shown = Line {
                command: format!("{} --json --file={}", line.command, file.display()),
                exit: 6,
                text: line.text.clone(),
            };
            let shown: Value = serde_json::from_str(&run(&shown, &root()).0).unwrap();
            shown["entry"].clone()
        };
        let mut client = started(&entry);
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
fn the_hook_of_the_book_runs_as_it_says() {
    let text = toml("docs/operators/hooks.md", "[[hook]]");
    let (_guard, folder) = scratch();
    std::fs::create_dir(folder.join("rules")).unwrap();
    std::fs::write(folder.join("note"), "see /home/ada/plans").unwrap();
    let hook = component("example-tools/redact-paths");
    let text = text.replace("example-tools/redact-paths", hook.to_str().unwrap());
    std::fs::write(folder.join("config.toml"), text).unwrap();
    let tool = format!("{}#read", component("example-tools/files").display());
    let call = [
        "call",
        &tool,
        "{\"path\": \"note\"}",
        "--allow-read=.",
        "--config=config.toml",
    ];
    let ran = Toolcell::new(call).dir(&folder).run().exits(0);
    assert!(
        ran.stdout.contains("plans") && !ran.stdout.contains("ada"),
        "{}",
        ran.stdout
    );
}

#[test]
fn the_hook_that_the_book_shows_stops_dotfiles_wherever_they_lie() {
    let markdown = page("docs/operators/hooks.md");
    let shown = markdown
        .split("```rust\n")
        .find(|part| part.contains("#[hook("))
        .unwrap();
    let shown = shown.split("```").next().unwrap();
    let source =
        std::fs::read_to_string(root().join("example-tools/no-dotfiles/src/lib.rs")).unwrap();
    assert!(
        source.ends_with(shown),
        "the page shows another hook than example-tools/no-dotfiles"
    );
    let (_guard, folder) = scratch();
    for name in [".env", "sub/.env", ".git/config", "sub/note.txt", "a.b"] {
        std::fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
        std::fs::write(folder.join(name), "what is in it").unwrap();
    }
    let entry = format!(
        "[[hook]]\ncomponent = {:?}\ntimeout = \"20s\"\n",
        component("example-tools/no-dotfiles")
    );
    std::fs::write(folder.join("config.toml"), entry).unwrap();
    let tool = format!("{}#read", component("example-tools/files").display());
    let read = |path: &str| {
        let input = serde_json::json!({ "path": path }).to_string();
        Toolcell::new([
            "call",
            &tool,
            &input,
            "--allow-read=.",
            "--config=config.toml",
        ])
        .dir(&folder)
        .run()
    };
    for hidden in [".env", "./.env", "sub/.env", "sub/../.env", ".git/config"] {
        assert!(
            read(hidden)
                .exits(3)
                .stderr
                .contains("dotfiles are private"),
            "{hidden}"
        );
    }
    for open in ["sub/note.txt", "./sub/note.txt", "sub/../a.b"] {
        assert!(
            read(open).exits(0).stdout.contains("what is in it"),
            "{open}"
        );
    }
}

#[test]
fn the_commands_of_the_page_about_worlds_have_the_arguments_and_options_that_they_name() {
    let lines = commands(&page(OF_OTHERS).replace("\\\n", " "));
    assert!(lines.len() >= 8, "only {} commands were found", lines.len());
    let (_guard, folder) = scratch();
    let home = folder.join("home");
    std::fs::create_dir(&home).unwrap();
    for line in lines {
        assert_eq!(line.kind(), Kind::Run, "{}", line.text);
        let ran = output(&line, &folder, &home);
        let said = format!(
            "{}{}",
            String::from_utf8_lossy(&ran.stdout),
            String::from_utf8_lossy(&ran.stderr)
        );
        // The component is missing. What the parser of the command line refuses, it answers with the usage.
        assert_eq!(ran.status.code(), Some(2), "{}\n{said}", line.text);
        let component = line
            .command
            .split([' ', '#'])
            .find(|word| word.ends_with(".wasm"))
            .unwrap();
        assert!(
            !said.contains("Usage:") && said.contains(component),
            "{}\n{said}",
            line.text
        );
    }
}

#[test]
fn lines_of_a_page_are_understood() {
    let found = blocks(
        "x\n```sh\ncargo run -- call a '{}'  # refused, exit 3\ncd b\n\n# why\ncargo test\n```\n\n```text\nno\n```\n```rust\ntoolcell\n```\n",
    );
    let [block] = found.try_into().ok().unwrap();
    assert_eq!(block.shown, ["no"]);
    let [call, enter, skip] = block.lines.try_into().ok().unwrap();
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
