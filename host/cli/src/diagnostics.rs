//! Reports the program's own work on standard error, if the operator asks for it.

use std::io::IsTerminal;

use crate::exit::BadRequest;
use crate::show;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

const VARIABLE: &str = "TOOLCELL_LOG";

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Silent if `TOOLCELL_LOG` is not set or empty.
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
