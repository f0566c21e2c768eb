//! `/v1/openapi.json`: what types and routes say of themselves, and the answers of every route.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse;
use http::Response;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value, json};
use toolcell_dialect::http::CALL_STATUSES;
use utoipa::OpenApi;

use super::ApiState;
use super::answer::JSON;
use crate::http::problem::Problem;

/// Statuses of every route: not authorized, too large or too slow, or a full server.
const EVERYWHERE: [(&str, &str); 8] = [
    ("400", "The request cannot be read"),
    ("401", "The token is missing or unknown"),
    (
        "403",
        "The host, the origin or the token is not for this route",
    ),
    ("408", "The body took too long"),
    ("413", "The body is too large"),
    ("429", "Too much runs already"),
    ("500", "The server failed"),
    (
        "503",
        "A limit or a store of the server is in the way; ask again later",
    ),
];

/// Of every route below [`WORKSPACES`].
const OF_WORKSPACES: [(&str, &str); 2] = [
    (
        "404",
        "There is no such workspace, file or snapshot, or the server has no workspaces",
    ),
    (
        "409",
        "There is such a workspace already, or a call uses it",
    ),
];
const WORKSPACES: &str = "/v1/workspaces";

macro_rules! schemas {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../../../schemas/", $name, ".schema.json")))),*]
    };
}

/// Records that answers carry, and those that they refer to.
const RECORDS: [(&str, &str); 16] = schemas![
    "agentool-tool-call",
    "agentool-tool-registry",
    "agentool-tool-result",
    "agentool-tool-spec",
    "approvals-list",
    "batch-result",
    "common",
    "error",
    "event",
    "input-mutation",
    "progress",
    "result",
    "tool-search-result",
    "tool-surface",
    "workspace",
    "workspace-changes",
];

macro_rules! otc_schemas {
    ($($name:literal),* $(,)?) => {
        [$((concat!("otc-", $name), include_str!(concat!("../../../../../schemas/otc/", $name, ".schema.json")))),*]
    };
}

const OTC: [(&str, &str); 8] = otc_schemas![
    "arcade-tool-call-response",
    "arcade-tool-definition",
    "authorization",
    "execute-tool-request",
    "execute-tool-response",
    "registration",
    "tool-definition",
    "worker-health",
];

const EXECUTIONS: [&str; 2] = [
    "/paths/~1v1~1dialects~1{dialect}~1execute/post/responses",
    "/paths/~1worker~1tools~1invoke/post/responses",
];

#[derive(OpenApi)]
#[openapi(
    info(
        title = "toolcell",
        description = "Calls sandboxed tools. Each request carries the token of a principal, which sees its own calls alone."
    ),
    paths(
        super::tools::list,
        super::tools::show,
        super::tools::search,
        super::tools::surface,
        super::calls::create,
        super::calls::show,
        super::calls::cancel,
        super::events::follow,
        super::artifacts::fetch,
        super::batches::create,
        super::workspaces::list,
        super::workspaces::show,
        super::workspaces::create,
        super::workspaces::remove,
        super::workspaces::read_file,
        super::workspaces::write_file,
        super::workspaces::remove_file,
        super::workspaces::read_archive,
        super::workspaces::write_archive,
        super::workspaces::diff,
        super::workspaces::snapshot,
        super::workspaces::remove_snapshot,
        super::workspaces::restore,
        super::workspaces::fork,
        super::approvals::list,
        super::approvals::show,
        super::approvals::answer,
        super::registry::show,
        super::registry::entry,
        super::registry::import,
        super::registry::call,
        super::otc::list,
        super::otc::show,
        super::otc::register,
        super::otc::execute,
        super::otc::authorization,
        super::tool_status::show,
        super::tool_status::report,
        show,
    ),
    components(schemas(Problem))
)]
struct ApiDocument;

#[derive(OpenApi)]
#[openapi(paths(super::worker::health, super::worker::tools, super::worker::call))]
struct WorkerDocument;

/// This document.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "api", responses((status = 200, description = "OpenAPI 3.1")))]
pub(super) async fn show(State(shared): State<Arc<ApiState>>) -> Response<Body> {
    let text = shared
        .document
        .get_or_init(|| document(shared.engine.is_some()).to_string().into());
    ([(CONTENT_TYPE, JSON)], text.clone()).into_response()
}

/// `is_worker`: serves an Arcade engine.
fn document(is_worker: bool) -> Value {
    let mut document = ApiDocument::openapi();
    let mut schemes = json!({ "bearer": { "type": "http", "scheme": "bearer" } });
    if is_worker {
        document.merge(WorkerDocument::openapi());
        let scheme = json!({ "type": "http", "scheme": "bearer", "bearerFormat": "JWT" });
        put(&mut schemes, "", "worker", scheme);
    }
    let mut document = serde_json::to_value(document).unwrap_or_default();
    put(&mut document, "", "security", json!([{ "bearer": [] }]));
    put(&mut document, "/components", "securitySchemes", schemes);
    let records = RECORDS.into_iter().chain(OTC);
    let records = records.map(|(name, text)| (name, record(name, text)));
    for (name, schema) in records.chain(otc_schemas()) {
        put(&mut document, "/components/schemas", name, schema);
    }
    put(
        &mut document,
        "/components/schemas/CallDocument/properties",
        "result",
        component("result"),
    );
    put(
        &mut document,
        "/components/schemas/BatchDocument/properties/results",
        "items",
        component("batch-result"),
    );
    let paths = document.get_mut("paths").and_then(Value::as_object_mut);
    for (path, operations) in paths.into_iter().flatten() {
        for (method, operation) in operations.as_object_mut().into_iter().flatten() {
            complete(path, method, operation);
        }
    }
    describe_calls(&mut document);
    EXECUTIONS
        .iter()
        .for_each(|place| describe_execution(&mut document, place));
    document
}

fn component(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn put_json(document: &mut Value, place: &str, schema: Value) {
    if document.pointer(&format!("{place}/content")).is_none() {
        put(document, place, "content", json!({}));
    }
    put(
        document,
        &format!("{place}/content"),
        "application/json",
        json!({ "schema": schema }),
    );
}

fn describe_calls(document: &mut Value) {
    let calls = "/paths/~1v1~1calls/post/responses";
    for status in CALL_STATUSES {
        let place = format!("{calls}/{status}");
        if document.pointer(&place).is_none() {
            put(
                document,
                calls,
                &status.to_string(),
                json!({ "description": "" }),
            );
        }
        if status >= 400 && document.pointer(&format!("{place}/content")).is_none() {
            put(document, &place, "content", problem());
        }
        let said = "The result of a call that ended so; or a problem, if no call was made";
        let said = if status == 200 {
            "The result of the call, or the failure that its tool reports"
        } else {
            said
        };
        put(document, &place, "description", said.into());
        put_json(document, &place, component("result"));
    }
}

fn otc_schemas() -> [(&'static str, Value); 6] {
    let any = |one: Value, other: Value| json!({ "anyOf": [one, other] });
    let list = |items: &str| json!({ "type": "array", "items": component(items) });
    let definition = any(
        component("otc-tool-definition"),
        component("otc-arcade-tool-definition"),
    );
    let response = any(
        component("otc-execute-tool-response"),
        component("otc-arcade-tool-call-response"),
    );
    let execution = any(component("otc-execute-tool-request"), component("otc-call"));
    let call = json!({ "type": "object", "required": ["tool", "inputs"] });
    [
        ("otc-definition", definition),
        ("otc-definitions", list("otc-definition")),
        ("otc-arcade-definitions", list("otc-arcade-tool-definition")),
        ("otc-response", response),
        ("otc-execution", execution),
        ("otc-call", call),
    ]
}

/// A refused execution gets a response in its own terms, too.
fn describe_execution(document: &mut Value, place: &str) {
    let answer = "/200/content/application~1json/schema";
    let answer = document.pointer(&format!("{place}{answer}")).cloned();
    let responses = document.pointer(place).and_then(Value::as_object);
    let statuses: Vec<String> = responses.into_iter().flat_map(Map::keys).cloned().collect();
    for status in statuses {
        let answer = answer.clone().unwrap_or_default();
        put_json(document, &format!("{place}/{status}"), answer);
    }
}

/// Adds what every operation can answer, and that each refusal is a problem.
fn complete(path: &str, method: &str, operation: &mut Value) {
    put(operation, "/requestBody", "required", true.into());
    let Some(responses) = operation
        .get_mut("responses")
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    let unreadable = (method == "post").then_some(("415", "The body is of another type"));
    let of_workspaces = path.starts_with(WORKSPACES).then_some(OF_WORKSPACES);
    let others = of_workspaces.into_iter().flatten().chain(unreadable);
    for (status, said) in EVERYWHERE.into_iter().chain(others) {
        if !responses.contains_key(status) {
            responses.insert(status.to_owned(), json!({ "description": said }));
        }
    }
    for (status, response) in responses {
        if status.starts_with(['4', '5'])
            && let Some(response) = response.as_object_mut()
        {
            response.insert("content".to_owned(), problem());
        }
    }
}

fn problem() -> Value {
    json!({ "application/problem+json": { "schema": component("Problem") } })
}

fn put(document: &mut Value, place: &str, name: &str, value: Value) {
    if let Some(fields) = document.pointer_mut(place).and_then(Value::as_object_mut) {
        fields.insert(name.to_owned(), value);
    }
}

fn record(name: &str, text: &str) -> Value {
    let mut schema: Value = serde_json::from_str(text).unwrap_or_default();
    if let Some(fields) = schema.as_object_mut() {
        // They would be the base of all references.
        fields.retain(|name, _| !matches!(name.as_str(), "$schema" | "$id"));
    }
    refer(&mut schema, name);
    schema
}

fn refer(schema: &mut Value, name: &str) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get_mut("$ref") {
                *reference = match reference.split_once(".schema.json") {
                    Some((other, rest)) => format!(
                        "#/components/schemas/{other}{}",
                        rest.trim_start_matches('#')
                    ),
                    None => format!(
                        "#/components/schemas/{name}{}",
                        reference.trim_start_matches('#')
                    ),
                };
            }
            fields.values_mut().for_each(|value| refer(value, name));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| refer(value, name)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{CALL_STATUSES, document};

    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = document(true);
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 100, "{}", found.len());
        for reference in found {
            let place = reference
                .strip_prefix('#')
                .unwrap_or_else(|| panic!("{reference} leads elsewhere"));
            assert!(document.pointer(place).is_some(), "{reference}");
        }
    }

    #[test]
    fn every_answer_is_described() {
        let document = document(true);
        assert!(
            document["openapi"].as_str().unwrap().starts_with("3.1"),
            "{}",
            document["openapi"]
        );
        let paths = document["paths"].as_object().unwrap();
        let operations: Vec<(&String, &Value)> = paths
            .values()
            .flat_map(|path| path.as_object().unwrap())
            .collect();
        assert_eq!(operations.len(), 42);
        for (method, operation) in &operations {
            let responses = operation["responses"].as_object().unwrap();
            let mut meant = vec!["400", "401", "403", "408", "413", "429", "500", "503"];
            if *method == "post" {
                meant.push("415");
            }
            for status in meant {
                let content =
                    &responses[status]["content"]["application/problem+json"]["schema"]["$ref"];
                assert_eq!(content, "#/components/schemas/Problem", "{operation:#}");
            }
        }
        let answers = &document["paths"]["/v1/calls"]["post"]["responses"];
        for status in CALL_STATUSES {
            let content = &answers[status.to_string()]["content"];
            assert_eq!(
                content["application/json"]["schema"]["$ref"], "#/components/schemas/result",
                "{status}"
            );
            assert_eq!(
                content.get("application/problem+json").is_some(),
                status >= 400,
                "{status}"
            );
        }
    }

    #[test]
    fn what_open_tool_calling_answers_is_described_in_its_terms() {
        let document = document(true);
        let schema = |path: &str, status: &str| {
            let responses = &document["paths"][path]["post"]["responses"];
            responses[status]["content"]["application/json"]["schema"].clone()
        };
        let meant = |schema: &Value| {
            let reference = schema["$ref"].as_str().unwrap();
            document.pointer(&reference[1..]).unwrap().clone()
        };
        for status in ["200", "400", "409", "503"] {
            let answer = schema("/v1/dialects/{dialect}/execute", status);
            let arcade = &meant(&answer)["anyOf"][1]["$ref"];
            assert_eq!(
                arcade, "#/components/schemas/otc-arcade-tool-call-response",
                "{status}"
            );
            assert_eq!(*arcade, schema("/worker/tools/invoke", status)["$ref"]);
        }
        let definitions = &document["paths"]["/v1/dialects/{dialect}/tools"]["get"]["responses"]["200"]
            ["content"];
        let definitions = meant(&definitions["application/json"]["schema"]);
        assert_eq!(definitions["type"], "array");
        assert!(document["components"]["securitySchemes"]["worker"].is_object());
    }

    #[test]
    fn a_server_without_an_engine_has_no_routes_of_a_worker() {
        let document = super::document(false);
        assert!(
            document["paths"]
                .as_object()
                .unwrap()
                .keys()
                .all(|path| !path.starts_with("/worker"))
        );
        assert!(
            document["paths"]["/v1/dialects/{dialect}/execute"]["post"]["requestBody"].is_object()
        );
        assert!(document["components"]["securitySchemes"]["worker"].is_null());
    }
}
