//! The arguments of a call, as they are typed: JSON, `@FILE`, or `-` for standard input.

use std::io::Read;

use anyhow::Context;
use toolcell_core::record::Input;

use super::exit::BadRequest;

/// Maximum size of the arguments, in bytes; larger ones are refused.
const INPUT_BYTES_MAX: u64 = 16 << 20;

/// Reads the arguments that `typed` holds or names.
pub(super) fn read(typed: &str) -> Result<Input, BadRequest> {
    match (typed, typed.strip_prefix('@')) {
        ("-", _) => from("standard input", Box::new(std::io::stdin())),
        (_, Some(path)) => {
            let file = std::fs::File::open(path).map_err(|error| BadRequest(format!("cannot open {path}: {error}")))?;
            from(path, Box::new(file))
        }
        (text, None) => Ok(Input::from_text(text)),
    }
}

fn from(what: &str, from: Box<dyn Read>) -> Result<Input, BadRequest> {
    let mut text = String::new();
    let read = from.take(INPUT_BYTES_MAX + 1).read_to_string(&mut text);
    read.with_context(|| format!("cannot read the arguments from {what}"))
        .map_err(|error| BadRequest(format!("{error:#}")))?;
    if text.len() as u64 > INPUT_BYTES_MAX {
        return Err(BadRequest(format!("the arguments are larger than {INPUT_BYTES_MAX} bytes")));
    }
    Ok(Input::from_text(text))
}
