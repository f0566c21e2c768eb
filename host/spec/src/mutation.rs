use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Extra, Input, InvocationId, MutationId, SchemaVersion, Timestamp};

/// `source_type` (AT-MUT-04).
///
/// ```
/// use toolcell_spec::{InputMutation, MutationSource};
///
/// fn an_approver_edited(mutations: &[InputMutation]) -> bool {
///     mutations.iter().any(|mutation| mutation.source_type == MutationSource::PermissionPrompt)
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MutationSource {
    Hook,
    PermissionPrompt,
    /// Drops meaningless nulls in a call of another protocol.
    Adapter,
    /// Never used by this host.
    Migration,
    Runtime,
}

/// One change; the chain has no gap (AT-MUT-01..10).
///
/// ```
/// use toolcell_spec::InputMutation;
///
/// fn line(mutation: &InputMutation) -> String {
///     format!("{} changed {}", mutation.source_ref, mutation.changed_fields.join(", "))
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputMutation {
    pub schema_version: SchemaVersion,
    pub mutation_id: MutationId,
    pub invocation_id: InvocationId,
    pub source_type: MutationSource,
    /// The hook, the approver, or the part of the host.
    pub source_ref: String,
    pub from_input_ref: String,
    pub to_input_ref: String,
    /// JSON Pointers.
    pub changed_fields: Vec<String>,
    pub reason: String,
    pub created_at: Timestamp,
    #[serde(flatten)]
    pub extra: Extra,
}

impl InputMutation {
    pub fn new(
        invocation_id: InvocationId,
        source_type: MutationSource,
        source_ref: &str,
        from: &Input,
        to: &Input,
        reason: &str,
    ) -> Self {
        Self {
            schema_version: SchemaVersion::default(),
            mutation_id: MutationId::new(),
            invocation_id,
            source_type,
            source_ref: source_ref.to_owned(),
            from_input_ref: from.reference().to_owned(),
            to_input_ref: to.reference().to_owned(),
            changed_fields: changed_fields(&from.to_value(), &to.to_value()),
            reason: reason.to_owned(),
            created_at: Timestamp::now(),
            extra: Extra::new(),
        }
    }
}

/// JSON Pointers to differing values: the deepest ones that objects lead to.
pub fn changed_fields(from: &Value, to: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", from, to, &mut found);
    found
}

fn compare(pointer: &str, from: &Value, to: &Value, found: &mut Vec<String>) {
    match (from, to) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let inner = format!("{pointer}/{}", crate::escaped_step(key));
                match (a.get(key), b.get(key)) {
                    (Some(x), Some(y)) => compare(&inner, x, y, found),
                    _ => found.push(inner),
                }
            }
        }
        _ if from != to => found.push(pointer.to_owned()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::changed_fields;
    use serde_json::json;

    #[test]
    fn changed_fields_are_pointers_to_what_differs() {
        let from = json!({"a": 1, "b": {"c/d": 1, "same": true}, "gone": 0});
        let to = json!({"a": 2, "b": {"c/d": 2, "same": true}, "new": 0});
        assert_eq!(
            changed_fields(&from, &to),
            ["/a", "/b/c~1d", "/gone", "/new"]
        );
        assert!(changed_fields(&from, &from).is_empty());
    }
}
