//! Words about calls that the commands and the page share.

use serde_json::Value;

/// An event of a record. Holds words of tools and callers, so it is shown as foreign text.
pub fn sentence(event: &Value) -> String {
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
            counted_in(&data["requests"], "question")
        ),
        "invocation.resumed" => format!("went on with {}", counted_in(&data["answers"], "answer")),
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

fn counted_in(number: &Value, noun: &str) -> String {
    let listed = || number.as_array().map(|list| list.len() as u64);
    let count = number.as_u64().or_else(listed).unwrap_or_default();
    counted(count, noun)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// `word` for a POSIX shell.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@#+,%".contains(c);
    if !word.is_empty() && !word.starts_with('#') && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// `text` is `wanted`, or a name below it, or begins with the text before its `*`.
pub fn is_below(wanted: &str, text: &str) -> bool {
    let is_below = || {
        text.strip_prefix(wanted)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    wanted
        .strip_suffix('*')
        .map_or_else(is_below, |beginning| text.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{is_below, sentence};

    #[test]
    fn an_event_is_one_sentence() {
        let event =
            |event_type: &str, data| sentence(&json!({ "event_type": event_type, "data": data }));
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

    #[test]
    fn a_star_stands_for_any_end() {
        assert!(is_below("files.*", "files.read") && is_below("*", "") && is_below("a", "a"));
        assert!(!is_below("files.*", "file") && !is_below("a", "ab"));
        assert!(is_below("files", "files.read") && !is_below("file", "files.read"));
    }
}
