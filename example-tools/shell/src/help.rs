//! `help`: the granted tools, and the commands of the shell.

use bashkit::{Builtin, BuiltinContext, ExecResult, Result, async_trait};

use crate::granted::Granted;

/// Characters of a description in the list.
const LINE_CHARS_MAX: usize = 100;

pub(crate) struct Help {
    tools: Vec<Granted>,
    own: Vec<String>,
}

impl Help {
    pub(crate) fn new(tools: Vec<Granted>, own: Vec<String>) -> Self {
        let mut own: Vec<String> = own
            .into_iter()
            .filter(|name| name.starts_with(|first: char| first.is_ascii_alphabetic()))
            .collect();
        own.sort();
        Self { tools, own }
    }

    fn list(&self) -> String {
        let mut text = String::new();
        if self.tools.is_empty() {
            text.push_str("No tools were granted to this call.\n");
        } else {
            text.push_str("Tools, called with NAME=VALUE .., or with one JSON object (--json first: the structured answer):\n");
        }
        for tool in &self.tools {
            let names = tool.commands.join(", ");
            let first: String = tool
                .description
                .lines()
                .next()
                .unwrap_or_default()
                .chars()
                .take(LINE_CHARS_MAX)
                .collect();
            text.push_str(&format!("  {names}  {first}\n"));
        }
        text.push_str(
            "`help NAME` shows the whole description of a tool.\nCommands of the shell:\n",
        );
        text.push_str(&self.own.join(" "));
        text.push('\n');
        text
    }
}

#[async_trait]
impl Builtin for Help {
    async fn execute(&self, ctx: BuiltinContext<'_>) -> Result<ExecResult> {
        let mut words = ctx.args.iter().filter(|word| *word != "--");
        let Some(name) = words.next() else {
            return Ok(ExecResult::ok(self.list()));
        };
        if let Some(tool) = self.tools.iter().find(|tool| tool.commands.contains(name)) {
            return Ok(ExecResult::ok(format!(
                "{}: {}\n",
                tool.name, tool.description
            )));
        }
        Ok(if self.own.contains(name) {
            ExecResult::ok(format!(
                "{name} is a command of the shell: `{name} --help` or `man {name}` may say more\n"
            ))
        } else {
            ExecResult::err(format!("help: no help topics match `{name}`\n"), 1)
        })
    }
}
