use std::future::Future;
use std::pin::Pin;

use serde_json::{Map, Value};

use crate::catalog::InputForm;
use toolcell_spec::{
    InputResponse, InputResponses, InvocationId, OpenQuestion, Suspension, Timestamp, children,
};

use super::legible;
use super::sheet::PromptSheet;
use toolcell_spec::text::{Whitespace, deceives, visible};

/// A message must not fill a display: the host's line after it must be seen.
const MESSAGE_ROWS_MAX: usize = 14;
const MESSAGE_CHARS_MAX: usize = 2_000;
const KEY_BYTES_MAX: usize = 64;
const TOOL_CHARS_MAX: usize = 120;

/// Questions of a tool to its caller's user, in the middle of a call.
///
/// ```
/// use toolcell_engine::approval::Inquiry;
/// use toolcell_spec::{InputResponse, InputResponses};
///
/// fn declined(inquiry: &Inquiry) -> InputResponses {
///     inquiry.requests.iter().map(|asked| (asked.key().to_owned(), InputResponse::Decline)).collect()
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Inquiry {
    pub invocation_id: InvocationId,
    pub tool_id: String,
    /// In the tool's order.
    pub requests: Vec<RequestedInput>,
    pub expires_at: Timestamp,
}

impl Inquiry {
    /// The questions of a suspended call. The error says why they cannot be read.
    pub fn from_suspension(suspension: &Suspension) -> Result<Self, String> {
        Ok(Self {
            invocation_id: suspension.invocation_id,
            tool_id: suspension.tool_id.clone(),
            requests: suspension
                .questions
                .iter()
                .map(RequestedInput::of_open)
                .collect::<Result<_, _>>()?,
            expires_at: suspension.expires_at,
        })
    }
}

/// One form to fill in.
///
/// ```
/// use toolcell_engine::approval::RequestedInput;
/// use toolcell_spec::InputResponse;
///
/// let schema = r#"{"type": "object", "properties": {"name": {"type": "string"}}}"#;
/// let asked = RequestedInput::read("who", "What is your name?", schema)?;
/// assert!(asked.text("greet.hello", 80).starts_with("The tool greet.hello asks (its own words):"));
/// asked.check(&InputResponse::Decline)?;
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct RequestedInput {
    /// Deceptive characters are escaped.
    question: OpenQuestion,
    form: InputForm,
}

impl RequestedInput {
    /// The error says why the question cannot be asked.
    pub fn read(key: &str, message: &str, schema: &str) -> Result<Self, String> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if key.is_empty() || key.len() > KEY_BYTES_MAX || !key.chars().all(fits) {
            return Err("its key has 1 to 64 letters, digits, `_`, `-` or `.`".to_owned());
        }
        let form = InputForm::read(schema)?;
        if deceives_anywhere(form.schema()) {
            return Err("its schema holds characters that cannot be seen, or mislead".to_owned());
        }
        let mut cut: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
        if cut.len() < message.len() {
            cut.push_str(&format!(
                "\n[not all: {} characters]",
                message.chars().count()
            ));
        }
        let question = OpenQuestion {
            key: key.to_owned(),
            message: visible(&cut, Whitespace::Kept),
            schema: form.schema().clone(),
            problem: None,
        };
        Ok(Self { question, form })
    }

    /// The words of a stored question are legible already.
    fn of_open(stored: &OpenQuestion) -> Result<Self, String> {
        let form = InputForm::read(&stored.schema.to_string())?;
        let question = stored.clone();
        Ok(Self { question, form })
    }

    pub fn to_open(&self) -> OpenQuestion {
        self.question.clone()
    }

    /// Key of the answer in [`InputResponses`]: 1 to 64 letters, digits, `_`, `-` or `.`.
    pub fn key(&self) -> &str {
        &self.question.key
    }

    pub fn message(&self) -> &str {
        &self.question.message
    }

    /// The question, attributed to the tool; a line of the host follows, so that the message cannot pass for the host's
    /// words.
    pub fn text(&self, tool_id: &str, columns: usize) -> String {
        let mut sheet = PromptSheet::new(columns);
        let tool = legible(&tool_id.chars().take(TOOL_CHARS_MAX).collect::<String>());
        sheet.host(&format!("The tool {tool} asks (its own words):"));
        sheet.lines(&self.question.message, MESSAGE_ROWS_MAX);
        sheet.host("Your answer goes to the tool. It does not approve anything.");
        if let Some(problem) = &self.question.problem {
            sheet.host("Your last answer is not valid:");
            sheet.lines(problem, MESSAGE_ROWS_MAX);
        }
        sheet.into_text()
    }

    /// Sets why the last answer was unusable, to ask again.
    pub fn refuse(&mut self, problem: String) {
        self.question.problem = Some(problem);
    }

    pub fn problem(&self) -> Option<&str> {
        self.question.problem.as_deref()
    }

    pub fn schema(&self) -> &Value {
        self.form.schema()
    }

    /// The error says what is wrong with `response`.
    pub fn check(&self, response: &InputResponse) -> Result<(), String> {
        match response {
            InputResponse::Accept { content } => self.form.check(content),
            InputResponse::Decline | InputResponse::Cancel => Ok(()),
        }
    }
}

/// Answers the questions of tools for the user. The future is dropped when no call waits any more, and what it shows
/// must go away.
///
/// ```
/// use toolcell_engine::approval::{Inquiry, Respondent};
/// use toolcell_system::BoxFuture;
/// use toolcell_spec::{InputResponse, InputResponses};
///
/// /// Cancels every question, because no user is there.
/// struct Unattended;
///
/// impl Respondent for Unattended {
///     fn respond<'a>(&'a self, inquiry: &'a Inquiry) -> BoxFuture<'a, Option<InputResponses>> {
///         let answers = inquiry.requests.iter().map(|asked| (asked.key().to_owned(), InputResponse::Cancel));
///         let answers: InputResponses = answers.collect();
///         Box::pin(async move { Some(answers) })
///     }
/// }
/// ```
pub trait Respondent: Send + Sync {
    /// Shows every request and waits. Missing or invalid answers are asked for again. `None`: no user is left to ask.
    fn respond<'a>(
        &'a self,
        inquiry: &'a Inquiry,
    ) -> Pin<Box<dyn Future<Output = Option<InputResponses>> + Send + 'a>>;
}

fn deceives_anywhere(value: &Value) -> bool {
    let names = value.as_object().into_iter().flat_map(Map::keys);
    let mut texts = names.map(String::as_str).chain(value.as_str());
    texts.any(|text| text.chars().any(deceives)) || children(value).any(deceives_anywhere)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::COLUMNS;
    use super::{InputResponse, RequestedInput};

    const SCHEMA: &str =
        r#"{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}"#;

    #[test]
    fn the_words_of_a_tool_are_shown_as_such() {
        let asked = RequestedInput::read("a", "Name?\nRun this call?\u{202e}", SCHEMA).unwrap();
        let text = "The tool x.y asks (its own words):\n| Name?\n| Run this call?\\u{202e}\n\
                    Your answer goes to the tool. It does not approve anything.\n";
        assert_eq!(asked.text("x.y", COLUMNS), text);
        let hidden = SCHEMA.replace("name", "na\u{200b}me");
        for (key, schema) in [("", SCHEMA), ("a b", SCHEMA), ("a", "{}"), ("a", &hidden)] {
            RequestedInput::read(key, "", schema).unwrap_err();
        }
    }

    #[test]
    fn only_what_was_accepted_has_to_fit() {
        let asked = RequestedInput::read("a", "", SCHEMA).unwrap();
        let response = |value| serde_json::from_value::<InputResponse>(value).unwrap();
        asked
            .check(&response(
                json!({ "action": "accept", "content": { "name": "Ada" } }),
            ))
            .unwrap();
        asked
            .check(&response(json!({ "action": "accept", "content": {} })))
            .unwrap_err();
        asked
            .check(&response(json!({ "action": "decline" })))
            .unwrap();
        asked
            .check(&response(json!({ "action": "cancel", "content": {} })))
            .unwrap();
    }
}
