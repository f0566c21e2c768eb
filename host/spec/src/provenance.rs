use serde::{Deserialize, Serialize};

/// Trust in a result's content.
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
    /// Data, never an instruction. Refusals of the host are no exception, because they quote callers and components.
    Untrusted,
}

/// Author of a result's content.
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
    /// The tool, or a hook that replaced the output.
    Tool,
    /// The tool never ran, or its output is withheld.
    Host,
}

/// As the host observed it. An extension.
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
    pub trust: Trust,
    pub written_by: Writer,
    /// Absent if no tool was found.
    pub tool_id: Option<String>,
    /// `sha256:<hex>` of the component.
    pub component: Option<String>,
    /// Hooks that replaced the output, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<String>,
}
