//! Shows the tools of a component in words, or as their records.

mod example;
mod overview;
mod schema;

pub(crate) use schema::properties;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::runtime::Runtime;
use clap::Args;
use serde_json::{Value, json};
use toolcell::{ComponentTools, Home};
use toolcell_config::{ConfigLayers, InstalledNames, LayerOptions, selection};
use toolcell_engine::catalog::Tool;
use toolcell_spec::SchemaVersion;

use super::exit::Exit;
use super::hosts;
use super::show;
use super::target::{BuildPermission, Target};

/// Shows the tools of a component: what they do, take, return and ask for, and how to call them.
#[derive(Debug, Args)]
pub(super) struct Describe {
    /// An installed tool, a .wasm file, or the source folder of a tool; with #NAME for one of its tools
    tool: String,
    /// Print the Agent Tool records: declarations, interfaces, execution and permission profiles
    #[arg(long)]
    json: bool,
}

impl Describe {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let host = hosts::loading_host(&home)?;
        let target = Target::named(&self.tool, &InstalledNames::here(&home, None));
        let loaded = Runtime::on_this_thread()?.block_on(async {
            let component = target.locate(&home, BuildPermission::No)?;
            let loaded = host.load_file(&component).await?;
            let tools = target.tools(&loaded)?;
            let needed = tools
                .iter()
                .flat_map(|tool| tool.permission_profile().credential_refs.clone());
            let unset = host.unset_secrets(needed.collect()).await;
            Ok((loaded, tools, unset))
        });
        let (loaded, tools, unset) = match loaded {
            Ok(loaded) => loaded,
            Err(refusal) => return show::refuse(&refusal, self.json),
        };
        let features = open_features(&home);
        let text = if self.json {
            show::json_line(&records(&loaded, &tools, &unset, &features))
        } else {
            for_people(&target, &loaded, &tools, &features)
        };
        show::print(&text)
    }
}

/// The feature gates of a call from here. None, if its settings cannot be read: then each call is refused.
fn open_features(home: &Home) -> BTreeSet<String> {
    let cwd = std::env::current_dir().and_then(std::fs::canonicalize).ok();
    let layers = ConfigLayers::read(home, cwd.as_deref(), &LayerOptions::default());
    let selection = layers.and_then(|layers| selection(&layers, None, None));
    selection.map_or_else(|_| BTreeSet::new(), |selection| selection.features)
}

fn records(
    loaded: &ComponentTools,
    tools: &[Arc<Tool>],
    unset: &BTreeSet<String>,
    features: &BTreeSet<String>,
) -> Value {
    json!({
        "declarations": tools.iter().map(|tool| tool.declaration()).collect::<Vec<_>>(),
        "namespaces": namespaces(tools),
        "interfaces": tools.iter().map(|tool| tool.whole_interface(unset, features)).collect::<Vec<_>>(),
        "execution_profiles": tools.iter().map(|tool| tool.execution_profile()).collect::<Vec<_>>(),
        "permission_profiles": tools.iter().map(|tool| tool.permission_profile()).collect::<Vec<_>>(),
        "imports": loaded.imports(),
        "own_files": loaded.own_files().into_iter().map(own_folder).collect::<Vec<_>>(),
        "notes": ComponentTools::notes(tools),
    })
}

fn own_folder((path, files, bytes): (&str, u64, u64)) -> Value {
    json!({ "path": path, "files": files, "bytes": bytes })
}

/// Each once (AT-OBJ-04).
fn namespaces(tools: &[Arc<Tool>]) -> Vec<Value> {
    let mut known: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for tool in tools {
        let declaration = tool.declaration();
        known
            .entry(&declaration.namespace)
            .or_default()
            .push(&declaration.tool_id);
    }
    let producer = tools.first().map(|tool| &**tool.component());
    let record = |(namespace, tool_refs): (&str, Vec<&str>)| {
        json!({
            "schema_version": SchemaVersion::CURRENT, "namespace": namespace, "source": "provider", "producer": producer,
            "tool_refs": tool_refs,
        })
    };
    known.into_iter().map(record).collect()
}

fn for_people(
    target: &Target,
    loaded: &ComponentTools,
    tools: &[Arc<Tool>],
    features: &BTreeSet<String>,
) -> String {
    let path = target.shown();
    let columns = show::columns();
    let shown = tools.iter().map(|tool| {
        // The name is needed only where there are several.
        let called = match loaded.tools.as_slice() {
            [_] => path.clone(),
            _ => format!("{path}#{}", tool.declaration().name),
        };
        overview::render(tool, &called, columns, tool.is_enabled_with(features))
    });
    let mut shown: Vec<String> = shown.collect();
    shown.extend(own_files(loaded));
    // What a tool says of itself could act on the terminal.
    show::printable(&shown.join("\n"), true)
}

/// `None` if it has none.
fn own_files(loaded: &ComponentTools) -> Option<String> {
    let row = |(guest, files, bytes): (&str, u64, u64)| {
        let files = show::counted(files, "file");
        format!("  {guest}, {files}, {}\n", show::counted(bytes, "byte"))
    };
    let rows: String = loaded.own_files().into_iter().map(row).collect();
    (!rows.is_empty()).then(|| format!("files of its own, which its calls can read:\n{rows}"))
}
