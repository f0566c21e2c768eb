//! Lists, reads, searches, writes and edits files in the granted folders.

mod closest;
mod edit;
mod list;
mod read;
mod search;
mod store;
mod walk;
mod write;

#[cfg(test)]
mod folder;

use toolcell_guest::toolkit;

toolkit! {
    namespace: "files",
    tools: [list::list, read::read, search::search, write::write, edit::edit]
}

/// The default of every `path`: the working directory.
fn here() -> String {
    ".".to_owned()
}
