//! The names of tasks: the id of the call, and a code that binds it to its owner.

use std::sync::OnceLock;

use toolcell_journal::{CallLog, LogError};
use toolcell_spec::InvocationId;

/// Another text makes another key.
const CONTEXT: &str = "toolcell 2026-11-22 names of tasks";

pub(super) struct TaskNames {
    calls: CallLog,
    key: OnceLock<[u8; 32]>,
}

impl TaskNames {
    pub(super) fn new(calls: CallLog) -> Self {
        Self {
            calls,
            key: OnceLock::new(),
        }
    }

    /// Valid in this process and in later ones.
    pub(super) fn write(&self, id: InvocationId, owner: &str) -> Result<String, LogError> {
        Ok(format!("{id}-{}", self.code(id, owner)?))
    }

    /// `None` if `name` is not a name for `owner`.
    pub(super) fn read(&self, name: &str, owner: &str) -> Result<Option<InvocationId>, LogError> {
        let parts = name.split_once('-').and_then(|(id, code)| {
            let id: InvocationId = id.parse().ok()?;
            Some((id, blake3::Hash::from_hex(code).ok()?))
        });
        let Some((id, code)) = parts else {
            return Ok(None);
        };
        // Hashes are compared in constant time.
        let is_own = code == self.code(id, owner)? || !guard!("task_owner");
        Ok(is_own.then_some(id))
    }

    fn code(&self, id: InvocationId, owner: &str) -> Result<blake3::Hash, LogError> {
        let key = match self.key.get() {
            Some(key) => key,
            None => {
                let key = self.calls.derived_key(CONTEXT)?;
                self.key.get_or_init(|| key)
            }
        };
        Ok(blake3::keyed_hash(key, format!("{id}\n{owner}").as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use toolcell_journal::{CallLog, LogSettings};
    use toolcell_spec::InvocationId;

    use super::TaskNames;

    #[test]
    fn a_name_is_its_owners_alone_and_outlives_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let names = || {
            let calls = folder.path().join("calls");
            let key = folder.path().join("key");
            TaskNames::new(CallLog::new(calls, key, LogSettings::default()))
        };
        let (id, names, later) = (InvocationId::new(), names(), names());
        let name = names.write(id, "anna").unwrap();
        assert_eq!(later.read(&name, "anna").unwrap(), Some(id));
        assert_eq!(later.read(&name, "bert").unwrap(), None);
        let other = names.write(InvocationId::new(), "anna").unwrap();
        let forged = format!("{id}-{}", other.split_once('-').unwrap().1);
        for wrong in [
            "",
            "-",
            &id.to_string(),
            &format!("{id}-"),
            &forged,
            &name[1..],
            &name[..name.len() - 1],
        ] {
            assert_eq!(later.read(wrong, "anna").unwrap(), None, "{wrong}");
        }
    }
}
