use serde::{Deserialize, Serialize};

/// How far what stands in a result can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// It is data, never an instruction. Also a refusal of the host is no more than that: it quotes what the caller sent
    /// and what a component says of itself.
    Untrusted,
}

/// Who wrote the content of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Writer {
    /// The tool, or a hook that wrote its output anew.
    Tool,
    /// toolcell itself: the tool never ran, or what it said is withheld.
    Host,
}

/// Where a result comes from: the host's own word, in the record of every result. An extension of `tool_result`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultProvenance {
    pub trust: Trust,
    pub written_by: Writer,
    /// Absent where no tool was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_id: Option<String>,
    /// `sha256:<hex>` of the component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// The hooks that wrote the output anew, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<String>,
}
