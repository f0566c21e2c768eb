//! The arguments of a call as typed: JSON, `@FILE`, `-` for standard input, or one by one.

use std::path::Path;

use toolcell_engine::catalog::Tool;
use toolcell_spec::Input;

use super::document;
use super::exit::BadRequest;
use super::named_arguments::NamedArguments;

/// In bytes.
const INPUT_BYTES_MAX: usize = 16 << 20;

pub(super) enum CallArguments {
    Whole(Input),
    Named(NamedArguments),
}

impl CallArguments {
    /// `tool` says the types of arguments typed one by one.
    pub(super) fn input(&self, tool: Option<&Tool>) -> Input {
        match self {
            Self::Whole(input) => input.clone(),
            Self::Named(named) => named.input(tool.map(|tool| tool.contract().listed_schema())),
        }
    }
}

pub(super) fn read(typed: &[String]) -> Result<CallArguments, BadRequest> {
    match typed {
        [] => Ok(CallArguments::Whole(Input::from_text("{}"))),
        [whole] if !NamedArguments::is_one(whole) => read_whole(whole).map(CallArguments::Whole),
        named => NamedArguments::read(named).map(CallArguments::Named),
    }
}

fn read_whole(typed: &str) -> Result<Input, BadRequest> {
    let file = match (typed, typed.strip_prefix('@')) {
        ("-", _) => typed,
        // A file of this name, and not standard input.
        (_, Some("-")) => "./-",
        (_, Some(file)) => file,
        (_, None) => return Ok(Input::from_text(typed)),
    };
    bounded("arguments", Path::new(file)).map(Input::from_text)
}

/// Standard input if `file` is `-`.
pub(super) fn message(file: &Path) -> Result<String, BadRequest> {
    bounded("message", file)
}

fn bounded(subject: &str, file: &Path) -> Result<String, BadRequest> {
    let too_large = |name: &str| {
        format!("cannot read the {subject} from {name}: more than {INPUT_BYTES_MAX} bytes")
    };
    document::read(file, INPUT_BYTES_MAX, too_large).map_err(BadRequest)
}
