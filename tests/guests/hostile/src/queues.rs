//! Attacks on the host's resources for a guest: waiting threads and lists.

use std::collections::BTreeMap;

use fixture::{Access, Input, Tool};
use serde_json::json;
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{
    Descriptor, DescriptorFlags, DirectoryEntryStream, ErrorCode, NewTimestamp, OpenFlags,
    PathFlags,
};

use crate::{Attack, ErrorClass, Outcome, answer, refuse};

pub(crate) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "open_again",
            Access::WritesFiles,
            "Opens `name` in the folder that was granted, in every way, `times` times",
        )
        .input(
            json!({ "name": { "type": "string" }, "times": { "type": "integer" } }),
            &["name", "times"],
        ),
        Tool::new(
            "hold_listings",
            Access::ReadsFiles,
            "Begins to list the folder that was granted `times` times, then lists it",
        )
        .input(json!({ "times": { "type": "integer" } }), &["times"]),
        Tool::new(
            "hold_streams",
            Access::ReadsFiles,
            "Reads `name` through as many streams at once as it gets",
        )
        .input(json!({ "name": { "type": "string" } }), &["name"]),
    ]
}

pub(crate) fn attack(tool: &str) -> Option<Attack> {
    Some(match tool {
        "open_again" => open_again,
        "hold_listings" => |input| listed(hold_listings(input)),
        "hold_streams" => |input| listed(hold_streams(input)),
        _ => return None,
    })
}

fn granted() -> Descriptor {
    let mut given = get_directories();
    given.swap_remove(0).0
}

fn listed(done: Result<serde_json::Value, ErrorCode>) -> Outcome {
    done.map_or_else(
        |error| refuse(ErrorClass::ExecutionFailed, "not_listed", error.name()),
        answer,
    )
}

/// Counts the outcomes of each way of opening.
fn open_again(input: &Input) -> Outcome {
    let folder = granted();
    let name = input.text("name");
    let follow = PathFlags::SYMLINK_FOLLOW;
    let plain = PathFlags::empty();
    let none = OpenFlags::empty();
    let made = OpenFlags::CREATE;
    let reads = DescriptorFlags::READ;
    let writes = DescriptorFlags::WRITE;
    let inside = format!("{name}/inside");
    let mut ends = BTreeMap::<String, u64>::new();
    for turn in 0..input.number("times") {
        let opened = |at, name: &str, open, flags| folder.open_at(at, name, open, flags).map(drop);
        let end = match turn % 9 {
            0 => opened(plain, name, none, reads),
            1 => opened(follow, name, none, reads),
            2 => opened(plain, name, none, writes),
            3 => opened(plain, name, none, reads | writes),
            4 => opened(follow, name, made, writes),
            5 => opened(plain, name, made | OpenFlags::TRUNCATE, writes),
            6 => opened(plain, name, OpenFlags::DIRECTORY, reads),
            7 => opened(follow, &inside, none, reads),
            _ => folder.set_times_at(follow, name, NewTimestamp::Now, NewTimestamp::Now),
        };
        *ends
            .entry(end.map_or_else(|error| error.name().to_owned(), |()| "opened".to_owned()))
            .or_default() += 1;
    }
    answer(json!(ends))
}

fn hold_listings(input: &Input) -> Result<serde_json::Value, ErrorCode> {
    let folder = granted();
    let begun = (0..input.number("times")).map(|_| {
        let listing = folder.read_directory()?;
        listing.read_directory_entry()?;
        Ok(listing)
    });
    let mut held = begun.collect::<Result<Vec<DirectoryEntryStream>, ErrorCode>>()?;
    let mut names = 1;
    let mut bytes = 0;
    let last = held.pop().ok_or(ErrorCode::Invalid)?;
    while let Some(entry) = last.read_directory_entry()? {
        names += 1;
        bytes += entry.name.len();
    }
    Ok(json!({ "held": held.len() + 1, "names": names, "bytes": bytes }))
}

fn hold_streams(input: &Input) -> Result<serde_json::Value, ErrorCode> {
    let file = granted().open_at(
        PathFlags::empty(),
        input.text("name"),
        OpenFlags::empty(),
        DescriptorFlags::READ,
    )?;
    let mut held = Vec::new();
    while let Ok(stream) = file.read_via_stream(0) {
        // Waits until the bytes are readable, and does not read them.
        stream.subscribe().block();
        held.push(stream);
        if held.len() == 900 {
            break;
        }
    }
    Ok(json!({ "held": held.len() }))
}
