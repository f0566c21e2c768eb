//! `toolcell.toml`: parsing any text terminates, and is deterministic.

use std::path::Path;

use toolcell_config::ConfigFile;

pub(crate) fn run(data: &[u8]) {
    let Ok(data) = std::str::from_utf8(data) else {
        return;
    };
    let read =
        || ConfigFile::parse(data, Path::new("/project")).map_err(|error| format!("{error:#}"));
    match (read(), read()) {
        (Ok(one), Ok(two)) => assert_eq!(format!("{one:?}"), format!("{two:?}")),
        (Err(one), Err(two)) => assert_eq!(one, two),
        _ => panic!("read twice, understood once"),
    }
}
