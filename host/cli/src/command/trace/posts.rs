//! The steps that agents add: a file for each session, which only grows. Its lines are JSON objects, the first one names the
//! session. It is removed when the log would remove calls of that age.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;
use serde::Deserialize;
use serde_json::{Value, json};
use toolcell::Home;
use toolcell_config::configured_telemetry;
use toolcell_dialect::agentool::TracePost;
use toolcell_journal::{CallLog, CallQuery, Keep};
use toolcell_server::telemetry::Telemetry;
use toolcell_spec::{
    JSON_VALUES_MAX, SpanId, Timestamp, ToolInvocation, TraceContext, read_unique_json,
};
use toolcell_system::private::{self, OthersAccess};

use crate::command::{document, print};
use crate::exit::{BadRequest, Exit};
use crate::show;

/// Maximum size of the steps that are added at once, in bytes.
const INPUT_BYTES_MAX: usize = 1 << 20;
/// Maximum size of the steps of one session, in bytes.
const SESSION_BYTES_MAX: u64 = 8 << 20;
/// How often a file is opened again that was removed at the same moment.
const ATTEMPTS_MAX: usize = 8;

/// Adds the steps in `file` to `session`: all of them, or none.
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
    let posts = parse(&document::read(file, INPUT_BYTES_MAX).map_err(cannot)?)?;
    let lines: String = posts
        .iter()
        .map(|post| format!("{}\n", post.to_value()))
        .collect();
    let path = path(home, session);
    append(&path, session, &lines)?;
    remove_old(&path, log);
    export(home, log, session, &posts);
    let steps = show::counted(posts.len() as u64, "step");
    let said = format!("{steps} added to the trace of the session {session:?}\n");
    print::text(&show::printable(&said, true), Exit::Succeeded)
}

/// Sends the steps to the collector of telemetry, if there is one. They are added already, so a failure is a warning.
fn export(home: &Home, log: &CallLog, session: &str, posts: &[TracePost]) {
    let started = configured_telemetry(home).and_then(|settings| match settings.collector {
        Some(_) => Telemetry::start(&settings, None, "session", show::say),
        None => Ok(None),
    });
    match started {
        Ok(Some(telemetry)) => {
            telemetry.steps(posts, &place(log, session));
            telemetry.close();
        }
        Ok(None) => {}
        Err(error) => {
            show::say(&format!(
                "warning: the steps are not sent to the collector of telemetry: {error:#}"
            ));
        }
    }
}

/// Where the steps belong: beside the session's latest call, or in a trace of their own.
fn place(log: &CallLog, session: &str) -> TraceContext {
    let mut latest = None;
    let query = CallQuery {
        session: Some(session.to_owned()),
        limit: 1,
        ..CallQuery::default()
    };
    // A record that cannot be read is as none: the steps are in a trace of their own.
    let _ = log.each_record(&query, u64::MAX, |record| {
        let invocation = record
            .get("invocation")
            .and_then(|part| ToolInvocation::deserialize(part).ok());
        latest = invocation.and_then(|call| {
            let context = TraceContext::recorded(&call)?;
            // A call that has a trace to itself is its first span.
            let above = context
                .parent()
                .unwrap_or_else(|| SpanId::from_invocation(call.invocation_id));
            Some(context.below(above))
        });
    });
    latest.unwrap_or_else(TraceContext::begin)
}

/// The steps of a session; `None` in place of one that cannot be read.
pub(super) fn read(home: &Home, session: &str) -> anyhow::Result<Vec<Option<TracePost>>> {
    let path = path(home, session);
    let cannot = || format!("cannot read the steps of the session in {}", path.display());
    let file = match private::open(&path, OthersAccess::Nothing) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(cannot),
    };
    let mut bytes = Vec::new();
    file.take(SESSION_BYTES_MAX)
        .read_to_end(&mut bytes)
        .with_context(cannot)?;
    // What follows the last line break is still being written, or belongs to a process that was killed.
    let end = bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    let text = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default());
    let now = Timestamp::now();
    let post = |line: &str| {
        read_unique_json(line, JSON_VALUES_MAX)
            .and_then(|value| TracePost::read(value, now))
            .ok()
    };
    Ok(text.lines().skip(1).map(post).collect())
}

/// The file of a session, whose name may hold anything.
fn path(home: &Home, session: &str) -> PathBuf {
    let name = format!("{}.ndjson", blake3::hash(session.as_bytes()).to_hex());
    home.journal().join("traces").join(name)
}

/// Reads steps: one object, an array of objects, or one object a line.
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

/// Appends `lines` in one piece, under a lock, so that the lines of several processes do not mix.
fn append(path: &Path, session: &str, lines: &str) -> anyhow::Result<()> {
    let cannot = || {
        format!(
            "cannot write the steps of the session to {}",
            path.display()
        )
    };
    let mut file = open(path).with_context(cannot)?;
    let size = file.metadata().with_context(cannot)?.len();
    let mut added = String::new();
    if size == 0 {
        added = format!("{}\n", json!({ "session": session }));
    } else if !ends_in_line_break(&mut file).with_context(cannot)? {
        // A process was killed while it wrote.
        added.push('\n');
    }
    added.push_str(lines);
    if size + added.len() as u64 > SESSION_BYTES_MAX {
        let message = format!(
            "cannot add steps: the steps of the session {session:?} would take more than {SESSION_BYTES_MAX} bytes; name \
             another session"
        );
        return Err(BadRequest(message).into());
    }
    let written = file
        .seek(SeekFrom::End(0))
        .and_then(|_| file.write_all(added.as_bytes()));
    if written.is_err() {
        // A full disk can take a part of them, and a part of the steps must not count as added.
        let _ = file.set_len(size);
    }
    written.with_context(cannot)
}

/// Opens the file and locks it. Another process may remove it in between.
fn open(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        private::close_dir(folder)?;
    }
    for _ in 0..ATTEMPTS_MAX {
        let file = private::open_or_create(path)?;
        file.lock()?;
        if file.metadata()?.nlink() > 0 {
            return Ok(file);
        }
    }
    Err(io::Error::other("it is removed again and again"))
}

fn ends_in_line_break(file: &mut File) -> io::Result<bool> {
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

/// Removes the files of sessions that nothing was added to for longer than the log keeps calls. A failure is no reason to
/// refuse steps.
fn remove_old(own: &Path, log: &CallLog) {
    let Some(before) = SystemTime::now().checked_sub(log.settings().age_max) else {
        return;
    };
    let entries = own.parent().and_then(|folder| fs::read_dir(folder).ok());
    for path in entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
    {
        let is_old = |file: &File| {
            file.metadata()
                .and_then(|about| about.modified())
                .is_ok_and(|at| at < before)
        };
        let Ok(file) = private::open(&path, OthersAccess::Nothing) else {
            continue;
        };
        // A process that adds steps now holds the lock.
        if path != own && is_old(&file) && file.try_lock().is_ok() {
            let _ = fs::remove_file(&path);
        }
    }
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

    #[test]
    fn a_line_that_was_cut_off_takes_no_other_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        let path = path(&home, "s");
        let line = "{\"type\":\"reasoning\",\"content\":\"c\"}\n";
        append(&path, "s", line).unwrap();
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"{\"type\":\"rea").unwrap();
        assert_eq!(read(&home, "s").unwrap().len(), 1);
        append(&path, "s", line).unwrap();
        let posts = read(&home, "s").unwrap();
        assert_eq!(
            posts.iter().map(Option::is_some).collect::<Vec<_>>(),
            [true, false, true]
        );
        assert!(read(&home, "other").unwrap().is_empty());
    }

    #[test]
    fn what_is_older_than_the_log_is_removed_with_the_next_step() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        let old = path(&home, "old");
        let new = path(&home, "new");
        for (path, session) in [(&old, "old"), (&new, "new")] {
            append(path, session, "{\"type\":\"end\"}\n").unwrap();
        }
        let settings = toolcell_journal::LogSettings::default();
        let log = CallLog::new(home.journal(), home.calls_key(), settings);
        remove_old(&new, &log);
        assert!(old.exists() && new.exists());
        let past = SystemTime::now() - settings.age_max - std::time::Duration::from_secs(1);
        File::options()
            .write(true)
            .open(&old)
            .unwrap()
            .set_modified(past)
            .unwrap();
        remove_old(&new, &log);
        assert!(!old.exists() && new.exists());
    }
}
