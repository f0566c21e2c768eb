use rusqlite::OptionalExtension;

use crate::record::SessionRule;

use super::{Store, StoreError, entry};

impl Store {
    /// Whether exactly this was approved for the rest of its session.
    pub fn remembers(&mut self, rule: &SessionRule) -> Result<bool, StoreError> {
        let found = self
            .connection
            .query_row("SELECT record FROM session_rules WHERE reference = ?1", [rule.reference()], |row| {
                row.get::<_, String>(0)
            })
            .optional()?;
        match found {
            Some(text) if entry::read::<SessionRule>(&text)? == *rule => Ok(true),
            Some(_) => Err(StoreError::Damaged("a session rule is not what was stored".to_owned())),
            None => Ok(false),
        }
    }
}
