//! The tools that come in the package of the program, called by their names.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// The path begins in the folder of the program, and is the same in every package.
const FOLDER: &str = "../share/toolcell/tools";
const DESCRIPTIONS: &str = "descriptions.json";

/// `None` if `path` is more than a name, if there is such a file, or if no tool of this name was shipped.
pub(crate) fn component(path: &Path) -> Option<PathBuf> {
    let mut parts = path.components();
    let (Some(Component::Normal(name)), None) = (parts.next(), parts.next()) else {
        return None;
    };
    if path.symlink_metadata().is_ok() {
        return None;
    }
    let file = folder()?
        .join(name)
        .with_extension("wasm")
        .canonicalize()
        .ok()?;
    // A name with a dot would lose what is behind it.
    (file.is_file() && file.file_stem() == Some(name)).then_some(file)
}

pub(crate) fn names() -> Vec<String> {
    let entries = folder()
        .and_then(|folder| std::fs::read_dir(folder).ok())
        .into_iter()
        .flatten()
        .flatten();
    let files = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "wasm"));
    let mut names: Vec<String> = files
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    names
}

/// One line for each tool that has one: the package has them, because a list runs nothing.
pub(crate) fn descriptions() -> BTreeMap<String, String> {
    let text = folder().and_then(|folder| std::fs::read(folder.join(DESCRIPTIONS)).ok());
    let read = text.and_then(|text| serde_json::from_slice(&text).ok());
    read.unwrap_or_default()
}

fn folder() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.join(FOLDER))
}
