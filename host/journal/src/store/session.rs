use rusqlite::params;

use toolcell_spec::{SessionRule, Timestamp};

use super::{Allowance, Store, StoreError, entry};

impl Store {
    /// A rule of the session that covers `asked`, at most [`SessionRule::LASTS`] old.
    pub fn remembers(&mut self, asked: &Allowance) -> Result<Option<String>, StoreError> {
        let since = Timestamp::now().minus(SessionRule::LASTS);
        let mut statement = self
            .connection
            .prepare("SELECT reference, record, scope FROM session_rules WHERE session = ?1 AND made_at > ?2")?;
        let rows =
            statement.query_map(params![asked.rule.session, since.unix_millis()], |row| {
                Ok((
                    row.get::<_, String>(0)?,
                    row.get::<_, String>(1)?,
                    row.get::<_, Option<Vec<u8>>>(2)?,
                ))
            })?;
        for row in rows {
            let (reference, record, sealed) = row?;
            let rule: SessionRule = entry::read(&record)?;
            if rule.reference() != reference {
                return Err(StoreError::Damaged(
                    "a session rule is not what was stored".to_owned(),
                ));
            }
            if !rule.is_about(&asked.rule) {
                continue;
            }
            let place = entry::scope_of(&reference);
            let scope = sealed
                .map(|sealed| entry::open(&self.key, &place, &sealed))
                .transpose()?;
            if (Allowance { rule, scope }).covers(asked) {
                return Ok(Some(reference));
            }
        }
        Ok(None)
    }

    /// Returns the number. Every call needs an approval again.
    pub fn forget_sessions(&mut self) -> Result<usize, StoreError> {
        Ok(self.connection.execute("DELETE FROM session_rules", [])?)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use serde_json::Value;

    use super::*;
    use crate::Journal;
    use toolcell_policy::{ApprovalScope, Capability, Mount};

    fn allowance(host: &str) -> Allowance {
        let mounts = vec![Mount {
            host: PathBuf::from(host),
            guest: host.to_owned(),
            writable: true,
        }];
        let rule = SessionRule {
            session: "named:work".to_owned(),
            actor: "nobody".to_owned(),
            tool_id: "a.b".to_owned(),
            component: "c".to_owned(),
            declaration: "d".to_owned(),
            capability: host.to_owned(),
            question: "f".to_owned(),
        };
        Allowance {
            rule,
            scope: ApprovalScope::from_capability(
                &Capability {
                    mounts,
                    ..Capability::default()
                },
                &Value::Null,
            ),
        }
    }

    #[test]
    fn an_approval_for_a_session_has_an_end() {
        let own = allowance("/a");
        let below = allowance("/a/b");
        let beside = allowance("/b");
        let dir = tempfile::tempdir().unwrap();
        let now = Timestamp::now();
        let journal = Journal::new(dir.path().join("journal"), dir.path().join("key"));
        let remembered = |age: Duration, asked: &Allowance| {
            journal.with(|store| {
                // Only the rule matters here, not the call that made it.
                store.connection.pragma_update(None, "foreign_keys", false)?;
                let reference = own.rule.reference();
                let scope = entry::seal(&store.key, &entry::scope_of(&reference), &own.scope)?;
                store.connection.execute(
                    "INSERT OR REPLACE INTO session_rules (reference, session, made_by, made_at, record, scope)
                     VALUES (?1, ?2, 'x', ?3, ?4, ?5)",
                    params![reference, own.rule.session, now.minus(age).unix_millis(), entry::write(&own.rule)?, scope],
                )?;
                store.remembers(asked)
            })
        };
        let in_time = SessionRule::LASTS - Duration::from_secs(60);
        let too_late = SessionRule::LASTS + Duration::from_secs(1);
        for covered in [&own, &below] {
            assert_eq!(
                remembered(in_time, covered).unwrap(),
                Some(own.rule.reference())
            );
            assert_eq!(remembered(too_late, covered).unwrap(), None);
        }
        assert_eq!(remembered(in_time, &beside).unwrap(), None);
        let other = SessionRule {
            question: "another".to_owned(),
            ..below.rule.clone()
        };
        assert_eq!(
            remembered(
                in_time,
                &Allowance {
                    rule: other,
                    ..below.clone()
                }
            )
            .unwrap(),
            None
        );
    }

    #[test]
    fn a_scope_that_was_changed_behind_the_journals_back_allows_nothing() {
        let own = allowance("/a");
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::new(dir.path().join("journal"), dir.path().join("key"));
        let found = journal.with(|store| {
            store
                .connection
                .pragma_update(None, "foreign_keys", false)?;
            store.connection.execute(
                "INSERT INTO session_rules (reference, session, made_by, made_at, record, scope)
                 VALUES (?1, ?2, 'x', ?3, ?4, ?5)",
                params![
                    own.rule.reference(),
                    own.rule.session,
                    Timestamp::now().unix_millis(),
                    entry::write(&own.rule)?,
                    entry::write(&own.scope)?.into_bytes()
                ],
            )?;
            store.remembers(&allowance("/a/b"))
        });
        assert!(matches!(found, Err(StoreError::Damaged(_))), "{found:?}");
    }
}
