//! Readers of a file with secrets, by its mode and its access control list.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::process::{getegid, geteuid, getgroups};

const READ: u16 = 4;
const WRITE: u16 = 2;
/// Tags of the entries of an access control list.
const USER: u16 = 2;
const GROUP_OBJ: u16 = 4;
const GROUP: u16 = 8;
const MASK: u16 = 0x10;
/// In bytes: a list with more than a hundred entries is refused.
#[cfg(target_os = "linux")]
const LIST_BYTES_MAX: usize = 1 << 10;

/// Tag, rights and id.
type Entry = (u16, u16, u32);

/// Says who else can read `file`, or change it; `None` if only its owner can, or only this process can: Kubernetes mounts
/// secrets as root's with a group of the process, and systemd with an entry for its user.
pub fn foreign_reader(file: &File) -> io::Result<Option<&'static str>> {
    let metadata = file.metadata()?;
    let mode = metadata.mode();
    if mode & 0o007 != 0 {
        return Ok(Some("any user"));
    }
    let me = geteuid().as_raw();
    if metadata.uid() != 0 && metadata.uid() != me {
        return Ok(Some("another user"));
    }
    if mode & 0o070 == 0 {
        return Ok(None);
    }
    // Of a file of its own, a user closes the group: a common group has others in it.
    if metadata.uid() != 0 {
        return Ok(Some("a group of other users"));
    }
    let entries = match access_list(file)? {
        Some(entries) => entries,
        None => vec![(GROUP_OBJ, ((mode >> 3) & 7) as u16, 0)],
    };
    let mut groups: Vec<u32> = getgroups()?.iter().map(|group| group.as_raw()).collect();
    groups.push(getegid().as_raw());
    Ok(stranger(&entries, metadata.gid(), (me, &groups)))
}

fn stranger(entries: &[Entry], group: u32, (me, groups): (u32, &[u32])) -> Option<&'static str> {
    let mask = entries.iter().find(|(tag, ..)| *tag == MASK);
    let mask = mask.map_or(READ | WRITE | 1, |(_, rights, _)| *rights);
    entries.iter().find_map(|(tag, rights, id)| {
        let rights = rights & mask;
        let (is_own, who) = match *tag {
            USER => (*id == me || *id == 0, "another user"),
            GROUP_OBJ => (groups.contains(&group), "a group of other users"),
            GROUP => (groups.contains(id), "a group of other users"),
            _ => return None,
        };
        let changes = rights & WRITE != 0 && !(*tag == USER && is_own);
        (changes || rights != 0 && !is_own).then_some(who)
    })
}

/// `None` if there is none: then the mode says all.
#[cfg(target_os = "linux")]
fn access_list(file: &File) -> io::Result<Option<Vec<Entry>>> {
    use rustix::io::Errno;
    let mut bytes = [0; LIST_BYTES_MAX];
    let read = match rustix::fs::fgetxattr(file, "system.posix_acl_access", &mut bytes) {
        Ok(read) => read,
        Err(Errno::NODATA | Errno::NOTSUP) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // The version comes first.
    let entries = bytes.get(4..read).unwrap_or_default().chunks_exact(8);
    let entry = |bytes: &[u8]| -> Option<Entry> {
        let (tag, rest) = bytes.split_first_chunk()?;
        let (rights, id) = rest.split_first_chunk()?;
        let id = u32::from_le_bytes(id.try_into().ok()?);
        Some((u16::from_le_bytes(*tag), u16::from_le_bytes(*rights), id))
    };
    Ok(entries.map(entry).collect())
}

#[cfg(not(target_os = "linux"))]
fn access_list(_file: &File) -> io::Result<Option<Vec<Entry>>> {
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_process_may_have_rights_beside_the_owner() {
        let of = |entries: &[Entry]| stranger(entries, 50, (1_000, &[1_000, 2_000]));
        let own_group = |rights| stranger(&[(GROUP_OBJ, rights, 0)], 2_000, (1_000, &[2_000]));
        assert_eq!(own_group(4), None);
        assert!(own_group(6).is_some(), "a group that may change it");
        assert!(of(&[(GROUP_OBJ, 4, 0)]).is_some());
        // As systemd passes credentials: root's file, with an entry for the user of the service.
        assert_eq!(
            of(&[(USER, 4, 1_000), (GROUP_OBJ, 0, 0), (MASK, 4, 0)]),
            None
        );
        assert!(of(&[(USER, 4, 1_001), (GROUP_OBJ, 0, 0), (MASK, 4, 0)]).is_some());
        assert_eq!(
            of(&[(USER, 7, 1_001), (GROUP_OBJ, 7, 0), (MASK, 0, 0)]),
            None
        );
        assert_eq!(
            of(&[(GROUP, 4, 2_000), (GROUP_OBJ, 0, 0), (MASK, 4, 0)]),
            None
        );
        assert!(of(&[(GROUP, 4, 3_000), (GROUP_OBJ, 0, 0), (MASK, 4, 0)]).is_some());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_access_list_of_a_file_counts() {
        use std::fs::Permissions;
        use std::os::unix::fs::PermissionsExt;

        use rustix::fs::XattrFlags;

        let file = tempfile::NamedTempFile::new().unwrap();
        let reader = || foreign_reader(file.as_file()).unwrap();
        let chmod =
            |mode| std::fs::set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
        chmod(0o400);
        assert_eq!(reader(), None);
        // A user's own file has no readers beside the user.
        let is_root = geteuid().is_root();
        let of_root = |reader| (!is_root).then_some("a group of other users").or(reader);
        chmod(0o440);
        assert_eq!(reader(), of_root(None), "the group of this process");
        chmod(0o444);
        assert_eq!(reader(), Some("any user"));
        chmod(0o400);
        let none = u32::MAX;
        let allow = |user: u32| {
            let mut list = 2_u32.to_le_bytes().to_vec();
            let entries = [
                (1, 4, none),
                (USER, 4, user),
                (GROUP_OBJ, 0, none),
                (MASK, 4, none),
                (0x20, 0, none),
            ];
            for (tag, rights, id) in entries {
                list.extend(tag.to_le_bytes());
                list.extend(u16::to_le_bytes(rights));
                list.extend(id.to_le_bytes());
            }
            let name = "system.posix_acl_access";
            rustix::fs::setxattr(file.path(), name, &list, XattrFlags::empty())
                .expect("a file system with access control lists: set TMPDIR");
        };
        let me = geteuid().as_raw();
        allow(me);
        let mode = file.as_file().metadata().unwrap().mode();
        assert_eq!(
            (mode & 0o777, reader()),
            (0o440, of_root(None)),
            "the mode shows the mask"
        );
        allow(me + 1);
        assert_eq!(reader(), of_root(Some("another user")));
    }
}
