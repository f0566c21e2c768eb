use crate::support::Toolcell;

#[test]
fn help_says_what_matters() {
    for (command, words) in [
        (&["--help"][..], &["call", "describe", "build", "new", "policy", "doctor", "Exit codes", "70"][..]),
        (
            &["call", "--help"],
            &[
                "--allow-read",
                "--allow-write",
                "--allow-env",
                "--deny-read",
                "--deny-write",
                "--mode",
                "--config",
                "--no-config",
                "--build",
                "--timeout",
                "--fuel",
                "--memory",
                "--max-output",
                "--json",
                "--record",
                "@FILE",
                "standard input",
                "#NAME",
                "HOST=GUEST",
                "[default: 60s]",
                "Examples:",
                "example-tools/files#search",
            ],
        ),
        (&["describe", "--help"], &["--json", "#NAME", "permission"]),
        (&["build", "--help"], &["Cargo.toml", "--json", "outside of the sandbox"]),
        (&["new", "--help"], &["NAME", "--lang", "rust"]),
        (&["policy", "--help"], &["check", "explain", "trust", "toolcell.toml"]),
        (&["policy", "check", "--help"], &["exit 0", "6 if it needs an approval", "--allow-read", "--mode"]),
        (&["doctor", "--help"], &["--json", "fix what is missing"]),
    ] {
        let ran = Toolcell::new(command).run().exits(0);
        for word in words {
            assert!(ran.stdout.contains(word), "{command:?} lacks {word}:\n{}", ran.stdout);
        }
        assert!(ran.stderr.is_empty());
    }
}

#[test]
fn help_hides_what_toolcell_calls_itself() {
    let ran = Toolcell::new(["--help"]).run().exits(0);
    assert!(!ran.stdout.contains("compile-component"), "{}", ran.stdout);
}

#[test]
fn every_default_in_the_help_is_the_default() {
    let limits = toolcell::policy::Limits::default();
    let help = Toolcell::new(["call", "--help"]).run().exits(0).stdout;
    for default in [
        format!("[default: {}s]", limits.wall.as_secs()),
        format!("[default: {}]", limits.fuel),
        format!("[default: {}MiB]", limits.memory_bytes >> 20),
        format!("[default: {}MiB]", limits.output_bytes >> 20),
    ] {
        assert!(help.contains(&default), "{default}: {help}");
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    let ran = Toolcell::new(["--version"]).run().exits(0);
    assert_eq!(ran.stdout, format!("toolcell {}\n", env!("CARGO_PKG_VERSION")));
}
