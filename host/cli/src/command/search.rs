//! Finds tools among those of components, as `toolcell mcp` would offer them.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use toolcell::Home;
use toolcell_core::find::{Finder, Query, RESULTS, RESULTS_MAX};
use toolcell_core::record::{Refusal, ToolSearchResult};

use crate::config::configured_cache_bytes;

use super::exit::{self, BadRequest, Exit, Stop};
use super::options::{PolicyOptions, Settings};
use super::serving::{self, Named};
use super::target::{self, Building};
use super::{runtime, show, surface};

/// Finds tools by words in their names, descriptions and hints, or by exact names. Exits with 0 also if it finds none.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  toolcell search 'read a web page' example-tools/files example-tools/fetch\n  \
                        toolcell search select:files.read,jq.jq --json")]
pub(super) struct Search {
    /// Words that say what the tool should do; or exact names: select:NAME,NAME
    query: String,
    /// A .wasm file, or the source folder of a tool that is built; with #NAME for one of its tools [default: the tools of
    /// toolcell.toml]
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
    let limit = text.parse().ok().filter(|limit| (1..=RESULTS_MAX).contains(limit));
    limit.ok_or_else(|| format!("{text:?} is not a number from 1 to {RESULTS_MAX}"))
}

/// What was found, and how the command line names each tool, by its id.
struct Found {
    result: ToolSearchResult,
    typed: HashMap<String, String>,
}

impl Search {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let found = match self.search() {
            Ok(found) => found,
            Err(stop) => {
                let refusal = stop.refusal()?;
                let error = refusal.to_error();
                match self.json {
                    true => show::json(&json!({ "error": error }))?,
                    false => show::say(&format!("error: {} [{}]", error.message, error.error_code)),
                }
                show::detail(&refusal);
                return Ok(exit::of_refusal(&refusal));
            }
        };
        let printed = if self.json { show::json(&found.result) } else { found.for_people() };
        printed.map(|()| Exit::Succeeded).or_else(show::closed)
    }

    fn search(&self) -> Result<Found, Stop> {
        let query = Query::parse(&self.query)?;
        let home = Home::find()?;
        let cache_bytes_max = configured_cache_bytes(&home).map_err(|error| BadRequest(format!("{error:#}")))?;
        let host = target::host(&home, |settings| settings.cache_bytes_max = cache_bytes_max)?;
        let (named, settings) = self.named(&home)?;
        let (mut tools, mut typed, mut known) = (Vec::new(), HashMap::new(), HashSet::new());
        let runtime = runtime()?;
        let components =
            named.iter().map(|named| named.target.locate(&home, Building::No).map_err(|error| named.failed(error)));
        let components = components.collect::<Result<Vec<PathBuf>, Refusal>>()?;
        let loaded = runtime.block_on(host.load_files(&components));
        let loaded = loaded.map_err(|(at, refusal)| serving::failed(&named, at, refusal))?;
        for (named, loaded) in named.iter().zip(&loaded) {
            for tool in named.target.tools(loaded).map_err(|refusal| named.failed(refusal))? {
                let declaration = tool.declaration();
                if known.insert(declaration.qualified_name()) {
                    let called = format!("{}#{}", named.target.path.display(), declaration.name);
                    typed.insert(declaration.tool_id.clone(), called);
                    tools.push(tool);
                }
            }
        }
        let names = tools.iter().map(|tool| tool.declaration().qualified_name()).collect();
        let Settings { selection, policy, grants, .. } = settings;
        let surface = runtime.block_on(surface::of(&host, tools, selection, (&policy, &grants)));
        let finder = Finder::new(&surface, names)?;
        Ok(Found { result: finder.search(&query, self.limit, |_| false)?, typed })
    }

    /// The tools of the command line, else those of the configuration files, and the settings of these files, which are
    /// read only for that.
    fn named(&self, home: &Home) -> Result<(Vec<Named>, Settings), Stop> {
        let settings = if self.tools.is_empty() { self.policy.settings(home)? } else { Settings::default() };
        Ok((serving::named(&self.tools, &settings.layers)?, settings))
    }
}

impl Found {
    /// Prints each match with the command that describes it. What is missing is said on standard error.
    fn for_people(&self) -> std::io::Result<()> {
        let columns = show::columns();
        let mut text = String::new();
        for found in &self.result.matches {
            let first = found.description.lines().next().unwrap_or_default();
            let first: String = first.chars().take(columns.saturating_sub(2)).collect();
            let typed = self.typed.get(&found.tool_id).map_or("", String::as_str);
            text += &format!("{}\n  {first}\n  toolcell describe {typed}\n", found.name);
        }
        // What a tool says of itself could act on the terminal.
        std::io::stdout().write_all(show::printable(&text, true).as_bytes())?;
        for name in &self.result.missing_names {
            show::say(&format!("there is no tool {name:?} among these; search with words to find its name"));
        }
        if self.result.matches.is_empty() && self.result.missing_names.is_empty() {
            show::say(&format!("no tool matches {:?}; use other words", self.result.query));
        }
        Ok(())
    }
}
