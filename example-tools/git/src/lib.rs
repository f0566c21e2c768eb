//! Reads the history and the state of git repositories.

mod blame;
mod commit;
mod diff;
mod log;
mod patch;
mod repository;
mod show;
mod status;

use toolcell_guest::toolkit;

toolkit! { namespace: "git", tools: [log::log, show::show, diff::diff, blame::blame, status::status] }

/// The default of `revision`.
fn head() -> String {
    "HEAD".to_owned()
}

/// The default of `max_chars`.
fn chars_max() -> u32 {
    50_000
}
