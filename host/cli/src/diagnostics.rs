//! Reports the program's own work on standard error, if the operator asks for it.

use std::io::IsTerminal;

use crate::exit::BadRequest;
use crate::show;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The environment variable that names the level.
const VARIABLE: &str = "TOOLCELL_LOG";

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Starts the reports of the level that `TOOLCELL_LOG` names; without it, or if it is empty, nothing is reported.
pub(super) fn start() -> Result<(), BadRequest> {
    let Some(word) = std::env::var_os(VARIABLE).filter(|word| !word.is_empty()) else {
        return Ok(());
    };
    let known = LEVELS.into_iter().find(|name| word == *name);
    let Some(Ok(level)) = known.map(str::parse::<LevelFilter>) else {
        let names = LEVELS.join(", ");
        let word = word.to_string_lossy();
        let message =
            format!("{VARIABLE} is `{word}`, which is not a level; set it to one of {names}");
        return Err(BadRequest(message));
    };
    if level == LevelFilter::OFF {
        return Ok(());
    }
    // Only this program's own crates: what libraries report may hold the content of messages.
    let own = Targets::new().with_target("toolcell", level);
    let shown = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && show::wants_colours())
        // They would go to standard error too, which cannot be written then.
        .log_internal_errors(false);
    tracing_subscriber::registry().with(own).with(shown).init();
    Ok(())
}
