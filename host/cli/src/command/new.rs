use std::io::Write;
use std::path::Path;

use clap::Args;
use serde_json::json;
use toolcell::Home;
use toolcell_toolchain::{self as toolchain, Kind, Lang, names};

use super::exit::{BadRequest, Exit};
use super::show;

/// Writes a small tool, or a hook, that builds, tests and runs as it is.
#[derive(Debug, Args)]
pub(super) struct New {
    /// The name of the tool, and of the folder that is made
    name: String,
    /// Write a hook, which runs around the calls of tools
    #[arg(long)]
    hook: bool,
    #[arg(long, default_value = "rust", value_name = "LANGUAGE", help = format!("The language to write it in: {}", names()))]
    lang: Lang,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl New {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let sdk = toolchain::write_sdk(home.folder())?;
        let kind = if self.hook { Kind::Hook } else { Kind::Tool };
        let folder = toolchain::new_project(Path::new("."), &self.name, self.lang, kind, Some(&sdk))
            .map_err(|error| BadRequest(format!("{error:#}")))?;
        let text = match (self.json, kind) {
            (true, _) => show::json_line(&json!({ "name": self.name, "folder": folder })).trim_end().to_owned(),
            (false, Kind::Tool) => self.tool(),
            (false, Kind::Hook) => show::printable(&self.hook(&home.user_file()?)?, true),
        };
        writeln!(std::io::stdout(), "{text}").map(|()| Exit::Succeeded).or_else(show::closed)
    }

    fn tool(&self) -> String {
        let name = &self.name;
        format!(
            "made {name}/, which {name}/README.md explains; now:\n  \
             toolcell build {name}\n  \
             toolcell call {name} '{{\"text\": \"one two three\"}}'\n  \
             toolcell describe {name}\n  \
             (cd {name} && {})",
            self.lang.test_command()
        )
    }

    /// `user_file`: the configuration that may name a source folder as a hook.
    fn hook(&self, user_file: &Path) -> anyhow::Result<String> {
        let name = &self.name;
        let folder = std::path::absolute(name)?.display().to_string();
        // The escapes of JSON are those of TOML.
        let entry = format!("[[hook]]\n  component = {}", serde_json::to_string(&folder)?);
        let user_file = user_file.display();
        Ok(format!(
            "made {name}/, which {name}/README.md explains; now:\n  \
             toolcell build {name}\n  \
             (cd {name} && cargo test)\n\
             To run it around every call, add to {user_file}:\n  {entry}"
        ))
    }
}
