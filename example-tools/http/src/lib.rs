//! Sends one HTTP request. A tool that reads and one that changes something elsewhere are two, so that reading needs no
//! approval; those that send a secret are two more, because a tool that asks for one cannot run without it.

mod answer;
mod body;
mod download;
mod exchange;
mod request;

#[cfg(test)]
mod tests;

use toolcell_guest::{Output, ToolError, data, serde_json::Value, tool, toolkit};

use answer::Answer;
use exchange::Exchange;
use request::{Headers, RequestBody};

#[data]
struct Get {
    /// An absolute http or https URL.
    #[schemars(length(max = 8_000))]
    url: String,
    /// `HEAD` asks for the headers alone.
    #[serde(default)]
    method: ReadMethod,
    /// Headers of the request, such as `{"accept": "application/json"}`.
    #[serde(default)]
    headers: Headers,
    /// `true` if redirects on the same host are followed, at most 5. Otherwise the answer says where one leads to.
    #[serde(default)]
    follow: bool,
    /// Longest wait for the connection, for the response, and between two pieces of it, in milliseconds.
    #[serde(default = "timeout_default")]
    #[schemars(range(min = 1, max = 300_000))]
    timeout_ms: u64,
    /// Text beyond this many bytes is cut off. Default: 256 KiB.
    #[serde(default = "bytes_default")]
    #[schemars(range(min = 1, max = 4_194_304))]
    max_bytes: u32,
}

#[data]
#[derive(Clone, Copy, Default)]
enum ReadMethod {
    #[default]
    #[serde(rename = "GET")]
    Get,
    #[serde(rename = "HEAD")]
    Head,
}

#[data]
struct Send {
    /// An absolute http or https URL.
    #[schemars(length(max = 8_000))]
    url: String,
    #[serde(default)]
    method: SendMethod,
    /// Headers of the request, such as `{"content-type": "text/csv"}`.
    #[serde(default)]
    headers: Headers,
    /// The body as text. Not with `json`.
    #[serde(default)]
    body: Option<String>,
    /// The body as JSON. The content type is `application/json` unless `headers` says otherwise. Not with `body`.
    #[serde(default)]
    json: Option<Value>,
    /// Longest wait for the connection, for the response, and between two pieces of it, in milliseconds.
    #[serde(default = "timeout_default")]
    #[schemars(range(min = 1, max = 300_000))]
    timeout_ms: u64,
    /// Text of the response beyond this many bytes is cut off. Default: 256 KiB.
    #[serde(default = "bytes_default")]
    #[schemars(range(min = 1, max = 4_194_304))]
    max_bytes: u32,
}

#[data]
#[derive(Clone, Copy, Default)]
enum SendMethod {
    #[default]
    #[serde(rename = "POST")]
    Post,
    #[serde(rename = "PUT")]
    Put,
    #[serde(rename = "PATCH")]
    Patch,
    #[serde(rename = "DELETE")]
    Delete,
}

fn timeout_default() -> u64 {
    30_000
}

fn bytes_default() -> u32 {
    256 << 10
}

/// Sends a GET or HEAD request and returns status, headers and text.
///
/// A status such as 404 is an answer, not an error. A body that is not text is described by its type and size; `download`
/// saves it.
#[tool(
    search_hint = "http get request API json rest head",
    risk = "medium",
    access = ["network"],
    network_scope = "argument",
    urls = ["url"],
    content = ["text"],
    read_only,
    concurrency_safe,
    destructive = false,
    open_world,
    validate = Get::check
)]
fn get(input: Get) -> Result<Output<Answer>, ToolError> {
    input.run()
}

/// Sends a GET or HEAD request with the secret HTTP_TOKEN as `Authorization: Bearer`, and returns status, headers and text.
#[tool(
    search_hint = "http get request API with token secret authorization",
    risk = "medium",
    access = ["network", "credential"],
    network_scope = "argument",
    credential_refs = ["HTTP_TOKEN"],
    urls = ["url"],
    content = ["text"],
    read_only,
    concurrency_safe,
    destructive = false,
    open_world,
    validate = Get::check
)]
fn get_authorized(input: Get) -> Result<Output<Answer>, ToolError> {
    input.run()
}

/// Sends a POST, PUT, PATCH or DELETE request and returns status, headers and text. Redirects are not followed.
#[tool(
    search_hint = "http post put patch delete request API json rest",
    risk = "medium",
    access = ["network"],
    network_scope = "argument",
    write_effects = ["remote_mutation"],
    urls = ["url"],
    content = ["text"],
    read_only = false,
    destructive,
    open_world,
    validate = Send::check
)]
fn send(input: Send) -> Result<Output<Answer>, ToolError> {
    input.run()
}

/// Sends a POST, PUT, PATCH or DELETE request with the secret HTTP_TOKEN as `Authorization: Bearer`, and returns status,
/// headers and text. Redirects are not followed.
#[tool(
    search_hint = "http post put delete API with token secret authorization",
    risk = "medium",
    access = ["network", "credential"],
    network_scope = "argument",
    credential_refs = ["HTTP_TOKEN"],
    write_effects = ["remote_mutation"],
    urls = ["url"],
    content = ["text"],
    read_only = false,
    destructive,
    open_world,
    validate = Send::check
)]
fn send_authorized(input: Send) -> Result<Output<Answer>, ToolError> {
    input.run()
}

impl Get {
    fn check(&self) -> Result<(), ToolError> {
        request::url(&self.url)?;
        request::check_headers(&self.headers)
    }

    fn run(self) -> Result<Output<Answer>, ToolError> {
        let method = match self.method {
            ReadMethod::Get => "GET",
            ReadMethod::Head => "HEAD",
        };
        let exchange = Exchange {
            method,
            url: request::url(&self.url)?,
            headers: &self.headers,
            body: None,
            follow: self.follow,
            timeout_ms: self.timeout_ms,
        };
        answer::read(exchange.send()?, self.max_bytes as usize)
    }
}

impl Send {
    fn check(&self) -> Result<(), ToolError> {
        request::url(&self.url)?;
        request::check_headers(&self.headers)?;
        RequestBody::new(self.body.as_deref(), self.json.as_ref()).map(drop)
    }

    fn run(self) -> Result<Output<Answer>, ToolError> {
        let method = match self.method {
            SendMethod::Post => "POST",
            SendMethod::Put => "PUT",
            SendMethod::Patch => "PATCH",
            SendMethod::Delete => "DELETE",
        };
        let exchange = Exchange {
            method,
            url: request::url(&self.url)?,
            headers: &self.headers,
            body: RequestBody::new(self.body.as_deref(), self.json.as_ref())?,
            follow: false,
            timeout_ms: self.timeout_ms,
        };
        answer::read(exchange.send()?, self.max_bytes as usize)
    }
}

toolkit! {
    namespace: "http",
    tools: [get, send, get_authorized, send_authorized, download::download]
}
