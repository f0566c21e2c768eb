use std::{
    env, fs,
    io::{Read, Write},
    path::PathBuf,
    process,
    sync::atomic::{AtomicU32, Ordering},
};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use tar::{EntryType, Header};
use toolcell_guest::{
    Outcome, ToolError,
    cancellation::AbortReason,
    serde_json::{Value, json},
    testing,
};

use crate::Toolkit;

/// A temporary folder for one test, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder =
            Self(env::temp_dir().join(format!("toolcell-archive-{}-{number}", process::id())));
        fs::create_dir_all(&folder.0).unwrap();
        for (path, text) in files {
            fs::create_dir_all(folder.0.join(path).parent().unwrap()).unwrap();
            fs::write(folder.0.join(path), text).unwrap();
        }
        folder
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Everything in the folder: files with their text, folders with `/`.
    fn tree(&self) -> Vec<(String, String)> {
        let mut tree = Vec::new();
        let mut folders = vec![self.0.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(&self.0).unwrap().display().to_string();
                if path.is_dir() {
                    tree.push((format!("{name}/"), String::new()));
                    folders.push(path);
                } else {
                    tree.push((name, fs::read_to_string(&path).unwrap_or_default()));
                }
            }
        }
        tree.sort();
        tree
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn owned(files: &[(&str, &str)]) -> Vec<(String, String)> {
    files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
        .collect()
}

fn done(tool: &str, input: Value) -> Value {
    match testing::invoke::<Toolkit>(tool, input) {
        Outcome::Success(output) => output.structured.unwrap(),
        other => panic!("{other:?}"),
    }
}

fn refused(tool: &str, input: Value) -> ToolError {
    match testing::invoke::<Toolkit>(tool, input) {
        Outcome::Failure(error) => error,
        other => panic!("{other:?}"),
    }
}

/// Writes an archive into a folder of its own.
fn archive(name: &str, bytes: &[u8]) -> (Folder, String) {
    let folder = Folder::new(&[]);
    let path = folder.path(name);
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

/// Extracts to a folder with one file, which must be all that is left in it. Returns the error.
fn refused_bytes(bytes: &[u8]) -> ToolError {
    let (_folder, path) = archive("a", bytes);
    let target = Folder::new(&[("mine.txt", "mine")]);
    let error = refused("extract", json!({"path": path, "to": target.path("")}));
    assert_eq!(target.tree(), owned(&[("mine.txt", "mine")]), "{error}");
    assert!(
        error.message.ends_with("; nothing was extracted"),
        "{error}"
    );
    // The same for a folder that does not exist.
    let to = target.path("new/er");
    assert_eq!(
        refused("extract", json!({"path": path, "to": to})).code,
        error.code
    );
    assert_eq!(target.tree(), owned(&[("mine.txt", "mine")]), "{error}");
    error
}

/// One raw tar entry. The name is written as it is, which the crate itself refuses to do.
fn entry(name: &[u8], kind: EntryType, content: &[u8]) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.as_mut_bytes()[..name.len()].copy_from_slice(name);
    header.set_entry_type(kind);
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn tar_of(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = entries.concat();
    bytes.resize(bytes.len() + 1_024, 0);
    bytes
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A name as long as `name`, which no other one begins with.
fn placeholder(number: usize, name: &[u8]) -> String {
    let first = char::from(b'A' + u8::try_from(number).unwrap());
    format!("{first}{}", "#".repeat(name.len() - 1))
}

/// A zip file with stored entries: name, Unix mode, content.
fn zip_of(entries: &[(&[u8], u32, &[u8])]) -> Vec<u8> {
    let mut archive = rawzip::ZipArchiveWriter::new(Vec::new());
    for (number, (name, mode, content)) in entries.iter().enumerate() {
        // The names are put in later, because the crate changes those that lead out.
        let plain = placeholder(number, name);
        let (mut file, config) = archive
            .new_file(&plain)
            .unix_permissions(*mode)
            .start()
            .unwrap();
        let mut writer = config.wrap(&mut file);
        writer.write_all(content).unwrap();
        let (_, descriptor) = writer.finish().unwrap();
        file.finish(descriptor).unwrap();
    }
    let mut bytes = archive.finish().unwrap();
    for (number, (name, _, _)) in entries.iter().enumerate() {
        let plain = placeholder(number, name).into_bytes();
        let mut at = 0;
        while let Some(found) = bytes[at..]
            .windows(plain.len())
            .position(|part| part == plain)
        {
            at += found;
            // The name follows the fixed part of a local header, or that of one in the central directory.
            let is_name = at >= 30 && bytes[at - 30..].starts_with(b"PK\x03\x04")
                || at >= 46 && bytes[at - 46..].starts_with(b"PK\x01\x02");
            if is_name {
                bytes[at..at + plain.len()].copy_from_slice(name);
            }
            at += plain.len();
        }
    }
    bytes
}

const FILES: [(&str, &str); 4] = [
    ("a.txt", "one\n"),
    ("b/c.txt", "two\n"),
    ("b/d/e.txt", ""),
    ("\u{fc}\u{65e5}.txt", "three\n"),
];

#[test]
fn what_is_made_is_listed_and_extracted() {
    let long = format!("{}/x.txt", "long".repeat(40));
    let mut files = FILES.to_vec();
    files.push((&long, "long\n"));
    let source = Folder::new(&files);
    fs::create_dir(source.0.join("empty")).unwrap();
    for name in ["a.zip", "a.tar", "a.tar.gz", "a.tgz"] {
        let out = Folder::new(&[]);
        let path = out.path(name);
        let made = done("create", json!({"path": path, "from": source.path("")}));
        assert_eq!(
            (&made["files"], &made["folders"]),
            (&json!(5), &json!(4)),
            "{name}"
        );
        assert_eq!(made["bytes"], json!(19));
        assert_eq!(
            made["archive_bytes"],
            json!(fs::metadata(&path).unwrap().len())
        );

        let listed = done("list", json!({"path": path}));
        assert_eq!(listed["entries"].as_array().unwrap().len(), 9);
        assert_eq!(
            listed["entries"][0],
            json!({"name": "a.txt", "kind": "file", "bytes": 4})
        );
        assert_eq!(listed["entries"][1]["kind"], "folder");
        assert_eq!(listed["more"], false);

        let to = out.path("to/deep");
        let extracted = done("extract", json!({"path": path, "to": to}));
        assert_eq!(
            (&extracted["files"], &extracted["bytes"]),
            (&json!(5), &json!(19))
        );
        fs::remove_file(&path).unwrap();
        let copy = Folder(PathBuf::from(&to));
        assert_eq!(copy.tree(), source.tree(), "{name}");
        assert_eq!(
            fs::read_dir(&out.0).unwrap().count(),
            1,
            "nothing else is left"
        );
    }
}

#[test]
fn the_same_files_make_the_same_archive() {
    for name in ["a.zip", "a.tar.gz"] {
        let make = || {
            let source = Folder::new(&FILES);
            let out = Folder::new(&[]);
            done(
                "create",
                json!({"path": out.path(name), "from": source.path("")}),
            );
            fs::read(out.path(name)).unwrap()
        };
        assert!(make() == make(), "{name}");
    }
}

#[test]
fn a_list_continues_where_it_ended() {
    let entries: Vec<_> = (0..5)
        .map(|number| entry(format!("f{number}").as_bytes(), EntryType::Regular, b"x"))
        .collect();
    let (_folder, path) = archive("a.tar", &tar_of(&entries));
    let first = done("list", json!({"path": path, "max": 3}));
    assert_eq!(
        (&first["more"], &first["next_offset"]),
        (&json!(true), &json!(3))
    );
    let second = done("list", json!({"path": path, "max": 3, "offset": 3}));
    assert_eq!(second["entries"][0]["name"], "f3");
    assert_eq!(second["entries"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&second["more"], second.get("next_offset")),
        (&json!(false), None)
    );
}

#[test]
fn entries_that_lead_out_are_refused_and_listed() {
    let names: [&[u8]; 5] = [b"../x", b"/etc/x", b"a/../../x", b"a\\..\\x", b"bad\xff"];
    for name in names {
        let good = entry(b"good", EntryType::Regular, b"x");
        let tar = tar_of(&[good, entry(name, EntryType::Regular, b"x")]);
        let zip = zip_of(&[(b"good", 0o100_644, b"x"), (name, 0o100_644, b"x")]);
        for bytes in [tar.clone(), gz(&tar), zip] {
            let error = refused_bytes(&bytes);
            assert_eq!(error.code, "refused_entry", "{error}");
            let (_folder, path) = archive("a", &bytes);
            let listed = done("list", json!({"path": path}));
            assert_eq!(listed["entries"][0].get("refused"), None);
            assert!(listed["entries"][1]["refused"].is_string(), "{listed}");
        }
    }
}

#[test]
fn links_and_devices_are_refused() {
    for kind in [
        EntryType::Symlink,
        EntryType::Link,
        EntryType::Char,
        EntryType::Block,
        EntryType::Fifo,
        EntryType::new(b'?'),
    ] {
        let error = refused_bytes(&tar_of(&[entry(b"x", kind, b"")]));
        assert_eq!(error.code, "refused_entry", "{kind:?}: {error}");
    }
    for mode in [0o120_777, 0o020_644, 0o010_644, 0o060_644, 0o140_644] {
        let error = refused_bytes(&zip_of(&[(b"x", mode, b"/etc/passwd")]));
        assert_eq!(error.code, "refused_entry", "{mode:o}: {error}");
    }
}

#[test]
fn two_entries_of_one_name_are_refused() {
    let file = || entry(b"a", EntryType::Regular, b"1");
    for second in [
        file(),
        entry(b"./a", EntryType::Regular, b"2"),
        entry(b"a/b", EntryType::Regular, b"2"),
        entry(b"a/", EntryType::Directory, b""),
    ] {
        assert_eq!(
            refused_bytes(&tar_of(&[file(), second])).code,
            "refused_entry"
        );
    }
    let zip = zip_of(&[(b"aa", 0o100_644, b"1"), (b"aa", 0o100_644, b"2")]);
    assert_eq!(refused_bytes(&zip).code, "refused_entry");
}

#[test]
fn bombs_end_early() {
    let zeros = vec![0; 40 << 20];
    let tar = tar_of(&[entry(b"zeros", EntryType::Regular, &zeros)]);
    assert_eq!(refused_bytes(&gz(&tar)).code, "ratio_too_high");

    let source = Folder::new(&[]);
    fs::write(source.0.join("zeros"), &zeros).unwrap();
    let path = source.path("a.zip");
    done(
        "create",
        json!({"path": path, "from": source.path("zeros")}),
    );
    let zip = fs::read(&path).unwrap();
    assert_eq!(refused_bytes(&zip).code, "ratio_too_high");

    // A size that is a lie in the table is noticed while the file is unpacked.
    let mut lying = zip.clone();
    let table = lying
        .windows(4)
        .rposition(|part| part == b"PK\x01\x02")
        .unwrap();
    lying[table + 24..table + 28].copy_from_slice(&4_u32.to_le_bytes());
    assert_eq!(refused_bytes(&lying).code, "damaged_archive");

    let plain = tar_of(&[entry(b"x", EntryType::Regular, &[1; 9_000])]);
    let (_folder, path) = archive("a.tar", &plain);
    let target = Folder::new(&[]);
    let input = json!({"path": path, "to": target.path(""), "max_bytes": 5_000});
    assert_eq!(refused("extract", input).code, "too_large");
    assert_eq!(target.tree(), []);
}

#[test]
fn too_many_entries_are_refused() {
    let entries: Vec<_> = (0..=10_000)
        .map(|number| entry(format!("{number}").as_bytes(), EntryType::Regular, b""))
        .collect();
    assert_eq!(refused_bytes(&tar_of(&entries)).code, "too_many_entries");
    // Folders that only names imply are counted as well.
    let deep: Vec<_> = (0..300)
        .map(|number| {
            entry(
                format!("{number}{}", "/x".repeat(40)).as_bytes(),
                EntryType::Regular,
                b"",
            )
        })
        .collect();
    assert_eq!(refused_bytes(&tar_of(&deep)).code, "too_many_entries");
}

#[test]
fn long_names_and_attributes_are_bounded() {
    let name = [b"d/".repeat(60), b"x".to_vec()].concat();
    let long = entry(
        b"././@LongLink",
        EntryType::GNULongName,
        &[&name[..], b"\0"].concat(),
    );
    let file = entry(b"short", EntryType::Regular, b"1");
    let (_folder, path) = archive("a.tar", &tar_of(&[long.clone(), file.clone()]));
    let listed = done("list", json!({"path": path}));
    assert_eq!(
        listed["entries"][0]["name"],
        json!(String::from_utf8_lossy(&name))
    );

    let huge = entry(b"././@LongLink", EntryType::GNULongName, &[b'x'; 5_000]);
    assert_eq!(
        refused_bytes(&tar_of(&[huge, file.clone()])).code,
        "damaged_archive"
    );
    let huge = entry(b"pax", EntryType::XHeader, &[b'x'; 70_000]);
    assert_eq!(
        refused_bytes(&tar_of(&[huge, file.clone()])).code,
        "damaged_archive"
    );
    assert_eq!(refused_bytes(&tar_of(&[long])).code, "damaged_archive");

    let pax = |text: &str| entry(b"pax", EntryType::XHeader, text.as_bytes());
    let (_folder, path) = archive("a.tar", &tar_of(&[pax("14 path=p/q/r\n"), file.clone()]));
    assert_eq!(
        done("list", json!({"path": path}))["entries"][0]["name"],
        "p/q/r"
    );
    for (text, code) in [
        ("13 path=../x\n", "refused_entry"),
        ("9 size=7\n", "damaged_archive"),
        ("9 size=x\n", "damaged_archive"),
        ("22 GNU.sparse.major=1\n", "refused_entry"),
        ("nonsense", "damaged_archive"),
    ] {
        assert_eq!(
            refused_bytes(&tar_of(&[pax(text), file.clone()])).code,
            code,
            "{text}"
        );
    }
    let global = entry(b"pax", EntryType::XGlobalHeader, b"10 path=x\n");
    assert_eq!(
        refused_bytes(&tar_of(&[global, file])).code,
        "damaged_archive"
    );
}

#[test]
fn damaged_archives_are_refused_at_every_byte() {
    let source = Folder::new(&FILES);
    for name in ["a.zip", "a.tar", "a.tar.gz"] {
        let path = source.path(name);
        done("create", json!({"path": path, "from": source.path("b")}));
        let bytes = fs::read(&path).unwrap();
        for cut in (1..bytes.len()).step_by(37) {
            let (_folder, path) = archive("a", &bytes[..cut]);
            let target = Folder::new(&[]);
            // A tar archive may end without its empty blocks.
            if let Outcome::Failure(_) =
                testing::invoke::<Toolkit>("extract", json!({"path": path, "to": target.path("")}))
            {
                assert_eq!(target.tree(), [], "{name} cut at {cut}");
            } else {
                assert_eq!(name, "a.tar");
            }
        }
        for at in (0..bytes.len()).step_by(11) {
            let mut changed = bytes.clone();
            changed[at] ^= 0x55;
            let (_folder, path) = archive("a", &changed);
            let target = Folder::new(&[]);
            let input = json!({"path": path, "to": target.path("")});
            if let Outcome::Failure(_) = testing::invoke::<Toolkit>("extract", input) {
                assert_eq!(target.tree(), [], "{name} changed at {at}");
            }
        }
    }
    for bytes in [&b"garbage"[..], b"", &[b'x'; 2_000]] {
        let (_folder, path) = archive("a", bytes);
        assert_eq!(
            refused("list", json!({"path": path})).code,
            "not_an_archive"
        );
    }
}

#[test]
fn files_that_exist_are_kept_unless_overwrite_is_set() {
    let bytes = tar_of(&[
        entry(b"new.txt", EntryType::Regular, b"new"),
        entry(b"sub/old.txt", EntryType::Regular, b"theirs"),
    ]);
    let (_folder, path) = archive("a.tar", &bytes);
    let before = [("keep.txt", "keep"), ("sub/old.txt", "mine")];
    let target = Folder::new(&before);
    let tree = target.tree();
    let error = refused("extract", json!({"path": path, "to": target.path("")}));
    assert_eq!(error.code, "already_exists");
    assert!(
        error.message.ends_with("; nothing was extracted"),
        "{error}"
    );
    assert_eq!(target.tree(), tree);

    let extracted = done(
        "extract",
        json!({"path": path, "to": target.path(""), "overwrite": true}),
    );
    assert_eq!(
        (&extracted["overwritten"], &extracted["files"]),
        (&json!(1), &json!(2))
    );
    let after = [
        ("keep.txt", "keep"),
        ("new.txt", "new"),
        ("sub/", ""),
        ("sub/old.txt", "theirs"),
    ];
    assert_eq!(target.tree(), owned(&after));

    // A folder is not replaced by a file, and not the other way round.
    for existing in [("sub", "file"), ("new.txt/x", "in a folder")] {
        let target = Folder::new(&[existing]);
        let tree = target.tree();
        let input = json!({"path": path, "to": target.path(""), "overwrite": true});
        assert_eq!(refused("extract", input).code, "already_exists");
        assert_eq!(target.tree(), tree);
    }
}

#[cfg(unix)]
#[test]
fn links_in_the_folder_are_not_followed() {
    let outside = Folder::new(&[("a.txt", "mine")]);
    let target = Folder::new(&[]);
    std::os::unix::fs::symlink(&outside.0, target.0.join("way")).unwrap();
    let (_folder, path) = archive(
        "a.tar",
        &tar_of(&[entry(b"way/a.txt", EntryType::Regular, b"x")]),
    );
    let input = json!({"path": path, "to": target.path(""), "overwrite": true});
    assert_eq!(refused("extract", input).code, "already_exists");
    assert_eq!(outside.tree(), owned(&[("a.txt", "mine")]));

    let out = Folder::new(&[]);
    let made = done(
        "create",
        json!({"path": out.path("a.zip"), "from": target.path("")}),
    );
    assert_eq!(
        (&made["skipped"], &made["files"]),
        (&json!(["way"]), &json!(0))
    );
    let input = json!({"path": out.path("b.zip"), "from": target.path(""), "only": ["way/a.txt"]});
    assert_eq!(refused("create", input).code, "path_outside");
}

#[test]
fn an_archive_can_be_made_of_some_files() {
    let source = Folder::new(&FILES);
    let path = source.path("out.tar.gz");
    let input = json!({"path": path, "from": source.path(""), "only": ["b/d", "./a.txt"]});
    assert_eq!(done("create", input.clone())["files"], 2);
    assert_eq!(refused("create", input.clone()).code, "already_exists");
    let mut tar = Vec::new();
    GzDecoder::new(fs::File::open(&path).unwrap())
        .read_to_end(&mut tar)
        .unwrap();
    let names: Vec<String> = tar::Archive::new(&tar[..])
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().path().unwrap().display().to_string())
        .collect();
    assert_eq!(names, ["a.txt", "b/d/", "b/d/e.txt"]);
    for (only, code) in [("../x", "path_outside"), ("none", "not_found")] {
        let input = json!({"path": source.path("x.zip"), "from": source.path(""), "only": [only]});
        assert_eq!(refused("create", input).code, code);
    }
    let input = json!({"path": source.path("x.rar"), "from": source.path("")});
    assert_eq!(refused("create", input).code, "unknown_format");
    let input = json!({"path": source.path("x.zip"), "from": source.path(""), "max_bytes": 3});
    assert_eq!(refused("create", input).code, "too_large");
    // The archive that is replaced is not in itself.
    let input = json!({"path": path, "from": source.path(""), "overwrite": true});
    assert_eq!(done("create", input)["files"], 4);
}

#[test]
fn a_canceled_call_leaves_nothing() {
    testing::reset();
    let (_folder, path) = archive("a.tar", &tar_of(&[entry(b"x", EntryType::Regular, b"1")]));
    let target = Folder::new(&[]);
    testing::cancel(AbortReason::UserInterruption);
    let error = refused("extract", json!({"path": path, "to": target.path("")}));
    testing::reset();
    assert_eq!(error.code, "canceled");
    assert_eq!(target.tree(), []);
}
