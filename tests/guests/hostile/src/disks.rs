//! Attacks on disk space, and the part of a guest in a TOCTOU race between checking a path and using it.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};

use fixture::{Access, Input, Tool};
use serde_json::json;
use wasip2::clocks::monotonic_clock;
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{DescriptorFlags, OpenFlags, PathFlags};

use crate::{Attack, ErrorClass, Outcome, answer, refuse};

const MIB: usize = 1 << 20;
const SLAB_BYTES: usize = 8 << 20;

pub(crate) fn tools() -> Vec<Tool> {
    vec![
        Tool::new("fill_disk", Access::WritesFiles, "Writes to the folder `path` for ever, in one of several ways").input(
            json!({
                "path": { "type": "string" },
                "how": { "enum": ["blocks", "rewrite", "append", "positions", "slabs", "set_size", "hole", "files", "folders", "links"] },
            }),
            &["path", "how"],
        ),
        Tool::new("use_swapped", Access::WritesFiles, "Uses names below `swapped` in the folder `path` in every way, for `ms`")
            .input(json!({ "path": { "type": "string" }, "ms": { "type": "integer" } }), &["path", "ms"]),
    ]
}

pub(crate) fn attack(tool: &str) -> Option<Attack> {
    Some(match tool {
        "fill_disk" => |input| match fill_disk(input) {
            Ok(never) => match never {},
            Err(error) => refuse(
                ErrorClass::ExecutionFailed,
                "not_written",
                &error.to_string(),
            ),
        },
        "use_swapped" => use_swapped,
        _ => return None,
    })
}

enum Never {}

fn fill_disk(input: &Input) -> std::io::Result<Never> {
    let path = input.text("path");
    let how = input.text("how");
    let file = format!("{path}/fill");
    let block = vec![b'x'; MIB];
    match how {
        "blocks" => {
            let mut file = File::create(file)?;
            loop {
                file.write_all(&block)?;
            }
        }
        // The file stays small, but the writes add up.
        "rewrite" => loop {
            fs::write(&file, &block)?;
            fs::remove_file(&file)?;
        },
        "append" => {
            let mut file = OpenOptions::new().append(true).create(true).open(file)?;
            loop {
                file.write_all(&block)?;
            }
        }
        // Bypasses the streams. Slabs are so large that most stops interrupt a write.
        "positions" | "slabs" => {
            let block = if how == "slabs" {
                vec![b'x'; SLAB_BYTES]
            } else {
                block
            };
            File::create(&file)?;
            let (folder, _) = &get_directories()[0];
            let name = "fill";
            let file = folder
                .open_at(
                    PathFlags::empty(),
                    name,
                    OpenFlags::empty(),
                    DescriptorFlags::WRITE,
                )
                .map_err(|error| std::io::Error::other(error.to_string()))?;
            let mut position = 0;
            loop {
                position += file
                    .write(&block, position)
                    .map_err(|error| std::io::Error::other(error.to_string()))?;
            }
        }
        "set_size" => {
            File::create(&file)?.set_len(1 << 40)?;
            Err(std::io::Error::other("a file of a tebibyte was made"))
        }
        "hole" => {
            let mut file = File::create(&file)?;
            file.seek(SeekFrom::Start(1 << 40))?;
            file.write_all(b"x")?;
            Err(std::io::Error::other("a file of a tebibyte was made"))
        }
        "files" => many(|number| fs::write(format!("{path}/file-{number}"), b"")),
        "folders" => many(|number| fs::create_dir(format!("{path}/folder-{number}"))),
        _ => {
            fs::write(&file, b"")?;
            many(|number| fs::hard_link(&file, format!("{path}/link-{number}")))
        }
    }
}

fn many(make: impl Fn(u64) -> std::io::Result<()>) -> std::io::Result<Never> {
    let mut number = 0;
    loop {
        make(number)?;
        number += 1;
    }
}

fn until(ms: u64, mut each: impl FnMut()) -> u64 {
    let end = monotonic_clock::now() + ms * 1_000_000;
    let mut rounds = 0;
    while monotonic_clock::now() < end {
        each();
        rounds += 1;
    }
    rounds
}

fn symlink(says: &str, at: &str) -> Result<(), ()> {
    let (folder, given) = get_directories()
        .into_iter()
        .find(|(_, given)| at.starts_with(given.as_str()))
        .ok_or(())?;
    let name = at[given.len()..].trim_start_matches('/');
    folder.symlink_at(says, name).map_err(|_| ())
}

/// Changes files by name in every way. Only files below `path` itself may be affected.
fn use_swapped(input: &Input) -> Outcome {
    let folder = input.text("path");
    let inside = |name: &str| format!("{folder}/swapped/{name}");
    let mut read = Vec::new();
    let mut number = 0_u64;
    let rounds = until(input.number("ms"), || {
        number += 1;
        if let Ok(text) = fs::read_to_string(inside("file"))
            && !read.contains(&text)
        {
            read.push(text);
        }
        let _ = fs::write(inside("file"), "changed");
        let _ = fs::remove_file(inside("victim"));
        let _ = fs::remove_dir(inside("empty"));
        let _ = fs::rename(inside("movable"), format!("{folder}/moved-{number}"));
        let _ = fs::hard_link(inside("file"), format!("{folder}/linked-{number}"));
        let _ = fs::write(inside("made"), "made");
        let _ = fs::create_dir(inside("made-folder"));
        let _ = symlink("file", &inside("made-link"));
        let _ = File::options()
            .write(true)
            .truncate(true)
            .open(inside("file"));
        // Names that lie where they should are restored.
        for name in ["made", "made-link"] {
            let _ = fs::remove_file(inside(name));
        }
        let _ = fs::remove_dir(inside("made-folder"));
        let _ = fs::remove_file(format!("{folder}/linked-{number}"));
        let _ = fs::rename(format!("{folder}/moved-{number}"), inside("movable"));
        let _ = fs::write(inside("victim"), "mine");
        let _ = fs::create_dir(inside("empty"));
    });
    answer(json!({ "rounds": rounds, "read": read }))
}
