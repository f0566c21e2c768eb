//! Prints content on standard output, and everything else on standard error.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use clap::builder::styling::AnsiColor;
use indicatif::ProgressStyle;
use serde::Deserialize;
use serde_json::{Value, json};
use toolcell_engine::approval::COLUMNS;
pub(crate) use toolcell_page::words::{counted, quoted};
use toolcell_spec::text::{Whitespace, visible, visible_json};
use toolcell_spec::{
    ARTIFACT, Behavior, CallRecord, Content, ContextModifier, HookOutcome, PermissionDecision,
    Refusal, ToolHook, ToolResult,
};
use toolcell_workspace::{ChangeList, FileChange};

use super::exit::{self, Exit};

type LineTaker = Box<dyn Fn(&str) + Send + Sync>;

static TAKES: OnceLock<LineTaker> = OnceLock::new();

pub(crate) fn say_through(takes: impl Fn(&str) + Send + Sync + 'static) {
    let _ = TAKES.set(Box::new(takes));
}

pub(crate) fn say(line: &str) {
    if let Some(takes) = TAKES.get() {
        return takes(line);
    }
    let terminal = io::stderr().is_terminal();
    let _ = writeln!(
        io::stderr(),
        "{}",
        emphasized(&printable(line, terminal), terminal && wants_colours())
    );
}

fn emphasized(line: &str, colours: bool) -> Cow<'_, str> {
    match line.strip_prefix("error:").filter(|_| colours) {
        Some(rest) => {
            let style = AnsiColor::Red.on_default().bold();
            Cow::Owned(format!("{style}error:{style:#}{rest}"))
        }
        None => Cow::Borrowed(line),
    }
}

/// Reads NO_COLOR and TERM.
pub(crate) fn wants_colours() -> bool {
    wants_colours_by(variable)
}

fn wants_colours_by(variable: impl Fn(&str) -> Option<String>) -> bool {
    variable("NO_COLOR").is_none_or(|value| value.is_empty())
        && variable("TERM").is_some_and(|name| name != "dumb")
}

/// Reads the locale from the first variable that is set and not empty.
fn is_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(variable)
        .find(|value| !value.is_empty());
    locale.is_some_and(|locale| {
        ["utf-8", "utf8"]
            .iter()
            .any(|name| locale.to_ascii_lowercase().contains(name))
    })
}

fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// 78 if unknown.
pub(crate) fn columns() -> usize {
    let columns =
        rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_col));
    // One less, because a terminal may wrap a row that fills the last column.
    if columns == 0 { COLUMNS } else { columns - 1 }
}

/// The text has the code that `toolcell explain` takes.
pub(crate) fn refused(refusal: &Refusal) {
    say(&format!("error: {} [{}]", refusal.message, refusal.code));
}

/// The operator alone gets the last output of a tool that crashed while it was loaded.
pub(crate) fn detail(refusal: &Refusal) {
    refusal
        .detail
        .iter()
        .flat_map(|detail| detail.lines())
        .for_each(|line| say(&format!("detail| {line}")));
}

pub(crate) fn refuse(refusal: &Refusal, as_json: bool) -> anyhow::Result<Exit> {
    let error = json!({ "error": refusal.to_error() });
    outcome(Some(refusal), as_json.then_some(&error), "")
}

/// Prints `record` as JSON, if wanted, or else the refusal or `made`.
pub(crate) fn outcome(
    refusal: Option<&Refusal>,
    record: Option<&Value>,
    made: &str,
) -> anyhow::Result<Exit> {
    refusal.into_iter().for_each(detail);
    let exit = refusal.map_or(Exit::Succeeded, exit::of_refusal);
    match (record, refusal) {
        (Some(record), _) => done(json(record), exit),
        (None, Some(refusal)) => {
            refused(refusal);
            Ok(exit)
        }
        (None, None) => text(&format!("{made}\n")),
    }
}

pub(crate) fn print(text: impl AsRef<[u8]>) -> anyhow::Result<Exit> {
    let mut out = io::stdout().lock();
    let printed = out.write_all(text.as_ref()).and_then(|()| out.flush());
    done(printed, Exit::Succeeded)
}

/// Prints `text`, in which nothing acts on a terminal.
pub(crate) fn text(text: &str) -> anyhow::Result<Exit> {
    print(printable(text, io::stdout().is_terminal()))
}

/// Others wrote the text: each line stays on its line.
pub(crate) fn lines(lines: impl IntoIterator<Item = String>) -> anyhow::Result<Exit> {
    let lines = lines.into_iter();
    let lines = lines.map(|line| visible(&line, Whitespace::WrittenOut) + "\n");
    print(lines.collect::<String>())
}

pub(crate) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<Exit> {
    done(json(value), Exit::Succeeded)
}

/// A closed pipe is no failure.
pub(crate) fn done(printed: io::Result<()>, exit: Exit) -> anyhow::Result<Exit> {
    printed.or_else(|error| closed(error).map(drop))?;
    Ok(exit)
}

/// A broken pipe is a success, because the reader wants no more.
pub(crate) fn closed(error: io::Error) -> anyhow::Result<Exit> {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(Exit::Succeeded),
        _ => Err(error.into()),
    }
}

/// How the result of a call is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    People,
    Result,
    Record,
}

/// Returns the matching exit code.
pub(crate) fn record(record: &CallRecord, form: Form) -> anyhow::Result<Exit> {
    if form != Form::Record {
        aside_notes(&record.decisions);
    }
    let printed = match form {
        Form::People => people(record, "", ""),
        Form::Result => represented(&record.result).and_then(|result| json(&result)),
        Form::Record => whole(record).and_then(|record| json(&record)),
    };
    done(printed, exit::of_result(&record.result))
}

/// The grants are for all calls of the batch, so there are no notes on unused ones.
pub(crate) fn record_of_batch(id: &str, record: &CallRecord, form: Form) -> anyhow::Result<Exit> {
    let printed = match form {
        Form::People => {
            // In front of every line, so that the output of one call cannot pass for that of another.
            let id = visible(id, Whitespace::WrittenOut);
            people(record, &format!("{id}| "), &format!("{id}: "))
        }
        Form::Result => represented(&record.result)
            .and_then(|result| json(&json!({ "id": id, "result": result }))),
        Form::Record => whole(record).and_then(|record| json(&record)),
    };
    done(printed, exit::of_result(&record.result))
}

pub(crate) fn modifiers_of_batch(
    id: &str,
    modifiers: &[ContextModifier],
    form: Form,
) -> anyhow::Result<()> {
    let printed = match form {
        Form::People => {
            let prefix = format!("{}: ", visible(id, Whitespace::WrittenOut));
            modifiers.iter().try_for_each(|modifier| {
                writeln!(io::stderr(), "{prefix}{}", modifier_line(modifier))
            })
        }
        Form::Result | Form::Record => json(&json!({ "id": id, "context_modifiers": modifiers })),
    };
    printed.or_else(|error| closed(error).map(drop))
}

fn modifier_line(ContextModifier { key, value }: &ContextModifier) -> String {
    format!(
        "context| {key} = {}",
        json_for_terminals(&value.to_string())
    )
}

/// The record does not hold the representations (AT-REND-01..08).
fn represented(result: &ToolResult) -> io::Result<Value> {
    let mut value = serde_json::to_value(result)?;
    if let (Value::Object(fields), Value::Object(more)) =
        (&mut value, serde_json::to_value(result.representations())?)
    {
        fields.extend(more);
    }
    Ok(value)
}

fn whole(record: &CallRecord) -> io::Result<Value> {
    let mut value = serde_json::to_value(record)?;
    if let Some(result) = value.get_mut("result") {
        *result = represented(&record.result)?;
    }
    Ok(value)
}

/// The result becomes what was printed when the call ended.
pub(crate) fn represent_again(result: &mut Value) {
    let read = ToolResult::deserialize(&*result).ok();
    if let Some(Ok(whole)) = read.as_ref().map(represented) {
        *result = whole;
    }
}

/// Lines on standard output begin with `out`, the others with `err`.
fn people(record: &CallRecord, out: &str, err: &str) -> io::Result<()> {
    hooks(&record.hooks, err);
    content(&record.result, out)?;
    aside(&record.result, err)
}

fn prefixed<'a>(prefix: &str, text: &'a str) -> Cow<'a, str> {
    if prefix.is_empty() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(
        text.split('\n')
            .map(|line| format!("{prefix}{line}"))
            .collect::<Vec<_>>()
            .join("\n"),
    )
}

/// Ends `text` with a line break.
fn write_lines(out: &mut impl Write, text: &str, prefix: &str) -> io::Result<()> {
    writeln!(
        out,
        "{}",
        prefixed(prefix, text.strip_suffix('\n').unwrap_or(text))
    )
}

/// Grants that give the call nothing.
pub(crate) fn notes(decision: &PermissionDecision) -> impl Iterator<Item = &str> {
    let notes = decision
        .extra
        .get("notes")
        .and_then(|notes| notes.as_array());
    notes.into_iter().flatten().filter_map(|note| note.as_str())
}

/// The notes are on standard error, because they are for the person who granted access. A write error does not keep the
/// result from being printed.
fn aside_notes(decisions: &[PermissionDecision]) {
    let mut err = io::stderr().lock();
    for note in decisions
        .iter()
        .find(|decision| decision.behavior != Behavior::Passthrough)
        .into_iter()
        .flat_map(notes)
    {
        let _ = writeln!(err, "note: {}", visible(note, Whitespace::WrittenOut));
    }
}

pub(crate) fn json(value: &impl serde::Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{}",
        json_for_terminals(&serde_json::to_string(value)?)
    )?;
    out.flush()
}

/// The word for `value`, one of a closed vocabulary, in records.
pub(crate) fn word(value: &impl serde::Serialize) -> String {
    json!(value).as_str().unwrap_or_default().to_owned()
}

/// Safe for terminals: every `--json` prints through this function or [`json`].
pub(crate) fn json_line(value: &Value) -> String {
    format!("{}\n", json_for_terminals(&value.to_string()))
}

fn content(result: &ToolResult, prefix: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let terminal = out.is_terminal();
    let mut shown = false;
    for block in result
        .content
        .iter()
        .filter(|block| block.is_model_facing())
    {
        let text = block_text(block);
        // An artifact is what the call made beside its output.
        shown |= block.kind != ARTIFACT;
        if !(text.is_empty() && block.is_persisted()) {
            write_lines(&mut out, &printable(&text, terminal), prefix)?;
        }
    }
    if let (false, Some(structured)) = (shown, &result.structured_content) {
        let text = serde_json::to_string_pretty(structured)?;
        write_lines(&mut out, &json_for_terminals(&text), prefix)?;
    }
    out.flush()
}

/// Goes to standard error.
fn aside(result: &ToolResult, prefix: &str) -> io::Result<()> {
    let mut err = io::stderr().lock();
    let terminal = err.is_terminal();
    for line in result
        .content
        .iter()
        .filter(|block| block.is_model_facing())
        .filter_map(kept_line)
    {
        writeln!(err, "{prefix}{}", printable(&line, terminal))?;
    }
    for block in result
        .content
        .iter()
        .filter(|block| !block.is_model_facing())
    {
        let stream = block.fields.get("stream").and_then(Value::as_str);
        let stream = stream.unwrap_or("log");
        for line in block_text(block).lines() {
            writeln!(err, "{prefix}{stream}| {}", printable(line, terminal))?;
        }
    }
    for modifier in &result.context_modifiers {
        writeln!(err, "{prefix}{}", modifier_line(modifier))?;
    }
    for line in workspace_lines(result) {
        writeln!(err, "{prefix}workspace| {}", printable(&line, terminal))?;
    }
    if let Some(summary) = &result.ui_facing_summary {
        writeln!(err, "{}", prefixed(prefix, &printable(summary, terminal)))?;
    }
    if let Some(error) = &result.error {
        let class = error.error_class.as_str();
        let line = format!("error: {} [{class}/{}]", error.message, error.error_code);
        let line = printable(&line, terminal);
        writeln!(
            err,
            "{}",
            prefixed(prefix, &emphasized(&line, terminal && wants_colours()))
        )?;
    }
    Ok(())
}

/// What the call changed in its workspace.
fn workspace_lines(result: &ToolResult) -> Vec<String> {
    let Some(note) = result.extra.get("workspace") else {
        return Vec::new();
    };
    let mut lines = ChangeList::deserialize(note)
        .map(|changes| change_lines(&changes))
        .unwrap_or_default();
    let problem = note.get("problem").and_then(Value::as_str);
    lines.extend(problem.map(str::to_owned));
    lines
}

/// One line for each changed file.
pub(crate) fn change_lines(changes: &ChangeList) -> Vec<String> {
    let line = |file: &FileChange| match file.size {
        Some(size) => format!("{} {} ({size} bytes)", word(&file.change), file.path),
        None => format!("{} {}", word(&file.change), file.path),
    };
    let mut lines: Vec<_> = changes.files.iter().map(line).collect();
    if changes.more > 0 {
        lines.push(format!("and {} more changed files", changes.more));
    }
    lines
}

/// Says why a hook failed: the error does not, because a model may read it. As with [`aside_notes`], the result does
/// not depend on it.
fn hooks(runs: &[ToolHook], prefix: &str) {
    let mut err = io::stderr().lock();
    let terminal = err.is_terminal();
    for run in runs {
        let messages = run
            .outputs
            .iter()
            .filter(|output| output.get("type").is_some_and(|kind| kind == "message"));
        let messages = messages.filter_map(|message| message.get("text")?.as_str());
        // A hook that was not loaded was reported before the call.
        let failure = run
            .error
            .as_deref()
            .filter(|_| run.outcome != HookOutcome::NotLoaded);
        for line in messages.chain(failure).flat_map(str::lines) {
            let _ = writeln!(
                err,
                "{prefix}hook {}| {}",
                run.hook_id,
                printable(line, terminal)
            );
        }
    }
}

fn field<'b>(block: &'b Content, name: &str) -> &'b str {
    let value = block.fields.get(name).and_then(Value::as_str);
    value.unwrap_or_default()
}

fn block_text(block: &Content) -> String {
    if let Some(text) = block.as_text() {
        return text.to_owned();
    }
    if block.kind == ARTIFACT {
        let name = field(block, "name");
        let size = block.fields.get("size_bytes");
        let size = size.map(ToString::to_string).unwrap_or_default();
        let media_type = field(block, "media_type");
        let uri = field(block, "uri");
        return format!("[artifact {name}: {size} bytes, {media_type}; toolcell artifact {uri}]");
    }
    if block.is_persisted() {
        return field(block, "preview").to_owned();
    }
    serde_json::to_string(block).unwrap_or_default()
}

/// Not on standard output, which has the output alone.
fn kept_line(block: &Content) -> Option<String> {
    let reference = block
        .fields
        .get("persisted_ref")
        .filter(|_| block.is_persisted())?;
    let size = reference.get("size_bytes");
    let size = size.map(ToString::to_string).unwrap_or_default();
    let uri = reference["uri"].as_str().unwrap_or_default();
    let what = if field(block, "preview").is_empty() {
        "the output is not shown"
    } else {
        "the output is cut"
    };
    Some(format!(
        "note: {what}, {size} bytes in all; `toolcell artifact {uri}` prints them"
    ))
}

/// Escapes control, bidirectional and invisible characters for a terminal. A file or a pipe gets the text unchanged.
pub(crate) fn printable(text: &str, terminal: bool) -> String {
    if terminal && guard!("terminal_escapes") {
        visible(text, Whitespace::Kept)
    } else {
        text.to_owned()
    }
}

/// Such characters occur in strings only, and JSON can escape them.
pub(crate) fn json_for_terminals(text: &str) -> Cow<'_, str> {
    if guard!("terminal_escapes") {
        visible_json(text)
    } else {
        Cow::Borrowed(text)
    }
}

/// `None` for an invalid template.
pub(crate) fn style(template: &str) -> Option<ProgressStyle> {
    let style = ProgressStyle::with_template(template).ok()?;
    Some(if is_utf8(variable) {
        style
    } else {
        style.tick_chars("|/-\\ ").progress_chars("#-")
    })
}

#[cfg(test)]
mod tests {
    use super::{emphasized, is_utf8, json_for_terminals, prefixed, printable, wants_colours_by};

    fn of<'a>(variables: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        }
    }

    #[test]
    fn errors_have_colours_only_where_they_are_wanted() {
        let has = |variables: &[(&str, &str)]| wants_colours_by(of(variables));
        assert!(has(&[("TERM", "xterm")]) && has(&[("TERM", "xterm"), ("NO_COLOR", "")]));
        assert!(
            !has(&[("TERM", "xterm"), ("NO_COLOR", "1")]) && !has(&[("TERM", "dumb")]) && !has(&[])
        );
        assert_eq!(
            emphasized("error: a error: b", true),
            "\u{1b}[1m\u{1b}[31merror:\u{1b}[0m a error: b"
        );
        assert_eq!(emphasized("error: a", false), "error: a");
        assert_eq!(emphasized("note: error: a", true), "note: error: a");
    }

    #[test]
    fn the_first_variable_that_is_set_names_the_character_set() {
        let cases: [(&[(&str, &str)], bool); 6] = [
            (&[("LANG", "en_US.UTF-8")], true),
            (&[("LANG", "C.utf8")], true),
            (&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")], false),
            (
                &[("LC_ALL", ""), ("LC_CTYPE", "de_DE.UTF-8"), ("LANG", "C")],
                true,
            ),
            (&[("LC_CTYPE", "POSIX"), ("LANG", "en_US.UTF-8")], false),
            (&[], false),
        ];
        for (variables, utf8) in cases {
            assert_eq!(is_utf8(of(variables)), utf8, "{variables:?}");
        }
    }

    #[test]
    fn json_stays_the_same_and_spells_what_would_act() {
        let value = serde_json::json!({"a\u{9b}31m": ["\u{202e}x\u{e0041}\u{7f}\n", "b\u{e9}"]});
        let text = serde_json::to_string_pretty(&value).unwrap();
        let shown = json_for_terminals(&text);
        assert!(
            shown.contains("\\u009b31m")
                && shown.contains("\\udb40\\udc41\\u007f")
                && shown.contains('\u{e9}')
        );
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            value
        );
    }

    #[test]
    fn a_size_that_is_not_on_record_is_not_shown() {
        let artifact = serde_json::json!({ "type": super::ARTIFACT, "name": "a", "uri": "u" });
        let text = super::block_text(&serde_json::from_value(artifact).unwrap());
        assert!(text.starts_with("[artifact a:  bytes"), "{text}");
    }

    #[test]
    fn a_prefix_is_before_every_line() {
        assert_eq!(prefixed("a| ", "one\na| two\n"), "a| one\na| a| two\na| ");
        assert_eq!(
            (prefixed("", "one\n"), prefixed("a| ", "")),
            ("one\n".into(), "a| ".into())
        );
        let written = |text| {
            let mut out = Vec::new();
            super::write_lines(&mut out, text, "").unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            ["", "one", "one\n", "\n"].map(written),
            ["\n", "one\n", "one\n", "\n"]
        );
    }

    #[test]
    fn a_terminal_is_spared_what_would_act_on_it() {
        assert_eq!(
            printable("a\x1b[2Jb\u{202e}c\n", true),
            "a\\u{1b}[2Jb\\u{202e}c\n"
        );
        assert_eq!(printable("a\x1b[2Jb", false), "a\x1b[2Jb");
    }
}
