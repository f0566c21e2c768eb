//! Prints content on standard output, and everything else on standard error.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::host::{COLUMNS, Listener, Whitespace, visible, visible_json};
use crate::record::{
    CallRecord, Content, EventType, HookOutcome, PermissionDecision, Refusal, ToolError, ToolEvent, ToolHook,
    ToolResult,
};

use super::exit::{self, Exit};

/// Prints one line on standard error.
pub(super) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{}", printable(line, io::stderr().is_terminal()));
}

/// The number of columns for standard output; 78 if its width is unknown.
pub(super) fn columns() -> usize {
    let columns = rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_col));
    // One less, because a terminal may wrap a row that fills the last column.
    if columns == 0 { COLUMNS } else { columns - 1 }
}

/// Prints what a refusal says to the operator alone: the last output of a tool that crashed while it was loaded.
pub(super) fn detail(refusal: &Refusal) {
    refusal.detail.iter().flat_map(|detail| detail.lines()).for_each(|line| say(&format!("detail| {line}")));
}

/// Treats a broken pipe as success, because the reader wants no more.
pub(super) fn closed(error: io::Error) -> anyhow::Result<Exit> {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(Exit::Succeeded),
        _ => Err(error.into()),
    }
}

/// How the result of a call is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The content, for people.
    People,
    /// The `tool_result` record.
    Result,
    /// Everything that is known of the call.
    Record,
}

/// Prints the result of a call, and returns the matching exit code.
pub(super) fn record(record: &CallRecord, form: Form) -> anyhow::Result<Exit> {
    let exit = exit::of_result(&record.result);
    let printed = match form {
        Form::People => {
            aside_notes(&record.decisions);
            hooks(&record.hooks);
            result(&record.result)
        }
        Form::Result => {
            aside_notes(&record.decisions);
            json(&record.result)
        }
        Form::Record => json(record),
    };
    // The exit code is that of the call even if the reader closed the pipe.
    printed.map(|()| exit).or_else(|error| closed(error).map(|_| exit))
}

/// The notes of a decision: grants that give the call nothing.
pub(super) fn notes(decision: &PermissionDecision) -> impl Iterator<Item = &str> {
    let notes = decision.extra.get("notes").and_then(|notes| notes.as_array());
    notes.into_iter().flatten().filter_map(|note| note.as_str())
}

/// Prints notes on standard error, even if standard output is for programs, because they are for the person who granted
/// access. A write error does not keep the result from being printed.
fn aside_notes(decisions: &[PermissionDecision]) {
    let mut err = io::stderr().lock();
    for note in decisions.first().into_iter().flat_map(notes) {
        let _ = writeln!(err, "note: {}", visible(note, Whitespace::WrittenOut));
    }
}

/// Prints one line of JSON.
pub(super) fn json(value: &impl serde::Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", json_for_terminals(&serde_json::to_string(value)?))?;
    out.flush()
}

/// Prints a result for a person.
fn result(result: &ToolResult) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let terminal = out.is_terminal();
    let mut shown = false;
    for block in result.content.iter().filter(|block| block.is_model_facing()) {
        shown = true;
        let text = block_text(block);
        let text = printable(&text, terminal);
        out.write_all(text.as_bytes())?;
        if !text.ends_with('\n') {
            out.write_all(b"\n")?;
        }
    }
    if let (false, Some(structured)) = (shown, &result.structured_content) {
        let text = serde_json::to_string_pretty(structured)?;
        writeln!(out, "{}", json_for_terminals(&text))?;
    }
    out.flush()?;
    drop(out);
    aside(result)
}

/// Prints to standard error: the tool's own logs, a summary, the error.
fn aside(result: &ToolResult) -> io::Result<()> {
    let mut err = io::stderr().lock();
    let terminal = err.is_terminal();
    for block in result.content.iter().filter(|block| !block.is_model_facing()) {
        let stream = block.fields.get("stream").and_then(|stream| stream.as_str()).unwrap_or("log");
        for line in block_text(block).lines() {
            writeln!(err, "{stream}| {}", printable(line, terminal))?;
        }
    }
    if let Some(summary) = &result.ui_facing_summary {
        writeln!(err, "{}", printable(summary, terminal))?;
    }
    if let Some(error) = &result.error {
        writeln!(err, "{}", printable(&error_line(error), terminal))?;
    }
    Ok(())
}

/// Prints the messages of hooks for people, and why a hook failed: the error does not say it, because a model may read
/// that. As with [`aside_notes`], the result does not depend on it.
fn hooks(runs: &[ToolHook]) {
    let mut err = io::stderr().lock();
    let terminal = err.is_terminal();
    for run in runs {
        let messages = run.outputs.iter().filter(|output| output.get("type").is_some_and(|kind| kind == "message"));
        let messages = messages.filter_map(|message| message.get("text")?.as_str());
        // A hook that was not loaded was reported before the call.
        let failure = run.error.as_deref().filter(|_| run.outcome != HookOutcome::NotLoaded);
        for line in messages.chain(failure).flat_map(str::lines) {
            let _ = writeln!(err, "hook {}| {}", run.hook_id, printable(line, terminal));
        }
    }
}

fn error_line(error: &ToolError) -> String {
    let class = serde_json::to_value(error.error_class).ok();
    let class = class.as_ref().and_then(|class| class.as_str()).unwrap_or("error");
    format!("error: {} [{class}/{}]", error.message, error.error_code)
}

fn block_text(block: &Content) -> String {
    if let Some(text) = block.as_text() {
        return text.to_owned();
    }
    if block.is_persisted() {
        let preview = block.fields.get("preview").and_then(|preview| preview.as_str()).unwrap_or_default();
        let reference = block.fields.get("persisted_ref");
        let of = |field: &str| reference.and_then(|r| r.get(field)).map(ToString::to_string).unwrap_or_default();
        return format!("{preview}\n[... {} bytes in all, kept as {}]", of("size_bytes"), of("uri"));
    }
    serde_json::to_string(block).unwrap_or_default()
}

/// Escapes control, bidirectional and invisible characters for a terminal. A file or a pipe gets the text unchanged.
pub(super) fn printable(text: &str, terminal: bool) -> String {
    if terminal && guard!("terminal_escapes") { visible(text, Whitespace::Kept) } else { text.to_owned() }
}

/// The same JSON, safe for terminals: such characters occur in strings only, and JSON can escape them.
pub(super) fn json_for_terminals(text: &str) -> Cow<'_, str> {
    if guard!("terminal_escapes") { visible_json(text) } else { Cow::Borrowed(text) }
}

/// Shows progress as a bar on standard error while a tool runs.
pub(super) struct Bar(ProgressBar);

impl Bar {
    /// Returns a bar if standard error is a terminal.
    pub(super) fn if_seen() -> Option<Arc<Self>> {
        if !io::stderr().is_terminal() {
            return None;
        }
        let bar = ProgressBar::new(100);
        let style = ProgressStyle::with_template("{spinner} {wide_bar} {pos:>3}% {msg}").ok()?;
        bar.set_style(style);
        Some(Arc::new(Self(bar)))
    }

    pub(super) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

impl Listener for Bar {
    fn event(&self, event: &ToolEvent) {
        if event.event_type == EventType::NeedsInput {
            // The user types on this line now.
            self.0.disable_steady_tick();
            self.0.finish_and_clear();
            self.0.set_draw_target(ProgressDrawTarget::hidden());
        }
        if event.event_type == EventType::Resumed {
            self.0.reset();
            self.0.set_draw_target(ProgressDrawTarget::stderr());
        }
        if !matches!(event.event_type, EventType::Progress | EventType::PartialResult) {
            return;
        }
        self.0.enable_steady_tick(Duration::from_millis(120));
        let field = |name: &str| event.data.pointer(&format!("/progress/{name}"));
        if let Some(percent) = field("percent").and_then(|percent| percent.as_f64()) {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
            self.0.set_position(percent as u64);
        }
        if let Some(message) = field("message").or(field("current_step")).and_then(|message| message.as_str()) {
            self.0.set_message(printable(message, true));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{json_for_terminals, printable};

    #[test]
    fn json_stays_the_same_and_spells_what_would_act() {
        let value = serde_json::json!({"a\u{9b}31m": ["\u{202e}x\u{e0041}\u{7f}\n", "b\u{e9}"]});
        let text = serde_json::to_string_pretty(&value).unwrap();
        let shown = json_for_terminals(&text);
        assert!(shown.contains("\\u009b31m") && shown.contains("\\udb40\\udc41\\u007f") && shown.contains('\u{e9}'));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    #[test]
    fn a_terminal_is_spared_what_would_act_on_it() {
        assert_eq!(printable("a\x1b[2Jb\u{202e}c\n", true), "a\\u{1b}[2Jb\\u{202e}c\n");
        assert_eq!(printable("a\x1b[2Jb", false), "a\x1b[2Jb");
    }
}
