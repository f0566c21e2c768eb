//! Servers in components as tools of the program: by hand, and by the operations of their OpenAPI document.
//!
//! Promise: A component of another world gets no more.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Client, OLD, Ran, Toolcell, Web, fixture, scratch};

const API: &str = r#"
openapi: 3.0.3
info: { title: Pet Store, version: "1" }
servers: [{ url: https://example.com/echo/ }]
paths:
  /pets/{id}:
    get:
      operationId: showPet
      summary: Shows a pet.
      parameters:
        - { name: id, in: path, required: true, schema: { $ref: '#/components/schemas/Id' } }
        - { name: fields, in: query, schema: { type: array, items: { type: string } } }
      responses:
        '200':
          description: ok
          content:
            application/json:
              schema: { type: object, required: [target], properties: { target: { type: string } } }
    delete:
      parameters: [{ name: id, in: path, required: true, schema: { type: integer } }]
      responses: { '204': { description: gone } }
  /upload:
    post:
      requestBody: { content: { multipart/form-data: {} } }
components:
  schemas:
    Id: { type: integer, minimum: 1 }
"#;

fn place() -> (tempfile::TempDir, std::path::PathBuf) {
    let (guard, folder) = scratch();
    fs::copy(fixture("server"), folder.join("server.wasm")).unwrap();
    fs::write(folder.join("openapi.yaml"), API).unwrap();
    (guard, folder)
}

fn toolcell(folder: &Path, arguments: &[&str]) -> Ran {
    Toolcell::new(arguments).dir(folder).run()
}

/// The component with the operations of the document.
fn wrapped(folder: &Path) -> Ran {
    let wrap = [
        "wrap",
        "server.wasm",
        "--openapi=openapi.yaml",
        "-o",
        "api.wasm",
    ];
    toolcell(folder, &wrap).exits(0)
}

/// The guest could send requests, so that it asks for the network.
const NET: &str = "--allow-net=http://unused.example";

#[test]
fn a_server_is_a_tool_that_sends_any_request() {
    let (_guard, folder) = place();
    let described = toolcell(&folder, &["describe", "server.wasm"])
        .exits(0)
        .stdout;
    assert!(described.contains("http.server"), "{described}");
    let call = ["call", "server.wasm", NET, "path=/count", "--json"];
    let called = toolcell(&folder, &call).json();
    let content = &called["structured_content"];
    assert_eq!(
        (&content["status"], &content["body"]),
        (&json!(200), &json!("1"))
    );
    let failed = toolcell(&folder, &["call", "server.wasm", NET, "path=/status/503"]).exits(1);
    assert!(failed.stderr.contains("http_503"), "{}", failed.stderr);
    toolcell(&folder, &["check", "server.wasm"]).exits(0);
    let explained = toolcell(&folder, &["explain", "http_503"]).exits(0).stdout;
    assert!(explained.contains("status"), "{explained}");
}

#[test]
fn the_operations_of_a_document_are_tools() {
    let (_guard, folder) = place();
    let said = wrapped(&folder).stderr;
    assert!(
        said.contains("post /upload: its body is multipart/form-data"),
        "{said}"
    );
    let described = toolcell(&folder, &["describe", "api.wasm", "--json"])
        .exits(0)
        .stdout;
    for part in [
        "pet-store.showPet",
        "pet-store.delete-pets-id",
        "Shows a pet.",
    ] {
        assert!(described.contains(part), "{part}: {described}");
    }
    let called = toolcell(
        &folder,
        &[
            "call",
            "api.wasm#showPet",
            NET,
            r#"{"id": 7, "fields": ["a", "b"]}"#,
            "--json",
        ],
    );
    assert_eq!(
        called.json()["structured_content"]["target"],
        "/echo/pets/7?fields=a&fields=b"
    );
    let refused = toolcell(&folder, &["call", "api.wasm#showPet", NET, r#"{"id": 0}"#]).exits(2);
    assert!(refused.stderr.contains("minimum"), "{}", refused.stderr);
    // A new name keeps the routes.
    let named = ["wrap", "api.wasm", "--name=pets", "-o", "pets.wasm"];
    toolcell(&folder, &named).exits(0);
    let described = toolcell(&folder, &["describe", "pets.wasm"])
        .exits(0)
        .stdout;
    assert!(described.contains("pets.showPet"), "{described}");
}

#[test]
fn the_tools_of_a_server_are_served_as_others_are() {
    let (_guard, folder) = place();
    wrapped(&folder);
    let api = folder.join("api.wasm");
    let api = api.to_str().unwrap();
    let mut client = Client::run(Toolcell::new(["mcp", api, NET]));
    client.initialize(OLD);
    let listed = client.request("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let show = tools
        .iter()
        .find(|tool| tool["name"].as_str().unwrap().contains("showPet"))
        .unwrap();
    assert_eq!(show["inputSchema"]["properties"]["id"]["minimum"], 1);
    let name = show["name"].as_str().unwrap().to_owned();
    let answer = client.call(&name, json!({ "id": 7 }));
    let content: &Value = &answer["structuredContent"];
    assert_eq!(content["target"], "/echo/pets/7", "{answer}");
    client.close();
    let web = Web::run(Toolcell::new(["serve", "--listen=127.0.0.1:0", api, NET]));
    let reply = web.request(
        "POST /v1/calls",
        &[],
        r#"{"tool": "pet-store.showPet", "input": {"id": 8}}"#,
    );
    assert!(reply.body.contains("/echo/pets/8"), "{}", reply.body);
}

#[test]
fn a_document_that_cannot_be_used_is_refused_and_nothing_is_written() {
    let (_guard, folder) = place();
    for (name, text, why) in [
        ("none.json", "{}", "not an OpenAPI document"),
        (
            "old.json",
            r#"{"swagger": "2.0"}"#,
            "not an OpenAPI document",
        ),
        ("broken.json", r#"{"openapi": "#, "EOF"),
        (
            "twice.yaml",
            "openapi: 3.0.0\nopenapi: 3.1.0\n",
            "duplicate key",
        ),
        ("bomb.yaml", "a: &a [x]\nb: *a\n", "anchor"),
        (
            "empty.json",
            r#"{"openapi": "3.1.0", "paths": {}}"#,
            "no tool can be made",
        ),
    ] {
        fs::write(folder.join(name), text).unwrap();
        let option = format!("--openapi={name}");
        let wrap = ["wrap", "server.wasm", &option, "-o", "no.wasm"];
        let refused = toolcell(&folder, &wrap).exits(2);
        assert!(
            refused.stderr.contains(why) && refused.stderr.contains(name),
            "{name}: {}",
            refused.stderr
        );
        assert!(!folder.join("no.wasm").exists(), "{name}");
    }
    let other = fixture("probe");
    let wrap = [
        "wrap",
        other.to_str().unwrap(),
        "--openapi=openapi.yaml",
        "-o",
        "no.wasm",
    ];
    let refused = toolcell(&folder, &wrap).exits(2);
    assert!(refused.stderr.contains("routes"), "{}", refused.stderr);
}
