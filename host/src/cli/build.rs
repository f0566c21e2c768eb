use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::config::Home;

use super::exit::{BadRequest, Exit};
use super::{show, target};

/// Builds the tool in a source folder, and sets up what is missing for that.
#[derive(Debug, Args)]
pub(super) struct Build {
    /// The folder of the tool: where its Cargo.toml lies
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Build {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let built = target::build(&self.dir, &home).map_err(|error| BadRequest(format!("{error:#}")))?;
        let line = match self.json {
            true => json!({ "name": built.name, "wasm": built.wasm, "fresh": built.fresh }).to_string(),
            false => built.wasm.display().to_string(),
        };
        writeln!(std::io::stdout(), "{line}").map(|()| Exit::Succeeded).or_else(show::closed)
    }
}
