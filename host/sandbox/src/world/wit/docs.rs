//! The documentation of a WIT package, in the custom section `package-docs`: a version byte, then JSON.

use serde_json::Value;
use toolcell_spec::dialect::sections;
use toolcell_spec::dialect::wrapping::DOCS_SECTION;
use toolcell_spec::{JSON_VALUES_MAX, read_json};

const VERSIONS: [u8; 2] = [0, 1];

/// Empty if the component has none.
#[derive(Debug, Default)]
pub(super) struct ComponentDocs(Value);

impl ComponentDocs {
    /// A section of a later version counts as none.
    pub(super) fn read(component: &[u8]) -> Result<Self, String> {
        let Some((version, text)) =
            sections::custom(component, DOCS_SECTION)?.and_then(<[u8]>::split_first)
        else {
            return Ok(Self::default());
        };
        if !VERSIONS.contains(version) {
            return Ok(Self::default());
        }
        let text = std::str::from_utf8(text).map_err(|error| error.to_string());
        let docs = text
            .and_then(|text| read_json(text, JSON_VALUES_MAX))
            .map(Self);
        docs.map_err(|error| format!("cannot read its custom section `{DOCS_SECTION}`: {error}"))
    }

    pub(super) fn function(&self, interface: Option<&str>, name: &str) -> Option<&str> {
        let worlds = || {
            self.0
                .get("worlds")
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
                .map(|(_, world)| world)
        };
        // A world lists an export beside its imports if no import has the name of the export.
        let mut holders: Box<dyn Iterator<Item = &Value> + '_> = match interface {
            None => Box::new(
                worlds()
                    .flat_map(|world| [world.get("func_exports"), world.get("funcs")])
                    .flatten(),
            ),
            Some(interface) => {
                let of_worlds = worlds()
                    .flat_map(|world| [world.get("interface_exports"), world.get("interfaces")]);
                let all = std::iter::once(self.0.get("interfaces"))
                    .chain(of_worlds)
                    .flatten();
                Box::new(all.filter_map(move |interfaces| interfaces.get(interface)?.get("funcs")))
            }
        };
        holders.find_map(|functions| text(functions.get(name)?))
    }
}

/// Version 0 writes a function's documentation as a text.
fn text(docs: &Value) -> Option<&str> {
    docs.as_str()
        .or_else(|| docs.get("docs")?.as_str())
        .filter(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolcell_spec::dialect::sections::with_custom;

    use super::ComponentDocs;

    fn docs(version: u8, text: &str) -> Result<ComponentDocs, String> {
        let content = [&[version], text.as_bytes()].concat();
        ComponentDocs::read(&with_custom(b"\0asm\x0d\0\x01\0", "package-docs", &content).unwrap())
    }

    #[test]
    fn a_function_is_described_where_the_section_has_it() {
        let text: Value = json!({
            "docs": "all of it",
            "worlds": { "w": {
                "func_exports": { "root": { "docs": "at the root" } },
                "funcs": { "old": "in version 0", "root": "an import" },
                "interface_exports": { "inline": { "funcs": { "f": { "docs": "of a world" } } } },
            } },
            "interfaces": { "tools": { "docs": "d", "funcs": { "read": { "docs": "Reads." }, "empty": { "docs": " " } } } },
        });
        for version in [0, 1] {
            let docs = docs(version, &text.to_string()).unwrap();
            assert_eq!(docs.function(Some("tools"), "read"), Some("Reads."));
            assert_eq!(docs.function(None, "root"), Some("at the root"));
            assert_eq!(docs.function(None, "old"), Some("in version 0"));
            assert_eq!(docs.function(Some("inline"), "f"), Some("of a world"));
            for (interface, name) in [
                (None, "read"),
                (Some("tools"), "root"),
                (Some("tools"), "empty"),
            ] {
                assert_eq!(docs.function(interface, name), None);
            }
        }
    }

    #[test]
    fn an_unknown_version_says_nothing_and_a_damaged_section_is_refused() {
        assert_eq!(docs(2, "{").unwrap().function(None, "f"), None);
        assert!(
            ComponentDocs::read(b"\0asm\x0d\0\x01\0")
                .unwrap()
                .function(None, "f")
                .is_none()
        );
        for text in ["", "{", &"[".repeat(1_000)] {
            let refusal = docs(1, text).unwrap_err();
            assert!(
                refusal.starts_with("cannot read its custom section `package-docs`: "),
                "{refusal}"
            );
        }
        for other in ["[]", "{\"worlds\": 7, \"interfaces\": {\"tools\": []}}"] {
            assert_eq!(docs(1, other).unwrap().function(Some("tools"), "f"), None);
        }
    }
}
