//! The steps that agents add, as the journal has them.

use std::path::Path;

use anyhow::Context;
use serde_json::Value;
use toolcell::Home;
use toolcell_config::configured_telemetry;
use toolcell_dialect::agentool::{Detectors, TraceBuilder, TracePost};
use toolcell_journal::{CallLog, Journal, Keep, SESSION_STEPS_BYTES_MAX};
use toolcell_server::telemetry::Telemetry;
use toolcell_spec::{JSON_VALUES_MAX, Timestamp, read_unique_json};

use crate::command::document;
use crate::exit::{BadRequest, Exit};
use crate::show;

/// In bytes.
const INPUT_BYTES_MAX: usize = 1 << 20;

/// Adds all or none.
pub(super) fn add(home: &Home, log: &CallLog, session: &str, file: &Path) -> anyhow::Result<Exit> {
    if session.trim().is_empty() {
        return Err(
            BadRequest("cannot add steps: the name of the session is empty".to_owned()).into(),
        );
    }
    if log.settings().keep == Keep::None {
        let message =
            "cannot add steps: the call log is turned off: [log] keep = \"none\" in toolcell.toml";
        return Err(BadRequest(message.to_owned()).into());
    }
    let cannot = |why| BadRequest(format!("cannot add steps: {why}"));
    let too_large =
        |name: &str| format!("{name} is larger than {INPUT_BYTES_MAX} bytes; add them in parts");
    let text = document::read(file, INPUT_BYTES_MAX, too_large).map_err(cannot)?;
    let posts = parse(&text)?;
    let lines: Vec<String> = posts
        .iter()
        .map(|post| post.to_value().to_string())
        .collect();
    let added = journal(home, log).with(|store| store.add_steps(session, &lines));
    if !added.context("cannot write the steps of the session")? {
        let message = format!(
            "cannot add steps: the steps of the session {session:?} would take more than {SESSION_STEPS_BYTES_MAX} bytes; \
            name another session"
        );
        return Err(BadRequest(message).into());
    }
    export(home, log, session);
    let steps = show::counted(posts.len() as u64, "step");
    let said = format!("{steps} added to the trace of the session {session:?}\n");
    show::print(show::printable(&said, true))
}

/// The steps are added already, so a failure is a warning.
fn export(home: &Home, log: &CallLog, session: &str) {
    let started = configured_telemetry(home).and_then(|settings| match settings.collector {
        Some(_) => Telemetry::start(&settings, None, show::say),
        None => Ok(None),
    });
    let sent = started.and_then(|telemetry| {
        let Some(telemetry) = telemetry else {
            return Ok(());
        };
        let mut builder = TraceBuilder::new(session, Detectors::default());
        super::add_calls(log, session, &mut builder)?;
        let posts = read(home, log, session)?.into_iter().flatten();
        posts.for_each(|post| builder.post(post));
        builder
            .finish()
            .iter()
            .for_each(|trace| telemetry.session(trace));
        telemetry.close();
        anyhow::Ok(())
    });
    if let Err(error) = sent {
        show::say(&format!(
            "warning: the steps are not sent to the collector of telemetry: {error:#}"
        ));
    }
}

/// `None` in place of a step that cannot be read.
pub(super) fn read(
    home: &Home,
    log: &CallLog,
    session: &str,
) -> anyhow::Result<Vec<Option<TracePost>>> {
    let journal = journal(home, log);
    if !journal.exists() {
        return Ok(Vec::new());
    }
    let now = Timestamp::now();
    let post = |line: &String| {
        read_unique_json(line, JSON_VALUES_MAX)
            .and_then(|value| TracePost::read(value, now))
            .ok()
    };
    let lines = journal.with(|store| store.steps(session));
    let lines = lines.context("cannot read the steps of the session")?;
    Ok(lines.iter().map(post).collect())
}

/// Steps stay as long as calls.
fn journal(home: &Home, log: &CallLog) -> Journal {
    Journal::keeping(home.journal(), home.journal_key(), log.settings().age_max)
}

/// One object, an array of objects, or one object a line.
fn parse(text: &str) -> Result<Vec<TracePost>, BadRequest> {
    let now = Timestamp::now();
    let values: Vec<Result<Value, String>> = match read_unique_json(text, JSON_VALUES_MAX) {
        Ok(Value::Array(items)) => items.into_iter().map(Ok).collect(),
        Ok(one) => vec![Ok(one)],
        Err(_) => {
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            lines
                .map(|line| read_unique_json(line, JSON_VALUES_MAX))
                .collect()
        }
    };
    if values.is_empty() {
        return Err(BadRequest(
            "cannot add steps: there is no step in the input".to_owned(),
        ));
    }
    let read = |(at, value): (usize, Result<Value, String>)| {
        let post = value
            .and_then(|value| TracePost::read(value, now))
            .and_then(|post| {
                if post.at <= now {
                    Ok(post)
                } else {
                    Err("its `timestamp` is in the future".to_owned())
                }
            });
        post.map_err(|why| {
            BadRequest(format!(
                "cannot add step {}: {why}; no step was added",
                at + 1
            ))
        })
    };
    values.into_iter().enumerate().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_one_object_or_an_array_or_lines() {
        let step = r#"{"type":"reasoning","content":"c"}"#;
        for (text, count) in [
            (step.to_owned(), 1),
            ("{\n\"type\": \"end\"\n}".to_owned(), 1),
            (format!("[{step},{step}]"), 2),
            (format!("{step}\n\n{step}\n"), 2),
        ] {
            assert_eq!(parse(&text).unwrap().len(), count, "{text}");
        }
        for (text, why) in [
            ("", "no step"),
            ("[]", "no step"),
            ("{\"type\":\"end\"}\n{", "step 2"),
            ("{\"type\":\"end\",\"type\":\"end\"}", "duplicate key"),
            ("7", "not an object"),
            ("{\"type\":\"reasoning\"}", "`content`"),
            ("{\"type\":\"tool_call\"}", "call log"),
            ("{\"type\":\"thought\"}", "`type`"),
            ("{\"type\":\"end\",\"status\":\"fine\"}", "fine"),
            ("{\"type\":\"end\",\"total_cost_usd\":-1}", "negative"),
            (
                "{\"type\":\"end\",\"timestamp\":\"2999-01-01T00:00:00Z\"}",
                "future",
            ),
            ("{\"type\":\"end\",\"timestamp\":7}", "`timestamp`"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
