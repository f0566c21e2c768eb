//! Sends a request, and follows redirects if it is asked to.

use std::time::Duration;

use toolcell_guest::{
    ToolError, cancellation,
    http::{self, Error, Response},
    progress,
};
use url::Url;

use crate::request::{Headers, RequestBody};

const REDIRECTS_MAX: usize = 5;

/// A request that is ready.
pub(crate) struct Exchange<'i> {
    pub(crate) method: &'static str,
    pub(crate) url: Url,
    pub(crate) headers: &'i Headers,
    pub(crate) body: Option<RequestBody>,
    /// `true` if redirects on the same host are followed.
    pub(crate) follow: bool,
    pub(crate) timeout_ms: u64,
}

/// A response whose body is not read yet.
pub(crate) struct Answered {
    pub(crate) method: &'static str,
    pub(crate) url: Url,
    pub(crate) response: Response,
    /// Where a redirect that was not followed leads to.
    pub(crate) redirect: Option<Url>,
}

impl Exchange<'_> {
    pub(crate) fn send(self) -> Result<Answered, ToolError> {
        let mut url = self.url.clone();
        for _ in 0..=REDIRECTS_MAX {
            cancellation::check()?;
            let host = url.host_str().unwrap_or_default();
            progress::message(format!("{} {host}", self.method));
            let sent = self.request(&url).send();
            let response = sent.map_err(|error| explain(error, &url))?;
            let redirect = target(&response, &url);
            match redirect {
                // This call may reach no other host.
                Some(next) if self.follow && next.origin() == url.origin() => url = next,
                redirect => {
                    return Ok(Answered {
                        method: self.method,
                        url,
                        response,
                        redirect,
                    });
                }
            }
        }
        let message =
            format!("there were more than {REDIRECTS_MAX} redirects, the last one to {url}");
        Err(ToolError::execution_failed("too_many_redirects", message))
    }

    fn request(&self, url: &Url) -> http::Request {
        let mut request = http::request(self.method, url.as_str())
            .timeout(Duration::from_millis(self.timeout_ms));
        let has = |name: &str| {
            self.headers
                .keys()
                .any(|known| known.eq_ignore_ascii_case(name))
        };
        if !has("user-agent") {
            let agent = concat!("toolcell-http/", env!("CARGO_PKG_VERSION"));
            request = request.header("user-agent", agent);
        }
        if let Some(body) = &self.body {
            if !has("content-type") {
                request = request.header("content-type", body.content_type);
            }
            request = request.body(body.bytes.clone());
        }
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        request
    }
}

/// The URL that `response` redirects to; `None` if there is none that can be asked.
fn target(response: &Response, url: &Url) -> Option<Url> {
    if !matches!(response.status, 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let mut target = url.join(response.header("location")?).ok()?;
    target.set_fragment(None);
    matches!(target.scheme(), "http" | "https").then_some(target)
}

/// Adds the URL to the error.
pub(crate) fn explain(error: Error, url: &Url) -> ToolError {
    let told = ToolError::from(error);
    let message = format!("{url}: {}", told.message);
    ToolError { message, ..told }
}
