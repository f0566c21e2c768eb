use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use toolcell_spec::{ErrorCode, Refusal};

use super::*;

const SOON: Duration = Duration::from_secs(5);

struct Place {
    root: TempDir,
    workspaces: Workspaces,
}

fn place() -> Place {
    let root = tempfile::tempdir().unwrap();
    let workspaces = Workspaces::new(root.path().join("workspaces"));
    Place { root, workspaces }
}

fn name(text: &str) -> WorkspaceName {
    text.parse().unwrap()
}

impl Place {
    fn made(&self, text: &str) -> Workspace {
        self.with(text, WorkspaceSettings::default())
    }

    fn with(&self, text: &str, settings: WorkspaceSettings) -> Workspace {
        let owner = WorkspaceOwner::user();
        let workspace = self.workspaces.create(&owner, &name(text), &settings);
        workspace.unwrap()
    }

    fn small(&self, bytes: u64, files: u64) -> Workspace {
        let quota = Quota { bytes, files };
        self.with(
            "small",
            WorkspaceSettings {
                quota,
                time_to_live: None,
            },
        )
    }
}

fn writer(workspace: &Workspace) -> Lease {
    workspace.lock(Access::Write, SOON).unwrap()
}

fn put(workspace: &Workspace, path: &str, content: &str) -> Result<FileInfo, Refusal> {
    workspace.put(&writer(workspace), path, &mut content.as_bytes())
}

/// Paths and contents; a link as its target.
fn content(workspace: &Workspace) -> Vec<(String, String)> {
    fn walk(folder: &Path, prefix: &str, found: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                walk(&entry.path(), &format!("{path}/"), found);
            } else if entry.file_type().unwrap().is_symlink() {
                let target = fs::read_link(entry.path()).unwrap();
                found.push((path, format!("-> {}", target.display())));
            } else {
                found.push((path, fs::read_to_string(entry.path()).unwrap()));
            }
        }
    }
    let mut found = Vec::new();
    walk(&workspace.tree(), "", &mut found);
    found.sort();
    found
}

fn pairs(files: &[(&str, &str)]) -> Vec<(String, String)> {
    let files = files.iter();
    files
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
        .collect()
}

fn listed(changes: &ChangeList) -> Vec<(&str, ChangeKind)> {
    let files = changes.files.iter();
    files
        .map(|file| (file.path.as_str(), file.change))
        .collect()
}

fn tar_of(entries: &[(&str, tar::EntryType, &str)]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (path, kind, text) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o777);
        let is_link = kind.is_symlink() || kind.is_hard_link();
        header.set_size(if is_link { 0 } else { text.len() as u64 });
        if is_link {
            header.set_link_name_literal(text).unwrap();
        }
        // As a stranger would write it, without the library's checks.
        let field = &mut header.as_old_mut().name;
        field[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        archive.extend(header.as_bytes());
        if !is_link {
            archive.extend(text.as_bytes());
            archive.resize(archive.len().next_multiple_of(512), 0);
        }
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}

#[test]
fn files_are_put_read_and_removed() {
    let place = place();
    let workspace = place.made("w");
    let info = put(&workspace, "data/a.csv", "a,b\n").unwrap();
    assert_eq!((info.path.as_str(), info.size), ("data/a.csv", 4));
    put(&workspace, "/workspace/data/a.csv", "1,2,3\n").unwrap();
    let lease = workspace.lock(Access::Read, SOON).unwrap();
    let files = workspace.files(&lease).unwrap();
    assert_eq!((files.len(), files[0].size), (1, 6));
    let (mut file, size) = workspace.open_file(&lease, "data/a.csv").unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), size), ("1,2,3\n", 6));
    drop(lease);
    let lease = writer(&workspace);
    workspace.remove_path(&lease, "data").unwrap();
    for path in ["data/a.csv", "data", "none"] {
        let refused = workspace.open_file(&lease, path).unwrap_err();
        assert_eq!(refused.code, ErrorCode::UnknownWorkspaceFile, "{path}");
    }
}

#[test]
fn a_file_arrives_in_parts_in_their_order() {
    let place = place();
    let workspace = place.small(100, 10);
    let lease = writer(&workspace);
    let part = |from, text: &str| workspace.put_part(&lease, ("a", 6), from, text.as_bytes());
    assert_eq!(part(0, "123").unwrap(), UploadProgress::Partial(3));
    for (from, text) in [(4, "5"), (3, "4567"), (u64::MAX, "1")] {
        assert_eq!(
            part(from, text).unwrap_err().code,
            ErrorCode::UploadOutOfOrder
        );
    }
    assert_eq!(
        part(0, "12").unwrap(),
        UploadProgress::Partial(3),
        "sent again"
    );
    assert_eq!(workspace.uploaded(&lease, "a", 6).unwrap(), 3);
    assert!(content(&workspace).is_empty());
    let UploadProgress::Complete(info) = part(3, "456").unwrap() else {
        panic!("it is complete");
    };
    assert_eq!((info.path.as_str(), info.size), ("a", 6));
    assert_eq!(content(&workspace), pairs(&[("a", "123456")]));
    let large = workspace.put_part(&lease, ("b", 101), 0, b"1").unwrap_err();
    assert_eq!(large.code, ErrorCode::WorkspaceFull);
    for n in 0..40 {
        workspace
            .put_part(&lease, (&format!("f{n}"), 2), 0, b"1")
            .unwrap();
    }
    // One that goes on ends none of the others.
    let again = workspace.put_part(&lease, ("f39", 2), 0, b"1").unwrap();
    assert_eq!(again, UploadProgress::Partial(1));
    let begun = fs::read_dir(workspace.folder().join("uploads")).unwrap();
    assert_eq!(begun.count(), 16);
}

#[test]
fn a_link_that_a_guest_made_leads_nowhere_for_the_host() {
    let place = place();
    let workspace = place.made("w");
    let outside = place.root.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "x").unwrap();
    symlink(&outside, workspace.tree().join("out")).unwrap();
    symlink("../../../../outside/secret", workspace.tree().join("file")).unwrap();
    let lease = writer(&workspace);
    for path in ["out/secret", "file"] {
        assert!(workspace.open_file(&lease, path).is_err(), "{path}");
    }
    assert!(
        workspace
            .put(&lease, "out/new", &mut "y".as_bytes())
            .is_err()
    );
    assert!(workspace.remove_path(&lease, "out/secret").is_err());
    // A link itself is a file like any other: it is replaced, kept in snapshots, and removed.
    workspace.put(&lease, "file", &mut "y".as_bytes()).unwrap();
    workspace.snapshot(&lease, None).unwrap();
    workspace.remove_path(&lease, "out").unwrap();
    workspace.restore(&lease, &name("s1")).unwrap();
    let target = format!("-> {}", outside.display());
    assert_eq!(
        content(&workspace),
        pairs(&[("file", "y"), ("out", &target)])
    );
    let entries: Vec<_> = fs::read_dir(&outside).unwrap().collect();
    assert_eq!(entries.len(), 1);
    let mut archive = Vec::new();
    workspace.write_archive(&lease, &mut archive).unwrap();
    let other = place.made("other");
    other
        .put_archive(&writer(&other), &mut archive.as_slice())
        .unwrap();
    assert_eq!(
        content(&other),
        pairs(&[("file", "y")]),
        "links are left out"
    );
}

#[test]
fn a_quota_counts_files_bytes_and_snapshots_and_what_is_there_stays() {
    let place = place();
    let workspace = place.small(10, 3);
    put(&workspace, "a", "12345").unwrap();
    let full = |result: Result<FileInfo, Refusal>| {
        assert_eq!(result.unwrap_err().code, ErrorCode::WorkspaceFull);
    };
    full(put(&workspace, "b", "123456"));
    full(put(&workspace, "x/y/z/b", "1"));
    full(put(&workspace, "a", "12345678901"));
    put(&workspace, "a", "1234").unwrap();
    workspace.snapshot(&writer(&workspace), None).unwrap();
    full(put(&workspace, "b", "123"));
    put(&workspace, "b", "12").unwrap();
    let lease = writer(&workspace);
    let refused = workspace.snapshot(&lease, None).map(|_| ());
    assert!(refused.is_err(), "its new content does not fit");
    workspace.remove_snapshot(&lease, &name("s1")).unwrap();
    assert_eq!(workspace.info(&lease).unwrap().snapshot_bytes, 0);
    workspace.put(&lease, "c", &mut "1234".as_bytes()).unwrap();
    full(workspace.put(&lease, "d", &mut "".as_bytes()));
    assert_eq!(
        content(&workspace),
        pairs(&[("a", "1234"), ("b", "12"), ("c", "1234")])
    );
}

#[test]
fn a_snapshot_is_restored_compared_and_removed() {
    let place = place();
    let workspace = place.made("w");
    put(&workspace, "a", "1").unwrap();
    put(&workspace, "b/c", "2").unwrap();
    let lease = writer(&workspace);
    let first = workspace.snapshot(&lease, None).unwrap();
    assert_eq!((first.id.as_str(), first.usage.files), ("s1", 3));
    workspace.put(&lease, "a", &mut "other".as_bytes()).unwrap();
    workspace.remove_path(&lease, "b").unwrap();
    workspace.put(&lease, "d", &mut "4".as_bytes()).unwrap();
    workspace.snapshot(&lease, Some(name("later"))).unwrap();
    let changes = workspace.diff(&lease, &first.id, None).unwrap();
    use ChangeKind::{Added, Changed, Removed};
    let expected = [("a", Changed), ("b/c", Removed), ("d", Added)];
    assert_eq!(listed(&changes), expected);
    let between = workspace
        .diff(&lease, &first.id, Some(&name("later")))
        .unwrap();
    assert_eq!(between, changes);
    let tree = fs::canonicalize(workspace.tree()).unwrap();
    let restored = workspace.restore(&lease, &first.id).unwrap();
    assert_eq!(
        listed(&restored),
        [("a", Changed), ("b/c", Added), ("d", Removed)]
    );
    assert_eq!(content(&workspace), pairs(&[("a", "1"), ("b/c", "2")]));
    assert_eq!(
        fs::canonicalize(workspace.tree()).unwrap(),
        tree,
        "its path stays"
    );
    workspace.remove_snapshot(&lease, &first.id).unwrap();
    assert_eq!(
        workspace.info(&lease).unwrap().snapshot_bytes,
        6,
        "of the other"
    );
    let refused = workspace.restore(&lease, &first.id).unwrap_err();
    assert_eq!(refused.code, ErrorCode::UnknownSnapshot);
    assert_eq!(workspace.snapshot(&lease, None).unwrap().id.as_str(), "s1");
    let taken = workspace.snapshot(&lease, Some(name("later"))).unwrap_err();
    assert_eq!(taken.code, ErrorCode::WorkspaceExists);
}

#[test]
fn a_damaged_snapshot_is_not_restored() {
    let place = place();
    let workspace = place.made("w");
    put(&workspace, "a", "1").unwrap();
    let lease = writer(&workspace);
    let snapshot = workspace.snapshot(&lease, None).unwrap();
    let objects = workspace.folder().join("objects");
    let object = fs::read_dir(&objects).unwrap().next().unwrap().unwrap();
    fs::write(object.path(), "2").unwrap();
    workspace.put(&lease, "a", &mut "3".as_bytes()).unwrap();
    let refused = workspace.restore(&lease, &snapshot.id).unwrap_err();
    assert_eq!(refused.code, ErrorCode::WorkspaceUnusable);
    assert_eq!(content(&workspace), pairs(&[("a", "3")]));
}

#[test]
fn owners_do_not_see_each_others_and_a_fork_goes_its_own_way() {
    let place = place();
    let workspace = place.made("w");
    put(&workspace, "a", "1").unwrap();
    let other = WorkspaceOwner::principal("other");
    let unknown = |result: Result<(), Refusal>| {
        assert_eq!(result.unwrap_err().code, ErrorCode::UnknownWorkspace);
    };
    unknown(place.workspaces.open(&other, &name("w")).map(|_| ()));
    unknown(place.workspaces.remove(&other, &name("w")));
    unknown(
        place
            .workspaces
            .fork(&other, &name("w"), &name("f"))
            .map(|_| ()),
    );
    let user = WorkspaceOwner::user();
    let fork = place
        .workspaces
        .fork(&user, &name("w"), &name("f"))
        .unwrap();
    put(&fork, "a", "2").unwrap();
    assert_eq!(content(&workspace), pairs(&[("a", "1")]));
    assert_eq!(content(&fork), pairs(&[("a", "2")]));
    let taken = place
        .workspaces
        .fork(&user, &name("w"), &name("f"))
        .unwrap_err();
    assert_eq!(taken.code, ErrorCode::WorkspaceExists);
    place.workspaces.remove(&user, &name("w")).unwrap();
    unknown(place.workspaces.open(&user, &name("w")).map(|_| ()));
    assert_eq!(place.workspaces.list(&user).unwrap().len(), 1);
}

#[test]
fn an_archive_goes_in_and_out() {
    let place = place();
    let workspace = place.made("w");
    put(&workspace, "a", "1").unwrap();
    put(&workspace, &format!("{}/long", "deep/".repeat(60)), "2").unwrap();
    let mut archive = Vec::new();
    workspace
        .write_archive(&writer(&workspace), &mut archive)
        .unwrap();
    let other = place.made("other");
    put(&other, "a", "old").unwrap();
    put(&other, "kept", "3").unwrap();
    let changes = other
        .put_archive(&writer(&other), &mut archive.as_slice())
        .unwrap();
    assert_eq!(changes.files.len(), 2);
    let long = format!("{}/long", "deep/".repeat(60)).replace("//", "/");
    assert_eq!(
        content(&other),
        pairs(&[("a", "1"), (&long, "2"), ("kept", "3")])
    );
    // Extended names, as other programs write them.
    let text = "30 path=b/name/that/is/longer\n";
    let pax = tar_of(&[
        ("x", tar::EntryType::XHeader, text),
        ("short", tar::EntryType::Regular, "4"),
    ]);
    other
        .put_archive(&writer(&other), &mut pax.as_slice())
        .unwrap();
    let named = ("b/name/that/is/longer".to_owned(), "4".to_owned());
    assert!(content(&other).contains(&named));
}

#[test]
fn an_archive_that_would_lead_elsewhere_leaves_everything_as_it_was() {
    use tar::EntryType as T;
    let place = place();
    let workspace = place.small(2_000, 20);
    put(&workspace, "a", "1").unwrap();
    put(&workspace, "folder/b", "2").unwrap();
    let before = content(&workspace);
    let large = "x".repeat(3_000);
    let many: Vec<_> = (0..40).map(|n| format!("f{n}")).collect();
    let many: Vec<_> = many
        .iter()
        .map(|path| (path.as_str(), T::Regular, ""))
        .collect();
    let good = ("good", T::Regular, "good");
    let hostile: [(&str, Vec<_>); 12] = [
        (
            "an absolute path",
            vec![good, ("/etc/passwd", T::Regular, "x")],
        ),
        (
            "a path that leads out",
            vec![good, ("b/../../x", T::Regular, "x")],
        ),
        ("a link", vec![good, ("link", T::Symlink, "/etc")]),
        ("a hard link", vec![good, ("link", T::Link, "a")]),
        ("a device", vec![good, ("device", T::Char, "")]),
        ("a pipe", vec![good, ("pipe", T::Fifo, "")]),
        ("too many bytes", vec![good, ("large", T::Regular, &large)]),
        ("too many files", many),
        (
            "a file for a folder",
            vec![good, ("folder", T::Regular, "x")],
        ),
        ("a folder for a file", vec![good, ("a/x", T::Regular, "x")]),
        (
            "an odd header",
            vec![good, ("x", T::XHeader, "9999 path=x")],
        ),
        ("a sparse file", vec![good, ("sparse", T::GNUSparse, "x")]),
    ];
    for (what, entries) in hostile {
        let archive = tar_of(&entries);
        let refused = workspace.put_archive(&writer(&workspace), &mut archive.as_slice());
        let code = refused.map(|_| ()).unwrap_err().code;
        let expected = if what.starts_with("too many") {
            ErrorCode::WorkspaceFull
        } else {
            ErrorCode::ArchiveRefused
        };
        assert_eq!(code, expected, "{what}");
        assert_eq!(content(&workspace), before, "{what}");
    }
    let cut = tar_of(&[good, ("more", T::Regular, "1234")]);
    for broken in [
        &cut[..1_100],
        b"no archive at all, however long".repeat(40).as_slice(),
    ] {
        let refused = workspace.put_archive(&writer(&workspace), &mut &*broken);
        assert_eq!(refused.unwrap_err().code, ErrorCode::ArchiveRefused);
        assert_eq!(content(&workspace), before);
    }
    // A name of many gigabytes is not read.
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(T::GNULongName);
    header.set_size(8 << 30);
    header.set_cksum();
    let mut endless = header.as_bytes().chain(std::io::repeat(b'a'));
    let refused = workspace.put_archive(&writer(&workspace), &mut endless);
    assert_eq!(refused.unwrap_err().code, ErrorCode::ArchiveRefused);
}

#[test]
fn a_call_tells_what_it_changed_and_can_be_rolled_back() {
    let place = place();
    let workspace = Arc::new(place.made("w"));
    put(&workspace, "same", "1").unwrap();
    put(&workspace, "changed", "1").unwrap();
    put(&workspace, "removed", "1").unwrap();
    let before = content(&workspace);
    let run = |on_failure, succeeded| {
        let lease = writer(&workspace);
        let run = WorkspaceRun::begin(workspace.clone(), lease, on_failure).unwrap();
        let tree = workspace.tree();
        // The same size, at once: only the content tells.
        fs::write(tree.join("changed"), "2").unwrap();
        fs::write(tree.join("same"), "1").unwrap();
        fs::remove_file(tree.join("removed")).unwrap();
        fs::create_dir(tree.join("folder")).unwrap();
        fs::write(tree.join("folder/added"), "3").unwrap();
        run.end(succeeded).unwrap()
    };
    assert!(run(OnFailure::RollBack, false).is_empty());
    assert_eq!(content(&workspace), before);
    let changes = run(OnFailure::RollBack, true);
    use ChangeKind::{Added, Changed, Removed};
    let expected = [
        ("changed", Changed),
        ("folder/added", Added),
        ("removed", Removed),
    ];
    assert_eq!(listed(&changes), expected);
    assert_eq!(changes.files[1].size, Some(1));
    let digest = changes.files[1].digest.as_deref().unwrap();
    assert_eq!(digest.len(), "sha256:".len() + 64);
}

#[test]
fn what_a_killed_process_left_is_put_in_order_by_the_next_user() {
    let place = place();
    let workspace = Arc::new(place.made("w"));
    put(&workspace, "a", "1").unwrap();
    let run = WorkspaceRun::begin(workspace.clone(), writer(&workspace), OnFailure::RollBack);
    fs::write(workspace.tree().join("a"), "2").unwrap();
    fs::write(workspace.folder().join("work/draft"), "x").unwrap();
    // The kernel releases the lock of a killed process.
    drop(run.unwrap());
    for access in [Access::Read, Access::Write] {
        let lease = workspace.lock(access, SOON).unwrap();
        drop(lease);
        assert_eq!(content(&workspace), pairs(&[("a", "1")]));
        assert!(!workspace.folder().join("work/draft").exists());
    }
    // Between two renames, on a file system that cannot exchange.
    fs::rename(workspace.tree(), workspace.folder().join("old")).unwrap();
    workspace.lock(Access::Read, SOON).unwrap();
    assert_eq!(content(&workspace), pairs(&[("a", "1")]));
}

#[test]
fn readers_share_a_workspace_and_a_writer_has_it_alone() {
    let place = place();
    let workspace = place.made("w");
    let is_free = |access| workspace.try_lock(access).unwrap().is_some();
    let reader = workspace.try_lock(Access::Read).unwrap().unwrap();
    assert!(is_free(Access::Read) && !is_free(Access::Write));
    drop(reader);
    let writing = writer(&workspace);
    assert!(!is_free(Access::Read) && !is_free(Access::Write));
    let waited = workspace
        .lock(Access::Read, Duration::from_millis(30))
        .unwrap_err();
    assert_eq!(waited.code, ErrorCode::WorkspaceBusy);
    drop(writing);
    place
        .workspaces
        .remove(&WorkspaceOwner::user(), &name("w"))
        .unwrap();
    let gone = workspace.try_lock(Access::Read).map(|_| ()).unwrap_err();
    assert_eq!(gone.code, ErrorCode::UnknownWorkspace);
    assert!(!workspace.folder().exists(), "a lock brings nothing back");
}

#[test]
fn a_workspace_ends_with_its_time_unless_it_is_used() {
    let place = place();
    let settings = WorkspaceSettings {
        time_to_live: Some(Duration::from_secs(60)),
        ..WorkspaceSettings::default()
    };
    let workspace = place.with("w", settings);
    let age = |seconds| {
        let lock = fs::File::options()
            .write(true)
            .open(workspace.folder().join("lock"));
        let then = SystemTime::now() - Duration::from_secs(seconds);
        lock.unwrap().set_modified(then).unwrap();
    };
    let owner = WorkspaceOwner::user();
    let is_there = || place.workspaces.open(&owner, &name("w")).is_ok();
    age(50);
    assert!(is_there());
    drop(workspace.lock(Access::Read, SOON).unwrap());
    age(70);
    drop(workspace.lock(Access::Read, SOON).unwrap());
    assert!(is_there(), "it was used");
    let lease = workspace.lock(Access::Read, SOON).unwrap();
    age(70);
    assert!(is_there(), "it is in use");
    drop(lease);
    assert!(is_there(), "it was in use until now");
    age(70);
    assert!(!is_there());
    assert!(place.workspaces.list(&owner).unwrap().is_empty());
    assert!(!workspace.folder().exists());
}

#[test]
fn what_cannot_be_kept_is_named_and_stops_writers() {
    let place = place();
    let workspace = Arc::new(place.made("w"));
    let mut folder = workspace.tree();
    for _ in 0..20 {
        folder.push("d".repeat(190));
        fs::create_dir(&folder).unwrap();
    }
    let dir = cap_std::fs::Dir::open_ambient_dir(&folder, cap_std::ambient_authority()).unwrap();
    dir.create_dir("e".repeat(255)).unwrap();
    let deeper = dir.open_dir("e".repeat(255)).unwrap();
    deeper.write("file", "x").unwrap();
    let lease = workspace.lock(Access::Read, SOON).unwrap();
    workspace.files(&lease).unwrap();
    drop(lease);
    let refused = WorkspaceRun::begin(workspace.clone(), writer(&workspace), OnFailure::Keep);
    assert_eq!(refused.unwrap_err().code, ErrorCode::WorkspaceUnusable);
    workspace
        .remove_path(&writer(&workspace), &"d".repeat(190))
        .unwrap();
    WorkspaceRun::begin(workspace.clone(), writer(&workspace), OnFailure::Keep).unwrap();
}

#[test]
fn all_who_make_a_workspace_at_once_get_it() {
    let place = place();
    let owner = WorkspaceOwner::user();
    let barrier = Barrier::new(16);
    for round in 0..40 {
        let name = name(&format!("w{round}"));
        let make = || {
            barrier.wait();
            let settings = WorkspaceSettings::default();
            let made = (place.workspaces).open_or_create(&owner, &name, &settings);
            made.map(drop)
        };
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..16).map(|_| scope.spawn(make)).collect();
            for made in all {
                made.join().unwrap().unwrap();
            }
        });
    }
}

#[test]
fn a_draft_is_removed_once_nobody_makes_it() {
    let place = place();
    let first = place.made("first");
    let parent = first.folder().parent().unwrap();
    let draft = |name: &str| {
        let folder = parent.join(format!(".draft-{name}"));
        fs::create_dir(&folder).unwrap();
        folder
    };
    let (new, old) = (draft("new"), draft("old"));
    let hour = SystemTime::now() - Duration::from_secs(3_600);
    fs::File::open(&old).unwrap().set_modified(hour).unwrap();
    let (locked, left) = (draft("locked"), draft("left"));
    let lock = fs::File::create(locked.join("draft")).unwrap();
    lock.lock().unwrap();
    fs::write(left.join("draft"), "").unwrap();
    place.made("second");
    assert!(new.exists() && locked.exists());
    assert!(!old.exists() && !left.exists());
}
