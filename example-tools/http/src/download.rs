//! Saves a response body to a file.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

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
    /// Whether a file that exists is replaced.
    #[serde(default)]
    overwrite: bool,
    /// Whether redirects on the same host are followed, at most 5.
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
    check_target(target, input.overwrite)?;
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
    let staged = beside(target).map_err(|error| ToolError::at_path(target, &error))?;
    let saved = save(&mut answered, &staged, input.max_bytes)
        .and_then(|bytes| take_place(&staged, target, input.overwrite).map(|()| bytes));
    answer.bytes = saved.inspect_err(|_| drop(fs::remove_file(&staged)))?;
    answer.saved_to = Some(input.save_to);
    Ok(Output::new().text(answer.render()).structured(answer))
}

impl Download {
    fn check(&self) -> Result<(), ToolError> {
        request::url(&self.url)?;
        request::check_headers(&self.headers)
    }
}

fn check_target(target: &Path, overwrite: bool) -> Result<(), ToolError> {
    let refuse = |why: &str| {
        let message = format!("{} exists{why}", target.display());
        Err(ToolError::invalid_arguments("already_exists", message))
    };
    match fs::symlink_metadata(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(ToolError::at_path(target, &error)),
        Ok(metadata) if !metadata.is_file() => refuse(", and is no file"),
        Ok(_) if overwrite => Ok(()),
        Ok(_) => refuse("; `overwrite` replaces it"),
    }
}

/// An unused path in the folder of `target`.
fn beside(target: &Path) -> io::Result<PathBuf> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    (0..100)
        .map(|number| target.with_file_name(format!(".{name}.loading-{number}")))
        .find(|path| {
            fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        })
        .ok_or_else(|| io::ErrorKind::AlreadyExists.into())
}

fn save(answered: &mut Answered, staged: &Path, max: u64) -> Result<u64, ToolError> {
    let failed = |error: io::Error| ToolError::at_path(staged, &error);
    let declared = answered.response.header("content-length");
    let declared = declared.and_then(|text| text.parse::<u64>().ok());
    if declared.is_some_and(|declared| declared > max) {
        return Err(too_large(&answered.url, max));
    }
    let mut file: File = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(staged)
        .map_err(failed)?;
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
        file.write_all(&chunk).map_err(failed)?;
        if saved - reported >= REPORT_EVERY_BYTES {
            reported = saved;
            progress::report(Update::new().bytes_read(saved).bytes_written(saved));
        }
    }
    file.sync_all().map_err(failed)?;
    Ok(saved)
}

fn too_large(url: &Url, max: u64) -> ToolError {
    let message = format!("{url} is larger than {max} bytes; `max_bytes` raises the limit");
    ToolError::result_too_large("too_large", message)
}

fn take_place(staged: &Path, target: &Path, overwrite: bool) -> Result<(), ToolError> {
    let failed = |error: io::Error| ToolError::at_path(target, &error);
    if !overwrite {
        // Takes the name first, because a rename would replace a file that was created since it was looked for.
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(target)
            .map_err(failed)?;
    }
    fs::rename(staged, target).map_err(|error| {
        if !overwrite {
            // Empty, and made here.
            let _ = fs::remove_file(target);
        }
        failed(error)
    })
}
