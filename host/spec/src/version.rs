use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// Specification of a record. A version that was read is kept.
///
/// ```
/// use toolcell_spec::SchemaVersion;
///
/// let written: SchemaVersion = serde_json::from_str(r#""9.0.0""#)?;
/// assert!(SchemaVersion::default().is_supported() && !written.is_supported());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SchemaVersion(Cow<'static, str>);

impl SchemaVersion {
    pub const CURRENT: &'static str = "0.2.0";

    /// Requires the same major version (AT-DECL-01).
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
