//! Runs a jq filter on JSON. It is a pure computation and needs no grant.

mod convert;
mod filter;

use toolcell_guest::{Output, ToolError, data, serde_json::Value, tool, toolkit};

/// Maximum size of all outputs, in bytes of JSON. More would not fit into a conversation.
const BYTES_MAX: usize = 1 << 20;

#[data]
struct Query {
    /// The filter, in the language of jq, such as `.items[] | select(.price > 10) | .name`.
    filter: String,
    /// The JSON input of the filter.
    #[serde(default)]
    input: Value,
    /// At most so many outputs.
    #[serde(default = "outputs_max")]
    #[schemars(range(min = 1, max = 10_000))]
    max_outputs: u32,
}

fn outputs_max() -> u32 {
    1000
}

#[data]
struct Answer {
    /// Every output of the filter, in order.
    outputs: Vec<Value>,
    /// True if outputs were dropped because of a limit.
    truncated: bool,
}

/// Runs a jq filter on a JSON value and returns its outputs.
///
/// Supports the jq language except modules, `input` and the environment.
#[tool(search_hint = "jq filter query transform JSON", read_only, concurrency_safe, content = ["text"])]
fn jq(query: Query) -> Result<Output<Answer>, ToolError> {
    let mut answer = Answer {
        outputs: Vec::new(),
        truncated: false,
    };
    let mut bytes = 0;
    let end = filter::run(&query.filter, &query.input, &mut |output| {
        bytes += output.to_string().len();
        answer.truncated = bytes > BYTES_MAX || answer.outputs.len() == query.max_outputs as usize;
        if !answer.truncated {
            answer.outputs.push(output);
        }
        !answer.truncated
    });
    if answer.outputs.is_empty() {
        end?;
        if answer.truncated {
            return Err(ToolError::result_too_large(
                "output_too_large",
                format!(
                    "the first output is larger than {BYTES_MAX} bytes of JSON; let the filter choose less"
                ),
            ));
        }
        return Ok(render(answer));
    }
    let output = render(answer);
    Ok(match end {
        Ok(()) => output,
        Err(error) => output.partial_failure(error),
    })
}

/// One output per line, as jq prints them.
fn render(answer: Answer) -> Output<Answer> {
    let mut lines: Vec<String> = answer.outputs.iter().map(Value::to_string).collect();
    if answer.truncated {
        lines.push(format!(
            "(cut after {} outputs: the limits are reached)",
            answer.outputs.len()
        ));
    }
    Output::new().text(lines.join("\n")).structured(answer)
}

toolkit! { namespace: "jq", tools: [jq] }

#[cfg(test)]
mod tests;
