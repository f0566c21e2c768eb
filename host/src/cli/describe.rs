use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};

use crate::catalog::Tool;
use crate::config::Home;
use crate::host::{Loaded, configured_cache_bytes};
use crate::record::Lifecycle;

use super::exit::{self, BadRequest, Exit};
use super::show;
use super::target::{self, Building, Target};

/// Shows the tools of a component: what they do, take, and ask for.
#[derive(Debug, Args)]
pub(super) struct Describe {
    /// A .wasm file, or the source folder of a tool; with #NAME for one of its tools
    tool: String,
    /// Print the Agent Tool records: declarations, interfaces, execution and permission profiles
    #[arg(long)]
    json: bool,
}

impl Describe {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let cache_bytes_max = configured_cache_bytes(&home).map_err(|error| BadRequest(format!("{error:#}")))?;
        let host = target::host(&home, |settings| settings.cache_bytes_max = cache_bytes_max)?;
        let target = Target::parse(&self.tool);
        let loaded = super::runtime()?.block_on(async {
            let component = target.locate(&home, Building::No)?;
            host.load_file(&component).await
        });
        let chosen = loaded.and_then(|loaded| match &target.name {
            Some(_) => {
                let name = target.choose(&loaded)?;
                let tool = host.catalog().resolve(&name)?;
                Ok((loaded, vec![tool]))
            }
            None => {
                let tools = loaded.tools.clone();
                Ok((loaded, tools))
            }
        });
        let (loaded, tools) = match chosen {
            Ok(chosen) => chosen,
            Err(refusal) => {
                let error = refusal.to_error();
                match self.json {
                    true => writeln!(std::io::stdout(), "{}", json!({ "error": error }))?,
                    false => show::say(&format!("error: {} [{}]", error.message, error.error_code)),
                }
                show::detail(&refusal);
                return Ok(exit::of_refusal(&refusal));
            }
        };
        let text = match self.json {
            true => format!("{}\n", records(&loaded, &tools)),
            false => tools.iter().map(|tool| for_people(tool)).collect::<Vec<_>>().join("\n"),
        };
        std::io::stdout().write_all(text.as_bytes()).map(|()| Exit::Succeeded).or_else(show::closed)
    }
}

fn records(loaded: &Loaded, tools: &[Arc<Tool>]) -> Value {
    json!({
        "declarations": tools.iter().map(|tool| tool.declaration()).collect::<Vec<_>>(),
        "interfaces": tools.iter().filter_map(|tool| tool.interface()).collect::<Vec<_>>(),
        "execution_profiles": tools.iter().map(|tool| tool.execution_profile()).collect::<Vec<_>>(),
        "permission_profiles": tools.iter().map(|tool| tool.permission_profile()).collect::<Vec<_>>(),
        "imports": loaded.imports(),
        "notes": Loaded::notes(tools),
    })
}

fn for_people(tool: &Tool) -> String {
    let declaration = tool.declaration();
    let mut text = String::new();
    // Writing to a String cannot fail.
    let note = match declaration.lifecycle {
        Lifecycle::Available => "",
        Lifecycle::Draft => " (a draft)",
        Lifecycle::Disabled => " (disabled)",
        Lifecycle::RequiresSetup => " (has to be set up)",
        Lifecycle::Deferred => " (deferred)",
        Lifecycle::Deprecated => " (deprecated)",
        Lifecycle::Retired => " (retired)",
    };
    let _ = writeln!(text, "{}{note}", declaration.qualified_name());
    for line in tool.contract().shown(&declaration.description).lines() {
        let _ = writeln!(text, "  {line}");
    }
    let schema = tool.contract().model_schema();
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let _ = writeln!(text, "  takes:");
        for (name, property) in properties {
            let kind = kind_of(property.get("type"));
            let optional = if required.contains(&name.as_str()) { "" } else { ", optional" };
            let what = property.get("description").and_then(Value::as_str).unwrap_or_default();
            // One line per property, whatever line breaks the guest wrote.
            let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
            let _ = writeln!(text, "    {name} ({kind}{optional}) {what}");
        }
    }
    let profile = tool.permission_profile();
    let kinds = serde_json::to_value(&profile.access_kinds).unwrap_or_default();
    let kinds: Vec<&str> = kinds.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let asks = if kinds.is_empty() { "nothing".to_owned() } else { kinds.join(", ") };
    let _ = writeln!(text, "  asks for: {asks}");
    if !profile.environment.is_empty() {
        let _ = writeln!(text, "  reads, if granted: {}", profile.environment.join(", "));
    }
    if !tool.notes().is_empty() {
        let _ = writeln!(text, "  notes:");
        for note in tool.notes() {
            let _ = writeln!(text, "    {note}");
        }
    }
    show::printable(&text, true)
}

fn kind_of(kind: Option<&Value>) -> String {
    match kind {
        Some(Value::String(kind)) => kind.clone(),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => "any".to_owned(),
    }
}
