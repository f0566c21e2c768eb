use std::collections::BTreeMap;
use toolcell_spec::ErrorCode;

use super::*;
use crate::lock::tests::entry;

struct Test {
    root: tempfile::TempDir,
    place: LockLocation,
}

impl Test {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("project")).unwrap();
        let place = LockLocation::beside(
            &root.path().join("project/toolcell.toml"),
            &root.path().join("home"),
        );
        Self { root, place }
    }

    fn put(&self, entry: &LockEntry, before: Option<&LockEntry>) -> Result<(), Refusal> {
        self.place
            .change(|installed| installed.put(entry.clone(), before))
    }
}

#[test]
fn what_was_installed_counts_and_what_the_lock_says_besides_does_not() {
    let test = Test::new();
    let a = entry("a");
    test.put(&a, None).unwrap();
    assert_eq!(test.place.read().unwrap().get("a").unwrap().unwrap(), &a);
    assert_eq!(used(&test.root.path().join("home")).unwrap(), [a.component]);
    let mut forged = ToolLock(
        [(
            "a".to_owned(),
            LockEntry {
                component: Digest::of(b"evil"),
                ..a.clone()
            },
        )]
        .into(),
    );
    forged.0.insert("b".to_owned(), entry("b"));
    std::fs::write(test.place.file(), forged.to_text().unwrap()).unwrap();
    let installed = test.place.read().unwrap();
    for (name, words) in [
        ("a", "was changed since you installed it"),
        ("b", "you have not installed"),
    ] {
        let refusal = installed.get(name).unwrap().unwrap_err();
        assert_eq!(refusal.code, ErrorCode::LockNotConfirmed);
        assert!(refusal.message.contains(words), "{refusal}");
    }
    assert_eq!(
        (installed.entries().count(), installed.last("a")),
        (0, Some(&a))
    );
    // Another user of the same project has confirmed nothing.
    let other = LockLocation::beside(
        &test.root.path().join("project/toolcell.toml"),
        &test.root.path().join("other"),
    );
    assert_eq!(other.read().unwrap().entries().count(), 0);
}

#[test]
fn a_name_that_changed_while_the_user_was_asked_is_not_overwritten() {
    let test = Test::new();
    let (a, other) = (
        entry("a"),
        LockEntry {
            size: 8,
            ..entry("a")
        },
    );
    test.put(&a, None).unwrap();
    assert_eq!(
        test.put(&other, None).unwrap_err().code,
        ErrorCode::LockChangedMeanwhile
    );
    test.put(&other, Some(&a)).unwrap();
    let remove = |installed: &mut InstalledTools| {
        installed.remove("a");
        Ok(())
    };
    test.place.change(remove).unwrap();
    assert!(test.place.read().unwrap().get("a").is_none());
    let left: Vec<_> = std::fs::read_dir(test.place.folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, [lock::FILE_NAME]);
}

#[test]
fn a_kill_between_two_steps_leaves_a_lock_that_counts() {
    let test = Test::new();
    let old = entry("a");
    let new = LockEntry {
        size: 8,
        ..entry("a")
    };
    test.put(&old, None).unwrap();
    // As killed after the first step: both are confirmed, and the lock is the old one; then the new one.
    test.place.confirm(vec![old.clone(), new.clone()]).unwrap();
    assert_eq!(test.place.read().unwrap().get("a").unwrap().unwrap(), &old);
    std::fs::write(
        test.place.file(),
        ToolLock([("a".to_owned(), new.clone())].into())
            .to_text()
            .unwrap(),
    )
    .unwrap();
    assert_eq!(test.place.read().unwrap().get("a").unwrap().unwrap(), &new);
}

#[test]
fn many_changes_at_once_are_all_kept() {
    let test = Test::new();
    std::thread::scope(|scope| {
        for at in 0..8 {
            let test = &test;
            scope.spawn(move || test.put(&entry(&format!("t{at}")), None).unwrap());
        }
    });
    assert_eq!(test.place.read().unwrap().entries().count(), 8);
}

#[test]
fn a_lock_that_is_a_link_is_not_followed() {
    let test = Test::new();
    let target = test.root.path().join("target");
    std::fs::write(&target, ToolLock::default().to_text().unwrap()).unwrap();
    std::os::unix::fs::symlink(&target, test.place.file()).unwrap();
    assert_eq!(
        test.place.read().unwrap_err().code,
        ErrorCode::LockUnreadable
    );
    std::fs::remove_file(test.place.file()).unwrap();
    let before = std::fs::read(&target).unwrap();
    let draft = test.place.folder().join(DRAFT);
    std::os::unix::fs::symlink(&target, &draft).unwrap();
    test.put(&entry("a"), None).unwrap();
    assert_eq!(std::fs::read(&target).unwrap(), before);
    assert!(!test.place.file().is_symlink() && draft.symlink_metadata().is_err());
    std::os::unix::fs::symlink(&target, test.place.folder().join(TURN)).unwrap();
    assert_eq!(
        test.put(&entry("b"), None).unwrap_err().code,
        ErrorCode::LockUnwritable
    );
}

#[test]
fn drafts_of_killed_processes_go_and_a_folder_of_that_name_harms_nothing() {
    let test = Test::new();
    let folder = test.place.folder();
    std::fs::create_dir(folder.join(DRAFT)).unwrap();
    let left = folder.join(format!("{DRAFT}x1Y2z3"));
    std::fs::write(&left, "half").unwrap();
    test.put(&entry("a"), None).unwrap();
    assert!(folder.join(DRAFT).is_dir() && !left.exists());
    assert_eq!(test.place.read().unwrap().entries().count(), 1);
}

#[test]
fn a_folder_that_another_program_locks_is_not_waited_for() {
    let test = Test::new();
    let folder = File::open(test.place.folder()).unwrap();
    folder.lock().unwrap();
    test.put(&entry("a"), None).unwrap();
}

#[test]
fn the_draft_is_there_before_the_effects_of_a_change() {
    let test = Test::new();
    let looked = |_: &mut InstalledTools| {
        let names = std::fs::read_dir(test.place.folder()).unwrap();
        let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert!(names.any(|name| name.starts_with(DRAFT)));
        Ok(())
    };
    test.place.change(looked).unwrap();
}

#[test]
fn a_refused_change_leaves_no_draft() {
    let test = Test::new();
    let refused = |_: &mut InstalledTools| Err(unconfirmed("a", false));
    assert_eq!(
        test.place.change(refused).unwrap_err().code,
        ErrorCode::LockNotConfirmed
    );
    assert_eq!(std::fs::read_dir(test.place.folder()).unwrap().count(), 0);
}

#[test]
fn a_lock_that_another_keeps_is_not_waited_for_without_end() {
    let test = Test::new();
    let kept = test.place.turn(PATIENCE).unwrap();
    let place = test.place.clone();
    let (sender, answer) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let refused = place
            .turn(Duration::from_millis(50))
            .map(drop)
            .map_err(|error| error.kind());
        let _ = sender.send(refused);
    });
    assert_eq!(
        answer.recv_timeout(Duration::from_secs(20)),
        Ok(Err(io::ErrorKind::TimedOut))
    );
    drop(kept);
    test.put(&entry("a"), None).unwrap();
}

#[test]
fn a_name_that_was_taken_out_of_the_lock_by_other_means_can_be_removed() {
    let test = Test::new();
    let a = entry("a");
    test.put(&a, None).unwrap();
    std::fs::remove_file(test.place.file()).unwrap();
    let mut installed = test.place.read().unwrap();
    assert!(installed.has("a") && !installed.has("b"));
    assert_eq!(
        (installed.remove("a"), installed.remove("b")),
        (Some(a), None)
    );
    assert!(!installed.has("a") && installed.confirmed().is_empty());
}

#[test]
fn a_name_stays_with_its_bytes_when_a_lock_changes_that_has_lost_it() {
    let test = Test::new();
    let a = entry("a");
    let b = entry("b");
    test.put(&a, None).unwrap();
    std::fs::remove_file(test.place.file()).unwrap();
    test.put(&b, None).unwrap();
    let installed = test.place.read().unwrap();
    assert_eq!(
        (installed.confirmed().len(), installed.last("a")),
        (2, Some(&a))
    );
    assert_eq!(
        (
            installed.orphans().collect::<Vec<_>>(),
            installed.entries().collect::<Vec<_>>()
        ),
        (vec![&a], vec![&b])
    );
    let remove = |installed: &mut InstalledTools| {
        installed.remove("a");
        Ok(())
    };
    test.place.change(remove).unwrap();
    assert_eq!(test.place.read().unwrap().confirmed(), [b]);
}

#[test]
fn what_could_not_be_read_again_is_not_confirmed() {
    let test = Test::new();
    let large = |name: &str| LockEntry {
        version: Some("v".repeat(3 << 20)),
        ..entry(name)
    };
    for name in ["a", "b"] {
        test.put(&large(name), None).unwrap();
        std::fs::remove_file(test.place.file()).unwrap();
    }
    let refusal = test.put(&large("c"), None).unwrap_err();
    assert!(
        refusal.code == ErrorCode::LockUnwritable && refusal.message.contains("remove tools first"),
        "{refusal}"
    );
    let installed = test.place.read().unwrap();
    assert_eq!(
        (installed.orphans().count(), installed.lock.0.len()),
        (2, 0)
    );
}

#[test]
fn a_lock_that_could_not_be_read_again_is_not_written() {
    let test = Test::new();
    let a = entry("a");
    test.put(&a, None).unwrap();
    let large = LockEntry {
        tools: vec!["t".repeat(usize::try_from(BYTES_MAX).unwrap())],
        ..entry("b")
    };
    let refusal = test.put(&large, None).unwrap_err();
    assert!(
        refusal.code == ErrorCode::LockUnwritable && refusal.message.contains("remove tools"),
        "{refusal}"
    );
    let many: BTreeMap<String, LockEntry> = (0..=4_096)
        .map(|at| (format!("t{at}"), entry("t")))
        .collect();
    assert!(lock::fits(&ToolLock(many), "").is_err());
    assert_eq!(test.place.read().unwrap().get("a").unwrap().unwrap(), &a);
    // Between two steps both versions of every tool are confirmed.
    let both = [
        a.clone(),
        LockEntry {
            version: Some("v".repeat(3 << 20)),
            ..a.clone()
        },
    ];
    let other = LockEntry {
        version: Some("w".repeat(3 << 20)),
        ..a
    };
    test.place
        .confirm(both.into_iter().chain([other]).collect())
        .unwrap();
    test.place.read().unwrap();
}
