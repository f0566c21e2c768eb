//! Finds tools in components, as `toolcell mcp` would offer them.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::PathBuf;

use crate::runtime::Runtime;
use crate::surface;
use clap::Args;
use toolcell::{ComponentTools, Home, Host};
use toolcell_config::ConfigLayers;
use toolcell_engine::find::{RESULTS, RESULTS_MAX, ToolFinder, ToolQuery};
use toolcell_spec::{Refusal, ToolSearchResult, UnavailableProvider};

use super::exit::{Exit, Stop};
use super::hosts;
use super::options::{PolicyOptions, Settings};
use super::serving::{self, NamedTool};
use super::show;
use super::target::BuildPermission;

/// Finds tools by words in their names, descriptions and hints, or by exact names. Exits with 0 also if it finds none.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  toolcell search 'read a web page' example-tools/files example-tools/fetch\n  \
                        toolcell search select:files.read,jq.jq --json"
)]
pub(super) struct Search {
    /// Words that say what the tool should do; or exact names: select:NAME,NAME
    query: String,
    /// An installed tool, a .wasm file, or a built source folder; with #NAME for one of its tools
    /// [default: the tools of toolcell.toml]
    #[arg(value_name = "TOOL")]
    tools: Vec<String>,
    /// Maximum number of results for words, 1 to 50
    #[arg(long, value_name = "N", default_value_t = RESULTS, value_parser = limit)]
    limit: usize,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    policy: PolicyOptions,
}

fn limit(text: &str) -> Result<usize, String> {
    let limit = text
        .parse()
        .ok()
        .filter(|limit| (1..=RESULTS_MAX).contains(limit));
    limit.ok_or_else(|| format!("{text:?} is not a number from 1 to {RESULTS_MAX}"))
}

struct FoundTools {
    result: ToolSearchResult,
    typed: HashMap<String, String>,
    /// Why components could not be loaded.
    failed: Vec<Refusal>,
}

impl Search {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let found = match self.search() {
            Ok(found) => found,
            Err(stop) => return show::refuse(&stop.refusal()?, self.json),
        };
        let printed = if self.json {
            show::json(&found.result)
        } else {
            found.for_people()
        };
        show::done(printed, Exit::Succeeded)
    }

    fn search(&self) -> Result<FoundTools, Stop> {
        let query = ToolQuery::parse(&self.query)?;
        let home = Home::find()?;
        let host = hosts::loading_host(&home)?;
        let (named, settings) = self.named(&home)?;
        let mut tools = Vec::new();
        let mut typed = HashMap::new();
        let mut known = HashSet::new();
        let runtime = Runtime::on_this_thread()?;
        let mut unavailable = Vec::new();
        let mut failed = Vec::new();
        for (named, loaded) in runtime.block_on(load(&host, &home, &named)) {
            let chosen = loaded
                .and_then(|loaded| named.target.tools(&loaded))
                .unwrap_or_else(|refusal| {
                    unavailable.push(UnavailableProvider::new(named.typed.clone(), &refusal));
                    failed.push(named.failed(refusal));
                    Vec::new()
                });
            for tool in chosen {
                let declaration = tool.declaration();
                if known.insert(declaration.qualified_name()) {
                    let called = format!("{}#{}", named.target.shown(), declaration.name);
                    typed.insert(declaration.tool_id.clone(), called);
                    tools.push(tool);
                }
            }
        }
        if tools.is_empty() && !failed.is_empty() {
            return Err(failed.swap_remove(0).into());
        }
        let names = tools
            .iter()
            .map(|tool| tool.declaration().qualified_name())
            .collect();
        let Settings { selection, .. } = settings;
        let rules = (&settings.policy, &settings.grants);
        let surface = runtime.block_on(surface::build(&host, tools, selection, rules));
        let finder = ToolFinder::new(&surface, names)?;
        let mut result = finder.search(&query, self.limit, |_| false)?;
        unavailable.truncate(RESULTS_MAX);
        result.unavailable_providers = unavailable;
        Ok(FoundTools {
            result,
            typed,
            failed,
        })
    }

    /// The settings of the files are read only if the files name the tools.
    fn named(&self, home: &Home) -> Result<(Vec<NamedTool>, Settings), Stop> {
        let settings = match self.tools.as_slice() {
            [] => self.policy.settings(home)?,
            _ => Settings {
                layers: ConfigLayers::without_files(home, self.policy.named()),
                ..Settings::default()
            },
        };
        Ok((serving::named(&self.tools, &settings.layers)?, settings))
    }
}

/// Loads all together, because there may be thousands. A failure does not keep the others from being searched.
async fn load<'n>(
    host: &Host,
    home: &Home,
    named: &'n [NamedTool],
) -> Vec<(&'n NamedTool, Result<ComponentTools, Refusal>)> {
    let located: Vec<Result<PathBuf, Refusal>> = named
        .iter()
        .map(|named| named.target.locate(home, BuildPermission::No))
        .collect();
    let files: Vec<PathBuf> = located.iter().flatten().cloned().collect();
    let mut loaded = host.load_each(&files).await.into_iter();
    let outcome = |located: Result<PathBuf, Refusal>| match located {
        Ok(_) => loaded.next(),
        Err(refusal) => Some(Err(refusal)),
    };
    let outcomes: Vec<Result<ComponentTools, Refusal>> =
        located.into_iter().filter_map(outcome).collect();
    named.iter().zip(outcomes).collect()
}

/// Cut after a word, which is then marked.
fn at_word(line: &str, columns: usize) -> String {
    let Some((end, _)) = line.char_indices().nth(columns) else {
        return line.to_owned();
    };
    let (room, _) = line
        .char_indices()
        .nth(columns.saturating_sub(1))
        .unwrap_or((end, ' '));
    let head = line.get(..room).unwrap_or_default();
    let head = head.rsplit_once(' ').map_or(head, |(words, _)| words);
    format!("{}\u{2026}", head.trim_end_matches([' ', ',', ';', ':']))
}

impl FoundTools {
    /// Standard error says what is missing.
    fn for_people(&self) -> std::io::Result<()> {
        let columns = show::columns();
        let mut text = String::new();
        for found in &self.result.matches {
            let first = at_word(
                found.description.lines().next().unwrap_or_default(),
                columns.saturating_sub(2),
            );
            let typed = self.typed.get(&found.tool_id).map_or("", String::as_str);
            text += &format!("{}\n  {first}\n  toolcell describe {typed}\n", found.name);
        }
        // What a tool says of itself could act on the terminal.
        std::io::stdout().write_all(show::printable(&text, true).as_bytes())?;
        for name in &self.result.missing_names {
            show::say(&format!(
                "there is no tool {name:?} among these; search with words to find its name"
            ));
        }
        for refusal in &self.failed {
            show::say(&format!(
                "not searched: {} [{}]",
                refusal.message, refusal.code
            ));
            show::detail(refusal);
        }
        if self.result.matches.is_empty() && self.result.missing_names.is_empty() {
            show::say(&format!(
                "no tool matches {:?}; use other words",
                self.result.query
            ));
        }
        Ok(())
    }
}
