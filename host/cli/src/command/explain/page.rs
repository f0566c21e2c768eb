use std::collections::BTreeSet;

use serde_json::{Value, json};
use toolcell_dialect::http;
use toolcell_spec::{ErrorClass, ErrorCode, Explanation, Recoverability, Refusal, ToolError};

use crate::exit::{self, Exit};

#[derive(Debug)]
pub(super) struct Page {
    pub(super) texts: &'static Explanation,
    origins: Vec<Origin>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Call(ErrorClass),
    /// A problem of the plain HTTP API with this status.
    Api(u16),
    /// The report of this command: `replay`, `schema validate`.
    Report(&'static str),
    /// An error of the Python and JavaScript clients, which is no call's.
    Client(ErrorClass),
}

pub(super) fn all() -> Vec<Page> {
    ErrorCode::explanations().iter().map(Page::new).collect()
}

impl Page {
    fn new(texts: &'static Explanation) -> Self {
        let calls = texts.code.classes().iter().copied().map(Origin::Call);
        let origins = calls
            .chain(texts.code.problem_status().map(Origin::Api))
            .chain(texts.client.map(Origin::Client))
            .chain(texts.printed_by.map(Origin::Report));
        Self {
            texts,
            origins: origins.collect(),
        }
    }

    pub(super) fn code(&self) -> &'static str {
        self.texts.code.as_str()
    }

    pub(super) fn is_of(&self, code: &str) -> bool {
        match self.code().strip_suffix('N') {
            Some(start) => code.strip_prefix(start).is_some_and(|rest| {
                rest == "N" || (!rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
            }),
            None => self.code() == code,
        }
    }

    pub(super) fn has(&self, class: ErrorClass) -> bool {
        self.origins
            .iter()
            .any(|origin| matches!(origin, Origin::Call(known) | Origin::Client(known) if *known == class))
    }

    pub(super) fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = vec![
            ("cause", self.texts.cause.to_owned()),
            ("remedy", self.texts.remedy.to_owned()),
        ];
        let code = self.texts.code;
        for origin in &self.origins {
            match origin {
                Origin::Call(class) => {
                    let error = error(code, *class);
                    let safe = "; safe if the tool made no lasting changes";
                    let safe = if error.retry.safe { safe } else { "" };
                    let retry = retry_words(error.recoverability);
                    rows.push(("class", with_id(*class)));
                    rows.push(("retry", format!("{retry}{safe}")));
                }
                Origin::Api(status) => rows.push(("HTTP API", format!("status {status}"))),
                Origin::Report(command) => rows.push(("printed by", format!("toolcell {command}"))),
                Origin::Client(class) => {
                    rows.push(("class", with_id(*class)));
                    let clients = "the clients for Python and JavaScript";
                    rows.push(("raised by", clients.to_owned()));
                }
            }
        }
        let exits = self.origins.iter().filter_map(|origin| origin.exit(code));
        let exits: BTreeSet<u8> = exits.map(|exit| exit as u8).collect();
        let exits: Vec<String> = exits.iter().map(ToString::to_string).collect();
        if !exits.is_empty() {
            rows.push(("exit code", exits.join(", ")));
        }
        rows
    }

    pub(super) fn json(&self) -> Value {
        let code = self.texts.code;
        let origins = self.origins.iter().map(|origin| origin.json(code));
        json!({
            "code": self.code(),
            "means": self.texts.means,
            "cause": self.texts.cause,
            "remedy": self.texts.remedy,
            "origins": origins.collect::<Vec<_>>(),
        })
    }
}

fn error(code: ErrorCode, class: ErrorClass) -> ToolError {
    Refusal::new(code, "").with_class(class).to_error()
}

impl Origin {
    /// `None` if no command ends with it.
    fn exit(self, code: ErrorCode) -> Option<Exit> {
        match self {
            Self::Call(class) => Some(exit::of_refusal(&Refusal::new(code, "").with_class(class))),
            Self::Report("replay") if code == ErrorCode::CanceledNow => Some(Exit::Canceled),
            Self::Report("replay") => Some(Exit::Refused),
            Self::Report(_) => Some(Exit::BadRequest),
            Self::Api(_) | Self::Client(_) => None,
        }
    }

    fn json(self, code: ErrorCode) -> Value {
        let exit_code = self.exit(code).map(|exit| exit as u8);
        match self {
            Self::Call(class) => {
                let error = error(code, class);
                json!({
                    "from": "call",
                    "exit_code": exit_code,
                    "http_status": http::status_of(&error),
                    "error_class": class,
                    "spec_id": spec_id(class),
                    "recoverability": error.recoverability,
                    "retry_safe": error.retry.safe,
                })
            }
            Self::Api(status) => {
                json!({ "from": "http_api", "exit_code": null, "http_status": status })
            }
            Self::Report(command) => {
                json!({ "from": command.replace(' ', "_"), "exit_code": exit_code })
            }
            Self::Client(class) => {
                json!({ "from": "client", "exit_code": exit_code, "error_class": class, "spec_id": spec_id(class) })
            }
        }
    }
}

/// AT-EC-01 to AT-EC-22.
pub(super) fn spec_id(class: ErrorClass) -> String {
    let at = ErrorClass::ALL
        .iter()
        .position(|known| *known == class)
        .unwrap_or_default();
    format!("AT-EC-{:02}", at + 1)
}

fn with_id(class: ErrorClass) -> String {
    format!("{} ({})", class.as_str(), spec_id(class))
}

fn retry_words(recoverability: Recoverability) -> &'static str {
    match recoverability {
        Recoverability::None => "not possible",
        Recoverability::RetrySame => "the same call",
        Recoverability::RetryAfter => "the same call, after a while",
        Recoverability::ChangeArguments => "with other arguments",
        Recoverability::ChangeArgumentsOrPolicy => {
            "after you change the arguments, or the operator grants the permission"
        }
        Recoverability::DiscoverFirst => "after listing the tools or loading the schema",
        Recoverability::Reapprove => "with another approval",
        Recoverability::SetupFirst => "after the set-up that the message names",
    }
}
