use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use toolcell_spec::{ErrorCode, Refusal};

const NAME_BYTES_MAX: usize = 64;

/// Name of a workspace: 1 to 64 letters, digits, `.`, `_` and `-`, the first a letter or digit. It is a folder's name, so
/// it leads nowhere else.
///
/// ```
/// use toolcell_workspace::WorkspaceName;
///
/// assert!("report-2026".parse::<WorkspaceName>().is_ok());
/// assert!("../other".parse::<WorkspaceName>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WorkspaceName(String);

impl WorkspaceName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for WorkspaceName {
    type Err = Refusal;

    fn from_str(name: &str) -> Result<Self, Refusal> {
        if is_plain(name) {
            return Ok(Self(name.to_owned()));
        }
        let shown: String = name.chars().take(NAME_BYTES_MAX).collect();
        let message = format!(
            "{shown:?} is no name of a workspace: 1 to {NAME_BYTES_MAX} letters, digits, `.`, `_` and `-`, the first a \
             letter or digit"
        );
        Err(Refusal::new(ErrorCode::WorkspaceNameInvalid, message))
    }
}

impl TryFrom<String> for WorkspaceName {
    type Error = Refusal;

    fn try_from(name: String) -> Result<Self, Refusal> {
        name.parse()
    }
}

impl From<WorkspaceName> for String {
    fn from(name: WorkspaceName) -> Self {
        name.0
    }
}

impl fmt::Display for WorkspaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

fn is_plain(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    name.len() <= NAME_BYTES_MAX
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(is_allowed)
}

/// Whom a workspace belongs to. Two owners never see each other's.
///
/// ```
/// use toolcell_workspace::WorkspaceOwner;
///
/// assert_ne!(WorkspaceOwner::principal("ann"), WorkspaceOwner::session("ann"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkspaceOwner(String);

impl WorkspaceOwner {
    /// The user of this machine's home.
    pub fn user() -> Self {
        Self("user".to_owned())
    }

    /// A caller that a server recognises by `name`.
    pub fn principal(name: &str) -> Self {
        Self(format!("principal {name}"))
    }

    /// One session of a server.
    pub fn session(id: &str) -> Self {
        Self(format!("session {id}"))
    }

    /// Name of the owner's folder: an owner's name may have characters that no folder's has.
    pub(crate) fn folder(&self) -> String {
        let digest = Sha256::digest(self.0.as_bytes());
        let mut name = HEXLOWER.encode(digest.as_slice());
        name.truncate(32);
        name
    }
}

/// Name of a snapshot within its workspace, by the same rule as [`WorkspaceName`].
pub type SnapshotId = WorkspaceName;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_else() {
        for name in ["a", "A1", "report-2026.08_x", &"a".repeat(64)] {
            assert!(name.parse::<WorkspaceName>().is_ok(), "{name}");
        }
        for name in [
            "",
            ".",
            "..",
            ".a",
            "-a",
            "_a",
            "a/b",
            "a\\b",
            "../a",
            "/a",
            "a b",
            "a\0",
            "ä",
            "a\n",
            &"a".repeat(65),
        ] {
            let refused = name.parse::<WorkspaceName>().unwrap_err();
            assert_eq!(refused.code, ErrorCode::WorkspaceNameInvalid, "{name:?}");
        }
    }

    #[test]
    fn owners_have_folders_of_their_own() {
        let owners = [
            WorkspaceOwner::user(),
            WorkspaceOwner::principal("user"),
            WorkspaceOwner::principal("../user"),
            WorkspaceOwner::session("user"),
        ];
        let folders: std::collections::HashSet<_> =
            owners.iter().map(WorkspaceOwner::folder).collect();
        assert_eq!(folders.len(), owners.len());
        assert!(
            folders
                .iter()
                .all(|name| name.parse::<WorkspaceName>().is_ok())
        );
    }
}
