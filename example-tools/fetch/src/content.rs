//! Decodes a response body to text, by its content type and by the encoding that the server or the page names.

use encoding_rs::{Encoding, UTF_8};
use toolcell_guest::{ToolError, serde_json};
use url::Url;

use crate::page;

/// Bytes that are searched for the page's encoding; HTML requires it within the first 1024 bytes.
const PRESCAN_BYTES: usize = 1 << 10;

/// The title and the text of a response.
pub(crate) struct Content {
    pub(crate) title: Option<String>,
    pub(crate) text: String,
}

/// A `Content-Type` header.
pub(crate) struct ContentType {
    /// Type and subtype, in lower case.
    pub(crate) essence: String,
    charset: Option<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Html,
    Json,
    Text,
}

impl ContentType {
    pub(crate) fn parse(header: &str) -> Self {
        let mut parts = header.split(';').map(str::trim);
        let essence = parts.next().unwrap_or_default().to_ascii_lowercase();
        let charset = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            name.eq_ignore_ascii_case("charset")
                .then(|| value.trim_matches('"').to_owned())
        });
        // Most responses without a content type are pages.
        Self {
            essence: if essence.is_empty() {
                "text/html".to_owned()
            } else {
                essence
            },
            charset,
        }
    }

    /// Refuses a content type without text before the body is read.
    pub(crate) fn check(&self) -> Result<(), ToolError> {
        self.kind().map(drop)
    }

    fn kind(&self) -> Result<Kind, ToolError> {
        match self.essence.as_str() {
            "text/html" | "application/xhtml+xml" => Ok(Kind::Html),
            "application/json" => Ok(Kind::Json),
            essence if essence.ends_with("+json") => Ok(Kind::Json),
            "application/xml"
            | "application/javascript"
            | "application/yaml"
            | "application/toml" => Ok(Kind::Text),
            essence
                if essence.starts_with("text/")
                    || essence.ends_with("+xml") && essence != "image/svg+xml" =>
            {
                Ok(Kind::Text)
            }
            essence => {
                let message =
                    format!("the server sent {essence}, and only pages, text and JSON can be read");
                Err(ToolError::capability_gap("not_text", message))
            }
        }
    }
}

/// Decodes `body`, which came from `url`.
pub(crate) fn read(
    content_type: &ContentType,
    body: &[u8],
    url: &Url,
) -> Result<Content, ToolError> {
    let kind = content_type.kind()?;
    let named = content_type
        .charset
        .clone()
        .or_else(|| (kind == Kind::Html).then(|| charset_of(body)).flatten());
    let encoding = named
        .and_then(|name| Encoding::for_label(name.as_bytes()))
        .unwrap_or(UTF_8);
    let (text, _, _) = encoding.decode(body);
    if kind != Kind::Html && text.contains('\0') {
        return Err(ToolError::capability_gap(
            "not_text",
            "the server sent bytes that are not text".to_owned(),
        ));
    }
    match kind {
        Kind::Html => page::to_markdown(&text, url),
        Kind::Text => Ok(Content {
            title: None,
            text: text.into_owned(),
        }),
        Kind::Json => {
            let value: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            // A body that is not valid JSON is still text.
            let pretty = if value.is_null() {
                text.into_owned()
            } else {
                format!("{value:#}")
            };
            Ok(Content {
                title: None,
                text: format!("```json\n{pretty}\n```"),
            })
        }
    }
}

/// The encoding that the page declares in a `meta` element.
fn charset_of(body: &[u8]) -> Option<String> {
    let start =
        String::from_utf8_lossy(body.get(..PRESCAN_BYTES).unwrap_or(body)).to_ascii_lowercase();
    let rest = start
        .split("charset=")
        .nth(1)?
        .trim_start_matches(['"', '\'', ' ']);
    Some(
        rest.chars()
            .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
            .collect(),
    )
}
