//! The tools of a server.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Value, json};
use toolcell_spec::dialect::routes::{METHOD_BYTES_MAX, ROUTES_MAX, Route, RouteRequest};

use crate::world::command::name;
use crate::world::foreign_tool::{self, ForeignTool, names};
use crate::world::profile::{narrow, profile};

const NAMESPACE: &str = "http";
/// Of a server that has none.
const NAME: &str = "request";
/// Of each tool's mapping. One with a route has it in the field of that name.
const SOURCE: &str = "wasi:http";
const REQUEST: &str = "request";
/// A server gets requests through it, and sends none.
const TYPES: &str = "wasi:http/types@";

const DESCRIPTION: &str = "Sends one HTTP request to a server that runs in a sandbox, and returns its response. Each request \
    meets a fresh instance of it, which has kept nothing. `path` may have a query, `body` is a text, {\"base64\": ..} or any \
    other JSON value. A body of the response that is JSON is that value; data that is not text is base64, or an artifact if \
    it is large. A status of 400 and above is an error.";

pub(super) fn toolkit(bytes: &[u8], imports: &[String]) -> Result<String, String> {
    let profile = profile(bytes)?.unwrap_or_default();
    let imports: Vec<String> = imports
        .iter()
        .filter(|name| !name.starts_with(TYPES))
        .cloned()
        .collect();
    let mut tools = match &profile.routes[..] {
        [] => vec![whole(name::from_bytes(bytes), &imports)],
        routes if routes.len() > ROUTES_MAX => {
            return Err(format!("its profile has more than {ROUTES_MAX} routes"));
        }
        routes => of_routes(routes, &imports)?,
    };
    narrow(&mut tools, &profile, &imports)?;
    let namespace = profile.namespace.as_deref().unwrap_or(NAMESPACE);
    Ok(foreign_tool::toolkit(namespace, &tools, &[]))
}

fn whole(name: Option<String>, imports: &[String]) -> ForeignTool {
    let name = names([name.as_deref().unwrap_or(NAME)])
        .pop()
        .unwrap_or_default();
    ForeignTool {
        output_schema: Some(output_schema()),
        mapping: Some(json!({ "source": SOURCE })),
        ..server(name, DESCRIPTION.to_owned(), input_schema(), imports)
    }
}

fn server(name: String, description: String, schema: Value, imports: &[String]) -> ForeignTool {
    let mut tool = ForeignTool::careful(name, description, schema, imports);
    // Its imports say that it reaches nothing else.
    tool.facts.is_open_world.get_or_insert(false);
    tool
}

fn of_routes(routes: &[Route], imports: &[String]) -> Result<Vec<ForeignTool>, String> {
    let names = names(routes.iter().map(|route| route.name.as_str()));
    let tools = routes.iter().zip(names).map(|(route, name)| {
        let schema = route
            .schema()
            .map_err(|why| format!("its route {:?}: {why}", route.name))?;
        let description = route.description.clone().unwrap_or_default();
        let mut mapping = json!({ "source": SOURCE, REQUEST: route.request });
        if let (Some(id), Some(mapping)) = (&route.operation_id, mapping.as_object_mut()) {
            mapping.insert("operation_id".to_owned(), id.as_str().into());
        }
        Ok(ForeignTool {
            output_schema: route.output_schema.clone(),
            mapping: Some(mapping),
            ..server(name, description, schema, imports)
        })
    });
    tools.collect()
}

/// By tool.
pub(super) fn routes(toolkit: &str) -> HashMap<String, RouteRequest> {
    let toolkit: Value = serde_json::from_str(toolkit).unwrap_or_default();
    let route = |declaration: &Value| {
        let request = declaration.pointer("/external_mappings/0")?.get(REQUEST)?;
        let request = serde_json::from_value(request.clone()).ok()?;
        Some((declaration.get("name")?.as_str()?.to_owned(), request))
    };
    let declarations = toolkit.get("declarations").and_then(Value::as_array);
    declarations
        .into_iter()
        .flatten()
        .filter_map(route)
        .collect()
}

/// `None` if the server has a name or routes, or its file gives none.
pub(in crate::world) fn named_by(file: &Path, toolkit: &str) -> Option<String> {
    if !routes(toolkit).is_empty() {
        return None;
    }
    foreign_tool::renamed(toolkit, NAME, &name::of_file(file)?)
}

fn input_schema() -> Value {
    let scalar = json!({ "type": ["string", "number", "boolean"] });
    json!({
        "type": "object",
        "properties": {
            "method": {
                "type": "string",
                "minLength": 1,
                "maxLength": METHOD_BYTES_MAX,
                "default": "GET",
                "description": "The method, such as POST.",
            },
            "path": { "type": "string", "default": "/", "description": "The path, such as /pets/7." },
            "query": {
                "anyOf": [
                    { "type": "string" },
                    {
                        "type": "object",
                        "additionalProperties": { "anyOf": [scalar, { "type": "array", "items": scalar }] },
                    },
                ],
                "description": "The query: a text, or its parameters by name. A list repeats its parameter.",
            },
            "headers": {
                "type": "object",
                "additionalProperties": { "type": "string" },
                "description": "The headers, without credentials, because all arguments are on record.",
            },
            "body": { "description": "The body: a text, {\"base64\": \"..\"}, or any other value, which is sent as JSON." },
        },
        "additionalProperties": false,
    })
}

fn output_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "status": { "type": "integer" },
            "headers": { "type": "object", "additionalProperties": { "type": "string" } },
            "body": {
                "description": "A text, a value of JSON, {\"base64\": \"..\"}, or {\"reference\": \"..\"} of an artifact.",
            },
        },
        "required": ["status", "headers", "body"],
        "additionalProperties": false,
    })
}
