//! Calls a tool under a grant and a limit. Without arguments, the tool is the smallest of the tests, which returns its
//! input:
//!
//! `cargo run --example embed [COMPONENT [INPUT]]`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use serde_json::Value;
use toolcell::{GrantWord, Host, Limits, Request};

const ECHO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/guests/wat/echo.wat"
);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    toolcell::compile_if_asked();
    let mut arguments = std::env::args().skip(1);
    let component = wat::parse_file(arguments.next().as_deref().unwrap_or(ECHO))?;
    let input = arguments.next();
    let host = Host::in_memory().build()?;
    let loaded = host.load(&component).await?;
    let tool = loaded.tools.first().ok_or("the component has no tool")?;
    let limits = Limits {
        wall: Duration::from_secs(1),
        ..Limits::default()
    };
    let input = input.as_deref().unwrap_or(r#"{"hello": "world"}"#);
    let request = Request::new(tool.declaration().qualified_name(), input)
        .grant(GrantWord::Read, ".")?
        .limits(limits);
    let record = host.call(request).await;
    match record.output::<Value>() {
        Ok(output) => println!("{output}"),
        Err(error) => println!("{error}"),
    }
    Ok(())
}
