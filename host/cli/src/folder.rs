//! A folder of components as a target: all `.wasm` files in it.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use toolcell_toolchain::Language;

const FILES_MAX: usize = 4_096;

/// `None` for a file, the source folder of a tool, or a folder without components. Fails if the folder has too many.
pub(crate) fn components(path: &Path) -> io::Result<Option<Vec<PathBuf>>> {
    if !path.is_dir() || Language::detect(path).is_some() {
        return Ok(None);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let file = path.join(entry?.file_name());
        // A hidden file may be one that is still being written.
        let hidden = file
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().first() == Some(&b'.'));
        if hidden || file.extension() != Some(OsStr::new("wasm")) {
            continue;
        }
        if found.len() == FILES_MAX {
            let message = format!("it has more than {FILES_MAX} components; name several folders");
            return Err(io::Error::other(message));
        }
        found.push(file);
    }
    found.sort();
    Ok((!found.is_empty()).then_some(found))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::components;

    #[test]
    fn a_folder_has_the_components_that_are_whole() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(components(folder.path()).unwrap(), None);
        for name in ["b.wasm", "a.wasm", ".new.wasm", "notes.txt"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let [a, b] = ["a.wasm", "b.wasm"].map(|name| folder.path().join(name));
        assert_eq!(components(folder.path()).unwrap(), Some(vec![a.clone(), b]));
        assert_eq!(components(&a).unwrap(), None);
        fs::write(folder.path().join("Cargo.toml"), "").unwrap();
        assert_eq!(
            components(folder.path()).unwrap(),
            None,
            "it is the source folder of a tool"
        );
    }
}
