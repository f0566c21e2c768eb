//! Unexpected arguments for host functions. Each of these once made a host panic, or might.

use fixture::{Access, Input, Tool};
use serde_json::json;
use wasip2::cli::stdin::get_stdin;
use wasip2::cli::stdout::get_stdout;
use wasip2::clocks::monotonic_clock::{now, subscribe_duration, subscribe_instant};
use wasip2::clocks::wall_clock::Datetime;
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{
    Advice, Descriptor, DescriptorFlags, NewTimestamp, OpenFlags, PathFlags,
};
use wasip2::io::poll::poll;
use wasip2::random::random::get_random_bytes;

use crate::{Attack, Outcome, answer};

type Poke = fn(&Descriptor) -> String;

/// The pokes; the tests select them by name.
const POKES: &[(&str, Poke)] = &[
    ("poll_nothing", |_| shown(poll(&[]))),
    ("poll_the_same_often", |_| {
        let pollable = subscribe_duration(1);
        shown(poll(&vec![&pollable; 100_000]).len())
    }),
    ("wake_at_the_end_of_time", |_| {
        shown(subscribe_instant(u64::MAX).ready())
    }),
    ("wake_in_the_past", |_| {
        shown(subscribe_instant(now() - 1).ready())
    }),
    ("random_of_any_length", |_| {
        shown(get_random_bytes(u64::MAX).len())
    }),
    ("skip_of_any_length", |_| {
        shown(get_stdin().blocking_skip(u64::MAX))
    }),
    ("read_of_any_length", |_| {
        shown(get_stdin().blocking_read(u64::MAX))
    }),
    ("splice_of_any_length", |_| {
        shown(get_stdout().splice(&get_stdin(), u64::MAX))
    }),
    ("blocking_splice_of_any_length", |_| {
        shown(get_stdout().blocking_splice(&get_stdin(), u64::MAX))
    }),
    ("zeroes_of_any_length", |_| {
        shown(get_stdout().write_zeroes(u64::MAX))
    }),
    ("blocking_zeroes_of_any_length", |_| {
        shown(get_stdout().blocking_write_zeroes_and_flush(u64::MAX))
    }),
    ("write_without_asking", |file| {
        let stream = file.write_via_stream(0);
        shown(stream.map(|stream| {
            (0..10)
                .map(|_| stream.write(&vec![0; 1 << 20]).is_ok())
                .collect::<Vec<_>>()
        }))
    }),
    ("times_in_the_far_future", |file| {
        shown(file.set_times(at(u64::MAX, 0), at(1 << 63, 0)))
    }),
    ("times_with_too_many_nanoseconds", |file| {
        shown(file.set_times(at(0, u32::MAX), at(u64::MAX, u32::MAX)))
    }),
    ("size_of_any_length", |file| shown(file.set_size(u64::MAX))),
    ("write_at_the_end_of_all_offsets", |file| {
        shown(file.write(b"x", u64::MAX))
    }),
    ("write_past_what_is_signed", |file| {
        shown(file.write(b"x", i64::MAX as u64))
    }),
    ("read_at_the_end_of_all_offsets", |file| {
        shown(
            file.read(u64::MAX, u64::MAX)
                .map(|(bytes, end)| (bytes.len(), end)),
        )
    }),
    ("file_read_of_any_length", |file| {
        shown(
            file.read(u64::MAX, 0)
                .map(|(bytes, end)| (bytes.len(), end)),
        )
    }),
    ("stream_at_the_end_of_all_offsets", |file| {
        shown(
            file.write_via_stream(u64::MAX)
                .map(|stream| shown(stream.blocking_write_and_flush(b"xx"))),
        )
    }),
    ("advice_about_everything", |file| {
        shown(file.advise(u64::MAX, u64::MAX, Advice::WillNeed))
    }),
    ("a_file_as_a_folder", |file| {
        let opened = file.open_at(
            PathFlags::empty(),
            "x",
            OpenFlags::CREATE,
            DescriptorFlags::WRITE,
        );
        shown((
            opened.is_ok(),
            file.read_directory().is_ok(),
            file.create_directory_at("x").is_ok(),
        ))
    }),
    ("a_folder_as_a_file", |_| {
        let (folder, _) = &get_directories()[0];
        shown((
            folder.read(1, 0).is_ok(),
            folder.write(b"x", 0).is_ok(),
            folder.set_size(1).is_ok(),
        ))
    }),
    ("all_flags_at_once", |_| {
        let (folder, _) = &get_directories()[0];
        shown(
            folder
                .open_at(
                    PathFlags::all(),
                    "all",
                    OpenFlags::all(),
                    DescriptorFlags::all(),
                )
                .is_ok(),
        )
    }),
    ("a_folder_over_itself", |_| {
        let (folder, _) = &get_directories()[0];
        shown((
            folder.rename_at(".", folder, ".").is_ok(),
            folder.rename_at("", folder, "").is_ok(),
        ))
    }),
];

pub(crate) fn tools() -> Vec<Tool> {
    let names: Vec<&str> = POKES.iter().map(|(name, _)| *name).collect();
    vec![
        Tool::new(
            "poke",
            Access::WritesFiles,
            "Gives the host arguments that it may not expect",
        )
        .input(json!({ "poke": { "enum": names } }), &["poke"]),
        Tool::new("pokes", Access::Nothing, "Names all pokes"),
    ]
}

pub(crate) fn attack(tool: &str) -> Option<Attack> {
    Some(match tool {
        "poke" => poke,
        "pokes" => |_| answer(POKES.iter().map(|(name, _)| *name).collect()),
        _ => return None,
    })
}

fn poke(input: &Input) -> Outcome {
    let folders = get_directories();
    let (folder, _) = &folders[0];
    let flags = DescriptorFlags::READ | DescriptorFlags::WRITE;
    let file = folder.open_at(PathFlags::empty(), "poked", OpenFlags::CREATE, flags);
    let wanted = input.text("poke");
    match (file, POKES.iter().find(|(name, _)| *name == wanted)) {
        (Ok(file), Some((_, poke))) => answer(json!({ "said": poke(&file) })),
        (file, _) => answer(json!({ "not_poked": shown(file.is_ok()) })),
    }
}

fn at(seconds: u64, nanoseconds: u32) -> NewTimestamp {
    NewTimestamp::Timestamp(Datetime {
        seconds,
        nanoseconds,
    })
}

fn shown(value: impl std::fmt::Debug) -> String {
    format!("{value:?}").chars().take(200).collect()
}
