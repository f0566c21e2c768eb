use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Extra;

/// Native ids of another protocol, verbatim (AT-MAP-01..07).
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
    pub source: String,
    /// The protocol's own ids, verbatim.
    #[serde(flatten)]
    pub fields: Extra,
}

/// `source` of a command-line program (AT-MAP-05).
pub const CLI: &str = "cli";

/// The field of a command's own mapping, and its value for one that reads JSON in place of arguments.
pub const COMMAND_PROTOCOL: (&str, &str) = ("protocol", "json");

/// The field of a caller's mapping for what it posted beside the call's id, name and arguments; redacted as these.
pub const POSTED_CALL: &str = "tool_call";

/// Ids of the tool itself in another protocol, for rules.
const OPERATION_IDS: [&str; 6] = [
    "operation_id",
    "tool_name",
    "function_name",
    "agent_skill_id",
    "command_id",
    "action_id",
];

/// `source` for OpenAPI operations, and the field of their security schemes (AT-MAP-02).
const OPENAPI: &str = "openapi";
const SECURITY_SCHEMES: &str = "security_scheme_refs";

const NATIVE_REFS_MAX: usize = 8;

/// All ids of a tool in other protocols, each once, as they are written (AT-IF-01).
///
/// ```
/// use serde_json::json;
/// use toolcell_spec::{ExternalMapping, native_ids};
///
/// let mcp: ExternalMapping = serde_json::from_value(json!({ "source": "mcp", "server_id": "s", "jsonrpc_request_id": 7 }))?;
/// assert_eq!(native_ids([&mcp]), [json!("s"), json!(7)]);
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn native_ids<'a>(mappings: impl IntoIterator<Item = &'a ExternalMapping>) -> Vec<Value> {
    // A set, because the tool says how many there are.
    let mut known = HashSet::new();
    let fields = mappings.into_iter().flat_map(|mapping| &mapping.fields);
    fields
        .filter(|(name, id)| is_id(name) && (id.is_string() || id.is_number()))
        .filter(|(_, id)| known.insert(*id))
        .map(|(_, id)| id.clone())
        .collect()
}

fn is_id(name: &str) -> bool {
    let is_other = name == "id" || name == "agent_card_url" || name.ends_with("_id");
    is_other || OPERATION_IDS.contains(&name)
}

/// The ids with which rules are compared (AT-IF-07), each once.
///
/// ```
/// use serde_json::json;
/// use toolcell_spec::{ExternalMapping, operation_ids};
///
/// let openapi: ExternalMapping = serde_json::from_value(json!({ "source": "openapi", "operation_id": "deleteRepo" }))?;
/// assert_eq!(operation_ids([&openapi]), ["deleteRepo"]);
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn operation_ids<'a>(mappings: impl IntoIterator<Item = &'a ExternalMapping>) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for mapping in mappings {
        for id in OPERATION_IDS
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
    /// Each scheme is a secret that the tool needs (AT-MAP-02). Fails on a value that is not a list of names.
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

/// The ids by protocol and field, as in a `native_ref` (AT-DEF-11): of at most eight protocols.
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
        let ids: Extra = OPERATION_IDS.iter().filter_map(id).collect();
        if !ids.is_empty() && refs.len() < NATIVE_REFS_MAX {
            refs.entry(mapping.source.clone())
                .or_insert_with(|| ids.into());
        }
    }
    refs
}

/// One for the tool's output, and one for each hook that owns an update of it (AT-PIPE-10).
///
/// ```
/// use toolcell_spec::ResultMappings;
///
/// fn was_replaced(mappings: &ResultMappings) -> bool {
///     !mappings.hooks.is_empty()
/// }
/// assert!(!was_replaced(&ResultMappings::default()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultMappings {
    /// 1 for a tool's output, or 0.
    pub tool: u32,
    pub hooks: Vec<String>,
}
