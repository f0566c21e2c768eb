//! Fetches a page and returns it as Markdown. The tool reaches only the host of its argument: to follow a redirect to
//! another host, the caller makes another call.

mod content;
mod page;
mod transfer;

use toolcell_guest::{Output, ToolError, data, tool, toolkit};

use content::Content;
use transfer::Transfer;

/// Default size limit of a response, in bytes.
const MAX_BYTES: u32 = 4 << 20;

#[data]
struct Fetch {
    /// An absolute http or https URL.
    #[schemars(length(max = 8_000))]
    url: String,
    /// Maximum response size in bytes; larger responses fail. Default: 4 MiB.
    #[serde(default)]
    #[schemars(range(min = 1, max = 33_554_432))]
    max_bytes: Option<u32>,
}

#[data]
struct Fetched {
    /// Where the content came from, after redirects.
    url: String,
    /// The page title.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// As the server says, without parameters.
    content_type: String,
    /// Of the response's body.
    bytes: usize,
}

/// Fetches a URL. Web pages come back as Markdown, with headings, links, lists, tables and code; plain text and JSON come back unchanged.
#[tool(
    search_hint = "download web page url http read website as markdown",
    risk = "medium",
    access = ["network"],
    network_scope = "argument",
    urls = ["url"],
    read_only,
    concurrency_safe,
    destructive = false,
    open_world,
    content = ["text"]
)]
fn fetch(input: Fetch) -> Result<Output<Fetched>, ToolError> {
    let limit = usize::try_from(input.max_bytes.unwrap_or(MAX_BYTES)).unwrap_or(usize::MAX);
    let Transfer {
        url,
        content_type,
        body,
    } = transfer::transfer(&input.url, limit)?;
    let bytes = body.len();
    let Content { title, text } = content::read(&content_type, &body, &url)?;
    let text = if text.is_empty() {
        "The page holds no text.".to_owned()
    } else {
        text
    };
    let content_type = content_type.essence;
    Ok(Output::new().text(text).structured(Fetched {
        url: url.into(),
        title,
        content_type,
        bytes,
    }))
}

toolkit! { namespace: "web", tools: [fetch] }

#[cfg(test)]
mod tests;
