use std::collections::HashMap;
use std::sync::Arc;

use crate::runtime::Runtime;
use crate::{principals, surface};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use toolcell::{CallContext, CallExplanation, CallSpec, Home};
use toolcell_config::Principal;
use toolcell_policy::{Capability, Explanation, SecretPlacement, SecretUse, ToolGrant};
use toolcell_spec::text::{Whitespace, visible};
use toolcell_spec::{Behavior, Refusal};

use super::exit::{self, Exit, Stop};
use super::hosts;
use super::options::{CallOptions, Settings};
use super::protected_sources::{self, CommandFiles};
use super::target::{BuildPermission, Target};
use super::tool_configs::ToolConfigs;
use super::{hooks, input, show};

/// Previews the decision on a call, and lists callers with rules of their own. No tool runs.
#[derive(Debug, Args)]
pub(super) struct Policy {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say whether a call would run: exit 0 if it would, 3 if it is refused, 6 if it needs an approval
    Check(Box<Check>),
    /// List the callers of `toolcell serve` that have rules of their own, and what they used of their quotas today
    Principals(super::principal_list::PrincipalList),
}

/// A call that is not made.
#[derive(Debug, Args)]
#[command(
    after_help = "This is about the decision on a call; `toolcell explain` explains an error code."
)]
struct Check {
    /// An installed tool, a .wasm file, or a built source folder; with #NAME if it has several tools
    tool: String,
    /// The arguments: JSON, @FILE, - for standard input, or NAME=VALUE for each
    #[arg(value_name = "JSON|@FILE|-|NAME=VALUE")]
    input: Vec<String>,
    /// Show each rule that applies, what it matched, and the access the call would get
    #[arg(long)]
    explain: bool,
    /// Decide for this caller of `toolcell serve` (the name of a [[principal]])
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    options: CallOptions,
}

impl Policy {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        match self.command {
            Command::Check(call) => call.run(),
            Command::Principals(list) => list.run(),
        }
    }
}

impl Check {
    fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let settings = match self.options.settings(&home) {
            Err(Stop::Failed(error)) => return Err(error),
            settings => settings,
        };
        let input = input::read(&self.input)?;
        let foretold = settings.and_then(|settings| self.foretell(&home, settings, input));
        let (exit, text) = match exit::refusable(foretold)? {
            Ok(told) if self.json => (
                exit_of(&told.explanation),
                show::json_line(&to_json(&told, self.explain)),
            ),
            Ok(told) => (
                exit_of(&told.explanation),
                show::printable(&for_people(&told, self.explain), true),
            ),
            Err(refusal) => {
                show::detail(&refusal);
                let text = if self.json {
                    show::json_line(&json!({ "behavior": "deny", "error": refusal.to_error() }))
                } else {
                    let line = format!("refused: {} [{}]\n", refusal.message, refusal.code);
                    show::printable(&line, true)
                };
                (exit::of_refusal(&refusal), text)
            }
        };
        show::print(text).map(|_| exit)
    }

    fn foretell(
        &self,
        home: &Home,
        mut settings: Settings,
        input: input::CallArguments,
    ) -> Result<CallExplanation, Stop> {
        let target = Target::named(&self.tool, &settings.layers.names);
        let component = target.locate(home, BuildPermission::No);
        let closed =
            protected_sources::close(home, &mut settings, &CommandFiles::from_targets([&target]));
        let layers = std::mem::take(&mut settings.layers);
        let principal = self.principal.as_deref();
        let principal = principal.map(|name| principals::named(&layers, name));
        let principal = principal.transpose()?;
        let selection = std::mem::take(&mut settings.selection);
        let mut host = hosts::host(home, |host| {
            let host = host.memory_bytes_max(settings.limits.memory_bytes);
            hosts::loading(host, home, &layers).journal(layers.journal)
        })?;
        Runtime::on_this_thread()?.block_on(async {
            hooks::add(&mut host, home, &layers, &closed).await?;
            let loaded = host.load_file(&component?).await?;
            let tool = target.choose(&loaded)?;
            ToolConfigs::new(home, &layers).apply(&target.path, &mut settings.policy, &loaded)?;
            let input = input.input(tool.tool().map(AsRef::as_ref));
            let mut own = loaded.tools;
            if let Some(principal) = principal {
                own.retain(|tool| settings.has(principal, tool));
                settings.narrow(principal)?;
            }
            let all = settings.tool_set(Arc::new(host));
            let tools = surface::select(all, own, selection, HashMap::new()).await;
            let spec = CallSpec {
                actor_ref: principal.map(Principal::caller),
                ..CallSpec::from_callee(&tool, input)
            };
            let context = CallContext {
                workspace: self.options.workspace.open(home)?,
                ..CallContext::default()
            };
            Ok(tools.explain(spec, context).await?)
        })
    }
}

fn exit_of(explained: &Explanation) -> Exit {
    match (explained.decision.behavior, &explained.refusal) {
        (_, Some(refusal)) => exit::of_refusal(refusal),
        (Behavior::Allow, None) => Exit::Succeeded,
        (_, None) => Exit::WouldAsk,
    }
}

fn to_json(told: &CallExplanation, in_full: bool) -> Value {
    let explained = &told.explanation;
    let decision = &explained.decision;
    let hooks = told
        .hooks
        .iter()
        .map(|hook| json!({ "hook_id": hook.hook_id, "events": hook.events }));
    let mut value = json!({
        "behavior": decision.behavior,
        "decision": decision,
        "error": explained.refusal.as_ref().map(Refusal::to_error),
        "hooks": hooks.collect::<Vec<_>>(),
        "session_rules": "not_looked_up",
    });
    let unbound: Vec<Value> = explained
        .looks
        .iter()
        .filter(|look| look.unbound)
        .map(|look| json!({ "rule": look.rule, "source": look.source, "why": look.why }))
        .collect();
    if let (false, Some(fields)) = (unbound.is_empty(), value.as_object_mut()) {
        fields.insert("unbound_rules".to_owned(), unbound.into());
    }
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

/// Names variables and secrets, and never holds their values.
fn capability(explained: &Explanation) -> Value {
    let capability = &explained.capability;
    let mounts = capability.mounts.iter().map(
        |mount| json!({ "host": mount.host.display().to_string(), "guest": mount.guest, "writable": mount.writable }),
    );
    let closed = capability
        .denials
        .iter()
        .filter(|denial| denial.what.covers_anything())
        .map(|denial| json!({ "what": denial.what.text(), "read": denial.read }));
    json!({
        "mounts": mounts.collect::<Vec<_>>(),
        "closed": closed.collect::<Vec<_>>(),
        "network": capability.network.allowed().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "network_denied": capability.network.denied().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "closed_urls": capability.closed_urls.iter().map(|url| url.text()).collect::<Vec<_>>(),
        "secrets": capability.secrets.iter().map(secret).collect::<Vec<_>>(),
        "tools": capability.tools.patterns().collect::<Vec<_>>(),
        "tool_calls": capability.tools.covered().map(tool_call).collect::<Vec<_>>(),
        "scratch": capability.scratch,
        "environment": capability.environment.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        "cwd": capability.cwd,
    })
}

fn tool_call((declared, grant): (&str, &ToolGrant)) -> Value {
    json!({ "declared": declared, "pattern": grant.pattern, "grant": grant.rule, "source": grant.source })
}

/// The origin that a secret is sent to, and its place in the request.
fn secret(used: &SecretUse) -> Value {
    let (place, name) = match &used.placement {
        SecretPlacement::Header { name, .. } => ("header", name),
        SecretPlacement::Query { key } => ("query", key),
    };
    json!({ "name": used.name, "origin": used.origin.to_string(), place: name })
}

fn for_people(told: &CallExplanation, in_full: bool) -> String {
    let explained = &told.explanation;
    let decision = &explained.decision;
    let exit = exit_of(explained);
    let verdict = match exit {
        Exit::Succeeded => "allowed",
        Exit::WouldAsk => "needs an approval",
        _ => "refused",
    };
    let mut lines = vec![format!("{verdict}: {}", decision.reason.message)];
    let rules = decision.rule_refs.iter();
    lines.extend(rules.map(|rule| format!("  because of: {rule}")));
    let blocked = decision.blocked_path.iter();
    lines.extend(blocked.map(|path| format!("  blocked: {path}")));
    lines.extend(show::notes(decision).map(|note| format!("  note: {note}")));
    if !in_full {
        let unbound = explained.looks.iter().filter(|look| look.unbound);
        lines.extend(unbound.map(|look| format!("  does not count: {}: {}", look.rule, look.why)));
    }
    if matches!(exit, Exit::WouldAsk) {
        lines.push(
            "  whether the same was approved for its session before is not looked up".to_owned(),
        );
    }
    if matches!(exit, Exit::Succeeded | Exit::WouldAsk) && !told.hooks.is_empty() {
        let names = told.hooks.iter().map(|hook| hook.hook_id.as_str());
        let names = names.collect::<Vec<_>>().join(", ");
        lines.push(format!("  hooks can still stop it: {names}"));
    }
    if in_full {
        lines.push(format!("  risk: {:?}", explained.risk).to_lowercase());
        for look in &explained.looks {
            let subject = look.subject.as_ref();
            let subject = subject.map(|subject| format!(" ({subject})"));
            let subject = subject.unwrap_or_default();
            let mark = if look.matched {
                "matches"
            } else {
                "does not match"
            };
            lines.push(format!("  rule: {}", look.rule));
            lines.push(format!("    {mark}{subject}: {}", look.why));
        }
        for hook in &told.hooks {
            let events: Vec<&str> = hook.events.iter().map(|event| event.as_str()).collect();
            let id = &hook.hook_id;
            let events = events.join(", ");
            lines.push(format!("  the hook {id} would be heard at: {events}"));
        }
        lines.extend(world(&explained.capability));
    }
    // Text of a tool or a file stays on its line, because with line breaks it could pass for a verdict.
    lines
        .iter()
        .map(|line| visible(line, Whitespace::WrittenOut) + "\n")
        .collect()
}

fn world(capability: &Capability) -> Vec<String> {
    let mut lines = Vec::new();
    for mount in &capability.mounts {
        let may = if mount.writable {
            "read and change"
        } else {
            "read"
        };
        // A folder that was granted by a relative path is mounted under a second spelling of its own path.
        let other =
            mount.host.to_str() != Some(mount.guest.as_str()) && !mount.guest.contains("/..");
        let named = if other {
            format!(" as {}", mount.guest)
        } else {
            String::new()
        };
        let line = format!("  may {may}: {}{named}", mount.host.display());
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    for denial in &capability.denials {
        if !denial.what.covers_anything() {
            lines.push(format!("  may not move or replace: {}", denial.what.text()));
            continue;
        }
        let may = if denial.read {
            "nothing in"
        } else {
            "not change"
        };
        lines.push(format!("  may {may}: {}", denial.what.text()));
    }
    let network = &capability.network;
    let allowed = network.allowed().iter();
    lines.extend(allowed.map(|rule| format!("  may send requests to: {rule}")));
    let denied = network.denied().iter().map(ToString::to_string);
    let closed = capability
        .closed_urls
        .iter()
        .map(|url| url.text().to_string());
    lines.extend(
        denied
            .chain(closed)
            .map(|url| format!("  may not send requests to: {url}")),
    );
    for SecretUse { origin, name, .. } in &capability.secrets {
        lines.push(format!("  requests to {origin} carry the secret: {name}"));
    }
    let calls = capability.tools.covered();
    lines.extend(calls.map(|(declared, ToolGrant { rule, .. })| {
        if declared.contains('*') {
            // The whole pattern would claim more than the grant gives.
            format!("  may call the tools: {declared}, as far as {rule} covers them")
        } else {
            format!("  may call the tool: {declared}, by {rule}")
        }
    }));
    if let Some(scratch) = &capability.scratch {
        lines.push(format!(
            "  may keep drafts, until the call ends, in: {scratch}"
        ));
    }
    for (name, _) in &capability.environment {
        lines.push(format!("  may see the variable: {name}"));
    }
    lines
}
