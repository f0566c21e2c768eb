//! `curl`, over the requests that the host allows. Secrets that were granted are added by the host.

mod options;

use std::path::{Path, PathBuf};

use bashkit::{Command, CommandContext, CommandStatus, Error, Result, async_trait};
use toolcell_guest::http::{self, Response};
use url::Url;

use options::{Data, Options};

const REDIRECTS_MAX: usize = 50;
const USER_AGENT: &str = concat!("toolcell-shell/", env!("CARGO_PKG_VERSION"));

pub(crate) struct Curl;

/// An exit code of curl, and what it says.
struct Failure(i32, String);

/// A step of a transfer: the outer error ends the script, the inner one is an exit code.
type Step<T> = Result<std::result::Result<T, Failure>>;

#[async_trait]
impl Command for Curl {
    async fn execute(&self, ctx: CommandContext<'_>) -> Result<CommandStatus> {
        let options = match options::parse(ctx.args) {
            Ok(options) => options,
            Err(why) => {
                ctx.stderr
                    .write_all(format!("curl: {why}\n").as_bytes())
                    .await?;
                return Ok(CommandStatus::with_code(2));
            }
        };
        let Err(Failure(code, why)) = transfer(&options, &ctx).await? else {
            return Ok(CommandStatus::success());
        };
        if !options.is_silent || options.shows_errors {
            ctx.stderr
                .write_all(format!("curl: ({code}) {why}\n").as_bytes())
                .await?;
        }
        Ok(CommandStatus::with_code(code))
    }
}

async fn transfer(options: &Options, ctx: &CommandContext<'_>) -> Step<()> {
    let body = match body(options, ctx).await? {
        Ok(body) => body,
        Err(failure) => return Ok(Err(failure)),
    };
    let mut response = match send(options, body) {
        Ok(response) => response,
        Err(failure) => return Ok(Err(failure)),
    };
    if options.fails && response.status >= 400 {
        let status = response.status;
        return Ok(Err(Failure(
            22,
            format!("The requested URL returned error: {status}"),
        )));
    }
    deliver(options, ctx, &mut response).await
}

/// `None` if the command line has no data.
async fn body(options: &Options, ctx: &CommandContext<'_>) -> Step<Option<Vec<u8>>> {
    if options.data.is_empty() {
        return Ok(Ok(None));
    }
    let mut body = Vec::new();
    for (at, data) in options.data.iter().enumerate() {
        if at > 0 {
            body.push(b'&');
        }
        match data {
            Data::Text(text) => body.extend(text.bytes()),
            Data::File(path, keeps_lines) => {
                let mut bytes = match read(path, ctx).await {
                    Ok(bytes) => bytes,
                    Err(error) => {
                        return Ok(Err(Failure(26, format!("Failed to open {path}: {error}"))));
                    }
                };
                bytes.retain(|byte| *keeps_lines || !matches!(byte, b'\r' | b'\n'));
                body.append(&mut bytes);
            }
        }
    }
    Ok(Ok(Some(body)))
}

async fn read(path: &str, ctx: &CommandContext<'_>) -> Result<Vec<u8>> {
    if path != "-" {
        return ctx.fs.read_file(&absolute(path, ctx)).await;
    }
    let mut bytes = Vec::new();
    while let Some(mut chunk) = ctx.stdin.read_chunk().await? {
        bytes.append(&mut chunk);
    }
    Ok(bytes)
}

fn absolute(path: &str, ctx: &CommandContext<'_>) -> PathBuf {
    ctx.cwd.join(Path::new(path))
}

/// Sends the request, and those that redirects ask for.
fn send(options: &Options, mut body: Option<Vec<u8>>) -> std::result::Result<Response, Failure> {
    let mut url = Url::parse(&options.url)
        .map_err(|error| Failure(3, format!("URL rejected: {}: {error}", options.url)))?;
    let mut method = options.method().to_owned();
    for _ in 0..=REDIRECTS_MAX {
        url.set_fragment(None);
        let mut request = http::request(method.as_str(), url.as_str());
        let is_set = |name: &str| {
            options
                .headers
                .iter()
                .any(|(known, _)| known.eq_ignore_ascii_case(name))
        };
        if !is_set("user-agent") {
            request = request.header("user-agent", USER_AGENT);
        }
        if body.is_some() && !is_set("content-type") {
            request = request.header("content-type", "application/x-www-form-urlencoded");
        }
        for (name, value) in &options.headers {
            request = request.header(name, value);
        }
        if let Some(body) = &body {
            request = request.body(body.clone());
        }
        let response = request.send().map_err(|error| explain(&error, &url))?;
        let target = response
            .header("location")
            .filter(|_| options.follows && matches!(response.status, 301 | 302 | 303 | 307 | 308));
        let Some(target) = target else {
            return Ok(response);
        };
        url = url
            .join(target)
            .map_err(|error| Failure(3, format!("URL rejected: {target}: {error}")))?;
        // As browsers do, and curl without -X.
        if options.method.is_none() && matches!(response.status, 301..=303) && method == "POST" {
            method = "GET".to_owned();
            body = None;
        }
    }
    Err(Failure(
        47,
        format!("Maximum ({REDIRECTS_MAX}) redirects followed"),
    ))
}

fn explain(error: &http::Error, url: &Url) -> Failure {
    let code = match error {
        http::Error::Invalid(_) => 3,
        http::Error::Timeout => 28,
        http::Error::Broken(_) => 56,
        _ => 7,
    };
    let host = url.host_str().unwrap_or_default();
    let mut why = format!("{host}: {error}");
    if *error == http::Error::NotAllowed {
        why.push_str(
            "; only the tool shell_online sends requests, to hosts that were granted (--allow-net)",
        );
    }
    Failure(code, why)
}

async fn deliver(options: &Options, ctx: &CommandContext<'_>, response: &mut Response) -> Step<()> {
    let file = options.output.as_deref().filter(|path| *path != "-");
    let path = file.map(|path| absolute(path, ctx));
    if let Some(path) = &path
        && let Err(error) = ctx.fs.write_file(path, &[]).await
    {
        return Ok(Err(Failure(
            23,
            format!("Failure writing output to destination: {error}"),
        )));
    }
    let mut head = Vec::new();
    if options.shows_head || options.is_head {
        head = head_of(response);
    }
    let mut next = Some(head);
    while let Some(bytes) = next {
        let written = match &path {
            Some(path) => ctx.fs.append_file(path, &bytes).await,
            None => ctx.stdout.write_all(&bytes).await,
        };
        match written {
            Ok(()) => {}
            Err(Error::Io(error)) => {
                return Ok(Err(Failure(
                    23,
                    format!("Failure writing output to destination: {error}"),
                )));
            }
            Err(error) => return Err(error),
        }
        next = match response.chunk() {
            Ok(next) => next,
            Err(error) => return Ok(Err(Failure(56, error.to_string()))),
        };
    }
    Ok(Ok(()))
}

/// The status and the headers that are most looked for: the SDK gives headers by name only.
fn head_of(response: &Response) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {}\r\n", response.status);
    for name in [
        "content-type",
        "content-length",
        "last-modified",
        "etag",
        "location",
        "retry-after",
    ] {
        if let Some(value) = response.header(name) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    head.push_str("\r\n");
    head.into_bytes()
}
