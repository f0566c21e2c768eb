//! Checks what a request is made of.

use std::collections::BTreeMap;

use toolcell_guest::{ToolError, serde_json::Value};
use url::Url;

/// Headers by their names.
pub(crate) type Headers = BTreeMap<String, String>;

const HEADERS_MAX: usize = 50;
const HEADER_BYTES_MAX: usize = 8 << 10;
/// Headers that frame the message, which the host writes.
const FRAMING: [&str; 9] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// Headers for secrets, which would be kept in records with the arguments.
const SECRETS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// A body, and its content type unless the headers have one.
pub(crate) struct RequestBody {
    pub(crate) bytes: Vec<u8>,
    pub(crate) content_type: &'static str,
}

impl RequestBody {
    pub(crate) fn new(text: Option<&str>, json: Option<&Value>) -> Result<Option<Self>, ToolError> {
        match (text, json) {
            (Some(_), Some(_)) => Err(ToolError::invalid_arguments(
                "two_bodies",
                "give `body` or `json`, not both",
            )),
            (Some(text), None) => Ok(Some(Self {
                bytes: text.as_bytes().to_vec(),
                content_type: "text/plain; charset=utf-8",
            })),
            (None, Some(json)) => Ok(Some(Self {
                bytes: json.to_string().into_bytes(),
                content_type: "application/json",
            })),
            (None, None) => Ok(None),
        }
    }
}

/// Parses the URL of a request.
pub(crate) fn url(text: &str) -> Result<Url, ToolError> {
    let invalid = |why: &str| {
        ToolError::invalid_arguments("invalid_url", format!("{text:?} cannot be asked: {why}"))
    };
    let mut url = Url::parse(text).map_err(|error| invalid(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("only http and https URLs can"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("it has a user name or a password"));
    }
    url.set_fragment(None);
    Ok(url)
}

/// Checks names and values, and refuses those that the host writes.
pub(crate) fn check_headers(headers: &Headers) -> Result<(), ToolError> {
    let refuse = |name: &str, why: &str| {
        let message = format!("the header {name:?} {why}");
        Err(ToolError::invalid_arguments("invalid_header", message))
    };
    if headers.len() > HEADERS_MAX {
        let message = format!("there are more than {HEADERS_MAX} headers");
        return Err(ToolError::invalid_arguments("invalid_header", message));
    }
    for (name, value) in headers {
        let is_token = |c: u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c);
        if name.is_empty() || !name.bytes().all(is_token) {
            return refuse(name, "has a character that no name of a header has");
        }
        // A line break would begin a header of its own.
        if value
            .bytes()
            .any(|byte| byte < b' ' && byte != b'\t' || byte == 0x7f)
        {
            return refuse(name, "has a control character in its value");
        }
        if name.len() + value.len() > HEADER_BYTES_MAX {
            return refuse(name, &format!("is longer than {HEADER_BYTES_MAX} bytes"));
        }
        let lower = name.to_ascii_lowercase();
        if FRAMING.contains(&lower.as_str()) {
            return refuse(name, "is written by the host");
        }
        if SECRETS.contains(&lower.as_str()) {
            let why = "would be kept in the record of this call; the tools `get_authorized` and `send_authorized` \
                       send the secret HTTP_TOKEN";
            return refuse(name, why);
        }
    }
    Ok(())
}
