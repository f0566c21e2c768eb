//! The arguments of a call, as they are typed: JSON, `@FILE`, `-` for standard input, or one by one.

use std::io::Read;
use std::path::Path;

use toolcell_engine::catalog::Tool;
use toolcell_spec::Input;

use super::exit::BadRequest;
use super::named_arguments::NamedArguments;

/// Maximum size of the arguments, and of a message, in bytes; larger ones are refused.
const INPUT_BYTES_MAX: u64 = 16 << 20;

/// The arguments of a call, before its tool is known.
pub(super) enum CallArguments {
    Whole(Input),
    Named(NamedArguments),
}

impl CallArguments {
    /// The arguments for `tool`, which says the types of those that were typed one by one; `None` if it is not known.
    pub(super) fn input(&self, tool: Option<&Tool>) -> Input {
        match self {
            Self::Whole(input) => input.clone(),
            Self::Named(named) => named.input(tool.map(|tool| tool.contract().listed_schema())),
        }
    }
}

/// Reads the arguments that `typed` holds or names: one word, or one for each argument.
pub(super) fn read(typed: &[String]) -> Result<CallArguments, BadRequest> {
    match typed {
        [] => Ok(CallArguments::Whole(Input::from_text("{}"))),
        [whole] if !NamedArguments::is_one(whole) => read_whole(whole).map(CallArguments::Whole),
        named => NamedArguments::read(named).map(CallArguments::Named),
    }
}

fn read_whole(typed: &str) -> Result<Input, BadRequest> {
    let file = if typed == "-" {
        Some(typed)
    } else {
        typed.strip_prefix('@')
    };
    match file {
        Some(file) => bounded("arguments", Path::new(file)).map(Input::from_text),
        None => Ok(Input::from_text(typed)),
    }
}

/// Reads the message of a model in `file`, or on standard input if it is `-`. It is as large as arguments can be.
pub(super) fn message(file: &Path) -> Result<String, BadRequest> {
    bounded("message", file)
}

/// Opens `file`, or standard input if it is `-`. Returns it with its name.
pub(super) fn open(file: &Path) -> Result<(String, Box<dyn Read>), BadRequest> {
    if file == Path::new("-") {
        return Ok(("standard input".to_owned(), Box::new(std::io::stdin())));
    }
    let name = file.display().to_string();
    match std::fs::File::open(file) {
        Ok(opened) => Ok((name, Box::new(opened))),
        Err(error) => Err(BadRequest(format!("cannot open {name}: {error}"))),
    }
}

/// Reads the `subject` of a command in `file`, or on standard input if it is `-`.
fn bounded(subject: &str, file: &Path) -> Result<String, BadRequest> {
    let (what, from) = open(file)?;
    let mut text = String::new();
    let read = from.take(INPUT_BYTES_MAX + 1).read_to_string(&mut text);
    let failed = |why: String| {
        let message = format!("cannot read the {subject} from {what}: {why}");
        BadRequest(message)
    };
    read.map_err(|error| failed(error.to_string()))?;
    if text.len() as u64 > INPUT_BYTES_MAX {
        return Err(failed(format!("more than {INPUT_BYTES_MAX} bytes")));
    }
    Ok(text)
}
