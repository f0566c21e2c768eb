//! Prints the events of the journal, of all processes that write it.

use std::fmt::Write as _;
use std::io::Write;
use std::time::{Duration, Instant};

use crate::runtime::Runtime;
use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use toolcell::Home;
use toolcell_journal::{CallLog, EventReader, FollowedEvent, Keep, LoggedEvent};
use toolcell_page::words::is_below;
use toolcell_spec::text::{Whitespace, visible};
use toolcell_spec::{EventType, ToolEvent};

use super::calls;
use crate::exit::{BadRequest, Exit};
use crate::interrupts::interrupted;
use crate::show;

const TICK: Duration = Duration::from_millis(100);
/// Between two looks for calls of processes that were killed.
const BEAT: Duration = Duration::from_secs(1);
const DETAILS_MAX: usize = 160;
const SHORT_ID: usize = 8;
const TELLING: [&str; 22] = [
    "requested",
    "via",
    "which",
    "hook_id",
    "outcome",
    "behavior",
    "approval_request_ref",
    "attempt",
    "order",
    "capability",
    "target",
    "rule",
    "abort_reason",
    "by",
    "reason",
    "source_type",
    "requests",
    "answers",
    "query",
    "selection_ref",
    "error_code",
    "status",
];

/// Prints the events of the journal: of calls that ended, and of those that run, in all processes.
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// Go on until Ctrl-C; without --from, with what happens from now on
    #[arg(long)]
    follow: bool,
    /// Begin with the event that has this number: events are numbered from 1, without gaps
    #[arg(long, value_name = "NUMBER")]
    from: Option<u64>,
    /// Only events of this call: its id, or the end of it
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Only events of this tool: its id, the name of its component, or the beginning of ids, such as 'files.re*'
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
    /// Only events of calls of this session
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Only events of this type, or of those that begin so, such as 'tool.invocation.*'
    #[arg(long = "type", value_name = "TYPE", value_parser = event_type)]
    event_type: Option<String>,
    /// Print JSON, one line for each event
    #[arg(long)]
    json: bool,
}

fn event_type(text: &str) -> Result<String, String> {
    let is_known = || serde_json::from_value::<EventType>(Value::String(text.to_owned())).is_ok();
    if text.ends_with('*') || is_known() {
        Ok(text.to_owned())
    } else {
        Err("no such type; `toolcell schema show common` lists them as event_type".to_owned())
    }
}

impl Events {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let log = calls::log(&Home::find()?)?;
        if log.settings().keep == Keep::None {
            show::say("note: the call log is turned off: [log] keep = \"none\" in toolcell.toml");
        }
        let begin = self.from.or((!self.follow).then_some(1));
        let mut reader = log.follow(begin)?;
        if let Some(from) = self.from.filter(|from| *from > reader.end()) {
            let message = format!(
                "no event has the number {from} yet; the next one gets {}",
                reader.end()
            );
            return Err(BadRequest(message).into());
        }
        if self.follow {
            return self.follow(&log, &mut reader);
        }
        let mut is_first = true;
        loop {
            let found = reader.read()?;
            // Who names no number asks for what is there.
            let is_implied = std::mem::take(&mut is_first) && self.from.is_none();
            let shown = match found.as_slice() {
                [FollowedEvent::Missed(_), rest @ ..] if is_implied => rest,
                all => all,
            };
            if let Err(error) = self.print(shown) {
                return show::closed(error);
            }
            // Other processes may write faster than this one reads.
            if found.is_empty() || reader.position() >= reader.end() {
                return Ok(Exit::Succeeded);
            }
        }
    }

    /// Each line is written whole.
    fn follow(&self, log: &CallLog, reader: &mut EventReader) -> anyhow::Result<Exit> {
        Runtime::on_this_thread()?.block_on(async {
            let mut stopped = interrupted();
            let mut beat: Option<Instant> = None;
            loop {
                if beat.is_none_or(|beat| beat.elapsed() >= BEAT) {
                    log.close_orphans()?;
                    beat = Some(Instant::now());
                }
                let found = reader.read()?;
                if let Err(error) = self.print(&found) {
                    return show::closed(error);
                }
                // Without new events, no write would notice that.
                if is_closed() {
                    return Ok(Exit::Succeeded);
                }
                let pause = if found.is_empty() {
                    TICK
                } else {
                    Duration::ZERO
                };
                tokio::select! {
                    biased;
                    () = &mut stopped => return Ok(Exit::Succeeded),
                    () = tokio::time::sleep(pause) => {}
                }
            }
        })
    }

    fn print(&self, found: &[FollowedEvent]) -> std::io::Result<()> {
        let mut lines = String::new();
        for one in found {
            match one {
                FollowedEvent::Event(logged) if !self.is_wanted(logged) => continue,
                FollowedEvent::Event(logged) if self.json => {
                    lines.push_str(&show::json_for_terminals(&document(logged).to_string()));
                }
                FollowedEvent::Event(logged) => lines.push_str(&line(logged)),
                FollowedEvent::Missed(count) if self.json => {
                    lines.push_str(&json!({ "missed": count }).to_string())
                }
                FollowedEvent::Missed(count) => {
                    show::say(&format!(
                        "{count} events were removed: the log keeps no more of them"
                    ));
                    continue;
                }
            }
            lines.push('\n');
        }
        let mut out = std::io::stdout().lock();
        out.write_all(lines.as_bytes())?;
        out.flush()
    }

    fn is_wanted(&self, logged: &LoggedEvent) -> bool {
        let LoggedEvent { session, event, .. } = logged;
        let is_session = self.session.is_none() || self.session == *session;
        is_session
            && self.id.as_deref().is_none_or(|id| logged.is_of_call(id))
            && self
                .event_type
                .as_deref()
                .is_none_or(|wanted| is_below(wanted, event.event_type.as_str()))
            && self
                .tool
                .as_deref()
                .is_none_or(|wanted| is_below(wanted, event.tool_id.as_deref().unwrap_or_default()))
    }
}

/// The reader closed standard output.
fn is_closed() -> bool {
    let out = std::io::stdout();
    let mut fds = [PollFd::new(&out, PollFlags::empty())];
    let gone = PollFlags::ERR | PollFlags::HUP;
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut fds, Some(&now)).is_ok() && fds.iter().any(|fd| fd.revents().intersects(gone))
}

fn document(logged: &LoggedEvent) -> Value {
    let LoggedEvent {
        sequence,
        session,
        event,
    } = logged;
    match session {
        None => json!({ "sequence": sequence, "event": event }),
        Some(session) => json!({ "sequence": sequence, "session": session, "event": event }),
    }
}

/// Words of tools and callers stay in the line.
fn line(logged: &LoggedEvent) -> String {
    let LoggedEvent {
        sequence, event, ..
    } = logged;
    let id = event
        .invocation_id
        .map(|id| id.to_string())
        .unwrap_or_default();
    let short = id
        .get(id.len().saturating_sub(SHORT_ID)..)
        .unwrap_or_default();
    let tool = event.tool_id.as_deref().unwrap_or_default();
    let time = event.time.to_string();
    let event_type = event.event_type.as_str();
    let time = time.trim_end_matches('Z');
    let line = format!("{sequence:>6}  {time:.23}Z  {short:<8}  {event_type}  {tool}");
    let line = format!("{}  {}", line.trim_end(), details(event));
    visible(line.trim_end(), Whitespace::WrittenOut)
}

fn details(event: &ToolEvent) -> String {
    let mut details = String::new();
    if let Some(progress) = event.data.get("progress") {
        if let Some(percent) = progress["percent"].as_f64() {
            // Writing to a String cannot fail.
            let _ = write!(details, "{percent:.0} % ");
        }
        details.push_str(
            progress["message"]
                .as_str()
                .or(progress["current_step"].as_str())
                .unwrap_or_default(),
        );
    }
    for name in TELLING {
        let value = match event.data.get(name) {
            None | Some(Value::Null) => continue,
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        let _ = write!(details, "{name}={value} ");
    }
    let cut: String = details.trim_end().chars().take(DETAILS_MAX).collect();
    let dots = if cut.len() < details.trim_end().len() {
        " .."
    } else {
        ""
    };
    cut + dots
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{DETAILS_MAX, LoggedEvent, line};

    fn event(event_type: &str, data: serde_json::Value) -> LoggedEvent {
        let event = json!({
            "schema_version": "0.2.0", "event_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "event_type": event_type,
            "source": "toolcell/test", "time": "2026-01-02T03:04:05.678901Z",
            "invocation_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "tool_id": "files.search", "data": data,
        });
        LoggedEvent {
            sequence: 7,
            session: None,
            event: serde_json::from_value(event).unwrap(),
        }
    }

    #[test]
    fn a_line_says_when_what_and_of_which_call() {
        let progress = json!({ "progress": { "percent": 42.4, "message": "half" } });
        let shown = line(&event("tool.invocation.progress", progress));
        let head =
            "     7  2026-01-02T03:04:05.678Z  Q69G5FAV  tool.invocation.progress  files.search";
        assert_eq!(shown, format!("{head}  42 % half"));
        let end = json!({ "error_code": null, "status": "succeeded", "result_id": "x" });
        assert!(
            line(&event("tool.invocation.succeeded", end))
                .ends_with("  files.search  status=succeeded")
        );
    }

    #[test]
    fn the_words_of_others_stay_in_one_line_and_act_on_nothing() {
        let said = "\u{1b}[2J\nfake\u{202e}".repeat(100);
        let shown = line(&event(
            "tool.invocation.progress",
            json!({ "progress": { "message": said } }),
        ));
        assert!(
            !shown.contains(['\u{1b}', '\n', '\u{202e}']) && shown.ends_with(" .."),
            "{shown}"
        );
        assert!(shown.chars().count() < 10 * DETAILS_MAX);
    }
}
