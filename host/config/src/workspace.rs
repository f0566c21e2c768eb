use std::time::Duration;

use toolcell_workspace::{OnFailure, WorkspaceSettings};

use super::file::{ConfigFile, WorkspaceSection};
use super::units::{duration, one_of, size};

/// Whose calls share a workspace of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkspaceScope {
    /// Calls have none.
    #[default]
    None,
    /// The calls of one session of MCP; where there are no sessions, of one caller.
    Session,
    /// Those of one caller.
    Principal,
}

/// The `[workspace]` of all files: of each setting the strictest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceConfig {
    pub scope: WorkspaceScope,
    /// Of new workspaces.
    pub settings: WorkspaceSettings,
    pub on_failure: OnFailure,
}

const SCOPES: [(&str, WorkspaceScope); 3] = [
    ("none", WorkspaceScope::None),
    ("session", WorkspaceScope::Session),
    ("principal", WorkspaceScope::Principal),
];
/// Of a workspace that nobody can find again after its session, if no file says.
const SESSION_TTL: Duration = Duration::from_secs(24 * 60 * 60);

impl WorkspaceConfig {
    /// Applies the settings of `file`: the last scope counts, and of the bounds the lowest.
    pub(super) fn read(&mut self, file: &ConfigFile) -> anyhow::Result<()> {
        self.narrow(file, &file.workspace)
    }

    /// As [`Self::read`], with a `section` of `file`.
    pub(super) fn narrow(
        &mut self,
        file: &ConfigFile,
        section: &WorkspaceSection,
    ) -> anyhow::Result<()> {
        let scope = one_of(&SCOPES);
        file.set(&mut self.scope, "[workspace] per", &section.per, scope)?;
        let lowest = |known: u64, said: u64| known.min(said);
        let mut quota = self.settings.quota;
        file.set(&mut quota.bytes, "[workspace] quota", &section.quota, size)?;
        let known = &mut self.settings.quota;
        known.bytes = lowest(known.bytes, quota.bytes);
        known.files = lowest(known.files, section.max_files.unwrap_or(known.files));
        let mut ttl = self.settings.time_to_live;
        let parse = |text: &str| duration(text).map(Some);
        file.set(&mut ttl, "[workspace] ttl", &section.ttl, parse)?;
        let shorter = self.settings.time_to_live.into_iter().chain(ttl).min();
        self.settings.time_to_live = shorter;
        if section.rollback == Some(true) {
            self.on_failure = OnFailure::RollBack;
        }
        Ok(())
    }

    /// These, with the stricter of each bound of both.
    pub(super) fn stricter(&self, other: &Self) -> Self {
        let mut both = *self;
        let quota = &mut both.settings.quota;
        let most = &other.settings.quota;
        quota.bytes = quota.bytes.min(most.bytes);
        quota.files = quota.files.min(most.files);
        let times = [self.settings.time_to_live, other.settings.time_to_live];
        both.settings.time_to_live = times.into_iter().flatten().min();
        if other.on_failure == OnFailure::RollBack {
            both.on_failure = OnFailure::RollBack;
        }
        both
    }

    /// As for a server: a session's workspaces do not stay for ever.
    #[must_use]
    pub fn served(mut self) -> Self {
        if self.scope == WorkspaceScope::Session {
            self.settings.time_to_live.get_or_insert(SESSION_TTL);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn of(texts: &[&str]) -> anyhow::Result<WorkspaceConfig> {
        let mut config = WorkspaceConfig::default();
        for text in texts {
            config.read(&ConfigFile::parse(
                &format!("[workspace]\n{text}\n"),
                Path::new("/project"),
            )?)?;
        }
        Ok(config)
    }

    #[test]
    fn the_strictest_of_all_files_counts() {
        assert_eq!(of(&[]).unwrap(), WorkspaceConfig::default());
        let user =
            "per = \"principal\"\nquota = \"2MiB\"\nmax_files = 10\nttl = \"60m\"\nrollback = true";
        let project =
            "per = \"session\"\nquota = \"4MiB\"\nmax_files = 5\nttl = \"30m\"\nrollback = false";
        let both = of(&[user, project]).unwrap();
        assert_eq!(both.scope, WorkspaceScope::Session);
        let settings = both.settings;
        assert_eq!((settings.quota.bytes, settings.quota.files), (2 << 20, 5));
        assert_eq!(settings.time_to_live, Some(Duration::from_secs(30 * 60)));
        assert_eq!(both.on_failure, OnFailure::RollBack);
        let session = of(&["per = \"session\""]).unwrap();
        assert_eq!(session.settings.time_to_live, None);
        assert_eq!(session.served().settings.time_to_live, Some(SESSION_TTL));
    }

    #[test]
    fn what_cannot_be_meant_is_told_with_its_value() {
        for (text, why) in [
            ("per = \"user\"", "none, session, principal"),
            ("quota = \"much\"", "quota = \"much\""),
            ("ttl = \"0s\"", "ttl = \"0s\""),
            ("per_user = true", "unknown field"),
        ] {
            let error = format!("{:#}", of(&[text]).unwrap_err());
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
