use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use toolcell::Home;
use toolcell_core::record::Refusal;

use super::exit::{self, BadRequest, Exit};
use super::{notes, show, target};

/// Builds the tool or hook in a source folder, and sets up what is missing for that. Fails if the component cannot be
/// loaded, and names what it says of itself and this host cannot use.
#[derive(Debug, Args)]
#[command(
    after_help = "Building runs code of the folder and of what it depends on as you, outside of the sandbox: build scripts \
                        and macros. With this command you agree to that, for the sources as they are now."
)]
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
        let (notes, refusal) = match notes::of_component(&home, &built.wasm)? {
            Ok(notes) => (notes, None),
            Err(refusal) => (Vec::new(), Some(refusal)),
        };
        refusal.iter().for_each(show::detail);
        let error = refusal.as_ref().map(Refusal::to_error);
        let exit = refusal.as_ref().map_or(Exit::Succeeded, exit::of_refusal);
        let line = match self.json {
            true => json!({
                "name": built.name, "wasm": built.wasm, "fresh": built.fresh, "sources": built.sources, "notes": notes,
                "error": error,
            })
            .to_string(),
            false => {
                notes.iter().for_each(|note| show::say(&format!("note: {note}")));
                if let Some(error) = &error {
                    // Nothing on standard output, which a script takes for a component that can be called.
                    show::say(&format!("error: {} [{}]", error.message, error.error_code));
                    return Ok(exit);
                }
                built.wasm.display().to_string()
            }
        };
        writeln!(std::io::stdout(), "{line}").map(|()| exit).or_else(show::closed)
    }
}
