//! Checks whether another user could have written a file that decides what is allowed, as `sudo` and `ssh` check
//! theirs.

use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, bail};
#[cfg(target_os = "linux")]
use rustix::io::Errno;
use toolcell_system::resolved_path::ResolvedPath;

/// Maximum size read of a list of users or groups, in bytes.
const LIST_BYTES_MAX: u64 = 1 << 20;

/// Fails if a user other than this one and root could have written `file`, which was opened at `path` and has
/// `metadata`, or could replace it: in any folder above it, or above a symbolic link that leads to it.
pub(super) fn check_with_folders(
    path: &Path,
    file: &File,
    metadata: &Metadata,
) -> anyhow::Result<()> {
    check(path, file, metadata)?;
    let full =
        std::path::absolute(path).with_context(|| format!("cannot find {}", path.display()))?;
    let resolved = ResolvedPath::resolve(&full)?;
    let mut seen = HashSet::new();
    for place in resolved
        .links
        .iter()
        .chain([&resolved.end])
        .flat_map(|place| place.ancestors())
    {
        if seen.insert(place) {
            let metadata = place
                .symlink_metadata()
                .with_context(|| format!("cannot inspect {}", place.display()))?;
            check_place(place, None, &metadata)?;
        }
    }
    Ok(())
}

/// Fails if a user other than this one and root owns `file`, which was opened at `path`, or may write to it.
pub(super) fn check(path: &Path, file: &File, metadata: &Metadata) -> anyhow::Result<()> {
    check_place(path, Some(file), metadata)
}

/// [`check`] for any path; `file` is the open file, if there is one.
fn check_place(path: &Path, file: Option<&File>, metadata: &Metadata) -> anyhow::Result<()> {
    if !guard!("file_owner") {
        return Ok(());
    }
    let me = rustix::process::geteuid().as_raw();
    let shown = path.display();
    if metadata.uid() != me && metadata.uid() != 0 {
        let owner = metadata.uid();
        bail!(
            "{shown} belongs to the user {owner}, who could change what is allowed; it has to belong to you, user {me}, or \
             to root: make it yours, or copy it to a folder of your own"
        );
    }
    // The mode of a symbolic link means nothing: its owner and its folder decide. In a sticky folder, such as /tmp,
    // users can change their own entries only.
    if metadata.is_symlink() || (metadata.is_dir() && metadata.mode() & 0o1000 != 0) {
        return Ok(());
    }
    if metadata.mode() & 0o002 != 0 {
        bail!("any user can change {shown}, and with it what is allowed; run: chmod o-w {shown}");
    }
    if metadata.mode() & 0o020 == 0 {
        return Ok(());
    }
    if guard!("access_lists") && has_access_list(path, file) {
        bail!(
            "{shown} has an access control list, by which other users could change what is allowed: setfacl -b {shown}, \
             or chmod g-w {shown}"
        );
    }
    if !is_private(metadata.gid(), me) {
        let group = metadata.gid();
        bail!(
            "{shown} can be changed by the group {group}, and so could what is allowed: chmod g-w {shown}"
        );
    }
    Ok(())
}

/// `true` if there is a POSIX access control list. Then the group bits of the mode are its mask, the most that any
/// named user or group may have, and tell nothing about the group.
#[cfg(target_os = "linux")]
fn has_access_list(path: &Path, file: Option<&File>) -> bool {
    const NAME: &str = "system.posix_acl_access";
    let bytes = match file {
        Some(file) => rustix::fs::fgetxattr_query(file, NAME),
        None => rustix::fs::lgetxattr_query(path, NAME),
    };
    // If it cannot be read, assumes that there is one. NOTSUP is the error of a file system without such lists.
    !matches!(bytes, Err(Errno::NODATA | Errno::NOTSUP))
}

#[cfg(not(target_os = "linux"))]
fn has_access_list(_path: &Path, _file: Option<&File>) -> bool {
    false
}

/// `true` if `group` has a single user: many systems give each user a private group, which may write the user's files.
fn is_private(group: u32, user: u32) -> bool {
    let read = |path: &str| -> Option<String> {
        let mut text = String::new();
        std::fs::File::open(path)
            .ok()?
            .take(LIST_BYTES_MAX)
            .read_to_string(&mut text)
            .ok()?;
        Some(text)
    };
    match (read("/etc/passwd"), read("/etc/group")) {
        (Some(users), Some(groups)) => has_one_user(group, user, &users, &groups),
        _ => false,
    }
}

/// `true` if `group` has no user but `user`; `users` and `groups` are in the format of `/etc/passwd` and `/etc/group`.
/// A group that is not listed could have any user.
fn has_one_user(group: u32, user: u32, users: &str, groups: &str) -> bool {
    let fields = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
    let is = |field: Option<&String>, id: u32| field.is_some_and(|field| *field == id.to_string());
    let users: Vec<Vec<String>> = users.lines().map(fields).collect();
    let Some(name) = users
        .iter()
        .find(|line| is(line.get(2), user))
        .and_then(|line| line.first())
    else {
        return false;
    };
    let others_have_it = users
        .iter()
        .any(|line| is(line.get(3), group) && !is(line.get(2), user));
    let mut listed = groups
        .lines()
        .map(fields)
        .filter(|line| is(line.get(2), group))
        .peekable();
    let is_listed = listed.peek().is_some();
    let only_me = |line: Vec<String>| {
        line.get(3).is_some_and(|members| {
            members
                .split(',')
                .all(|member| member.is_empty() || member == name)
        })
    };
    is_listed && !others_have_it && listed.all(only_me)
}

#[cfg(test)]
mod tests {
    use super::has_one_user;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_group_that_may_write_says_nothing_beside_an_access_list() {
        use std::fs::File;
        use std::os::unix::fs::MetadataExt;

        use rustix::fs::XattrFlags;

        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path();
        let open = File::open(file.path()).unwrap();
        assert!(!super::has_access_list(path, None) && !super::has_access_list(path, Some(&open)));
        // Version 2, then tag, rights and id of each entry: the owner, this user by name, the group, the mask, all others.
        let mut list = 2_u32.to_le_bytes().to_vec();
        let me = rustix::process::geteuid().as_raw();
        let none = u32::MAX;
        for (tag, rights, id) in [
            (1_u16, 6_u16, none),
            (2, 6, me),
            (4, 4, none),
            (0x10, 6, none),
            (0x20, 4, none),
        ] {
            list.extend(
                tag.to_le_bytes()
                    .into_iter()
                    .chain(rights.to_le_bytes())
                    .chain(id.to_le_bytes()),
            );
        }
        let set = rustix::fs::setxattr(path, "system.posix_acl_access", &list, XattrFlags::empty());
        set.expect("the folder for temporary files has to be in a file system with access control lists: set TMPDIR");
        assert!(super::has_access_list(path, None) && super::has_access_list(path, Some(&open)));
        let metadata = open.metadata().unwrap();
        assert_eq!(
            metadata.mode() & 0o777,
            0o664,
            "the mode shows the mask as the rights of the group"
        );
        let refused = super::check(path, &open, &metadata)
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("setfacl -b") && super::check_place(path, None, &metadata).is_err(),
            "{refused}"
        );
    }

    #[test]
    fn a_group_is_private_if_its_user_alone_is_listed() {
        let users = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nbob:x:1001:1001::/home/bob:/bin/sh\n\
                     eve:x:1002:50::/home/eve:/bin/sh\nfay:x:1003:50::/home/fay:/bin/sh\n";
        let groups = "ann:x:1000:\nbob:x:1001:ann\nstaff:x:50:\nteam:x:60:ann,bob\nown:x:70:ann\n";
        let private = |group, user| has_one_user(group, user, users, groups);
        assert!(private(1000, 1000) && private(70, 1000));
        assert!(!private(1001, 1001), "another member");
        assert!(!private(50, 1002), "another user whose first group it is");
        assert!(
            !private(60, 1000) && !private(1000, 1001),
            "a group of another user"
        );
        assert!(!private(4_000, 1000), "not listed");
        assert!(!private(1000, 5_000), "a user who is not listed");
    }
}
