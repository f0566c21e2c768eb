//! What people see on a terminal beside questions: progress, colours, hints.

use std::fs;

use serde_json::json;

use super::approvals::Place;
use super::approvals::terminal::Terminal;
use super::{echo_in, guest};
use crate::support::Toolcell;

/// What a terminal of 80 columns shows of `command`, after the shell set `variables`.
fn seen(place: &Place, variables: &str, command: &str) -> String {
    let command = format!(
        "stty cols 80 rows 24; unset NO_COLOR; export {variables}; exec $TOOLCELL {command}"
    );
    Terminal::run(place, &command).ends().1
}

fn reporting(place: &Place, percent: &str) -> String {
    let input = json!({ "count": 4, "interval_ms": 200, "percent": percent });
    format!("call '{}' '{input}'", place.tool)
}

#[test]
fn progress_is_a_bar_or_a_spinner_in_the_characters_of_the_locale() {
    let place = Place::of(&guest("probe#progress"));
    for (variables, percent, bar, ascii) in [
        ("TERM=xterm LC_ALL=C.UTF-8", "even", true, false),
        ("TERM=xterm LC_ALL=C.UTF-8", "none", false, false),
        (
            "TERM=xterm LC_ALL= LC_CTYPE=C LANG=C.UTF-8",
            "even",
            true,
            true,
        ),
        ("TERM=xterm LC_ALL=C LANG=C.UTF-8", "none", false, true),
    ] {
        let seen = seen(&place, variables, &reporting(&place, percent));
        let what = format!("{variables} {percent}: {seen:?}");
        assert!(seen.contains(" of 4"), "{what}");
        assert_eq!(
            (seen.contains('%'), seen.is_ascii()),
            (bar, ascii),
            "{what}"
        );
        let full = if ascii { '#' } else { '\u{2588}' };
        assert_eq!(seen.contains(full), bar, "{what}");
    }
}

#[test]
fn progress_is_shown_only_where_it_can_be_drawn() {
    let place = Place::of(&guest("probe#progress"));
    let dumb = seen(
        &place,
        "TERM=dumb LC_ALL=C.UTF-8",
        &reporting(&place, "even"),
    );
    assert!(
        !dumb.contains(" of 4") && dumb.contains("reported"),
        "{dumb:?}"
    );
    let elsewhere = format!("{} 2>said", reporting(&place, "even"));
    assert!(!seen(&place, "TERM=xterm LC_ALL=C.UTF-8", &elsewhere).contains(" of 4"));
    assert_eq!(fs::read_to_string(place.folder.join("said")).unwrap(), "");
}

#[test]
fn an_error_has_the_colours_of_the_command_line_where_they_are_wanted() {
    const RED: &str = "\u{1b}[1m\u{1b}[31merror:\u{1b}[0m ";
    let place = Place::of(&guest("probe#fail"));
    let failing = format!(
        "call '{}' '{}'",
        place.tool,
        json!({ "class": "execution_failed" })
    );
    // A mistake that clap finds, one that toolcell finds, and the error of a tool.
    for command in ["nonsense", "trust nowhere", &failing] {
        let plain = |variables: &str| {
            let seen = seen(&place, variables, command);
            assert!(
                seen.contains("error: ") && !seen.contains('\u{1b}'),
                "{variables} {command}: {seen:?}"
            );
        };
        let red = seen(&place, "TERM=xterm", command);
        assert!(red.contains(RED), "{command}: {red:?}");
        plain("TERM=xterm NO_COLOR=1");
        plain("TERM=dumb");
        plain("TERM=dumb CI=true");
        assert!(
            seen(&place, "TERM=xterm NO_COLOR=", command).contains(RED),
            "an empty NO_COLOR says nothing"
        );
        let said = format!("{command} 2>said");
        seen(&place, "TERM=xterm", &said);
        let said = fs::read_to_string(place.folder.join("said")).unwrap();
        assert!(
            said.contains("error: ") && !said.contains('\u{1b}'),
            "{said:?}"
        );
    }
}

#[test]
fn a_person_who_starts_the_mcp_server_is_told_what_it_is_and_it_serves() {
    let place = Place::of(&guest("probe#echo"));
    let tool = echo_in(&place.folder);
    let mut terminal = Terminal::run(&place, &format!("exec $TOOLCELL mcp '{tool}'"));
    terminal.shows("toolcell mcp speaks MCP on standard input and output");
    terminal.shows("toolcell connect CLIENT TOOL...");
    let client = json!({ "name": "test", "version": "0" });
    let params =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    terminal.types(&format!("{request}\n"));
    terminal.shows("\"serverInfo\"");
    // A client reads nothing of it.
    let ran = Toolcell::new(["mcp", &tool]).stdin("").run();
    assert!(!ran.stderr.contains("toolcell connect"), "{}", ran.stderr);
}
