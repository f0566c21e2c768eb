//! One call as a page for people.

use serde_json::Value;
use toolcell_engine::approval::PromptSheet;
use toolcell_journal::CallLog;
use toolcell_page::words;
use toolcell_spec::Timestamp;
use toolcell_spec::text::{Whitespace, visible, visible_json};

use super::family;
use crate::show;

const ROWS_MAX: usize = 8;
const LINE_MAX: usize = 200;

pub(super) fn render(log: &CallLog, record: &Value) -> String {
    let mut sheet = PromptSheet::new(show::columns());
    head(log, record, &mut sheet);
    let invocation = &record["invocation"];
    let began = time(&invocation["created_at"]);
    for event in record["events"].as_array().into_iter().flatten() {
        let at = time(&event["time"])
            .zip(began)
            .map_or(0, |(at, began)| at.millis_since(began));
        sheet.host(&format!("{at:>8} ms  {}", cut(&words::sentence(event))));
    }
    if let Some(things) = record.pointer("/result/usage/touched") {
        touched(things, &mut sheet);
    }
    end(&record["result"], &mut sheet);
    sheet.into_text()
}

fn head(log: &CallLog, record: &Value, sheet: &mut PromptSheet) {
    let invocation = &record["invocation"];
    let status = plain(&invocation["status"]);
    let took = time(&invocation["ended_at"]).zip(time(&invocation["created_at"]));
    let took = took
        .map(|(ended, began)| format!(" after {} ms", ended.millis_since(began)))
        .unwrap_or_default();
    sheet.host(&format!(
        "call {}: {status}{took}",
        plain(&invocation["invocation_id"])
    ));
    sheet.value("tool", text(&invocation["tool_id"]), ROWS_MAX);
    for (name, field) in [
        ("replay of", "replay_of"),
        ("caller", "actor_ref"),
        ("session", "session_ref"),
    ] {
        if let Some(value) = invocation[field].as_str() {
            sheet.value(name, value, ROWS_MAX);
        }
    }
    sheet.value(
        "arguments",
        &invocation["model_input"].to_string(),
        ROWS_MAX,
    );
    sheet.value(
        "began",
        &format!("{:.19}Z", text(&invocation["created_at"])),
        1,
    );
    family::show(log, invocation, sheet);
}

/// Words of tools and callers, as one line of a terminal.
fn cut(line: &str) -> String {
    let line = visible(line, Whitespace::WrittenOut);
    let mut cut: String = line.chars().take(LINE_MAX).collect();
    if cut.len() < line.len() {
        cut.push_str(" ..");
    }
    cut
}

fn touched(touched: &Value, sheet: &mut PromptSheet) {
    for thing in touched["listed"].as_array().into_iter().flatten() {
        let answer = match (text(&thing["how"]), &thing["status"]) {
            ("requested", Value::Null) => ", without an answer".to_owned(),
            ("requested", status) => format!(", status {status}"),
            _ => String::new(),
        };
        sheet.host(&cut(&format!(
            "{} {}{answer}",
            text(&thing["how"]),
            text(&thing["what"])
        )));
    }
    if let Some(more) = touched["more"].as_u64().filter(|more| *more > 0) {
        sheet.host(&format!("files and requests that are not listed: {more}"));
    }
}

fn end(result: &Value, sheet: &mut PromptSheet) {
    let error = &result["error"];
    let message = error["message"].as_str();
    if let Some(error) = error.as_object() {
        let word = |name: &str| error.get(name).map(plain).unwrap_or_default();
        sheet.host(&format!(
            "error: {} [{}]",
            word("error_class"),
            word("error_code")
        ));
        sheet.lines(message.unwrap_or_default(), ROWS_MAX);
    }
    for block in result["model_facing_content"]
        .as_array()
        .into_iter()
        .flatten()
    {
        match block["text"].as_str() {
            Some(text) if Some(text) == message => {}
            Some(text) => sheet.lines(text, ROWS_MAX),
            None => sheet.lines(&visible_json(&block.to_string()), ROWS_MAX),
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Keeps out what could place other words on a terminal.
fn plain(value: &Value) -> String {
    visible(text(value), Whitespace::WrittenOut)
}

fn time(value: &Value) -> Option<Timestamp> {
    serde_json::from_value(value.clone()).ok()
}
