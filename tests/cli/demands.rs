//! What a component demands and this host cannot do, or only in part: it loads, and no call does what was not meant.
//!
//! Promise: No limit is lost silently.

use serde_json::{Value, json};

use super::strict::{changed, described, errors, set, write};
use crate::pipeline::doubles::echoing;
use crate::support::{Client, Home, Toolcell, scratch};

/// Calls a tool that differs from one without secrets, under these options.
fn call_of(change: impl FnOnce(&mut Value), options: &[&str]) -> Value {
    let (_guard, folder) = scratch();
    let component = changed(|toolkit| {
        let profile = toolkit["permission_profiles"][0].as_object_mut().unwrap();
        profile.retain(|field, _| !field.starts_with("credential"));
        change(toolkit);
    });
    let tool = write(&folder, &component);
    described(&component).exits(0);
    let call = ["call", &tool, "{}", "--allow-read=.", "--json"]
        .into_iter()
        .chain(options.iter().copied());
    Toolcell::new(call).dir(&folder).run().json()
}

#[test]
fn a_demand_that_this_host_cannot_meet_loads_and_every_call_is_refused() {
    for (object, field, value) in [
        (
            "/declarations/0/input_contract",
            "argument_mode",
            json!("stream"),
        ),
        (
            "/declarations/0/input_contract",
            "media_mode",
            json!(["image/png"]),
        ),
        (
            "/declarations/0/input_contract",
            "mutation_policy",
            json!({"hooks": "sometimes"}),
        ),
        (
            "/declarations/0/output_contract",
            "redaction_policy_refs",
            json!(["p1"]),
        ),
        (
            "/declarations/0/output_contract",
            "rendering_boundary",
            json!("in the middle"),
        ),
        ("/permission_profiles/0", "tenant_scope", json!("tenant:7")),
    ] {
        let component = changed(|toolkit| set(toolkit, object, field, value.clone()));
        let described = described(&component).exits(0).stdout;
        assert!(
            described.contains(&format!("{object}/{field}: ")),
            "{described}"
        );
        let record = call_of(|toolkit| set(toolkit, object, field, value.clone()), &[]);
        assert_eq!(record["error"]["error_class"], "capability_gap", "{field}");
        assert_eq!(
            record["error"]["error_code"], "declaration_not_honoured",
            "{field}"
        );
        assert!(
            record["error"]["message"].as_str().unwrap().contains(field),
            "{record}"
        );
        // Nothing is listed that no call can reach.
        let (_guard, folder) = scratch();
        let mut client = Client::run(Toolcell::new(["mcp", &write(&folder, &component)]));
        client.initialize(crate::support::OLD);
        assert_eq!(
            client.request("tools/list", json!({}))["result"]["tools"],
            json!([]),
            "{field}"
        );
    }
}

#[test]
fn a_field_that_its_author_marks_as_his_own_limits_nothing_and_is_kept() {
    let own = ["x_timeout_ms", "x-strict", "acme.timeout_ms", "acme:strict"];
    let marked = |toolkit: &mut Value| {
        for object in ["/execution_profiles/0", "/interfaces/0", "/declarations/0"] {
            own.iter()
                .for_each(|name| set(toolkit, object, name, json!([1])));
        }
        set(
            toolkit,
            "/declarations/0",
            "annotations",
            json!({ "readOnlyHint": true }),
        );
    };
    assert_eq!(call_of(marked, &[])["error"], Value::Null);
    let (_guard, folder) = scratch();
    let tool = write(&folder, &changed(marked));
    let records = Toolcell::new(["describe", &tool, "--json"])
        .run()
        .exits(0)
        .json();
    let noted = |place: &str| {
        let mut notes = records["notes"].as_array().unwrap().iter();
        notes
            .find(|note| note["path"] == place)
            .map(|note| note["message"].as_str().unwrap().to_owned())
            .unwrap_or_default()
    };
    for name in own {
        assert_eq!(records["declarations"][0][name], json!([1]));
        let note = noted(&format!("/execution_profiles/0/{name}"));
        assert!(note.contains("it is kept, and has no effect"), "{note}");
    }
    assert!(noted("/declarations/0/annotations").starts_with("untrusted"));
}

#[test]
fn what_rules_and_people_cannot_be_sure_of_needs_an_approval() {
    for (object, field, value) in [
        ("/interfaces/0", "requires_user_interaction", json!(true)),
        (
            "/interfaces/0",
            "permission_matcher",
            json!("classifier:risk"),
        ),
        ("/interfaces/0", "permission_matcher", json!("path")),
        ("/permission_profiles/0", "policy_refs", json!(["p1"])),
        (
            "/permission_profiles/0",
            "rule_matching_fields",
            json!(["path"]),
        ),
        (
            "/permission_profiles/0",
            "rule_matching_fields",
            json!(["native_operation_id"]),
        ),
        (
            "/interfaces/0",
            "permission_matcher",
            json!("native_operation_id"),
        ),
    ] {
        let record = call_of(
            |toolkit| set(toolkit, object, field, value.clone()),
            &["--mode=non_interactive"],
        );
        assert_eq!(
            record["error"]["error_code"], "approval_not_possible",
            "{field} {value}"
        );
    }
    let heard = |toolkit: &mut Value| {
        set(
            toolkit,
            "/interfaces/0",
            "permission_matcher",
            json!("path"),
        );
        set(
            toolkit,
            "/interfaces/0",
            "permission_subjects",
            json!({"/path": "path"}),
        );
    };
    assert_eq!(
        call_of(heard, &["--mode=non_interactive"])["error"],
        Value::Null
    );
    // The operation of another protocol, whichever record names it.
    for object in ["/declarations/0", "/interfaces/0"] {
        let mapped = |toolkit: &mut Value| {
            set(
                toolkit,
                "/interfaces/0",
                "permission_subjects",
                json!({"/path": "path"}),
            );
            set(
                toolkit,
                "/interfaces/0",
                "permission_matcher",
                json!("native_operation_id"),
            );
            set(
                toolkit,
                "/permission_profiles/0",
                "rule_matching_fields",
                json!(["path", "native_operation_id"]),
            );
            set(
                toolkit,
                object,
                "external_mappings",
                json!([{"source": "openapi", "operation_id": "getPet"}]),
            );
        };
        assert_eq!(
            call_of(mapped, &["--mode=non_interactive"])["error"],
            Value::Null,
            "{object}"
        );
        let described = described(&changed(mapped)).exits(0).stdout;
        assert!(
            !described.contains("rule_matching_fields/")
                && !described.contains("permission_matcher: "),
            "{described}"
        );
    }
}

#[test]
fn a_tool_that_no_caller_may_have_is_refused_by_its_own_word() {
    let predicate = call_of(
        |toolkit| {
            set(
                toolkit,
                "/interfaces/0",
                "is_enabled",
                json!("classifier:x"),
            )
        },
        &[],
    );
    assert_eq!(predicate["error"]["error_code"], "tool_disabled");
    let written = interface(&json!({ "is_enabled": "classifier:x" }));
    assert_eq!(written["is_enabled"], "classifier:x");
    assert_eq!(
        (
            &written["availability"]["is_enabled"],
            &written["availability"]["setup_state"]
        ),
        (&json!(false), &json!("disabled"))
    );
    for (fact, code) in [(true, Value::Null), (false, json!("tool_disabled"))] {
        let same = |toolkit: &mut Value| {
            set(
                toolkit,
                "/interfaces/0",
                "is_enabled",
                json!("same_as:is_read_only"),
            );
            set(toolkit, "/interfaces/0", "is_read_only", json!(fact));
        };
        assert_eq!(
            call_of(same, &[])
                .pointer("/error/error_code")
                .unwrap_or(&Value::Null),
            &code
        );
    }
    let internal = |toolkit: &mut Value| {
        set(
            toolkit,
            "/interfaces/0",
            "schema_visibility",
            json!("internal"),
        )
    };
    let refused = call_of(internal, &[]);
    assert_eq!(refused["error"]["error_class"], "schema_not_loaded");
    assert_eq!(refused["error"]["error_code"], "schema_internal");
}

#[test]
fn records_inside_of_a_declaration_count_as_those_beside_it() {
    let component = echoing("embedded", |toolkit| {
        let declaration = &mut toolkit["declarations"][0];
        declaration["input_contract"] = json!({ "schema": { "type": "object", "properties": { "n": { "type": "integer" } } }, "defaults": { "n": "x" } });
        declaration["search_hint"] = json!("one");
        declaration["execution_profile"] = json!({ "timeout_ms": 900 });
        declaration["permission_profile"] =
            json!({ "risk_level": "low", "approval_required": true });
    });
    let (_guard, folder) = scratch();
    let tool = write(&folder, &component);
    let records = Toolcell::new(["describe", &tool, "--json"])
        .run()
        .exits(0)
        .json();
    assert_eq!(records["execution_profiles"][0]["timeout_ms"], 900);
    assert_eq!(records["permission_profiles"][0]["approval_required"], true);
    let declaration = &records["declarations"][0];
    assert_eq!(
        declaration["execution_profile_ref"],
        records["execution_profiles"][0]["execution_profile_id"]
    );
    assert_eq!(
        declaration["permission_profile_ref"],
        records["permission_profiles"][0]["permission_profile_id"]
    );
    let noted: Vec<&str> = records["notes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|note| note["path"].as_str().unwrap())
        .collect();
    assert_eq!(
        noted,
        [
            "/declarations/0/search_hint",
            "/declarations/0/input_contract/defaults/n"
        ]
    );
    let call = |input| {
        Toolcell::new(["call", &tool, input, "--json", "--mode=non_interactive"])
            .run()
            .json()
    };
    assert_eq!(
        call("{\"n\": \"x\"}")["error"]["error_class"],
        "schema_validation_failed"
    );
    assert_eq!(
        call("{\"n\": 1}")["error"]["error_code"],
        "approval_not_possible"
    );
    let both = errors(&echoing("embedded", |toolkit| {
        toolkit["declarations"][0]["input_contract"]["schema"] = json!({ "type": "object" });
    }));
    assert!(
        both.len() == 1 && both[0].contains("remove one of them"),
        "{both:?}"
    );
}

#[test]
fn an_interface_has_all_concerns_and_a_profile_has_one_id() {
    let records = |component: &[u8]| {
        let (_guard, folder) = scratch();
        Toolcell::new(["describe", &write(&folder, component), "--json"])
            .run()
            .exits(0)
            .json()
    };
    let silent = records(&echoing("silent", |_| {}));
    let interface = &silent["interfaces"][0];
    for (field, said) in [
        ("is_read_only", json!(false)),
        ("is_concurrency_safe", json!(false)),
        ("is_destructive", json!(true)),
        ("is_open_world", json!(true)),
        ("requires_user_interaction", json!(false)),
        ("sandbox_profile", json!("granted")),
        ("permission_matcher", json!("tool")),
        ("permission_subjects", json!({})),
        ("persistence_policy_ref", json!("preview_and_persist")),
        (
            "persistence",
            json!({
                "previews": true, "durable_refs": true, "journal": true, "redaction": "none", "empty_result": "marker",
            }),
        ),
        ("abort_semantics", json!("forced")),
        (
            "progress_schema",
            json!("https://github.com/toolcell/toolcell/schemas/progress.schema.json"),
        ),
        ("context_modifier_policy", json!("forbid")),
        ("classifier_input", json!("permission_input")),
        ("empty_result_policy", json!("marker")),
    ] {
        assert_eq!(interface[field], said, "{field}");
    }
    for field in [
        "name",
        "aliases",
        "namespace",
        "native_ids",
        "user_facing_name",
        "model_input_schema",
        "runtime_input_schema",
        "strict",
        "schema_visibility",
        "is_enabled",
        "availability",
        "validation",
        "rendering",
        "execution_profile_ref",
    ] {
        assert!(!interface[field].is_null(), "{field}: {interface:#}");
    }
    let shared = echoing("shared", |toolkit| {
        toolkit["declarations"][0]["execution_profile_ref"] = json!("e");
        let mut other = toolkit["declarations"][0].clone();
        other["name"] = json!("other");
        other["permission_profile_ref"] = json!("p");
        toolkit["declarations"].as_array_mut().unwrap().push(other);
        toolkit["execution_profiles"] = json!([{"schema_version": "0.2.0", "execution_profile_id": "e", "execution_kind": "embedded_runtime"}]);
        toolkit["permission_profiles"] = json!([{
            "schema_version": "0.2.0", "permission_profile_id": "p", "risk_level": "low", "access_kinds": ["file_write"],
        }]);
    });
    let records = records(&shared);
    let ids: Vec<&Value> = (0..2)
        .map(|at| &records["execution_profiles"][at]["execution_profile_id"])
        .collect();
    assert_ne!(ids[0], ids[1], "their contents differ: {records:#}");
    assert_eq!(
        ids,
        [0, 1].map(|at| &records["declarations"][at]["execution_profile_ref"])
    );
    assert_eq!(
        records["execution_profiles"][0]["sandbox_profile"],
        "granted"
    );
}

/// The fields of the interface of `strict.echo` that `describe` prints, if a component writes `own` into it.
fn interface(own: &Value) -> Value {
    let component = changed(|toolkit| {
        own.as_object()
            .unwrap()
            .iter()
            .for_each(|(field, value)| set(toolkit, "/interfaces/0", field, value.clone()));
    });
    let (_guard, folder) = scratch();
    Toolcell::new(["describe", &write(&folder, &component), "--json"])
        .run()
        .exits(0)
        .json()["interfaces"][0]
        .clone()
}

#[test]
fn a_gated_tool_is_described_as_a_call_finds_it() {
    let (home, (_guard, folder)) = (Home::new(), scratch());
    let gated = changed(|toolkit| {
        let profile = toolkit["permission_profiles"][0].as_object_mut().unwrap();
        profile.retain(|field, _| !field.starts_with("credential"));
        set(
            toolkit,
            "/interfaces/0",
            "is_enabled",
            json!("feature:beta"),
        );
        set(toolkit, "/interfaces/0", "is_open_world", json!("oracle:x"));
    });
    let tool = write(&folder, &gated);
    let run = |arguments: &[&str]| home.toolcell(arguments).dir(&folder).run();
    for (settings, is_open) in [
        ("[surface]\nfeatures = [\"alpha\"]\n", false),
        ("[surface]\nfeatures = [\"beta\"]\n", true),
        // Every call is refused.
        (
            "[surface]\nfeatures = [\"beta\"]\nrole = \"nobody\"\n",
            false,
        ),
    ] {
        home.configure(settings);
        run(&["call", &tool, "{}", "--allow-read=."]).exits(if is_open { 0 } else { 3 });
        let records = run(&["describe", &tool, "--json"]).exits(0).json();
        let interface = &records["interfaces"][0];
        assert_eq!(interface["is_enabled"], "feature:beta");
        assert_eq!(
            interface["availability"]["is_enabled"], is_open,
            "{settings}"
        );
        let shown = run(&["describe", &tool]).exits(0).stdout;
        assert_eq!(shown.contains("to call it:"), is_open, "{shown}");
        assert_eq!(
            shown.contains("(behind a feature gate)"),
            !is_open,
            "{shown}"
        );
        assert!(
            shown.contains("is_open_world: a predicate counts as unstated"),
            "{shown}"
        );
    }
}

#[test]
fn an_interface_says_of_its_tool_what_holds_here() {
    let lies = interface(&json!({
        "native_ids": ["lie"], "namespace": "strict", "user_facing_name": "Reader", "availability": 5,
        "rendering": { "progress": "a bar", "theme": "dark" },
    }));
    assert_eq!(
        (&lies["native_ids"], &lies["namespace"]),
        (&json!([]), &json!("strict"))
    );
    assert_eq!(
        (
            &lies["user_facing_name"],
            &lies["availability"]["setup_state"]
        ),
        // Its secret is not set.
        (&json!("Reader"), &json!("requires_setup"))
    );
    let truth = interface(&json!({
        "abort_semantics": "never", "progress_schema": {}, "empty_result_policy": "a poem", "classifier_input": 7,
        "external_mappings": [
            { "source": "mcp", "server_id": "s", "mcp_session_id": "m", "jsonrpc_request_id": 7, "method": "tools/call" },
            { "source": "a2a", "agent_skill_id": "k", "task_id": "t", "context_id": "c", "message_id": "s" },
            { "source": "browser", "browser_session_id": "b", "page_id": "p", "action_id": "a" },
        ],
    }));
    assert_eq!(
        truth["native_ids"],
        json!(["s", "m", 7, "k", "t", "c", "b", "p", "a"])
    );
    assert_eq!(truth["abort_semantics"], "forced");
    assert!(
        truth["progress_schema"]
            .as_str()
            .unwrap()
            .ends_with("progress.schema.json")
    );
    assert_eq!(truth["persistence"]["empty_result"], "marker");
    let rendering = &lies["rendering"];
    assert_eq!(
        (&rendering["progress"], &rendering["theme"]),
        (&json!("a bar"), &json!("dark"))
    );
    assert_eq!(rendering["model_facing"], "result.model_facing_content");
    let other = errors(&changed(|toolkit| {
        set(toolkit, "/interfaces/0", "namespace", json!("other"))
    }));
    assert!(
        other.len() == 1 && other[0].starts_with("/interfaces/0/namespace: "),
        "{other:?}"
    );
    let named = described(&changed(|toolkit| {
        set(toolkit, "/declarations/0", "title", json!("Title"));
        set(toolkit, "/interfaces/0", "user_facing_name", json!("Other"));
        set(toolkit, "/interfaces/0", "native_ids", json!(["lie"]));
    }));
    let named = named.exits(0).stdout;
    for place in [
        "/interfaces/0/user_facing_name: ",
        "/interfaces/0/native_ids: ",
    ] {
        assert!(named.contains(place), "{place}: {named}");
    }
}

#[test]
fn the_places_of_a_rendering_are_those_of_a_record() {
    let rendering = interface(&json!({}))["rendering"].clone();
    let record = |change: fn(&mut Value)| {
        let (_guard, folder) = scratch();
        let component = echoing("places", change);
        Toolcell::new(["call", &write(&folder, &component), "{}", "--print-record"])
            .run()
            .json()
    };
    let (record, failed) = (
        record(|_| {}),
        record(|kit| kit["declarations"][0]["lifecycle"] = json!("draft")),
    );
    for (name, place) in rendering.as_object().unwrap() {
        let pointer = format!("/{}", place.as_str().unwrap().replace('.', "/"));
        let record = if name == "rejection" {
            &failed
        } else {
            &record
        };
        assert!(record.pointer(&pointer).is_some(), "{name}: {record:#}");
    }
}

#[test]
fn a_schema_is_deferred_by_either_word_and_one_from_elsewhere_loads() {
    for (own, visibility, is_deferred) in [
        (json!({ "schema_visibility": "deferred" }), "deferred", true),
        (json!({ "should_defer": true }), "deferred", true),
        (
            json!({ "schema_visibility": "native_ref" }),
            "native_ref",
            false,
        ),
        (json!({ "schema_visibility": "loaded" }), "loaded", false),
    ] {
        let interface = interface(&own);
        let said = (
            &interface["schema_visibility"],
            &interface["availability"]["is_deferred"],
        );
        assert_eq!(said, (&json!(visibility), &json!(is_deferred)), "{own}");
        let extend = |toolkit: &mut Value| {
            own.as_object()
                .unwrap()
                .iter()
                .for_each(|(name, value)| set(toolkit, "/interfaces/0", name, value.clone()));
        };
        let error = call_of(extend, &[])["error"]["error_class"].clone();
        let is_refused = own["schema_visibility"] == "deferred";
        assert_eq!(
            error,
            if is_refused {
                json!("schema_not_loaded")
            } else {
                Value::Null
            },
            "{own}"
        );
    }
    let (_guard, folder) = scratch();
    let component = changed(|toolkit| {
        set(
            toolkit,
            "/interfaces/0",
            "schema_visibility",
            json!("deferred"),
        )
    });
    let mut client = Client::run(Toolcell::new(["mcp", &write(&folder, &component)]));
    client.initialize(crate::support::OLD);
    let listed = client.request("tools/list", json!({}))["result"]["tools"].clone();
    assert!(
        listed
            .as_array()
            .unwrap()
            .iter()
            .all(|tool| tool["name"] != "strict_echo"),
        "{listed:#}"
    );
}

#[test]
fn the_sandbox_of_an_interface_counts_if_the_permission_profile_names_no_other() {
    let granted = interface(&json!({ "sandbox_profile": "granted" }));
    assert_eq!(granted["sandbox_profile"], "granted");
    assert_eq!(
        interface(&json!({ "sandbox_profile": "read_only" }))["sandbox_profile"],
        "read_only"
    );
    let unknown = call_of(
        |toolkit| set(toolkit, "/interfaces/0", "sandbox_profile", json!("a_vm")),
        &[],
    );
    assert_eq!(unknown["error"]["error_code"], "sandbox_profile_unknown");
    let unknown = interface(&json!({ "sandbox_profile": "a_vm" }));
    assert_eq!(unknown.get("sandbox_profile"), None, "it is never applied");
    let errors = errors(&changed(|toolkit| {
        set(
            toolkit,
            "/interfaces/0",
            "sandbox_profile",
            json!("read_only"),
        );
        set(
            toolkit,
            "/permission_profiles/0",
            "sandbox_profile",
            json!("empty"),
        );
    }));
    assert!(
        errors.len() == 1 && errors[0].starts_with("/interfaces/0/sandbox_profile: "),
        "{errors:?}"
    );
}

#[test]
fn tools_that_share_a_permission_profile_get_two_if_one_names_a_sandbox() {
    let component = echoing("apart", |toolkit| {
        toolkit["declarations"][0]["permission_profile_ref"] = json!("p");
        let mut other = toolkit["declarations"][0].clone();
        other["name"] = json!("other");
        other["interface_ref"] = json!("i");
        toolkit["declarations"].as_array_mut().unwrap().push(other);
        toolkit["interfaces"] = json!([{
            "schema_version": "0.2.0", "interface_id": "i", "tool_id": "apart.other", "sandbox_profile": "read_only",
        }]);
        toolkit["permission_profiles"] = json!([{ "schema_version": "0.2.0", "permission_profile_id": "p", "risk_level": "low" }]);
    });
    let (_guard, folder) = scratch();
    let records = Toolcell::new(["describe", &write(&folder, &component), "--json"])
        .run()
        .exits(0)
        .json();
    for (at, id, sandbox) in [
        (0, "p.echo", &Value::Null),
        (1, "p.other", &json!("read_only")),
    ] {
        let profile = &records["permission_profiles"][at];
        assert_eq!(
            (
                &profile["permission_profile_id"],
                &profile["sandbox_profile"]
            ),
            (&json!(id), sandbox)
        );
        assert_eq!(records["declarations"][at]["permission_profile_ref"], id);
    }
}

#[test]
fn the_secrets_of_a_mapping_are_those_of_its_own_tool_alone() {
    let mapped = |schemes: Value| {
        let mapping = json!([{ "source": "openapi", "operation_id": "get", "security_scheme_refs": schemes }]);
        echoing("mapped", |toolkit| {
            toolkit["declarations"][0]["permission_profile_ref"] = json!("p");
            let mut other = toolkit["declarations"][0].clone();
            other["name"] = json!("other");
            other["interface_ref"] = json!("i");
            toolkit["declarations"].as_array_mut().unwrap().push(other);
            toolkit["interfaces"] = json!([{
                "schema_version": "0.2.0", "interface_id": "i", "tool_id": "mapped.other", "external_mappings": mapping,
            }]);
            toolkit["permission_profiles"] = json!([{
                "schema_version": "0.2.0", "permission_profile_id": "p", "risk_level": "low",
                "access_kinds": ["credential"], "credential_refs": ["A"], "credential_uses": [{ "ref": "B", "query": "b" }],
            }]);
        })
    };
    let (_guard, folder) = scratch();
    let tool = write(&folder, &mapped(json!(["B", "A"])));
    let records = Toolcell::new(["describe", &tool, "--json"])
        .run()
        .exits(0)
        .json();
    for (at, secrets) in [(0, json!(["A"])), (1, json!(["A", "B"]))] {
        assert_eq!(
            records["permission_profiles"][at]["credential_refs"],
            secrets
        );
    }
    let many: Vec<String> = (0..17).map(|at| format!("S{at}")).collect();
    for (schemes, place) in [
        (json!("B"), "/interfaces/0/external_mappings/0: "),
        (json!([1]), "/interfaces/0/external_mappings/0: "),
        (json!(many), "/interfaces/0/external_mappings: "),
    ] {
        let errors = errors(&mapped(schemes));
        assert!(
            errors.iter().any(|error| error.starts_with(place)),
            "{errors:?}"
        );
    }
    // A tool without a profile gets one, and a component that can send no secret is named before it is published.
    let bare = echoing("bare", |toolkit| {
        toolkit["declarations"][0]["external_mappings"] =
            json!([{ "source": "openapi", "operation_id": "get", "security_scheme_refs": ["A"] }]);
    });
    let tool = write(&folder, &bare);
    let checked = Toolcell::new(["check", &tool]).run().stdout;
    assert!(checked.contains("asks for secrets"), "{checked}");
    let refused = Toolcell::new(["call", &tool, "{}"]).run().exits(3).stderr;
    assert!(
        refused.contains("--allow-secret=A@https://HOST"),
        "{refused}"
    );
    let unmapped = echoing("unmapped", |toolkit| {
        toolkit["declarations"][0]["external_mappings"] =
            json!([{ "source": "mcp", "tool_name": "t", "security_scheme_refs": ["A"] }]);
    });
    let tool = write(&folder, &unmapped);
    Toolcell::new(["call", &tool, "{}"]).run().exits(0);
}

#[test]
fn a_result_of_a_tool_that_says_how_long_ends_then() {
    let home = Home::new();
    let (_guard, folder) = scratch();
    let kept = |hint: &str| {
        let tool = write(
            &folder,
            &echoing("lasting", |toolkit| {
                toolkit["declarations"][0]["permission_profile"] =
                    json!({ "risk_level": "low", "retention_hint": hint });
            }),
        );
        let record = home.call(&tool, &json!({ "text": hint.repeat(60_000) }), &[]);
        let stored = record["result"]["resource_refs"][0]["uri"]
            .as_str()
            .unwrap()
            .to_owned();
        let id = record["invocation"]["invocation_id"]
            .as_str()
            .unwrap()
            .to_owned();
        // The call stays on record.
        assert!(
            home.toolcell(&["show", &id])
                .run()
                .exits(0)
                .stdout
                .contains("succeeded")
        );
        home.toolcell(&["artifact", &stored]).run().code == Some(0)
    };
    assert_eq!((kept("1d"), kept("0s")), (true, false));
}

#[test]
fn a_result_that_the_tool_wants_kept_nowhere_is_on_no_disk() {
    let hinted = |hint: &str| {
        let component = echoing("kept", |toolkit| {
            toolkit["declarations"][0]["permission_profile"] =
                json!({ "risk_level": "low", "retention_hint": hint });
        });
        let (_guard, folder) = scratch();
        let tool = write(&folder, &component);
        Toolcell::new(["call", &tool, "{\"a\": 1}", "--print-record"])
            .run()
            .exits(0)
            .json()["persistence"]
            .clone()
    };
    assert_eq!(hinted("transient")[0]["strategy"], "never_persist");
    assert_ne!(hinted("30d")[0]["strategy"], "never_persist");
}
