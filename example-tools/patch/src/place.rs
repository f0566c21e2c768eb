use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Component, Path, PathBuf},
};

use toolcell_guest::ToolError;

use crate::{Action, parse::FilePatch};

/// Maximum size of a file, in bytes; larger files are refused, because the old and the new text are held in memory.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// A file that the diff changes.
#[derive(Debug)]
pub(crate) struct Target {
    /// The path in the diff, for messages.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// Refuses a path that could lead out of the diff's folder. Fails with invalid_arguments, code `path_outside`.
pub(crate) fn inside(path: &str) -> Result<(), ToolError> {
    let plain = Path::new(path)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    // A backslash separates folders for some readers of the diff, and a NUL ends the path for others.
    if plain && !path.is_empty() && !path.contains(['\\', '\0']) {
        return Ok(());
    }
    let message = format!("the diff names {path:?}: a path must be relative, without `..` and `.`");
    Err(ToolError::invalid_arguments("path_outside", message))
}

/// Finds the file of a patch. `base` is the folder that the diff starts from, or the file itself.
pub(crate) fn find(base: &str, patch: &FilePatch) -> Result<Target, ToolError> {
    inside(&patch.path)?;
    let base = Path::new(base);
    let metadata = fs::metadata(base).map_err(|error| ToolError::at_path(base, &error))?;
    if !metadata.is_file() {
        let path = base.join(&patch.path);
        no_links(base, Path::new(&patch.path))?;
        return Ok(Target {
            name: patch.path.clone(),
            path,
        });
    }
    refuse_link(
        base,
        &fs::symlink_metadata(base).map_err(|error| ToolError::at_path(base, &error))?,
    )?;
    let same_name = base.file_name() == Path::new(&patch.path).file_name();
    if same_name && patch.action != Action::Created {
        Ok(Target {
            name: patch.path.clone(),
            path: base.to_owned(),
        })
    } else {
        Err(ToolError::invalid_arguments(
            "other_file",
            format!(
                "`path` is the file {}, but the diff is about {}",
                base.display(),
                patch.path
            ),
        ))
    }
}

/// Refuses symbolic links: one could lead out of the folder, and the write would replace it with a regular file.
fn no_links(base: &Path, relative: &Path) -> Result<(), ToolError> {
    let mut path = base.to_owned();
    for part in relative.components() {
        path.push(part);
        match fs::symlink_metadata(&path) {
            Ok(metadata) => refuse_link(&path, &metadata)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(ToolError::at_path(&path, &error)),
        }
    }
    Ok(())
}

fn refuse_link(path: &Path, metadata: &fs::Metadata) -> Result<(), ToolError> {
    if !metadata.is_symlink() {
        return Ok(());
    }
    let message = format!(
        "{} is a link, which a patch does not follow",
        path.display()
    );
    Err(ToolError::invalid_arguments("path_is_link", message))
}

/// The text of the file; `None` if the patch creates it, in which case it must not exist.
pub(crate) fn read(target: &Target, action: Action) -> Result<Option<String>, ToolError> {
    let failed = |error: &io::Error| ToolError::at_path(&target.name, error);
    let metadata = match (fs::symlink_metadata(&target.path), action) {
        (Ok(_), Action::Created) => return Err(failed(&io::ErrorKind::AlreadyExists.into())),
        (Err(error), Action::Created) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        (metadata, _) => metadata.map_err(|error| failed(&error))?,
    };
    if metadata.is_dir() {
        return Err(failed(&io::ErrorKind::IsADirectory.into()));
    }
    let mut bytes = Vec::new();
    let file = File::open(&target.path).map_err(|error| failed(&error))?;
    file.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| failed(&error))?;
    // Counted as it is read, because the file may grow.
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let message = format!("{} is larger than {FILE_BYTES_MAX} bytes", target.name);
        return Err(ToolError::capability_gap("file_too_large", message));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(ToolError::invalid_arguments(
            "binary_file",
            format!("{} is not UTF-8 text", target.name),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_could_lead_out_are_refused() {
        for path in ["../x", "a/../../x", "/etc/passwd", "./x", "a\\..\\x", ""] {
            assert_eq!(inside(path).unwrap_err().code, "path_outside", "{path}");
        }
        for path in ["x", "a/b.txt", "a/..b", ".hidden"] {
            assert_eq!(inside(path), Ok(()), "{path}");
        }
    }
}
