//! Tools that the call may call, as commands.

use std::sync::{Mutex, PoisonError};

use bashkit::{Builtin, BuiltinContext, ExecResult, Result, async_trait};
use toolcell_guest::{
    ToolError,
    serde_json::{Map, Value},
    tools::{self, Answer, Callable},
};

use crate::arguments;

/// The host's error code for arguments that the called tool does not take.
const SCHEMA_MISMATCH: &str = "schema_mismatch";

/// A tool, and the commands that call it.
#[derive(Clone)]
pub(crate) struct Granted {
    pub(crate) name: String,
    pub(crate) description: String,
    /// The qualified name, and the bare one if no other command has it.
    pub(crate) commands: Vec<String>,
}

/// `own`: the names of the shell's own commands.
pub(crate) fn named(tools: Vec<Callable>, own: &[String]) -> Vec<Granted> {
    let bare = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    let names: Vec<String> = tools.iter().map(|tool| bare(&tool.name)).collect();
    let named = tools.into_iter().map(|tool| {
        let short = bare(&tool.name);
        let is_free =
            !own.contains(&short) && names.iter().filter(|name| **name == short).count() == 1;
        let mut commands = vec![tool.name.clone()];
        if is_free && short != tool.name {
            commands.push(short);
        }
        Granted {
            name: tool.name,
            description: tool.description,
            commands,
        }
    });
    named.collect()
}

/// Where a tool takes standard input.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Input,
    Text,
    Nowhere,
}

pub(crate) struct Command {
    tool: String,
    /// Where the last call's standard input went, so that a loop finds out once.
    place: Mutex<Option<Place>>,
}

impl Command {
    pub(crate) fn new(tool: &Granted) -> Self {
        Self {
            tool: tool.name.clone(),
            place: Mutex::default(),
        }
    }

    /// Calls the tool. A call does not say which arguments the tool has, so that `input` and `text` are tried for standard
    /// input; the host checks the arguments before it decides, and runs nothing that does not fit.
    fn call(
        &self,
        input: &Map<String, Value>,
        stdin: &[u8],
    ) -> std::result::Result<Answer, ToolError> {
        let mut known = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let places: &[Place] = match *known {
            _ if stdin.is_empty() => &[Place::Nowhere],
            Some(Place::Input) => &[Place::Input],
            Some(Place::Text) => &[Place::Text],
            Some(Place::Nowhere) => &[Place::Nowhere],
            None => &[Place::Input, Place::Text, Place::Nowhere],
        };
        let mut refused = None;
        for place in places {
            let Some(whole) = with(input, *place, stdin) else {
                continue;
            };
            match tools::call(&self.tool, whole) {
                // The first refusal of a call without standard input names what is wrong with the words.
                Err(error) if error.code == SCHEMA_MISMATCH => refused = Some(error),
                answered => {
                    if !stdin.is_empty() {
                        *known = Some(*place);
                    }
                    return answered;
                }
            }
        }
        Err(refused.unwrap_or_else(|| {
            ToolError::invalid_arguments("no_arguments", "it takes no standard input")
        }))
    }
}

/// `None` if the words already have the argument.
fn with(input: &Map<String, Value>, place: Place, stdin: &[u8]) -> Option<Map<String, Value>> {
    let mut whole = input.clone();
    let (name, value) = match place {
        Place::Nowhere => return Some(whole),
        Place::Input => ("input", arguments::value_of(stdin)),
        Place::Text => ("text", arguments::text_of(stdin)),
    };
    if whole.contains_key(name) {
        return None;
    }
    whole.insert(name.to_owned(), value);
    Some(whole)
}

#[async_trait]
impl Builtin for Command {
    async fn execute(&self, ctx: BuiltinContext<'_>) -> Result<ExecResult> {
        let (words, as_json) = match ctx.args {
            [flag, words @ ..] if flag == "--json" => (words, true),
            words => (words, false),
        };
        let input = match arguments::input(words) {
            Ok(input) => input,
            Err(why) => return Ok(ExecResult::err(format!("{}: {why}\n", self.tool), 2)),
        };
        let stdin = ctx.stdin_bytes().unwrap_or_default();
        Ok(match self.call(&input, stdin) {
            Ok(answer) => shown(&self.tool, &answer, as_json),
            Err(error) => ExecResult::err(line(&self.tool, &error), 1),
        })
    }
}

fn line(tool: &str, error: &ToolError) -> String {
    // The host's own messages name the tool already.
    let message = error.message.strip_prefix(tool).unwrap_or(&error.message);
    let message = message.strip_prefix(": ").unwrap_or(message);
    format!("{tool}: {message} ({})\n", error.code)
}

fn shown(tool: &str, answer: &Answer, as_json: bool) -> ExecResult {
    let structured = answer.structured.as_ref().map(Value::to_string);
    let text = answer.to_text();
    let mut shown = match structured {
        Some(value) if as_json || text.is_empty() => value,
        _ => text,
    };
    if !shown.is_empty() && !shown.ends_with('\n') {
        shown.push('\n');
    }
    match &answer.missing {
        None => ExecResult::ok(shown),
        Some(error) => {
            let mut result = ExecResult::err(line(tool, error), 1);
            result.stdout = shown.into();
            result
        }
    }
}
