//! Runs bash scripts over granted files. Tools that the call may call are commands of the script.

mod arguments;
mod curl;
mod folder;
mod granted;
mod help;
mod limits;
mod pace;
mod run;
mod stream;
mod tree;

#[cfg(test)]
mod tests;

use toolcell_guest::{Output, ToolError, data, tool, toolkit};

#[data]
struct Script {
    /// Bash code: pipes, loops, functions, here-documents, globs, `set -e`. Relative paths start at the working directory.
    #[schemars(length(min = 1, max = 1_000_000))]
    script: String,
    /// The positional parameters `$1`, `$2`, ..
    #[serde(default)]
    args: Vec<String>,
    /// The standard input of the script.
    #[serde(default)]
    stdin: String,
}

#[data]
struct Ran {
    /// 0 for success. Any other value is the script's own, as in bash.
    exit_code: i32,
    /// The first 16 KB. The text of the answer has 100 KB, and the artifact `stdout.txt` all of a longer stream.
    stdout: String,
    /// The first 16 KB, like `stdout`.
    stderr: String,
    /// The bytes that the script wrote to standard output, if `stdout` has fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stdout_bytes: Option<u64>,
    /// The bytes that the script wrote to standard error, if `stderr` has fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stderr_bytes: Option<u64>,
}

/// Runs a bash script in a sandbox: cat, grep, sed, awk, sort, find, xargs, jq, tar and some 150 other commands.
///
/// It reads granted folders, and changes files in the workspace and in /tmp. No state but files is kept between calls.
/// Tools that the call may call are commands: `NAME KEY=VALUE ..`; `help` lists them. A non-zero exit code is an answer, not an error.
#[tool(
    title = "Run a shell script",
    search_hint = "bash shell script command line pipe grep awk sed files",
    kind = "code_execution",
    access = ["file_read", "file_write"],
    write_effects = ["local_draft"],
    tool_calls = ["*"],
    risk = "medium",
    content = ["text", "artifact_ref"],
    validate = is_bash
)]
fn shell(input: Script) -> Result<Output<Ran>, ToolError> {
    run::run(&input)
}

/// Runs a bash script that changes files in granted folders. Otherwise like `shell`.
#[tool(
    title = "Run a shell script that changes files",
    search_hint = "bash shell script write edit files folders",
    kind = "code_execution",
    access = ["file_read", "file_write"],
    write_effects = ["local_draft", "local_persistent"],
    tool_calls = ["*"],
    risk = "medium",
    content = ["text", "artifact_ref"],
    validate = is_bash
)]
fn shell_writing(input: Script) -> Result<Output<Ran>, ToolError> {
    run::run(&input)
}

/// Runs a bash script that sends web requests with `curl`. Otherwise like `shell`.
#[tool(
    title = "Run a shell script that sends requests",
    search_hint = "bash shell script curl http request download",
    kind = "code_execution",
    access = ["file_read", "file_write", "network"],
    write_effects = ["local_draft", "remote_mutation"],
    network_scope = "any",
    tool_calls = ["*"],
    risk = "medium",
    open_world,
    content = ["text", "artifact_ref"],
    validate = is_bash
)]
fn shell_online(input: Script) -> Result<Output<Ran>, ToolError> {
    run::run(&input)
}

/// Refuses what bash cannot parse, before an approver is asked and before any command runs.
fn is_bash(input: &Script) -> Result<(), ToolError> {
    run::parse(&input.script)
}

toolkit! { namespace: "shell", tools: [shell, shell_writing, shell_online] }
