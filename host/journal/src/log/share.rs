//! Shares of a full log, so that a caller who fills it removes calls of its own. `actor_ref` tells callers apart; all
//! without one are one caller.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io;
use std::ops::ControlFlow;

use rusqlite::{OptionalExtension, Transaction, params};

use crate::waiting::StoreError;
use toolcell_spec::Timestamp;

use super::call_lines::{self, Brief};
use super::line::Kind;
use super::numbers::Place;
use super::segment::{self, Segment, Surplus};
use super::{CallLog, Inner, Key, LogError};

const ADD: &str =
    "INSERT INTO used VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes";
const BY_CALLER: &str = "SELECT caller, sum(bytes) FROM used GROUP BY caller";

pub(super) fn add(
    transaction: &Transaction<'_>,
    caller: Option<&str>,
    place: Place,
) -> rusqlite::Result<()> {
    transaction
        .execute(
            ADD,
            params![place.segment, caller.unwrap_or_default(), place.length],
        )
        .map(drop)
}

pub(super) fn add_note(
    transaction: &Transaction<'_>,
    id: &str,
    place: Place,
) -> rusqlite::Result<()> {
    let caller = transaction
        .query_row("SELECT caller FROM calls WHERE id = ?1", [id], |row| {
            row.get(0)
        })
        .optional()?;
    match caller {
        Some(caller) => add(transaction, Option::<String>::as_deref(&caller), place),
        None => Ok(()),
    }
}

impl CallLog {
    /// Calls removed because of a full log or age.
    pub fn evicted_calls(&self) -> Result<u64, LogError> {
        let sum = "SELECT coalesce(sum(calls), 0) FROM evicted";
        let evicted = self.ask(|index| index.query_row(sum, [], |row| row.get(0)))?;
        Ok(evicted.unwrap_or_default())
    }
}

/// Moves calls of callers within their share out of `surplus`, unless too old. Returns lost calls by segment.
pub(super) fn carry(
    log: &Inner,
    key: &Key,
    surplus: &[Surplus],
    is_clock_sure: bool,
) -> io::Result<BTreeMap<u64, u64>> {
    let dir = log.dir.as_path();
    let settings = &log.settings;
    let within = if guard!("journal_shares") {
        within(log)
    } else {
        HashSet::new()
    };
    let oldest = is_clock_sure.then(|| Timestamp::now().minus(settings.age_max));
    let mut kept = None;
    let mut files = Vec::new();
    let mut lost = BTreeMap::new();
    for Surplus { number, is_old, .. } in surplus {
        let mut ids = HashSet::new();
        _ = segment::each_line_of(dir, *number, |line, earlier| {
            let go_on = Ok(ControlFlow::Continue(()));
            if !matches!(line.kind, Kind::Ended | Kind::Carried) {
                return go_on;
            }
            let Ok(Brief { invocation, .. }) = serde_json::from_str::<Brief>(line.payload) else {
                return go_on;
            };
            let caller = invocation.actor_ref.as_deref().unwrap_or_default();
            let is_too_old = *is_old || oldest.is_some_and(|oldest| invocation.created_at < oldest);
            if is_too_old || !within.contains(caller) {
                ids.insert(line.id.to_owned());
                return go_on;
            }
            // A line that says all itself stays as it is, byte for byte.
            let payload = if call_lines::is_whole(line.payload) {
                line.payload.to_owned()
            } else {
                earlier.record(line.id, line.payload)?.to_string()
            };
            let segment = match kept.take().filter(Segment::has_room) {
                Some(segment) => segment,
                None => {
                    let next = Segment::take(dir, key)?;
                    files.push(next.file()?);
                    next
                }
            };
            kept.insert(segment)
                .append(key, Kind::Carried, line.id, &payload)?;
            go_on
        })?;
        lost.insert(*number, ids.len() as u64);
    }
    // They must survive the removal of where they were.
    files.iter().try_for_each(File::sync_data)?;
    Ok(lost)
}

/// Without an index nobody is, and the oldest calls go.
fn within(log: &Inner) -> HashSet<String> {
    let Ok(callers) = by_caller(log) else {
        return HashSet::new();
    };
    let known: u64 = callers.iter().map(|(_, bytes)| bytes).sum();
    let total: u64 =
        segment::sizes(&log.dir).map_or(known, |sizes| sizes.iter().map(|(_, bytes)| bytes).sum());
    // Lines of no call are divided as the rest.
    let scaled = |bytes: u64| u128::from(bytes) * u128::from(total) / u128::from(known.max(1));
    let share = share(
        callers.iter().map(|(_, bytes)| scaled(*bytes)).collect(),
        log.settings.bytes_max.into(),
    );
    callers
        .into_iter()
        .filter(|(_, bytes)| scaled(*bytes) <= share)
        .map(|(caller, _)| caller)
        .collect()
}

/// `""` is the caller without a name.
fn by_caller(log: &Inner) -> Result<Vec<(String, u64)>, StoreError> {
    let index = log.index()?;
    let mut callers = index.prepare(BY_CALLER)?;
    let rows = callers.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// The most for each, if those who want more share `room` evenly.
fn share(mut wanted: Vec<u128>, room: u128) -> u128 {
    wanted.sort_unstable();
    let mut left = room;
    let mut others = wanted.len() as u128;
    for bytes in wanted {
        let share = left / others.max(1);
        if bytes > share {
            return share;
        }
        left -= bytes;
        others -= 1;
    }
    u128::MAX
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn who_has_little_keeps_it_and_the_rest_is_divided() {
        assert_eq!(share(vec![900, 10], 800), 790);
        assert_eq!(share(vec![500, 400, 10], 800), 395);
        assert_eq!(share(vec![100, 100], 800), u128::MAX);
        assert_eq!(share(vec![900], 800), 800);
    }
}
