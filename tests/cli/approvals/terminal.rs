//! Questions at a terminal, which `script` of util-linux provides.
//!
//! Promise: A question cannot be forged, neither by its characters nor by its length.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::guest;
use super::Place;
use crate::cli::interrupts::wait_until;

/// A program at a terminal, and the keys that its user types.
pub(crate) struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    /// Runs the shell command `command` in the folder of `place`.
    pub(crate) fn run(place: &Place, command: &str) -> Self {
        let mut child = Command::new("script")
            .args(["--quiet", "--return", "--command", command, "/dev/null"])
            .current_dir(&place.folder)
            .env("TOOLCELL_HOME", &place.home)
            .env("TOOLCELL", env!("CARGO_BIN_EXE_toolcell"))
            .env("TOOLCELL_SESSION", "")
            .env_remove("TOOLCELL_ACTOR")
            .env_remove("VISUAL")
            .env_remove("EDITOR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (send, screen) = channel();
        let mut out = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = out.read(&mut piece) {
                if send.send(piece[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        let keys = child.stdin.take().unwrap();
        Self {
            child,
            keys,
            screen,
            seen: String::new(),
        }
    }

    fn call(place: &Place, input: &str, options: &str) -> Self {
        fs::write(place.folder.join("input"), input).unwrap();
        let folder = place.folder.display();
        Self::run(
            place,
            &format!(
                "exec $TOOLCELL call '{}' @input --allow-write={folder} {options}",
                place.tool
            ),
        )
    }

    /// Waits until the screen has shown `text` once more.
    #[track_caller]
    pub(crate) fn shows(&mut self, text: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !self.seen.contains(text) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.screen.recv_timeout(left) {
                Ok(piece) => self.seen.push_str(&String::from_utf8_lossy(&piece)),
                Err(_) => panic!("the screen does not show {text:?}, but {:?}", self.seen),
            }
        }
        let end = self.seen.find(text).unwrap() + text.len();
        let rest = self.seen.split_off(end);
        std::mem::replace(&mut self.seen, rest)
    }

    pub(crate) fn types(&mut self, text: &str) {
        self.keys.write_all(text.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// The exit code and the output, once the program has ended.
    pub(crate) fn ends(&mut self) -> (Option<i32>, String) {
        let mut ended = None;
        wait_until("ending", || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        while let Ok(piece) = self.screen.recv_timeout(Duration::from_secs(5)) {
            self.seen.push_str(&String::from_utf8_lossy(&piece));
        }
        (ended.unwrap().code(), std::mem::take(&mut self.seen))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The end of every question.
const ASKS: &str = "add a note after y or n) ";

#[test]
fn a_person_at_the_terminal_says_yes_or_no() {
    let place = Place::new();
    let mut terminal = Terminal::call(&place, &place.input("one"), "");
    let question = terminal.shows(ASKS);
    for words in [
        "Run this call?",
        "probe.append_approved",
        "read and change files in",
        "Every line costs money.",
    ] {
        assert!(question.contains(words), "{question}");
    }
    terminal.types("maybe\n");
    terminal.shows(ASKS);
    assert!(place.lines().is_empty(), "only a yes is a yes");
    terminal.types("y go on\n");
    assert_eq!(terminal.ends().0, Some(0));
    assert_eq!(place.lines(), ["one"]);

    let mut terminal = Terminal::call(&place, &place.input("two"), "");
    terminal.shows(ASKS);
    terminal.types("n\n");
    assert_eq!(terminal.ends().0, Some(3));
    assert_eq!(place.lines(), ["one"]);
    let answers: Vec<Value> = place
        .list(&["--all"])
        .iter()
        .map(|(id, _)| place.show(id)["answer"].clone())
        .collect();
    assert_eq!(
        (&answers[1]["channel"], &answers[1]["feedback"]),
        (&json!("terminal"), &json!("go on"))
    );
}

#[test]
fn a_question_names_the_workspace_instead_of_its_place() {
    let place = Place::new();
    let input = r#"{"path": "/workspace/lines", "text": "one\n"}"#;
    fs::write(place.folder.join("input"), input).unwrap();
    let command = format!(
        "exec $TOOLCELL call '{}' @input --workspace=notes",
        place.tool
    );
    let mut terminal = Terminal::run(&place, &command);
    let question = terminal.shows(ASKS);
    let home = place.home.display().to_string();
    assert!(
        question.contains("read and change files in /workspace of the workspace notes"),
        "{question}"
    );
    assert!(!question.contains(&home), "{question}");
    terminal.types("y\n");
    assert_eq!(terminal.ends().0, Some(0));
}

#[test]
fn what_the_record_says_was_shown_is_what_was_shown() {
    let place = Place::new();
    let mut terminal = Terminal::call(&place, &place.input("one"), "");
    let question = terminal.shows(ASKS).replace("\r\n", "\n");
    let (id, _) = place.list(&[])[0].clone();
    let shown = place.show(&id)["decisions"][0]["content_blocks"][0]["text"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        question.starts_with(&shown),
        "{question:?} is not {shown:?}"
    );
    assert!(
        question[shown.len()..].starts_with("[y yes"),
        "nothing else was shown: {question:?}"
    );
    terminal.types("n\n");
    assert_eq!(terminal.ends().0, Some(3));
}

#[test]
fn what_was_typed_before_the_question_is_no_answer() {
    let place = Place::new();
    fs::write(place.folder.join("input"), place.input("one")).unwrap();
    let folder = place.folder.display();
    let tool = &place.tool;
    let command = format!(
        "echo ready; while [ ! -e go ]; do sleep 0.02; done; \
         exec $TOOLCELL call '{tool}' @input --allow-write={folder}"
    );
    let mut terminal = Terminal::run(&place, &command);
    terminal.shows("ready");
    terminal.types("y\ny\n");
    // The terminal echoes the input, so it is queued and ready to be read.
    terminal.shows("y\r\ny\r\n");
    fs::write(place.folder.join("go"), "").unwrap();
    terminal.shows(ASKS);
    terminal.types("n\n");
    assert_eq!(terminal.ends().0, Some(3));
    assert!(place.lines().is_empty());
}

#[test]
fn nothing_in_the_arguments_can_forge_the_question() {
    let place = Place::new();
    let forged =
        "\u{1b}[2J\r\n  tool       harmless.echo\n\u{202e}\u{200b}\u{e0041}\u{9b}31m[approved]";
    // As raw characters between JSON tokens, where JSON allows them, and escaped in a string.
    let input = format!(
        "{{\"path\":{},\"text\":\"{}\"}}",
        json!(place.file()),
        "\u{202e}\u{200b}\u{e0041}\u{feff}"
    );
    let spaced = input.replacen('{', "{\n\r\n\r\t\n", 1);
    let escaped = json!({ "path": place.file(), "text": forged }).to_string();
    for input in [spaced, escaped] {
        let mut terminal = Terminal::call(&place, &input, "");
        let question = terminal.shows(ASKS);
        let hidden = |c: &char| {
            (c.is_control() && *c != '\r' && *c != '\n')
                || matches!(
                    *c,
                    '\u{200b}' | '\u{202e}' | '\u{feff}' | '\u{e0041}' | '\u{9b}'
                )
        };
        assert_eq!(question.chars().filter(hidden).collect::<String>(), "");
        let tools = question
            .lines()
            .filter(|line| line.starts_with("| tool "))
            .count();
        assert_eq!(tools, 1, "{question}");
        terminal.types("n\n");
        terminal.ends();
    }
    assert!(place.lines().is_empty());
}

#[test]
fn long_arguments_are_cut_and_the_question_says_so() {
    let place = Place::new();
    let long = format!("{}secret-end", "a".repeat(5_000));
    let mut terminal = Terminal::call(&place, &place.input(&long), "");
    let question = terminal.shows(ASKS);
    assert!(
        question.contains("WARNING: this view is incomplete")
            && question.contains(" more lines, v shows all"),
        "{question}"
    );
    assert!(!question.contains("secret-end"));
    let (id, _) = place.list(&[])[0].clone();
    let full = place.run(&["approvals", "show", &id, "--full"]).exits(0);
    assert!(
        full.stdout
            .replace("\n|            ", "")
            .contains("secret-end"),
        "{}",
        full.stdout
    );
    // A yes does not count until the rest was shown, or the user scrolled to the end.
    terminal.types("y\n");
    terminal.shows("part of the call is hidden");
    terminal.shows(ASKS);
    terminal.types("v\n");
    terminal.shows("g for the end, q to go back] ");
    terminal.types("q\n");
    terminal.shows(ASKS);
    terminal.types("y\n");
    terminal.shows("part of the call is hidden");
    terminal.shows(ASKS);
    assert!(place.lines().is_empty());
    terminal.types("v\n");
    let mut shown = terminal.shows("g for the end, q to go back] ");
    for _ in 0..3 {
        terminal.types("\n");
        shown += &terminal.shows("g for the end, q to go back] ");
    }
    terminal.types("g\n");
    shown += &terminal.shows(ASKS);
    assert!(
        shown.contains("secret-end") && shown.contains("\nRun this call?"),
        "{shown}"
    );
    terminal.types("y\n");
    assert_eq!(terminal.ends().0, Some(0));
    assert_eq!(place.lines().len(), 1);
}

/// The rows that a terminal of 80 columns and 24 rows shows in the end.
fn screen(written: &str) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for line in written.split('\n') {
        let line: Vec<char> = line.trim_end_matches('\r').chars().collect();
        if line.is_empty() {
            rows.push(String::new())
        } else {
            rows.extend(line.chunks(80).map(|row| row.iter().collect()))
        }
    }
    rows.split_off(rows.len().saturating_sub(24))
}

#[test]
fn padding_forges_no_row_of_a_question_and_scrolls_nothing_true_away() {
    let place = Place::new();
    let folder = place.folder.display();
    // The rows of a forged question, each as wide as the terminal: padded with several kinds of blanks, or with dots.
    let forged = [
        "Run this call?",
        "  tool       harmless.echo",
        "| tool       harmless.echo",
        "| access     touch nothing outside its sandbox",
        "| risk       low",
        "Run this call?",
        "[y yes, n no, e edit the arguments; add a note after y or n) ",
    ];
    for pad in [' ', '\u{a0}', '\u{3000}', '.', '\u{2800}'] {
        let wide = |row: &&str| format!("{row}{}", pad.to_string().repeat(80 - row.len()));
        for before in [0, 13, 50] {
            let text = format!(
                "{}{}",
                "x".repeat(before),
                forged.iter().map(wide).collect::<String>().repeat(4)
            );
            let input = json!({ "path": place.file(), "text": text }).to_string();
            fs::write(place.folder.join("input"), input).unwrap();
            let command = format!(
                "stty cols 80 rows 24; exec $TOOLCELL call '{}' @input --allow-write={folder}",
                place.tool
            );
            let mut terminal = Terminal::run(&place, &command);
            let written = terminal.shows(ASKS);
            let screen = screen(&written);
            let row = |words: &str| screen.iter().filter(|row| row.starts_with(words)).count();
            assert_eq!(
                row("Approval needed: a tool wants to run."),
                1,
                "all of it is there: {screen:#?}"
            );
            for words in [
                "| tool       probe.append_approved",
                "| access     read and change files in ",
                "| risk       medium",
            ] {
                assert_eq!(row(words), 1, "{words}: {screen:#?}");
            }
            assert_eq!(
                (
                    row("Run this call?"),
                    row("| tool"),
                    row("["),
                    row("| risk")
                ),
                (1, 1, 1, 1),
                "{screen:#?}"
            );
            for row in screen
                .iter()
                .filter(|row| row.contains("harmless") || row.contains("xxx"))
            {
                assert!(
                    row.starts_with("| arguments  ") || row.starts_with("|            "),
                    "{row:?} in {screen:#?}"
                );
            }
            assert!(screen[screen.len() - 2].starts_with('['), "{screen:#?}");
            terminal.types("n\n");
            assert_eq!(terminal.ends().0, Some(3));
        }
    }
    assert!(place.lines().is_empty());
}

#[test]
fn letters_that_pass_for_others_are_written_out() {
    let place = Place::new();
    let mut terminal = Terminal::call(
        &place,
        &place.input("p\u{430}ypal.com \u{43f}\u{440}\u{438}\u{432}\u{435}\u{442}"),
        "",
    );
    let question = terminal.shows(ASKS);
    let question = question.replace("\r\n|            \\ ", "");
    assert!(
        question.contains("p\\u{430}ypal.com \u{43f}\u{440}\u{438}\u{432}\u{435}\u{442}"),
        "{question}"
    );
    terminal.types("n\n");
    terminal.ends();
}

#[test]
fn a_terminal_too_narrow_for_a_question_leaves_it_to_others() {
    let place = Place::new();
    fs::write(place.folder.join("input"), place.input("one")).unwrap();
    let folder = place.folder.display();
    let command = format!(
        "stty cols 30 rows 24; exec $TOOLCELL call '{}' @input --allow-write={folder}",
        place.tool
    );
    let mut terminal = Terminal::run(&place, &command);
    let said = terminal.shows("toolcell approvals deny");
    assert!(
        said.contains("too narrow") && !said.contains("Run this call?"),
        "{said}"
    );
    let (id, _) = place.list(&[])[0].clone();
    place.run(&["approvals", "approve", &id]).exits(0);
    assert_eq!(terminal.ends().0, Some(0));
    assert_eq!(place.lines(), ["one"]);
}

#[test]
fn arguments_are_edited_on_a_line_or_in_an_editor() {
    let place = Place::new();
    let mut terminal = Terminal::call(&place, &place.input("one"), "");
    terminal.shows(ASKS);
    terminal.types("e\n");
    terminal.shows("as one line of JSON: ");
    terminal.types("{nonsense\n");
    terminal.shows("these are not JSON");
    terminal.shows(ASKS);
    // A wrong key is no reason to end the call, either.
    terminal.types("e\n");
    terminal.shows("as one line of JSON: ");
    terminal.types("{\"pth\": \"x\", \"text\": \"y\"}\n");
    let told = terminal.shows(ASKS);
    for words in [
        "keeping the previous ones",
        "e edits them again:\r\n| {\"pth\"",
        "pth",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    terminal.types("e\n");
    terminal.shows("as one line of JSON: ");
    terminal.types(&format!("{}\n", place.input("two")));
    terminal.shows(ASKS);
    assert!(place.lines().is_empty(), "an edit is no yes");
    // What "always" covers was said of the call that was asked about.
    terminal.types("a\n");
    assert!(!terminal.shows(ASKS).contains("a always"));
    terminal.types("y\n");
    assert_eq!(terminal.ends().0, Some(0));
    assert_eq!(place.lines(), ["two"]);
}

#[test]
fn an_editor_begins_with_the_arguments_and_then_with_what_was_wrong() {
    let place = Place::new();
    let folder = place.folder.display();
    let tool = &place.tool;
    // The editor keeps what it was given, and writes what comes next.
    fs::write(
        place.folder.join("editor"),
        "stat -c %a \"$1\" >modes\ncat \"$1\" >>seen\necho == >>seen\ncp next \"$1\"\n",
    )
    .unwrap();
    let wrong = "{\"path\": 7}\n";
    fs::write(place.folder.join("next"), wrong).unwrap();
    fs::write(place.folder.join("input"), place.input("one")).unwrap();
    let command = format!(
        "EDITOR=no VISUAL='sh editor' exec $TOOLCELL call '{tool}' @input --allow-write={folder}"
    );
    let mut terminal = Terminal::run(&place, &command);
    terminal.shows(ASKS);
    terminal.types("e\n");
    let told = terminal.shows(ASKS);
    assert!(
        told.contains("these arguments are not valid") && told.contains("\n| {\"path\": 7}"),
        "{told}"
    );
    fs::write(place.folder.join("next"), place.input("three")).unwrap();
    terminal.types("e\n");
    assert!(
        terminal
            .shows(ASKS)
            .contains("the call will run with these arguments")
    );
    assert!(place.lines().is_empty(), "an edit is no yes");
    terminal.types("y\n");
    assert_eq!(terminal.ends().0, Some(0));
    assert_eq!(place.lines(), ["three"]);
    let asked = format!(
        "{{\n  \"path\": {},\n  \"text\": \"one\\n\"\n}}\n",
        json!(place.file())
    );
    let seen = fs::read_to_string(place.folder.join("seen")).unwrap();
    assert_eq!(seen, format!("{asked}==\n{}==\n", wrong.trim_end()));
    assert_eq!(
        fs::read_to_string(place.folder.join("modes")).unwrap(),
        "600\n",
        "others read no arguments"
    );
}

#[test]
fn text_of_several_lines_is_shown_as_lines_and_the_summary_comes_last() {
    let place = Place::new();
    let text = "first\n| tool       harmless.echo\nRun this call?\n[y yes] ";
    let mut terminal = Terminal::call(&place, &place.input(text), "");
    let question = terminal.shows(ASKS).replace("\r\n", "\n");
    let shown = "|            \"text\": 4 lines\n|                first\n|                | tool[7 blanks]harmless.echo\n\
                 |                Run this call?\n|                [y yes] \n";
    assert!(question.contains(shown), "{question}");
    let rows: Vec<&str> = question.lines().collect();
    let at = |words: &str| rows.iter().position(|row| row.starts_with(words)).unwrap();
    let order = [
        "| call ",
        "| arguments ",
        "| id ",
        "| tool ",
        "| risk ",
        "| access ",
        "| caller ",
        "Run this",
        "[y",
    ];
    assert!(order.map(at).is_sorted(), "{question}");
    let lead = rows[at("| call ")];
    assert!(
        lead.contains("probe.append_approved wants to read and change files in "),
        "{question}"
    );
    assert_eq!(
        at("[y") - at("| caller "),
        2,
        "nothing is between the summary and the question: {question}"
    );
    assert!(rows[at("[y")].contains("(10 min left; "), "{question}");
    // All of it again.
    terminal.types("v\n");
    assert!(terminal.shows(ASKS).contains("| arguments  \"path\": "));
    terminal.types("n\n");
    assert_eq!(terminal.ends().0, Some(3));
}

#[test]
fn at_most_eight_lines_of_arguments_are_shown_on_any_display() {
    let place = Place::new();
    let lines: String = (1..=40).map(|number| format!("line {number}\n")).collect();
    fs::write(place.folder.join("input"), place.input(lines.trim_end())).unwrap();
    let folder = place.folder.display();
    let tool = &place.tool;
    let command =
        format!("stty cols 80 rows 40; exec $TOOLCELL call '{tool}' @input --allow-write={folder}");
    let mut terminal = Terminal::run(&place, &command);
    let question = terminal.shows(ASKS);
    assert!(
        question.contains("line 6\r\n|            \u{2026} 34 more lines, v shows all\r\n"),
        "{question}"
    );
    terminal.types("v\n");
    terminal.shows("go back] ");
    terminal.types("\n");
    terminal.shows("line 40\r\n");
    terminal.shows(ASKS);
    terminal.types("y\n");
    assert_eq!(terminal.ends().0, Some(0));
    assert_eq!(place.lines().len(), 40);
}

#[test]
fn always_is_for_the_session_of_the_terminal() {
    let place = Place::new();
    fs::write(place.folder.join("input"), place.input("one")).unwrap();
    let call = format!(
        "$TOOLCELL call '{}' @input --allow-write={}",
        place.tool,
        place.folder.display()
    );
    let mut terminal = Terminal::run(&place, &format!("{call}; {call}; echo both"));
    let question = terminal.shows(ASKS).replace("\r\n|            ", "");
    let component = question
        .split("\n| component  ")
        .nth(1)
        .unwrap()
        .lines()
        .next()
        .unwrap()
        .to_owned();
    let covers = format!("\n| always     would allow any call of this tool ({component}) within ");
    assert!(
        question.contains(&covers) && question.contains("for 12 hours in this session"),
        "{question}"
    );
    terminal.types("a\n");
    let rest = terminal.shows("both");
    assert!(
        !rest.contains("Run this call?"),
        "it was asked again: {rest}"
    );
    assert_eq!(terminal.ends().0, Some(0));
    assert_eq!(place.lines(), ["one", "one"]);
    // Another terminal is another session.
    let mut terminal = Terminal::run(&place, &call);
    terminal.shows(ASKS);
    terminal.types("n\n");
    assert_eq!(terminal.ends().0, Some(3));
}

#[test]
fn an_answer_from_elsewhere_ends_the_question_at_the_terminal() {
    let place = Place::new();
    let mut terminal = Terminal::call(&place, &place.input("one"), "");
    terminal.shows(ASKS);
    let (id, _) = place.list(&[])[0].clone();
    place.run(&["approvals", "approve", &id]).exits(0);
    let (code, screen) = terminal.ends();
    assert_eq!(code, Some(0));
    assert_eq!(place.lines(), ["one"]);
    // The result begins on a line of its own.
    assert!(
        screen.starts_with("\r\n(already answered elsewhere, or expired)\r\n"),
        "{screen:?}"
    );
}

#[test]
fn an_interrupt_at_the_question_cancels_the_call() {
    let place = Place::new();
    let mut terminal = Terminal::call(&place, &place.input("one"), "");
    terminal.shows(ASKS);
    terminal.types("\u{3}");
    assert_eq!(terminal.ends().0, Some(5));
    assert_eq!(place.list(&["--all"])[0].1, "canceled");
    assert!(place.lines().is_empty());
}

#[test]
fn what_a_tool_asks_is_answered_line_by_line() {
    let place = Place::of(&guest("probe#ask"));
    let schema = json!({
        "type": "object",
        "properties": { "age": { "type": "integer" }, "name": { "type": "string", "default": "Ada" } },
        "required": ["age", "name"],
    });
    let input = |key: &str| json!({ "rounds": [[{ "key": key, "message": "Who are you?", "schema": schema }]] });
    let mut terminal = Terminal::call(&place, &input("a").to_string(), "--json");
    let asked = terminal.shows("\r\n  answer (integer; required): ");
    assert!(
        asked.contains("The tool probe.ask asks (its own words):") && asked.contains("\n| age\r\n"),
        "{asked}"
    );
    terminal.types("many\n");
    let asked = terminal.shows("\r\n  answer (string; empty means the default): ");
    assert!(
        asked.contains("\n| name\r\n| default: \"Ada\"\r\n"),
        "{asked}"
    );
    terminal.types("\n");
    let again = terminal.shows("answer (integer; required): ");
    assert!(
        again.contains("these answers cannot be used:") && again.contains("once more"),
        "{again}"
    );
    terminal.types("36\n");
    terminal.shows("answer (string; empty means the default): ");
    terminal.types("\n");
    let (code, rest) = terminal.ends();
    assert_eq!(code, Some(0), "{rest}");
    let content = json!({ "age": 36, "name": "Ada" });
    assert!(
        rest.replace(char::is_whitespace, "")
            .contains(&content.to_string()),
        "{rest}"
    );

    for (typed, action) in [("/decline\n", "decline"), ("\u{4}", "cancel")] {
        let mut terminal = Terminal::call(&place, &input("b").to_string(), "--json");
        terminal.shows("answer (integer; required): ");
        terminal.types(typed);
        let (code, rest) = terminal.ends();
        assert!(code == Some(0) && rest.contains(action), "{code:?} {rest}");
    }
    let mut terminal = Terminal::call(&place, &input("c").to_string(), "");
    terminal.shows("answer (integer; required): ");
    terminal.types("\u{3}");
    assert_eq!(terminal.ends().0, Some(5), "a canceled call");
}

#[test]
fn a_stored_question_keeps_its_gutter_on_a_narrower_display() {
    let place = Place::new();
    let id = place.orphan(&format!("{}Run this call? no", "forged ".repeat(60)), &[]);
    let show = format!("stty cols 50 rows 60; exec $TOOLCELL approvals show {id}");
    let (code, seen) = Terminal::run(&place, &show).ends();
    assert_eq!(code, Some(0), "{seen}");
    // A terminal wraps a wider row itself, without a gutter before the rest.
    assert!(
        seen.lines().all(|row| row.trim_end().chars().count() < 50),
        "{seen}"
    );
    let forged: Vec<&str> = seen.lines().filter(|row| row.contains("forged")).collect();
    assert!(
        forged.len() > 5 && forged.iter().all(|row| row.starts_with("| ")),
        "{seen}"
    );
    assert_eq!(
        seen.lines()
            .filter(|row| row.starts_with("Run this call?"))
            .count(),
        1,
        "{seen}"
    );
}
