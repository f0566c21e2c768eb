//! `toolcell connect`: the configuration files of clients, changed and changed back.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::approvals::Place;
use super::approvals::terminal::Terminal;
use super::clients::{started, tools};
use crate::support::{Ran, Toolcell, fixture, scratch};

/// A client, its file below `HOME`, and such a file in the client's documented form, with another server.
const FILES: [(&str, &str, &str); 12] = [
    (
        "claude-code",
        ".claude.json",
        "{\n  \"numStartups\": 3,\n  \"mcpServers\": {\n    \"other\": {\n      \"type\": \"stdio\",\n      \
         \"command\": \"npx\",\n      \"args\": [\n        \"-y\"\n      ],\n      \"env\": {\n        \
         \"KEY\": \"hidden\"\n      }\n    }\n  },\n  \"projects\": {}\n}",
    ),
    (
        "claude-desktop",
        ".config/Claude/claude_desktop_config.json",
        "{\r\n\t\"mcpServers\": {\r\n\t\t\"other\": { \"command\": \"npx\", \"env\": { \"KEY\": \"hidden\" } }\r\n\t}\r\n}\r\n",
    ),
    (
        "vscode",
        ".config/Code/User/mcp.json",
        "{\n    // mine\n    \"inputs\": [],\n    \"servers\": { // all of them\n        // the first one\n        \
         \"other\": { \"type\": \"http\", \"url\": \"https://x/hidden\", }, /* last */\n    },\n}\n",
    ),
    (
        "cursor",
        ".cursor/mcp.json",
        "{\"mcpServers\":{\"other\":{\"command\":\"npx\",\"env\":{\"KEY\":\"hidden\"}}}}",
    ),
    (
        "zed",
        ".config/zed/settings.json",
        "// Zed settings\n//\n{\n  \"theme\": \"One Dark\",\n  \"buffer_font_size\": 15, // large\n}\n",
    ),
    (
        "codex",
        ".codex/config.toml",
        "# mine\nmodel = \"gpt-5\"   # fast\n\n[mcp_servers.other]\ncommand = 'npx'\n  args = [ \"-y\",\n  ]\n\
         env = { \"KEY\" = \"hidden\" }\n\n# looks\n[tui]\nnotifications = true",
    ),
    (
        "gemini-cli",
        ".gemini/settings.json",
        "{\n   \"ui\": { \"theme\": \"GitHub\" },\n   \"mcpServers\": {\n   }\n}\n",
    ),
    (
        "windsurf",
        ".codeium/windsurf/mcp_config.json",
        "{\n  \"mcpServers\": {\n    \"other\": {\n      \"serverUrl\": \"https://x/hidden\"\n    }\n  }\n}\n",
    ),
    (
        "opencode",
        ".config/opencode/opencode.jsonc",
        "{\n  \"$schema\": \"https://opencode.ai/config.json\",\n  \"mcp\": {\n    \"servers\": {\n      \"other\": \
         { \"type\": \"local\", \"command\": [\"npx\", \"hidden\"], },\n    },\n  },\n}\n",
    ),
    (
        "goose",
        ".config/goose/config.yaml",
        "# Model\nGOOSE_PROVIDER: \"anthropic\"\nextensions:\n  # the usual one\n  developer:\n    bundled: true\n    \
         envs: {KEY: hidden}\n\n# Search\nGOOSE_SEARCH_PATHS:\n  - \"/bin\"\n",
    ),
    (
        "cline",
        ".cline/data/settings/cline_mcp_settings.json",
        "{\n  \"mcpServers\": {\n    \"other\": { \"command\": \"npx\", \"disabled\": false, \"autoApprove\": [] }\n  }\n}",
    ),
    (
        "continue",
        ".continue/config.yaml",
        "name: Local\nversion: 1.0.0\nschema: v1\nmcpServers:\n- name: other\n  command: npx\n  env:\n    KEY: hidden\n\
         models: []\n",
    ),
];

/// A home of its own, and in it a project with a tool.
struct Desk {
    _guard: tempfile::TempDir,
    home: PathBuf,
    project: PathBuf,
}

impl Desk {
    fn new() -> Self {
        let (guard, home) = scratch();
        let project = home.join("project");
        fs::create_dir(&project).unwrap();
        fs::copy(fixture("probe"), project.join("probe.wasm")).unwrap();
        Self {
            _guard: guard,
            home,
            project,
        }
    }

    fn command(&self, arguments: &[&str]) -> Toolcell {
        let command = Toolcell::new(std::iter::once(&"connect").chain(arguments));
        let command = command
            .dir(&self.project)
            .env("HOME", self.home.to_str().unwrap());
        ["XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"]
            .into_iter()
            .fold(command, |command, name| command.env(name, ""))
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.command(arguments).run()
    }

    fn connects(&self, client: &str, options: &[&str]) -> Ran {
        let tool = ["probe.wasm#read", "--allow-read=.", "--yes"];
        self.run(&[&[client][..], &tool, options].concat()).exits(0)
    }

    fn file(&self, path: &str, text: &str) -> PathBuf {
        let file = self.home.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        file
    }
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap()
}

/// The entry in the form that most clients have.
fn usual(entry: &Value) -> Value {
    let words = entry["command"].as_array();
    let command = words.map_or(&entry["command"], |words| &words[0]);
    let command = entry.get("cmd").unwrap_or(command);
    let args = words.map_or(entry["args"].clone(), |words| json!(words[1..]));
    let variables = ["env", "envs", "environment"];
    let env = variables.iter().find_map(|name| entry.get(name));
    json!({ "command": command, "args": args, "env": env })
}

#[test]
fn each_clients_file_gets_an_entry_and_is_then_as_it_was() {
    let desk = Desk::new();
    for (client, path, text) in FILES {
        let file = desk.file(path, text);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let options: &[&str] = if ["claude-code", "vscode"].contains(&client) {
            &["--user"]
        } else {
            &[]
        };
        let told = desk.connects(client, &[options, &["--json"]].concat());
        let entry = &told.json()["entry"];
        assert!(!told.stdout.contains("hidden"), "{client}: {}", told.stdout);
        let connected = read(&file);
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o640);
        // Nothing that was there is gone, and it has its order.
        let mut rest = connected.chars();
        let mut left = text.chars().filter(|one| !one.is_whitespace());
        assert!(
            left.all(|one| rest.any(|other| other == one)),
            "{client}: {connected}"
        );
        if text.contains("\r\n") {
            let ends = connected.matches("\r\n").count();
            assert_eq!(
                connected.matches('\n').count(),
                ends,
                "{client}: {connected:?}"
            );
        }
        assert_eq!(connected.ends_with('\n'), text.ends_with('\n'), "{client}");
        let mut client_of_it = started(&usual(entry));
        assert_eq!(
            tools(&mut client_of_it),
            ["probe_read", "read_result"],
            "{client}"
        );
        client_of_it.close();
        // The file has what was told, in its own format.
        let args = usual(entry)["args"].to_string();
        let in_file = connected.split_whitespace().collect::<String>();
        let words = args.trim_matches(['[', ']']).split(',');
        assert!(
            words
                .into_iter()
                .all(|word| in_file.contains(word.trim_matches('"'))),
            "{client}: {connected}"
        );

        let checked = Toolcell::new([
            "doctor",
            "--json",
            &format!("--mcp-config={}", file.display()),
        ]);
        let checked = checked.dir(&desk.project).run().stdout;
        assert!(
            checked.contains("toolcell starts and offers its tools"),
            "{client}: {checked}"
        );

        let undone = [&[client, "--undo", "--yes"], options].concat();
        desk.run(&undone).exits(0);
        assert_eq!(read(&file), text, "{client}");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o640);
        let again = desk.run(&undone).exits(2);
        assert!(
            again.stderr.contains("nothing was changed"),
            "{}",
            again.stderr
        );
    }
}

#[test]
fn a_file_that_is_not_there_is_made_and_removed_with_its_folders() {
    let desk = Desk::new();
    for (client, path, _) in FILES {
        let options: &[&str] = if ["claude-code", "vscode"].contains(&client) {
            &["--user"]
        } else {
            &[]
        };
        let told = desk
            .connects(client, &[options, &["--json"]].concat())
            .json();
        let file = PathBuf::from(told["file"].as_str().unwrap());
        // The older place of Windsurf, and the second file of opencode, only count where they are.
        if !["windsurf", "opencode"].contains(&client) {
            assert_eq!(file, desk.home.join(path));
        }
        assert!(file.is_file(), "{client}");
        desk.run(&[&[client, "--undo", "--yes"], options].concat())
            .exits(0);
        let left: Vec<_> = fs::read_dir(&desk.home).unwrap().collect();
        assert_eq!(left.len(), 1, "{client}: {left:?}");
    }
}

#[test]
fn what_was_edited_since_stays() {
    let desk = Desk::new();
    let edits = [
        // Beside the entry, and in it.
        (
            "cursor",
            ".cursor/mcp.json",
            "\"other\"",
            "\"renamed\"",
            "\"--allow-read",
        ),
        (
            "codex",
            ".codex/config.toml",
            "[tui]",
            "[new]\na = 1\n[tui]",
            "command = \"/",
        ),
        (
            "goose",
            ".config/goose/config.yaml",
            "bundled: true",
            "bundled: false",
            "timeout: 300",
        ),
        (
            "continue",
            ".continue/config.yaml",
            "models: []",
            "models: [] # none",
            "args:",
        ),
    ];
    for (client, path, old, new, own) in edits {
        let text = FILES.iter().find(|row| row.0 == client).unwrap().2;
        for is_own_edited in [false, true] {
            let file = desk.file(path, text);
            desk.connects(client, &[]);
            let mut connected = read(&file).replacen(old, new, 1);
            if is_own_edited {
                assert!(connected.contains(own), "{client}: {connected}");
                let edited = own.replace("300", "301").replace("args:", "args:   # mine");
                let edited = edited
                    .replace("--allow", "--deny")
                    .replace("= \"/", "=  \"/");
                connected = connected.replacen(own, &edited, 1);
            }
            fs::write(&file, &connected).unwrap();
            desk.run(&[client, "--undo", "--yes"]).exits(0);
            let undone = read(&file);
            if is_own_edited {
                let [undone, text] = [&undone, &text.replacen(old, new, 1)]
                    .map(|text| text.split_whitespace().collect::<String>());
                assert_eq!(undone, text, "{client}");
            } else {
                assert_eq!(undone, text.replacen(old, new, 1), "{client}");
            }
        }
    }
    // A section and a file that came with the entry.
    let made = desk.home.join(".gemini/settings.json");
    desk.connects("gemini-cli", &[]);
    let edited = read(&made).replacen("{\n", "{\n  \"ui\": { \"theme\": \"x\" },\n", 1);
    fs::write(&made, edited).unwrap();
    desk.run(&["gemini-cli", "--undo", "--yes"]).exits(0);
    assert_eq!(read(&made), "{\n  \"ui\": { \"theme\": \"x\" }\n}\n");
    // An entry that its user took out.
    desk.connects("gemini-cli", &[]);
    fs::write(&made, "{}\n").unwrap();
    desk.run(&["gemini-cli", "--undo", "--yes"]).exits(0);
    assert_eq!(read(&made), "{}\n");
}

#[test]
fn an_entry_of_somebody_else_is_shown_and_put_back() {
    let desk = Desk::new();
    for (client, path, text, edit) in [
        (
            "cursor",
            ".cursor/mcp.json",
            "{\n  \"mcpServers\": {\n    \"toolcell\": { \"command\": \"old\", /* why */ \"args\": [] },\n    \"z\": {}\n  }\n}\n",
            ("\"z\"", "\"y\""),
        ),
        (
            "codex",
            ".codex/config.toml",
            "[mcp_servers.toolcell]\n# why\ncommand = 'old'\n\n[mcp_servers.toolcell.env]\nA = 'b'\n\n[tui]\nz = 1\n",
            ("z = 1", "y = 1"),
        ),
        (
            "goose",
            ".config/goose/config.yaml",
            "extensions:\n  toolcell:\n    cmd: old # why\n    args: []\n  z: {}\n",
            ("  z:", "  y:"),
        ),
    ] {
        let file = desk.file(path, text);
        let told = desk.connects(client, &[]);
        assert!(told.stderr.contains("is not toolcell's"), "{}", told.stderr);
        assert!(
            told.stdout
                .lines()
                .any(|line| line.starts_with('-') && line.contains("old")),
            "{}",
            told.stdout
        );
        assert!(!read(&file).contains("old"));
        desk.run(&[client, "--undo", "--yes"]).exits(0);
        assert_eq!(read(&file), text);
        // Edited in both places since.
        desk.connects(client, &[]);
        let edited = read(&file).replacen(edit.0, edit.1, 1);
        fs::write(&file, edited.replacen("--allow-read", "--deny-read", 1)).unwrap();
        let told = desk.run(&[client, "--undo", "--yes", "--json"]).exits(0);
        assert_eq!(told.json()["action"], "restore");
        let undone = read(&file);
        assert!(
            undone.contains("old") && undone.contains("why") && undone.contains(edit.1),
            "{undone}"
        );
        assert!(!undone.contains("probe.wasm"), "{undone}");
    }
}

#[test]
fn without_a_yes_nothing_is_written_and_no_secret_is_shown() {
    let desk = Desk::new();
    for (client, path, text) in FILES {
        let file = desk.file(path, text);
        let mut arguments = vec![client, "probe.wasm#read"];
        if ["claude-code", "vscode"].contains(&client) {
            arguments.push("--user");
        }
        for json in [false, true] {
            let told = desk.run(&[&arguments[..], if json { &["--json"] } else { &[] }].concat());
            let told = told.exits(6);
            assert!(
                !format!("{told:?}").contains("hidden"),
                "{client}: {told:?}"
            );
            assert!(
                told.stdout.contains("probe.wasm#read"),
                "{client}: {told:?}"
            );
            if json {
                assert_eq!(told.json()["written"], false);
            } else {
                assert!(
                    told.stderr.contains("nothing was written"),
                    "{}",
                    told.stderr
                );
                assert!(told.stdout.contains("+++ "), "{}", told.stdout);
            }
        }
        assert_eq!(read(&file), text, "{client}");
    }
}

#[test]
fn a_person_at_the_terminal_is_asked() {
    let place = Place::of(&super::guest("probe#read"));
    let file = place.folder.join("mcp.json");
    let command = format!(
        "exec $TOOLCELL connect cursor {} --file=mcp.json",
        place.tool
    );
    for (answer, code) in [("n\n", 6), ("y\n", 0)] {
        let mut terminal = Terminal::run(&place, &command);
        let seen = terminal.shows("Write this? [y/N] ");
        assert!(seen.contains("mcpServers") && !file.exists(), "{seen}");
        terminal.types(answer);
        assert_eq!(terminal.ends().0, Some(code));
        assert_eq!(file.exists(), code == 0);
    }
}

#[test]
fn connecting_again_replaces_the_own_entry_and_undoes_both() {
    let desk = Desk::new();
    let (client, path, text) = FILES[5];
    let file = desk.file(path, text);
    desk.connects(client, &[]);
    let same = desk.connects(client, &[]);
    assert!(same.stderr.contains("nothing to change"), "{}", same.stderr);
    let told = desk.connects(client, &["--timeout=5s", "--json"]).json();
    assert_eq!(told["action"], "update");
    assert_eq!(read(Path::new(told["backup"].as_str().unwrap())), text);
    assert_eq!(read(&file).matches("[mcp_servers.toolcell]").count(), 1);
    let second = desk.connects(client, &["--name=second"]);
    let undo = "`toolcell connect codex --undo --name=second`";
    assert!(second.stderr.contains(undo), "{}", second.stderr);
    assert!(read(&file).contains("[mcp_servers.second]"));
    desk.run(&[client, "--undo", "--yes", "--name=second"])
        .exits(0);
    desk.run(&[client, "--undo", "--yes"]).exits(0);
    assert_eq!(read(&file), text);
}

#[test]
fn what_cannot_be_parsed_is_refused_with_its_place() {
    let desk = Desk::new();
    for (client, path, text, place) in [
        (
            "cursor",
            ".cursor/mcp.json",
            "{\n  \"mcpServers\": {\n    \"hidden\" 1\n  }\n}",
            "line 3, column 14",
        ),
        (
            "zed",
            ".config/zed/settings.json",
            "{ 'a': 1 }",
            "line 1, column 3",
        ),
        (
            "codex",
            ".codex/config.toml",
            "a = 1\nb = hidden\n",
            "line 2, column 5",
        ),
        (
            "goose",
            ".config/goose/config.yaml",
            "a: 1\nb: [hidden\n",
            "line 2, column 4",
        ),
        (
            "continue",
            ".continue/config.yaml",
            "a: 1\n---\nb: 1\n",
            "line 2, column 1",
        ),
        (
            "claude-desktop",
            ".config/Claude/claude_desktop_config.json",
            "[]",
            "line 1, column 1",
        ),
    ] {
        let file = desk.file(path, text);
        let told = desk.run(&[client, "probe.wasm", "--yes"]).exits(2);
        assert!(told.stderr.contains(place), "{client}: {}", told.stderr);
        assert!(!told.stderr.contains("hidden"), "{client}: {}", told.stderr);
        assert_eq!(read(&file), text);
    }
    for (client, path, text) in [
        ("cursor", ".cursor/mcp.json", "{ \"mcpServers\": [] }"),
        (
            "cursor",
            ".cursor/mcp.json",
            "{ \"mcpServers\": {}, \"mcpServers\": {} }",
        ),
        (
            "codex",
            ".codex/config.toml",
            "mcp_servers = { a = { command = 'b' } }\n",
        ),
        (
            "goose",
            ".config/goose/config.yaml",
            "extensions: &x\n  a: 1\n",
        ),
    ] {
        let file = desk.file(path, text);
        let told = desk.run(&[client, "probe.wasm", "--yes"]).exits(2);
        assert!(told.stderr.contains('`'), "{client}: {}", told.stderr);
        assert_eq!(read(&file), text);
    }
}

#[test]
fn a_link_stays_and_what_is_no_file_of_a_client_is_refused() {
    let desk = Desk::new();
    let real = desk.file("dotfiles/cursor.json", "{}\n");
    let link = desk.home.join(".cursor/mcp.json");
    fs::create_dir(link.parent().unwrap()).unwrap();
    symlink(&real, &link).unwrap();
    desk.connects("cursor", &[]);
    assert!(link.is_symlink() && read(&real).contains("probe.wasm"));
    desk.run(&["cursor", "--undo", "--yes"]).exits(0);
    assert_eq!((link.is_symlink(), read(&real)), (true, "{}\n".to_owned()));

    // A home behind a link is the same, with and without the file.
    fs::remove_dir_all(desk.home.join(".cursor")).unwrap();
    symlink(&desk.home, desk.project.join("home")).unwrap();
    let linked = |arguments: &[&str]| {
        let home = desk.project.join("home");
        desk.command(arguments)
            .env("HOME", home.to_str().unwrap())
            .run()
            .exits(0)
    };
    linked(&["cursor", "probe.wasm", "--yes"]);
    linked(&["cursor", "--undo", "--yes"]);
    assert!(!desk.home.join(".cursor").exists());

    let refused = |file: &str, why: &str| {
        let file = format!("--file={file}");
        let told = desk.run(&["cursor", "probe.wasm", "--yes", &file]).exits(2);
        assert!(told.stderr.contains(why), "{file}: {}", told.stderr);
    };
    symlink("nowhere", desk.project.join("dangling")).unwrap();
    refused("dangling", "a link to a file that does not exist");
    let pipe = desk.project.join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    refused("pipe", "not a regular file");
    refused(".", "not a regular file");
    let huge = fs::File::create(desk.project.join("huge")).unwrap();
    huge.set_len(17 << 20).unwrap();
    refused("huge", "larger than");
    fs::write(desk.project.join("binary"), [0xff, 0xfe]).unwrap();
    refused("binary", "not UTF-8");
    // Not even root can make a file there.
    refused("/sys/mcp.json", "Nothing was written");
}

#[test]
fn the_file_is_the_projects_or_the_users() {
    let desk = Desk::new();
    for (options, path) in [
        (&["cursor"][..], ".cursor/mcp.json"),
        (&["cursor", "--user"], ".cursor/mcp.json"),
        (&["cursor", "--project"], "project/.cursor/mcp.json"),
        (&["claude-code"], "project/.mcp.json"),
        (&["claude-code", "--user"], ".claude.json"),
        (&["vscode"], "project/.vscode/mcp.json"),
        (&["codex", "--project"], "project/.codex/config.toml"),
        (
            &["continue", "--project"],
            "project/.continue/mcpServers/toolcell.yaml",
        ),
        (&["opencode", "--project"], "project/opencode.json"),
        (&["windsurf"], ".config/devin/mcp_config.json"),
    ] {
        let told = desk
            .run(&[options, &["probe.wasm", "--json"]].concat())
            .exits(6);
        assert_eq!(
            told.json()["file"],
            json!(desk.home.join(path)),
            "{options:?}"
        );
    }
    // Where the client looks if it is told to.
    let moved = desk.command(&["codex", "probe.wasm", "--json"]);
    let moved = moved.env("CODEX_HOME", "/elsewhere").run().exits(6);
    assert_eq!(moved.json()["file"], "/elsewhere/config.toml");

    let one = desk.run(&["goose", "probe.wasm", "--project"]).exits(2);
    assert!(
        one.stderr.contains("only one configuration file"),
        "{}",
        one.stderr
    );
    let homeless = desk
        .command(&["cursor", "probe.wasm"])
        .env("HOME", "")
        .run();
    let homeless = homeless.exits(2);
    assert!(
        homeless.stderr.contains("HOME is not set"),
        "{}",
        homeless.stderr
    );
    for (client, name, most) in [("codex", "a.b", "64"), ("cursor", "eleven-char", "10")] {
        let named = desk
            .run(&[client, "probe.wasm", &format!("--name={name}")])
            .exits(2);
        let told = format!("--name takes 1 to {most} letters");
        assert!(named.stderr.contains(&told), "{}", named.stderr);
    }
    let missing = desk.run(&["cursor", "nothing.wasm", "--yes"]).exits(2);
    assert!(
        missing.stderr.contains("nothing.wasm"),
        "{}",
        missing.stderr
    );
    assert!(!desk.home.join(".cursor").exists());

    // A second file that the client may read is named.
    desk.file(".config/devin/mcp_config.json", "{}");
    desk.file(".codeium/windsurf/mcp_config.json", "{}");
    let told = desk.run(&["windsurf", "probe.wasm"]).exits(6);
    assert!(told.stderr.contains(".codeium/windsurf"), "{}", told.stderr);
}
