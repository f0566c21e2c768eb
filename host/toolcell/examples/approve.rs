//! Asks on the terminal before a tool runs:
//!
//! `cargo run --example approve`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;
use toolcell::{Approver, Host, Mode, Policy, Prompt, Provenance, Reply, Request, Rule, RuleWords};

const ECHO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/guests/wat/echo.wat"
);

/// Approves what the user answers with `y`.
struct Terminal;

impl Approver for Terminal {
    fn principal(&self) -> &str {
        "user"
    }

    fn channel(&self) -> &str {
        "terminal"
    }

    fn ask<'a>(
        &'a self,
        prompt: &'a Prompt,
    ) -> Pin<Box<dyn Future<Output = Option<Reply>> + Send + 'a>> {
        Box::pin(async move {
            println!("{}\nRun it? [y/N]", prompt.text());
            let mut line = String::new();
            std::io::stdin().read_line(&mut line).ok()?;
            Some(Reply {
                approved: line.trim() == "y",
                ..Reply::default()
            })
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    toolcell::compile_if_asked();
    let host = Host::in_memory().approver(Arc::new(Terminal)).build()?;
    let loaded = host.load(&wat::parse_file(ECHO)?).await?;
    let tool = loaded.tools.first().ok_or("the component has no tool")?;
    let tool = tool.declaration().qualified_name();
    let ask = RuleWords {
        behavior: "ask",
        tool: Some(&tool),
        reason: Some("an example"),
        ..RuleWords::default()
    };
    let policy = Policy::new(
        Mode::Default,
        vec![Rule::compile(&ask, &Provenance::COMMAND_LINE)?],
    );
    let request = Request::new(tool, r#"{"hello": "world"}"#).policy(policy);
    let record = host.call(request).await;
    match record.output::<Value>() {
        Ok(output) => println!("{output}"),
        Err(error) => println!("{error}"),
    }
    Ok(())
}
