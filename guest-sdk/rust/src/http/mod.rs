//! HTTP requests to servers that the host lets the tool reach. Needs the feature `http`; the tool declares
//! `access = ["network"]` and a `network_scope`.
//!
//! ```no_run
//! # fn main() -> Result<(), toolcell_guest::ToolError> {
//! let mut response = toolcell_guest::http::get("https://api.example.com/v1/words").send()?;
//! let text = String::from_utf8_lossy(&response.read(1 << 20)?).into_owned();
//! # Ok(())
//! # }
//! ```
//!
//! A redirect is a response like any other: to follow it, send another request. The host writes `Host`,
//! `Content-Length` and the headers that frame a message, and a tool sends no credentials of its own.

use std::{fmt, time::Duration};

use crate::ToolError;

#[cfg(target_arch = "wasm32")]
mod wire;
#[cfg(target_arch = "wasm32")]
use wire as host;

#[cfg(not(target_arch = "wasm32"))]
use crate::testing as host;

/// A request under construction.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The method, such as `GET`.
    pub method: String,
    /// The absolute URL.
    pub url: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<Vec<u8>>,
    #[cfg_attr(not(target_arch = "wasm32"), allow(dead_code))]
    pub(crate) timeout: Option<Duration>,
}

/// A `GET` of an absolute `http` or `https` URL.
pub fn get(url: impl Into<String>) -> Request {
    request("GET", url)
}

/// A request with any method. A tool that does not declare `remote_mutation` may send `GET`, `HEAD` and `OPTIONS` only.
pub fn request(method: impl Into<String>, url: impl Into<String>) -> Request {
    Request {
        method: method.into(),
        url: url.into(),
        headers: Vec::new(),
        body: None,
        timeout: None,
    }
}

impl Request {
    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Sets how long to wait for the connection, for the head of the response, and between two pieces of its body, each.
    /// The host's own limits are the longest times possible.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sends the request, and waits for the head of the response.
    pub fn send(self) -> Result<Response, Error> {
        host::send(self)
    }
}

/// A response, whose body may still be arriving.
#[derive(Debug)]
pub struct Response {
    /// The status code, such as 200.
    pub status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: host::Body,
}

impl Response {
    /// Returns the first header called `name`, in any case, if its value is UTF-8.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// All headers whose values are UTF-8, in the order of the response.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the next piece of the body; `None` at its end.
    pub fn chunk(&mut self) -> Result<Option<Vec<u8>>, Error> {
        self.body.chunk()
    }

    /// Reads the rest of the body. Fails with [`Error::TooLarge`] if it has more than `limit` bytes.
    pub fn read(&mut self, limit: usize) -> Result<Vec<u8>, Error> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk()? {
            if body.len() + chunk.len() > limit {
                return Err(Error::TooLarge { limit });
            }
            body.extend(chunk);
        }
        Ok(body)
    }
}

/// Why there is no response, or no complete one. `?` turns it into a [`ToolError`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The URL is not an absolute `http` or `https` URL, or a header is not possible in a request.
    Invalid(String),
    /// The host does not allow this call to send the request.
    NotAllowed,
    /// A limit of the host on requests or bytes was reached.
    Limit,
    /// The body is larger than the limit of the tool.
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The server did not answer in time.
    Timeout,
    /// The server does not exist, does not answer, or has no valid certificate.
    Unreachable(String),
    /// The response is malformed or incomplete.
    Broken(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(what) => write!(f, "the request cannot be sent: {what}"),
            Self::NotAllowed => f.write_str("this call may not send that request"),
            Self::Limit => f.write_str("a limit on requests was met"),
            Self::TooLarge { limit } => write!(f, "the response is larger than {limit} bytes"),
            Self::Timeout => f.write_str("the server did not answer in time"),
            Self::Unreachable(why) => write!(f, "the server cannot be reached: {why}"),
            Self::Broken(why) => write!(f, "the response is broken: {why}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Error> for ToolError {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::Invalid(_) => Self::invalid_arguments("invalid_request", message),
            Error::NotAllowed => Self::execution_failed("not_allowed", message),
            Error::Limit => Self::rate_limited("limit", message),
            Error::TooLarge { .. } => Self::result_too_large("too_large", message),
            Error::Timeout => Self::timeout("server_timeout", message),
            Error::Unreachable(_) => Self::dependency_unavailable("unreachable", message),
            Error::Broken(_) => Self::dependency_unavailable("broken_response", message),
        }
    }
}
