//! Attacks on folders and on the disk.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use serde_json::json;

use super::arena::Arena;
use super::canary::CONTENT;

/// Dots, slashes, absolute paths, a NUL, thousands of components, backslashes, a sibling with the same prefix: as
/// reader and as writer, with and without a denial in the folder.
pub(super) async fn path_forms(arena: &Arena) {
    for (number, tool) in [
        "probe#escape",
        "probe#escape_reader",
        "probe#escape",
        "probe#escape_reader",
    ]
    .iter()
    .enumerate()
    {
        let folder = arena.folder(&format!("forms-{number}"));
        let sibling = arena.folder(&format!("forms-{number}-evil"));
        fs::write(sibling.join("canary.txt"), CONTENT).unwrap();
        symlink(arena.canary(), folder.join("link-out")).unwrap();
        escape(arena, tool, &folder, number > 1).await;
        let left: Vec<_> = fs::read_dir(&sibling)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        arena.holds(
            left == ["canary.txt"],
            format!("X: the sibling holds {left:?}"),
        );
    }
}

/// Links that already exist in the operator's folder: to a folder, chains, loops, to the process itself.
pub(super) async fn links(arena: &Arena) {
    let outside = arena.canary().parent().unwrap().to_owned();
    for (number, to) in [
        outside.as_path(),
        Path::new("../canary"),
        Path::new("chain-1"),
        Path::new("/proc/self/root"),
    ]
    .iter()
    .enumerate()
    {
        let folder = arena.folder(&format!("links-{number}"));
        symlink(to, folder.join("link-out")).unwrap();
        symlink("chain-2", folder.join("chain-1")).unwrap();
        symlink("../canary/", folder.join("chain-2")).unwrap();
        symlink("circle-2", folder.join("circle-1")).unwrap();
        symlink("circle-1", folder.join("circle-2")).unwrap();
        symlink("/proc/self/environ", folder.join("environment")).unwrap();
        symlink("/dev/fd/3", folder.join("descriptor")).unwrap();
        escape(arena, "probe#escape", &folder, number % 2 == 1).await;
        for (tool, name) in [
            ("probe#read", "environment"),
            ("probe#read", "descriptor"),
            ("probe#read", "circle-1"),
            ("probe#stat", "link-out/canary.txt"),
            ("probe#list", "link-out/"),
            ("probe#remove", "link-out/canary.txt"),
            ("probe#mkdir", "link-out/made"),
            ("probe#truncate", "link-out/canary.txt"),
        ] {
            let called = arena
                .call(
                    arena.test(tool).write(&folder),
                    json!({ "path": folder.join(name) }),
                )
                .await;
            let told = called.succeeded();
            arena.holds(told["ok"] == false, format!("X: {tool} {name}: {told}"));
        }
        // A link may be moved, its target may not, not even by a path with a trailing slash.
        for (from, to) in [
            ("link-out/", "moved"),
            ("link-out/canary.txt", "moved-file"),
        ] {
            let input = json!({ "from": folder.join(from), "to": folder.join(to) });
            arena
                .call(arena.test("probe#rename").write(&folder), input)
                .await;
        }
    }
}

async fn escape(arena: &Arena, tool: &str, folder: &Path, denying: bool) {
    fs::write(folder.join("inside.txt"), "inside").unwrap();
    let mut test = arena.test(tool).write(folder);
    if denying {
        test = test.grant(|grants| {
            grants
                .deny_read(folder.join("inside.txt").to_str().unwrap())
                .unwrap()
        });
    }
    let called = arena
        .call(test, json!({ "root": folder, "outside": arena.canary() }))
        .await;
    let tried = called.succeeded();
    arena.holds(
        tried["attempts"]
            .as_array()
            .is_some_and(|tried| tried.len() > 50),
        "too little was tried",
    );
    arena.holds(
        tried["succeeded"] == json!([]),
        format!("X: {}", tried["succeeded"]),
    );
}

/// A read-only folder beside a writable one: nothing in the first changes, and no file of it gets a second name in the
/// other.
pub(super) async fn around_read_only(arena: &Arena) {
    let closed = arena.folder("read-only");
    let open = arena.folder("writable");
    fs::write(closed.join("file"), "as it was").unwrap();
    fs::create_dir(closed.join("folder")).unwrap();
    let seen = |path: &Path| {
        let metadata = fs::metadata(path).unwrap();
        (
            metadata.nlink(),
            metadata.mode(),
            metadata.mtime_nsec(),
            metadata.len(),
            metadata.ctime_nsec(),
        )
    };
    let before =
        [closed.clone(), closed.join("file"), closed.join("folder")].map(|path| seen(&path));
    let both = |tool: &str| arena.test(tool).read(&closed).write(&open);
    let file = closed.join("file");
    for test in [
        arena.test("probe#write_readonly").write(&closed),
        arena.test("probe#write_readonly").read(&closed),
    ] {
        let tried = arena.call(test, json!({ "path": file })).await.succeeded();
        arena.holds(
            tried["succeeded"] == json!([]),
            format!("X: {}", tried["succeeded"]),
        );
    }
    for (tool, input) in [
        ("probe#write", json!({ "path": file, "text": "changed" })),
        ("probe#append", json!({ "path": file, "text": "changed" })),
        (
            "probe#append",
            json!({ "path": closed.join("new"), "text": "made" }),
        ),
        ("probe#truncate", json!({ "path": file, "bytes": 0 })),
        ("probe#remove", json!({ "path": file })),
        ("probe#mkdir", json!({ "path": closed.join("made") })),
        (
            "probe#link",
            json!({ "from": file, "to": open.join("linked") }),
        ),
        (
            "probe#rename",
            json!({ "from": file, "to": open.join("moved") }),
        ),
        (
            "probe#rename",
            json!({ "from": closed.join("folder"), "to": open.join("moved-folder") }),
        ),
        (
            "probe#symlink",
            json!({ "from": "file", "to": closed.join("symlink") }),
        ),
    ] {
        let told = arena.call(both(tool), input.clone()).await.succeeded();
        arena.holds(told["ok"] == false, format!("X: {tool} {input}: {told}"));
    }
    // In the other direction: a writable file is moved over a read-only one.
    fs::write(open.join("own"), "own").unwrap();
    for tool in ["probe#rename", "probe#link"] {
        let told = arena
            .call(both(tool), json!({ "from": open.join("own"), "to": file }))
            .await
            .succeeded();
        arena.holds(
            told["ok"] == false,
            format!("X: {tool} over a file that is read-only: {told}"),
        );
    }
    let after =
        [closed.clone(), closed.join("file"), closed.join("folder")].map(|path| seen(&path));
    arena.holds(
        before == after,
        format!("X: the read-only folder was {before:?}, is {after:?}"),
    );
    arena.holds(
        fs::read_to_string(&file).unwrap() == "as it was",
        "X: the read-only file was changed",
    );
}

/// Every way of filling a disk ends at the quota, and the files up to then are within it.
pub(super) async fn disk_fill(arena: &Arena) {
    const BYTES: u64 = 8 << 20;
    const FILES: u64 = 200;
    for denying in [false, true] {
        for how in [
            "blocks",
            "rewrite",
            "append",
            "positions",
            "set_size",
            "hole",
            "files",
            "folders",
            "links",
        ] {
            let folder = arena.folder(&format!("fill-{how}-{denying}"));
            fs::write(folder.join("closed"), "").unwrap();
            let mut test = arena
                .test("hostile#fill_disk")
                .write(&folder)
                .limit(|limits| {
                    limits.disk_bytes = BYTES;
                    limits.files_created = FILES;
                });
            if denying {
                test = test.grant(|grants| {
                    grants
                        .deny_read(folder.join("closed").to_str().unwrap())
                        .unwrap()
                });
            }
            let called = arena
                .call(test, json!({ "path": folder, "how": how }))
                .await;
            let made: Vec<_> = fs::read_dir(&folder)
                .unwrap()
                .map(|entry| entry.unwrap().metadata().unwrap())
                .collect();
            let bytes: u64 = made
                .iter()
                .filter(|metadata| metadata.is_file())
                .map(|it| it.len().max(it.blocks() * 512))
                .sum();
            arena.holds(
                bytes <= BYTES + 4_096,
                format!("Q: {how} left {bytes} bytes"),
            );
            arena.holds(
                made.len() as u64 <= FILES + 1,
                format!("Q: {how} left {} files", made.len()),
            );
            let usage = called.0.result.usage.as_ref().unwrap().files.unwrap();
            let within = usage.disk_bytes.used <= BYTES && usage.files_created.used <= FILES;
            arena.holds(within, format!("Q: {how} used {usage:?}"));
        }
    }
}
