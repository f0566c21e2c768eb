//! The groups of commands in `toolcell --help`: clap would list them in one column.

use std::fmt::Write as _;

use clap::Command;

const GROUPS: [(&str, &[&str]); 7] = [
    ("Call tools", &["call", "batch", "describe", "search"]),
    (
        "Connect agents and models",
        &[
            "connect", "mcp", "serve", "bundle", "export", "respond", "surface",
        ],
    ),
    ("Use many machines", &["work", "cluster"]),
    (
        "Manage installed tools",
        &[
            "install", "update", "outdated", "list", "info", "remove", "verify", "store",
        ],
    ),
    (
        "Write and publish tools",
        &["new", "build", "check", "push", "sign", "wrap"],
    ),
    (
        "Control and inspect calls",
        &[
            "policy",
            "trust",
            "approvals",
            "approve",
            "deny",
            "secrets",
            "workspace",
            "inspect",
            "calls",
            "show",
            "events",
            "replay",
            "artifact",
            "log",
            "backup",
            "trace",
            "eval",
        ],
    ),
    (
        "Help",
        &["explain", "doctor", "schema", "completions", "man", "help"],
    ),
];
const HELP: &str = "Print the help of a command";
const NAME_COLUMNS: usize = 12;

pub(super) fn shown(command: Command) -> Command {
    let mut list = String::new();
    for (group, names) in GROUPS {
        let _ = writeln!(list, "{group}:");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map_or_else(|| HELP.to_owned(), ToString::to_string);
            let _ = writeln!(list, "  {name:<NAME_COLUMNS$} {about}");
        }
        list.push('\n');
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}Options:\n{{options}}{{after-help}}"
    ))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::super::Cli;
    use super::GROUPS;

    #[test]
    fn each_command_is_in_one_group() {
        let mut known: Vec<String> = Cli::command()
            .get_subcommands()
            .map(|one| one.get_name().to_owned())
            .collect();
        known.push("help".to_owned());
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        known.sort();
        grouped.sort_unstable();
        assert_eq!(known, grouped);
    }
}
