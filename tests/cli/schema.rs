//! `toolcell schema`: the JSON Schemas of what toolcell prints, which all other tests hold its output to.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use toolcell_engine::catalog::RecordSchema;
use toolcell_spec::{
    AbortReason, AccessKind, ApprovalState, ArgumentMode, Behavior, ContextModifierPolicy,
    ErrorClass, EventType, GUEST_BLOCKS, HookEvent, HookOutcome, Lifecycle, LoadingState, Mode,
    MutationSource, NextAction, NonInteractive, PermissionChannel, ProgressStatus, QueryType,
    ReasonType, Recoverability, ReplayBlocker, ResultStatus, RiskLevel, RuleSource, SchemaVersion,
    SchemaVisibility, Status, Strategy, SubjectKind, SurfaceReason, SurfaceScope, Touch, Trust,
    WriteEffect, Writer,
};

use super::echo_in;
use crate::support::{Ran, Toolcell, own_schemas, root, scratch};

/// The variants of each type, by the name of its words in `common.schema.json`.
macro_rules! words {
    ($($name:literal $type:ident: $($variant:ident)+;)+) => {
        fn words() -> Vec<(&'static str, Vec<Value>)> {
            // Does not compile if a variant is missing.
            $(let _ = |one: $type| match one { $($type::$variant => {})+ };)+
            vec![$(($name, vec![$(serde_json::to_value($type::$variant).unwrap()),+])),+]
        }
    };
}

words! {
    "abort_reason" AbortReason: UserInterruption SiblingError Timeout Fallback RuntimeShutdown;
    "access_kind" AccessKind: FileRead FileWrite Network Browser Credential Payment ExternalSend CodeExecution;
    "approval_state" ApprovalState: Pending Approved Rejected Expired Canceled Running Finished;
    "argument_mode" ArgumentMode: Json Text File Multipart Stream Custom;
    "behavior" Behavior: Allow Ask Deny Passthrough;
    "context_modifier_policy" ContextModifierPolicy: AllowSerialOnly DeferUntilBatchComplete Forbid;
    "error_class" ErrorClass: UnknownTool InvalidArguments SchemaValidationFailed SchemaNotLoaded PermissionDenied
        ApprovalRejected PolicyBlocked HookBlocked CapabilityGap SetupRequired CredentialMissing SandboxViolation
        Timeout RateLimited DependencyUnavailable ExecutionFailed PartialFailure ResultTooLarge ResultRedacted
        SiblingCanceled StreamingFallbackDiscarded Canceled;
    "event_type" EventType: Declared SurfaceCreated SurfaceUpdated DeferredDiscovered DeferredLoaded Planned Selected
        ArgumentsReady ValidationFailed PreHookStarted PreHookCompleted PermissionRequested PermissionDecided Queued
        Started AttemptDiscarded Progress PartialResult NeedsInput Resumed Logged
        PostHookStarted PostHookCompleted FailureHookStarted FailureHookCompleted PermissionRequestHookStarted
        PermissionRequestHookCompleted PermissionDecisionHookStarted PermissionDecisionHookCompleted
        PersistenceHookStarted PersistenceHookCompleted SandboxDenied InputMutated ResultPersisted ResultRedacted
        ResultCreated Yielded Succeeded Failed Denied Blocked Canceled TimedOut CancelRequested CancelAcknowledged
        CancelFailed;
    "hook_event" HookEvent: PreToolUse PermissionRequest PermissionDecision PostToolUse PostToolUseFailure
        ResultPersistence;
    "hook_outcome" HookOutcome: Completed Failed TimedOut Canceled NotLoaded;
    "lifecycle" Lifecycle: Draft Available Disabled RequiresSetup Deferred Deprecated Retired;
    "loading_state" LoadingState: Loaded Deferred Discoverable PendingProvider Unavailable;
    "mode" Mode: Default Plan NonInteractive;
    "mutation_source" MutationSource: Hook PermissionPrompt Adapter Migration Runtime;
    "next_action" NextAction: Call Load SearchAgain None;
    "non_interactive" NonInteractive: Deny AllowIfPreapproved;
    "permission_channel" PermissionChannel: None Tty Http McpElicitation;
    "progress_status" ProgressStatus: Queued Started Running WaitingForPermission WaitingForInput Backgrounded
        PartialResult Completed Failed Canceled;
    "query_type" QueryType: Select Keyword;
    "reason_type" ReasonType: Rule Mode Policy Hook Classifier WorkingDir SandboxOverride SafetyCheck
        PermissionPromptTool AsyncAgent SubcommandResults Other;
    "recoverability" Recoverability: None RetrySame RetryAfter ChangeArguments ChangeArgumentsOrPolicy DiscoverFirst
        Reapprove SetupFirst;
    "replay_blocker" ReplayBlocker: FilesUsed DraftsUsed NetworkUsed SecretsUsed EnvironmentUsed InputRedacted
        InputNotExact ToolsUsed SettingsUsed UserInfoUsed QuestionsAsked OutputNotKept AttemptRepeated ClockReadingsExceeded Canceled StoppedByClock
        NeverRan StillRunning IsAReplay NotRecorded LogDamaged ComponentMissing ComponentChanged RefusedNow
        CanceledNow InputChanged;
    "result_status" ResultStatus: Succeeded PartialSucceeded Failed Denied Rejected Redacted TooLarge Canceled
        TimedOut SyntheticError Discarded;
    "risk_level" RiskLevel: Low Medium High Critical;
    "rule_source" RuleSource: UserSettings ProjectSettings LocalSettings FlagSettings PolicySettings CliArg Command
        Session;
    "schema_visibility" SchemaVisibility: Loaded Deferred Internal NativeRef;
    "status" Status: Planned Selected SchemaParseFailed ArgumentsReady ValidationFailed PreHooksRunning
        AwaitingApproval Approved Denied Queued Running NeedsInput PartialResult PostHooksRunning Yielded Succeeded
        Failed Canceled TimedOut Blocked;
    "strategy" Strategy: Inline PreviewAndPersist RefOnly Redact DropWithReason NeverPersist;
    "subject_kind" SubjectKind: Path Url Resource Command NativeOperationId;
    "surface_reason" SurfaceReason: PolicyBlocked CredentialMissing SetupRequired ModelUnsupported RecursiveToolForbidden
        RoleNotAllowed FeatureDisabled DeferredUntilDiscovered;
    "surface_scope" SurfaceScope: Turn Task Session Tenant Skill PeerAgent Workspace Role ModelRequest;
    "touch" Touch: Read Listed Written Removed Requested;
    "trust" Trust: Untrusted;
    "write_effect" WriteEffect: None LocalDraft LocalPersistent RemoteMutation Irreversible;
    "writer" Writer: Tool Host;
}

#[test]
fn the_words_of_the_schemas_are_those_of_the_types() {
    let definitions = own_schemas()["common"]["$defs"].as_object().unwrap();
    let mut expected = words();
    expected.push(("content_type", GUEST_BLOCKS.map(Value::from).to_vec()));
    // The host computes it, and has no type for it.
    expected.push((
        "redaction_state",
        ["none", "partial", "full"].map(Value::from).to_vec(),
    ));
    for (name, words) in &expected {
        assert_eq!(definitions[*name]["enum"].as_array(), Some(words), "{name}");
    }
    let named: BTreeSet<&str> = expected.iter().map(|(name, _)| *name).collect();
    let listed = definitions
        .iter()
        .filter(|(_, definition)| definition.get("enum").is_some());
    assert_eq!(
        listed
            .map(|(name, _)| name.as_str())
            .collect::<BTreeSet<_>>(),
        named
    );
    assert_eq!(
        definitions["schema_version"]["const"],
        SchemaVersion::CURRENT
    );
}

/// Calls `seen` with every reference in `schema`.
fn each_reference(schema: &Value, seen: &mut dyn FnMut(&str)) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(reference) if name == "$ref" => seen(reference),
                    _ => each_reference(value, seen),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| each_reference(item, seen)),
        _ => {}
    }
}

#[test]
fn every_schema_is_valid_and_refers_only_to_what_is_beside_it() {
    let schemas = own_schemas();
    let all: Vec<Value> = schemas.values().cloned().collect();
    let mut used = BTreeSet::new();
    for (name, schema) in schemas {
        assert_eq!(
            schema["$schema"], "https://json-schema.org/draft/2020-12/schema",
            "{name}"
        );
        let id = format!("https://github.com/toolcell/toolcell/schemas/{name}.schema.json");
        assert_eq!(
            (&schema["$id"], &schema["title"]),
            (&json!(id), &json!(name))
        );
        jsonschema::meta::validate(schema).unwrap_or_else(|error| panic!("{name}: {error}"));
        RecordSchema::compile(schema, &all).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        each_reference(schema, &mut |reference| {
            let (file, place) = reference.split_once('#').unwrap_or((reference, ""));
            let target = match file.strip_suffix(".schema.json") {
                Some(other) => schemas
                    .get(other)
                    .unwrap_or_else(|| panic!("{name} refers to {reference}")),
                None => schema,
            };
            // Every part is compiled only if it is reached; a reference has to lead somewhere in any case.
            assert!(
                target.pointer(place).is_some(),
                "{name} refers to {reference}"
            );
            used.insert(place.to_owned());
        });
    }
    let definitions = schemas["common"]["$defs"].as_object().unwrap().keys();
    let unused: Vec<&String> = definitions
        .filter(|name| !used.contains(&format!("/$defs/{name}")))
        .collect();
    assert!(unused.is_empty(), "{unused:?}");
}

#[test]
fn every_schema_is_listed_and_shown_as_it_is_in_the_repository() {
    let listed = Toolcell::new(["schema", "list", "--json"])
        .run()
        .exits(0)
        .json();
    let listed = listed["schemas"].as_array().unwrap();
    let names: Vec<&str> = listed
        .iter()
        .map(|schema| schema["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, own_schemas().keys().collect::<Vec<_>>());
    let people = Toolcell::new(["schema", "list"]).run().exits(0).stdout;
    for (line, schema) in people.lines().zip(listed) {
        let name = schema["name"].as_str().unwrap();
        let description = schema["description"].as_str().unwrap();
        assert!(
            line.starts_with(name) && line.ends_with(description) && !description.is_empty(),
            "{line}"
        );
        assert_eq!(schema["id"], own_schemas()[name]["$id"]);
        let shown = Toolcell::new(["schema", "show", name])
            .run()
            .exits(0)
            .stdout;
        let file = root().join("schemas").join(format!("{name}.schema.json"));
        assert_eq!(shown, std::fs::read_to_string(file).unwrap(), "{name}");
    }
    assert_eq!(people.lines().count(), names.len());
}

fn validate(schema: &str, document: &str, options: &[&str]) -> Ran {
    Toolcell::new(["schema", "validate", schema, "-"].iter().chain(options))
        .stdin(document)
        .run()
}

#[test]
fn a_record_is_valid_until_a_field_is_misspelt_missing_or_wrong() {
    let (_guard, folder) = scratch();
    let ran = Toolcell::new(["call", &echo_in(&folder), "{\"a\": 1}", "--print-record"])
        .run()
        .exits(0);
    let file = folder.join("record.json");
    std::fs::write(&file, &ran.stdout).unwrap();
    let valid = Toolcell::new([
        "schema",
        "validate",
        "call-record",
        &file.display().to_string(),
    ])
    .run()
    .exits(0);
    assert_eq!(
        (valid.stdout.as_str(), valid.stderr.as_str()),
        ("valid\n", "")
    );
    assert_eq!(
        validate("call-record", &ran.stdout, &[]).exits(0).stdout,
        "valid\n"
    );

    let record = ran.json();
    for (object, field) in [
        ("", "result_mappings"),
        ("/invocation", "status"),
        ("/invocation/status_transitions/0", "at"),
        ("/decisions/0", "behavior"),
        ("/decisions/0/reason", "message"),
        ("/persistence/0/threshold", "inline_bytes_max"),
        ("/result", "redaction_state"),
        ("/result/provenance", "trust"),
        ("/result/usage/fuel", "used"),
        ("/events/0", "source"),
        ("/events/0/data", "requested"),
    ] {
        let mut record = record.clone();
        let fields = record.pointer_mut(object).unwrap().as_object_mut().unwrap();
        let value = fields.remove(field).unwrap();
        fields.insert(format!("{field}s"), value);
        let ran = validate("call-record", &record.to_string(), &[]).exits(2);
        let place = if object.is_empty() { "the top" } else { object };
        let unknown =
            format!("{place}: Additional properties are not allowed (\"{field}s\" was unexpected)");
        let quotes = ran.stdout.replace('\'', "\"");
        assert!(
            quotes.lines().any(|line| line == unknown),
            "{unknown}: {}",
            ran.stdout
        );
        let missing = format!("{place}: \"{field}\" is a required property");
        assert!(
            quotes.lines().any(|line| line == missing),
            "{missing}: {}",
            ran.stdout
        );
        assert!(
            ran.stderr.ends_with(
                "2 violations; see `toolcell schema show call-record` [schema_violated]\n"
            )
        );
    }
    for (place, wrong) in [
        ("/invocation/status", json!("done")),
        ("/invocation/invocation_id", json!("01J")),
        ("/invocation/model_input_ref", json!("sha256:00")),
        ("/invocation/created_at", json!("2026-13-01T00:00:00Z")),
        ("/result/is_error", json!(true)),
        ("/result/usage/fuel/used", json!(-1)),
        ("/events/0/event_type", json!("tool.invocation.planed")),
    ] {
        let mut record = record.clone();
        *record.pointer_mut(place).unwrap() = wrong;
        let ran = validate("call-record", &record.to_string(), &[]).exits(2);
        let about = place.trim_end_matches("/is_error");
        assert!(
            ran.stdout
                .lines()
                .any(|line| line.starts_with(&format!("{about}: "))),
            "{place}: {}",
            ran.stdout
        );
    }
    // The author of a tool may add fields to a declaration, and they survive.
    let mut record = record;
    record["declaration"]["colour"] = json!("red");
    validate("call-record", &record.to_string(), &[]).exits(0);
}

#[test]
fn a_response_of_open_tool_calling_has_one_output_that_agrees_with_its_success() {
    let answer = |success: bool, output: Value| json!({ "execution_id": "e", "finished_at": "2026-01-01T00:00:00Z", "success": success, "output": output });
    let value = json!({ "value": 1 });
    let error = json!({ "error": { "message": "m" } });
    let check =
        |response: &Value| validate("otc/execute-tool-response", &response.to_string(), &[]);
    for valid in [answer(true, value.clone()), answer(false, error.clone())] {
        check(&valid).exits(0);
        // The published schema demands this field and forbids it (O-01).
        let mut published = valid.clone();
        published["invocation_id"] = json!("01");
        check(&published).exits(2);
        for field in ["execution_id", "finished_at", "success"] {
            let mut short = valid.clone();
            short.as_object_mut().unwrap().remove(field);
            check(&short).exits(2);
        }
    }
    let both = json!({ "value": 1, "error": { "message": "m" } });
    for invalid in [
        answer(false, value),
        answer(true, error),
        answer(true, both),
        answer(true, json!({ "value": [1] })),
    ] {
        check(&invalid).exits(2);
    }
    let mut local = answer(true, json!({ "value": 1 }));
    local["finished_at"] = json!("2026-01-01T00:00:00+01:00");
    check(&local).exits(2);
}

#[test]
fn violations_are_told_to_programs_and_no_more_than_a_hundred() {
    let secrets = |count: usize| {
        json!({ "secrets": vec![json!({ "name": "-", "set_at": 1 }); count] }).to_string()
    };
    let told = validate("secret-list", &secrets(1), &["--json"])
        .exits(2)
        .json();
    let errors = told["errors"].as_array().unwrap();
    let places: BTreeSet<&str> = errors
        .iter()
        .map(|error| error["path"].as_str().unwrap())
        .collect();
    assert_eq!(
        places,
        BTreeSet::from(["/secrets/0/name", "/secrets/0/set_at"])
    );
    assert!(
        errors
            .iter()
            .all(|error| !error["message"].as_str().unwrap().is_empty())
    );
    assert_eq!(
        (&told["schema"], &told["valid"], &told["more"]),
        (&json!("secret-list"), &json!(false), &json!(false))
    );
    let many = validate("secret-list", &secrets(1_000), &["--json"])
        .exits(2)
        .json();
    assert_eq!(
        (many["errors"].as_array().unwrap().len(), &many["more"]),
        (100, &json!(true))
    );
    let people = validate("secret-list", &secrets(1_000), &[]).exits(2);
    assert_eq!(people.stdout.lines().count(), 100);
    assert!(
        people.stderr.contains("more than 100 violations"),
        "{}",
        people.stderr
    );
    let valid = validate("secret-list", "{\"secrets\": []}", &["--json"])
        .exits(0)
        .json();
    assert_eq!(
        valid,
        json!({ "schema": "secret-list", "valid": true, "errors": [], "more": false })
    );
}

#[test]
fn what_cannot_be_read_is_exit_2_with_the_reason() {
    let (_guard, folder) = scratch();
    let large = format!("\"{}\"", "x".repeat(16 << 20));
    let crowded = format!("[{}1]", "1,".repeat(600_000));
    for (document, words) in [
        ("", "cannot be read as JSON"),
        ("{not JSON", "cannot be read as JSON"),
        ("{} {}", "cannot be read as JSON"),
        ("{\"checks\": [], \"checks\": []}", "checks"),
        (
            large.as_str(),
            "larger than 16777216 bytes; check a part of it",
        ),
        (crowded.as_str(), "more than 500000 values"),
    ] {
        let ran = validate("doctor", document, &[]).exits(2);
        assert!(
            ran.stdout.is_empty() && ran.stderr.starts_with("error: standard input "),
            "{}",
            ran.stderr
        );
        assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
        let told = validate("doctor", document, &["--json"]).exits(2).json();
        assert_eq!(
            (&told["valid"], &told["errors"][0]["path"]),
            (&json!(false), &json!(""))
        );
        assert!(
            told["errors"][0]["message"]
                .as_str()
                .unwrap()
                .contains(words),
            "{told}"
        );
    }
    let file = folder.join("latin1.json");
    std::fs::write(&file, b"\"\xe4\"").unwrap();
    for (file, words) in [
        (&file, "not UTF-8"),
        (&folder.join("none.json"), "cannot open"),
        (&folder, "cannot read"),
    ] {
        let ran = Toolcell::new(["schema", "validate", "doctor", &file.display().to_string()])
            .run()
            .exits(2);
        assert!(
            ran.stderr.contains(words) && ran.stderr.contains(&*file.to_string_lossy()),
            "{}",
            ran.stderr
        );
    }
    for arguments in [
        ["schema", "show", "none"],
        ["schema", "validate", "none"],
        ["schema", "validate", "common"],
    ] {
        let ran = Toolcell::new(arguments).stdin("{}").run().exits(2);
        assert!(
            ran.stdout.is_empty() && ran.stderr.contains("toolcell schema list"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn a_document_acts_on_no_terminal() {
    let evil = "\u{1b}[2J\u{202e}\nvalid";
    let document =
        json!({ "checks": [{ evil: 1, "subject": evil, "state": evil, "detail": "" }], evil: 1 })
            .to_string();
    let ran = validate("doctor", &document, &[]).exits(2);
    let acts = |c: char| c == '\u{1b}' || c == '\u{202e}';
    assert!(
        !ran.stdout.contains(acts) && !ran.stdout.lines().any(|line| line.starts_with("valid")),
        "{:?}",
        ran.stdout
    );
}
