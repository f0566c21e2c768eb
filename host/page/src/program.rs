//! Commands that the page runs for its user: one program, one way to answer an approval and to make a call.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::{Semaphore, oneshot};

/// Of calls, and of all others: a call that waits for an approval must not keep its answer from being given.
const COMMANDS_MAX: usize = 8;
/// Commands that run a tool, which can take long.
const CALLS: [&str; 2] = ["call", "replay"];
/// Of each output of a command, in bytes. What is left ends the command's pipe.
const OUTPUT_BYTES_MAX: u64 = 16 << 20;

/// The toolcell program, with the tools and grants for calls that are tried on the page.
pub struct Program {
    path: PathBuf,
    tools: Vec<String>,
    grants: Vec<String>,
    denials: Vec<String>,
    calls: Arc<Semaphore>,
    others: Arc<Semaphore>,
}

/// A command that ended.
pub(crate) struct CommandOutput {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl CommandOutput {
    /// Its words on standard error, as an error of the page.
    pub(crate) fn said(&self) -> &str {
        self.stderr.trim().trim_start_matches("error: ")
    }
}

impl Program {
    /// `grants` and `denials` are options of `toolcell call`; the page shows the grants.
    pub fn new(
        path: PathBuf,
        tools: Vec<String>,
        grants: Vec<String>,
        denials: Vec<String>,
    ) -> Self {
        Self {
            path,
            tools,
            grants,
            denials,
            calls: Arc::new(Semaphore::new(COMMANDS_MAX)),
            others: Arc::new(Semaphore::new(COMMANDS_MAX)),
        }
    }

    pub(crate) fn tools(&self) -> &[String] {
        &self.tools
    }

    pub(crate) fn grants(&self) -> &[String] {
        &self.grants
    }

    /// Options of a call.
    pub(crate) fn rules(&self) -> impl Iterator<Item = String> {
        self.grants.iter().chain(&self.denials).cloned()
    }

    /// `None` if the command still runs after `patience`: it goes on by itself.
    pub(crate) async fn run(
        &self,
        arguments: &[String],
        input: Vec<u8>,
        patience: Duration,
    ) -> std::io::Result<Option<CommandOutput>> {
        let first = arguments.first().map(String::as_str).unwrap_or_default();
        let is_call = CALLS.contains(&first);
        let places = if is_call { &self.calls } else { &self.others };
        let Ok(place) = Arc::clone(places).try_acquire_owned() else {
            let why = "too many commands of this page still run; wait for one to end";
            return Err(std::io::Error::other(why));
        };
        let child = Command::new(&self.path)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (tell, told) = oneshot::channel();
        tokio::spawn(async move {
            let _ = tell.send(finish(child, input).await);
            drop(place);
        });
        match tokio::time::timeout(patience, told).await {
            Err(_) => Ok(None),
            Ok(Ok(finished)) => finished.map(Some),
            Ok(Err(error)) => Err(std::io::Error::other(error)),
        }
    }
}

async fn finish(mut child: Child, input: Vec<u8>) -> std::io::Result<CommandOutput> {
    let stdin = child.stdin.take();
    let write = async {
        if let Some(mut stdin) = stdin {
            // The program may exit before it reads everything.
            let _ = stdin.write_all(&input).await;
        }
    };
    let stdout = child.stdout.take();
    let stderr = child.stderr.take();
    let ((), stdout, stderr) = tokio::join!(write, read(stdout), read(stderr));
    let status = child.wait().await?;
    Ok(CommandOutput {
        status,
        stdout: stdout?,
        stderr: String::from_utf8_lossy(&stderr?).into_owned(),
    })
}

async fn read(from: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        from.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}
