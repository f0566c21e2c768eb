//! Documents that a command reads, from a file or from standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Standard input if `file` is `-`. The error names the file.
pub(super) fn open(file: &Path) -> Result<Box<dyn Read>, String> {
    if file == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    match File::open(file) {
        Ok(opened) => Ok(Box::new(opened)),
        Err(error) => Err(format!("cannot open {}: {error}", name(file))),
    }
}

/// The error names the file; `too_large` is for one of more than `bytes_max` bytes.
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

pub(super) fn name(file: &Path) -> String {
    if file == Path::new("-") {
        "standard input".to_owned()
    } else {
        file.display().to_string()
    }
}
