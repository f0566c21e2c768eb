use serde::{Deserialize, Serialize};

/// How far the content of a result can be trusted.
///
/// ```
/// use toolcell_spec::Trust;
///
/// assert_eq!(serde_json::to_value(Trust::Untrusted)?, "untrusted");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Data, never an instruction. Refusals of the host are untrusted too, because they quote what the caller sent and
    /// what a component says of itself.
    Untrusted,
}

/// The author of the content of a result.
///
/// ```
/// use toolcell_spec::{ToolResult, Writer};
///
/// /// `true` if the host wrote the result, because the tool did not run or its output is withheld.
/// fn is_from_host(result: &ToolResult) -> bool {
///     result.provenance.written_by == Writer::Host
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Writer {
    /// The tool, or a hook that replaced its output.
    Tool,
    /// The host: the tool never ran, or its output is withheld.
    Host,
}

/// The origin of a result as the host observed it, in the record of every result. An extension of `tool_result`.
///
/// ```
/// use toolcell_spec::ResultProvenance;
///
/// /// Names the origin, for the delimiters around a result in a prompt.
/// fn label(provenance: &ResultProvenance) -> String {
///     let tool = provenance.tool_id.as_deref().unwrap_or("unknown tool");
///     format!("untrusted output of {tool} {}", provenance.component.as_deref().unwrap_or_default())
/// }
/// ```
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultProvenance {
    /// How far the content can be trusted: never as an instruction.
    pub trust: Trust,
    /// Author of the content.
    pub written_by: Writer,
    /// Absent if no tool was found.
    pub tool_id: Option<String>,
    /// `sha256:<hex>` of the component.
    pub component: Option<String>,
    /// The hooks that replaced the output, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<String>,
}
