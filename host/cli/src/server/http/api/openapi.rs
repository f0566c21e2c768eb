//! `/v1/openapi.json`: what the types and routes say of themselves, and the answers that every route can give.

use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use serde_json::{Map, Value, json};
use utoipa::OpenApi;

use crate::dialect::http::{CALL_STATUSES, Problem};

use super::Shared;

/// The statuses of every route: a request that is not authorized, is too large or too slow, or meets a full server.
const EVERYWHERE: [(&str, &str); 8] = [
    ("400", "The request cannot be read"),
    ("401", "The token is missing or unknown"),
    ("403", "The host, the origin or the token is not for this route"),
    ("408", "The body took too long"),
    ("413", "The body is too large"),
    ("429", "Too much runs already"),
    ("500", "The server failed"),
    ("503", "A limit or a store of the server is in the way; ask again later"),
];

macro_rules! schemas {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../../../../schemas/", $name, ".schema.json")))),*]
    };
}

/// The schemas of records that answers carry, and those that they refer to.
const RECORDS: [(&str, &str); 9] = schemas![
    "approvals-list",
    "batch-result",
    "common",
    "error",
    "event",
    "input-mutation",
    "progress",
    "result",
    "tool-search-result",
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
        super::calls::create,
        super::calls::show,
        super::calls::cancel,
        super::events::follow,
        super::artifacts::fetch,
        super::batches::create,
        super::approvals::list,
        super::approvals::show,
        super::approvals::answer,
        show,
    ),
    components(schemas(Problem))
)]
struct Document;

/// This document.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "api", responses((status = 200, description = "OpenAPI 3.1")))]
pub(super) async fn show(State(_): State<Arc<Shared>>) -> Response<Body> {
    static TEXT: OnceLock<Bytes> = OnceLock::new();
    let text = TEXT.get_or_init(|| document().to_string().into());
    let mut response = Response::new(Body::from(text.clone()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn document() -> Value {
    let mut document = serde_json::to_value(Document::openapi()).unwrap_or_default();
    put(&mut document, "", "security", json!([{ "bearer": [] }]));
    let scheme = json!({ "bearer": { "type": "http", "scheme": "bearer" } });
    put(&mut document, "/components", "securitySchemes", scheme);
    for (name, text) in RECORDS {
        put(&mut document, "/components/schemas", name, record(name, text));
    }
    let result = || json!({ "$ref": "#/components/schemas/result" });
    put(&mut document, "/components/schemas/CallDocument/properties", "result", result());
    let items = json!({ "$ref": "#/components/schemas/batch-result" });
    put(&mut document, "/components/schemas/BatchDocument/properties/results", "items", items);
    let paths = document.get_mut("paths").and_then(Value::as_object_mut);
    for operation in
        paths.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut).flat_map(Map::iter_mut)
    {
        complete(operation.0, operation.1);
    }
    let calls = "/paths/~1v1~1calls/post/responses";
    for status in CALL_STATUSES {
        let place = format!("{calls}/{status}");
        if document.pointer(&place).is_none() {
            put(&mut document, calls, &status.to_string(), json!({ "description": "" }));
        }
        let said = "The result of a call that ended so; or a problem, if no call was made";
        let said = if status == 200 { "The result of the call, or the failure that its tool reports" } else { said };
        put(&mut document, &place, "description", said.into());
        if document.pointer(&format!("{place}/content")).is_none() {
            put(&mut document, &place, "content", json!({}));
        }
        put(&mut document, &format!("{place}/content"), "application/json", json!({ "schema": result() }));
    }
    for (path, name) in [("~1v1~1search", "tool-search-result"), ("~1v1~1approvals", "approvals-list")] {
        let schema = json!({ "schema": { "$ref": format!("#/components/schemas/{name}") } });
        let answer = format!("/paths/{path}/get/responses/200");
        put(&mut document, &answer, "content", json!({ "application/json": schema }));
    }
    document
}

/// Adds to an operation what every operation can answer, and that each refusal is a problem.
fn complete(method: &str, operation: &mut Value) {
    let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) else { return };
    let unreadable = (method == "post").then_some(("415", "The body is of another type"));
    for (status, said) in EVERYWHERE.into_iter().chain(unreadable) {
        if !responses.contains_key(status) {
            responses.insert(status.to_owned(), json!({ "description": said }));
        }
    }
    for (status, response) in responses {
        if status.starts_with(['4', '5'])
            && let Some(response) = response.as_object_mut()
        {
            let problem = json!({ "schema": { "$ref": "#/components/schemas/Problem" } });
            response.insert("content".to_owned(), json!({ "application/problem+json": problem }));
        }
    }
}

/// Sets the field `name` of the object at the pointer `place`.
fn put(document: &mut Value, place: &str, name: &str, value: Value) {
    if let Some(fields) = document.pointer_mut(place).and_then(Value::as_object_mut) {
        fields.insert(name.to_owned(), value);
    }
}

/// A schema of a record, as a component: its references lead to components.
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
                    Some((other, rest)) => format!("#/components/schemas/{other}{}", rest.trim_start_matches('#')),
                    None => format!("#/components/schemas/{name}{}", reference.trim_start_matches('#')),
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
        let (document, mut found) = (document(), Vec::new());
        references(&document, &mut found);
        assert!(found.len() > 100, "{}", found.len());
        for reference in found {
            let place = reference.strip_prefix('#').unwrap_or_else(|| panic!("{reference} leads elsewhere"));
            assert!(document.pointer(place).is_some(), "{reference}");
        }
    }

    #[test]
    fn every_answer_is_described() {
        let document = document();
        assert!(document["openapi"].as_str().unwrap().starts_with("3.1"), "{}", document["openapi"]);
        let paths = document["paths"].as_object().unwrap();
        let operations: Vec<(&String, &Value)> = paths.values().flat_map(|path| path.as_object().unwrap()).collect();
        assert_eq!(operations.len(), 13);
        for (method, operation) in &operations {
            let responses = operation["responses"].as_object().unwrap();
            let mut meant = vec!["400", "401", "403", "408", "413", "429", "500", "503"];
            if *method == "post" {
                meant.push("415");
            }
            for status in meant {
                let content = &responses[status]["content"]["application/problem+json"]["schema"]["$ref"];
                assert_eq!(content, "#/components/schemas/Problem", "{operation:#}");
            }
        }
        let answers = &document["paths"]["/v1/calls"]["post"]["responses"];
        for status in CALL_STATUSES {
            let content = &answers[status.to_string()]["content"];
            assert_eq!(content["application/json"]["schema"]["$ref"], "#/components/schemas/result", "{status}");
        }
    }
}
