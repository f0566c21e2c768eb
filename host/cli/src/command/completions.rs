use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use super::exit::Exit;
use super::{Cli, show};

/// Prints a script that completes the commands and options of toolcell in a shell.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  toolcell completions bash > ~/.local/share/bash-completion/completions/toolcell\n  \
                        toolcell completions zsh > ~/.zfunc/_toolcell\n  \
                        toolcell completions fish > ~/.config/fish/completions/toolcell.fish"
)]
pub(super) struct Completions {
    /// The shell that reads the script
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let mut command = Cli::command();
        let name = command.get_name().to_owned();
        // Into memory first, because the generator panics if it cannot write.
        let mut script = Vec::new();
        generate(self.shell, &mut command, name, &mut script);
        show::print(&script)
    }
}
