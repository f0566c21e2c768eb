//! Lists, reads and searches files in the granted folders.

mod list;
mod read;
mod search;
mod walk;

#[cfg(test)]
mod folder;

use toolcell_guest::toolkit;

toolkit! { namespace: "files", tools: [list::list, read::read, search::search] }

/// The default of every `path`: the working directory.
fn here() -> String {
    ".".to_owned()
}
