//! The arguments of a call, as they are typed: JSON, `@FILE`, `-` for standard input, or one by one.

use std::io::Read;
use std::path::Path;

use anyhow::Context;
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
    match (typed, typed.strip_prefix('@')) {
        ("-", _) => from("standard input", Box::new(std::io::stdin())),
        (_, Some(path)) => {
            let file = std::fs::File::open(path)
                .map_err(|error| BadRequest(format!("cannot open {path}: {error}")))?;
            from(path, Box::new(file))
        }
        (text, None) => Ok(Input::from_text(text)),
    }
}

fn from(what: &str, from: Box<dyn Read>) -> Result<Input, BadRequest> {
    bounded("arguments", what, from).map(Input::from_text)
}

/// Reads the message of a model in `file`, or on standard input if it is `-`. It is as large as arguments can be.
pub(super) fn message(file: &Path) -> Result<String, BadRequest> {
    if file == Path::new("-") {
        return bounded("message", "standard input", Box::new(std::io::stdin()));
    }
    let name = file.display().to_string();
    let opened = std::fs::File::open(file)
        .map_err(|error| BadRequest(format!("cannot open {name}: {error}")))?;
    bounded("message", &name, Box::new(opened))
}

/// Reads the `subject` of a command, which `what` has.
fn bounded(subject: &str, what: &str, from: Box<dyn Read>) -> Result<String, BadRequest> {
    let mut text = String::new();
    let read = from.take(INPUT_BYTES_MAX + 1).read_to_string(&mut text);
    read.with_context(|| format!("cannot read the {subject} from {what}"))
        .map_err(BadRequest::from)?;
    if text.len() as u64 > INPUT_BYTES_MAX {
        return Err(BadRequest(format!(
            "cannot read the {subject} from {what}: more than {INPUT_BYTES_MAX} bytes"
        )));
    }
    Ok(text)
}
