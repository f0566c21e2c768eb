use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What an argument names, so that a rule can speak of it and a sandbox can be narrowed to it. An extension of the
/// specification (AT-IF-07).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubjectKind {
    /// A path as the guest writes it: absolute, or from its working directory.
    Path,
    /// An absolute URL.
    Url,
    /// Anything else with a name: an issue, a mailbox, a table.
    Resource,
}

/// One argument that names something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectField {
    /// JSON Pointer (RFC 6901); `*` stands for every item of an array.
    pub pointer: String,
    pub kind: SubjectKind,
    /// What an absent argument means, if the schema says so.
    pub default: Option<String>,
}

impl SubjectField {
    /// The schema of the argument that `pointer` leads to in the schema of all arguments, or why there is none.
    pub fn argument<'a>(pointer: &str, schema: &'a Value) -> Result<&'a Value, String> {
        let mut steps = pointer.split('/');
        if steps.next() != Some("") {
            return Err(format!("permission_subjects: {pointer:?} is no JSON Pointer"));
        }
        let name = steps.next().unwrap_or_default().replace("~1", "/").replace("~0", "~");
        let argument = schema.get("properties").and_then(|properties| properties.get(&name));
        argument.ok_or_else(|| format!("permission_subjects: {pointer:?} leads to no argument"))
    }
}

/// The safety facts of a tool, or of one input (AT-IF-06). `None` is unstated, and is not the same as no.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SafetyFacts {
    pub is_read_only: Option<bool>,
    pub is_concurrency_safe: Option<bool>,
    pub is_destructive: Option<bool>,
    pub is_open_world: Option<bool>,
}
