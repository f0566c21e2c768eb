//! What `#[tool]` and `toolkit!` generate, tested from outside the crate.

use serde_json::json;
use toolcell_guest::{
    Content, Context, ErrorClass, Outcome, Output, ToolError, context, data, testing, tool, toolkit,
};

#[data]
struct Text {
    /// The text to count in.
    text: String,
    /// At most so many words.
    #[serde(default = "many")]
    limit: u32,
}

fn many() -> u32 {
    100
}

#[data]
struct Count {
    words: usize,
}

fn not_blank(input: &Text) -> Result<(), ToolError> {
    match input.text.trim() {
        "" => Err(ToolError::invalid_arguments("blank", "the text is blank")),
        _ => Ok(()),
    }
}

/// Counts the words of a text.
///
/// Words are what white space keeps apart.
#[tool(
    title = "Count words",
    search_hint = "count words of a text",
    aliases = ["wc"],
    read_only,
    concurrency_safe = true,
    destructive = false,
    always_load,
    requires_background,
    context_modifier_policy = "forbid",
    timeout_ms = 500,
    validate = not_blank,
)]
fn count(input: Text) -> Result<Count, ToolError> {
    let words = input.text.split_whitespace().count();
    if words > input.limit as usize {
        return Err(ToolError::result_too_large(
            "too_many",
            format!("{words} words"),
        ));
    }
    Ok(Count { words })
}

/// Answers with text.
#[tool(
    lifecycle = "deprecated",
    access = ["network"],
    network_scope = "api.example.com",
    credential_refs = ["KEY"],
    credential_uses = [r#"{"ref": "KEY", "header": "x-key"}"#],
    approval = "It leaves the machine.",
    data_sensitivity = "internal",
    defaults = r#"{"name": "you"}"#,
    examples = ["{}"],
    internal_fields = ["trace"],
    redaction_rules = ["token", r#"{"pattern": "k-[0-9]+"}"#]
)]
fn hello() -> String {
    format!("hello, attempt {}", context().attempt)
}

mod files {
    use super::*;

    /// Deletes everything.
    #[tool(
        name = "wipe",
        kind = "file_operation",
        risk = "critical",
        access = ["file_read", "file_write"],
        env = ["HOME"],
        paths = ["text"],
        resources = ["/limit"],
        content = ["text", "diff"]
    )]
    pub(crate) fn remove_all(_input: Text) -> Output<Count> {
        Output::new()
            .text("gone")
            .structured(Count { words: 0 })
            .ui_summary("all gone")
    }
}

mod fallible {
    use super::*;

    #[tool]
    /// Fails with text.
    pub(crate) fn text(input: Text) -> Result<Count, String> {
        if input.text.is_empty() {
            Err("nothing to count".to_owned())
        } else {
            Ok(Count { words: 1 })
        }
    }

    #[tool]
    /// Fails with an error of the system.
    pub(crate) fn system(_input: Text) -> std::io::Result<String> {
        std::fs::read_to_string("/no/such/file")
    }

    toolkit! { namespace: "fallible", tools: [text, system] }
}

#[test]
fn an_error_of_any_type_is_a_failure_and_its_tool_has_the_schema_of_its_answer() {
    let described = testing::describe::<fallible::Toolkit>();
    let contract = |at: usize| described["declarations"][at]["output_contract"].clone();
    assert_eq!(
        contract(0)["structured_schema"]["required"],
        json!(["words"]),
        "{described}"
    );
    assert!(contract(1).get("structured_schema").is_none());
    let failure = |outcome: Outcome| match outcome {
        Outcome::Failure(error) => (error.class, error.code, error.message),
        other => panic!("{other:?}"),
    };
    let failed = failure(testing::invoke::<fallible::Toolkit>(
        "text",
        json!({ "text": "" }),
    ));
    assert_eq!(
        failed,
        (
            ErrorClass::ExecutionFailed,
            "failed".into(),
            "nothing to count".into()
        )
    );
    let failed = failure(testing::invoke::<fallible::Toolkit>(
        "system",
        json!({ "text": "" }),
    ));
    assert_eq!(
        (failed.0, failed.1.as_str()),
        (ErrorClass::InvalidArguments, "not_found")
    );
    assert!(matches!(
        testing::invoke::<fallible::Toolkit>("text", json!({ "text": "a" })),
        Outcome::Success(_)
    ));
}

toolkit! { namespace: "demo", tools: [count, hello, files::remove_all] }

#[test]
fn records_refer_to_each_other() {
    let described = testing::describe::<Toolkit>();
    assert_eq!(described, testing::describe::<Toolkit>());
    let declaration = &described["declarations"][0];
    assert_eq!(declaration["tool_id"], "demo.count");
    assert_eq!(
        declaration["description"],
        "Counts the words of a text.\n\nWords are what white space keeps apart."
    );
    assert_eq!(
        (&declaration["lifecycle"], &declaration["tool_kind"]),
        (&json!("available"), &json!("function"))
    );
    assert_eq!(declaration["aliases"], json!(["wc"]));
    assert_eq!(declaration["input_contract"]["strict"], true);
    assert_eq!(
        declaration["output_contract"]["content_types"],
        json!(["structured_content"])
    );
    for (record, reference, list, id) in [
        (0, "interface_ref", "interfaces", "interface_id"),
        (
            1,
            "execution_profile_ref",
            "execution_profiles",
            "execution_profile_id",
        ),
        (
            2,
            "permission_profile_ref",
            "permission_profiles",
            "permission_profile_id",
        ),
    ] {
        assert_eq!(
            described["declarations"][record][reference],
            described[list][record][id]
        );
    }
}

#[test]
fn what_is_not_stated_stays_absent() {
    let described = testing::describe::<Toolkit>();
    let stated = &described["interfaces"][0];
    assert_eq!(
        (&stated["is_read_only"], &stated["is_destructive"]),
        (&json!(true), &json!(false))
    );
    assert!(stated.get("is_open_world").is_none());
    assert!(described["interfaces"][1].get("is_read_only").is_none());
    assert_eq!(
        (&stated["always_load"], &stated["context_modifier_policy"]),
        (&json!(true), &json!("forbid"))
    );
    assert!(
        described["interfaces"][1]
            .get("context_modifier_policy")
            .is_none()
    );
    assert!(
        stated.get("should_defer").is_none()
            && described["interfaces"][1].get("always_load").is_none()
    );
    let [profile, other] = [0, 1].map(|at| &described["execution_profiles"][at]);
    assert_eq!(
        (&profile["timeout_ms"], &profile["requires_background"]),
        (&json!(500), &json!(true))
    );
    assert!(other.get("timeout_ms").is_none() && other.get("requires_background").is_none());
    assert!(
        described["declarations"][1]["output_contract"]
            .get("structured_schema")
            .is_none()
    );
    assert_eq!(
        described["permission_profiles"][0]["access_kinds"],
        json!([])
    );
}

#[test]
fn what_the_host_enforces_can_be_stated() {
    let described = testing::describe::<Toolkit>();
    let declaration = &described["declarations"][1];
    let profile = &described["permission_profiles"][1];
    assert_eq!(declaration["lifecycle"], "deprecated");
    let input = &declaration["input_contract"];
    assert_eq!(
        (&input["defaults"], &input["examples"]),
        (&json!({"name": "you"}), &json!([{}]))
    );
    assert_eq!(input["internal_only_fields"], json!(["trace"]));
    assert_eq!(
        declaration["output_contract"]["redaction_rules"],
        json!(["token", {"pattern": "k-[0-9]+"}])
    );
    assert_eq!(
        profile["credential_uses"],
        json!([{"ref": "KEY", "header": "x-key"}])
    );
    let approval = (&profile["approval_required"], &profile["approval_reason"]);
    assert_eq!(approval, (&json!(true), &json!("It leaves the machine.")));
    assert_eq!(profile["data_sensitivity"], "internal");
    assert!(
        described["permission_profiles"][0]
            .get("approval_required")
            .is_none()
    );
}

#[test]
fn a_tool_that_writes_files_says_so() {
    let described = testing::describe::<Toolkit>();
    let profile = &described["permission_profiles"][2];
    assert_eq!(profile["permission_profile_id"], "demo.wipe.permission");
    assert_eq!(profile["access_kinds"], json!(["file_read", "file_write"]));
    assert_eq!(profile["write_effects"], json!(["local_persistent"]));
    assert_eq!(
        (&profile["risk_level"], &profile["environment"]),
        (&json!("critical"), &json!(["HOME"]))
    );
    assert_eq!(
        described["declarations"][2]["output_contract"]["content_types"],
        json!(["text", "diff"])
    );
    let subjects = json!({"/text": "path", "/limit": "resource"});
    assert_eq!(described["interfaces"][2]["permission_subjects"], subjects);
    assert!(
        described["interfaces"][0]
            .get("permission_subjects")
            .is_none()
    );
}

#[test]
fn a_call_gets_its_structured_value_its_text_or_its_error() {
    let Outcome::Success(output) = testing::invoke::<Toolkit>("count", json!({"text": "a b c"}))
    else {
        panic!()
    };
    assert_eq!(output.structured, Some(json!({"words": 3})));
    let Outcome::Failure(error) =
        testing::invoke::<Toolkit>("count", json!({"text": "a b", "limit": 1}))
    else {
        panic!()
    };
    assert_eq!(
        (error.class, error.code.as_str()),
        (ErrorClass::ResultTooLarge, "too_many")
    );

    testing::set_context(Context {
        attempt: 2,
        ..Context::default()
    });
    let Outcome::Success(output) = testing::invoke::<Toolkit>("hello", json!({})) else {
        panic!()
    };
    assert_eq!(output.content, [Content::text("hello, attempt 2")]);

    let Outcome::Success(output) = testing::invoke::<Toolkit>("wipe", json!({"text": ""})) else {
        panic!()
    };
    assert_eq!(output.ui_summary.as_deref(), Some("all gone"));
}

#[test]
fn input_that_does_not_fit_is_refused_with_the_reason() {
    for (input, reason) in [
        (
            json!({"text": 1}),
            "invalid type: integer `1`, expected a string",
        ),
        (
            json!({"text": "", "colour": "red"}),
            "unknown field `colour`",
        ),
        (json!({}), "missing field `text`"),
    ] {
        let Outcome::Failure(error) = testing::invoke::<Toolkit>("count", input) else {
            panic!()
        };
        assert_eq!(error.class, ErrorClass::InvalidArguments);
        assert!(error.message.contains(reason), "{}", error.message);
    }
    let Outcome::Failure(error) = testing::invoke::<Toolkit>("missing", json!({})) else {
        panic!()
    };
    assert_eq!(error.code, "unknown_tool");
}

#[test]
fn values_are_checked_where_the_tool_says_how() {
    let error = testing::validate::<Toolkit>("count", json!({"text": " "})).unwrap_err();
    assert_eq!(error.code, "blank");
    assert_eq!(testing::validate::<Toolkit>("hello", json!({})), Ok(()));
    assert_eq!(
        testing::preflight::<Toolkit>("count", json!({"text": " "})),
        Ok(())
    );
}

mod configured {
    use super::*;

    #[data]
    #[serde(rename_all = "snake_case")]
    #[derive(Debug)]
    pub(crate) enum Unit {
        Metre,
        Yard,
    }

    #[data]
    pub(crate) struct Settings {
        unit: Unit,
        #[serde(default)]
        places: u32,
    }

    /// Says the unit that it was told.
    #[tool(read_only)]
    pub(crate) fn unit() -> String {
        match toolcell_guest::configuration::<Settings>() {
            Some(settings) => format!("{:?} with {}", settings.unit, settings.places),
            None => "none".to_owned(),
        }
    }

    toolkit! { namespace: "configured", tools: [unit], configuration: Settings }

    #[track_caller]
    fn says(text: &str) {
        let Outcome::Success(output) = testing::invoke::<Toolkit>("unit", json!({})) else {
            panic!()
        };
        assert_eq!(output.content, [Content::text(text)]);
    }

    #[test]
    fn a_tool_gets_the_settings_of_its_operator() {
        testing::reset();
        says("none");
        testing::configure::<Toolkit>(json!({"unit": "metre", "places": 2})).unwrap();
        says("Metre with 2");
        for (config, why) in [
            (json!({}), "missing field `unit`"),
            (json!({"unit": "metre", "places": -1}), "invalid value"),
            (
                json!({"unit": "metre", "color": 1}),
                "unknown field `color`",
            ),
            (json!({"unit": "furlong"}), "unknown variant `furlong`"),
        ] {
            let error = testing::configure::<Toolkit>(config).unwrap_err();
            assert_eq!(
                (error.class, error.code.as_str()),
                (ErrorClass::SetupRequired, "invalid_configuration")
            );
            let is_told = error
                .message
                .starts_with("cannot use the settings of the tool: ");
            assert!(is_told && error.message.contains(why), "{}", error.message);
        }
        // What was refused changes nothing.
        says("Metre with 2");
        testing::reset();
        says("none");
    }

    #[test]
    fn a_toolkit_without_settings_refuses_them() {
        let error = testing::configure::<super::Toolkit>(json!({})).unwrap_err();
        assert_eq!(
            (error.class, error.code.as_str()),
            (ErrorClass::SetupRequired, "not_configurable")
        );
    }
}
