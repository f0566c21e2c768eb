use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::IntoStaticStr;
use toolcell_spec::{Extra, ToolKind, TypedFields};

use super::to_value;
use crate::{ListedTool, visible};

/// With tool id and component digest, a host imports what it exported.
pub(super) const TOOL_ID: &str = "tool_id";
const COMPONENT: &str = "component";
const METADATA: [&str; 3] = ["category", "cost_tier", "side_effects"];

/// `ToolSpec` (AO-TS-01..07).
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Unique, in snake_case.
    pub name: String,
    pub description: String,
    /// JSON Schema of type `object`.
    pub parameters: Value,
    /// JSON Schema of the output.
    pub returns: Option<Value>,
    /// Others' metadata is in `extra`, because it has no effect.
    #[serde(skip_deserializing)]
    pub metadata: Option<SpecMetadata>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// `metadata` of a [`ToolSpec`].
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SpecMetadata {
    pub category: Option<Category>,
    pub cost_tier: Option<CostTier>,
    /// `true` if calls change external state.
    pub side_effects: Option<bool>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// `metadata.category` (AO-TS-05).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Category {
    Retrieval,
    Compute,
    Io,
    SideEffect,
    Coordination,
}

/// `metadata.cost_tier` (AO-TS-06).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostTier {
    Free,
    Cheap,
    Medium,
    Expensive,
}

impl ToolSpec {
    pub fn from_listed(listed: &ListedTool<'_>) -> Self {
        let name = snake_case(listed.name);
        let description = listed.said();
        let description = match description.trim() {
            "" => listed.title.map_or_else(|| name.clone(), visible),
            _ => description,
        };
        let metadata = SpecMetadata {
            category: category(&listed.declaration.tool_kind),
            cost_tier: cost_tier(listed),
            side_effects: Some(!listed.effects().is_read_only),
            extra: Extra::new(),
        };
        Self {
            name,
            description,
            parameters: Value::Object(listed.parameters()),
            returns: listed.output_schema.cloned(),
            metadata: Some(metadata),
            extra: Extra::from_iter([
                (
                    TOOL_ID.to_owned(),
                    listed.declaration.tool_id.as_str().into(),
                ),
                (COMPONENT.to_owned(), listed.component.into()),
            ]),
        }
    }

    /// Adds the fields of `imported` that toolcell does not know (AO-P-03).
    pub fn keep_unknown(&mut self, imported: Self) {
        let mut unknown = imported.extra;
        if let (Some(Value::Object(fields)), Some(metadata)) =
            (unknown.remove("metadata"), &mut self.metadata)
        {
            let fields = fields.into_iter();
            metadata
                .extra
                .extend(fields.filter(|(name, _)| !METADATA.contains(&name.as_str())));
        }
        unknown.append(&mut self.extra);
        self.extra = unknown;
    }

    /// The exported tool's id and component digest (AO-P-01); `None` for another program's specification.
    pub fn origin(&self) -> Option<(&str, &str)> {
        let text = |name: &str| self.extra.text(name);
        text(TOOL_ID).zip(text(COMPONENT))
    }
}

pub fn spec(listed: &ListedTool<'_>) -> Value {
    to_value(&ToolSpec::from_listed(listed))
}

/// `None` for kinds that only say how a tool is connected.
pub fn category(kind: &ToolKind) -> Option<Category> {
    match kind.0.as_str() {
        "retrieval" | "web_search" => Some(Category::Retrieval),
        "function" | "code_execution" | "policy_check" => Some(Category::Compute),
        "file_operation" | "artifact_operation" => Some(Category::Io),
        "shell_command" | "browser_action" | "evidence_export" => Some(Category::SideEffect),
        "peer_agent_tool" | "skill_tool" | "model_task" => Some(Category::Coordination),
        _ => None,
    }
}

/// The claimed tier, if known.
fn cost_tier(listed: &ListedTool<'_>) -> Option<CostTier> {
    let claimed = listed.declaration.annotations.as_ref()?.get("cost_tier")?;
    CostTier::deserialize(claimed).ok()
}

/// `^[a-z][a-z0-9_]*$`. [`super::registry`] separates names that become equal.
pub fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len());
    for c in name.chars() {
        let begins_word =
            c.is_ascii_uppercase() && snake.ends_with(|c: char| c.is_ascii_lowercase());
        if begins_word {
            snake.push('_');
        }
        snake.push(if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '_'
        });
    }
    if !snake.starts_with(|c: char| c.is_ascii_lowercase()) {
        snake.insert_str(0, "tool_");
    }
    snake
}
