//! The pages of the reference, made from what the program prints. `TOOLCELL_UPDATE_DOCS=1` writes them.

use std::fmt::Write;
use std::sync::LazyLock;

use serde_json::Value;
use toolcell_spec::ErrorClass;

use super::{claims, settings};
use crate::cli::explain;
use crate::support::{Toolcell, root, scratch};

/// The pages that are made when the book is built, and are in no commit, with their paths.
pub(super) static MADE: LazyLock<[(&str, String); 3]> = LazyLock::new(|| {
    [
        ("docs/reference/commands.md", commands()),
        ("docs/reference/errors.md", errors()),
        ("docs/security/tests.md", claims::tests_of_promises()),
    ]
});

/// Whether the pages are to be written.
fn is_update() -> bool {
    std::env::var_os("TOOLCELL_UPDATE_DOCS").is_some()
}

#[test]
fn the_pages_of_the_book_have_every_command_and_every_code() {
    let [(_, commands), (_, errors), _] = &*MADE;
    let (_guard, folder) = scratch();
    Toolcell::new(["man", folder.to_str().unwrap()])
        .run()
        .exits(0);
    let mut manual: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    manual.sort();
    let mut sections: Vec<String> = commands
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .map(|title| title.replace(' ', "-") + ".1")
        .collect();
    sections.sort();
    assert_eq!(sections, manual);
    for page in explain::pages() {
        let row = format!("| `{}` | ", field(&page, "code"));
        assert!(errors.contains(&row), "errors.md has no row {row}");
    }
    if is_update() {
        for (path, text) in &*MADE {
            std::fs::write(root().join(path), text).unwrap();
        }
    }
}

#[test]
fn the_page_of_settings_has_every_field_of_a_toolcell_toml() {
    let path = root().join("docs/reference/settings.md");
    let text = settings::page();
    if is_update() {
        std::fs::write(&path, &text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    let difference = written
        .lines()
        .zip(text.lines())
        .find(|(one, other)| one != other);
    assert!(
        written == text,
        "docs/reference/settings.md is not current, from {difference:?} on; \
         TOOLCELL_UPDATE_DOCS=1 cargo test --test toolcell cli::book::reference writes it"
    );
}

fn commands() -> String {
    let mut text = "# Commands\n\nThe help of each command, as the program prints it. The options that commands share have the same \
                    meaning and the same defaults in all of them.\n"
        .to_owned();
    add_help(&[], &mut text);
    text
}

/// Adds the help of a command, and of those below it.
fn add_help(command: &[&str], text: &mut String) {
    let arguments = [command, &["--help"]].concat();
    let help = Toolcell::new(arguments)
        .env("COLUMNS", "100")
        .run()
        .exits(0)
        .stdout;
    let title = [&["toolcell"][..], command].concat().join(" ");
    write!(text, "\n## {title}\n\n```text\n{}\n```\n", help.trim_end()).unwrap();
    // The commands of the program are in groups, each under a heading of its own.
    let listed = match command {
        [] => help
            .split_once("\n\nCall tools:\n")
            .and_then(|(_, rest)| Some(rest.split_once("\nOptions:\n")?.0)),
        _ => help
            .split_once("\nCommands:\n")
            .and_then(|(_, rest)| rest.split("\n\n").next()),
    };
    for line in listed.unwrap_or_default().lines() {
        // A line that is indented more goes on with the text of the one before.
        let name = line
            .strip_prefix("  ")
            .and_then(|line| line.split(' ').next())
            .unwrap_or_default();
        if !name.is_empty() && name != "help" {
            add_help(&[command, &[name]].concat(), text);
        }
    }
}

/// A text as a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn field<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap()
}

/// Adds a table of the pages that have an origin which `is_meant`.
fn add_table(pages: &[Value], is_meant: &dyn Fn(&Value) -> bool, text: &mut String) {
    text.push_str("| code | means | cause | remedy |\n|---|---|---|---|\n");
    let mut rows = 0;
    for page in pages
        .iter()
        .filter(|page| page["origins"].as_array().unwrap().iter().any(is_meant))
    {
        let cells = ["means", "cause", "remedy"].map(|name| cell(field(page, name)));
        writeln!(
            text,
            "| `{}` | {} |",
            field(page, "code"),
            cells.join(" | ")
        )
        .unwrap();
        rows += 1;
    }
    assert!(rows > 0, "a table without a row:\n{text}");
}

fn errors() -> String {
    let pages = explain::pages();
    let mut text = "# Error codes\n\nThe error of a call is printed with its class and its code: `[sandbox_violation/memory_limit]`. Commands \
                    that make no call print the code alone. `toolcell explain CODE` prints its row of this page. The classes \
                    are those of Agent Tool 0.2.0. A tool can have codes of its own, which its message explains.\n"
        .to_owned();
    for class in ErrorClass::ALL {
        let word = serde_json::to_value(class).unwrap();
        let is_of_class =
            |origin: &Value| origin["from"] == "call" && origin["error_class"] == word;
        let origins = pages
            .iter()
            .flat_map(|page| page["origins"].as_array().unwrap());
        let Some(origin) = origins.clone().find(|origin| is_of_class(origin)) else {
            continue;
        };
        let mut exits: Vec<String> = origins
            .filter(|origin| is_of_class(origin))
            .map(|origin| origin["exit_code"].to_string())
            .collect();
        exits.sort();
        exits.dedup();
        write!(
            text,
            "\n## {} ({})\n\nExit code {}, recoverability `{}`.\n\n",
            word.as_str().unwrap(),
            field(origin, "spec_id"),
            exits.join(" or "),
            field(origin, "recoverability"),
        )
        .unwrap();
        add_table(&pages, &is_of_class, &mut text);
    }
    for (title, origin) in [
        ("Problems of the plain HTTP API", "http_api"),
        ("Why a call cannot be replayed", "replay"),
        ("Documents that do not fit their schema", "schema_validate"),
        ("Errors of the clients for Python and JavaScript", "client"),
    ] {
        write!(text, "\n## {title}\n\n").unwrap();
        add_table(&pages, &|known: &Value| known["from"] == origin, &mut text);
    }
    text
}
