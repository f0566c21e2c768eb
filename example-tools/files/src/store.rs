use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
};

use toolcell_guest::{ToolError, log};

use crate::read;

/// Maximum size of a file before and after an edit, in bytes: both texts are held in memory.
pub(crate) const FILE_BYTES_MAX: u64 = 16 << 20;
/// Maximum number of names that are tried for a temporary file. Calls that were killed may have left some behind.
const NAMES_MAX: u32 = 100;
/// WASI's errno for an access that no grant allows; std has no kind for it.
const ENOTCAPABLE: i32 = 76;

/// Whether `path` is a regular file; false if it does not exist. Fails for folders, links and special files: a rename
/// would replace a link with a regular file.
pub(crate) fn is_file(path: &Path) -> Result<bool, ToolError> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        metadata => metadata.map_err(|error| ToolError::at_path(path, &error))?,
    };
    let shown = path.display();
    if metadata.is_dir() {
        return Err(ToolError::at_path(
            path,
            &io::ErrorKind::IsADirectory.into(),
        ));
    }
    if metadata.is_symlink() {
        let message = format!("{shown} is a link, which is not followed; name the file itself");
        return Err(ToolError::invalid_arguments("path_is_link", message));
    }
    if !metadata.is_file() {
        let message = format!("{shown} is not a regular file");
        return Err(ToolError::invalid_arguments("not_a_file", message));
    }
    Ok(true)
}

/// The text of a file.
pub(crate) fn load(path: &Path) -> Result<String, ToolError> {
    let failed = |error: io::Error| ToolError::at_path(path, &error);
    if !is_file(path)? {
        return Err(failed(io::ErrorKind::NotFound.into()));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    // Counted as it is read, because the file may grow.
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(too_large(path, "is"));
    }
    read::utf8(&bytes).map_err(|place| read::not_text(path, place))?;
    String::from_utf8(bytes)
        .map_err(|error| read::not_text(path, error.utf8_error().valid_up_to() as u64))
}

/// The error for a file that `is` or `would be` larger than an edit can handle.
pub(crate) fn too_large(path: &Path, is: &str) -> ToolError {
    let path = path.display();
    let message = format!("{path} {is} larger than {FILE_BYTES_MAX} bytes");
    ToolError::capability_gap("file_too_large", message)
}

/// Creates the file or replaces its text. With `before`, fails if the file does not hold this text any more.
///
/// The text is written to a temporary file in the same folder, which is then renamed, so that no reader sees half of
/// it. Where the sandbox refuses the temporary file, the file is written in place.
pub(crate) fn replace(path: &Path, before: Option<&str>, text: &str) -> Result<(), ToolError> {
    let failed = |error: io::Error| ToolError::at_path(path, &error);
    let staged = match stage(path, text) {
        Ok(staged) => staged,
        Err(error) if may_go_in_place(&error) => return in_place(path, before, text),
        Err(error) => return Err(failed(error)),
    };
    let replaced = is_as_read(path, before).map(|()| fs::rename(&staged, path));
    if !matches!(replaced, Ok(Ok(()))) {
        remove(&staged);
    }
    match replaced? {
        Err(error) if may_go_in_place(&error) => in_place(path, before, text),
        renamed => renamed.map_err(failed),
    }
}

/// Not for a lack of space, where the write in place would lose the old text.
fn may_go_in_place(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, CrossesDevices, PermissionDenied, Unsupported};
    matches!(
        error.kind(),
        AlreadyExists | CrossesDevices | PermissionDenied | Unsupported
    ) || (cfg!(target_os = "wasi") && error.raw_os_error() == Some(ENOTCAPABLE))
}

/// Writes the text to a new file in the folder of `path`.
fn stage(path: &Path, text: &str) -> io::Result<PathBuf> {
    for number in 0..NAMES_MAX {
        let staged = path.with_file_name(format!(".files-{number}.tmp"));
        let mut file = match OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&staged)
        {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            file => file?,
        };
        let written = file
            .write_all(text.as_bytes())
            .and_then(|()| file.sync_all());
        if written.is_err() {
            remove(&staged);
        }
        return written.map(|()| staged);
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn remove(staged: &Path) {
    if let Err(error) = fs::remove_file(staged) {
        log::error(format!("could not remove {}: {error}", staged.display()));
    }
}

/// Fails with execution_failed, code `changed_meanwhile`, if the file is not what the edits were applied to. WASI has
/// no locks, so a change in the moment between this check and the replacement is lost.
fn is_as_read(path: &Path, before: Option<&str>) -> Result<(), ToolError> {
    let Some(before) = before else { return Ok(()) };
    let failed = |error: io::Error| ToolError::at_path(path, &error);
    let metadata = fs::symlink_metadata(path).map_err(failed)?;
    if metadata.is_file()
        && metadata.len() == before.len() as u64
        && fs::read(path).map_err(failed)? == before.as_bytes()
    {
        return Ok(());
    }
    let message = format!(
        "{} was changed by another program since it was read; nothing was changed: read it again",
        path.display()
    );
    Err(ToolError::execution_failed("changed_meanwhile", message))
}

/// Writes the file in place. If that fails and the old text is known, the old text is put back.
fn in_place(path: &Path, before: Option<&str>, text: &str) -> Result<(), ToolError> {
    is_as_read(path, before)?;
    let failed = |error: &io::Error| ToolError::at_path(path, error);
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(|error| failed(&error))?;
    let Err(error) = fill(&mut file, text) else {
        return Ok(());
    };
    let is_restored = before.is_some_and(|before| fill(&mut file, before).is_ok());
    let state = if is_restored {
        "the file is as it was"
    } else {
        "the file holds only a part of the text"
    };
    let failed = failed(&error);
    Err(ToolError {
        message: format!("{}; {state}", failed.message),
        ..failed
    })
}

fn fill(file: &mut File, text: &str) -> io::Result<()> {
    file.rewind()?;
    file.write_all(text.as_bytes())?;
    file.set_len(text.len() as u64)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    #[test]
    fn a_text_takes_the_place_of_another_and_no_file_is_left_beside_it() {
        let folder = Folder::new(&[("a.txt", "old")]);
        let path = folder.path().join("a.txt");
        replace(&path, Some("old"), "new").unwrap();
        assert_eq!(folder.files(), [("a.txt".to_owned(), "new".to_owned())]);
    }

    #[test]
    fn a_file_that_changed_since_it_was_read_is_kept() {
        let folder = Folder::new(&[("a.txt", "theirs")]);
        let path = folder.path().join("a.txt");
        for before in ["mine", "xheirs"] {
            let error = replace(&path, Some(before), "new").unwrap_err();
            assert_eq!(error.code, "changed_meanwhile");
            let error = in_place(&path, Some(before), "new").unwrap_err();
            assert_eq!(error.code, "changed_meanwhile");
        }
        assert_eq!(folder.files(), [("a.txt".to_owned(), "theirs".to_owned())]);
    }

    #[test]
    fn without_a_free_name_beside_it_the_file_is_written_in_place() {
        let folder = Folder::new(&[("a.txt", "a longer old text")]);
        for number in 0..NAMES_MAX {
            folder.write(&format!(".files-{number}.tmp"), b"left");
        }
        let path = folder.path().join("a.txt");
        replace(&path, Some("a longer old text"), "new").unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "new");
        assert_eq!(folder.files().len(), 1 + NAMES_MAX as usize);
    }

    #[test]
    fn a_lack_of_space_is_no_reason_to_write_in_place() {
        assert!(!may_go_in_place(&io::ErrorKind::StorageFull.into()));
        assert!(!may_go_in_place(&io::ErrorKind::QuotaExceeded.into()));
        assert!(may_go_in_place(&io::ErrorKind::PermissionDenied.into()));
    }

    #[test]
    fn what_is_not_a_text_file_is_not_loaded() {
        let folder = Folder::new(&[("a/b", "x")]);
        folder.write("image", b"PNG\n\x00\x01");
        folder.write("latin", b"caf\xe9\n");
        folder.write("large", &vec![b'x'; FILE_BYTES_MAX as usize + 1]);
        folder.write("largest", &vec![b'x'; FILE_BYTES_MAX as usize]);
        let code = |name: &str| {
            load(&folder.path().join(name))
                .err()
                .map(|error| error.code)
        };
        assert_eq!(code("a").as_deref(), Some("is_a_folder"));
        assert_eq!(code("image").as_deref(), Some("binary_file"));
        assert_eq!(code("latin").as_deref(), Some("binary_file"));
        assert_eq!(code("large").as_deref(), Some("file_too_large"));
        assert_eq!(code("missing").as_deref(), Some("not_found"));
        assert_eq!(code("largest"), None);
        #[cfg(unix)]
        {
            let link = folder.path().join("link");
            std::os::unix::fs::symlink(folder.path().join("a/b"), &link).unwrap();
            assert_eq!(code("link").as_deref(), Some("path_is_link"));
        }
    }
}
