//! Downloads a response: follows redirects, reports progress, and stops at the size limit.

use std::time::Duration;

use toolcell_guest::{
    ToolError,
    http::{self, Error, Response},
    progress::{self, Update},
};
use url::Url;

use crate::content::ContentType;

const REDIRECTS_MAX: usize = 5;
/// Bytes between two progress reports.
const REPORT_EVERY_BYTES: usize = 256 << 10;

/// A response body and its origin.
pub(crate) struct Transfer {
    pub(crate) url: Url,
    pub(crate) content_type: ContentType,
    pub(crate) body: Vec<u8>,
}

pub(crate) fn transfer(url: &str, limit: usize) -> Result<Transfer, ToolError> {
    let mut url = Url::parse(url).map_err(|error| invalid(url, &error.to_string()))?;
    for hop in 0..=REDIRECTS_MAX {
        url.set_fragment(None);
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid(url.as_str(), "only http and https can be fetched"));
        }
        let mut response = ask(&url).map_err(|error| explain(error, &url, hop))?;
        match next(&response, &url)? {
            Some(to) => url = to,
            None => {
                check(&response, &url)?;
                let content_type =
                    ContentType::parse(response.header("content-type").unwrap_or_default());
                content_type.check()?;
                let body = read(&mut response, limit).map_err(|error| explain(error, &url, hop))?;
                return Ok(Transfer {
                    url,
                    content_type,
                    body,
                });
            }
        }
    }
    let message = format!("there were more than {REDIRECTS_MAX} redirects, the last one to {url}");
    Err(ToolError::execution_failed("too_many_redirects", message))
}

fn ask(url: &Url) -> Result<Response, Error> {
    progress::message(format!("asking {}", url.host_str().unwrap_or_default()));
    http::get(url.as_str())
        .header(
            "accept",
            "text/html, text/markdown, text/plain, application/json, text/*;q=0.8",
        )
        .header(
            "user-agent",
            concat!("toolcell-fetch/", env!("CARGO_PKG_VERSION")),
        )
        .send()
}

/// The URL that `response` redirects to, if it does.
fn next(response: &Response, url: &Url) -> Result<Option<Url>, ToolError> {
    if !matches!(response.status, 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let broken =
        |why: &str| ToolError::execution_failed("bad_redirect", format!("{url} redirects {why}"));
    let location = response
        .header("location")
        .ok_or_else(|| broken("to nowhere"))?;
    let to = url
        .join(location)
        .map_err(|_| broken("to an invalid URL"))?;
    match to.scheme() {
        "http" | "https" => Ok(Some(to)),
        scheme => Err(broken(&format!(
            "to a URL of the scheme {scheme}, which is not followed"
        ))),
    }
}

fn check(response: &Response, url: &Url) -> Result<(), ToolError> {
    let status = response.status;
    let message = format!("{url} answered with status {status}");
    match status {
        200..=299 => Ok(()),
        404 | 410 => Err(ToolError::execution_failed("not_found", message)),
        429 | 503 => {
            let error = ToolError::rate_limited("server_busy", message);
            let seconds = response
                .header("retry-after")
                .and_then(|text| text.trim().parse().ok());
            Err(match seconds {
                Some(seconds) => error.retry_after(Duration::from_secs(seconds)),
                None => error,
            })
        }
        _ => Err(ToolError::execution_failed("http_status", message)),
    }
}

fn read(response: &mut Response, limit: usize) -> Result<Vec<u8>, Error> {
    let expected = response
        .header("content-length")
        .and_then(|text| text.parse::<usize>().ok());
    if expected.is_some_and(|expected| expected > limit) {
        return Err(Error::TooLarge { limit });
    }
    let mut body = Vec::new();
    let mut reported = 0;
    while let Some(chunk) = response.chunk()? {
        if body.len() + chunk.len() > limit {
            return Err(Error::TooLarge { limit });
        }
        body.extend(chunk);
        if body.len() - reported >= REPORT_EVERY_BYTES {
            reported = body.len();
            report(reported, expected);
        }
    }
    report(body.len(), expected);
    Ok(body)
}

fn report(read: usize, expected: Option<usize>) {
    let update = Update::new()
        .message(format!("{} KiB read", read.div_ceil(1 << 10)))
        .bytes_read(read as u64);
    progress::report(match expected {
        Some(expected) if expected > 0 => update.percent(read as f64 * 100.0 / expected as f64),
        _ => update,
    });
}

/// Adds to the error what the caller can do about it.
fn explain(error: Error, url: &Url, hop: usize) -> ToolError {
    match error {
        Error::NotAllowed if hop > 0 => {
            let message = format!(
                "the page redirects to {url}, which this call may not reach: fetch that URL itself"
            );
            ToolError::execution_failed("not_allowed", message)
        }
        Error::NotAllowed => {
            ToolError::execution_failed("not_allowed", format!("this call may not reach {url}"))
        }
        Error::TooLarge { limit } => {
            let message = format!("{url} is larger than {limit} bytes; max_bytes raises the limit");
            ToolError::result_too_large("too_large", message)
        }
        error => {
            let mut told = ToolError::from(error);
            told.message = format!("{url}: {}", told.message);
            told
        }
    }
}

fn invalid(url: &str, why: &str) -> ToolError {
    ToolError::invalid_arguments("invalid_url", format!("{url} cannot be fetched: {why}"))
}
