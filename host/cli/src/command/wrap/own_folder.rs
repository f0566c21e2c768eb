//! Packs a folder that a component carries as its own. The same files give the same bytes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use toolcell_spec::dialect::wrapping::{OWN_FILES_BYTES_MAX, OwnFilesRoom};
use toolcell_system::named_file;

use super::super::exit::BadRequest;
use super::super::zip::{Entry, ZipWriter};

const FILE_MODE: u32 = 0o644;

struct FolderEntry {
    /// With a slash at its end for a folder with nothing in it.
    name: String,
    path: PathBuf,
}

/// `DIR=GUEST_PATH`, where only `DIR` may have an `=`.
pub(super) fn halves(option: &str) -> Result<(&Path, &str), BadRequest> {
    match option.rsplit_once('=') {
        Some((folder, guest)) if !folder.is_empty() && guest.starts_with('/') => {
            Ok((Path::new(folder), guest))
        }
        _ => Err(BadRequest(format!(
            "`--folder={option}` names no folder and its absolute path for the component: give DIR=/PATH"
        ))),
    }
}

/// Fails for links, for what is neither file nor folder, and beyond `room`.
pub(super) fn pack(folder: &Path, room: &mut OwnFilesRoom) -> Result<Vec<u8>, BadRequest> {
    let refused = |why: String| BadRequest(format!("cannot pack {}: {why}", folder.display()));
    let mut found = files(folder, room)?;
    found.sort_by(|one, other| one.name.cmp(&other.name));
    let mut writer = ZipWriter::default();
    for FolderEntry { name, path } in found {
        if name.ends_with('/') {
            writer.folder(&name).map_err(refused)?;
            continue;
        }
        let bytes = named_file::read(&path, room.bytes()).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => refused(format!(
                "its files have more than {OWN_FILES_BYTES_MAX} bytes"
            )),
            _ => unreadable(&path, &error),
        })?;
        room.take(0, bytes.len() as u64).map_err(refused)?;
        let mode = FILE_MODE;
        writer.file(&Entry { name, mode, bytes }).map_err(refused)?;
    }
    writer.finish().map_err(refused)
}

fn files(folder: &Path, room: &mut OwnFilesRoom) -> Result<Vec<FolderEntry>, BadRequest> {
    let mut found = Vec::new();
    let mut waiting = vec![(String::new(), folder.to_owned())];
    while let Some((prefix, folder)) = waiting.pop() {
        let mut is_empty = true;
        for entry in fs::read_dir(&folder).map_err(|error| unreadable(&folder, &error))? {
            let entry = entry.map_err(|error| unreadable(&folder, &error))?;
            let path = entry.path();
            let wrong = |why: &str| BadRequest(format!("{} {why}", path.display()));
            is_empty = false;
            room.take(1, 0)
                .map_err(|why| wrong(&format!("is one too many: {why}")))?;
            let name = entry.file_name();
            let name = name
                .to_str()
                .ok_or_else(|| wrong("has a name that is not UTF-8"))?;
            let name = format!("{prefix}{name}");
            let kind = entry
                .file_type()
                .map_err(|error| unreadable(&path, &error))?;
            if kind.is_dir() {
                waiting.push((format!("{name}/"), path));
            } else if kind.is_file() {
                found.push(FolderEntry { name, path });
            } else if kind.is_symlink() {
                return Err(wrong("is a link; put what it leads to in its place"));
            } else {
                return Err(wrong("is neither a file nor a folder"));
            }
        }
        if is_empty && !prefix.is_empty() {
            found.push(FolderEntry {
                name: prefix,
                path: folder,
            });
        }
    }
    Ok(found)
}

fn unreadable(path: &Path, error: &io::Error) -> BadRequest {
    BadRequest(format!("cannot read {}: {error}", path.display()))
}
