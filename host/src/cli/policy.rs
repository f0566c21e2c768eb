use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::config::{self, ConfigFile, Home, Trust};
use crate::host::{Cancellation, Explanation, Request};
use crate::record::{Behavior, Refusal};

use super::exit::{self, BadRequest, Exit};
use super::options::{self, GrantOptions, LimitOptions, PolicyOptions, Settings};
use super::target::{self, Target};
use super::{input, show};

/// Looks at what decides on calls. No tool runs.
#[derive(Debug, Args)]
pub(super) struct Policy {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say whether a call would run: exit 0 if it would, 3 if it is refused, 6 if somebody would be asked
    Check(Foretell),
    /// Say why: each rule that is looked at, what it matched, and what the call would get
    Explain(Foretell),
    /// Trust the hotcell.toml of a project, as it is now
    Trust {
        /// The folder of the project, or one below it
        #[arg(default_value = ".")]
        dir: PathBuf,
    },
}

/// A call that is not made.
#[derive(Debug, Args)]
struct Foretell {
    /// A .wasm file, or the source folder of a tool, built when stale; with #NAME if it has several tools
    tool: String,
    /// The arguments: JSON, @FILE, or - for standard input
    #[arg(default_value = "{}", value_name = "JSON|@FILE|-")]
    input: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    grants: GrantOptions,
    #[command(flatten)]
    limits: LimitOptions,
    #[command(flatten)]
    policy: PolicyOptions,
}

impl Policy {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        match self.command {
            Command::Check(call) => call.run(false),
            Command::Explain(call) => call.run(true),
            Command::Trust { dir } => trust(&dir),
        }
    }
}

impl Foretell {
    fn run(self, in_full: bool) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let settings = options::settings(&home, &self.grants, &self.limits, &self.policy)?;
        let input = input::read(&self.input)?;
        let foretold = match settings {
            Ok(settings) => self.explain(&home, settings, input)?,
            Err(refusal) => Err(refusal),
        };
        let (exit, text) = match (&foretold, self.json) {
            (Ok(explained), true) => (exit_of(explained), format!("{}\n", to_json(explained, in_full))),
            (Ok(explained), false) => (exit_of(explained), show::printable(&for_people(explained, in_full), true)),
            (Err(refusal), true) => (exit::of_class(refusal.class), format!("{}\n", refused(refusal))),
            (Err(refusal), false) => {
                (exit::of_class(refusal.class), show::printable(&format!("refused: {}\n", refusal.message), true))
            }
        };
        std::io::stdout().write_all(text.as_bytes()).map(|()| exit).or_else(|error| show::closed(error).map(|_| exit))
    }

    fn explain(
        &self,
        home: &Home,
        settings: Settings,
        input: crate::record::Input,
    ) -> anyhow::Result<Result<Explanation, Refusal>> {
        let Settings { grants, limits, policy, .. } = settings;
        let host = target::host(home, |host| host.memory_bytes_max = host.memory_bytes_max.max(limits.memory_bytes))?;
        let target = Target::parse(&self.tool);
        let component = target.locate(home);
        Ok(super::runtime()?.block_on(async {
            let loaded = host.load_file(&component?).await?;
            let request = Request {
                tool: target.choose(&loaded)?,
                input,
                native_call_id: None,
                actor_ref: None,
                grants: Arc::new(grants),
                policy: Arc::new(policy),
                limits,
                approval: Default::default(),
                cancellation: Cancellation::new(),
                unavailable: None,
                listener: None,
                mapping: None,
            };
            host.explain(request).await
        }))
    }
}

fn exit_of(explained: &Explanation) -> Exit {
    match (explained.decision.behavior, &explained.refusal) {
        (_, Some(refusal)) => exit::of_class(refusal.class),
        (Behavior::Allow, None) => Exit::Succeeded,
        (_, None) => Exit::WouldAsk,
    }
}

fn refused(refusal: &Refusal) -> Value {
    json!({ "behavior": "deny", "error": refusal.to_error() })
}

fn to_json(explained: &Explanation, in_full: bool) -> Value {
    let decision = &explained.decision;
    let mut value = json!({
        "behavior": decision.behavior,
        "decision": decision,
        "error": explained.refusal.as_ref().map(Refusal::to_error),
    });
    if let (true, Some(fields)) = (in_full, value.as_object_mut()) {
        let looks = explained.looks.iter().map(|look| {
            json!({
                "rule": look.rule, "behavior": look.behavior, "source": look.source,
                "matched": look.matched, "subject": look.subject, "why": look.why,
            })
        });
        fields.insert("rules".to_owned(), looks.collect());
        fields.insert("risk".to_owned(), json!(explained.risk));
        fields.insert("capability".to_owned(), capability(explained));
    }
    value
}

/// What the call would get. Names of variables, never their values.
fn capability(explained: &Explanation) -> Value {
    let capability = &explained.capability;
    let mounts = capability.mounts.iter().map(
        |mount| json!({ "host": mount.host.display().to_string(), "guest": mount.guest, "writable": mount.writable }),
    );
    let closed = capability.denials.iter().map(|denial| json!({ "what": denial.what.text(), "read": denial.read }));
    json!({
        "mounts": mounts.collect::<Vec<_>>(),
        "closed": closed.collect::<Vec<_>>(),
        "network": capability.network.allowed().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "closed_urls": capability.closed_urls.iter().map(|url| url.text()).collect::<Vec<_>>(),
        "scratch": capability.scratch,
        "environment": capability.environment.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        "cwd": capability.cwd,
    })
}

fn for_people(explained: &Explanation, in_full: bool) -> String {
    let decision = &explained.decision;
    let verdict = match exit_of(explained) {
        Exit::Succeeded => "allowed",
        Exit::WouldAsk => "somebody would be asked",
        _ => "refused",
    };
    let mut text = format!("{verdict}: {}\n", decision.reason.message);
    // Writing to a String cannot fail.
    for rule in &decision.rule_refs {
        let _ = writeln!(text, "  because of: {rule}");
    }
    if let Some(path) = &decision.blocked_path {
        let _ = writeln!(text, "  blocked: {path}");
    }
    if !in_full {
        return text;
    }
    let _ = writeln!(text, "  risk: {:?}", explained.risk);
    for look in &explained.looks {
        let subject = look.subject.as_deref().map(|subject| format!(" ({subject})")).unwrap_or_default();
        let mark = if look.matched { "matches" } else { "does not match" };
        let _ = writeln!(text, "  rule: {}\n    {mark}{subject}: {}", look.rule, look.why);
    }
    let capability = &explained.capability;
    for mount in &capability.mounts {
        let may = if mount.writable { "read and change" } else { "read" };
        let _ = writeln!(text, "  may {may}: {} as {}", mount.host.display(), mount.guest);
    }
    for denial in &capability.denials {
        let may = if denial.read { "nothing in" } else { "not change" };
        let _ = writeln!(text, "  may {may}: {}", denial.what.text());
    }
    if let Some(scratch) = &capability.scratch {
        let _ = writeln!(text, "  may keep drafts, until the call ends, in: {scratch}");
    }
    for (name, _) in &capability.environment {
        let _ = writeln!(text, "  may see the variable: {name}");
    }
    text
}

/// Trusts the project file of `dir` as it is now: a change is asked about again.
fn trust(dir: &Path) -> anyhow::Result<Exit> {
    let home = Home::find()?;
    let folder = dir.canonicalize().map_err(|error| BadRequest(format!("find {}: {error}", dir.display())))?;
    let Some(file) = config::project_file(&folder) else {
        let message = format!("there is no {} in {} or above it", config::FILE_NAME, folder.display());
        return Err(BadRequest(message).into());
    };
    let file = file.canonicalize().with_context(|| format!("find {}", file.display()))?;
    let bytes = config::bytes(&file)
        .and_then(|bytes| bytes.with_context(|| format!("find {}", file.display())))
        .map_err(|error| BadRequest(format!("{error:#}")))?;
    // What cannot be understood is not worth trusting, and would refuse every call.
    ConfigFile::from_bytes(bytes.clone(), &file).map_err(|error| BadRequest(format!("{error:#}")))?;
    Trust::at(home.trusted()).add(&file, &bytes)?;
    writeln!(std::io::stdout(), "trusted: {}", show::printable(&file.display().to_string(), true))
        .map(|()| Exit::Succeeded)
        .or_else(show::closed)
}
