//! `toolcell.lock`, beside `toolcell.toml`: which bytes each installed name stands for.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use toolcell_spec::text::{Whitespace, visible};
use toolcell_spec::{ErrorCode, Refusal};

use crate::digest::Digest;
use crate::reference::ComponentReference;
use crate::verifier::Signer;

pub const FILE_NAME: &str = "toolcell.lock";
pub const VERSION: i64 = 1;
pub const BYTES_MAX: u64 = 4 << 20;
pub(crate) const ENTRIES_MAX: usize = 4_096;
const NAME_MAX: usize = 64;
/// In characters, because a lock can come from others.
const PROBLEM_CHARS_MAX: usize = 200;

const HEADER: &str = "# Written by `toolcell install`: the bytes that each name stands for. Commit it; do not edit it.\n";

/// Letters, digits, `_` and `-`, beginning with a letter or a digit, so that it is no path and no option.
pub fn is_name(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric();
    text.len() <= NAME_MAX
        && text.bytes().next().is_some_and(is_word)
        && text
            .bytes()
            .all(|byte| is_word(byte) || b"_-".contains(&byte))
}

pub fn not_a_name(text: &str) -> String {
    format!(
        "`{}` cannot be the name of a tool: at most {NAME_MAX} letters, digits, `_` and `-` are expected, beginning with a \
         letter or a digit",
        visible(text, Whitespace::WrittenOut)
    )
}

pub fn beside(config: &Path) -> PathBuf {
    config.with_file_name(FILE_NAME)
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockEntry {
    pub name: String,
    /// A path in the folder of the lock begins with `./`; one that was named by a relative path, with `..`.
    pub reference: String,
    /// Signatures are over it: the manifest's in a registry, or else the component's.
    pub digest: Digest,
    /// Its bytes are in the store.
    pub component: Digest,
    /// In bytes.
    pub size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub ceiling: Digest,
    /// Covers everything that it declares: names, descriptions, schemas, profiles.
    pub declarations: Digest,
    /// Qualified names, which no other component can claim in a rule.
    #[serde(default)]
    pub tools: Vec<String>,
    #[serde(default)]
    pub tool_ids: Vec<String>,
    /// Names and ids that another installed tool had first, so that rules which use them do not mean this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken: Vec<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub declared: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub allow_unsigned: bool,
    /// In seconds since 1970, if known: it tells which of two versions without a number is the older one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signer: Option<Signer>,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl LockEntry {
    /// `folder` is the lock's. Fails on a reference that toolcell did not write.
    pub fn reference(&self, folder: &Path) -> Result<ComponentReference, Refusal> {
        ComponentReference::parse(&self.reference, folder)
    }

    pub fn claims(&self) -> impl Iterator<Item = &String> {
        self.tools
            .iter()
            .chain(&self.tool_ids)
            .filter(|name| !self.taken.contains(name))
    }
}

/// `is_relative`: a path beside the folder is written from there, because the lock is committed, and another checkout
/// is elsewhere.
pub fn written(reference: &ComponentReference, folder: &Path, is_relative: bool) -> String {
    match reference {
        ComponentReference::Path(path) => match path.strip_prefix(folder) {
            Ok(inner) => format!("./{}", inner.display()),
            Err(_) if is_relative => from(folder, path).display().to_string(),
            Err(_) => reference.to_string(),
        },
        _ => reference.to_string(),
    }
}

fn from(folder: &Path, path: &Path) -> PathBuf {
    let same = folder
        .components()
        .zip(path.components())
        .take_while(|(one, other)| one == other)
        .count();
    let up = folder.components().skip(same).map(|_| Component::ParentDir);
    up.chain(path.components().skip(same)).collect()
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolLock(pub BTreeMap<String, LockEntry>);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LockDocument {
    version: i64,
    #[serde(default, rename = "tool")]
    tools: Vec<LockEntry>,
}

impl ToolLock {
    /// Fails on a version of the format that this program does not know, an unknown field, a name that is there twice.
    pub fn parse(text: &str, place: &Path) -> Result<Self, Refusal> {
        let entries = entries(text, ENTRIES_MAX).map_err(|why| unreadable(place, &why))?;
        let mut lock = Self::default();
        for entry in entries {
            let name = entry.name.clone();
            if lock.0.insert(name.clone(), entry).is_some() {
                return Err(unreadable(place, &format!("`{name}` is there twice")));
            }
        }
        Ok(lock)
    }

    pub fn to_text(&self) -> Result<String, Refusal> {
        text_of(self.0.values().cloned().collect())
    }
}

/// Fails if `lock`, whose text is `text`, could not be read again.
pub(crate) fn fits(lock: &ToolLock, text: &str) -> Result<(), String> {
    if let Some(name) = lock.0.keys().find(|name| !is_name(name)) {
        return Err(not_a_name(name));
    }
    let is_large = lock.0.len() > ENTRIES_MAX || text.len() as u64 > BYTES_MAX;
    if is_large {
        Err(format!(
            "it would have more than {ENTRIES_MAX} tools or {BYTES_MAX} bytes; remove tools first"
        ))
    } else {
        Ok(())
    }
}

pub(crate) fn entries(text: &str, entries_max: usize) -> Result<Vec<LockEntry>, String> {
    let shortened = |error: toml::de::Error| {
        let line = error.span().map(|span| {
            text.get(..span.start)
                .unwrap_or_default()
                .matches('\n')
                .count()
                + 1
        });
        let why: String = error.message().chars().take(PROBLEM_CHARS_MAX).collect();
        let place = line
            .map(|line| format!("line {line}: "))
            .unwrap_or_default();
        format!("{place}{}", visible(&why, Whitespace::WrittenOut))
    };
    let table: toml::Table = toml::from_str(text).map_err(shortened)?;
    // Looked at first, because another version may have other fields.
    match table.get("version").and_then(toml::Value::as_integer) {
        Some(VERSION) => {}
        Some(other) => {
            return Err(format!(
                "its format has the version {other}, and this toolcell knows {VERSION}: update toolcell"
            ));
        }
        None => return Err("it has no `version`".to_owned()),
    }
    let written: LockDocument = toml::from_str(text).map_err(shortened)?;
    if written.tools.len() > entries_max {
        return Err(format!("it has more than {entries_max} tools"));
    }
    match written.tools.iter().find(|entry| !is_name(&entry.name)) {
        Some(entry) => Err(not_a_name(&entry.name)),
        None => Ok(written.tools),
    }
}

pub(crate) fn text_of(tools: Vec<LockEntry>) -> Result<String, Refusal> {
    let text = toml::to_string(&LockDocument {
        version: VERSION,
        tools,
    });
    text.map(|text| format!("{HEADER}{text}"))
        .map_err(|error| Refusal::host_fault(format!("cannot write a lock: {error}")))
}

pub(crate) fn unreadable(place: &Path, why: &str) -> Refusal {
    let message = format!(
        "{} cannot be read: {why}; restore it, or remove it and run `toolcell install`",
        place.display()
    );
    Refusal::new(ErrorCode::LockUnreadable, message)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn entry(name: &str) -> LockEntry {
        LockEntry {
            name: name.to_owned(),
            reference: format!("oci://ghcr.io/x/{name}:1"),
            digest: Digest::of(b"manifest"),
            component: Digest::of(name.as_bytes()),
            size: 7,
            version: Some("1.0.0".to_owned()),
            ceiling: Digest::of(b"ceiling"),
            declarations: Digest::of(b"declarations"),
            tools: vec![format!("{name}.{name}")],
            tool_ids: vec![format!("{name}.id")],
            taken: Vec::new(),
            declared: false,
            allow_unsigned: false,
            signed_at: Some(1_000_000_000),
            signer: Some(Signer::Identity {
                identity: "me@x".to_owned(),
                issuer: "https://issuer".to_owned(),
            }),
        }
    }

    #[test]
    fn a_lock_has_one_spelling() {
        let mut lock = ToolLock::default();
        for name in ["b", "a"] {
            lock.0.insert(name.to_owned(), entry(name));
        }
        let unsigned = LockEntry {
            signer: None,
            version: None,
            declared: true,
            allow_unsigned: true,
            ..entry("c")
        };
        lock.0.insert("c".to_owned(), unsigned);
        let text = lock.to_text().unwrap();
        let again = ToolLock::parse(&text, Path::new("l")).unwrap();
        assert_eq!((&again, again.to_text().unwrap()), (&lock, text.clone()));
        assert!(
            text.starts_with("# ") && text.find("name = \"a\"") < text.find("name = \"b\""),
            "{text}"
        );
    }

    #[test]
    fn what_this_program_does_not_know_is_refused() {
        let one = ToolLock([("a".to_owned(), entry("a"))].into())
            .to_text()
            .unwrap();
        for (text, why) in [
            (
                one.replace("version = 1\n", "version = 2\n"),
                "knows 1: update toolcell",
            ),
            (one.replace("version = 1\n", ""), "no `version`"),
            (
                one.replace("size = 7", "size = 7\nmore = 1"),
                "unknown field `more`",
            ),
            (
                format!(
                    "{one}\n{}",
                    one.split_once("[[tool]]")
                        .map(|(_, rest)| format!("[[tool]]{rest}"))
                        .unwrap()
                ),
                "twice",
            ),
            (
                one.replace("name = \"a\"", "name = \"../a\""),
                "cannot be the name of a tool",
            ),
            (one.replace("sha256:", "sha512:"), "not a digest"),
            ("version = ".to_owned(), "line 1"),
        ] {
            let refusal = ToolLock::parse(&text, Path::new("/p/toolcell.lock")).unwrap_err();
            assert_eq!(refusal.code, ErrorCode::LockUnreadable);
            assert!(
                refusal.message.contains(why) && refusal.message.contains("/p/toolcell.lock"),
                "{refusal}"
            );
        }
    }

    #[test]
    fn a_path_of_the_project_is_relative_to_the_lock() {
        let folder = Path::new("/p");
        for (path, text) in [
            ("/p/tools/a.wasm", "./tools/a.wasm"),
            ("/other/a.wasm", "/other/a.wasm"),
        ] {
            let reference = ComponentReference::Path(path.into());
            assert_eq!(written(&reference, folder, false), text);
            assert_eq!(ComponentReference::parse(text, folder).unwrap(), reference);
        }
        for (path, text) in [
            ("/p/a.wasm", "./a.wasm"),
            ("/q/a.wasm", "../../q/a.wasm"),
            ("/p/s/a", "../s/a"),
        ] {
            let folder = Path::new(if text == "./a.wasm" { "/p" } else { "/p/r" });
            assert_eq!(
                written(&ComponentReference::Path(path.into()), folder, true),
                text
            );
        }
        for (name, is) in [
            ("jq", true),
            ("a-b_2", true),
            ("", false),
            ("-a", false),
            ("a.b", false),
            ("a/b", false),
        ] {
            assert_eq!(is_name(name), is, "{name}");
        }
    }
}
