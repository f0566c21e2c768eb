use serde::{Deserialize, Serialize};

use super::Extra;

/// `tool_external_mapping` (AT-MAP-01..07): native ids of another protocol, identified by `source` and stored verbatim.
///
/// ```
/// use serde_json::json;
/// use toolcell_spec::{ExternalMapping, Extra};
///
/// let fields = Extra::from_iter([("request_id".to_owned(), json!(7))]);
/// let mapping = ExternalMapping { source: "mcp".to_owned(), fields };
/// assert_eq!(serde_json::to_value(mapping).unwrap(), json!({ "source": "mcp", "request_id": 7 }));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExternalMapping {
    /// The protocol, such as `mcp`.
    pub source: String,
    /// The protocol's own ids, verbatim.
    #[serde(flatten)]
    pub fields: Extra,
}

/// `source` of the mapping of a command-line program (AT-MAP-05).
pub const CLI: &str = "cli";

/// The fields of mappings that hold the id of one operation, or of a tool, in its own protocol.
const NATIVE_IDS: [&str; 6] = [
    "operation_id",
    "tool_name",
    "function_name",
    "agent_skill_id",
    "command_id",
    "action_id",
];

/// `source` of the mapping of an operation of OpenAPI (AT-MAP-02), and its field with the names of security schemes.
const OPENAPI: &str = "openapi";
const SECURITY_SCHEMES: &str = "security_scheme_refs";

/// Maximum number of protocols in a reference to a tool.
const NATIVE_REFS_MAX: usize = 8;

/// The ids that a tool has in other protocols, from the mappings of its records (AT-IF-01), each once.
///
/// ```
/// use serde_json::json;
/// use toolcell_spec::{ExternalMapping, native_ids};
///
/// let openapi: ExternalMapping = serde_json::from_value(json!({ "source": "openapi", "operation_id": "deleteRepo" }))?;
/// assert_eq!(native_ids([&openapi]), ["deleteRepo"]);
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn native_ids<'a>(mappings: impl IntoIterator<Item = &'a ExternalMapping>) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for mapping in mappings {
        for id in NATIVE_IDS
            .iter()
            .filter_map(|field| mapping.fields.get(*field)?.as_str())
        {
            if !ids.iter().any(|known| known == id) {
                ids.push(id.to_owned());
            }
        }
    }
    ids
}

impl ExternalMapping {
    /// The security schemes of an OpenAPI operation, each of which is a secret that its tool needs (AT-MAP-02).
    ///
    /// # Errors
    ///
    /// A value that is not a list of names.
    pub fn security_schemes(&self) -> Result<Vec<&str>, &'static str> {
        let Some(named) = self.fields.get(SECURITY_SCHEMES) else {
            return Ok(Vec::new());
        };
        if self.source != OPENAPI || named.is_null() {
            return Ok(Vec::new());
        }
        named
            .as_array()
            .and_then(|names| names.iter().map(|name| name.as_str()).collect())
            .ok_or("security_scheme_refs is not a list of names")
    }
}

/// The same ids by the protocol and the field, as a `native_ref` has them (AT-DEF-11): of at most eight protocols.
///
/// ```
/// use serde_json::json;
/// use toolcell_spec::{ExternalMapping, native_ref};
///
/// let mcp: ExternalMapping = serde_json::from_value(json!({ "source": "mcp", "tool_name": "read", "x": 1 }))?;
/// assert_eq!(serde_json::Value::Object(native_ref([&mcp])), json!({ "mcp": { "tool_name": "read" } }));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn native_ref<'a>(mappings: impl IntoIterator<Item = &'a ExternalMapping>) -> Extra {
    let mut refs = Extra::new();
    for mapping in mappings {
        let id = |field: &&str| {
            Some((
                (*field).to_owned(),
                mapping.fields.get(*field)?.as_str()?.into(),
            ))
        };
        let ids: Extra = NATIVE_IDS.iter().filter_map(id).collect();
        if !ids.is_empty() && refs.len() < NATIVE_REFS_MAX {
            refs.entry(mapping.source.clone())
                .or_insert_with(|| ids.into());
        }
    }
    refs
}

/// How often an output was mapped into a result: once for the tool's output, and once more for each hook that owns an
/// update of it (AT-PIPE-10).
///
/// ```
/// use toolcell_spec::ResultMappings;
///
/// fn was_replaced(mappings: &ResultMappings) -> bool {
///     !mappings.hooks.is_empty()
/// }
/// assert!(!was_replaced(&ResultMappings::default()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResultMappings {
    /// 1 if a tool's output was mapped, 0 if there was none.
    pub tool: u32,
    /// The hooks whose output was mapped, in order.
    pub hooks: Vec<String>,
}
