//! The picture on the first page: a session at a terminal, drawn as SVG for light and dark pages. It is run here again, and must
//! look the same, but for ids and times. `TOOLCELL_UPDATE_DOCS=1` draws what it looks like now.

use std::fmt::Write;

use super::approvals::Place;
use super::approvals::terminal::Terminal;
use crate::support::{Toolcell, component, root};

/// The commands, and what the user types when one asks.
const SESSION: [(&str, Option<&str>); 5] = [
    (
        "toolcell call shell.wasm#shell script='grep -rn TODO /src | tee todo' --allow-read=src=/src --workspace=agent",
        None,
    ),
    (
        "toolcell call shell.wasm#shell script='wc -l < todo' --workspace=agent",
        None,
    ),
    (
        "toolcell call files.wasm#read path=/etc/passwd --allow-read=src",
        None,
    ),
    (
        "toolcell call shell.wasm#shell_writing script='rm /src/main.rs' --allow-write=src=/src",
        Some("n keep it\n"),
    ),
    ("toolcell calls --limit=4", None),
];
const RULE: &str = "[[rule]]\nbehavior = \"ask\"\ntool = \"shell.shell_writing\"\n";
const SOURCE: &str = "fn main() {\n    // TODO: greet by name\n    println!(\"hello\");\n}\n";
/// Where the session seems to be.
const PLACE: &str = "/home/ada";

const WIDTH: usize = 960;
/// Characters of a line, by the widest of the fonts that pages have.
const COLUMNS: usize = 116;
const LINE_HEIGHT: usize = 19;
const MARGIN: usize = 22;

/// A page's colors: the ground, its frame, a text, a command, an error, what is quiet.
struct Colors {
    file: &'static str,
    words: [&'static str; 6],
}

const COLORS: [Colors; 2] = [
    Colors {
        file: "docs/session-light.svg",
        words: [
            "#f6f8fa", "#d0d7de", "#1f2328", "#0550ae", "#a40e26", "#57606a",
        ],
    },
    Colors {
        file: "docs/session-dark.svg",
        words: [
            "#0d1117", "#30363d", "#e6edf3", "#79c0ff", "#ff9d9d", "#9198a1",
        ],
    },
];

/// The lines of the session: a command begins with `$ `.
fn session() -> Vec<String> {
    let shell = component("example-tools/shell");
    let place = Place::of(&format!("{}#shell", shell.display()));
    let folder = place.folder.canonicalize().unwrap();
    std::fs::create_dir(folder.join("src")).unwrap();
    std::fs::write(folder.join("src/main.rs"), SOURCE).unwrap();
    std::fs::write(folder.join("../home/toolcell.toml"), RULE).unwrap();
    std::fs::copy(shell, folder.join("shell.wasm")).unwrap();
    std::fs::copy(component("example-tools/files"), folder.join("files.wasm")).unwrap();
    // Compiled beforehand, because a terminal waits for half a minute only.
    for tool in ["shell.wasm", "files.wasm"] {
        let tool = folder.join(tool).display().to_string();
        Toolcell::new(["describe", &tool]).run().exits(0);
    }
    let mut lines = Vec::new();
    for (command, answer) in SESSION {
        lines.push(format!("$ {command}"));
        let program = "PATH=$(dirname $TOOLCELL):$PATH NO_COLOR=1 TERM=dumb";
        let mut terminal = Terminal::run(&place, &format!("{program} {command}"));
        let mut printed = String::new();
        if let Some(answer) = answer {
            printed = terminal.shows("note after y or n) ");
            terminal.types(answer);
        }
        printed.push_str(&terminal.ends().1);
        let printed = printed.replace(folder.parent().unwrap().to_str().unwrap(), PLACE);
        lines.extend(printed.lines().map(|line| line.trim_end().to_owned()));
    }
    lines
}

/// A line in pieces that fit.
fn wrapped(line: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for word in line.split_inclusive(' ') {
        let last = pieces.last().unwrap();
        if !last.is_empty() && last.chars().count() + word.trim_end().chars().count() > COLUMNS {
            pieces.push("    ".to_owned());
        }
        pieces.last_mut().unwrap().push_str(word);
    }
    pieces
}

fn drawn(lines: &[String], colors: &Colors) -> String {
    let [ground, frame, text, command, error, quiet] = colors.words;
    let rows: Vec<(String, &str)> = lines
        .iter()
        .flat_map(|line| {
            let color = match line {
                line if line.starts_with("$ ") => command,
                line if line.starts_with("error: ") => error,
                line if line.starts_with("note: ") => quiet,
                _ => text,
            };
            wrapped(line).into_iter().map(move |row| (row, color))
        })
        .collect();
    let height = rows.len() * LINE_HEIGHT + 2 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>A session with toolcell</title>\n\
         <rect x=\"1\" y=\"1\" width=\"{}\" height=\"{}\" rx=\"8\" fill=\"{ground}\" stroke=\"{frame}\"/>\n\
         <g font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"13\" xml:space=\"preserve\">\n",
        WIDTH - 2,
        height - 2,
    );
    for (index, (row, color)) in rows.iter().enumerate() {
        let y = MARGIN + (index + 1) * LINE_HEIGHT - 5;
        let row = row.trim_end();
        let escaped = row
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        writeln!(
            svg,
            "<text x=\"{MARGIN}\" y=\"{y}\" fill=\"{color}\">{escaped}</text>"
        )
        .unwrap();
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// `text` without its ids, times, durations and digests of components.
fn masked(text: &str) -> String {
    let is_id = |word: &str| word.len() == 26 && word.starts_with("01");
    let is_time = |word: &str| word.starts_with("20") && word.contains('T') && word.ends_with('Z');
    let mut words: Vec<&str> = Vec::new();
    let text = text.replace("</text>", "");
    for word in text.split_whitespace() {
        let bare = word
            .rsplit('>')
            .next()
            .unwrap_or(word)
            .trim_matches(['(', ')', ',']);
        if word == "ms" {
            words.pop();
        }
        let is_new = is_id(bare) || is_time(bare) || bare.starts_with("sha256:");
        words.push(if is_new { "#" } else { word });
    }
    words.join(" ")
}

#[test]
#[ignore = "compiles two tools and waits at a terminal: cargo test -- --ignored"]
fn the_picture_of_the_first_page_shows_what_the_program_prints() {
    let lines = session();
    for colors in &COLORS {
        let path = root().join(colors.file);
        let picture = drawn(&lines, colors);
        if std::env::var_os("TOOLCELL_UPDATE_DOCS").is_some() {
            std::fs::write(&path, &picture).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap();
        let kept_lines = kept.lines().map(masked);
        let difference = kept_lines
            .zip(picture.lines().map(masked))
            .find(|(one, other)| one != other);
        assert!(
            masked(&kept) == masked(&picture),
            "{} is not current, from {difference:?} on; TOOLCELL_UPDATE_DOCS=1 just test-one cli::picture draws it",
            colors.file
        );
    }
}
