use std::io::Write;
use std::path::Path;

use clap::Args;
use serde_json::json;

use crate::config::Home;
use crate::toolchain::{self, Language};

use super::exit::{BadRequest, Exit};
use super::show;

/// Writes a small tool that builds, tests and runs as it is.
#[derive(Debug, Args)]
pub(super) struct New {
    /// The name of the tool, and of the folder that is made
    name: String,
    /// The language to write it in: rust
    #[arg(long, default_value = "rust")]
    lang: Language,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl New {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let sdk = toolchain::write_sdk(Home::find()?.folder())?;
        let folder = toolchain::new_project(Path::new("."), &self.name, self.lang, Some(&sdk))
            .map_err(|error| BadRequest(format!("{error:#}")))?;
        let name = &self.name;
        let text = match self.json {
            true => json!({ "name": name, "folder": folder }).to_string(),
            false => format!("made {name}/; now:\n  toolcell build {name}\n  (cd {name} && cargo test)"),
        };
        writeln!(std::io::stdout(), "{text}").map(|()| Exit::Succeeded).or_else(show::closed)
    }
}
