//! The builtin tools of managed agents (`agent_toolset_20260401`) as calls of the tools `shell` and `files`.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::answer::AnswerForm;

/// Of any call.
pub(super) const TIME_MAX: Duration = Duration::from_secs(150);
const BASH_TIME: Duration = Duration::from_secs(120);
/// In bytes.
const OUTPUT_MAX: usize = 100 << 10;
pub(super) const TEXT_MAX: usize = 256 << 10;
const GLOB_RESULTS_MAX: u32 = 200;
const GREP_MATCHES_MAX: u32 = 5000;

/// The shell's state after a command, for the next one: it runs in a sandbox of its own, which keeps files alone.
const STATE: &str = "/workspace/.toolcell_bash";

/// The tools that bash can be: of several, the first.
pub(super) const SHELLS: [&str; 3] = ["shell.shell", "shell.shell_writing", "shell.shell_online"];
pub(super) const FILES: &str = "files.read";

/// A call of a tool.
#[derive(Debug, PartialEq)]
pub(super) struct PlannedCall {
    /// Qualified name, or the name by which a custom tool is known.
    pub(super) tool: String,
    pub(super) input: Value,
    pub(super) time: Duration,
    pub(super) form: AnswerForm,
}

impl PlannedCall {
    fn new(tool: &str, input: Value) -> Self {
        Self {
            tool: tool.to_owned(),
            input,
            time: TIME_MAX,
            form: AnswerForm::Text(TEXT_MAX),
        }
    }

    pub(super) fn custom(tool: &str, input: &Map<String, Value>) -> Self {
        Self::new(tool, Value::Object(input.clone()))
    }
}

pub(super) fn is_builtin(name: &str) -> bool {
    ["bash", "read", "write", "edit", "glob", "grep"].contains(&name)
}

/// The call of the builtin tool `name`; `shell` is the tool that bash is.
///
/// # Errors
///
/// Why the model's input is not one of this tool.
pub(super) fn plan(
    name: &str,
    input: &Map<String, Value>,
    shell: &str,
) -> Result<PlannedCall, String> {
    match name {
        "bash" => bash(read_input(name, input)?, shell),
        "read" => read(read_input(name, input)?),
        "write" => {
            let Write { file_path, content } = read_input(name, input)?;
            let input = json!({ "path": file_path, "text": content });
            Ok(PlannedCall::new("files.write", input))
        }
        "edit" => {
            let edit: Edit = read_input(name, input)?;
            let all = edit.replace_all.unwrap_or(false);
            let edits = json!([{ "old": edit.old_string, "new": edit.new_string, "all": all }]);
            let input = json!({ "path": edit.file_path, "edits": edits });
            Ok(PlannedCall::new("files.edit", input))
        }
        "glob" => {
            let Search { pattern, path } = read_input(name, input)?;
            let input = json!({ "path": here(path), "pattern": pattern, "max": GLOB_RESULTS_MAX });
            Ok(PlannedCall::new("files.list", input))
        }
        _ => {
            let Search { pattern, path } = read_input(name, input)?;
            let input =
                json!({ "path": here(path), "pattern": pattern, "max_matches": GREP_MATCHES_MAX });
            Ok(PlannedCall {
                form: AnswerForm::Text(OUTPUT_MAX),
                ..PlannedCall::new("files.search", input)
            })
        }
    }
}

#[derive(Deserialize)]
struct Bash {
    command: Option<String>,
    restart: Option<bool>,
    timeout_ms: Option<u64>,
}

#[derive(Deserialize)]
struct ReadInput {
    file_path: String,
    view_range: Option<Vec<i64>>,
}

#[derive(Deserialize)]
struct Write {
    file_path: String,
    content: String,
}

#[derive(Deserialize)]
struct Edit {
    file_path: String,
    old_string: String,
    new_string: String,
    replace_all: Option<bool>,
}

#[derive(Deserialize)]
struct Search {
    pattern: String,
    path: Option<String>,
}

fn read_input<T: DeserializeOwned>(name: &str, input: &Map<String, Value>) -> Result<T, String> {
    serde_json::from_value(Value::Object(input.clone())).map_err(|error| format!("{name}: {error}"))
}

/// Models send an empty text for what they leave out.
fn here(path: Option<String>) -> String {
    path.filter(|path| !path.is_empty())
        .unwrap_or_else(|| ".".to_owned())
}

fn bash(input: Bash, shell: &str) -> Result<PlannedCall, String> {
    let script = match input.command {
        _ if input.restart == Some(true) => format!("rm -f {STATE}; echo 'the shell starts anew'"),
        Some(command) if !command.trim().is_empty() => with_state(&command),
        _ => return Err("bash: `command` is required".to_owned()),
    };
    let asked = input.timeout_ms.filter(|millis| *millis > 0);
    let time = asked.map_or(BASH_TIME, Duration::from_millis);
    Ok(PlannedCall {
        time: time.min(TIME_MAX),
        form: AnswerForm::Bash(OUTPUT_MAX),
        ..PlannedCall::new(shell, json!({ "script": script }))
    })
}

/// In front of the command and in its first line, so that the lines of errors are those of the command.
fn with_state(command: &str) -> String {
    format!(
        "[ -r {STATE} ] && . {STATE}; trap '{{ export -p; declare -f; printf \"cd %q\\n\" \"$PWD\"; }} >{STATE}' EXIT; {command}"
    )
}

fn read(input: ReadInput) -> Result<PlannedCall, String> {
    let (first, last) = match input.view_range.as_deref() {
        None | Some([]) => (1, 0),
        Some([first, last]) => (*first, *last),
        Some(_) => return Err("read: `view_range` is [start_line, end_line]".to_owned()),
    };
    let first = first.max(1);
    // An end of 0 or less is the end of the file.
    let lines = match last {
        ..=0 => i64::from(u32::MAX),
        last if last < first => return Err("read: `view_range` ends before it starts".to_owned()),
        last => last - first + 1,
    };
    let input =
        json!({ "path": input.file_path, "unit": "lines", "offset": first, "limit": lines });
    Ok(PlannedCall {
        form: AnswerForm::Part(TEXT_MAX),
        ..PlannedCall::new("files.read", input)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::{BASH_TIME, PlannedCall, TIME_MAX, plan};

    fn planned(name: &str, input: &Value) -> Result<PlannedCall, String> {
        plan(name, input.as_object().unwrap(), "shell.shell")
    }

    #[test]
    fn inputs_become_those_of_the_tools() {
        for (name, input, tool, expected) in [
            (
                "read",
                json!({ "file_path": "a", "view_range": null }),
                "files.read",
                json!({ "path": "a", "unit": "lines", "offset": 1, "limit": u32::MAX }),
            ),
            (
                "read",
                json!({ "file_path": "a", "view_range": [3, 5] }),
                "files.read",
                json!({ "path": "a", "unit": "lines", "offset": 3, "limit": 3 }),
            ),
            (
                "read",
                json!({ "file_path": "a", "view_range": [-3, -1] }),
                "files.read",
                json!({ "path": "a", "unit": "lines", "offset": 1, "limit": u32::MAX }),
            ),
            (
                "write",
                json!({ "file_path": "a", "content": "" }),
                "files.write",
                json!({ "path": "a", "text": "" }),
            ),
            (
                "edit",
                json!({ "file_path": "a", "old_string": "b", "new_string": "c" }),
                "files.edit",
                json!({ "path": "a", "edits": [{ "old": "b", "new": "c", "all": false }] }),
            ),
            (
                "glob",
                json!({ "pattern": "*.rs" }),
                "files.list",
                json!({ "path": ".", "pattern": "*.rs", "max": 200 }),
            ),
            (
                "grep",
                json!({ "pattern": "x", "path": "src" }),
                "files.search",
                json!({ "path": "src", "pattern": "x", "max_matches": 5000 }),
            ),
        ] {
            let planned = planned(name, &input).unwrap();
            assert_eq!(
                (planned.tool.as_str(), planned.input),
                (tool, expected),
                "{input}"
            );
        }
    }

    #[test]
    fn a_wrong_input_says_what_is_wrong() {
        for (name, input, why) in [
            ("bash", json!({}), "bash: `command` is required"),
            (
                "bash",
                json!({ "command": " ", "restart": false }),
                "bash: `command` is required",
            ),
            ("read", json!({ "file_path": 7 }), "read: invalid type"),
            (
                "read",
                json!({ "file_path": "a", "view_range": [1] }),
                "read: `view_range` is",
            ),
            (
                "read",
                json!({ "file_path": "a", "view_range": [5, 3] }),
                "ends before it starts",
            ),
            (
                "grep",
                json!({ "path": "a" }),
                "grep: missing field `pattern`",
            ),
        ] {
            let error = planned(name, &input).unwrap_err();
            assert!(error.contains(why), "{input}: {error}");
        }
    }

    #[test]
    fn a_command_has_its_time_and_at_most_that_of_any_tool() {
        let time = |millis: Value| {
            let input = json!({ "command": "true", "timeout_ms": millis });
            planned("bash", &input).unwrap().time
        };
        assert_eq!(time(json!(null)), BASH_TIME);
        assert_eq!(time(json!(0)), BASH_TIME);
        assert_eq!(time(json!(1500)), Duration::from_millis(1500));
        assert_eq!(time(json!(u64::MAX)), TIME_MAX);
    }
}
