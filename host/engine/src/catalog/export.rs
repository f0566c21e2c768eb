//! A tool's records as they leave the host: without internal-only fields for a model (AT-N-10), with the host's own
//! facts.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use toolcell_spec::{
    AccessKind, ContextModifierPolicy, Extra, Lifecycle, PERMISSION_INPUT, SchemaVisibility,
    ToolDeclaration, ToolInterface, TypedFields, native_ids,
};

use super::{Tool, ToolAvailability, ToolContract};

/// Of the records in which progress is reported.
const PROGRESS_SCHEMA: &str = "https://github.com/toolcell/toolcell/schemas/progress.schema.json";

pub(super) fn declaration(
    declaration: &ToolDeclaration,
    contract: &ToolContract,
) -> ToolDeclaration {
    let mut shown = declaration.clone();
    if !contract.has_internal_fields() {
        return shown;
    }
    shown.description = contract.shown(&declaration.description).into_owned();
    shown.title = declaration
        .title
        .as_deref()
        .map(|title| contract.shown(title).into_owned());
    shown.search_hint = declaration
        .search_hint
        .as_deref()
        .map(|hint| contract.shown(hint).into_owned());
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
    if let Some(output) = shown
        .output_contract
        .as_mut()
        .filter(|output| output.structured_schema.is_some())
    {
        output.structured_schema = contract.output_schema().cloned();
    }
    shown
}

pub(super) fn interface(interface: &ToolInterface, contract: &ToolContract) -> ToolInterface {
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
    if let Some(Value::String(hint)) = shown.extra.get_mut("search_hint") {
        *hint = contract.shown(hint).into_owned();
    }
    shown
}

impl Tool {
    /// The interface with all nine concerns of the specification (AT-N-02), also if undeclared, with the host's facts.
    /// `unset_secrets`: of those that tools need (AT-LIFE-04); `features`: the open feature gates (AT-IF-04).
    pub fn whole_interface(
        &self,
        unset_secrets: &BTreeSet<String>,
        features: &BTreeSet<String>,
    ) -> Value {
        let interface = self.interface().cloned().unwrap_or_else(|| ToolInterface {
            interface_id: format!("{}.interface", self.declaration().tool_id),
            tool_id: self.declaration().tool_id.clone(),
            ..ToolInterface::default()
        });
        let Ok(Value::Object(mut fields)) = serde_json::to_value(interface) else {
            return Value::Null;
        };
        let is_enabled = self.is_enabled_with(features);
        fields.extend(self.decided(unset_secrets, is_enabled));
        if self.execution_profile().sandbox_profile.is_none() {
            fields.remove("sandbox_profile");
        }
        tell_rendering(&mut fields);
        for (name, value) in self.known() {
            if !value.is_null() {
                fields.entry(name).or_insert(value);
            }
        }
        Value::Object(fields)
    }

    /// Fields that the host overrides: identity and current settings.
    fn decided(&self, unset_secrets: &BTreeSet<String>, is_enabled: bool) -> Map<String, Value> {
        let declaration = self.declaration();
        let contract = self.contract();
        let own = self
            .interface()
            .and_then(|interface| interface.extra.get("user_facing_name")?.as_str());
        let own = own.map(|name| contract.shown(name).into_owned());
        let user_facing = declaration
            .title
            .clone()
            .or(own)
            .unwrap_or_else(|| declaration.name.clone());
        let is_deferred = ToolAvailability::declared(self) == Some(ToolAvailability::DEFERRED);
        let said = self
            .interface()
            .and_then(|interface| interface.schema_visibility);
        let visibility = match said {
            Some(said @ (SchemaVisibility::Internal | SchemaVisibility::NativeRef)) => said,
            _ if is_deferred => SchemaVisibility::Deferred,
            _ => SchemaVisibility::Loaded,
        };
        let profile = self.permission_profile();
        let lacks_secret = profile
            .credential_refs
            .iter()
            .any(|name| unset_secrets.contains(name));
        let setup = match declaration.lifecycle {
            Lifecycle::RequiresSetup => "requires_setup",
            Lifecycle::Disabled => "disabled",
            _ if !is_enabled => "disabled",
            _ if lacks_secret => "requires_setup",
            _ => "ready",
        };
        let keeping = self.keeping();
        let returned = declaration
            .output_contract
            .as_ref()
            .map_or(&[][..], |output| &output.content_types);
        let of_interface = self
            .interface()
            .and_then(|own| own.external_mappings.as_ref());
        let mappings = [declaration.external_mappings.as_ref(), of_interface];
        let reads_files = profile.wants(&AccessKind::FileRead) || profile.wants_file_write();
        object(json!({
            "name": declaration.name,
            "aliases": declaration.aliases,
            "namespace": declaration.namespace,
            "native_ids": native_ids(mappings.into_iter().flatten().flatten()),
            "user_facing_name": user_facing,
            "schema_visibility": visibility,
            "sandbox_profile": self.execution_profile().sandbox_profile,
            "availability": {
                "setup_state": setup,
                "is_enabled": is_enabled,
                "feature_gates": self.feature().into_iter().collect::<Vec<_>>(),
                "required_credentials": profile.credential_refs,
                "model_support": returned,
                "is_deferred": is_deferred,
            },
            "validation": {
                "schema_validation": true,
                "value_validation": self.validates(),
                "io_preflight_validation": self.validates() && reads_files,
                "deny_before_io": true,
            },
            "persistence": {
                "previews": keeping.inline,
                "durable_refs": keeping.can_persist(),
                "journal": keeping.journal,
                "redaction": self.redaction(),
                "empty_result": self.empty_result_policy(),
            },
            "abort_semantics": self.abort_semantics(),
            "progress_schema": PROGRESS_SCHEMA,
        }))
    }

    /// How a call ends that is canceled (AT-IF-08): the host stops any guest.
    fn abort_semantics(&self) -> &'static str {
        let mode = self.execution_profile().extra.text("cancel_mode");
        if mode == Some("both") {
            "cooperative_then_forced"
        } else {
            "forced"
        }
    }

    /// The most that `redaction_state` of a result can be, by the tool's own records (AT-IF-10).
    fn redaction(&self) -> &'static str {
        let contract = self.contract();
        let profile = self.permission_profile();
        if contract.redacts_everything().is_some() || !self.keeping().output {
            return "full";
        }
        let is_partial = contract.redacts_output()
            || contract.has_sensitive_fields()
            || profile.is_sensitive()
            || !profile.credential_refs.is_empty();
        if is_partial { "partial" } else { "none" }
    }

    fn known(&self) -> Map<String, Value> {
        let declaration = self.declaration();
        let contract = self.contract();
        let strict = declaration
            .input_contract
            .as_ref()
            .is_some_and(|input| input.strict);
        let effects = self.effects();
        object(json!({
            "search_hint": declaration.search_hint,
            "model_input_schema": contract.model_schema(),
            "runtime_input_schema": contract.runtime_schema().unwrap_or(contract.model_schema()),
            "output_schema": contract.output_schema(),
            "strict": strict,
            "is_enabled": self.is_enabled(),
            "is_read_only": effects.is_read_only,
            "is_concurrency_safe": self.facts().is_concurrency_safe == Some(true),
            "is_destructive": effects.is_destructive,
            "is_open_world": effects.is_open_world,
            "requires_user_interaction": self.needs_user(),
            "permission_matcher": "tool",
            "permission_subjects": {},
            "timeout_ms": self.timeout_ms(),
            "execution_profile_ref": self.execution_profile().execution_profile_id,
            "permission_profile_ref": self.permission_profile().permission_profile_id,
            "max_inline_chars": self.max_inline_chars(),
            "persistence_policy_ref": self.persistence_policy(),
            "classifier_input": PERMISSION_INPUT,
            "context_modifier_policy": if self.modifies_context() {
                self.context_modifier_policy().unwrap_or_default()
            } else {
                ContextModifierPolicy::Forbid
            },
            "empty_result_policy": self.empty_result_policy(),
        }))
    }
}

/// Adds the places of each representation of a result in `toolcell call --print-record` (AT-IF-09). The tool's words
/// are a hint and stay.
fn tell_rendering(fields: &mut Map<String, Value>) {
    let places = json!({
        "model_facing": "result.model_facing_content",
        "ui_facing": "result.ui_facing_rendering",
        "progress": "progress",
        "rejection": "result.error.message",
        "transcript_search": "result.transcript_search_text",
    });
    match fields.get_mut("rendering") {
        Some(Value::Object(own)) => {
            for (name, place) in object(places) {
                own.entry(name).or_insert(place);
            }
        }
        _ => drop(fields.insert("rendering".to_owned(), places)),
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
