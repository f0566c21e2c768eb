//! Toolkits of guests, and their contracts: parsing a toolkit, compiling its schemas, and evaluating them on a model's
//! arguments.

use std::time::Duration;

use crate::shared::halves;
use serde_json::{Value, json};
use toolcell_engine::catalog::{ComponentFacts, Tool};
use toolcell_policy::secret::{RedactionTerms, Redactor};
use toolcell_spec::dialect::agent_tool;

pub(crate) fn run(data: &[u8]) {
    let Some((first, second)) = halves(data) else {
        return;
    };
    let text = match serde_json::from_str::<Value>(first) {
        // A schema alone is wrapped in a valid toolkit, so that the code behind the parser is reached more often.
        Ok(schema)
            if ["declarations", "tools"]
                .iter()
                .all(|form| schema.get(form).is_none()) =>
        {
            around(schema).to_string()
        }
        _ => first.to_owned(),
    };
    let Ok(described) = agent_tool::toolkit(&text) else {
        return;
    };
    let facts = ComponentFacts {
        component: "sha256:0".into(),
        ..ComponentFacts::default()
    };
    let wall = Duration::from_secs(60);
    let Ok(tools) = Tool::from_toolkit(described.toolkit, &described.notes, &facts, wall) else {
        return;
    };
    let Ok(value) = serde_json::from_str::<Value>(second) else {
        return;
    };
    for tool in tools {
        let contract = tool.contract();
        let _ = contract.check_model_input(&value);
        let _ = contract.check_output(&value);
        if let Some(whole) = contract.with_defaults(&value) {
            let _ = contract.check_call_input(&whole);
        }
        Redactor::new(
            &RedactionTerms::default(),
            contract.redacted_patterns(),
            false,
        )
        .redact(&mut value.clone());
        let mut seen = 0_usize;
        contract.each_sensitive(&mut value.clone(), &mut |_, _| seen += 1);
        contract.each_redacted(&mut value.clone(), &mut |_, _, _| seen += 1);
    }
}

fn around(schema: Value) -> Value {
    json!({
        "declarations": [{
            "schema_version": "0.2.0", "tool_id": "fuzz.t", "namespace": "fuzz", "name": "t", "description": "a tool",
            "lifecycle": "available", "tool_kind": "function",
            "input_contract": { "model_input_schema": schema, "strict": false },
            "output_contract": { "structured_schema": schema },
            "interface_ref": "i", "execution_profile_ref": "e", "permission_profile_ref": "p",
        }],
        "interfaces": [{
            "schema_version": "0.2.0", "interface_id": "i", "tool_id": "fuzz.t", "is_read_only": true,
            "is_concurrency_safe": true, "is_destructive": false, "is_open_world": false,
        }],
        "execution_profiles": [{
            "schema_version": "0.2.0", "execution_profile_id": "e", "execution_kind": "embedded_runtime",
            "supports_cancel": true, "sandboxed": true,
        }],
        "permission_profiles": [{
            "schema_version": "0.2.0", "permission_profile_id": "p", "risk_level": "low", "access_kinds": [],
            "write_effects": ["none"], "network_scope": "none",
        }],
    })
}
