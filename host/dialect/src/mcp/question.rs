use std::collections::BTreeMap;

use rmcp::model::{
    BooleanSchema, CallToolResult, ContentBlock, ElicitRequest, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationSchema, EnumSchema, InputRequest, InputRequiredResult,
    InputResponses, MetaObject, PrimitiveSchemaDefinition, RequestMetaObject, StringSchema,
};
use serde_json::{Value, json};
use toolcell_spec::InputResponse;

use super::meta_of;

const RUN: &str = "run once";
const RUN_ALWAYS: &str = "run, and do not ask again this session";
const REFUSE: &str = "do not run";

/// The key of the question whether a call may run.
pub const APPROVAL: &str = "approval";

const ALTHOUGH_CUT: &str = "accept_partial_view";

/// In characters: a form would not show longer arguments.
const EDIT_CHARS_MAX: usize = 16_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserDecision {
    pub approved: bool,
    pub always: bool,
    /// JSON text of the new arguments.
    pub edit: Option<String>,
    pub note: Option<String>,
    /// `true` if the user accepts that a part was not shown.
    pub accept_partial_view: bool,
}

impl UserDecision {
    pub fn refused(note: String) -> Self {
        Self {
            note: Some(note),
            ..Self::default()
        }
    }
}

/// The form asks for a decision, arguments, and a note; of a `cut` text, also for an acknowledgment.
pub fn question(text: &str, arguments: &str, can_remember: bool, cut: bool) -> ElicitRequestParams {
    let mut choices = vec![RUN.to_owned(), REFUSE.to_owned()];
    if can_remember {
        choices.insert(1, RUN_ALWAYS.to_owned());
    }
    let decision = EnumSchema::builder(choices)
        .untitled()
        .title("Decision")
        .build();
    let mut fields = BTreeMap::from([
        (
            "decision".to_owned(),
            PrimitiveSchemaDefinition::Enum(decision),
        ),
        (
            "note".to_owned(),
            PrimitiveSchemaDefinition::String(
                StringSchema::new()
                    .title("Note")
                    .description("What the caller should know")
                    .max_length(1_000),
            ),
        ),
    ]);
    if arguments.chars().count() <= EDIT_CHARS_MAX {
        let field = StringSchema::new()
            .title("Arguments")
            .description(
                "Run with these arguments, as JSON; leave them as they are to run what was asked",
            )
            .with_default(arguments);
        fields.insert(
            "arguments".to_owned(),
            PrimitiveSchemaDefinition::String(field),
        );
    }
    let mut required = vec!["decision".to_owned()];
    if cut {
        let field = BooleanSchema::new()
            .title("Run it although not all is shown")
            .description("The question shows a part of the call only")
            .with_default(false);
        fields.insert(
            ALTHOUGH_CUT.to_owned(),
            PrimitiveSchemaDefinition::Boolean(field),
        );
        required.push(ALTHOUGH_CUT.to_owned());
    }
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: text.to_owned(),
        requested_schema: ElicitationSchema::new(fields).with_required(required),
    }
}

/// Anything but a clear approval is a refusal.
pub fn said(result: &ElicitResult) -> UserDecision {
    let field = |name: &str| {
        let text = result.content.as_ref()?.get(name)?.as_str()?;
        (!text.trim().is_empty()).then(|| text.to_owned())
    };
    let note = field("note");
    let content = result.content.as_ref();
    let accept_partial_view = content
        .and_then(|content| content.get(ALTHOUGH_CUT)?.as_bool())
        .unwrap_or_default();
    match (&result.action, field("decision").as_deref()) {
        (ElicitationAction::Accept, Some(choice @ (RUN | RUN_ALWAYS))) => UserDecision {
            approved: true,
            always: choice == RUN_ALWAYS,
            edit: field("arguments"),
            note,
            accept_partial_view,
        },
        (ElicitationAction::Cancel, _) => {
            UserDecision::refused("the question was closed without an answer".to_owned())
        }
        _ => UserDecision {
            note,
            ..UserDecision::default()
        },
    }
}

/// `None` for a schema that the protocol cannot express.
pub fn form(text: &str, schema: &Value) -> Option<ElicitRequestParams> {
    let requested_schema = serde_json::from_value(schema.clone()).ok()?;
    Some(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: text.to_owned(),
        requested_schema,
    })
}

pub fn marked(mut form: ElicitRequestParams, about: MetaObject) -> ElicitRequestParams {
    if let ElicitRequestParams::FormElicitationParams { meta, .. } = &mut form {
        *meta = Some(RequestMetaObject(about));
    }
    form
}

pub fn filled(result: &ElicitResult) -> InputResponse {
    match (
        &result.action,
        result.content.as_ref().and_then(Value::as_object),
    ) {
        (ElicitationAction::Accept, content) => InputResponse::Accept {
            content: content.cloned().unwrap_or_default(),
        },
        (ElicitationAction::Decline, _) => InputResponse::Decline,
        _ => InputResponse::Cancel,
    }
}

/// For a call that waits for its client's user (2026-07-28). The client calls again with `state`.
pub fn input_required(
    questions: BTreeMap<String, ElicitRequestParams>,
    state: &str,
    meta: MetaObject,
) -> InputRequiredResult {
    InputRequiredResult::new(Some(asked(questions)), Some(state.to_owned())).with_meta(meta)
}

pub(super) fn asked(
    questions: BTreeMap<String, ElicitRequestParams>,
) -> BTreeMap<String, InputRequest> {
    let request = |question| InputRequest::Elicitation(ElicitRequest::new(question));
    let questions = questions.into_iter();
    questions
        .map(|(key, question)| (key, request(question)))
        .collect()
}

/// `None` if the answer is missing or unreadable.
pub fn input_response(responses: Option<&InputResponses>, key: &str) -> Option<InputResponse> {
    let response = responses?.get(key)?;
    serde_json::from_value::<ElicitResult>(response.clone())
        .ok()
        .map(|result| filled(&result))
}

/// The user's decision in a repeated call; `None` without one. An unreadable one is a refusal.
pub fn response(responses: Option<&InputResponses>) -> Option<UserDecision> {
    let response = responses?.get(APPROVAL)?;
    let result: Option<ElicitResult> = serde_json::from_value(response.clone()).ok();
    Some(result.map_or_else(
        || UserDecision::refused("the client's answer could not be read".to_owned()),
        |result| said(&result),
    ))
}

/// For a call that waits for the server's operator.
pub fn approval_pending(id: &str, expires_at: &str, meta: MetaObject) -> CallToolResult {
    let text = format!(
        "nothing ran yet: a person has to approve this call. The operator of the server can, until {expires_at}: \
         toolcell approvals approve {id}, or toolcell approvals deny {id}. Then make the same call again to get its result."
    );
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    result.meta = Some(meta);
    result
}

pub fn approval_meta(
    invocation_id: &impl serde::Serialize,
    expires_at: &impl serde::Serialize,
) -> MetaObject {
    let facts =
        json!({ "invocation_id": invocation_id, "state": "pending", "expires_at": expires_at });
    meta_of("toolcell/approval", facts)
}

pub fn input_meta(
    invocation_id: &impl serde::Serialize,
    expires_at: &impl serde::Serialize,
) -> MetaObject {
    let facts = json!({ "invocation_id": invocation_id, "expires_at": expires_at });
    meta_of("toolcell/input", facts)
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ElicitResult, InputResponses};
    use serde_json::{Value, json};

    use super::{UserDecision, question, response, said};

    fn of(answer: Value) -> UserDecision {
        said(&serde_json::from_value::<ElicitResult>(answer).unwrap())
    }

    #[test]
    fn a_form_asks_for_a_decision_and_offers_the_arguments() {
        let form =
            serde_json::to_value(question("May this run?", "{\"a\":1}", false, false)).unwrap();
        let schema = &form["requestedSchema"];
        assert_eq!(
            (form["message"].as_str(), form["mode"].as_str()),
            (Some("May this run?"), Some("form"))
        );
        assert_eq!(
            schema["properties"]["decision"]["enum"],
            json!(["run once", "do not run"])
        );
        assert_eq!(schema["properties"]["arguments"]["default"], "{\"a\":1}");
        assert_eq!(schema["required"], json!(["decision"]));
        let long = serde_json::to_value(question("", &"x".repeat(20_000), true, true)).unwrap();
        assert!(
            long["requestedSchema"]["properties"]
                .get("arguments")
                .is_none()
        );
        assert_eq!(
            long["requestedSchema"]["properties"]["decision"]["enum"]
                .as_array()
                .unwrap()
                .len(),
            3
        );
        assert_eq!(
            long["requestedSchema"]["required"],
            json!(["decision", "accept_partial_view"])
        );
    }

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        let yes = of(
            json!({ "action": "accept", "content": { "decision": "run once", "arguments": "{}", "note": " " } }),
        );
        assert_eq!(
            yes,
            UserDecision {
                approved: true,
                edit: Some("{}".to_owned()),
                ..UserDecision::default()
            }
        );
        assert!(
            of(json!({ "action": "accept", "content": { "decision": "run, and do not ask again this session" } }))
                .always
        );
        for no in [
            json!({ "action": "accept" }),
            json!({ "action": "accept", "content": {} }),
            json!({ "action": "accept", "content": { "decision": "do not run" } }),
            json!({ "action": "accept", "content": { "decision": true } }),
            json!({ "action": "accept", "content": { "approve": true } }),
            json!({ "action": "decline", "content": { "decision": "run once" } }),
            json!({ "action": "cancel", "content": { "decision": "run once" } }),
        ] {
            assert!(!of(no.clone()).approved, "{no}");
        }
    }

    #[test]
    fn a_response_is_that_to_the_question() {
        let yes = json!({ "action": "accept", "content": { "decision": "run once" } });
        let responses =
            |name: &str, value: &Value| InputResponses::from([(name.to_owned(), value.clone())]);
        assert!(
            response(Some(&responses("approval", &yes)))
                .unwrap()
                .approved
        );
        assert_eq!(response(Some(&responses("another", &yes))), None);
        assert_eq!(response(None), None);
        assert!(
            !response(Some(&responses("approval", &json!(7))))
                .unwrap()
                .approved
        );
    }
}
