//! Commands that the page runs for its user: one program, one way to answer an approval and to make a call.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::{Semaphore, oneshot};
use toolcell_spec::InvocationId;

use crate::actions::{DescribedTool, PageActions, PageAnswer, PageCommands, PageFuture, ToolRow};
use crate::layout::PageProblem;
use crate::view::{list, text};

/// Of calls, and of all others: a call that waits for an approval must not keep its answer from being given.
const COMMANDS_MAX: usize = 8;
/// Commands that run a tool, which can take long.
const CALLS: [&str; 2] = ["call", "replay"];
/// A tool that was never loaded is compiled first.
const PATIENCE: Duration = Duration::from_secs(60);
/// A call that takes longer is found in the list.
const CALL_PATIENCE: Duration = Duration::from_secs(3);
const REPLAY_PATIENCE: Duration = Duration::from_secs(10);
/// A call whose process has ended runs in the command that approves it; the page does not wait for its end.
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);
/// Of each output of a command, in bytes. What is left ends the command's pipe.
const OUTPUT_BYTES_MAX: u64 = 16 << 20;

/// The toolcell program, with the tools and grants for calls that are tried on the page.
pub struct Program {
    path: PathBuf,
    tools: Vec<String>,
    grants: Vec<String>,
    denials: Vec<String>,
    has_machines: bool,
    calls: Arc<Semaphore>,
    others: Arc<Semaphore>,
}

/// A command that ended.
struct CommandOutput {
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: String,
}

impl CommandOutput {
    /// Its words on standard error, as an error of the page.
    fn said(&self) -> &str {
        self.stderr.trim().trim_start_matches("error: ")
    }

    /// Where standard error has none, the JSON has it.
    fn refusal(&self) -> PageProblem {
        let printed: Option<Value> = serde_json::from_slice(&self.stdout).ok();
        let printed = printed.as_ref().and_then(|value| value.get("error"));
        let why = match self.said() {
            "" => printed.map_or("", |error| text(error, "message")),
            said => said,
        };
        PageProblem::new(StatusCode::CONFLICT, why)
    }
}

impl Program {
    /// `grants` and `denials` are options of `toolcell call`; the page shows the grants. `has_machines`: a cluster is
    /// configured.
    pub fn new(
        path: PathBuf,
        tools: Vec<String>,
        grants: Vec<String>,
        denials: Vec<String>,
        has_machines: bool,
    ) -> Self {
        Self {
            path,
            tools,
            grants,
            denials,
            has_machines,
            calls: Arc::new(Semaphore::new(COMMANDS_MAX)),
            others: Arc::new(Semaphore::new(COMMANDS_MAX)),
        }
    }

    /// `None` if the command still runs after `patience`: it goes on by itself.
    async fn run(
        &self,
        arguments: &[String],
        input: Vec<u8>,
        patience: Duration,
    ) -> Result<Option<CommandOutput>, PageProblem> {
        let first = arguments.first().map(String::as_str).unwrap_or_default();
        let is_call = CALLS.contains(&first);
        let places = if is_call { &self.calls } else { &self.others };
        let Ok(place) = Arc::clone(places).try_acquire_owned() else {
            let why = "too many commands of this page still run; wait for one to end";
            return Err(PageProblem::busy(why));
        };
        let child = Command::new(&self.path)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| PageProblem::failed(&error))?;
        let (tell, told) = oneshot::channel();
        tokio::spawn(async move {
            let _ = tell.send(finish(child, input).await);
            drop(place);
        });
        match tokio::time::timeout(patience, told).await {
            Err(_) => Ok(None),
            Ok(Ok(Ok(finished))) => Ok(Some(finished)),
            Ok(Ok(Err(error))) => Err(PageProblem::failed(&error)),
            Ok(Err(error)) => Err(PageProblem::failed(&error)),
        }
    }

    /// The JSON that a command prints which only reads.
    async fn read(&self, words: &[&str]) -> Result<Value, PageProblem> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let Some(ran) = self.run(&words, Vec::new(), PATIENCE).await? else {
            let why = "this takes long: load the page again later";
            return Err(PageProblem::busy(why));
        };
        let value: Option<Value> = serde_json::from_slice(&ran.stdout).ok();
        let value = value.filter(|_| ran.status.success());
        value.ok_or_else(|| ran.refusal())
    }

    async fn installed(&self) -> Result<Vec<Value>, PageProblem> {
        let mut listed = self.read(&["list", "--json"]).await?;
        match listed.get_mut("installed").map(Value::take) {
            Some(Value::Array(installed)) => Ok(installed),
            _ => Ok(Vec::new()),
        }
    }

    /// Its entry of the list of installed tools; `None` for a tool of the command line.
    async fn find(&self, name: &str) -> Result<Option<ToolRow>, PageProblem> {
        if self.tools.iter().any(|known| known == name) {
            return Ok(None);
        }
        let installed = self.installed().await?;
        let mut rows = installed.iter().map(row);
        let found = rows.find(|row| row.name == name);
        let unknown = || PageProblem::unknown("no tool has this name here");
        found.map(Some).ok_or_else(unknown)
    }

    async fn describe_one(&self, name: &str) -> Result<DescribedTool, PageProblem> {
        let entry = self.find(name).await?.unwrap_or_default();
        let described = self.read(&["describe", "--json", "--", name]).await?;
        let items = |field| list(&described, field).to_vec();
        let namespace = list(&described, "namespaces").first();
        let component = namespace.map(|one| text(one, "producer"));
        Ok(DescribedTool {
            facts: vec![
                ("From", entry.reference),
                ("Version", entry.version),
                ("Component", component.unwrap_or_default().to_owned()),
                ("Signed by", entry.signer),
            ],
            declarations: items("declarations"),
            permission_profiles: items("permission_profiles"),
        })
    }

    /// As `toolcell call` does, with the grants of this page.
    async fn call_one(
        &self,
        name: &str,
        tool: &str,
        input: String,
    ) -> Result<Option<String>, PageProblem> {
        self.find(name).await?;
        // The last `#` of a name begins the tool's.
        if tool.contains(['#', '\0']) {
            return Err(PageProblem::unknown("no tool has this name here"));
        }
        let mut words = vec!["call".to_owned(), "--json".to_owned()];
        words.extend(self.grants.iter().chain(&self.denials).cloned());
        // A name is no option, whatever it begins with.
        words.extend(["--".to_owned(), format!("{name}#{tool}"), "-".to_owned()]);
        let ran = self.run(&words, input.into_bytes(), CALL_PATIENCE).await?;
        let Some(ran) = ran else {
            return Ok(None);
        };
        let result: Option<Value> = serde_json::from_slice(&ran.stdout).ok();
        let id = result.as_ref().map(|result| text(result, "invocation_id"));
        match id.filter(|id| !id.is_empty()) {
            Some(id) => Ok(Some(id.to_owned())),
            None if ran.said().is_empty() => {
                let why =
                    "the answer is too large for this view: find the call in the list of calls";
                Err(PageProblem::new(StatusCode::CONFLICT, why))
            }
            None => Err(ran.refusal()),
        }
    }

    async fn answer_one(&self, id: InvocationId, answer: PageAnswer) -> Result<(), PageProblem> {
        let verb = if answer.approves { "approve" } else { "deny" };
        let mut words = ["approvals", verb, "--json"].map(str::to_owned).to_vec();
        words.extend(
            answer
                .feedback
                .map(|feedback| format!("--feedback={feedback}")),
        );
        for (is_set, option) in [
            (answer.edit.is_some(), "--edit=-"),
            (answer.accept_partial_view, "--accept-partial-view"),
            (answer.always, "--always"),
        ] {
            words.extend(is_set.then(|| option.to_owned()));
        }
        words.push(id.to_string());
        let edit = answer.edit.unwrap_or_default();
        let ran = self.run(&words, edit.into_bytes(), ANSWER_PATIENCE).await?;
        // Without a word on standard output, nothing was answered.
        match ran.filter(|ran| !ran.status.success() && ran.stdout.is_empty()) {
            Some(refused) => Err(refused.refusal()),
            None => Ok(()),
        }
    }
}

impl PageActions for Program {
    fn tools(&self) -> PageFuture<'_, Vec<ToolRow>> {
        Box::pin(async {
            let named = self.tools.iter().map(|name| ToolRow {
                name: name.clone(),
                state: "ready".to_owned(),
                ..ToolRow::default()
            });
            let installed = self.installed().await?;
            Ok(named.chain(installed.iter().map(row)).collect())
        })
    }

    fn describe<'a>(&'a self, name: &'a str) -> PageFuture<'a, DescribedTool> {
        Box::pin(self.describe_one(name))
    }

    fn call<'a>(
        &'a self,
        name: &'a str,
        tool: &'a str,
        input: String,
    ) -> PageFuture<'a, Option<String>> {
        Box::pin(self.call_one(name, tool, input))
    }

    fn answer(&self, id: InvocationId, answer: PageAnswer) -> PageFuture<'_, ()> {
        Box::pin(self.answer_one(id, answer))
    }

    fn grants(&self) -> Option<&[String]> {
        Some(&self.grants)
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn commands(&self) -> Option<&dyn PageCommands> {
        Some(self)
    }
}

impl PageCommands for Program {
    fn replay<'a>(&'a self, id: &'a str) -> PageFuture<'a, Option<Value>> {
        Box::pin(async move {
            let words = ["replay", id, "--json"].map(str::to_owned);
            let Some(ran) = self.run(&words, Vec::new(), REPLAY_PATIENCE).await? else {
                return Ok(None);
            };
            let report: Option<Value> = serde_json::from_slice(&ran.stdout).ok();
            report.map(Some).ok_or_else(|| ran.refusal())
        })
    }

    fn principals(&self) -> PageFuture<'_, Vec<Value>> {
        Box::pin(async {
            let listed = self.read(&["policy", "principals", "--json"]).await?;
            Ok(list(&listed, "principals").to_vec())
        })
    }

    fn has_machines(&self) -> bool {
        self.has_machines
    }

    fn machines(&self) -> PageFuture<'_, Value> {
        Box::pin(self.read(&["cluster", "status", "--json"]))
    }
}

/// An installed tool, as the command lists it.
fn row(installed: &Value) -> ToolRow {
    let tool = installed.get("tool").unwrap_or(&Value::Null);
    let signer = match tool.get("signer") {
        Some(Value::Object(fields)) => {
            let parts: Vec<&str> = fields.values().filter_map(Value::as_str).collect();
            parts.join(", ")
        }
        Some(Value::String(name)) => name.clone(),
        _ => "nobody".to_owned(),
    };
    ToolRow {
        name: text(tool, "name").to_owned(),
        version: text(tool, "version").to_owned(),
        reference: text(tool, "reference").to_owned(),
        signer,
        state: text(installed, "state").to_owned(),
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
