//! Files of a component's own: folders that it carries as ZIP archives in custom sections, such as the standard library of
//! an interpreter. Its calls see them read-only; they are a part of the component, and no grant.

pub(super) mod archive;
mod store;

use serde::{Deserialize, Serialize};
use toolcell_policy::{Capability, SCRATCH, WORKSPACE};
use toolcell_spec::dialect::sections::customs;
use toolcell_spec::dialect::wrapping::{FILES_SECTION, OWN_FOLDERS_MAX};
use toolcell_spec::{ErrorCode, Refusal};

pub(super) use store::{OpenFolders, OwnFileStore, folder_beside, gone, lost, remove, tree_bytes};

/// The kernel takes no longer names, and a path on the host has a folder of toolcell before it.
const NAME_BYTES_MAX: usize = 255;
const PATH_BYTES_MAX: usize = 1_024;
const NAME_CHARS_SHOWN: usize = 120;

/// A folder that a component carries, and its calls see read-only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnFolder {
    /// Where the component sees it.
    pub guest: String,
    /// BLAKE3 of the archive, in hexadecimal.
    pub digest: String,
    pub files: u64,
    /// Of all files.
    pub bytes: u64,
}

/// Of one component.
#[derive(Default)]
pub(super) struct OwnFiles {
    pub(super) folders: Vec<OwnFolder>,
    pub(super) open: OpenFolders,
}

/// A copy, to be unpacked on another thread.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FilesSection {
    guest: String,
    archive: Vec<u8>,
}

/// Sections of modules and components inside do not count.
pub(super) fn sections(component: &[u8]) -> Result<Vec<FilesSection>, Refusal> {
    let mut found: Vec<FilesSection> = Vec::new();
    for (guest, archive) in customs(component, FILES_SECTION, OWN_FOLDERS_MAX).map_err(refused)? {
        let wrong = |why: &str| refused(format!("the folder {} {why}", shown(guest)));
        let guest = guest_path(guest).map_err(wrong)?;
        if found.iter().any(|known| known.guest == guest) {
            return Err(wrong("is there twice"));
        }
        found.push(FilesSection {
            guest: guest.to_owned(),
            archive: archive.to_vec(),
        });
    }
    Ok(found)
}

fn guest_path(name: &[u8]) -> Result<&str, &'static str> {
    let rest = name.strip_prefix(b"/").ok_or("is not absolute")?;
    let path = std::str::from_utf8(name).map_err(|_| "is not UTF-8")?;
    plain(rest)?;
    let is_reserved = |place: &&str| std::path::Path::new(path).starts_with(place);
    match [WORKSPACE, SCRATCH].iter().find(|place| is_reserved(place)) {
        Some(_) => Err("is in a place that toolcell gives to its calls"),
        None => Ok(path),
    }
}

/// A relative path that means the same on every system.
fn plain(path: &[u8]) -> Result<&str, &'static str> {
    let path = std::str::from_utf8(path).map_err(|_| "is not UTF-8")?;
    if path.len() > PATH_BYTES_MAX {
        return Err("has a path that is too long");
    }
    if path.contains(|c: char| c == '\\' || c.is_control()) {
        return Err("has a backslash or a control character in its path");
    }
    for name in path.split('/') {
        match name {
            "" => return Err("has an empty name in its path, or is absolute"),
            "." | ".." => return Err("has `.` or `..` in its path"),
            name if name.len() > NAME_BYTES_MAX => return Err("has a name that is too long"),
            _ => {}
        }
    }
    Ok(path)
}

/// A folder of the user's at the same place would hide the component's, or the other way round.
pub(super) fn refuse_taken(open: &OpenFolders, capability: &Capability) -> Result<(), Refusal> {
    let is_at = |guest: &str| {
        let mut mounts = capability.mounts.iter();
        mounts.any(|mount| std::path::Path::new(&mount.guest) == std::path::Path::new(guest))
    };
    let Some(taken) = open.iter().find(|folder| is_at(folder.guest())) else {
        return Ok(());
    };
    let guest = taken.guest();
    let message = format!(
        "the component has files of its own in {guest}, where a folder was granted; grant that folder at another place, \
         such as DIR=/granted"
    );
    Err(Refusal::new(ErrorCode::WorldNotAvailable, message))
}

fn refused(why: impl std::fmt::Display) -> Refusal {
    let message = format!("the component's own files cannot be used: {why}");
    Refusal::new(ErrorCode::ComponentInvalid, message)
}

/// Cut, without characters that act on a terminal.
fn shown(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    let plain = name.chars().take(NAME_CHARS_SHOWN);
    format!(
        "`{}`",
        plain.flat_map(char::escape_debug).collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use toolcell_policy::Mount;
    use toolcell_spec::dialect::sections::with_large_custom;

    use super::*;

    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

    fn with(folders: &[&str]) -> Vec<u8> {
        let add = |component: Vec<u8>, folder: &&str| {
            with_large_custom(&component, &format!("{FILES_SECTION}{folder}"), b"zip").unwrap()
        };
        folders.iter().fold(EMPTY.to_vec(), add)
    }

    fn error(component: &[u8]) -> String {
        let refusal = sections(component).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::ComponentInvalid);
        refusal.message
    }

    #[test]
    fn folders_are_found_by_the_names_of_their_sections() {
        assert_eq!(sections(EMPTY).unwrap(), []);
        let guests = ["/usr/local/lib/python315.zip", "/a b/\u{e4}", "/scratchy"];
        let found = sections(&with(&guests)).unwrap();
        assert_eq!(found.len(), 3);
        for (found, guest) in found.iter().zip(guests) {
            assert_eq!(
                (found.guest.as_str(), &found.archive[..]),
                (guest, &b"zip"[..])
            );
        }
    }

    #[test]
    fn a_folder_is_at_one_plain_place_of_its_own() {
        let long = format!("/{}", "a".repeat(256));
        let longer = "/a".repeat(600);
        for (guest, why) in [
            ("", "not absolute"),
            ("lib", "not absolute"),
            ("/", "empty name"),
            ("//lib", "empty name"),
            ("/lib/", "empty name"),
            ("/lib/./a", "`.` or `..`"),
            ("/lib/../a", "`.` or `..`"),
            ("/lib\\a", "backslash"),
            ("/lib\n", "control character"),
            (&long, "name that is too long"),
            (&longer, "path that is too long"),
            ("/scratch", "gives to its calls"),
            ("/workspace/lib", "gives to its calls"),
        ] {
            let message = error(&with(&[guest]));
            assert!(
                message.contains(why) && !message.contains('\n'),
                "{guest}: {message}"
            );
        }
        let one = with(&["/lib"]);
        let twice = [&one[..], &one[EMPTY.len()..]].concat();
        assert!(error(&twice).contains("`/lib` is there twice"));
        let many: Vec<String> = (0..9).map(|at| format!("/{at}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(error(&with(&many)).contains("more than 8"));
        assert_eq!(sections(&with(&many[..8])).unwrap().len(), 8);
    }

    #[test]
    fn a_granted_folder_takes_no_place_of_the_components_own() {
        let root = tempfile::tempdir().unwrap();
        let store = OwnFileStore::new(None, root.path());
        let folder = OwnFolder {
            guest: "/usr/lib".to_owned(),
            digest: "abc".to_owned(),
            files: 0,
            bytes: 0,
        };
        std::fs::create_dir(store.root().unwrap().join("abc")).unwrap();
        let open = store.open(&[folder]).unwrap().unwrap();
        for (guest, is_taken) in [
            ("/usr/lib", true),
            ("/usr/lib/", true),
            ("/usr", false),
            ("/usr/lib/site", false),
        ] {
            let mount = Mount {
                host: root.path().to_owned(),
                guest: guest.to_owned(),
                writable: false,
            };
            let capability = Capability {
                mounts: vec![mount],
                ..Capability::default()
            };
            assert_eq!(
                refuse_taken(&open, &capability).is_err(),
                is_taken,
                "{guest}"
            );
        }
    }
}
