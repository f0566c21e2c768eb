//! Saves a response body to a file.

use std::{
    io::{self, Write},
    path::Path,
};

use new_file::NewFile;
use toolcell_guest::{
    Output, ToolError, cancellation, data,
    progress::{self, Update},
    tool,
};
use url::Url;

use crate::{
    answer::Answer,
    exchange::{Answered, Exchange, explain},
    request::{self, Headers},
    timeout_default,
};

/// Bytes between two reports of progress.
const REPORT_EVERY_BYTES: u64 = 1 << 20;

#[data]
pub(crate) struct Download {
    /// An absolute http or https URL.
    #[schemars(length(max = 8_000))]
    url: String,
    /// The file to write. Its folder must exist.
    save_to: String,
    /// Headers of the request.
    #[serde(default)]
    headers: Headers,
    /// `true` if a file that exists is replaced.
    #[serde(default)]
    overwrite: bool,
    /// `true` if redirects on the same host are followed, at most 5.
    #[serde(default = "yes")]
    follow: bool,
    /// Longest wait for the connection, for the response, and between two pieces of it, in milliseconds.
    #[serde(default = "timeout_default")]
    #[schemars(range(min = 1, max = 300_000))]
    timeout_ms: u64,
    /// A larger body is an error, and nothing is saved. Default: 64 MiB.
    #[serde(default = "bytes_default")]
    #[schemars(range(min = 1, max = 1_073_741_824))]
    max_bytes: u64,
}

fn yes() -> bool {
    true
}

fn bytes_default() -> u64 {
    64 << 20
}

/// Sends a GET request and saves the body to a file, as it is.
///
/// Only a response with a status from 200 to 299 is saved, completely or not at all.
#[tool(
    search_hint = "download file from url save http get binary",
    risk = "medium",
    access = ["network", "file_write"],
    network_scope = "argument",
    write_effects = ["local_persistent"],
    urls = ["url"],
    paths = ["save_to"],
    content = ["text"],
    read_only = false,
    destructive,
    open_world,
    validate = Download::check
)]
pub(crate) fn download(input: Download) -> Result<Output<Answer>, ToolError> {
    let target = Path::new(&input.save_to);
    new_file::check(target, input.overwrite)?;
    let exchange = Exchange {
        method: "GET",
        url: request::url(&input.url)?,
        headers: &input.headers,
        body: None,
        follow: input.follow,
        timeout_ms: input.timeout_ms,
    };
    let mut answered = exchange.send()?;
    let mut answer = Answer::head(&answered);
    if !(200..300).contains(&answer.status) {
        let text = format!("{}\nNothing was saved.", answer.render());
        return Ok(Output::new().text(text).structured(answer));
    }
    let mut file = NewFile::beside(target)?;
    answer.bytes = save(&mut answered, &mut file, input.max_bytes)?;
    file.place(input.overwrite)?;
    answer.saved_to = Some(input.save_to);
    Ok(Output::new().text(answer.render()).structured(answer))
}

impl Download {
    fn check(&self) -> Result<(), ToolError> {
        request::url(&self.url)?;
        request::check_headers(&self.headers)
    }
}

fn save(answered: &mut Answered, file: &mut NewFile, max: u64) -> Result<u64, ToolError> {
    let path = file.path().to_owned();
    let failed = |error: io::Error| ToolError::at_path(&path, &error);
    let declared = answered.response.header("content-length");
    let declared = declared.and_then(|text| text.parse::<u64>().ok());
    if declared.is_some_and(|declared| declared > max) {
        return Err(too_large(&answered.url, max));
    }
    let mut saved = 0;
    let mut reported = 0;
    loop {
        cancellation::check()?;
        let chunk = answered.response.chunk();
        let Some(chunk) = chunk.map_err(|error| explain(error, &answered.url))? else {
            break;
        };
        saved += chunk.len() as u64;
        if saved > max {
            return Err(too_large(&answered.url, max));
        }
        file.file().write_all(&chunk).map_err(failed)?;
        if saved - reported >= REPORT_EVERY_BYTES {
            reported = saved;
            progress::report(Update::new().bytes_read(saved).bytes_written(saved));
        }
    }
    Ok(saved)
}

fn too_large(url: &Url, max: u64) -> ToolError {
    let message = format!("{url} is larger than {max} bytes; `max_bytes` raises the limit");
    ToolError::result_too_large("too_large", message)
}
