//! Local references of a JSON Schema, and those that are written as if their branch were a document of its own.

use std::collections::HashMap;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use serde_json::Value;

use super::words::{PointerStep, pointer, subschemas};
use toolcell_spec::TypedFields;

pub(super) const REFERENCES: [&str; 2] = ["$ref", "$dynamicRef"];

pub(super) struct SubschemaTargets<'s> {
    root: &'s Value,
    id: &'s str,
    anchors: HashMap<&'s str, &'s Value>,
}

impl<'s> SubschemaTargets<'s> {
    pub(super) fn new(root: &'s Value) -> Self {
        let id = root.text("$id").unwrap_or_default();
        let mut anchors = HashMap::new();
        collect(root, &mut anchors);
        Self {
            root,
            id: id.split('#').next().unwrap_or_default(),
            anchors,
        }
    }

    /// `None` for a reference to nothing or to another document.
    pub(super) fn find(&self, reference: &str) -> Option<&'s Value> {
        let fragment = match reference.split_once('#') {
            Some((document, fragment)) if document.is_empty() || document == self.id => fragment,
            None if !self.id.is_empty() && reference == self.id => "",
            _ => return None,
        };
        let fragment = percent_decode_str(fragment).decode_utf8().ok()?;
        if fragment.is_empty() || fragment.starts_with('/') {
            return self.root.pointer(&fragment);
        }
        self.anchors.get(&*fragment).copied()
    }

    /// Follows at most eight references.
    pub(super) fn resolved(&self, schema: &'s Value) -> &'s Value {
        let mut at = schema;
        for _ in 0..8 {
            let reference = at.text("$ref");
            match reference.and_then(|reference| self.find(reference)) {
                Some(target) => at = target,
                None => break,
            }
        }
        at
    }
}

fn collect<'s>(schema: &'s Value, anchors: &mut HashMap<&'s str, &'s Value>) {
    let Value::Object(words) = schema else { return };
    for word in ["$anchor", "$dynamicAnchor"] {
        if let Some(name) = words.text(word) {
            anchors.insert(name, schema);
        }
    }
    subschemas(words).for_each(|(_, _, inner)| collect(inner, anchors));
}

/// Changed references per schema, and the bytes of the new ones: a name in them may take a megabyte.
const REPAIRED_MAX: usize = 2_000;
const REPAIRED_BYTES_MAX: usize = 1 << 20;

const FRAGMENT: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'`')
    .add(b'%')
    .add(b'{')
    .add(b'}')
    .add(b'^')
    .add(b'|')
    .add(b'\\');

/// Makes each `#/..` that leads nowhere relative to the nearest schema around it from which it leads somewhere:
/// generators write a union's branch as a document with its own `$defs`. Others stay.
pub(super) fn anchor(schema: &mut Value) {
    let mut strays = DeadReferences {
        root: schema,
        above: Vec::new(),
        steps: Vec::new(),
        found: Vec::new(),
        bytes: 0,
    };
    strays.look(schema);
    for (place, word, reference) in strays.found {
        if let Some(slot) = schema
            .pointer_mut(&place)
            .and_then(|holder| holder.get_mut(word))
        {
            *slot = Value::String(reference);
        }
    }
}

struct DeadReferences<'s> {
    root: &'s Value,
    above: Vec<(&'s Value, usize)>,
    steps: Vec<PointerStep<'s>>,
    found: Vec<(String, &'static str, String)>,
    bytes: usize,
}

impl<'s> DeadReferences<'s> {
    fn look(&mut self, schema: &'s Value) {
        let Value::Object(words) = schema else { return };
        self.above.push((schema, self.steps.len()));
        for word in REFERENCES {
            if let Some(reference) = words.text(word) {
                self.mend(word, reference);
            }
        }
        for (word, step, inner) in subschemas(words) {
            let length = self.steps.len();
            self.steps.push(PointerStep::Name(word));
            self.steps.extend(step);
            self.look(inner);
            self.steps.truncate(length);
        }
        self.above.pop();
    }

    fn mend(&mut self, word: &'static str, reference: &str) {
        let Some(target) = reference
            .strip_prefix('#')
            .filter(|target| target.starts_with('/'))
        else {
            return;
        };
        let Ok(decoded) = percent_decode_str(target).decode_utf8() else {
            return;
        };
        if self.root.pointer(&decoded).is_some() || self.found.len() >= REPAIRED_MAX {
            return;
        }
        let nearest = self
            .above
            .iter()
            .rev()
            .find(|(around, _)| around.pointer(&decoded).is_some());
        let Some(&(_, steps)) = nearest else { return };
        let reference = format!(
            "#{}{target}",
            utf8_percent_encode(
                &pointer(self.steps.get(..steps).unwrap_or_default()),
                FRAGMENT
            )
        );
        let place = pointer(&self.steps);
        self.bytes = self.bytes.saturating_add(place.len() + reference.len());
        if self.bytes <= REPAIRED_BYTES_MAX {
            self.found.push((place, word, reference));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{SubschemaTargets, anchor};

    #[test]
    fn a_reference_leads_to_the_nearest_definition_unless_the_document_has_it() {
        let branch = |kind: &str| json!({ "properties": { "a/b": { "$ref": "#/$defs/X" } }, "$defs": { "X": { "type": kind } } });
        let mut schema = json!({ "oneOf": [branch("string"), branch("number")] });
        anchor(&mut schema);
        assert_eq!(
            schema["oneOf"][0]["properties"]["a/b"],
            json!({ "$ref": "#/oneOf/0/$defs/X" })
        );
        assert_eq!(
            schema["oneOf"][1]["properties"]["a/b"],
            json!({ "$ref": "#/oneOf/1/$defs/X" })
        );
        let targets = SubschemaTargets::new(&schema);
        assert_eq!(
            targets.resolved(&schema["oneOf"][1]["properties"]["a/b"]),
            &json!({ "type": "number" })
        );

        let mut whole = json!({ "oneOf": [branch("string")], "$defs": { "X": {} } });
        let before = whole.clone();
        anchor(&mut whole);
        assert_eq!(whole, before);
        let mut nowhere = json!({ "properties": { "a": { "$ref": "#/$defs/Y" } } });
        let before = nowhere.clone();
        anchor(&mut nowhere);
        assert_eq!(nowhere, before);
    }

    #[test]
    fn a_name_that_looks_like_an_escape_is_found_again() {
        let mut schema = json!({ "properties": { "50% off": {
            "items": { "$ref": "#/definitions/X" }, "definitions": { "X": { "type": "null" } },
        } } });
        anchor(&mut schema);
        let targets = SubschemaTargets::new(&schema);
        assert_eq!(
            targets.resolved(&schema["properties"]["50% off"]["items"]),
            &json!({ "type": "null" })
        );
    }

    #[test]
    fn a_document_is_named_by_its_id_and_its_anchors() {
        let schema = json!({ "$id": "https://example.com/a", "$defs": { "X": { "$anchor": "x", "type": "null" } } });
        let targets = SubschemaTargets::new(&schema);
        for reference in [
            "#x",
            "#/$defs/X",
            "https://example.com/a#/%24defs/X",
            "https://example.com/a#x",
        ] {
            assert_eq!(
                targets.find(reference),
                Some(&schema["$defs"]["X"]),
                "{reference}"
            );
        }
        assert_eq!(targets.find("#"), Some(&schema));
        assert_eq!(targets.find("https://example.com/b#x"), None);
    }
}
