//! Ways for a call to end without an answer.

use fixture::{Access, Input, Tool};
use serde_json::json;

use crate::{Attack, Outcome};

pub(crate) fn tools() -> Vec<Tool> {
    let plain = |name, description| Tool::new(name, Access::Nothing, description);
    vec![
        plain("panic", "Panics with a message, which goes to stderr")
            .input(json!({ "message": { "type": "string" } }), &[]),
        plain("unreachable", "Executes the instruction that always traps"),
        plain("exit", "Exits with a code instead of answering").input(
            json!({ "code": { "type": "integer", "minimum": 0, "maximum": 255 } }),
            &["code"],
        ),
    ]
}

pub(crate) fn attack(tool: &str) -> Option<Attack> {
    Some(match tool {
        "panic" => |input| panic!("{}", input.text_or("message", "told to panic")),
        "unreachable" => |_| core::arch::wasm32::unreachable(),
        "exit" => exit,
        _ => return None,
    })
}

fn exit(input: &Input) -> Outcome {
    std::process::exit(input.number("code") as i32)
}
