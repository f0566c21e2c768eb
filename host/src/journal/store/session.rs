use std::time::Duration;

use rusqlite::{OptionalExtension, params};

use crate::record::{SessionRule, Timestamp};

use super::{Store, StoreError, entry};

/// Maximum lifetime of an approval for a session.
const REMEMBERED_FOR: Duration = Duration::from_secs(12 * 3_600);

impl Store {
    /// Whether exactly this was approved for the rest of its session within the last 12 hours: a named session has no
    /// end of its own.
    pub fn remembers(&mut self, rule: &SessionRule) -> Result<bool, StoreError> {
        let since = Timestamp::now().minus(REMEMBERED_FOR);
        let found = self
            .connection
            .query_row(
                "SELECT record FROM session_rules WHERE reference = ?1 AND made_at > ?2",
                params![rule.reference(), since.unix_millis()],
                |row| row.get::<_, String>(0),
            )
            .optional()?;
        match found {
            Some(text) if entry::read::<SessionRule>(&text)? == *rule => Ok(true),
            Some(_) => Err(StoreError::Damaged("a session rule is not what was stored".to_owned())),
            None => Ok(false),
        }
    }

    /// Forgets all approvals for sessions; returns how many. Every call needs an approval again.
    pub fn forget_sessions(&mut self) -> Result<usize, StoreError> {
        Ok(self.connection.execute("DELETE FROM session_rules", [])?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Journal;

    #[test]
    fn an_approval_for_a_session_has_an_end() {
        let rule = SessionRule {
            session: "named:work".to_owned(),
            actor: "nobody".to_owned(),
            tool_id: "a.b".to_owned(),
            component: "c".to_owned(),
            declaration: "d".to_owned(),
            capability: "e".to_owned(),
            question: "f".to_owned(),
        };
        let (dir, now) = (tempfile::tempdir().unwrap(), Timestamp::now());
        let journal = Journal::new(dir.path().join("journal"), dir.path().join("key"));
        let remembered = |age: Duration| {
            journal.with(|store| {
                // Only the rule matters here, not the call that made it.
                store.connection.pragma_update(None, "foreign_keys", false)?;
                store.connection.execute(
                    "INSERT OR REPLACE INTO session_rules (reference, session, made_by, made_at, record)
                     VALUES (?1, ?2, 'x', ?3, ?4)",
                    params![rule.reference(), rule.session, now.minus(age).unix_millis(), entry::write(&rule)?],
                )?;
                store.remembers(&rule)
            })
        };
        assert!(remembered(REMEMBERED_FOR - Duration::from_secs(60)).unwrap());
        assert!(!remembered(REMEMBERED_FOR + Duration::from_secs(1)).unwrap());
    }
}
