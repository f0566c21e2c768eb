use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use toolcell::Home;
use toolcell_spec::Refusal;
use toolcell_toolchain::{BuildOutcome, Language, SourceWatch, no_project};

use super::exit::{self, BadRequest, Exit};
use super::{notes, show, target};

/// Builds the tool or hook in a source folder, and sets up what is missing for that. Fails if the component cannot be
/// loaded, and names what it says of itself and this host cannot use.
#[derive(Debug, Args)]
#[command(
    after_help = "Building runs code of the folder and of what it depends on as you, outside of the sandbox: in Rust, build \
                        scripts and macros; in other languages, their toolchains. By running this command you agree to \
                        that for the current sources; with --watch, also for later changes.\n\n\
                        toolcell downloads a missing toolchain from its language's registry into its cache. It prints first \
                        what that is and how large it is; `toolcell doctor` prints it without a build."
)]
pub(super) struct Build {
    /// The source folder of the tool
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Build again whenever a source changes, until you stop it; a running `toolcell mcp` or `serve` picks up each new
    /// component
    #[arg(long)]
    watch: bool,
    /// Print JSON: one line for each build
    #[arg(long)]
    json: bool,
}

impl Build {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        if self.watch {
            return self.follow(&home);
        }
        let built = target::build(&self.dir, &home).map_err(BadRequest::from_error)?;
        Ok(self.report(&home, &built)?.unwrap_or(Exit::Succeeded))
    }

    /// Builds again after each change. Ends only if it cannot print, or if the folder is no project.
    fn follow(&self, home: &Home) -> anyhow::Result<Exit> {
        if Language::detect(&self.dir).is_none() {
            return Err(BadRequest(no_project(&self.dir)).into());
        }
        loop {
            let before = SourceWatch::now(&self.dir, &home.builds());
            let built = target::build(&self.dir, home);
            let after = match built {
                Ok(built) => {
                    if self.report(home, &built)?.is_none() {
                        return Ok(Exit::Succeeded);
                    }
                    SourceWatch::built(&self.dir, &home.builds())
                }
                Err(error) => {
                    show::say(&show::printable(&format!("error: {error:#}"), true));
                    None
                }
            };
            let mut watch = match after {
                Some(watch) => watch,
                None => before.map_err(BadRequest::from_error)?,
            };
            show::say("waiting for a change");
            let (path, what) = watch.wait();
            show::say(&show::printable(
                &format!("{} {what}", path.display()),
                true,
            ));
        }
    }

    /// `None` if the reader of the output is gone.
    fn report(&self, home: &Home, built: &BuildOutcome) -> anyhow::Result<Option<Exit>> {
        let loaded = notes::of_component(home, &built.wasm)?;
        let refusal = loaded.as_ref().err();
        let notes = loaded.as_deref().unwrap_or_default();
        refusal.into_iter().for_each(show::detail);
        let exit = refusal.map_or(Exit::Succeeded, exit::of_refusal);
        let line = if self.json {
            // The escapes of JSON mean the same to a script.
            show::json_line(&json!({
                "name": built.name, "wasm": built.wasm, "fresh": built.fresh, "sources": built.sources, "notes": notes,
                "error": refusal.map(Refusal::to_error),
            }))
        } else {
            notes
                .iter()
                .for_each(|note| show::say(&format!("note: {note}")));
            if let Some(refusal) = refusal {
                // Nothing on standard output, which a script takes for a component that can be called.
                show::refused(refusal);
                return Ok(Some(exit));
            }
            // A script takes the path as it is.
            let path = built.wasm.display().to_string();
            show::printable(&path, std::io::stdout().is_terminal()) + "\n"
        };
        match std::io::stdout().write_all(line.as_bytes()) {
            Ok(()) => Ok(Some(exit)),
            Err(error) => show::closed(error).map(|_| None),
        }
    }
}
