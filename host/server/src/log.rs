//! The log of a running server for its operator. A separate thread writes lines, so that a slow reader delays no call.

use std::fmt;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use strum::IntoStaticStr;
use toolcell_dialect::http::ReportedStatus;
use toolcell_spec::text::{Whitespace, visible, visible_json};
use toolcell_spec::{CallRecord, ErrorCode, Timestamp};

/// More lines are counted, and lost.
const WAITING_MAX: usize = 1_024;
/// Lines about refused access in each period; the others are counted, and told at its end.
const REFUSED_MAX: u64 = 10;
const PERIOD: Duration = Duration::from_secs(10);
const WORD_MAX: usize = 200;
/// The end of a server waits so long for a reader.
const END_TIME: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum LogLevel {
    /// Calls do not run, or the host failed.
    Error,
    /// A call failed, or access was refused.
    Warning,
    Info,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogForm {
    /// People read the time, the level, and a sentence.
    Text,
    Json,
}

pub struct OperatorLog {
    form: LogForm,
    /// Lines that matter less are left out.
    least: LogLevel,
    lines: Mutex<Option<SyncSender<String>>>,
    written: Mutex<Receiver<()>>,
    lost: AtomicU64,
    refused: Mutex<RefusedAccess>,
}

struct RefusedAccess {
    since: Instant,
    count: u64,
    untold: u64,
}

impl fmt::Debug for OperatorLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("form", &self.form)
            .field("least", &self.least)
            .finish_non_exhaustive()
    }
}

impl OperatorLog {
    /// Fails if the system has no thread for the log.
    pub fn new(
        form: LogForm,
        least: LogLevel,
        mut out: impl Write + Send + 'static,
    ) -> std::io::Result<Arc<Self>> {
        let (lines, read) = sync_channel::<String>(WAITING_MAX);
        let (ends, written) = sync_channel(1);
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || {
                for line in read {
                    // Who closed standard error wants no lines.
                    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
                }
                let _ = ends.send(());
            })?;
        let refused = Mutex::new(RefusedAccess {
            since: Instant::now(),
            count: 0,
            untold: 0,
        });
        let lines = Mutex::new(Some(lines));
        let written = Mutex::new(written);
        Ok(Arc::new(Self {
            form,
            least,
            lines,
            written,
            lost: AtomicU64::new(0),
            refused,
        }))
    }

    pub fn write(&self, level: LogLevel, event: &str, text: &str, fields: &Value) {
        if level > self.least {
            return;
        }
        let Some(lines) = self.lines.lock().clone() else {
            return;
        };
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let told = self.line(
                LogLevel::Warning,
                "lines_lost",
                &lines_lost(lost),
                &json!({ "count": lost }),
            );
            if lines.try_send(told).is_err() {
                self.lost.fetch_add(lost, Ordering::Relaxed);
            }
        }
        if let Err(TrySendError::Full(_)) = lines.try_send(self.line(level, event, text, fields)) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn line(&self, level: LogLevel, event: &str, text: &str, fields: &Value) -> String {
        let time = Timestamp::now();
        let level: &str = level.into();
        match self.form {
            LogForm::Text => format!("{time} {level} {}\n", visible(text, Whitespace::WrittenOut)),
            LogForm::Json => {
                let mut all = Map::new();
                all.insert("time".to_owned(), json!(time));
                all.insert("level".to_owned(), level.into());
                all.insert("event".to_owned(), event.into());
                all.extend(fields.as_object().cloned().unwrap_or_default());
                format!("{}\n", visible_json(&Value::Object(all).to_string()))
            }
        }
    }

    pub(super) fn call(&self, record: &CallRecord) {
        let invocation = &record.invocation;
        let error = record.result.error.as_ref();
        let level = match error {
            Some(error)
                if error.error_code == ErrorCode::HostFault
                    || error.error_code == ErrorCode::JournalUnavailable =>
            {
                LogLevel::Error
            }
            Some(_) => LogLevel::Warning,
            None => LogLevel::Info,
        };
        if level > self.least {
            return;
        }
        let tool = short(&invocation.tool_id);
        let status = invocation.status().as_str();
        let code = error.map(|error| short(&error.error_code));
        let caller = invocation.actor_ref.as_deref().unwrap_or("anybody");
        let ended = invocation.ended_at().unwrap_or_else(Timestamp::now);
        let micros = ended.since(invocation.created_at()).as_micros();
        // Most calls take less than one.
        let ms = f64::from(u32::try_from(micros).unwrap_or(u32::MAX)) / 1_000.0;
        let id = invocation.invocation_id;
        let why = code
            .as_ref()
            .map_or_else(String::new, |code| format!(" ({code})"));
        let text = format!("call {tool} by {caller}: {status}{why} in {ms:.1} ms [{id}]");
        let mut fields = json!({ "tool": tool, "caller": caller, "status": status, "ms": ms, "id": id.to_string() });
        if let (Some(fields), Some(code)) = (fields.as_object_mut(), code) {
            fields.insert("error_code".to_owned(), code.into());
        }
        self.write(level, "call", &text, &fields);
    }

    pub(super) fn report(&self, tool: &str, caller: &str, status: ReportedStatus, message: &str) {
        let level = match status {
            ReportedStatus::Success => LogLevel::Info,
            ReportedStatus::Failure => LogLevel::Warning,
        };
        let tool = short(tool);
        let status = status.into_str();
        let text = format!("report on {tool} by {caller}: {status}: {message}");
        let fields =
            json!({ "tool": tool, "caller": caller, "status": status, "message": message });
        self.write(level, "report", &text, &fields);
    }

    /// A flood of refused requests fills no disk.
    pub(super) fn refused(self: &Arc<Self>, status: u16, request: &str, peer: &str) {
        if LogLevel::Warning > self.least {
            return;
        }
        let (is_told, is_first_untold) = {
            let mut refused = self.refused.lock();
            if refused.since.elapsed() > PERIOD && refused.untold == 0 {
                (refused.since, refused.count) = (Instant::now(), 0);
            }
            refused.count += 1;
            let is_told = refused.count <= REFUSED_MAX;
            refused.untold += u64::from(!is_told);
            (is_told, !is_told && refused.untold == 1)
        };
        if is_told {
            let request = short(request);
            let text = format!("access refused with {status}: {request} from {peer}");
            let fields = json!({ "status": status, "request": request, "peer": peer });
            self.write(LogLevel::Warning, "access_refused", &text, &fields);
        }
        if is_first_untold && let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let log = Arc::clone(self);
            runtime.spawn(async move {
                tokio::time::sleep(PERIOD).await;
                log.tell_untold();
            });
        }
    }

    fn tell_untold(&self) {
        let untold = {
            let mut refused = self.refused.lock();
            (refused.since, refused.count) = (Instant::now(), 0);
            std::mem::take(&mut refused.untold)
        };
        if untold > 0 {
            let text = format!(
                "access refused {untold} times more in {} s",
                PERIOD.as_secs()
            );
            self.write(
                LogLevel::Warning,
                "access_refused",
                &text,
                &json!({ "count": untold }),
            );
        }
    }

    /// Writes the rest, as far as it is read soon. Later lines are dropped.
    pub(super) fn close(&self) {
        self.tell_untold();
        drop(self.lines.lock().take());
        let _ = self.written.lock().recv_timeout(END_TIME);
    }
}

fn lines_lost(count: u64) -> String {
    format!("{count} lines were lost, because nobody read them")
}

/// Cuts a text that a caller chose.
fn short(text: &str) -> String {
    match text.char_indices().nth(WORD_MAX) {
        Some((end, _)) => format!("{}..", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Pipe(SyncSender<String>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _ = self.0.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_flood_of_refusals_is_counted() {
        let (out, lines) = sync_channel(10_000);
        let log = OperatorLog::new(LogForm::Json, LogLevel::Info, Pipe(out)).unwrap();
        (0..1_000).for_each(|_| log.refused(401, "POST /mcp", "127.0.0.1"));
        log.close();
        let lines: Vec<Value> = lines
            .into_iter()
            .map(|line| serde_json::from_str(&line).unwrap())
            .collect();
        assert_eq!(lines.len() as u64, REFUSED_MAX + 1);
        assert_eq!(
            (&lines[0]["event"], &lines[0]["status"]),
            (&json!("access_refused"), &json!(401))
        );
        assert_eq!(lines.last().unwrap()["count"], 1_000 - REFUSED_MAX);
    }

    #[test]
    fn what_a_stranger_sends_is_one_line_and_no_more() {
        let (out, lines) = sync_channel(10);
        let log = OperatorLog::new(LogForm::Text, LogLevel::Warning, Pipe(out)).unwrap();
        log.write(LogLevel::Info, "x", "left out", &json!({}));
        log.refused(
            401,
            &format!("GET /a\u{1b}[2J\n\u{202e}{}", "x".repeat(10_000)),
            "::1",
        );
        log.close();
        let line = lines.recv().unwrap();
        assert!(
            line.len() < 500
                && line.matches('\n').count() == 1
                && !line.contains(['\u{1b}', '\u{202e}']),
            "{line}"
        );
        assert!(lines.recv().is_err());
    }

    #[test]
    fn a_reader_that_does_not_read_holds_nobody_up() {
        let (out, lines) = sync_channel(0);
        let log = OperatorLog::new(LogForm::Text, LogLevel::Info, Pipe(out)).unwrap();
        let began = Instant::now();
        let write = |n: u32| log.write(LogLevel::Info, "x", &n.to_string(), &json!({}));
        (0..5_000).for_each(write);
        // The thread may take its line at any time, and then one has room that says how many were lost before.
        while log.lost.load(Ordering::Relaxed) == 0 {
            write(0);
            assert!(began.elapsed() < Duration::from_secs(5));
        }
        log.close();
        assert!(began.elapsed() < Duration::from_secs(5));
        drop(lines);
    }
}
