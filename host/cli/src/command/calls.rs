//! Lists calls, and shows one.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use toolcell::Home;
use toolcell_config::{configured_journal, duration};
use toolcell_journal::{CallLog, CallQuery, CallSummary, Journal};
use toolcell_page::waiting;
use toolcell_spec::text::{Whitespace, visible};
use toolcell_spec::{Status, Timestamp};

use super::page;
use crate::exit::{BadRequest, Exit};
use crate::show;

/// Lists the latest calls: those that wait for an approval, those that run, and those that ended.
#[derive(Debug, Args)]
pub(crate) struct Calls {
    /// Only calls of this tool: its id, the name of its component, or the beginning of ids, such as 'files.re*'
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
    /// Only calls with this status: awaiting_approval, running, succeeded, failed, denied, blocked, canceled or timed_out
    #[arg(long, value_parser = status)]
    status: Option<Status>,
    /// Only calls that began at most so long ago, such as 30m, or since a time, such as 2026-11-22T08:00:00Z
    #[arg(long, value_name = "TIME", value_parser = Since::from_str)]
    since: Option<Since>,
    /// Only calls of this caller
    #[arg(long, value_name = "NAME")]
    caller: Option<String>,
    /// Only calls of this session: an MCP client's (mcp:..), one with a name (--session), or a run of toolcell (run:..)
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// How many calls
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    limit: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Shows what happened in one call, in order of time.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The id of the call, or the end of its id; see `toolcell calls`. Without it, the latest call
    id: Option<String>,
    /// Print its record as JSON
    #[arg(long)]
    json: bool,
    /// Print only its progress from sequence number N on, one JSON object per line
    #[arg(long, value_name = "N", conflicts_with = "json")]
    progress_from: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Since {
    Ago(Duration),
    Time(Timestamp),
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let time = || {
            serde_json::from_value(Value::String(text.to_owned()))
                .ok()
                .map(Self::Time)
        };
        let wrong = || {
            "give a time that has passed, such as 30m, or a moment, such as 2026-11-22T08:00:00Z"
                .to_owned()
        };
        duration(text)
            .ok()
            .map(Self::Ago)
            .or_else(time)
            .ok_or_else(wrong)
    }
}

fn status(text: &str) -> Result<Status, String> {
    let wrong = || {
        "no such status; say awaiting_approval, running, succeeded, failed, denied, blocked, canceled or timed_out"
            .to_owned()
    };
    serde_json::from_value(Value::String(text.to_owned())).map_err(|_| wrong())
}

/// Its questions end the calls of killed processes before they answer.
pub(super) fn log(home: &Home) -> anyhow::Result<CallLog> {
    Ok(CallLog::new(
        home.journal(),
        home.calls_key(),
        configured_journal(home)?,
    ))
}

fn journal(home: &Home) -> Journal {
    Journal::new(home.journal(), home.journal_key())
}

impl Calls {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let since = self.since.map(|since| match since {
            Since::Ago(duration) => Timestamp::now().minus(duration),
            Since::Time(time) => time,
        });
        let query = CallQuery {
            tool: self.tool,
            status: self.status,
            caller: self.caller,
            session: self.session,
            since,
            limit: self.limit.max(1),
            ..CallQuery::default()
        };
        let home = Home::find()?;
        let log = log(&home)?;
        let mut calls = log.calls(&query)?;
        let evicted = log.evicted_calls()?;
        waiting::add(&mut calls, &query, &journal(&home))?;
        if self.json {
            let listed = json!({ "calls": calls, "evicted_calls": evicted });
            return show::print_json(&listed);
        }
        let mut text: String = calls.iter().map(row).collect();
        if calls.is_empty() {
            text.push_str("no calls\n");
        }
        if let Some(said) = self::evicted(evicted) {
            text.push_str(&said);
            text.push('\n');
        }
        show::print(text)
    }
}

/// `None` if all calls are still on record.
pub(super) fn evicted(calls: u64) -> Option<String> {
    let calls = match calls {
        0 => return None,
        1 => "1 call was evicted".to_owned(),
        calls => format!("{calls} calls were evicted"),
    };
    Some(format!(
        "{calls}, because the log was full or they were too old"
    ))
}

/// Words of tools and callers stay in their row.
fn row(call: &CallSummary) -> String {
    let elapsed = call.elapsed_ms.map(|ms| format!("{ms} ms"));
    let error = call.error_code.as_ref().map(|code| format!("  {code}"));
    let row = format!(
        "{}  {:.19}Z  {:<9}  {:>9}  {}{}",
        call.invocation_id,
        call.created_at,
        call.status,
        elapsed.unwrap_or_default(),
        call.tool_id,
        error.unwrap_or_default()
    );
    visible(row.trim_end(), Whitespace::WrittenOut) + "\n"
}

impl Show {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let log = log(&home)?;
        let id = match self.id {
            Some(id) => id,
            None => latest(&log)?,
        };
        let record = match log.record(&id)? {
            None => waiting::record(&journal(&home), &id, None)?,
            found => found,
        };
        let unknown = || {
            BadRequest(format!(
                "no call has the id {id}, or one that ends so: `toolcell calls` lists them"
            ))
        };
        let mut record = record.ok_or_else(unknown)?;
        if let Some(from) = self.progress_from {
            return show::done(progress(&record, from), Exit::Succeeded);
        }
        if self.json {
            if let Some(result) = record.get_mut("result") {
                show::represent_again(result);
            }
            return show::print_json(&record);
        }
        show::print(page::render(&log, &record))
    }
}

fn latest(log: &CallLog) -> anyhow::Result<String> {
    let latest = log
        .calls(&CallQuery {
            limit: 1,
            ..CallQuery::default()
        })?
        .pop();
    let none = || BadRequest("no call is on record yet: `toolcell call` makes one".to_owned());
    Ok(latest.ok_or_else(none)?.invocation_id)
}

fn progress(record: &Value, from: u64) -> std::io::Result<()> {
    let said = record["progress"].as_array().into_iter().flatten();
    let rest = said.filter(|update| {
        update["sequence"]
            .as_u64()
            .is_some_and(|sequence| sequence >= from)
    });
    rest.into_iter().try_for_each(show::json)
}
