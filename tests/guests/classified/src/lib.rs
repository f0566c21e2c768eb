//! A component that classifies its inputs. It makes the claim that the input asks for, true or false, and then writes a
//! file, so that a test can compare the claim with what the host allowed.

use fixture::{Access, Input, Tool, Toolkit};
use serde_json::{Value, json};

wit_bindgen::generate!({
    inline: "
        package toolcell:test-guests;
        world classified {
            include toolcell:tool/tool@0.2.0;
            include toolcell:tool/classifying@0.2.0;
        }
    ",
    path: "../../../wit",
    generate_all,
});

use exports::toolcell::tool::classification::{self, Claim, Facts};
use exports::toolcell::tool::guest::{self, Call, Outcome, Output};
use toolcell::tool::types::{ErrorClass, ToolError};

struct Classified;

impl guest::Guest for Classified {
    fn describe() -> String {
        let tool = |name, access, description| {
            let claim = json!({ "enum": ["yes", "no", "unstated"] });
            Tool::new(name, access, description).input(
                json!({
                    "path": { "type": "string" },
                    "text": { "type": "string" },
                    "read_only": claim,
                    "concurrency_safe": claim,
                    "destructive": claim,
                    "open_world": claim,
                }),
                &[],
            )
        };
        let plain = |name, description| Tool::new(name, Access::Nothing, description);
        Toolkit::new("classified")
            .with([
                tool(
                    "writer",
                    Access::DestroysFiles,
                    "Declares that it writes; a claim may narrow it",
                ),
                tool(
                    "reader",
                    Access::ReadsFiles,
                    "Declares that it reads; no claim may widen it",
                ),
                tool(
                    "unstated",
                    Access::Unstated,
                    "Declares nothing; its claims come late",
                ),
                tool(
                    "in_part",
                    Access::DestroysFiles,
                    "Like writer; it classifies two of its arguments alone",
                )
                .claims("classifier_input", json!(["read_only", "/open_world"])),
                plain("classify_spins", "Its classification never returns"),
                plain("classify_panics", "Its classification traps"),
            ])
            .to_json()
    }

    fn invoke(call: Call) -> Outcome {
        match Input::parse(&call.input) {
            Ok(input) => answer(match input.given("path") {
                Some(path) => write(path, input.text("text")),
                None => json!({ "ran": call.tool }),
            }),
            Err(error) => Outcome::Failure(ToolError {
                class: ErrorClass::InvalidArguments,
                code: "input_not_json".into(),
                message: error,
                detail: None,
                retry_after_ms: None,
            }),
        }
    }
}

impl classification::Guest for Classified {
    fn classify(tool: String, input: String) -> Facts {
        match tool.as_str() {
            "classify_spins" => loop {
                std::hint::spin_loop();
            },
            "classify_panics" => panic!("the classification gave up"),
            _ => {}
        }
        let input = Input::parse(&input);
        let claim = |fact: &str| match input.as_ref().map(|input| input.text(fact)) {
            Ok("yes") => Claim::Yes,
            Ok("no") => Claim::No,
            _ => Claim::Unstated,
        };
        Facts {
            read_only: claim("read_only"),
            concurrency_safe: claim("concurrency_safe"),
            destructive: claim("destructive"),
            open_world: claim("open_world"),
        }
    }
}

/// A file system error is an answer, so that the test sees the error of the guest.
fn write(path: &str, text: &str) -> Value {
    match std::fs::write(path, text) {
        Ok(()) => json!({ "ok": true }),
        Err(error) => json!({ "ok": false, "error": error.to_string() }),
    }
}

fn answer(structured: Value) -> Outcome {
    Outcome::Success(Output {
        content: "[]".into(),
        structured: Some(structured.to_string()),
        ui_summary: None,
    })
}

export!(Classified);
