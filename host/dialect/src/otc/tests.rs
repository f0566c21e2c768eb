use serde_json::{Value, json};
use toolcell_spec::{Content, ErrorClass, ErrorCode, Recoverability};

use super::samples::{
    COMPONENT, SECRET, Sample, TOKEN, check, failed, invocation, result as record,
};
use super::{
    Authorization, AuthorizationStatus, OtcMode, OtcReply, OtcToolName, OtcToolNames, Requirement,
    ToolReference, definition, import, result, secrets,
};

fn replied(change: Value, reply: &OtcReply<'_>) -> Value {
    let response = result(&invocation(), &record(change), reply);
    check("response", reply.mode, &response);
    response
}

fn answered(change: Value, mode: OtcMode) -> Value {
    replied(change, &OtcReply::new(mode, "exec-1"))
}

/// `None` without the specifications.
fn published(name: &str) -> Option<Value> {
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let file = root.join(format!(
        "../shared/spec/open-tool-calling/{name}.schema.json"
    ));
    Some(serde_json::from_slice(&std::fs::read(file).ok()?).unwrap())
}

#[track_caller]
fn check_published(schema: &Value, value: &Value) {
    let validator = jsonschema::validator_for(schema).unwrap();
    let found: Vec<String> = validator
        .iter_errors(value)
        .map(|error| error.to_string())
        .collect();
    assert!(found.is_empty(), "{found:#?}\n{value:#}");
}

#[test]
fn a_definition_says_the_same_in_every_format_in_its_own_words() {
    let sample = Sample::new();
    let described = OtcMode::ALL.map(|mode| definition(&sample.listed(), mode));
    for (mode, described) in OtcMode::ALL.iter().zip(&described) {
        check("definition", *mode, described);
        assert_eq!(
            (
                described["name"].as_str(),
                described["description"].as_str()
            ),
            (Some("find"), Some("Finds issues."))
        );
        assert_eq!(
            described["toolkit"],
            json!({
                "name": "issues", "version": COMPONENT,
                "description": "Tools of the namespace issues, in a WebAssembly component: the version is its digest.",
            })
        );
        let parameters = described["input"]["parameters"].as_array().unwrap();
        let facts: Vec<_> = parameters
            .iter()
            .map(|one| {
                (
                    one["name"].as_str().unwrap(),
                    one["required"] == true,
                    one["inferrable"] == true,
                )
            })
            .collect();
        assert_eq!(
            facts,
            [
                ("query", true, true),
                ("labels", false, true),
                ("range", false, true),
                ("pin", false, false)
            ]
        );
        assert_eq!(
            parameters[1]["value_schema"],
            json!({ "val_type": "array", "inner_val_type": "string" })
        );
        assert_eq!(parameters[0]["description"], "What to find.");
    }
    let [otc, seed, arcade] = &described;
    let name = format!("issues.find@{COMPONENT}");
    assert_eq!(
        (&otc["fully_qualified_name"], otc.get("id")),
        (&json!(name), None)
    );
    assert_eq!(
        (&seed["fully_qualified_name"], &seed["id"]),
        (&json!(name), &json!(name))
    );
    assert_eq!(
        (&arcade["fully_qualified_name"], arcade.get("id")),
        (&json!("issues.find"), None)
    );
    assert_eq!(
        otc["output"]["available_modes"],
        json!(["value", "error", "artifact", "requires_authorization"])
    );
    assert_eq!(
        arcade["output"]["available_modes"],
        json!(["value", "error", "requires_authorization"])
    );
    // What cannot be flattened is JSON with a note, where the format does not see into objects.
    let range = |described: &Value| described["input"]["parameters"][2].clone();
    assert_eq!(range(otc)["value_schema"], json!({ "val_type": "json" }));
    assert!(
        range(otc)["description"]
            .as_str()
            .unwrap()
            .contains("\"from\":{\"type\":\"integer\"}")
    );
    let members = json!({ "val_type": "json", "properties": { "from": { "val_type": "integer" } }, "required_keys": ["from"] });
    assert_eq!(
        (
            range(arcade)["value_schema"].clone(),
            range(arcade).get("description")
        ),
        (members, None)
    );
    let authorization = json!({ "provider_id": "github", "provider_type": "oauth2", "oauth2": { "scopes": ["repo"] } });
    let key_id = json!({ "secrets": [{ "key_id": SECRET }], "authorization": authorization });
    assert_eq!(
        (&otc["requirements"], &seed["requirements"]),
        (&key_id, &key_id)
    );
    assert_eq!(
        arcade["requirements"],
        json!({ "secrets": [{ "key": SECRET }], "authorization": authorization })
    );
    if let Some(schema) = published("tool_definition") {
        check_published(&schema, otc);
        assert!(
            !jsonschema::is_valid(&schema, seed),
            "the published schema allows `id` (O-04)"
        );
    }
}

#[test]
fn a_tool_that_requires_nothing_says_so_and_other_schemas_leave_a_note() {
    let mut sample = Sample::new();
    sample.permission.credential_refs.clear();
    sample.permission.credential_uses.clear();
    sample.input = json!({ "type": "object", "oneOf": [{ "required": ["a"] }] });
    sample.output = Some(json!({ "type": "boolean" }));
    for mode in OtcMode::ALL {
        let described = definition(&sample.listed(), mode);
        check("definition", mode, &described);
        assert_eq!(
            described["requirements"],
            json!({ "secrets": null, "authorization": null })
        );
        assert_eq!(
            described["output"]["available_modes"],
            json!(["value", "error"])
        );
        assert_eq!(described["input"]["parameters"], json!([]));
        assert!(
            described["description"]
                .as_str()
                .unwrap()
                .contains("cannot express: oneOf"),
            "{described}"
        );
    }
    sample.permission.credential_refs = vec![TOKEN.to_owned()];
    sample.permission.credential_uses =
        serde_json::from_value(json!([{ "ref": TOKEN, "authorization": "token" }])).unwrap();
    assert!(secrets(&sample.permission).is_empty());
    let demand = |mode| definition(&sample.listed(), mode)["requirements"]["authorization"].clone();
    assert_eq!(
        (demand(OtcMode::Otc), demand(OtcMode::Arcade)),
        (json!("token"), json!({ "provider_type": "token" }))
    );
    sample.output = None;
    let modes = definition(&sample.listed(), OtcMode::Otc)["output"]["available_modes"].clone();
    assert_eq!(
        modes,
        json!([
            "value",
            "error",
            "null",
            "artifact",
            "requires_authorization"
        ])
    );
}

#[test]
fn a_name_finds_its_tool_and_another_version_none() {
    let named = |toolkit: &str, name: &str| OtcToolName {
        toolkit: toolkit.to_owned(),
        name: name.to_owned(),
        version: COMPONENT.to_owned(),
    };
    // Both are `a.b.c`, so a name cannot be taken apart.
    let names = OtcToolNames::new(vec![named("a", "x"), named("a.b", "c"), named("a", "b.c")]);
    let resolve = |toolkit: &str, name: &str, version: Option<&str>| {
        let reference = ToolReference {
            toolkit: toolkit.to_owned(),
            name: name.to_owned(),
            version: version.map(str::to_owned),
        };
        names.resolve(&reference)
    };
    assert_eq!(resolve("a.b", "c", Some(COMPONENT)).unwrap(), 1);
    assert_eq!(resolve("a", "b.c", None).unwrap(), 2);
    let wrong = resolve("a", "x", Some("sha256:11")).unwrap_err();
    assert_eq!(
        (wrong.class, wrong.code),
        (ErrorClass::UnknownTool, ErrorCode::VersionMismatch)
    );
    let unknown = resolve("a", "y", Some(COMPONENT)).unwrap_err();
    assert_eq!(
        (unknown.class, unknown.code),
        (ErrorClass::UnknownTool, ErrorCode::UnknownTool)
    );
    assert!(unknown.message.contains("a.x"));
    for mode in OtcMode::ALL {
        assert_eq!(names.find(&named("a", "x").fully_qualified(mode)), Some(0));
    }
    assert_eq!(names.find("a.y"), None);
}

/// Retryable classes (requirements 3.4), in the order of the specification.
const RETRIES: [bool; 22] = [
    false, true, true, true, false, false, false, false, false, false, false, false, true, true,
    true, false, false, true, false, true, false, true,
];

#[test]
fn every_error_class_is_the_error_arm_of_every_format() {
    for mode in OtcMode::ALL {
        for (class, can_retry) in ErrorClass::ALL.into_iter().zip(RETRIES) {
            let response = answered(failed(class), mode);
            assert_eq!(
                (&response["success"], &response["execution_id"]),
                (&json!(false), &json!("exec-1"))
            );
            let error = &response["output"]["error"];
            assert_eq!(
                (&error["message"], &error["can_retry"]),
                (&json!("the message"), &json!(can_retry)),
                "{class:?}"
            );
            let word = json!(class);
            let prompt = error["additional_prompt_content"].as_str().unwrap();
            assert!(
                prompt.starts_with(&format!("{}/too_many_calls: ", word.as_str().unwrap())),
                "{prompt}"
            );
            let wait = (class == ErrorClass::RateLimited).then(|| json!(2));
            assert_eq!(error.get("retry_after_ms"), wait.as_ref());
            assert_eq!(error.get("kind").is_some(), mode == OtcMode::Arcade);
            assert!(
                !response.to_string().contains("the trap")
                    && !response.to_string().contains("/home"),
                "{response}"
            );
            let back = import(&response).unwrap();
            let imported = back.error.unwrap();
            assert_eq!(
                (imported.error_class, imported.message.as_str()),
                (ErrorClass::ExecutionFailed, "the message")
            );
            assert_eq!(
                imported.recoverability == Recoverability::RetrySame,
                can_retry
            );
            assert_eq!(imported.retry_after, wait.map(|_| 0.002));
            assert_eq!(back.additional_context, [json!(prompt)]);
        }
    }
}

#[test]
fn a_call_that_may_have_had_an_effect_is_not_retried_after_a_timeout_unless_the_tool_says_so() {
    let mut change = failed(ErrorClass::Timeout);
    change["error"]["retry"]["safe"] = json!(false);
    assert_eq!(
        answered(change, OtcMode::Otc)["output"]["error"]["can_retry"],
        json!(false)
    );
    let mut change = failed(ErrorClass::ExecutionFailed);
    change["error"]["recoverability"] = json!("retry_same");
    assert_eq!(
        answered(change, OtcMode::Otc)["output"]["error"]["can_retry"],
        json!(true)
    );
}

#[test]
fn the_message_for_developers_names_the_call_and_the_hosts_code_and_nothing_that_others_wrote() {
    for mode in OtcMode::ALL {
        let response = answered(failed(ErrorClass::ExecutionFailed), mode);
        assert!(!response.to_string().contains("/home"), "{response}");
        let back = import(&response).unwrap();
        let said = back.developer_message.unwrap();
        assert!(
            said.contains("01ARZ3NDEKTSV4RRFFQ69G5FAV") && said.contains("execution_failed/"),
            "{said}"
        );
        assert!(!response.to_string().contains("the trap"), "{response}");
    }
}

#[test]
fn the_part_that_succeeded_and_what_hooks_add_are_in_the_prompt() {
    let mut change = failed(ErrorClass::PartialFailure);
    let text = |text: &str| json!({ "type": "text", "text": text });
    change["model_facing_content"] = json!([text("2 of 3 are there"), text("the message")]);
    change["additional_context"] = json!(["mind the gap", { "context": 7 }]);
    for mode in OtcMode::ALL {
        let response = answered(change.clone(), mode);
        let prompt = response["output"]["error"]["additional_prompt_content"]
            .as_str()
            .unwrap();
        assert!(
            prompt.ends_with("\nwhat succeeded: 2 of 3 are there\nmind the gap\n{\"context\":7}"),
            "{prompt}"
        );
    }
}

fn blocks() -> Vec<Value> {
    let reference = json!({
        "uri": "toolcell:payload/sha256:ab", "digest": "sha256:ab", "media_type": "text/plain", "size_bytes": 9,
    });
    vec![
        json!({ "type": "text", "text": "t" }),
        json!({ "type": "image", "data": "AAAA", "media_type": "image/png" }),
        json!({ "type": "audio", "data": "AAAA", "media_type": "audio/wav" }),
        json!({ "type": "video", "uri": "https://example.com/v.mp4" }),
        json!({ "type": "file", "data": "AAAA", "name": "a.bin" }),
        json!({ "type": "resource_link", "uri": "https://example.com/a", "name": "a" }),
        json!({ "type": "embedded_resource", "uri": "memo:1", "text": "m" }),
        json!({ "type": "diff", "diff": "+a" }),
        json!({ "type": "artifact_ref", "uri": "toolcell:payload/sha256:ab", "digest": "sha256:ab", "name": "a.csv",
                "media_type": "text/csv", "size_bytes": 9 }),
        json!({ "type": "handoff_ref", "to_agent": "b" }),
        json!({ "type": "persisted_output_ref", "of": "text", "preview": "pre", "persisted_ref": reference }),
    ]
}

#[test]
fn every_class_of_content_comes_through_every_format() {
    for mode in OtcMode::ALL {
        for block in blocks() {
            let response = answered(json!({ "model_facing_content": [block] }), mode);
            let output = &response["output"];
            let kind = block["type"].as_str().unwrap();
            let artifact = if mode == OtcMode::Arcade {
                &output["value"]["artifact"]
            } else {
                &output["artifact"]
            };
            match kind {
                "text" | "diff" => assert_eq!(output["value"], block[kind]),
                "artifact_ref" => assert_eq!(
                    *artifact,
                    json!({ "url": "toolcell:payload/sha256:ab", "content_type": "text/csv", "size": 9,
                            "meta": { "description": "a.csv" } })
                ),
                "persisted_output_ref" => {
                    assert_eq!(
                        (&artifact["size"], &artifact["content_type"]),
                        (&json!(9), &json!("text/plain"))
                    );
                    assert!(
                        artifact["meta"]["description"]
                            .as_str()
                            .unwrap()
                            .ends_with("it begins: pre")
                    );
                }
                _ => {
                    assert_eq!(
                        output["value"],
                        json!({ "$toolcell": "content", "content": [block] })
                    );
                    let back = import(&response).unwrap();
                    assert_eq!(
                        back.content,
                        [serde_json::from_value::<Content>(block.clone()).unwrap()]
                    );
                }
            }
            // A text beside it makes an artifact one block of several.
            let both = answered(
                json!({ "model_facing_content": [{ "type": "text", "text": "t" }, block] }),
                mode,
            );
            assert!(
                both["output"].get("artifact").is_none() && both["output"].get("value").is_some(),
                "{both}"
            );
        }
    }
}

#[test]
fn an_artifact_that_the_contract_promises_wins_over_the_value() {
    let artifact = blocks()[8].clone();
    let change = json!({ "structured_content": { "n": 1 }, "model_facing_content": [artifact] });
    let value = answered(change.clone(), OtcMode::Otc);
    assert_eq!(value["output"], json!({ "value": { "n": 1 } }));
    let reply = OtcReply {
        expects_artifact: true,
        artifacts: Some("https://tools.example.com/payloads/"),
        ..OtcReply::new(OtcMode::Otc, "exec-1")
    };
    let promised = replied(change, &reply);
    assert_eq!(
        promised["output"]["artifact"]["url"],
        json!("https://tools.example.com/payloads/sha256:ab")
    );
    let back = import(&promised).unwrap();
    assert_eq!(
        (
            back.content[0].kind.as_str(),
            &back.content[0].fields["size_bytes"]
        ),
        ("resource_link", &json!(9))
    );
}

#[test]
fn values_are_fitted_and_come_back() {
    let values = [
        json!({ "n": 1 }),
        json!(1.5),
        json!(true),
        json!([1, [2]]),
        json!([]),
        json!({ "$toolcell": "content", "content": [{ "type": "artifact_ref" }] }),
        json!({ "$toolcell": "wrapped", "value": 1 }),
    ];
    for mode in OtcMode::ALL {
        for value in &values {
            let response = answered(json!({ "structured_content": value }), mode);
            assert_eq!(response["success"], json!(true));
            let back = import(&response).unwrap();
            assert_eq!(
                (back.structured_content.as_ref(), back.content.as_slice()),
                (Some(value), [].as_slice())
            );
        }
        let with_context =
            json!({ "structured_content": 1, "additional_context": ["mind the gap"] });
        let back = import(&answered(with_context, mode)).unwrap();
        assert_eq!(
            (back.structured_content, back.additional_context),
            (Some(json!(1)), vec![json!("mind the gap")])
        );
        let text = import(&answered(json!({}), mode)).unwrap();
        assert_eq!(text.content, [Content::text("done")]);
    }
    assert_eq!(
        answered(json!({ "structured_content": [1] }), OtcMode::Arcade)["output"]["value"],
        json!([1])
    );
    let wrapped = json!({ "$toolcell": "wrapped", "value": [1] });
    assert_eq!(
        answered(json!({ "structured_content": [1] }), OtcMode::Otc)["output"]["value"],
        wrapped
    );
}

#[test]
fn an_empty_result_has_no_output() {
    for change in [
        json!({ "empty_result": true }),
        json!({ "model_facing_content": [] }),
    ] {
        for mode in [OtcMode::Otc, OtcMode::OtcSeed] {
            assert!(answered(change.clone(), mode).get("output").is_none());
        }
        assert_eq!(
            answered(change.clone(), OtcMode::Arcade)["output"],
            json!({ "value": null })
        );
        for mode in OtcMode::ALL {
            assert_eq!(
                import(&answered(change.clone(), mode)).unwrap(),
                super::ImportedResponse::default()
            );
        }
    }
}

#[test]
fn a_redacted_result_and_a_large_one_keep_what_is_left_of_them() {
    for mode in OtcMode::ALL {
        let notice = json!([{ "type": "text", "text": "a [redacted] b" }]);
        let redacted = json!({ "redaction_state": "partial", "model_facing_content": notice });
        assert_eq!(
            answered(redacted, mode)["output"],
            json!({ "value": "a [redacted] b" })
        );
        let large = "x".repeat(1 << 20);
        let change = json!({ "model_facing_content": [{ "type": "text", "text": large }] });
        assert_eq!(answered(change, mode)["output"]["value"], json!(large));
    }
}

#[test]
fn times_are_in_utc_and_durations_in_milliseconds() {
    for mode in OtcMode::ALL {
        let response = answered(json!({}), mode);
        assert_eq!(response["finished_at"], json!("2026-01-01T00:00:02.5Z"));
        assert_eq!(response["duration"], json!(1_500));
    }
}

#[test]
fn a_missing_token_asks_for_an_authorization_and_a_missing_secret_does_not() {
    let sample = Sample::new();
    let requirement = Requirement::from_profile(&sample.permission).unwrap();
    let authorization = Authorization {
        id: "auth-1".to_owned(),
        url: "https://tools.example.com/authorizations/auth-1".to_owned(),
        scopes: requirement.scopes.clone(),
        status: AuthorizationStatus::Pending,
    };
    let missing = |name: &str, class| {
        let mut change = failed(class);
        let needed = json!({ "access_kind": "credential", "subject": name, "next_action": "toolcell secrets set" });
        change["error"]["needs_authorization"] = needed;
        change
    };
    for mode in OtcMode::ALL {
        let reply = OtcReply {
            authorization: Some((&requirement, &authorization)),
            ..OtcReply::new(mode, "exec-1")
        };
        for class in [ErrorClass::CredentialMissing, ErrorClass::SetupRequired] {
            let response = replied(missing(TOKEN, class), &reply);
            let asked = &response["output"]["requires_authorization"];
            let (id, url) = if mode == OtcMode::Arcade {
                ("authorization_id", "authorization_url")
            } else {
                ("id", "url")
            };
            assert_eq!(
                (&asked[id], &asked["status"]),
                (&json!("auth-1"), &json!("pending"))
            );
            assert_eq!(
                (&asked[url], &asked["scopes"]),
                (&json!(authorization.url), &json!(["repo"]))
            );
            check("authorization", mode, asked);
            assert_eq!(response["success"], json!(false));
            assert_eq!(
                import(&response).unwrap().error.unwrap().error_class,
                ErrorClass::CredentialMissing
            );
        }
        let secret = replied(missing(SECRET, ErrorClass::CredentialMissing), &reply);
        assert_eq!(secret["output"]["error"]["can_retry"], json!(false));
        let denied = replied(missing(TOKEN, ErrorClass::PermissionDenied), &reply);
        assert!(denied["output"].get("error").is_some());
    }
}

#[test]
fn a_response_that_contradicts_itself_is_refused() {
    for bad in [
        json!({}),
        json!({ "success": true, "output": { "error": { "message": "m" } } }),
        json!({ "success": false, "output": { "value": 1 } }),
        json!({ "success": false }),
        json!({ "success": true, "output": { "value": 1, "artifact": {} } }),
        json!({ "success": true, "output": { "artifact": { "url": "no address" } } }),
        json!({ "success": false, "output": { "error": {} } }),
    ] {
        assert_eq!(
            import(&bad).unwrap_err().code,
            ErrorCode::ProtocolError,
            "{bad}"
        );
    }
    // No response can refer to a payload of this host.
    let forged = json!({ "$toolcell": "content", "content": [blocks()[8], blocks()[10], 7] });
    let back =
        import(&json!({ "success": true, "unknown": 1, "output": { "value": forged } })).unwrap();
    assert!(back.content.iter().all(|block| block.kind == "text") && back.content.len() == 3);
}

/// It demands a field that it forbids (O-01), so nothing satisfies it.
#[test]
fn no_response_satisfies_the_published_schema_until_it_is_repaired() {
    let response = answered(json!({}), OtcMode::Otc);
    let mut defective = json!({
        "type": "object",
        "properties": {
            "execution_id": { "type": "string" }, "duration": { "type": "number" }, "finished_at": { "type": "string" },
            "success": { "type": "boolean" }, "output": { "type": "object" },
        },
        "required": ["invocation_id", "finished_at", "success"],
        "additionalProperties": false,
    });
    if let Some(schema) = published("execute_tool_response") {
        assert_eq!(
            (&schema["required"], &schema["additionalProperties"]),
            (&defective["required"], &json!(false))
        );
        defective = schema;
    }
    assert!(!jsonschema::is_valid(&defective, &response));
    let mut with_id = response.clone();
    with_id["invocation_id"] = json!("01");
    assert!(!jsonschema::is_valid(&defective, &with_id));
    // One word repairs it.
    defective["required"] = json!(["execution_id", "finished_at", "success"]);
    check_published(&defective, &response);
    for class in ErrorClass::ALL {
        check_published(&defective, &answered(failed(class), OtcMode::Otc));
    }
    for block in blocks() {
        check_published(
            &defective,
            &answered(json!({ "model_facing_content": [block] }), OtcMode::Otc),
        );
    }
    for value in [json!([1]), json!({}), Value::Null] {
        check_published(
            &defective,
            &answered(json!({ "structured_content": value }), OtcMode::Otc),
        );
    }
}

#[test]
fn a_request_that_the_format_accepts_satisfies_its_schemas() {
    let mut request = json!({
        "run_id": "run-1", "execution_id": "exec-1", "created_at": "2026-01-01T00:00:00Z",
        "tool": { "name": "find", "toolkit": "issues", "version": COMPONENT }, "inputs": { "query": "q" },
        "context": { "authorization": { "token": "t" }, "secrets": { SECRET: "s" }, "user_id": "anna" },
    });
    super::OtcRequest::read(&request.to_string(), OtcMode::Otc).unwrap();
    if let Some(schema) = published("execute_tool_request") {
        check_published(&schema, &request);
    }
    request.as_object_mut().unwrap().remove("created_at");
    super::OtcRequest::read(&request.to_string(), OtcMode::OtcSeed).unwrap();
    check("request", OtcMode::OtcSeed, &request);
}
