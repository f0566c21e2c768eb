//! Asks on the terminal before a tool runs:
//!
//! `cargo run --example approve`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use toolcell::record::Mode;
use toolcell::{Approver, Host, Policy, Prompt, Provenance, Reply, Request, Rule, RuleWords};

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

fn main() -> Result<(), Box<dyn std::error::Error>> {
    toolcell::compile_if_asked();
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(async {
            let host = Host::builder().approver(Arc::new(Terminal)).build()?;
            let loaded = host.load(&wat::parse_file(ECHO)?).await?;
            let tool = loaded
                .tools
                .first()
                .ok_or("the component has no tool")?
                .declaration()
                .qualified_name();
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
            let result = host
                .call(Request::new(tool, r#"{"hello": "world"}"#).policy(policy))
                .await
                .result;
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
