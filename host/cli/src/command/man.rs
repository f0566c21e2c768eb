use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_mangen::{Man, generate_to};

use super::exit::{BadRequest, Exit};
use super::{Cli, show};

/// Prints the manual page of toolcell, or writes all commands' pages.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  toolcell man ~/.local/share/man/man1 && man toolcell-call")]
pub(super) struct ManPages {
    /// Write the pages of all commands into this folder, which is made if it is missing; default: print one page
    dir: Option<PathBuf>,
}

impl ManPages {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let command = Cli::command().disable_help_subcommand(true);
        match &self.dir {
            Some(dir) => write_all(command, dir).map_err(|error| {
                BadRequest(format!(
                    "cannot write the manual pages into {}: {error}",
                    dir.display()
                ))
                .into()
            }),
            None => {
                let mut page = Vec::new();
                Man::new(command).render(&mut page)?;
                show::print(&page)
            }
        }
    }
}

fn write_all(command: Command, dir: &Path) -> std::io::Result<Exit> {
    std::fs::create_dir_all(dir)?;
    // It builds the whole tree of commands first, those that are built lazily too.
    generate_to(command, dir)?;
    Ok(Exit::Succeeded)
}
