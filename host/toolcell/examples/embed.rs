//! Calls a tool under a grant and a limit. Without arguments, the tool is the smallest of the tests, which returns its
//! input:
//!
//! `cargo run --example embed [COMPONENT [INPUT]]`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use toolcell::{GrantWord, Host, Limits, Request};

const ECHO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/guests/wat/echo.wat"
);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    toolcell::compile_if_asked();
    let mut arguments = std::env::args().skip(1);
    let component = wat::parse_file(arguments.next().unwrap_or_else(|| ECHO.to_owned()))?;
    let input = arguments
        .next()
        .unwrap_or_else(|| r#"{"hello": "world"}"#.to_owned());
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(async {
            let host = Host::builder().build()?;
            let loaded = host.load(&component).await?;
            let tool = loaded
                .tools
                .first()
                .ok_or("the component has no tool")?
                .declaration()
                .qualified_name();
            let limits = Limits {
                wall: Duration::from_secs(1),
                ..Limits::default()
            };
            let request = Request::new(tool, input.as_str())
                .grant(GrantWord::Read, ".")?
                .limits(limits);
            let result = host.call(request).await.result;
            println!(
                "{}",
                result
                    .error
                    .as_ref()
                    .map_or_else(|| result.text(), |error| error.message.clone())
            );
            Ok(())
        })
}
