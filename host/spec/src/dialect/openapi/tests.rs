use serde_json::{Value, json};

use super::super::routes::{ParameterPlace, ParameterStyle};
use super::{ApiRoutes, ROUTES_MAX, routes};

fn pets() -> Value {
    json!({
        "openapi": "3.0.3",
        "info": { "title": "Pets" },
        "servers": [{ "url": "https://example.com/v1/" }],
        "paths": {
            "/pets/{id}": {
                "parameters": [{ "$ref": "#/components/parameters/Id" }],
                "get": {
                    "operationId": "getPet",
                    "summary": "Shows a pet.",
                    "parameters": [
                        { "name": "fields", "in": "query", "schema": { "type": "array", "items": { "type": "string" } } },
                        { "name": "filter", "in": "query", "style": "deepObject", "schema": { "type": "object" } },
                        { "name": "id", "in": "query", "schema": { "type": "string" } },
                        { "name": "x-trace", "in": "header", "schema": { "type": "string" } },
                        { "name": "Accept", "in": "header", "schema": { "type": "string" } },
                        { "name": "session", "in": "cookie", "schema": { "type": "string" } },
                    ],
                    "responses": { "200": { "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Pet" } } } } },
                },
                "put": {
                    "requestBody": {
                        "required": true,
                        "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Pet" } } },
                    },
                    "responses": { "204": { "description": "" }, "200": { "description": "" } },
                },
            },
        },
        "components": {
            "parameters": { "Id": { "name": "id", "in": "path", "required": true, "schema": { "type": "integer", "minimum": 0, "exclusiveMinimum": true } } },
            "schemas": {
                "Pet": {
                    "type": "object",
                    "required": ["id", "name"],
                    "properties": {
                        "id": { "type": "integer", "readOnly": true },
                        "name": { "type": "string", "nullable": true, "example": "Rex" },
                        "parent": { "$ref": "#/components/schemas/Pet" },
                    },
                },
            },
        },
    })
}

#[track_caller]
fn read(document: &Value) -> ApiRoutes {
    let read = routes(document).unwrap();
    for route in &read.routes {
        route.schema().unwrap();
    }
    read
}

#[test]
fn an_operation_is_a_route_with_one_schema_for_all_of_its_arguments() {
    let read = read(&pets());
    assert_eq!((read.title.as_str(), &read.left_out), ("Pets", &Vec::new()));
    let [get, put] = &read.routes[..] else {
        panic!("{read:?}")
    };
    assert_eq!(
        (get.name.as_str(), get.request.path.as_str()),
        ("getPet", "/v1/pets/{id}")
    );
    assert_eq!(get.description.as_deref(), Some("Shows a pet."));
    let schema = get.input_schema.as_ref().unwrap();
    assert_eq!(schema["required"], json!(["id"]));
    assert_eq!(
        schema["properties"]["id"],
        json!({ "type": "integer", "exclusiveMinimum": 0 })
    );
    let of = |name: &str| &get.request.parameters[name];
    assert_eq!(of("filter").style, ParameterStyle::Deep);
    assert_eq!(of("query_id").name.as_deref(), Some("id"));
    assert_eq!(of("x-trace").place, ParameterPlace::Header);
    assert_eq!(
        get.request.parameters.len(),
        4,
        "{:?}",
        get.request.parameters
    );
    let output = get.output_schema.as_ref().unwrap();
    assert_eq!(output["required"], json!(["id", "name"]));
    assert_eq!(
        output["properties"]["name"],
        json!({ "type": ["string", "null"] })
    );
    assert_eq!(
        output["properties"]["parent"],
        json!({}),
        "a schema that holds itself ends"
    );
    assert_eq!(
        (put.name.as_str(), put.request.method.as_str()),
        ("put-pets-id", "PUT")
    );
    let body = &put.input_schema.as_ref().unwrap()["properties"]["body"];
    assert_eq!(
        body["required"],
        json!(["name"]),
        "what only answers have is no argument"
    );
    assert!(
        put.output_schema.is_none(),
        "there are two kinds of success"
    );
}

#[test]
fn what_cannot_be_a_tool_is_left_out_with_its_reason() {
    let with = |place: &str, value: Value| {
        let mut document = pets();
        *document.pointer_mut(place).unwrap() = value;
        routes(&document)
    };
    let get = "/paths/~1pets~1{id}/get";
    let parameter = |parameter: Value| with(&format!("{get}/parameters"), json!([parameter]));
    let schema = |schema: Value| parameter(json!({ "name": "a", "in": "query", "schema": schema }));
    let deep = (0..50).fold(json!({}), |inner, _| json!({ "items": inner }));
    let multipart = json!({ "requestBody": { "content": { "multipart/form-data": {} } } });
    for (read, why) in [
        (
            schema(json!({ "$ref": "https://example.com/a.json" })),
            "outside of the document",
        ),
        (
            schema(json!({ "$ref": "other.yaml#/a" })),
            "outside of the document",
        ),
        (
            schema(json!({ "$ref": "#/components/none" })),
            "does not have",
        ),
        (schema(deep), "nested more than"),
        (
            schema(json!({ "enum": vec![1; 7_000] })),
            "more than 6000 values",
        ),
        (
            parameter(json!({ "name": "a", "in": "cookie", "required": true })),
            "on record",
        ),
        (
            parameter(json!({ "name": "X-Api-Key", "in": "header", "required": true })),
            "on record",
        ),
        (
            parameter(json!({ "name": "a", "in": "query", "style": "pipeDelimited" })),
            "style",
        ),
        (
            parameter(json!({ "$ref": "#/paths/~1pets~1{id}/get/parameters/0" })),
            "circle",
        ),
        (with(get, multipart), "multipart"),
    ] {
        let read = read.unwrap();
        let [(name, reason)] = &read.left_out[..] else {
            panic!("{why}: {read:?}")
        };
        assert!(name == "get /pets/{id}" && reason.contains(why), "{reason}");
    }
}

#[test]
fn a_document_that_names_no_tools_is_refused() {
    let with = |place: &str, value: Value| {
        let mut document = pets();
        *document.pointer_mut(place).unwrap() = value;
        routes(&document).unwrap_err()
    };
    let many = (0..ROUTES_MAX + 1).map(|at| (format!("/a{at}"), json!({ "get": {} })));
    for (refusal, why) in [
        (with("/openapi", json!("2.0")), "3.0 or 3.1"),
        (with("/paths", json!({})), "no tool"),
        (with("/paths", many.collect()), "more than 256 operations"),
        (
            with(
                "/servers/0/url",
                json!("https://{region}.example.com/{version}"),
            ),
            "variables",
        ),
    ] {
        assert!(refusal.contains(why), "{refusal}");
    }
    for other in [
        json!({}),
        json!([]),
        json!(null),
        json!({ "swagger": "2.0" }),
    ] {
        assert!(routes(&other).is_err(), "{other}");
    }
}

/// A few references that lead to each other many times over.
#[test]
fn references_that_would_grow_without_end_are_bounded() {
    let level = |at: usize| {
        let next = json!({ "$ref": format!("#/components/schemas/s{}", at + 1) });
        (format!("s{at}"), json!({ "prefixItems": vec![next; 10] }))
    };
    let mut document = pets();
    document["components"]["schemas"] = (0..15).map(level).collect();
    document["components"]["schemas"]["s15"] = json!({});
    let parameters =
        json!([{ "name": "a", "in": "query", "schema": { "$ref": "#/components/schemas/s0" } }]);
    document["paths"] = json!({ "/": { "get": { "parameters": parameters } } });
    let refusal = routes(&document).unwrap_err();
    assert!(refusal.contains("more than 6000 values"), "{refusal}");
}

/// Each reference would be a copy of what it leads to, and each path of what it shares with others.
#[test]
fn large_values_count_by_their_size() {
    let refusal = |parameters: Value, large: Value| {
        let mut document = pets();
        document["components"]["schemas"] = json!({ "large": large });
        document["paths"] = json!({ "/": { "get": { "parameters": parameters } } });
        routes(&document).unwrap_err()
    };
    let copies: Value = (0..10)
        .map(|at| {
            let schema = json!({ "$ref": "#/components/schemas/large" });
            json!({ "name": format!("a{at}"), "in": "query", "schema": { "items": schema } })
        })
        .collect();
    let text = "x".repeat(7 << 20);
    let deep = json!([vec![vec![0; 100]; 100]]);
    for large in [
        json!({ "default": text }),
        json!({ "description": text }),
        json!({ "properties": { text: {} } }),
        json!({ "enum": deep }),
        deep,
    ] {
        let refusal = refusal(copies.clone(), large);
        assert!(refusal.contains("more than 6000 values"), "{refusal}");
    }
    let many = (0..65).map(|at| json!({ "name": format!("a{at}"), "in": "query" }));
    let refusal = refusal(many.collect(), json!({}));
    assert!(refusal.contains("more than 64 parameters"), "{refusal}");
}
