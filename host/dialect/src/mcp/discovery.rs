//! The host's two tools for reaching unlisted tools (AT-N-18..20).

use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolcell_engine::find::{QUERY_CHARS_MAX, RESULTS, RESULTS_MAX, SELECT};
use toolcell_spec::{ErrorClass, ErrorCode, Input, Refusal, ToolSearchResult};

use super::meta_of;
use super::tool::RESULT_CHARS;
use crate::visible;

pub const SEARCH_TOOLS: &str = "search_tools";
pub const LOAD_TOOL: &str = "load_tool";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchArguments {
    /// Words, or `select:NAME,NAME`.
    pub query: String,
    #[serde(default = "results")]
    limit: usize,
}

fn results() -> usize {
    RESULTS
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadArguments {
    /// As returned by a search.
    pub name: String,
}

impl SearchArguments {
    /// Fails with `invalid_arguments`.
    pub fn read(input: &Input) -> Result<Self, Refusal> {
        read(input, SEARCH_TOOLS)
    }

    /// From 1 to 50.
    pub fn limit(&self) -> usize {
        self.limit.clamp(1, RESULTS_MAX)
    }
}

impl LoadArguments {
    /// Fails with `invalid_arguments`.
    pub fn read(input: &Input) -> Result<Self, Refusal> {
        read(input, LOAD_TOOL)
    }
}

pub(super) fn read<T: DeserializeOwned>(input: &Input, tool: &str) -> Result<T, Refusal> {
    let read = match input.value() {
        // serde would also read a list of the fields.
        Ok(value @ Value::Object(_)) => T::deserialize(value).map_err(|error| error.to_string()),
        Ok(_) => Err("they are not an object".to_owned()),
        Err(why) => Err(why.to_owned()),
    };
    read.map_err(|why| {
        let message = format!("the arguments of {tool} do not fit its schema: {why}");
        Refusal::new(ErrorCode::SchemaMismatch, message).with_class(ErrorClass::InvalidArguments)
    })
}

pub fn discovery() -> [Tool; 2] {
    let query = json!({
        "type": "string", "maxLength": QUERY_CHARS_MAX,
        "description": format!("What the tool should do, in a few keywords; or exact names: {SELECT}NAME,NAME"),
    });
    let limit =
        json!({ "type": "integer", "minimum": 1, "maximum": RESULTS_MAX, "default": RESULTS });
    let name = json!({ "type": "string", "description": format!("The tool name, exactly as {SEARCH_TOOLS} returned it") });
    [
        own(
            SEARCH_TOOLS,
            &format!(
                "Searches for tools that are not in your tool list, by keyword or exact name. If a result's \
                 loading_state is `deferred`, call {LOAD_TOOL} before you call that tool. pending_providers are still \
                 loading: search again later to include their tools."
            ),
            json!({ "query": query, "limit": limit }),
            "query",
        ),
        own(
            LOAD_TOOL,
            "Loads a tool that search_tools found. Returns its description and input schema, and adds it to your tool \
             list; then call it by name.",
            json!({ "name": name }),
            "name",
        ),
    ]
}

pub(super) fn own(
    name: &'static str,
    description: &str,
    properties: Value,
    required: &str,
) -> Tool {
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties);
    schema.insert("required".to_owned(), json!([required]));
    schema.insert("additionalProperties".to_owned(), false.into());
    let mut tool = Tool::new(name, description.to_owned(), Arc::new(schema));
    tool.annotations = Some(ToolAnnotations::new().read_only(true).open_world(false));
    tool.meta = Some(meta_of(RESULT_CHARS.0, RESULT_CHARS.1.into()));
    tool
}

pub fn found(result: &ToolSearchResult) -> CallToolResult {
    structured(cleaned(result))
}

/// Removes invisible characters from texts, which tools wrote.
pub fn cleaned(record: &impl Serialize) -> Value {
    let mut value = json!(record);
    clean(&mut value);
    value
}

/// Includes the schemas, because not every client reads the list of tools again (AT-DEF-19).
pub fn loaded(tool: &Tool) -> CallToolResult {
    structured(json!({ "loaded": tool.name, "tool": tool }))
}

fn structured(value: Value) -> CallToolResult {
    let mut answer = CallToolResult::success(vec![ContentBlock::text(value.to_string())]);
    answer.structured_content = Some(value);
    answer
}

fn clean(value: &mut Value) {
    match value {
        Value::String(text) => *text = visible(text),
        Value::Array(items) => items.iter_mut().for_each(clean),
        Value::Object(fields) => fields.values_mut().for_each(clean),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolcell_spec::{ErrorCode, Input};

    use super::{LoadArguments, SearchArguments, clean, discovery};

    #[test]
    fn arguments_that_do_not_fit_are_refused_with_the_reason() {
        let search = |value| SearchArguments::read(&Input::from_value(value));
        assert_eq!(search(json!({ "query": "x" })).unwrap().limit(), 5);
        assert_eq!(
            search(json!({ "query": "x", "limit": 0 })).unwrap().limit(),
            1
        );
        assert_eq!(
            search(json!({ "query": "x", "limit": 1_000 }))
                .unwrap()
                .limit(),
            50
        );
        for wrong in [
            json!({}),
            json!({ "query": 7 }),
            json!({ "query": "x", "limits": 7 }),
            json!(["x"]),
            json!(null),
        ] {
            let refusal = search(wrong).unwrap_err();
            assert!(
                refusal
                    .message
                    .starts_with("the arguments of search_tools do not fit"),
                "{refusal}"
            );
        }
        let refusal = LoadArguments::read(&Input::from_text("{\"name\": ")).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::SchemaMismatch);
    }

    #[test]
    fn the_own_tools_have_closed_schemas_and_change_nothing() {
        for tool in discovery() {
            let tool = serde_json::to_value(tool).unwrap();
            assert_eq!(tool["inputSchema"]["additionalProperties"], json!(false));
            assert_eq!(tool["annotations"]["readOnlyHint"], json!(true));
            let required = tool["inputSchema"]["required"][0].as_str().unwrap();
            assert!(tool["inputSchema"]["properties"][required].is_object());
        }
    }

    #[test]
    fn hidden_characters_are_removed_at_every_depth() {
        let mut value = json!({ "a": ["b\u{202e}c", { "d": "\u{200b}e" }] });
        clean(&mut value);
        assert_eq!(value, json!({ "a": ["bc", { "d": "e" }] }));
    }
}
