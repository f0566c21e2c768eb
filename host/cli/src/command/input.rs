//! The arguments of a call, as they are typed: JSON, `@FILE`, `-` for standard input, or one by one.

use std::path::Path;

use toolcell_engine::catalog::Tool;
use toolcell_spec::Input;

use super::document;
use super::exit::BadRequest;
use super::named_arguments::NamedArguments;

/// Maximum size of the arguments, and of a message, in bytes; larger ones are refused.
const INPUT_BYTES_MAX: usize = 16 << 20;

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
    let file = match (typed, typed.strip_prefix('@')) {
        ("-", _) => typed,
        // A file of this name, and not standard input.
        (_, Some("-")) => "./-",
        (_, Some(file)) => file,
        (_, None) => return Ok(Input::from_text(typed)),
    };
    bounded("arguments", Path::new(file)).map(Input::from_text)
}

/// Reads the message of a model in `file`, or on standard input if it is `-`. It is as large as arguments can be.
pub(super) fn message(file: &Path) -> Result<String, BadRequest> {
    bounded("message", file)
}

/// Reads the `subject` of a command in `file`, or on standard input if it is `-`.
fn bounded(subject: &str, file: &Path) -> Result<String, BadRequest> {
    let too_large = |name: &str| {
        format!("cannot read the {subject} from {name}: more than {INPUT_BYTES_MAX} bytes")
    };
    document::read(file, INPUT_BYTES_MAX, too_large).map_err(BadRequest)
}
