//! Steps that agents add to the trace of a session.

use rusqlite::params;

use crate::database::change;
use toolcell_spec::Timestamp;

use super::{Store, StoreError};

pub const SESSION_STEPS_BYTES_MAX: u64 = 8 << 20;

impl Store {
    /// Adds all or nothing; `false` without room. Removes steps of sessions without additions for as long as calls
    /// stay.
    pub fn add_steps(&mut self, session: &str, steps: &[String]) -> Result<bool, StoreError> {
        let now = Timestamp::now();
        let transaction = change(&mut self.connection)?;
        let add = "INSERT INTO steps (session, added_at, step) VALUES (?1, ?2, ?3)";
        for step in steps {
            transaction.execute(add, params![session, now.unix_millis(), step])?;
        }
        let bytes = "SELECT sum(octet_length(step)) FROM steps WHERE session = ?1";
        let bytes: u64 = transaction.query_row(bytes, [session], |row| row.get(0))?;
        if bytes > SESSION_STEPS_BYTES_MAX {
            return Ok(false);
        }
        transaction.execute(
            "DELETE FROM steps
            WHERE session IN (SELECT session FROM steps GROUP BY session HAVING max(added_at) < ?1)",
            [now.minus(self.age_max).unix_millis()],
        )?;
        transaction.commit()?;
        Ok(true)
    }

    pub fn steps(&mut self, session: &str) -> Result<Vec<String>, StoreError> {
        let steps = "SELECT step FROM steps WHERE session = ?1 ORDER BY number";
        let mut steps = self.connection.prepare(steps)?;
        let rows = steps.query_map([session], |row| row.get(0))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Journal;

    #[test]
    fn steps_that_have_no_room_are_not_added_and_old_ones_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name| folder.path().join(name);
        let journal = Journal::keeping(path("journal"), path("key"), Duration::from_secs(60 * 60));
        let add = |session: &str, step: String| {
            journal
                .with(|store| store.add_steps(session, &["first".to_owned(), step]))
                .unwrap()
        };
        let steps = |session: &str| journal.with(|store| store.steps(session)).unwrap();
        assert!(add("a", "second".to_owned()));
        assert!(!add("a", "x".repeat(8 << 20)) && add("b", "x".to_owned()));
        assert_eq!(
            (steps("a"), steps("b").len(), steps("c").len()),
            (vec!["first".to_owned(), "second".to_owned()], 2, 0)
        );
        let past = Timestamp::now().minus(Duration::from_secs(2 * 60 * 60));
        journal
            .with(|store| {
                let aged = "UPDATE steps SET added_at = ?1 WHERE session = 'a'";
                Ok(store.connection.execute(aged, [past.unix_millis()])?)
            })
            .unwrap();
        assert!(add("b", "y".to_owned()));
        assert_eq!((steps("a").len(), steps("b").len()), (0, 4));
    }
}
