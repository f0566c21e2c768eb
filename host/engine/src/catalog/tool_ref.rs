use serde_json::Value;

use toolcell_spec::{Extra, LoadingState, SchemaVersion, SchemaVisibility, ToolRef, native_ref};

use super::{Tool, ToolAvailability};

/// Prefix of a query for exact names.
pub const SELECT: &str = "select:";
const SHOWN_CHARS_MAX: usize = 300;

impl Tool {
    /// The tool without its schemas (AT-DEF-01..10); the caller knows it as `name`.
    pub(crate) fn reference(
        &self,
        name: &str,
        standing: ToolAvailability,
        score: Option<f64>,
    ) -> ToolRef {
        let declaration = self.declaration();
        let shown = |text: &str| cut(&self.contract().shown(text), SHOWN_CHARS_MAX);
        let schema_visibility = match standing.state {
            _ if self.is_internal() => SchemaVisibility::Internal,
            LoadingState::Loaded => SchemaVisibility::Loaded,
            _ => SchemaVisibility::Deferred,
        };
        let of_interface = self
            .interface()
            .and_then(|own| own.external_mappings.as_ref());
        let mappings = [declaration.external_mappings.as_ref(), of_interface];
        let mut native_ref = native_ref(mappings.into_iter().flatten().flatten());
        each_text(&mut native_ref, &|text| *text = shown(text));
        ToolRef {
            schema_version: SchemaVersion::default(),
            tool_id: declaration.tool_id.clone(),
            name: name.to_owned(),
            namespace: declaration.namespace.clone(),
            title: declaration.title.as_deref().map(shown),
            description: shown(&declaration.description),
            search_hint: declaration.search_hint.as_deref().map(shown),
            source: self.component().to_string(),
            schema_visibility,
            loading_state: standing.state,
            reason: standing.told(),
            pending_provider_or_server: None,
            selection_ref: format!("{SELECT}{name}"),
            native_ref,
            // More digits would only differ between builds of SQLite.
            score: score.map(|score| (score * 1_000.0).round() / 1_000.0),
            match_reasons: Vec::new(),
        }
    }
}

fn each_text(fields: &mut Extra, change: &dyn Fn(&mut String)) {
    for value in fields.values_mut() {
        match value {
            Value::String(text) => change(text),
            Value::Object(fields) => each_text(fields, change),
            _ => {}
        }
    }
}

pub(crate) fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
