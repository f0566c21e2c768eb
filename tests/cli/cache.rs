//! A component is compiled once.
//!
//! Promise: No foreign native code.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::approvals::waiting;
use super::echo_in;
use crate::support::{Client, Toolcell, fixture, kept, scratch, wat};

/// The compiled components of `home` with their modification times.
fn compiled(home: &Path) -> Vec<(String, SystemTime)> {
    let entries = std::fs::read_dir(home.join("cache/components"))
        .unwrap()
        .map(Result::unwrap);
    entries
        .map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                entry.metadata().unwrap().modified().unwrap(),
            )
        })
        .collect()
}

#[test]
fn a_second_run_compiles_nothing() {
    let (_guard, folder) = scratch();
    let home = folder.join("home");
    let tool = echo_in(&folder);
    for command in [["call", &tool], ["describe", &tool], ["call", &tool]] {
        let before = compiled_if_any(&home);
        Toolcell::at(&home, command).run().exits(0);
        let after = compiled(&home);
        assert_eq!(after.len(), 1);
        assert!(before.is_empty() || before == after, "{before:?} {after:?}");
    }
    // The same bytes at another path are the same component.
    let copy = folder.join("copy.wasm");
    std::fs::copy(&tool, &copy).unwrap();
    let before = compiled(&home);
    Toolcell::at(&home, ["call", copy.to_str().unwrap()])
        .run()
        .exits(0);
    assert_eq!(compiled(&home), before);
}

fn compiled_if_any(home: &Path) -> Vec<(String, SystemTime)> {
    if home.join("cache/components").is_dir() {
        compiled(home)
    } else {
        Vec::new()
    }
}

#[test]
fn a_compiled_component_that_was_tampered_with_is_not_run() {
    let (_guard, folder) = scratch();
    let home = folder.join("home");
    let tool = echo_in(&folder);
    Toolcell::at(&home, ["call", &tool]).run().exits(0);
    let file = home.join("cache/components").join(&compiled(&home)[0].0);
    let good = std::fs::read(&file).unwrap();
    let mut bad = good.clone();
    let middle = bad.len() / 2;
    bad[middle] ^= 1;
    std::fs::write(&file, &bad).unwrap();
    Toolcell::at(&home, ["call", &tool]).run().exits(0);
    assert_eq!(std::fs::read(&file).unwrap(), good, "it was compiled anew");
}

/// A folder on the file system of the build folder, because no notes are written for files on a tmpfs.
pub(super) fn on_disk() -> (tempfile::TempDir, PathBuf) {
    let guard = tempfile::tempdir_in(kept("").canonicalize().unwrap()).unwrap();
    let path = guard.path().to_owned();
    (guard, path)
}

/// Calls `tool` until toolcell has noted that its files are unchanged. Returns the file of notes.
fn call_until_noted(home: &Path, tool: &str) -> PathBuf {
    let notes = home.join("cache/components.notes");
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        Toolcell::at(home, ["call", tool]).run().exits(0);
        if let Some(note) = std::fs::read_dir(&notes)
            .ok()
            .and_then(|mut notes| notes.next())
        {
            return note.unwrap().path();
        }
    }
    panic!("no note was kept");
}

/// Changes bytes of a file, but keeps its size and restores its times.
fn change_unseen(file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let modified = std::fs::metadata(file).unwrap().modified().unwrap();
    let mut bytes = std::fs::read(file).unwrap();
    change(&mut bytes);
    std::fs::write(file, bytes).unwrap();
    std::fs::File::options()
        .write(true)
        .open(file)
        .unwrap()
        .set_modified(modified)
        .unwrap();
}

#[test]
fn a_file_that_changed_under_the_same_size_and_times_is_read_again() {
    let (_guard, folder) = on_disk();
    let home = folder.join("home");
    let tool = echo_in(&folder);
    call_until_noted(&home, &tool);
    // The compiled code: authentication fails, and it is compiled again.
    let entry = home.join("cache/components").join(&compiled(&home)[0].0);
    let good = std::fs::read(&entry).unwrap();
    change_unseen(&entry, |bytes| bytes[good.len() / 2] ^= 1);
    Toolcell::at(&home, ["call", &tool]).run().exits(0);
    assert_eq!(std::fs::read(&entry).unwrap(), good, "it was compiled anew");
    // The component: its changed bytes are not a component any more.
    call_until_noted(&home, &tool);
    change_unseen(Path::new(&tool), |bytes| bytes[0] ^= 1);
    Toolcell::at(&home, ["call", &tool]).run().exits(2);
}

#[test]
fn a_note_that_toolcell_did_not_write_counts_for_nothing() {
    let (_guard, folder) = on_disk();
    let home = folder.join("home");
    let tool = echo_in(&folder);
    let note = call_until_noted(&home, &tool);
    let entry = home.join("cache/components").join(&compiled(&home)[0].0);
    let good = std::fs::read(&entry).unwrap();
    // A note that is changed, truncated or unchanged does not vouch for code that was tampered with.
    let noted = std::fs::read(&note).unwrap();
    let flipped = |at: usize| {
        let mut bytes = noted.clone();
        bytes[at] ^= 1;
        bytes
    };
    for forged in [
        flipped(0),
        flipped(40),
        noted[..63].to_vec(),
        Vec::new(),
        noted.clone(),
    ] {
        change_unseen(&entry, |bytes| bytes[good.len() / 2] ^= 1);
        std::fs::write(&note, forged).unwrap();
        Toolcell::at(&home, ["call", &tool]).run().exits(0);
        assert_eq!(std::fs::read(&entry).unwrap(), good, "it was compiled anew");
    }
}

#[test]
fn what_toolcell_keeps_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let (_guard, folder) = on_disk();
    let home = folder.join("home");
    call_until_noted(&home, &echo_in(&folder));
    for path in [
        "cache/components",
        "cache/components.notes",
        "keys",
        "keys/components",
    ] {
        let mode = std::fs::metadata(home.join(path))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o077, 0, "{path} has mode {mode:o}");
    }
}

/// The component `echo.wat` with a custom section: the same tool in other bytes.
fn variant(folder: &Path, name: u8) -> String {
    let file = folder.join(format!("{}.wasm", char::from(name)));
    std::fs::write(&file, [wat("echo"), vec![0, 3, 1, b'n', name]].concat()).unwrap();
    file.display().to_string()
}

/// Sets back the times of every entry, so that it looks unused for `hours` more.
fn age(home: &Path, hours: u64) {
    for (entry, _) in compiled(home) {
        let file = std::fs::File::open(home.join("cache/components").join(entry)).unwrap();
        let used =
            file.metadata().unwrap().accessed().unwrap() - Duration::from_secs(hours * 3_600);
        file.set_times(
            std::fs::FileTimes::new()
                .set_accessed(used)
                .set_modified(used),
        )
        .unwrap();
    }
}

#[test]
fn compiled_code_stays_within_what_the_user_allows_and_the_longest_unused_goes_first() {
    let (_guard, folder) = scratch();
    let home = folder.join("home");
    let tools = [b'a', b'b', b'c'].map(|name| variant(&folder, name));
    let call = |tool: &str| Toolcell::at(&home, ["call", tool]).run().exits(0);
    let names = || {
        compiled(&home)
            .into_iter()
            .map(|(name, _)| name)
            .collect::<Vec<_>>()
    };
    call(&tools[0]);
    let first = names().remove(0);
    let size = std::fs::metadata(home.join("cache/components").join(&first))
        .unwrap()
        .len();
    std::fs::write(
        home.join("toolcell.toml"),
        format!("[cache]\nmax = \"{}\"\n", size * 5 / 2),
    )
    .unwrap();
    age(&home, 3);
    call(&tools[1]);
    let second = names().into_iter().find(|name| *name != first).unwrap();
    age(&home, 2);
    // The first one is used again, so that the second one is the least recently used.
    call(&tools[0]);
    call(&tools[2]);
    let left = names();
    assert!(
        left.len() == 2 && left.contains(&first) && !left.contains(&second),
        "{left:?}"
    );
    // An evicted component is compiled again, and one larger than the cache is not kept.
    call(&tools[1]);
    assert_eq!(names().len(), 2);
    std::fs::write(home.join("toolcell.toml"), "[cache]\nmax = \"1KiB\"\n").unwrap();
    call(&variant(&folder, b'd'));
    assert_eq!(names().len(), 2);
    let doctor = Toolcell::at(&home, ["doctor"]).dir(&folder).run();
    assert!(
        doctor
            .stdout
            .contains("cache: 1 MiB of at most 1 MiB of compiled code and unpacked files in "),
        "{}",
        doctor.stdout
    );
    // Only the user's own file can set the limit, because all projects share the cache.
    let project = folder.join("named.toml");
    std::fs::write(&project, "[cache]\nmax = \"1KiB\"\n").unwrap();
    let refused = Toolcell::at(
        &home,
        ["call", &tools[0], "--config", project.to_str().unwrap()],
    )
    .run()
    .exits(3);
    assert!(
        refused.stderr.contains("your own toolcell.toml"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_server_keeps_what_another_process_removes_from_the_cache() {
    let (_guard, folder) = scratch();
    let home = folder.join("home");
    let [served, other] = [b'a', b'b'].map(|name| variant(&folder, name));
    Toolcell::at(&home, ["call", &served]).run().exits(0);
    let mut client = Client::run(Toolcell::at(&home, ["mcp", &served]));
    client.initialize("2025-11-25");
    let before = compiled(&home);
    let size = std::fs::metadata(home.join("cache/components").join(&before[0].0))
        .unwrap()
        .len();
    std::fs::write(
        home.join("toolcell.toml"),
        format!("[cache]\nmax = \"{}\"\n", size * 3 / 2),
    )
    .unwrap();
    Toolcell::at(&home, ["call", &other]).run().exits(0);
    let after = compiled(&home);
    assert!(
        after.len() == 1 && after[0].0 != before[0].0,
        "{before:?} {after:?}"
    );
    let answer = client.call("echo", serde_json::json!({ "n": 1 }));
    assert_eq!(answer["isError"], serde_json::json!(false), "{answer:#}");
}

/// A file that is mapped for writing, as linkers map their output.
struct Mapped(*mut u8, usize);

#[allow(
    unsafe_code,
    reason = "only a mapping changes a file without a system call"
)]
impl Mapped {
    fn of(file: &Path) -> Self {
        use std::os::fd::AsRawFd;
        let open = std::fs::File::options()
            .read(true)
            .write(true)
            .open(file)
            .unwrap();
        let length = usize::try_from(open.metadata().unwrap().len()).unwrap();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, of a file that only this test uses.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED,
                open.as_raw_fd(),
                0,
            )
        };
        assert_ne!(at, libc::MAP_FAILED);
        Self(at.cast(), length)
    }

    /// Writes to the first byte.
    fn change(&self, change: impl FnOnce(u8) -> u8) {
        // SAFETY: the mapping lives as long as `self`, and has at least one byte.
        unsafe { self.0.write_volatile(change(self.0.read_volatile())) }
    }
}

#[allow(unsafe_code, reason = "as above")]
impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping has this length, and no reference to it is left.
        unsafe { libc::munmap(self.0.cast(), self.1) };
    }
}

#[test]
fn a_component_that_changes_through_a_mapping_loses_its_old_code() {
    let (_guard, folder) = on_disk();
    let home = folder.join("home");
    let tool = echo_in(&folder);
    let mapped = Mapped::of(Path::new(&tool));
    // From here on the page is writable, and the file keeps the time of this write.
    mapped.change(|byte| byte);
    call_until_noted(&home, &tool);
    mapped.change(|byte| byte ^ 1);
    Toolcell::at(&home, ["call", &tool]).run().exits(2);
    // On a file system that does not report such writes, nothing is noted.
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else {
        return;
    };
    let tool = echo_in(memory.path());
    let mapped = Mapped::of(Path::new(&tool));
    mapped.change(|byte| byte);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(2) {
        Toolcell::at(&home, ["call", &tool]).run().exits(0);
    }
    mapped.change(|byte| byte ^ 1);
    Toolcell::at(&home, ["call", &tool]).run().exits(2);
}

#[test]
fn a_tool_that_crashes_while_it_describes_itself_says_why_and_is_compiled_once() {
    let (_guard, folder) = scratch();
    let home = folder.join("home");
    let tool = fixture("crasher").display().to_string();
    let mut kept = Vec::new();
    for command in [
        &["describe", &tool][..],
        &["describe", &tool, "--json"],
        &["call", &tool],
        &["mcp", &tool],
    ] {
        let ran = Toolcell::at(&home, command).run();
        assert_eq!(ran.code, Some(1), "{command:?}: {ran:?}");
        assert!(
            ran.stderr.contains("detail| ") && ran.stderr.contains("no schema for `when`"),
            "{command:?}: {ran:?}"
        );
        assert!(
            !ran.stdout.contains("no schema"),
            "the words of a tool that is not known are for the operator"
        );
        if !kept.is_empty() {
            assert_eq!(compiled(&home), kept, "{command:?} compiled it again");
        }
        kept = compiled(&home);
        assert_eq!(kept.len(), 1);
    }
}

#[test]
fn checking_the_edit_of_an_approver_keeps_no_more_than_the_user_allows() {
    let (_guard, folder) = scratch();
    let home = folder.join("home");
    let tool = echo_in(&folder);
    std::fs::create_dir(&home).unwrap();
    let asks = "[cache]\nmax = \"1KiB\"\n[[rule]]\nbehavior = \"ask\"\ntool = \"*\"\n";
    std::fs::write(home.join("toolcell.toml"), asks).unwrap();
    let run = |arguments: &[&str]| {
        Toolcell::at(&home, arguments)
            .dir(&folder)
            .env("TOOLCELL_SESSION", "")
            .env("TOOLCELL_ACTOR", "")
    };
    let (call, id) = waiting(run(&["call", &tool]));
    assert!(compiled_if_any(&home).is_empty());
    run(&["approvals", "approve", &id, "--edit", "{\"n\": 1}"])
        .run()
        .exits(0);
    assert!(call.wait_with_output().unwrap().status.success());
    assert!(
        compiled_if_any(&home).is_empty(),
        "what would never fit was kept"
    );
}
