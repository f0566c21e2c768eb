//! Opens and reads the file of a component.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::component_size::{component_bytes_max, larger_than_allowed};
use toolcell_spec::{ErrorClass, ErrorCode, Refusal};

/// Returns the size too. Fails for an irregular or too large file.
pub fn open_component(file: &Path) -> Result<(File, u64), Refusal> {
    // Without NONBLOCK, a named pipe would block the reader. Reading a regular file ignores it.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let open = File::options()
        .read(true)
        .custom_flags(flags)
        .open(file)
        .map_err(|error| unreadable(file, &error))?;
    let metadata = open.metadata().map_err(|error| unreadable(file, &error))?;
    if !metadata.is_file() {
        return Err(unreadable(
            file,
            &std::io::Error::other("it is not a regular file"),
        ));
    }
    let size = metadata.len();
    if size > component_bytes_max() {
        return Err(too_large(file, size));
    }
    Ok((open, size))
}

/// `size` can be the size where reading stopped.
fn too_large(file: &Path, size: u64) -> Refusal {
    let message = format!(
        "the component {} has {size} bytes, {}",
        file.display(),
        larger_than_allowed()
    );
    Refusal::new(ErrorCode::ComponentTooLarge, message).with_class(ErrorClass::SandboxViolation)
}

/// Reads at most 256 MiB unless the user allowed more.
///
/// # Errors
///
/// `setup_required`/`component_unreadable` for an unreadable or irregular file, and
/// `sandbox_violation`/`component_too_large`. The message names the file.
pub fn read_component(file: &Path) -> Result<Vec<u8>, Refusal> {
    read_open(file, open_component(file)?.0)
}

/// The file may have grown since it was opened, so its size is checked again.
pub fn read_open(file: &Path, open: File) -> Result<Vec<u8>, Refusal> {
    let mut bytes = Vec::new();
    open.take(component_bytes_max().saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(file, &error))?;
    let size = bytes.len() as u64;
    if size > component_bytes_max() {
        Err(too_large(file, size))
    } else {
        Ok(bytes)
    }
}

pub fn unreadable(file: &Path, error: &std::io::Error) -> Refusal {
    let message = format!(
        "cannot read the component {}: {error}; name a .wasm file that you may read",
        file.display()
    );
    Refusal::new(ErrorCode::ComponentUnreadable, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_read_is_named_with_the_reason_and_what_to_give() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing.wasm");
        for (path, why) in [
            (missing.as_path(), "No such file"),
            (folder.path(), "regular file"),
        ] {
            let refusal = read_component(path).unwrap_err();
            let message = refusal.to_string();
            assert_eq!(
                (refusal.class, refusal.code),
                (ErrorClass::SetupRequired, ErrorCode::ComponentUnreadable)
            );
            assert!(
                message.contains(&path.display().to_string()) && message.contains(why),
                "{message}"
            );
            assert!(
                message.ends_with("name a .wasm file that you may read"),
                "{message}"
            );
        }
    }

    #[test]
    fn a_component_that_is_too_large_is_refused_with_its_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large.wasm");
        // A hole: it takes no space.
        File::create(&path)
            .unwrap()
            .set_len(component_bytes_max() + 1)
            .unwrap();
        let refusal = read_component(&path).unwrap_err();
        assert_eq!(
            (refusal.class, refusal.code),
            (ErrorClass::SandboxViolation, ErrorCode::ComponentTooLarge)
        );
        let message = refusal.to_string();
        let size = component_bytes_max() + 1;
        assert!(
            message.contains(&format!("{} has {size} bytes", path.display())),
            "{message}"
        );
        // As one that has grown since it was opened.
        let grown = read_open(&path, File::open(&path).unwrap()).unwrap_err();
        assert_eq!(grown.to_string(), message);
    }
}
