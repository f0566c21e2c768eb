//! A component that takes settings, and does what they say when it gets them.

use std::sync::Mutex;

use fixture::{Access, Tool, Toolkit};
use serde_json::{Value, json};

wit_bindgen::generate!({
    inline: "
        package toolcell:test-guests;
        world configured {
            include toolcell:tool/tool@0.2.0;
            include toolcell:tool/configuring@0.2.0;
        }
    ",
    path: "../../../wit",
    generate_all,
});

use exports::toolcell::tool::configuration;
use exports::toolcell::tool::guest::{self, Call, Outcome, Output};
use toolcell::tool::types::{ErrorClass, ToolError};

/// Every text that `configure` got in this instance.
static GIVEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Configured;

impl guest::Guest for Configured {
    fn describe() -> String {
        let plain = |name, description| Tool::new(name, Access::Nothing, description);
        Toolkit::new("configured")
            .with([
                plain("settings", "Answers the settings that it got"),
                plain("settings_2", "Answers the settings that it got, too"),
                plain(
                    "settings_approved",
                    "Answers the settings that it got, after an approval",
                )
                .permits("approval_required", true),
            ])
            .to_json()
    }

    fn invoke(call: Call) -> Outcome {
        let given = GIVEN.lock().unwrap().clone();
        let structured = json!({ "tool": call.tool, "given": given, "attempt": call.attempt });
        Outcome::Success(Output {
            content: "[]".into(),
            structured: Some(structured.to_string()),
            ui_summary: None,
        })
    }
}

impl configuration::Guest for Configured {
    fn configure(config: String) -> Result<(), ToolError> {
        let settings: Value = serde_json::from_str(&config).unwrap_or_default();
        GIVEN.lock().unwrap().push(config);
        match settings["then"].as_str() {
            Some("refuse") => Err(ToolError {
                class: ErrorClass::RateLimited,
                code: "unit_unknown".into(),
                message: "cannot use the unit: it is unknown".into(),
                detail: None,
                retry_after_ms: None,
            }),
            Some("spin") => loop {
                std::hint::spin_loop();
            },
            Some("panic") => panic!("the settings were too much"),
            _ => Ok(()),
        }
    }
}

export!(Configured);
