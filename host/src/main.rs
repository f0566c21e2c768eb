//! The `hotcell` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    hotcell::cli::run()
}
