//! Documents that a command reads, from a file or from standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads the text in `file`, or on standard input if it is `-`. The error says what is wrong, and with which file.
pub(super) fn read(file: &Path, bytes_max: usize) -> Result<String, String> {
    let name = name(file);
    let source: Box<dyn Read> = if file == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(file).map_err(|error| format!("cannot open {name}: {error}"))?)
    };
    let mut bytes = Vec::new();
    source
        .take(bytes_max as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("cannot read {name}: {error}"))?;
    if bytes.len() > bytes_max {
        return Err(format!(
            "{name} is larger than {bytes_max} bytes; give it in parts"
        ));
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
