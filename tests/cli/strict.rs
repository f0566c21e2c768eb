//! A claim of a component is honoured, or the component does not load, or `describe`, `build` and `doctor` report it.
//!
//! Promise: No limit is lost silently.

use std::path::Path;

use serde_json::{Value, json};

use super::{BUILDING, build, guest};
use crate::pipeline::doubles::{describing, echoing};
use crate::support::{Client, Ran, Toolcell, fixture, root, scratch};

/// A toolkit with every record that a tool can have, linked: `strict.echo`, which takes one path.
fn whole(toolkit: &mut Value) {
    let declaration = &mut toolkit["declarations"][0];
    declaration["namespace"] = json!("strict");
    for (field, value) in [
        ("interface_ref", json!("i")),
        ("execution_profile_ref", json!("e")),
        ("permission_profile_ref", json!("p")),
        ("output_contract", json!({})),
        ("annotations", json!({})),
    ] {
        declaration[field] = value;
    }
    declaration["input_contract"] = json!({"model_input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}});
    toolkit["interfaces"] =
        json!([{"schema_version": "0.2.0", "interface_id": "i", "tool_id": "strict.echo"}]);
    toolkit["execution_profiles"] = json!([{"schema_version": "0.2.0", "execution_profile_id": "e", "execution_kind": "embedded_runtime"}]);
    toolkit["permission_profiles"] = json!([{
        "schema_version": "0.2.0", "permission_profile_id": "p", "risk_level": "low",
        "access_kinds": ["file_read"], "credential_refs": ["KEY"], "credential_uses": [{"ref": "KEY"}],
    }]);
}

/// The JSON pointers of the objects in [`whole`], and their fields that limit a call.
const LIMITING: [(&str, &[&str]); 8] = [
    (
        "",
        &["interfaces", "execution_profiles", "permission_profiles"],
    ),
    (
        "/declarations/0",
        &[
            "lifecycle",
            "input_contract",
            "output_contract",
            "interface_ref",
            "execution_profile_ref",
            "permission_profile_ref",
        ],
    ),
    (
        "/declarations/0/input_contract",
        &[
            "model_input_schema",
            "runtime_input_schema",
            "strict",
            "sensitive_fields",
            "internal_only_fields",
            "argument_mode",
            "media_mode",
            "mutation_policy",
        ],
    ),
    (
        "/declarations/0/output_contract",
        &[
            "structured_schema",
            "content_types",
            "max_inline_bytes",
            "max_inline_chars",
            "redaction_rules",
            "artifact_expectations",
            "persistence_policy_ref",
        ],
    ),
    (
        "/interfaces/0",
        &[
            "output_schema",
            "schema_visibility",
            "is_enabled",
            "is_read_only",
            "is_concurrency_safe",
            "is_destructive",
            "is_open_world",
            "requires_user_interaction",
            "permission_matcher",
            "requires_exclusive_context",
            "resource_locks",
            "permission_subjects",
            "context_modifier_policy",
        ],
    ),
    (
        "/execution_profiles/0",
        &[
            "timeout_ms",
            "sandbox_profile",
            "memory_limit_bytes",
            "fuel_limit",
        ],
    ),
    (
        "/permission_profiles/0",
        &[
            "risk_level",
            "access_kinds",
            "write_effects",
            "network_scope",
            "tenant_scope",
            "credential_refs",
            "credential_uses",
            "approval_required",
            "permission_channel",
            "non_interactive",
            "data_sensitivity",
            "redaction_required",
            "policy_refs",
            "environment",
        ],
    ),
    (
        "/permission_profiles/0/credential_uses/0",
        &["header", "prefix", "query"],
    ),
];

pub(super) fn write(folder: &Path, component: &[u8]) -> String {
    let file = folder.join("tool.wasm");
    std::fs::write(&file, component).unwrap();
    file.display().to_string()
}

/// Runs `describe` of a component.
pub(super) fn described(component: &[u8]) -> Ran {
    let (_guard, folder) = scratch();
    Toolcell::new(["describe", &write(&folder, component)]).run()
}

/// The lines of the error list with which a component is refused.
#[track_caller]
pub(super) fn errors(component: &[u8]) -> Vec<String> {
    let ran = described(component).exits(2);
    assert!(
        ran.stdout.is_empty() && ran.stderr.contains("[description_invalid]"),
        "{ran:?}"
    );
    ran.stderr
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .map(str::to_owned)
        .collect()
}

/// The errors of a toolkit that differs from [`whole`].
#[track_caller]
fn errors_of(change: impl FnOnce(&mut Value)) -> Vec<String> {
    errors(&changed(change))
}

/// The places and messages of a toolkit that differs from [`whole`], and because of which each call is refused.
#[track_caller]
fn gaps_of(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let (_guard, folder) = scratch();
    let tool = write(&folder, &changed(change));
    let records = Toolcell::new(["describe", &tool, "--json"])
        .run()
        .exits(0)
        .json();
    let called = Toolcell::new(["call", &tool, "{}", "--json"]).run().json();
    assert_eq!(
        called["error"]["error_code"], "declaration_not_honoured",
        "{called}"
    );
    let notes = records["notes"].as_array().unwrap().iter();
    let text = |note: &Value, field: &str| note[field].as_str().unwrap().to_owned();
    notes
        .map(|note| format!("{}: {}", text(note, "path"), text(note, "message")))
        .filter(|note| note.contains("refuses calls of the tool"))
        .collect()
}

pub(super) fn changed(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    echoing("strict", |toolkit| {
        whole(toolkit);
        change(toolkit);
    })
}

pub(super) fn set(toolkit: &mut Value, object: &str, field: &str, value: Value) {
    let object = toolkit
        .pointer_mut(object)
        .unwrap()
        .as_object_mut()
        .unwrap();
    object.insert(field.to_owned(), value);
}

/// Each of `places` has exactly one error, and no other place has one.
#[track_caller]
fn all_named(places: &[String], errors: &[String]) {
    for place in places {
        let found = errors
            .iter()
            .filter(|error| error.starts_with(&format!("{place}: ")))
            .count();
        assert_eq!(found, 1, "{place}: {errors:#?}");
    }
    assert_eq!(errors.len(), places.len(), "{errors:#?}");
}

#[test]
fn a_toolkit_with_every_record_loads() {
    let ran = described(&changed(|_| {})).exits(0);
    assert!(
        ran.stdout.starts_with("strict.echo\n") && !ran.stdout.contains("notes:"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_misspelt_field_that_limits_a_call_lets_none_run_wherever_it_stands() {
    type Misspelling = fn(&str) -> String;
    let misspellings: [Misspelling; 4] = [
        // A missing letter, swapped letters, camel case, other separators.
        |name| format!("{}{}", &name[..2], &name[3..]),
        |name| format!("{}{}{}{}", &name[..2], &name[3..4], &name[2..3], &name[4..]),
        |name| {
            let mut parts = name.split('_').map(str::to_owned);
            let first = parts.next().unwrap().to_uppercase();
            parts.fold(first, |name, part| {
                name + &part[..1].to_uppercase() + &part[1..]
            })
        },
        |name| format!("{}s", name.replace('_', "-")),
    ];
    for misspelling in misspellings {
        for (object, fields) in LIMITING {
            let places: Vec<String> = fields
                .iter()
                .map(|name| format!("{object}/{}", misspelling(name)))
                .collect();
            let gaps = gaps_of(|toolkit| {
                for name in fields {
                    set(toolkit, object, &misspelling(name), json!(true));
                }
            });
            all_named(&places, &gaps);
        }
    }
}

#[test]
fn a_field_that_limits_a_call_and_stands_in_the_wrong_place_lets_none_run() {
    for (object, fields) in LIMITING
        .iter()
        .filter(|(object, _)| !object.contains("credential_uses"))
    {
        for (elsewhere, known) in LIMITING
            .iter()
            .chain(&[("/declarations/0/annotations", &[][..])])
        {
            // The schemas, `strict` and the references to profiles are valid in more than one place.
            let shared = |name: &str| {
                name.ends_with("_schema")
                    || name.ends_with("profile_ref")
                    || ["strict", "timeout_ms"].contains(&name)
            };
            let strangers: Vec<&str> = fields
                .iter()
                .copied()
                .filter(|name| !known.contains(name) && !shared(name))
                .filter(|name| {
                    !matches!(
                        *name,
                        "max_inline_chars" | "persistence_policy_ref" | "sandbox_profile"
                    )
                })
                .collect();
            if elsewhere == object || strangers.is_empty() {
                continue;
            }
            let places: Vec<String> = strangers
                .iter()
                .map(|name| format!("{elsewhere}/{name}"))
                .collect();
            let gaps = gaps_of(|toolkit| {
                strangers
                    .iter()
                    .for_each(|name| set(toolkit, elsewhere, name, json!("x")));
            });
            all_named(&places, &gaps);
            assert!(
                gaps.iter().all(|gap| gap.contains("belongs in")),
                "{gaps:#?}"
            );
        }
    }
}

#[test]
fn an_unknown_word_of_a_closed_vocabulary_is_an_error_with_the_known_ones() {
    let words = [
        (
            "/declarations/0",
            "lifecycle",
            json!("asleep"),
            "",
            "available",
        ),
        (
            "/declarations/0/input_contract",
            "argument_mode",
            json!("telepathy"),
            "",
            "json",
        ),
        (
            "/declarations/0/output_contract",
            "content_types",
            json!(["text", "txet"]),
            "/1",
            "resource_link",
        ),
        (
            "/declarations/0/output_contract",
            "persistence_policy_ref",
            json!("never"),
            "",
            "never_persist",
        ),
        (
            "/interfaces/0",
            "persistence_policy_ref",
            json!("never"),
            "",
            "never_persist",
        ),
        (
            "/interfaces/0",
            "schema_visibility",
            json!("hidden"),
            "",
            "loaded",
        ),
        (
            "/interfaces/0",
            "context_modifier_policy",
            json!("never"),
            "",
            "allow_serial_only",
        ),
        (
            "/interfaces/0",
            "permission_subjects",
            json!({"/path": "file"}),
            "/~1path",
            "resource",
        ),
        (
            "/interfaces/0",
            "is_read_only",
            json!("yes"),
            "",
            "predicate",
        ),
        ("/interfaces/0", "is_destructive", json!(1), "", "predicate"),
        (
            "/permission_profiles/0",
            "risk_level",
            json!("tiny"),
            "",
            "critical",
        ),
        (
            "/permission_profiles/0",
            "access_kinds",
            json!(["file_read", "read_files"]),
            "/1",
            "file_write",
        ),
        (
            "/permission_profiles/0",
            "write_effects",
            json!(["x"]),
            "/0",
            "local_draft",
        ),
        (
            "/permission_profiles/0",
            "permission_channel",
            json!("pigeon"),
            "",
            "none",
        ),
        (
            "/permission_profiles/0/credential_uses/0",
            "authorization",
            json!("bearer"),
            "",
            "provider_type",
        ),
        (
            "/permission_profiles/0",
            "non_interactive",
            json!("allow"),
            "",
            "allow_if_preapproved",
        ),
    ];
    let errors = errors_of(|toolkit| {
        for (object, field, value, ..) in &words {
            set(toolkit, object, field, value.clone());
        }
    });
    let places: Vec<String> = words
        .iter()
        .map(|(object, field, _, at, _)| format!("{object}/{field}{at}"))
        .collect();
    all_named(&places, &errors);
    for (_, field, _, _, known) in words {
        assert!(
            errors
                .iter()
                .any(|error| error.contains(&format!("/{field}")) && error.contains(known)),
            "{field}"
        );
    }
}

#[test]
fn a_setting_that_this_host_does_not_honour_keeps_the_component_from_loading() {
    let settings = [
        (
            "/execution_profiles/0",
            "sandbox_profile",
            json!("read_only"),
        ),
        ("/execution_profiles/0", "memory_limit_bytes", json!(1024)),
    ];
    let errors = errors_of(|toolkit| {
        settings
            .iter()
            .for_each(|(object, field, value)| set(toolkit, object, field, value.clone()));
    });
    all_named(
        &settings
            .clone()
            .map(|(object, field, _)| format!("{object}/{field}")),
        &errors,
    );
    // Neutral values do not limit the call, and are accepted.
    let neutral = changed(|toolkit| {
        for (object, field, value) in settings {
            let value = match value {
                Value::Bool(_) => json!(false),
                _ => Value::Null,
            };
            set(toolkit, object, field, value);
        }
    });
    described(&neutral).exits(0);
}

#[test]
fn a_record_that_nothing_refers_to_is_an_error_and_no_call_keeps_its_folders() {
    let (_guard, folder) = scratch();
    std::fs::create_dir(folder.join("data")).unwrap();
    for (list, id) in [
        ("interfaces", "interface_ref"),
        ("permission_profiles", "permission_profile_ref"),
    ] {
        let component = changed(|toolkit| {
            toolkit["declarations"][0]
                .as_object_mut()
                .unwrap()
                .remove(id);
            toolkit["interfaces"][0]["permission_subjects"] = json!({"/path": "path"});
        });
        let place = format!("/{list}/0");
        assert!(
            errors(&component)[0]
                .starts_with(&format!("{place}: no declaration refers to this record"))
        );
        let tool = write(&folder, &component);
        let call = [
            "call",
            &tool,
            "{\"path\": \"data\"}",
            "--allow-read=.",
            "--json",
        ];
        let record = Toolcell::new(call).dir(&folder).run().exits(2).json();
        assert_eq!(record["error"]["error_code"], "description_invalid");
        assert!(
            record["error"]["message"]
                .as_str()
                .unwrap()
                .contains(&place),
            "{record}"
        );
    }
    let errors = errors_of(|toolkit| {
        let more = [
            ("interfaces", "interface_id"),
            ("execution_profiles", "execution_profile_id"),
        ];
        for (list, id) in more
            .into_iter()
            .chain([("permission_profiles", "permission_profile_id")])
        {
            let mut other = toolkit[list][0].clone();
            other[id] = json!("other");
            toolkit[list].as_array_mut().unwrap().push(other);
        }
    });
    all_named(
        &[
            "/interfaces/1",
            "/execution_profiles/1",
            "/permission_profiles/1",
        ]
        .map(str::to_owned),
        &errors,
    );
}

#[test]
fn records_that_contradict_each_other_are_errors() {
    let one = |change: fn(&mut Value)| errors_of(change).join("\n");
    for (place, change) in [
        (
            "/interfaces/0/tool_id: ",
            (|kit| kit["interfaces"][0]["tool_id"] = json!("strict.other")) as fn(&mut Value),
        ),
        ("/interfaces/0/name: ", |kit| {
            kit["interfaces"][0]["name"] = json!("other")
        }),
        ("/interfaces/0/model_input_schema: ", |kit| {
            kit["interfaces"][0]["model_input_schema"] = json!({})
        }),
        ("/interfaces/0/permission_subjects/~1pth: ", |kit| {
            kit["interfaces"][0]["permission_subjects"] = json!({"/pth": "path"});
        }),
        ("/declarations/0/permission_profile_ref: ", |kit| {
            kit["interfaces"][0]["permission_profile_ref"] = json!("other");
        }),
        ("/permission_profiles/0/write_effects: ", |kit| {
            kit["permission_profiles"][0]["write_effects"] = json!(["none", "local_persistent"]);
        }),
        ("/permission_profiles/1/permission_profile_id: ", |kit| {
            let again = kit["permission_profiles"][0].clone();
            kit["permission_profiles"]
                .as_array_mut()
                .unwrap()
                .push(again);
        }),
        ("/permission_profiles/0/schema_version: ", |kit| {
            kit["permission_profiles"][0]["schema_version"] = json!("9.0.0");
        }),
        ("/interfaces/0: the field tool_id is missing", |kit| {
            kit["interfaces"][0]
                .as_object_mut()
                .unwrap()
                .remove("tool_id");
        }),
    ] {
        let errors = one(change);
        assert!(
            errors.starts_with(place) && !errors.contains('\n'),
            "{place} {errors}"
        );
    }
}

#[test]
fn a_subject_below_an_argument_leads_where_the_schema_has_something() {
    let with = |pointer: &str| {
        changed(|kit| {
            let target = json!({"type": "object", "properties": {"path": {"type": "string"}}});
            let schema = &mut kit["declarations"][0]["input_contract"]["model_input_schema"];
            schema["properties"] = json!({
                "target": target,
                "list": {"type": "array", "items": target},
                "linked": {"$ref": "#/$defs/target"},
            });
            schema["$defs"] = json!({ "target": target });
            kit["interfaces"][0]["permission_subjects"] = json!({ pointer: "path" });
        })
    };
    for pointer in ["/target/path", "/list/*/path", "/list/0/path"] {
        described(&with(pointer)).exits(0);
    }
    for (pointer, why) in [
        ("/target/pahth", "leads to no argument"),
        ("/list/path", "leads to no argument"),
        ("/linked/path", "write the schema out"),
    ] {
        let errors = errors(&with(pointer));
        assert!(
            errors.len() == 1 && errors[0].contains(pointer) && errors[0].contains(why),
            "{errors:?}"
        );
    }
}

#[test]
fn a_field_that_is_named_twice_is_an_error() {
    let mut text = String::new();
    echoing("strict", |toolkit| {
        whole(toolkit);
        text = toolkit.to_string();
    });
    let twice = text.replacen(
        "\"interface_id\"",
        "\"is_read_only\":true,\"is_read_only\":false,\"interface_id\"",
        1,
    );
    assert_ne!(text, twice);
    described(&describing(&text)).exits(0);
    assert!(errors(&describing(&twice))[0].contains("duplicate key \"is_read_only\""));
}

#[test]
fn foreign_words_in_the_list_are_bounded_and_act_on_nothing() {
    let foreign =
        json!({ "write_effect\u{1b}[2J\u{202e}\n  /forged: line": "x", "risk\nlevel": "x" });
    let errors = errors_of(|toolkit| {
        toolkit["interfaces"][0]["permission_subjects"] = foreign.clone();
        toolkit["permission_profiles"][0]["access_kinds"] = json!(["x\u{1b}[1m".repeat(300)]);
    });
    let notes = described(&changed(|toolkit| {
        let profile = toolkit["permission_profiles"][0].as_object_mut().unwrap();
        profile.extend(foreign.as_object().unwrap().clone());
    }));
    let notes = notes.exits(0).stdout;
    assert!(
        notes
            .lines()
            .all(|line| !line.trim().starts_with("/forged")),
        "{notes}"
    );
    for text in [errors.join("\n"), notes] {
        assert!(
            !text.contains(['\u{1b}', '\u{202e}']) && text.contains("risk\\nlevel"),
            "{text}"
        );
    }
    assert!(
        errors
            .iter()
            .all(|error| error.len() < 1_000 && !error.starts_with("/forged")),
        "{errors:#?}"
    );
    let many: Vec<Value> = (0..1_200).map(|at| json!(at)).collect();
    let errors =
        errors_of(|toolkit| toolkit["permission_profiles"][0]["access_kinds"] = json!(many));
    assert!(
        errors.len() == 33 && errors[32].contains("1168 more"),
        "{} {:?}",
        errors.len(),
        errors.last()
    );
    let errors = errors_of(|toolkit| {
        for at in 0..1_001 {
            toolkit[format!("{at:x}")] = json!(0);
        }
    });
    assert!(
        errors.len() == 1 && errors[0].contains("more than 1000 unknown fields"),
        "{errors:?}"
    );
}

#[test]
fn a_tool_that_is_not_enabled_is_not_listed_and_not_called() {
    let (_guard, folder) = scratch();
    let tool = write(
        &folder,
        &changed(|toolkit| toolkit["interfaces"][0]["is_enabled"] = json!(false)),
    );
    let record = Toolcell::new(["call", &tool, "{}", "--allow-read=.", "--json"])
        .dir(&folder)
        .run()
        .json();
    assert_eq!(record["error"]["error_class"], "policy_blocked");
    assert_eq!(record["error"]["error_code"], "tool_disabled");
    let mut client = Client::run(Toolcell::new(["mcp", &tool]));
    client.initialize(crate::support::OLD);
    assert_eq!(
        client.request("tools/list", json!({}))["result"]["tools"],
        json!([])
    );
}

#[test]
fn what_an_interface_says_of_strictness_and_profiles_counts() {
    let (_guard, folder) = scratch();
    let call = |component: &[u8], input: &str, options: &[&str]| {
        let tool = write(&folder, component);
        let arguments = ["call", &tool, input, "--allow-read=.", "--json"]
            .into_iter()
            .chain(options.iter().copied());
        Toolcell::new(arguments).dir(&folder).run()
    };
    let without_secret = |toolkit: &mut Value| {
        let profile = toolkit["permission_profiles"][0].as_object_mut().unwrap();
        profile.retain(|field, _| !field.starts_with("credential"));
    };
    let open = changed(without_secret);
    call(&open, "{\"more\": 1}", &[]).exits(0);
    let strict = changed(|toolkit| {
        without_secret(toolkit);
        toolkit["interfaces"][0]["strict"] = json!(true);
    });
    assert_eq!(
        call(&strict, "{\"more\": 1}", &[]).json()["error"]["error_class"],
        "schema_validation_failed"
    );
    // A profile that only the interface refers to applies to the tool.
    let asking = changed(|toolkit| {
        without_secret(toolkit);
        toolkit["declarations"][0]
            .as_object_mut()
            .unwrap()
            .remove("permission_profile_ref");
        toolkit["interfaces"][0]["permission_profile_ref"] = json!("p");
        toolkit["permission_profiles"][0]["approval_required"] = json!(true);
    });
    let denied = call(&asking, "{}", &["--mode=non_interactive"]).json();
    assert_eq!(denied["error"]["error_code"], "approval_not_possible");
}

/// A toolkit that loads, and the pointers to its fields without effect.
fn with_notes() -> (Vec<u8>, Vec<&'static str>) {
    let component = changed(|toolkit| {
        toolkit["a_field_of_tomorrow"] = json!([1]);
        for (object, field, value) in [
            ("/declarations/0", "colour", json!("red")),
            ("/declarations/0", "tool_kind", json!("tea_ceremony")),
            (
                "/declarations/0/input_contract",
                "sensitive_fields",
                json!(["pth", "/path"]),
            ),
            ("/interfaces/0", "title", json!("x")),
            (
                "/interfaces/0",
                "is_destructive",
                json!("classifier:is_destructive"),
            ),
            ("/interfaces/0", "is_open_world", json!("oracle:nearby")),
            ("/interfaces/0", "rendering", json!({"a": 1})),
            ("/execution_profiles/0", "supports_background", json!(false)),
            ("/permission_profiles/0", "retention_hint", json!("briefly")),
            (
                "/permission_profiles/0",
                "rule_matching_fields",
                json!(["command"]),
            ),
            ("/permission_profiles/0", "schema_version", json!("0.2.7")),
        ] {
            set(toolkit, object, field, value);
        }
    });
    let places = vec![
        "/a_field_of_tomorrow",
        "/declarations/0/colour",
        "/declarations/0/tool_kind",
        "/declarations/0/input_contract/sensitive_fields/0",
        "/interfaces/0/title",
        "/interfaces/0/is_destructive",
        "/interfaces/0/is_open_world",
        "/interfaces/0/rendering",
        "/execution_profiles/0/supports_background",
        "/permission_profiles/0/retention_hint",
        "/permission_profiles/0/rule_matching_fields/0",
        "/permission_profiles/0/schema_version",
    ];
    (component, places)
}

#[test]
fn unknown_fields_and_unused_hints_survive_and_are_named_by_describe_and_doctor() {
    let (_guard, folder) = scratch();
    let (component, places) = with_notes();
    let tool = write(&folder, &component);
    let described = Toolcell::new(["describe", &tool, "--json"])
        .run()
        .exits(0)
        .json();
    let noted: Vec<&str> = described["notes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|note| note["path"].as_str().unwrap())
        .collect();
    assert!(
        places.iter().all(|place| noted.contains(place)) && noted.len() == places.len(),
        "{noted:#?}"
    );
    assert_eq!(described["declarations"][0]["colour"], "red");
    assert_eq!(
        described["permission_profiles"][0]["retention_hint"],
        "briefly"
    );
    let people = Toolcell::new(["describe", &tool]).run().exits(0).stdout;
    assert!(people.contains("  notes:\n"), "{people}");
    std::fs::write(
        folder.join("toolcell.toml"),
        "[[tool]]\ncomponent = \"tool.wasm\"\n",
    )
    .unwrap();
    let home = folder.join("home");
    let doctor = Toolcell::at(&home, ["doctor", "--config=toolcell.toml"])
        .dir(&folder)
        .run()
        .stdout;
    for place in places {
        assert!(
            people.contains(&format!("    {place}: ")),
            "{place}: {people}"
        );
        assert!(
            doctor.contains(&format!("note: tool.wasm: {place}: ")),
            "{place}: {doctor}"
        );
    }
}

#[test]
fn doctor_lists_why_a_component_does_not_load() {
    let (_guard, folder) = scratch();
    write(
        &folder,
        &changed(|toolkit| toolkit["permission_profiles"][0]["risk_level"] = json!("tiny")),
    );
    std::fs::write(
        folder.join("toolcell.toml"),
        "[[tool]]\ncomponent = \"tool.wasm\"\n",
    )
    .unwrap();
    let arguments = ["doctor", "--config=toolcell.toml", "--json"];
    let checks = Toolcell::at(&folder.join("home"), arguments)
        .dir(&folder)
        .run()
        .exits(1)
        .json();
    let missing = checks["checks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|check| check["subject"] == "tool")
        .unwrap();
    assert_eq!(missing["state"], "missing");
    assert!(
        missing["detail"]
            .as_str()
            .unwrap()
            .contains("/permission_profiles/0/risk_level: "),
        "{missing}"
    );
}

#[test]
fn build_names_what_has_no_effect() {
    let _turn = BUILDING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    fixture("probe");
    let ran = build::with_toolchain(&root(), &["build", "tests/guests/probe"])
        .run()
        .exits(0);
    let is_note =
        |line: &str| line.starts_with("note: /") && line.contains("/rule_matching_fields/0: ");
    assert!(ran.stderr.lines().any(is_note), "{}", ran.stderr);
    assert!(ran.stdout.ends_with("probe.wasm\n"), "{}", ran.stdout);
    let ran = build::with_toolchain(&root(), &["build", "tests/guests/probe", "--json"])
        .run()
        .exits(0)
        .json();
    let is_note = |note: &Value| {
        note["path"]
            .as_str()
            .is_some_and(|path| path.ends_with("/rule_matching_fields/0"))
    };
    assert!(
        ran["notes"].as_array().unwrap().iter().any(is_note),
        "{ran:#}"
    );
}

#[test]
fn one_tool_of_a_component_is_described_with_its_own_notes() {
    let notes = |tool: &str| {
        let described = Toolcell::new(["describe", &guest(tool), "--json"])
            .run()
            .exits(0)
            .json();
        described["notes"].as_array().unwrap().clone()
    };
    // Both profiles name paths, and only the other tool's interface says which argument is one.
    let append = notes("probe#append_approved");
    let is_note = |note: &Value| {
        note["path"]
            .as_str()
            .unwrap()
            .ends_with("/rule_matching_fields/0")
    };
    assert!(append.iter().any(is_note), "{append:?}");
    let named = notes("probe#read_named");
    assert!(
        !named.iter().any(|note| note["path"]
            .as_str()
            .unwrap()
            .contains("rule_matching_fields")),
        "{named:?}"
    );
}
