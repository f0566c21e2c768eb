//! `toolcell wrap --manifest`: the manifest of an extension, written into a copy of its component.
//!
//! Promise: A component of another world gets no more.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use crate::support::{Home, Ran, fixture, scratch};

const MANIFEST: &str = r#"
schema_version = "reborn.extension_manifest.v3"
id = "wrapped"
name = "Wrapped"
version = "0.1.0"

[runtime]
kind = "wasm"
module = "near.wasm"

[[tools]]
id = "wrapped.first"
description = "Does the first thing"
default_permission = "allow"
input_schema_ref = "schemas/steps.json"

[[tools]]
id = "wrapped.second"
description = "Does the second thing"
effects = ["network"]
default_permission = "ask"
input_schema_ref = "schemas/steps.json"
"#;

/// Writes an extension without its component into `folder`.
fn extension(folder: &Path, manifest: &str) {
    std::fs::create_dir_all(folder.join("schemas")).unwrap();
    std::fs::write(
        folder.join("schemas/steps.json"),
        r#"{"type": "object", "required": ["steps"]}"#,
    )
    .unwrap();
    std::fs::write(folder.join("manifest.toml"), manifest).unwrap();
}

fn guest(name: &str) -> String {
    fixture(name).display().to_string()
}

fn wrap(home: &Home, component: &str, folder: &Path) -> Ran {
    let manifest = folder.join("manifest.toml").display().to_string();
    let output = folder.join("out.wasm").display().to_string();
    home.toolcell(&["wrap", component, "--manifest", &manifest, "-o", &output])
        .run()
}

#[test]
fn a_wrapped_component_has_the_tools_of_its_manifest() {
    let home = Home::new();
    let (_guard, folder) = scratch();
    extension(&folder, MANIFEST);
    let ran = wrap(&home, &guest("near"), &folder).exits(0);
    let output = folder.join("out.wasm").display().to_string();
    assert_eq!(ran.stdout.trim(), output, "{ran:?}");
    // The copy needs no file beside it.
    std::fs::remove_file(folder.join("manifest.toml")).unwrap();
    let record = home.call(&format!("{output}#first"), &json!({ "steps": [] }), &[]);
    let context = &record["result"]["structured_content"]["context"];
    assert_eq!(
        *context,
        json!({ "capability_id": "wrapped.first" }),
        "{record}"
    );
    let record = home.call(&format!("{output}#first"), &json!({}), &[]);
    assert_eq!(
        record["result"]["error"]["error_class"], "schema_validation_failed",
        "{record}"
    );
    let record = home.call(&format!("{output}#second"), &json!({ "steps": [] }), &[]);
    assert_eq!(
        record["result"]["error"]["error_class"], "permission_denied",
        "{record}"
    );
}

#[test]
fn a_copy_replaces_no_file() {
    let home = Home::new();
    let (_guard, folder) = scratch();
    extension(&folder, MANIFEST);
    let output = folder.join("out.wasm");
    let outside = folder.join("outside");
    std::fs::write(&outside, "mine").unwrap();
    symlink(&outside, &output).unwrap();
    let ran = wrap(&home, &guest("near"), &folder).exits(2);
    assert!(ran.stderr.contains("--force replaces it"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "mine");
}

#[test]
fn what_cannot_be_wrapped_is_refused_and_nothing_is_written() {
    let home = Home::new();
    let (_guard, folder) = scratch();
    let text = home.keep("text.wasm", b"not a component");
    let near = guest("near");
    for (component, manifest, why) in [
        (
            near.as_str(),
            MANIFEST.replace("\"network\"", "\"teleport\""),
            "unknown variant `teleport`",
        ),
        (
            near.as_str(),
            MANIFEST.replace("schemas/steps.json", "../steps.json"),
            "tools[0]: input_schema_ref",
        ),
        (
            near.as_str(),
            MANIFEST.replace("wrapped.second", "wrapped.first"),
            "tools[1].id",
        ),
        (
            guest("probe").as_str(),
            MANIFEST.to_owned(),
            "is not a tool of near:agent@0.4.1",
        ),
        (
            text.as_str(),
            MANIFEST.to_owned(),
            "cannot read the sections",
        ),
        (
            "missing.wasm",
            MANIFEST.to_owned(),
            "cannot read the component",
        ),
    ] {
        extension(&folder, &manifest);
        let ran = wrap(&home, component, &folder).exits(2);
        assert!(ran.stderr.contains(why), "{why}: {ran:?}");
        assert!(!folder.join("out.wasm").exists(), "{why}");
    }
    // A link could lead to any file of the user.
    std::fs::rename(folder.join("manifest.toml"), folder.join("other.toml")).unwrap();
    symlink("other.toml", folder.join("manifest.toml")).unwrap();
    let ran = wrap(&home, &near, &folder).exits(2);
    assert!(ran.stderr.contains("it is a link"), "{ran:?}");
}
