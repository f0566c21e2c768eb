//! A client learns no field that only hooks may fill, and learns the origin of a result.
//!
//! Promise: Claims only narrow.
//! Promise: Output is data.
//! Promise: Sensitive arguments reach only the tool.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::pipeline::doubles::{declaring, echoing};
use crate::support::{Client, OLD, Toolcell, scratch};

fn put(folder: &Path, file: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(file);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn serving(component: &Path) -> Client {
    let mut client = Client::run(Toolcell::new(["mcp".as_ref(), component.as_os_str()]));
    client.initialize(OLD);
    client
}

#[test]
fn no_word_of_a_listed_tool_names_an_internal_field() {
    let (_guard, folder) = scratch();
    let schema = json!({
        "type": "object",
        "description": "A hook sets zz_tenant.",
        "properties": { "a": { "type": "string", "description": "beside `zz_tenant`" }, "zz_tenant": { "$ref": "#/$defs/T" } },
        "required": ["zz_tenant"],
        "default": { "a": "x", "zz_tenant": "t" },
        "examples": [{ "a": "x", "zz_tenant": "t" }],
        "dependentRequired": { "a": ["zz_tenant"], "zz_tenant": ["a"] },
        "$defs": { "T": { "type": "string", "title": "zz_inner" } },
    });
    let component = declaring("listed_internal", |declaration| {
        declaration["title"] = json!("zz_tenant and more");
        declaration["description"] = json!("Echoes. zz_tenant is not yours to set.");
        declaration["input_contract"] = json!({
            "model_input_schema": schema,
            "internal_only_fields": ["zz_tenant"],
        });
        declaration["output_contract"] = json!({ "structured_schema": schema });
    });
    let mut client = serving(&put(&folder, "internal.wasm", &component));
    let listed = client.request("tools/list", json!({}))["result"]["tools"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 2);
    let text = listed.to_string();
    assert!(
        !text.contains("zz_tenant") && !text.contains("zz_inner"),
        "{listed:#}"
    );
    assert_eq!(
        listed[0]["description"],
        "Echoes. [internal] is not yours to set."
    );
    assert_eq!(
        listed[0]["inputSchema"]["properties"]["a"]["description"],
        "beside `[internal]`"
    );
    let described = Toolcell::new([
        "describe".as_ref(),
        folder.join("internal.wasm").as_os_str(),
    ])
    .run()
    .exits(0);
    assert!(
        !described.stdout.contains("zz_tenant"),
        "{}",
        described.stdout
    );
    // Programs get the records: the schema of what runs has the field, marked, and nothing for a model has it.
    let file = folder.join("internal.wasm");
    let described = Toolcell::new(["describe".as_ref(), file.as_os_str(), "--json".as_ref()])
        .run()
        .exits(0)
        .json();
    let call = [
        "call".as_ref(),
        file.as_os_str(),
        "{\"a\": \"x\"}".as_ref(),
        "--print-record".as_ref(),
    ];
    // What it answers breaks its own schema of the output; the record is whole all the same.
    let record = Toolcell::new(call).run().json();
    for declaration in [&described["declarations"][0], &record["declaration"]] {
        let mut shown = declaration.clone();
        let input = &mut shown["input_contract"];
        let runtime = input
            .as_object_mut()
            .unwrap()
            .remove("runtime_input_schema")
            .unwrap();
        assert_eq!(
            input
                .as_object_mut()
                .unwrap()
                .remove("internal_only_fields"),
            Some(json!(["zz_tenant"]))
        );
        let text = shown.to_string();
        assert!(
            !text.contains("zz_tenant") && !text.contains("zz_inner"),
            "{shown:#}"
        );
        let field = &runtime["properties"]["zz_tenant"];
        assert_eq!(field["visibility"], "internal", "{runtime:#}");
        assert_eq!(
            field["mutation_source"],
            json!(["hook", "permission_prompt"]),
            "{runtime:#}"
        );
    }
    let interface = &described["interfaces"][0];
    assert!(
        !interface["model_input_schema"]
            .to_string()
            .contains("zz_tenant"),
        "{interface:#}"
    );
    assert_eq!(
        interface["runtime_input_schema"]["properties"]["zz_tenant"]["visibility"],
        "internal"
    );
}

#[test]
fn a_result_and_its_payload_say_where_they_come_from() {
    let mut client = Client::of(&["probe#big", "probe#fail"]);
    let answer = client.call("big", json!({ "bytes": 100_000 }));
    let provenance = answer["_meta"]["toolcell/provenance"].clone();
    assert_eq!(
        (&provenance["trust"], &provenance["written_by"]),
        (&json!("untrusted"), &json!("tool"))
    );
    assert_eq!(provenance["tool_id"], "probe.big");
    assert!(
        provenance["component"]
            .as_str()
            .unwrap()
            .starts_with("sha256:"),
        "{provenance}"
    );
    let link = answer["content"]
        .as_array()
        .unwrap()
        .iter()
        .find(|block| block["type"] == "resource_link")
        .unwrap();
    let read =
        client.request("resources/read", json!({ "uri": link["uri"] }))["result"]["contents"][0]
            .clone();
    assert_eq!(
        (
            &read["_meta"]["toolcell/provenance"],
            read["text"].as_str().unwrap().len()
        ),
        (&provenance, 100_000)
    );
    let refused = client.call("fail", json!({}));
    assert_eq!(
        refused["_meta"]["toolcell/provenance"]["written_by"],
        "host"
    );
    assert_eq!(
        refused["_meta"]["toolcell/error"]["retry_safe"],
        json!(true)
    );
}

#[test]
fn a_secret_result_is_a_resource_and_nothing_else() {
    let (_guard, folder) = scratch();
    let secret = echoing("secretive_mcp", |toolkit| {
        let profile = json!({ "schema_version": "0.2.0", "permission_profile_id": "p", "risk_level": "low",
            "data_sensitivity": "secret" });
        toolkit["permission_profiles"] = json!([profile]);
        toolkit["declarations"][0]["permission_profile_ref"] = json!("p");
        toolkit["declarations"][0]["output_contract"] =
            json!({ "structured_schema": { "type": "object" } });
    });
    let mut client = serving(&put(&folder, "secret.wasm", &secret));
    // A client validates an answer against the announced schema, so no schema is announced.
    let listed = client.request("tools/list", json!({}))["result"]["tools"][0].clone();
    assert!(listed.get("outputSchema").is_none(), "{listed}");
    let answer = client.call("echo", json!({ "a": "q7" }));
    assert!(
        !answer.to_string().contains("q7") && answer.get("structuredContent").is_none(),
        "{answer:#}"
    );
    let link = answer["content"]
        .as_array()
        .unwrap()
        .iter()
        .find(|block| block["type"] == "resource_link")
        .unwrap();
    let read =
        client.request("resources/read", json!({ "uri": link["uri"] }))["result"]["contents"][0]
            .clone();
    let kept: Value = serde_json::from_str(read["text"].as_str().unwrap()).unwrap();
    assert_eq!(
        kept,
        json!({ "a": "[redacted]" }),
        "what a tool repeats of its arguments is hidden there, too"
    );
}
