//! `toolcell.toml`: parsing any text terminates, and is deterministic.

#![no_main]

use std::path::Path;

use toolcell::config::ConfigFile;

libfuzzer_sys::fuzz_target!(|data: &str| {
    let read = || ConfigFile::parse(data, Path::new("/project")).map_err(|error| format!("{error:#}"));
    match (read(), read()) {
        (Ok(one), Ok(two)) => assert_eq!(format!("{one:?}"), format!("{two:?}")),
        (Err(one), Err(two)) => assert_eq!(one, two),
        _ => panic!("read twice, understood once"),
    }
});
