//! A component that checks values: one check is honest, the others abuse it.

mod nosy;

use fixture::{Access, Input, Tool, Toolkit};
use serde_json::{Value, json};

wit_bindgen::generate!({
    inline: "
        package toolcell:test-guests;
        world validated {
            include toolcell:tool/tool@0.2.0;
            include toolcell:tool/validating@0.2.0;
        }
    ",
    path: "../../../wit",
    generate_all,
});

use exports::toolcell::tool::guest::{self, Call, Outcome, Output};
use exports::toolcell::tool::validation;
use toolcell::tool::types::{ErrorClass, ToolError};

struct Validated;

impl guest::Guest for Validated {
    fn describe() -> String {
        let numbered = |name, description| {
            Tool::new(name, Access::Nothing, description)
                .input(json!({ "n": { "type": "integer" } }), &["n"])
        };
        let plain = |name, description| Tool::new(name, Access::Nothing, description);
        Toolkit::new("validated")
            .with([
                numbered("even", "Takes even numbers up to 100"),
                numbered(
                    "careless",
                    "Takes what its checks let through, and panics on odd numbers",
                ),
                plain(
                    "nosy",
                    "Its checks reach for files, network and environment",
                )
                .input(
                    json!({
                        "marker": { "type": "string" },
                        "file": { "type": "string" },
                        "address": { "type": "string" },
                    }),
                    &[],
                ),
                Tool::new(
                    "prepared",
                    Access::WritesFiles,
                    "Its preflight reads the file that it is told, and tries to write",
                )
                .input(json!({ "path": { "type": "string" } }), &["path"]),
                Tool::new(
                    "curious",
                    Access::Network,
                    "Its checks log a line, and send a request",
                )
                .input(json!({ "address": { "type": "string" } }), &["address"]),
                plain("check_spins", "Its value check never returns"),
                plain("check_panics", "Its value check traps"),
                plain("preflight_spins", "Its preflight never returns"),
                plain("preflight_panics", "Its preflight traps"),
                plain(
                    "forgetful",
                    "Its value check counts, and its invocation must see no count",
                ),
            ])
            .to_json()
    }

    fn invoke(call: Call) -> Outcome {
        let Ok(input) = Input::parse(&call.input) else {
            return Outcome::Failure(error(
                ErrorClass::InvalidArguments,
                "input_not_json",
                &call.input,
            ));
        };
        match call.tool.as_str() {
            "careless" if input.number("n") % 2 == 1 => panic!("an odd number came through"),
            "forgetful" => answer(json!({ "checks_seen": nosy::checks_seen() })),
            tool => answer(json!({ "ran": tool, "input": input.value() })),
        }
    }
}

impl validation::Guest for Validated {
    fn validate_values(tool: String, input: String) -> Result<(), ToolError> {
        let input = parse(&input)?;
        match tool.as_str() {
            "even" | "careless" if input.number("n") % 2 == 1 => Err(error(
                ErrorClass::InvalidArguments,
                "odd_number",
                "`n` must be even.",
            )),
            "nosy" => nosy::look_around(&input),
            "curious" => nosy::send(&input),
            "prepared" if std::fs::read(input.text("path")).is_ok() => Err(error(
                ErrorClass::ExecutionFailed,
                "read",
                "The value check read a file.",
            )),
            "check_spins" => spin(),
            "check_panics" => panic!("the value check gave up"),
            "forgetful" => {
                nosy::count_check();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn preflight(tool: String, input: String) -> Result<(), ToolError> {
        let input = parse(&input)?;
        match tool.as_str() {
            "even" if input.number("n") > 100 => Err(error(
                ErrorClass::SetupRequired,
                "number_too_large",
                "`n` above 100 needs a larger table, which is not set up.",
            )),
            "nosy" => nosy::look_around(&input),
            "curious" => nosy::send(&input),
            "prepared" => match std::fs::read_to_string(input.text("path")) {
                Ok(_) if std::fs::write(input.text("path"), "written").is_ok() => Err(error(
                    ErrorClass::ExecutionFailed,
                    "written",
                    "The preflight wrote a file.",
                )),
                Ok(text) if text == "ready" => Ok(()),
                Ok(_) => Err(error(
                    ErrorClass::SetupRequired,
                    "not_ready",
                    "The file does not say `ready`.",
                )),
                Err(cause) => Err(error(
                    ErrorClass::SetupRequired,
                    "not_found",
                    &cause.to_string(),
                )),
            },
            "preflight_spins" => spin(),
            "preflight_panics" => panic!("the preflight gave up"),
            _ => Ok(()),
        }
    }
}

fn parse(input: &str) -> Result<Input, ToolError> {
    Input::parse(input)
        .map_err(|cause| error(ErrorClass::InvalidArguments, "input_not_json", &cause))
}

fn spin() -> ! {
    loop {
        std::hint::spin_loop();
    }
}

fn error(class: ErrorClass, code: &str, message: &str) -> ToolError {
    ToolError {
        class,
        code: code.into(),
        message: message.into(),
        detail: None,
        retry_after_ms: None,
    }
}

fn answer(structured: Value) -> Outcome {
    Outcome::Success(Output {
        content: "[]".into(),
        structured: Some(structured.to_string()),
        ui_summary: None,
    })
}

export!(Validated);
