//! Lists, extracts and makes zip, tar and tar.gz archives.

mod create;
mod entry;
mod entry_name;
mod extract;
mod format;
mod list;
mod meter;
mod names;
mod sources;
mod staging;
mod tar_file;
mod zip_file;

#[cfg(test)]
mod tests;

use toolcell_guest::toolkit;

toolkit! { namespace: "archive", tools: [list::list, extract::extract, create::create] }

/// Maximum number of files and folders of an archive that is extracted or made.
const ENTRIES_MAX: usize = 10_000;

/// The default of `max_bytes`.
fn bytes_max() -> u64 {
    256 << 20
}
