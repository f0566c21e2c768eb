//! A module of Amplifier. It answers as its arguments ask it to.

use std::time::Duration;

use serde_json::{Value, json};

wit_bindgen::generate!({
    path: "../../../host/sandbox/wit-foreign/amplifier",
    world: "tool-module",
});

use exports::amplifier::modules::tool::Guest;

struct Module;

impl Guest for Module {
    fn get_spec() -> Vec<u8> {
        let then = json!({ "enum": ["answer", "say", "refuse", "read", "flood", "panic", "spin", "sleep"] });
        let parameters = json!({ "type": "object", "properties": { "then": then, "text": { "type": "string" } } });
        let spec = json!({ "name": "ask", "description": "Answers as it is asked to", "parameters": parameters });
        spec.to_string().into_bytes()
    }

    fn execute(input: Vec<u8>) -> Result<Vec<u8>, String> {
        let input: Value = serde_json::from_slice(&input).map_err(|error| error.to_string())?;
        let text = input["text"].as_str().unwrap_or_default();
        let said = match input["then"].as_str().unwrap_or("answer") {
            "say" => text.to_owned(),
            "refuse" => return Err(text.to_owned()),
            "read" => {
                json!({ "output": { "read": std::fs::read_to_string(text).is_ok() } }).to_string()
            }
            "flood" => format!("{{\"output\": [\"{}\"]}}", "x".repeat(32 << 20)),
            "panic" => panic!("it was told to panic"),
            "spin" => spin(),
            "sleep" => {
                std::thread::sleep(Duration::from_secs(600));
                "{}".to_owned()
            }
            _ => json!({ "success": true, "output": { "input": input } }).to_string(),
        };
        Ok(said.into_bytes())
    }
}

fn spin() -> ! {
    loop {
        std::hint::spin_loop();
    }
}

export!(Module);
