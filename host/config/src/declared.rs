//! `[tools]`: the tools that `toolcell install` installs for a project.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use toolcell_install::lock::{is_name, not_a_name};

/// A value of `[tools]`: a reference, such as `"ghcr.io/example/jq:1"`, or a table with `reference`. `Deserialize` reads both; the
/// function that `remote` derives reads a table.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct DeclaredTool {
    /// Where it comes from. A relative path begins in the folder of the file.
    pub reference: String,
    /// If `true`, this reference may be unsigned.
    #[serde(default)]
    pub allow_unsigned: bool,
}

/// Reads `[tools]`. A name that a lock cannot have is refused, because the lock could not be read any more.
pub(super) fn by_name<'de, D>(deserializer: D) -> Result<BTreeMap<String, DeclaredTool>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    let declared = BTreeMap::<String, DeclaredTool>::deserialize(deserializer)?;
    match declared.keys().find(|name| !is_name(name)) {
        Some(name) => Err(D::Error::custom(not_a_name(name))),
        None => Ok(declared),
    }
}

impl<'de> Deserialize<'de> for DeclaredTool {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ReferenceVisitor)
    }
}

struct ReferenceVisitor;

impl<'de> Visitor<'de> for ReferenceVisitor {
    type Value = DeclaredTool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a reference, or a table with `reference`")
    }

    fn visit_str<E: Error>(self, reference: &str) -> Result<DeclaredTool, E> {
        Ok(DeclaredTool {
            reference: reference.to_owned(),
            allow_unsigned: false,
        })
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<DeclaredTool, M::Error> {
        // Derived readers take a table.
        DeclaredTool::deserialize(MapAccessDeserializer::new(map))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::ConfigFile;
    use super::DeclaredTool;

    #[test]
    fn a_tool_is_declared_in_a_word_or_in_a_table() {
        let text = "[tools]\njq = \"ghcr.io/x/jq:1\"\nmine = { reference = \"./a.wasm\", allow_unsigned = true }\n";
        let file = ConfigFile::parse(text, Path::new("/")).unwrap();
        let of = |reference: &str, allow_unsigned| DeclaredTool {
            reference: reference.to_owned(),
            allow_unsigned,
        };
        assert_eq!(file.declared.get("jq"), Some(&of("ghcr.io/x/jq:1", false)));
        assert_eq!(file.declared.get("mine"), Some(&of("./a.wasm", true)));
        for wrong in [
            "jq = 1",
            "jq = { ref = \"x\" }",
            "jq = { reference = \"x\", more = 1 }",
            "\"a/b\" = \"x\"",
        ] {
            assert!(
                ConfigFile::parse(&format!("[tools]\n{wrong}\n"), Path::new("/")).is_err(),
                "{wrong}"
            );
        }
    }
}
