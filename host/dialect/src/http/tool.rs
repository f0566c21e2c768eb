use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::{ListedTool, visible};

/// A tool that the caller can use.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ToolDocument {
    /// The name to call it by.
    pub name: String,
    pub title: Option<String>,
    pub description: String,
    pub tool_id: String,
    pub namespace: String,
    pub aliases: Vec<String>,
    /// JSON Schema of the input.
    #[schema(value_type = Object)]
    pub input_schema: Value,
    /// JSON Schema of the structured output.
    #[schema(value_type = Object)]
    pub output_schema: Option<Value>,
    /// `true` if a call changes nothing.
    pub is_read_only: bool,
    /// `true` if a call can destroy or overwrite data.
    pub is_destructive: bool,
    /// `true` if a call can reach other machines.
    pub is_open_world: bool,
    /// `sha256:` and the digest of the component.
    pub component: String,
}

/// The tools that the caller can use.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ToolList {
    /// The surface of tools, which the records of calls name too.
    pub surface_id: String,
    pub tools: Vec<ToolDocument>,
}

/// Removes invisible characters from the author's texts.
pub fn tool(listed: &ListedTool<'_>) -> ToolDocument {
    let effects = listed.effects();
    ToolDocument {
        name: listed.name.to_owned(),
        title: listed.title.map(visible),
        description: listed.said(),
        tool_id: listed.declaration.tool_id.clone(),
        namespace: listed.declaration.namespace.clone(),
        aliases: listed.declaration.aliases.clone(),
        input_schema: Value::Object(listed.parameters()),
        output_schema: listed.output_schema.cloned(),
        is_read_only: effects.is_read_only,
        is_destructive: effects.is_destructive,
        is_open_world: effects.is_open_world,
        component: listed.component.to_owned(),
    }
}
