use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// `schema_version`: the specification that a record follows. Written as `0.2.0`; a version that was read is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SchemaVersion(Cow<'static, str>);

impl SchemaVersion {
    /// The version that toolcell implements.
    pub const CURRENT: &'static str = "0.2.0";

    /// Whether this host can read the record: the same major version (AT-DECL-01).
    pub fn is_supported(&self) -> bool {
        let major = |version: &str| version.split('.').next().map(str::to_owned);
        major(&self.0) == major(Self::CURRENT)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for SchemaVersion {
    fn default() -> Self {
        Self(Cow::Borrowed(Self::CURRENT))
    }
}
