use std::path::Path;

use clap::Args;
use serde_json::json;
use toolcell::Home;
use toolcell_toolchain::{self as toolchain, Language, ProjectKind, names};

use super::exit::{BadRequest, Exit};
use super::{show, wrap};

/// Writes a small tool, or a hook, that builds, tests and runs as it is.
#[derive(Debug, Args)]
pub(super) struct New {
    /// The folder that is made; its last part is the name of the tool
    #[arg(value_name = "NAME")]
    path: String,
    /// Write a hook, which runs around the calls of tools
    #[arg(long)]
    hook: bool,
    #[arg(long, default_value = "rust", value_name = "LANGUAGE", help = format!("The language to write it in: {}", names()))]
    lang: Language,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl New {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let sdk = toolchain::write_sdk(home.folder())?;
        let kind = if self.hook {
            ProjectKind::Hook
        } else {
            ProjectKind::Tool
        };
        // A path that ends in no name is refused as one.
        let path = Path::new(&self.path);
        let name = path
            .file_name()
            .unwrap_or(path.as_os_str())
            .to_string_lossy();
        let parent = wrap::folder_of(path);
        let folder = toolchain::new_project(parent, &name, self.lang, kind, Some(&sdk))
            .map_err(BadRequest::from_error)?;
        let text = match (self.json, kind) {
            (true, _) => return show::print_json(&json!({ "name": name, "folder": folder })),
            (false, ProjectKind::Tool) => show::printable(&self.tool(), true),
            (false, ProjectKind::Hook) => show::printable(&self.hook(&home.user_file()?)?, true),
        };
        show::print(format!("{text}\n"))
    }

    fn tool(&self) -> String {
        let name = self.quoted();
        format!(
            "made {name}/, which {name}/README.md explains; now:\n  \
             toolcell build {name}\n  \
             toolcell call {name} '{{\"text\": \"one two three\"}}'\n  \
             toolcell describe {name}\n  \
             (cd {name} && {})",
            self.lang.test_command()
        )
    }

    fn quoted(&self) -> String {
        show::quoted(self.path.trim_end_matches('/'))
    }

    /// `user_file`: the configuration that may name a source folder as a hook.
    fn hook(&self, user_file: &Path) -> anyhow::Result<String> {
        let name = self.quoted();
        let folder = std::path::absolute(&self.path)?.display().to_string();
        // The escapes of JSON are those of TOML.
        let entry = format!(
            "[[hook]]\n  component = {}",
            serde_json::to_string(&folder)?
        );
        let user_file = user_file.display();
        Ok(format!(
            "made {name}/, which {name}/README.md explains; now:\n  \
             toolcell build {name}\n  \
             (cd {name} && cargo test)\n\
             To run it around every call, add to {user_file}:\n  {entry}"
        ))
    }
}
