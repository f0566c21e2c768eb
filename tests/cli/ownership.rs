//! Only their owner may be able to write the files that decide what is allowed.
//!
//! Promise: No other user decides.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::guest;
use super::policy::Place;
use crate::support::Ran;

fn echo(place: &Place, options: &[&str]) -> Ran {
    let echo = guest("probe#echo");
    let mut arguments = vec!["call", &echo, "{}", "--json"];
    arguments.extend(options);
    place.run(&arguments)
}

fn set(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// The call is refused, and the message names the path and the remedy.
fn refused(ran: Ran, path: &Path, advice: &str) {
    let error = ran.exits(3).json()["error"].clone();
    assert_eq!(error["error_code"], "policy_unreadable", "{error}");
    assert_eq!(error["policy_refs"][0], "settings:toolcell.toml");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains(&path.display().to_string()) && message.contains(advice),
        "{message}"
    );
}

#[test]
fn a_file_that_others_may_write_does_not_count() {
    let place = Place::new()
        .user("mode = \"plan\"\n")
        .project("mode = \"plan\"\n")
        .trusted();
    echo(&place, &[]).exits(0);
    let user = place.home.join("toolcell.toml");
    let mut entries = fs::read_dir(place.home.join("trusted"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    // Beside the entry is a copy of the file, to compare it with.
    let entry = entries.find(|path| path.extension().is_none()).unwrap();
    for file in [&user, &place.file(), &entry] {
        for (mode, advice) in [(0o602, "chmod o-w"), (0o666, "chmod o-w")] {
            set(file, mode);
            refused(echo(&place, &[]), file, advice);
        }
        set(file, 0o644);
        echo(&place, &[]).exits(0);
    }
    set(&place.file(), 0o666);
    refused(
        echo(&place, &["--config=toolcell.toml"]),
        Path::new("toolcell.toml"),
        "chmod o-w",
    );
    assert!(place.run(&["trust"]).exits(2).stderr.contains("chmod o-w"));
    echo(&place, &["--no-config"]).exits(0);
}

#[test]
fn a_file_in_a_folder_that_others_may_write_does_not_count_unless_the_folder_is_sticky() {
    let place = Place::new().project("mode = \"plan\"\n").trusted();
    let around = place.project.parent().unwrap().to_owned();
    for folder in [&place.project, &around, &place.home.join("trusted")] {
        let mode = folder.metadata().unwrap().mode();
        set(folder, 0o777);
        refused(echo(&place, &[]), folder, "chmod o-w");
        set(folder, 0o1777);
        echo(&place, &[]).exits(0);
        set(folder, mode);
    }
    // A file named on the command line is not refused because of its folder.
    set(&place.project, 0o777);
    echo(&place, &["--config=toolcell.toml"]).exits(0);
}

#[test]
fn the_folder_of_a_link_to_the_users_own_file_counts_too() {
    let place = Place::new();
    let kept = place.project.parent().unwrap().join("dotfiles");
    fs::create_dir(&kept).unwrap();
    fs::write(kept.join("toolcell.toml"), "mode = \"plan\"\n").unwrap();
    std::os::unix::fs::symlink(kept.join("toolcell.toml"), place.home.join("toolcell.toml"))
        .unwrap();
    echo(&place, &[]).exits(0);
    set(&kept, 0o777);
    refused(echo(&place, &[]), &kept, "chmod o-w");
    set(&kept, 0o755);
    set(&place.home, 0o777);
    refused(echo(&place, &[]), &place.home, "chmod o-w");
}

/// A user and group number that no user has as a group of their own, such as the group of the mail system.
const STRANGER: u32 = 54_321;

#[test]
fn a_file_of_another_user_or_of_a_group_of_several_does_not_count() {
    let place = Place::new().project("mode = \"plan\"\n").trusted();
    let file = place.file();
    if is_root() {
        std::os::unix::fs::chown(&file, Some(STRANGER), None).unwrap();
        refused(
            echo(&place, &[]),
            &file,
            &format!("belongs to the user {STRANGER}"),
        );
        std::os::unix::fs::chown(&file, Some(0), Some(STRANGER)).unwrap();
        set(&file, 0o664);
        refused(echo(&place, &[]), &file, "chmod g-w");
        set(&file, 0o644);
        echo(&place, &[]).exits(0);
        return;
    }
    // Only root can change the owner of a file; any user can test with a file that all may write.
    set(&file, 0o646);
    refused(echo(&place, &[]), &file, "chmod o-w");
}

/// Grants the user with number 1 read, write and search rights to `path`, as `setfacl -m u:1:rwx` does.
#[cfg(target_os = "linux")]
fn share(path: &Path) {
    // Version 2, then tag, rights and id of each entry: owner, that user, group, mask, others.
    let mut list = 2_u32.to_le_bytes().to_vec();
    let none = u32::MAX;
    for (tag, rights, id) in [
        (1_u16, 7_u16, none),
        (2, 7, 1),
        (4, 5, none),
        (0x10, 7, none),
        (0x20, 5, none),
    ] {
        list.extend(
            tag.to_le_bytes()
                .into_iter()
                .chain(rights.to_le_bytes())
                .chain(id.to_le_bytes()),
        );
    }
    let set = rustix::fs::setxattr(
        path,
        "system.posix_acl_access",
        &list,
        rustix::fs::XattrFlags::empty(),
    );
    set.unwrap_or_else(|error| {
        panic!("TMPDIR must lie in a file system with access control lists: {error}")
    });
}

#[cfg(target_os = "linux")]
#[test]
fn an_access_list_by_which_another_user_may_write_counts_as_one_who_may() {
    let place = Place::new()
        .user("mode = \"plan\"\n")
        .project("mode = \"plan\"\n")
        .trusted();
    let file = place.file();
    let user = place.home.join("toolcell.toml");
    for listed in [&file, &user, &place.project] {
        echo(&place, &[]).exits(0);
        let mode = listed.metadata().unwrap().mode();
        share(listed);
        refused(echo(&place, &[]), listed, "setfacl -b");
        // The mask limits the rights of named users.
        set(listed, 0o755);
        echo(&place, &[]).exits(0);
        set(listed, mode);
    }
    share(&file);
    refused(
        echo(&place, &["--config=toolcell.toml"]),
        Path::new("toolcell.toml"),
        "setfacl -b",
    );
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}
