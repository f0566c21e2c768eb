//! What `toolcell wrap` writes into a component. The custom section `toolcell:profile` has what a component of plain
//! functions does not say of itself: it informs and narrows; grants decide. The sections `toolcell:files:` have files for
//! its own calls.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::routes::Route;
use crate::{JSON_VALUES_MAX, SubjectKind, read_unique_json};

pub const PROFILE_SECTION: &str = "toolcell:profile";
/// Documentation of a WIT package, as other tools write it.
pub const DOCS_SECTION: &str = "package-docs";
/// The path of a folder of its own, as the component sees it, follows. The content is a ZIP archive.
pub const FILES_SECTION: &str = "toolcell:files:";
/// Folders of its own that a component may have.
pub const OWN_FOLDERS_MAX: usize = 8;
/// In bytes, of all files in them, unpacked: ten times what a Python with its standard library takes.
pub const OWN_FILES_BYTES_MAX: u64 = 1 << 30;
/// Files and folders in them.
pub const OWN_FILES_MAX: u64 = 100_000;

/// Room that is left in the folders of one component.
pub struct OwnFilesRoom {
    files: u64,
    bytes: u64,
}

impl Default for OwnFilesRoom {
    fn default() -> Self {
        Self {
            files: OWN_FILES_MAX,
            bytes: OWN_FILES_BYTES_MAX,
        }
    }
}

impl OwnFilesRoom {
    /// Fails if there is no room for so many files and folders, or bytes.
    pub fn take(&mut self, files: u64, bytes: u64) -> Result<(), String> {
        self.files = (self.files.checked_sub(files))
            .ok_or_else(|| format!("they are more than {OWN_FILES_MAX} files and folders"))?;
        self.bytes = (self.bytes.checked_sub(bytes))
            .ok_or_else(|| format!("they have more than {OWN_FILES_BYTES_MAX} bytes, unpacked"))?;
        Ok(())
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The section, as JSON.
///
/// ```
/// use toolcell_spec::dialect::wrapping::Profile;
///
/// let profile = Profile::read(r#"{"tools": {"files-list": {"read_only": true, "paths": ["folder"]}}}"#)?;
/// assert!(profile.tools["files-list"].read_only);
/// assert!(Profile::read(r#"{"tools": {"files-list": {"readonly": true}}}"#).is_err());
/// # Ok::<(), String>(())
/// ```
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    pub namespace: Option<String>,
    /// `true` if functions are its tools, although it is a command.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub functions: bool,
    /// `None`: the component's imports, and the tools' profiles.
    pub ceiling: Option<Ceiling>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, ToolProfile>,
    /// `None` for a command that takes arguments and prints text.
    pub command: Option<CommandInterface>,
    /// The tools of a server. Empty: one tool that sends any request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
}

/// The interface of a command that reads its input as JSON on standard input, and prints one JSON object: `structured`,
/// with `content` (blocks) and `error` (`code`, `message`, `kind`) if it has some.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandInterface {
    pub name: String,
    pub description: String,
    pub input_schema: Value,
    /// Of `structured`. The host adds the field `files`.
    pub output_schema: Option<Value>,
    /// As in [`ToolProfile::paths`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
}

/// Grants decide what a component's tools get of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ceiling {
    /// `true` asks for files to read, where imported.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub file_read: bool,
    /// `true` asks for files to write, where imported.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub file_write: bool,
    /// Each as in the `network_scope` of a permission profile. Empty: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<String>,
}

#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolProfile {
    pub description: Option<String>,
    /// `true` makes folders read-only, and permits only safe methods.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// `false` asks for no network, although the component imports it.
    pub network: Option<bool>,
    /// A name or a JSON Pointer each; a call gets only those files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<String>,
}

impl Profile {
    /// Fails on unknown fields, because their narrowing would be lost.
    pub fn read(text: &str) -> Result<Self, String> {
        let profile = read_unique_json(text, JSON_VALUES_MAX).and_then(|value| {
            if value.is_object() {
                serde_json::from_value(value).map_err(|error| error.to_string())
            } else {
                Err("it is not an object".to_owned())
            }
        });
        profile.map_err(|error| format!("cannot read the profile: {error}"))
    }
}

impl CommandInterface {
    /// Subjects by JSON Pointer.
    pub fn subjects(&self) -> BTreeMap<String, SubjectKind> {
        let path = |name: &String| (pointer(name), SubjectKind::Path);
        self.paths.iter().map(path).collect()
    }
}

impl ToolProfile {
    /// Subjects by JSON Pointer. Fails if an argument is named as a path and as a URL.
    pub fn subjects(&self) -> Result<BTreeMap<String, SubjectKind>, String> {
        let mut subjects = BTreeMap::new();
        for (names, kind) in [
            (&self.paths, SubjectKind::Path),
            (&self.urls, SubjectKind::Url),
        ] {
            for name in names {
                let known = subjects.insert(pointer(name), kind);
                if known.is_some_and(|known| known != kind) {
                    return Err(format!("{name:?} is named as a path and as a URL"));
                }
            }
        }
        Ok(subjects)
    }
}

pub(super) fn pointer(argument: &str) -> String {
    if argument.starts_with('/') {
        argument.to_owned()
    } else {
        format!("/{}", argument.replace('~', "~0").replace('/', "~1"))
    }
}

#[cfg(test)]
mod tests {
    use super::{Profile, ToolProfile};
    use crate::SubjectKind;

    #[test]
    fn a_profile_is_written_as_it_is_read() {
        let text = r#"{"namespace":"acme","ceiling":{"file_read":true,"network":["any"]},"tools":{"a":{"read_only":true,"network":false,"paths":["p","/q/r"]},"b":{}}}"#;
        let profile = Profile::read(text).unwrap();
        assert_eq!(serde_json::to_string(&profile).unwrap(), text);
        assert_eq!(Profile::read("{}").unwrap(), Profile::default());
    }

    #[test]
    fn what_a_profile_does_not_know_is_refused() {
        for (text, why) in [
            ("", "EOF"),
            ("[]", "not an object"),
            (r#"{"tool": {}}"#, "unknown field `tool`"),
            (r#"{"ceiling": {"file": true}}"#, "unknown field `file`"),
            (r#"{"tools": {"a": {"path": []}}}"#, "unknown field `path`"),
            (
                r#"{"tools": {"a": {"read_only": "yes"}}}"#,
                "expected a boolean",
            ),
            (r#"{"tools": {"a": {}, "a": {"read_only": true}}}"#, "a"),
        ] {
            let refusal = Profile::read(text).unwrap_err();
            assert!(
                refusal.starts_with("cannot read the profile: ") && refusal.contains(why),
                "{refusal}"
            );
        }
    }

    #[test]
    fn arguments_are_named_or_pointed_at() {
        let named = |paths: &[&str], urls: &[&str]| {
            let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            ToolProfile {
                paths: own(paths),
                urls: own(urls),
                ..ToolProfile::default()
            }
            .subjects()
        };
        let subjects = named(&["in/out", "/a/*"], &["url"]).unwrap();
        let found: Vec<_> = subjects
            .iter()
            .map(|(pointer, kind)| (pointer.as_str(), *kind))
            .collect();
        assert_eq!(
            found,
            [
                ("/a/*", SubjectKind::Path),
                ("/in~1out", SubjectKind::Path),
                ("/url", SubjectKind::Url)
            ]
        );
        assert!(
            named(&["x"], &["/x"])
                .unwrap_err()
                .contains("as a path and as a URL")
        );
    }
}
