//! One call as a page for people.

use serde_json::Value;
use toolcell_engine::approval::PromptSheet;
use toolcell_journal::CallLog;
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
        sheet.host(&format!("{at:>8} ms  {}", cut(&line(event))));
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

/// Holds words of tools and callers, so the caller shows it as foreign text.
fn line(event: &Value) -> String {
    let event_type = text(&event["event_type"]);
    let data = &event["data"];
    let rest = event_type.strip_prefix("tool.").unwrap_or(event_type);
    match rest {
        "invocation.planned" => format!("requested {}", text(&data["requested"])),
        "invocation.selected" => format!("found the tool by its {}", text(&data["via"])),
        "invocation.arguments_ready" => "the arguments are complete".to_owned(),
        "invocation.validation_failed" => {
            format!(
                "the arguments were refused ({}) {}",
                text(&data["which"]),
                text(&data["message"])
            )
        }
        "permission.requested" => format!(
            "asked for an approval, open until {:.19}Z",
            text(&data["expires_at"])
        ),
        "permission.decided" => decision(data),
        "invocation.queued" => match data["since"].as_str() {
            Some(since) => format!("waited since {since:.19}Z for other calls of its batch"),
            None => "waits for its turn".to_owned(),
        },
        "invocation.started" => started(data),
        "invocation.attempt_discarded" => format!(
            "attempt {} failed [{}]; the next one begins in {} ms",
            data["attempt"],
            text(&data["error_code"]),
            data["retry_in_ms"]
        ),
        "invocation.progress" => format!("progress: {}", progress(&data["progress"])),
        "invocation.partial_result" => format!("partial result: {}", progress(&data["progress"])),
        "invocation.logged" => format!("log {}: {}", text(&data["level"]), text(&data["message"])),
        "invocation.needs_input" => format!(
            "asked the caller {}",
            counted(&data["requests"], "question")
        ),
        "invocation.resumed" => format!("went on with {}", counted(&data["answers"], "answer")),
        "sandbox.denied" => {
            let [kind, target, rule] =
                ["capability", "target", "rule"].map(|name| text(&data[name]));
            format!("the sandbox denied {kind}: {target} ({rule})")
        }
        "input.mutated" => {
            format!(
                "the arguments were changed by a {} {}",
                text(&data["source_type"]),
                text(&data["source_ref"])
            )
        }
        "result.persisted" => {
            let stored = &data["persisted_ref"];
            format!(
                "stored a part of the result, {} bytes",
                stored["size_bytes"]
            )
        }
        "result.redacted" => "secret values were removed".to_owned(),
        "result.created" => format!("the result is complete: {}", text(&data["status"])),
        "invocation.yielded" => format!("handed to its batch as number {}", data["order"]),
        "invocation.cancel_requested" => format!("asked to stop: {}", text(&data["abort_reason"])),
        "invocation.cancel_acknowledged" => {
            format!("the {} noticed the request to stop", text(&data["by"]))
        }
        "invocation.cancel_failed" => format!("not stopped: {}", text(&data["reason"])),
        _ => other(rest, data),
    }
}

fn other(rest: &str, data: &Value) -> String {
    if let Some(hook) = rest.strip_prefix("hook.") {
        let (event, step) = hook.rsplit_once('.').unwrap_or((hook, ""));
        let outcome = data["outcome"].as_str().unwrap_or(step);
        return format!(
            "hook {} ({}): {outcome}",
            text(&data["hook_id"]),
            event.replace('_', " ")
        );
    }
    let words = rest
        .strip_prefix("invocation.")
        .unwrap_or(rest)
        .replace(['_', '.'], " ");
    match data["error_code"].as_str() {
        Some(code) => format!("{words} [{code}]"),
        None => words,
    }
}

fn decision(data: &Value) -> String {
    let verdict = match text(&data["behavior"]) {
        "allow" => "allowed",
        "deny" => "denied",
        "ask" => "to be approved",
        other => other,
    };
    let rules: Vec<&str> = data["rule_refs"]
        .as_array()
        .into_iter()
        .flatten()
        .map(text)
        .collect();
    let source = match text(&data["source"]) {
        // The host itself, which needs no words.
        "policy_settings" => String::new(),
        "command" => "an approver".to_owned(),
        other => other.replace('_', " "),
    };
    match (rules.is_empty(), source.is_empty()) {
        (false, _) => format!("{verdict} by {}", rules.join(", ")),
        (true, false) => format!("{verdict} ({source})"),
        (true, true) => verdict.to_owned(),
    }
}

fn started(data: &Value) -> String {
    let seconds = data["wall_ms_limit"].as_f64().unwrap_or_default() / 1000.0;
    let mebibytes = data["memory_limit_bytes"].as_u64().unwrap_or_default() >> 20;
    let again = data["attempt"].as_u64().filter(|attempt| *attempt > 1);
    let again = again
        .map(|attempt| format!(" attempt {attempt}"))
        .unwrap_or_default();
    format!("started{again}: at most {seconds} s, {mebibytes} MiB of memory")
}

/// Percent, message or step, counters.
fn progress(update: &Value) -> String {
    let mut words = Vec::new();
    if let Some(percent) = update["percent"].as_f64() {
        words.push(format!("{percent:.0} %"));
    }
    let said = update["message"]
        .as_str()
        .or(update["current_step"].as_str());
    words.extend(said.map(str::to_owned));
    for (field, unit) in [
        ("bytes_read", "bytes read"),
        ("bytes_written", "bytes written"),
        ("line_count", "lines"),
    ] {
        words.extend(
            update[field]
                .as_u64()
                .map(|count| format!("{count} {unit}")),
        );
    }
    if words.is_empty() {
        text(&update["status"]).replace('_', " ")
    } else {
        words.join(", ")
    }
}

fn counted(number: &Value, noun: &str) -> String {
    show::counted(
        number
            .as_u64()
            .or(number.as_array().map(|list| list.len() as u64))
            .unwrap_or_default(),
        noun,
    )
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::line;

    #[test]
    fn an_event_is_one_sentence() {
        let event =
            |event_type: &str, data| line(&json!({ "event_type": event_type, "data": data }));
        let decided =
            json!({ "behavior": "allow", "source": "cli_arg", "rule_refs": ["--allow-read=/ws"] });
        assert_eq!(
            event("tool.permission.decided", decided),
            "allowed by --allow-read=/ws"
        );
        let progress =
            json!({ "progress": { "percent": 41.7, "message": "half", "bytes_read": 9 } });
        assert_eq!(
            event("tool.invocation.progress", progress),
            "progress: 42 %, half, 9 bytes read"
        );
        let hook = json!({ "hook_id": "review", "outcome": "pass" });
        assert_eq!(
            event("tool.hook.permission_request.completed", hook),
            "hook review (permission request): pass"
        );
        assert_eq!(
            event("tool.invocation.failed", json!({ "error_code": "x" })),
            "failed [x]"
        );
        assert_eq!(event("tool.later.kind", json!({})), "later kind");
    }
}
