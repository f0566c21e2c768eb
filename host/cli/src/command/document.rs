//! Documents that a command reads, from a file or from standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Opens `file`, or standard input if it is `-`. The error says what is wrong, and with which file.
pub(super) fn open(file: &Path) -> Result<Box<dyn Read>, String> {
    if file == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    match File::open(file) {
        Ok(opened) => Ok(Box::new(opened)),
        Err(error) => Err(format!("cannot open {}: {error}", name(file))),
    }
}

/// Reads the text that [`open`] gives. The error says what is wrong, and with which file; `too_large` says it of a file with
/// this name that has more than `bytes_max` bytes.
pub(super) fn read(
    file: &Path,
    bytes_max: usize,
    too_large: impl FnOnce(&str) -> String,
) -> Result<String, String> {
    let name = name(file);
    let mut bytes = Vec::new();
    open(file)?
        .take(bytes_max as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("cannot read {name}: {error}"))?;
    if bytes.len() > bytes_max {
        return Err(too_large(&name));
    }
    String::from_utf8(bytes).map_err(|_| format!("{name} is not UTF-8 text"))
}

/// The name of `file` for an error.
pub(super) fn name(file: &Path) -> String {
    if file == Path::new("-") {
        "standard input".to_owned()
    } else {
        file.display().to_string()
    }
}
