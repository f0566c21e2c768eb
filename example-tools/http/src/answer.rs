//! The answer about a response.

use std::collections::BTreeMap;

use toolcell_guest::{Output, ToolError, cancellation, data, http::Response};

use crate::{
    body::ContentType,
    exchange::{Answered, explain},
};

const HEADERS_MAX: usize = 100;
/// Maximum size of all headers in an answer, in bytes.
const HEADER_BYTES_MAX: usize = 16 << 10;

#[data]
pub(crate) struct Answer {
    /// The HTTP status, such as 200. An error of the server is an answer, too.
    pub(crate) status: u16,
    /// Where the answer came from, after redirects.
    pub(crate) url: String,
    /// By name, in lower case. Values of a name that the response has more than once are joined by `, `.
    pub(crate) headers: BTreeMap<String, String>,
    /// `true` if the response has more headers than an answer holds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) headers_cut: bool,
    /// Where the response redirects to, if that was not followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) redirect: Option<String>,
    /// How much of the body was read. The size that the server says is in `content-length`.
    pub(crate) bytes: u64,
    /// The body, if it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    /// `true` if the body has more than `max_bytes`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) truncated: bool,
    /// The file with the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) saved_to: Option<String>,
}

impl Answer {
    /// The answer without a body.
    pub(crate) fn head(answered: &Answered) -> Self {
        let (headers, headers_cut) = headers(&answered.response);
        Self {
            status: answered.response.status,
            url: answered.url.to_string(),
            headers,
            headers_cut,
            redirect: answered.redirect.as_ref().map(ToString::to_string),
            bytes: 0,
            text: None,
            truncated: false,
            saved_to: None,
        }
    }

    /// The answer for the model.
    pub(crate) fn render(&self) -> String {
        let mut text = format!("{} from {}", self.status, self.url);
        if let Some(to) = &self.redirect {
            text.push_str(&format!(", which redirects to {to}"));
        }
        match (&self.text, &self.saved_to) {
            (Some(body), _) => text.push_str(&format!("\n\n{body}")),
            (None, Some(path)) => {
                text.push_str(&format!("\n{} bytes saved to {path}", self.bytes));
            }
            (None, None) if self.bytes == 0 => text.push_str("\nThere is no body."),
            (None, None) => {
                let kind = self.headers.get("content-type").map(String::as_str);
                let kind = kind.unwrap_or("without a type");
                let least = if self.truncated { "more than " } else { "" };
                text.push_str(&format!(
                    "\nThe body is not text ({kind}, {least}{} bytes); `download` saves it.",
                    self.bytes
                ));
            }
        }
        if self.truncated && self.text.is_some() {
            text.push_str("\n(cut off at `max_bytes`)");
        }
        text
    }
}

/// Reads a body of at most `max` bytes, and makes the answer.
pub(crate) fn read(mut answered: Answered, max: usize) -> Result<Output<Answer>, ToolError> {
    let mut answer = Answer::head(&answered);
    let content_type = answered.response.header("content-type").unwrap_or_default();
    let content_type = ContentType::parse(content_type);
    if answered.method != "HEAD" {
        let (body, is_cut) = body(&mut answered, max)?;
        answer.bytes = body.len() as u64;
        answer.truncated = is_cut;
        if !body.is_empty() {
            answer.text = content_type.decode(&body, is_cut);
        }
    }
    Ok(Output::new().text(answer.render()).structured(answer))
}

/// The first `max` bytes of the body, and whether there are more.
fn body(answered: &mut Answered, max: usize) -> Result<(Vec<u8>, bool), ToolError> {
    let mut body = Vec::new();
    loop {
        cancellation::check()?;
        let chunk = answered.response.chunk();
        let Some(chunk) = chunk.map_err(|error| explain(error, &answered.url))? else {
            return Ok((body, false));
        };
        body.extend(chunk);
        if body.len() > max {
            body.truncate(max);
            return Ok((body, true));
        }
    }
}

fn headers(response: &Response) -> (BTreeMap<String, String>, bool) {
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    let mut bytes = 0;
    for (number, (name, value)) in response.headers().enumerate() {
        bytes += name.len() + value.len();
        if number >= HEADERS_MAX || bytes > HEADER_BYTES_MAX {
            return (headers, true);
        }
        headers
            .entry(name.to_ascii_lowercase())
            .and_modify(|known| {
                known.push_str(", ");
                known.push_str(value);
            })
            .or_insert_with(|| value.to_owned());
    }
    (headers, false)
}
