use serde_json::{Map, Value};
use toolcell_spec::{Effects, PermissionProfile, ToolDeclaration, ToolInterface};

use crate::visible;

/// In characters: a note leaves a description this room.
const DESCRIPTION_CHARS_MIN: usize = 200;

/// Description parts of a tool, with the schemas for a model.
#[derive(Clone, Copy, Debug)]
pub struct ListedTool<'a> {
    /// The name in this server.
    pub name: &'a str,
    /// As a model may see it.
    pub title: Option<&'a str>,
    pub description: &'a str,
    pub declaration: &'a ToolDeclaration,
    pub interface: Option<&'a ToolInterface>,
    pub permission: &'a PermissionProfile,
    /// Facts for a model beyond the schema; may be empty.
    pub note: &'a str,
    /// One object without references, whatever the real schema is.
    pub input_schema: &'a Value,
    pub output_schema: Option<&'a Value>,
    /// `sha256:<hex>` of the component.
    pub component: &'a str,
    /// `true` if the API may enforce the schema.
    pub strict_schemas: bool,
}

impl ListedTool<'_> {
    /// Includes `type: object`, which every API demands.
    pub fn parameters(&self) -> Map<String, Value> {
        let mut schema = self.input_schema.as_object().cloned().unwrap_or_default();
        if schema.get("type").is_none_or(|kind| kind != "object") {
            schema.insert("type".to_owned(), "object".into());
        }
        schema
    }

    pub fn said(&self) -> String {
        self.said_within(usize::MAX)
    }

    pub fn said_within(&self, chars_max: usize) -> String {
        let description = visible(self.description);
        let note = visible(self.note);
        if note.is_empty() {
            return cut(description, chars_max);
        }
        let left = chars_max.saturating_sub(note.chars().count() + 2);
        let description = if left >= DESCRIPTION_CHARS_MIN {
            cut(description, left)
        } else {
            cut(description, DESCRIPTION_CHARS_MIN)
        };
        cut(
            format!("{description}\n\n{note}").trim_start().to_owned(),
            chars_max,
        )
    }

    /// Assumed effects: the sandbox's limits are certain; what the tool leaves open counts against it.
    pub fn effects(&self) -> Effects {
        Effects::from_records(&self.declaration.tool_kind, self.interface, self.permission)
    }
}

pub(crate) fn cut(text: String, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text,
        Some(_) => text
            .chars()
            .take(chars_max.saturating_sub(1))
            .chain(['…'])
            .collect(),
    }
}
