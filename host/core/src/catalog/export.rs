//! The records of a tool as they leave the host: without internal-only fields in what a model may see (AT-N-10), and with
//! what the host knows beside what the tool wrote.

use serde_json::{Map, Value, json};

use crate::record::{AccessKind, Extra, Lifecycle, ToolDeclaration, ToolInterface};

use super::{Contract, Tool};

/// Returns `declaration` with the schemas of `contract` in place of its own.
pub(super) fn declaration(declaration: &ToolDeclaration, contract: &Contract) -> ToolDeclaration {
    let mut shown = declaration.clone();
    if !contract.has_internal_fields() {
        return shown;
    }
    shown.description = contract.shown(&declaration.description).into_owned();
    shown.title = declaration.title.as_deref().map(|title| contract.shown(title).into_owned());
    shown.search_hint = declaration.search_hint.as_deref().map(|hint| contract.shown(hint).into_owned());
    if let Some(input) = &mut shown.input_contract {
        if input.model_input_schema.is_some() {
            input.model_input_schema = Some(contract.model_schema().clone());
        }
        input.runtime_input_schema = contract.runtime_schema().cloned();
        let mut defaults = Value::Object(std::mem::take(&mut input.defaults));
        contract.without_internal(&mut defaults);
        input.defaults = match defaults {
            Value::Object(defaults) => defaults,
            _ => Extra::new(),
        };
    }
    if let Some(output) = shown.output_contract.as_mut().filter(|output| output.structured_schema.is_some()) {
        output.structured_schema = contract.output_schema().cloned();
    }
    shown
}

/// Returns `interface` with the schemas of `contract` in place of its own.
pub(super) fn interface(interface: &ToolInterface, contract: &Contract) -> ToolInterface {
    let mut shown = interface.clone();
    if !contract.has_internal_fields() {
        return shown;
    }
    if shown.model_input_schema.is_some() {
        shown.model_input_schema = Some(contract.model_schema().clone());
    }
    if shown.runtime_input_schema.is_some() {
        shown.runtime_input_schema = contract.runtime_schema().cloned();
    }
    if shown.output_schema.is_some() {
        shown.output_schema = contract.output_schema().cloned();
    }
    shown
}

impl Tool {
    /// The interface of the tool with all nine concerns of the specification (AT-N-02), also if the tool declares none: what
    /// the tool wrote, and what the host knows.
    pub fn whole_interface(&self) -> Value {
        let interface = self.interface().cloned().unwrap_or_else(|| ToolInterface {
            interface_id: format!("{}.interface", self.declaration().tool_id),
            tool_id: self.declaration().tool_id.clone(),
            ..ToolInterface::default()
        });
        let Ok(Value::Object(mut fields)) = serde_json::to_value(interface) else { return Value::Null };
        for (name, value) in self.known() {
            if !value.is_null() {
                fields.entry(name).or_insert(value);
            }
        }
        Value::Object(fields)
    }

    /// What the host adds to an interface that lacks it.
    fn known(&self) -> Map<String, Value> {
        let (declaration, contract) = (self.declaration(), self.contract());
        let strict = declaration.input_contract.as_ref().is_some_and(|input| input.strict);
        let visibility = if declaration.lifecycle == Lifecycle::Deferred { "deferred" } else { "loaded" };
        let setup = if declaration.lifecycle == Lifecycle::RequiresSetup { "requires_setup" } else { "ready" };
        let profile = self.permission_profile();
        let returned = declaration.output_contract.as_ref().map_or(&[][..], |output| &output.content_types);
        let known = json!({
            "name": declaration.name,
            "aliases": declaration.aliases,
            "namespace": declaration.namespace,
            "native_ids": self.native_ids(),
            "user_facing_name": declaration.title.as_ref().unwrap_or(&declaration.name),
            "search_hint": declaration.search_hint,
            "model_input_schema": contract.model_schema(),
            "runtime_input_schema": contract.runtime_schema().unwrap_or(contract.model_schema()),
            "output_schema": contract.output_schema(),
            "strict": strict,
            "schema_visibility": visibility,
            "is_enabled": self.is_enabled(),
            "availability": {
                "setup_state": setup,
                "feature_gates": self.feature().into_iter().collect::<Vec<_>>(),
                "required_credentials": profile.credential_refs,
                "model_support": returned,
                "is_deferred": declaration.lifecycle == Lifecycle::Deferred,
            },
            "validation": {
                "schema_validation": true,
                "value_validation": self.validates(),
                "io_preflight_validation":
                    self.validates() && (profile.wants(&AccessKind::FileRead) || profile.wants_file_write()),
                "deny_before_io": true,
            },
            "sandbox_profile": profile.sandbox_profile,
            "timeout_ms": self.timeout_ms(),
            "execution_profile_ref": self.execution_profile().execution_profile_id,
            "permission_profile_ref": profile.permission_profile_id,
            "max_inline_chars": self.max_inline_chars(),
            "persistence_policy_ref": self.persistence_policy(),
            "rendering": {
                "model_facing": "result.model_facing_content",
                "ui_facing": "result.ui_facing_summary",
                "progress": "progress.message",
                "rejection": "result.error.message",
                "grouped": "call_record.representations",
                "transcript_search": "call_record.representations.transcript_search_text",
            },
        });
        match known {
            Value::Object(known) => known,
            _ => Map::new(),
        }
    }
}
