use std::collections::BTreeSet;

use crate::support::{Toolcell, root, scratch};

/// Commands, and words of their help.
const HELP: &[(&[&str], &[&str])] = &[
    (
        &["--help"],
        &[
            "call",
            "describe",
            "build",
            "new",
            "policy",
            "install",
            "doctor",
            "Exit codes",
            "70",
        ],
    ),
    (
        &["call", "--help"],
        &[
            "--allow-read",
            "--allow-write",
            "--allow-env",
            "--allow-tool",
            "--deny-read",
            "--deny-write",
            "--mode",
            "--config",
            "--no-config",
            "--build",
            "--timeout",
            "--fuel",
            "--cpu",
            "--memory",
            "--max-output",
            "--json",
            "--print-record",
            "@FILE",
            "standard input",
            "#NAME",
            "HOST=GUEST",
            "[default: 60s]",
            "Examples:",
            "example-tools/files#search",
        ],
    ),
    (
        &["batch", "--help"],
        &[
            "--max-parallel",
            "--ordering",
            "--output-order",
            "--on-interrupt",
            "--on-failure",
            "--context-modifiers",
            "cancel_dependent",
            "depends_on",
            "--allow-read",
            "--timeout",
            "--json",
            "--print-record",
        ],
    ),
    (
        &["respond", "--help"],
        &[
            "--dialect",
            "openai-responses",
            "--message",
            "--on-failure",
            "[default: -]",
        ],
    ),
    (&["describe", "--help"], &["--json", "#NAME", "permission"]),
    (
        &["search", "--help"],
        &["select:NAME", "--limit", "[default: 5]", "--json"],
    ),
    (
        &["eval", "--help"],
        &[
            "--trace",
            "--judge-command",
            "--judge-env",
            "[default: 60s]",
            "Exit 0",
            "Examples:",
        ],
    ),
    (
        &["events", "--help"],
        &["--follow", "--from", "--session", "without gaps"],
    ),
    (
        &["trace", "add", "--help"],
        &["no secrets", "memory_write", "loop_detected", "1 MiB"],
    ),
    (
        &["artifact", "--help"],
        &["--output", "--force", "redacted"],
    ),
    (
        &["serve", "--help"],
        &[
            "--token-file",
            "--approver-token-file",
            "--arcade-secret-file",
            "/worker",
            "--allow-host",
        ],
    ),
    (&["mcp", "--help"], &["--max-listed", "[default: 125]"]),
    (
        &["build", "--help"],
        &[
            "--watch",
            "--json",
            "outside of the sandbox",
            "how large it is",
            "toolcell doctor",
        ],
    ),
    (
        &["wrap", "--help"],
        &[
            "FILE",
            "--wit",
            "--profile",
            "--name",
            "--manifest",
            "--output",
            "IronClaw",
            "read_only",
            "Examples:",
        ],
    ),
    (
        &["sign", "--help"],
        &[
            "FILE|REF",
            "--key",
            "--password-file",
            "cosign",
            "minisign",
            "Ed25519",
            "Examples:",
        ],
    ),
    (
        &["verify", "--help"],
        &[
            "FILE|REF",
            "--key",
            "--identity",
            "--issuer",
            "[[signer]]",
            "Exit 0",
            "Exit 6",
            "Exit 3",
        ],
    ),
    (
        &["install", "--help"],
        &[
            "[REF]",
            "--name",
            "--allow-unsigned",
            "--locked",
            "--dry-run",
            "--yes",
            "--offline",
            "--user",
            "Examples:",
        ],
    ),
    (&["remove", "--help"], &["NAME", "--user", "--json"]),
    (&["list", "--help"], &["--user", "--json"]),
    (
        &["update", "--help"],
        &[
            "[NAME]",
            "--dry-run",
            "--yes",
            "[default: all]",
            "the signer, the access or a description changed",
        ],
    ),
    (&["outdated", "--help"], &["--offline", "--json"]),
    (
        &["info", "--help"],
        &["<REF>", "without running it", "--json"],
    ),
    (&["store", "--help"], &["verify", "prune", "--json"]),
    (
        &["check", "--help"],
        &["DIR|FILE", "--json", "Exit 0", "licence"],
    ),
    (
        &["push", "--help"],
        &[
            "HOST/REPOSITORY:TAG",
            "--dry-run",
            "--json",
            "--sign",
            "twice",
            "docker",
            "Examples:",
        ],
    ),
    (
        &["bundle", "--help"],
        &[
            "<TOOL>...",
            "--author",
            "--ask-read",
            "--ask-write",
            "--server-json",
            "--allow-net",
            "--timeout",
            "Examples:",
        ],
    ),
    (&["new", "--help"], &["NAME", "--hook", "--lang", "rust"]),
    (&["policy", "--help"], &["check"]),
    (
        &["policy", "check", "--help"],
        &[
            "exit 0",
            "6 if it needs an approval",
            "--allow-read",
            "--mode",
        ],
    ),
    (
        &["policy", "check", "--explain", "--help"],
        &["each rule", "`toolcell explain`"],
    ),
    (&["trust", "--help"], &["--revoke", "toolcell.toml"]),
    (
        &["approve", "--help"],
        &["--always", "--edit", "--accept-partial-view"],
    ),
    (
        &["explain", "--help"],
        &[
            "[CODE]",
            "--json",
            "`toolcell policy check --explain`",
            "Exit 0",
            "Examples:",
        ],
    ),
    (&["doctor", "--help"], &["--json", "print fixes"]),
    (
        &["replay", "--help"],
        &["<ID>", "--component", "--json", "Exit 0", "differs"],
    ),
    (
        &["schema", "--help"],
        &["list", "show", "validate", "exit 0"],
    ),
    (
        &["approvals", "approve", "--help"],
        &["<ID>", "last letters", "--accept-partial-view"],
    ),
    (&["completions", "--help"], &["bash", "zsh", "fish"]),
    (&["man", "--help"], &["[DIR]", "man1"]),
];

#[test]
fn help_says_what_matters() {
    for (command, words) in HELP {
        let ran = Toolcell::new(*command).run().exits(0);
        for word in *words {
            assert!(
                ran.stdout.contains(word),
                "{command:?} lacks {word}:\n{}",
                ran.stdout
            );
        }
        assert!(ran.stderr.is_empty());
    }
}

/// The heading of `help` that an option is listed under.
fn heading<'a>(help: &'a str, option: &str) -> Option<&'a str> {
    let (before, _) = help.split_once(&format!("\n      {option} "))?;
    before
        .lines()
        .rfind(|line| !line.starts_with(' ') && line.ends_with(':'))
}

#[test]
fn options_that_commands_share_have_the_same_headings() {
    let headings = ["Grants:", "Limits:", "Policy:", "Approvals:"];
    for (command, count) in [
        (&["call"][..], 4),
        (&["batch"], 4),
        (&["respond"], 4),
        (&["mcp"], 4),
        (&["policy", "check"], 3),
    ] {
        let help = Toolcell::new([command, &["--help"]].concat())
            .run()
            .exits(0)
            .stdout;
        let found: Vec<&str> = help
            .lines()
            .filter(|line| headings.contains(line))
            .collect();
        assert_eq!(found, headings[..count], "{command:?}: {help}");
        for (option, expected) in [
            ("--allow-read", "Grants:"),
            ("--dns-server", "Grants:"),
            ("--timeout", "Limits:"),
            ("--max-disk", "Limits:"),
            ("--retry", "Limits:"),
            ("--memory-total", "Limits:"),
            ("--mode", "Policy:"),
            ("--session", "Approvals:"),
        ] {
            let lacks = match option {
                "--retry" => !matches!(command, ["call"] | ["batch"] | ["respond"]),
                "--memory-total" => !matches!(command, ["mcp"]),
                _ => expected == "Approvals:" && count == 3,
            };
            assert_eq!(
                heading(&help, option),
                (!lacks).then_some(expected),
                "{command:?} {option}: {help}"
            );
        }
    }
}

#[test]
fn help_hides_what_toolcell_calls_itself() {
    let ran = Toolcell::new(["--help"]).run().exits(0);
    assert!(!ran.stdout.contains("compile-component"), "{}", ran.stdout);
}

#[test]
fn every_default_in_the_help_is_the_default() {
    let limits = toolcell_policy::Limits::default();
    let help = Toolcell::new(["call", "--help"]).run().exits(0).stdout;
    for default in [
        format!("[default: {}s]", limits.wall.as_secs()),
        format!("[default: {}]", limits.fuel),
        format!("[default: {}s]", limits.cpu.as_secs()),
        format!("[default: {}MiB]", limits.memory_bytes >> 20),
        format!("[default: {}MiB]", limits.output_bytes >> 20),
    ] {
        assert!(help.contains(&default), "{default}: {help}");
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    let ran = Toolcell::new(["--version"]).run().exits(0);
    assert_eq!(
        ran.stdout,
        format!("toolcell {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn every_shell_completes_commands_and_their_options() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = Toolcell::new(["completions", shell]).run().exits(0).stdout;
        for word in [
            "toolcell",
            "completions",
            "approvals",
            "allow-read",
            "accept-partial-view",
        ] {
            assert!(script.contains(word), "{shell} lacks {word}");
        }
    }
    Toolcell::new(["completions", "cmd"]).run().exits(2);
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let (_guard, folder) = scratch();
    let page = Toolcell::new(["man"]).run().exits(0).stdout;
    assert!(
        page.contains(".TH toolcell 1") && page.contains("approvals"),
        "{page}"
    );
    let dir = folder.join("man/man1");
    Toolcell::new(["man", dir.to_str().unwrap()]).run().exits(0);
    for name in [
        "toolcell.1",
        "toolcell-call.1",
        "toolcell-approvals-approve.1",
    ] {
        assert!(dir.join(name).is_file(), "{name}");
    }
    let approve = std::fs::read_to_string(dir.join("toolcell-approvals-approve.1")).unwrap();
    assert!(
        approve.replace('\\', "").contains("--accept-partial-view"),
        "{approve}"
    );
    std::fs::write(folder.join("file"), "").unwrap();
    let refused = Toolcell::new(["man", "file/man1"])
        .dir(&folder)
        .run()
        .exits(2);
    assert!(refused.stderr.contains("file/man1"), "{}", refused.stderr);
}

/// The words of lower-case letters and hyphens that follow `mark` in `text`.
fn words_after(mark: &str, text: &str) -> Vec<String> {
    let starts = text.match_indices(mark).filter(|(at, _)| {
        let before = text[..*at].chars().next_back();
        !before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '-')
    });
    let word = |(at, _): (usize, &str)| -> String {
        text[at + mark.len()..]
            .chars()
            .take_while(|c| c.is_ascii_lowercase() || *c == '-')
            .collect()
    };
    // A word that ends in a hyphen is put together from parts.
    let whole =
        |word: &String| word.starts_with(|c: char| c.is_ascii_lowercase()) && !word.ends_with('-');
    starts.map(word).filter(whole).collect()
}

/// The lines of the host's sources, without comments. The toolchain is left out, because it calls other programs with
/// options of theirs.
fn lines_of_the_host() -> Vec<String> {
    let mut folders = vec![root().join("host")];
    let mut lines = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir()
                && !["toolchain", "benches", "tests", "target"]
                    .iter()
                    .any(|name| path.ends_with(name))
            {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                lines.extend(
                    text.lines()
                        .filter(|line| !line.trim_start().starts_with("//"))
                        .map(str::to_owned),
                );
            }
        }
    }
    lines
}

#[test]
fn what_a_message_tells_to_type_is_in_the_help() {
    let script = Toolcell::new(["completions", "bash"]).run().exits(0).stdout;
    let options: BTreeSet<String> = words_after("--", &script).into_iter().collect();
    let help = Toolcell::new(["--help"]).run().exits(0).stdout;
    let commands: BTreeSet<&str> = help
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .collect();
    assert!(
        options.contains("allow-read") && commands.contains("call"),
        "{options:?} {commands:?}"
    );
    let lines = lines_of_the_host();
    let named = |mark: &str| {
        lines
            .iter()
            .flat_map(|line| words_after(mark, line))
            .collect::<BTreeSet<String>>()
    };
    let named_options = named("--");
    let named_commands = named("`toolcell ");
    assert!(
        named_options.len() > 10 && named_commands.len() > 3,
        "{named_options:?} {named_commands:?}"
    );
    for option in named_options {
        assert!(
            options.contains(&option),
            "--{option} is named, and no help lists it"
        );
    }
    for command in named_commands {
        assert!(
            commands.contains(command.as_str()),
            "`toolcell {command}` is named, and the help does not list it"
        );
    }
}
