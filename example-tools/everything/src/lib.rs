//! One small tool for each kind of answer that a tool can give. The names, arguments and answers are those that the
//! official MCP conformance suite expects of the server under test.

mod questions;
mod schema;
mod signals;
mod tasks;

use toolcell_guest::{Content, Output, ToolError, data, tool, toolkit};

/// One red pixel.
const PIXEL: &[u8] = include_bytes!("pixel.png");
/// A millisecond of silence.
const SILENCE: &[u8] = include_bytes!("silence.wav");

/// Answers with one line of text.
#[tool(read_only, concurrency_safe)]
fn test_simple_text() -> String {
    "This is a simple text response for testing.".to_owned()
}

/// Answers with an image: one red pixel.
#[tool(read_only, concurrency_safe, content = ["image"])]
fn test_image_content() -> Output {
    Output::new().block(pixel())
}

/// Answers with sound: a millisecond of silence.
#[tool(read_only, concurrency_safe, content = ["audio"])]
fn test_audio_content() -> Output {
    Output::new().block(Content::audio("audio/wav", SILENCE))
}

/// Answers with a text that has an address of its own.
#[tool(read_only, concurrency_safe, content = ["embedded_resource"])]
fn test_embedded_resource() -> Output {
    Output::new().block(Content::embedded_resource(
        "test://embedded-resource",
        "text/plain",
        "This is an embedded resource content.",
    ))
}

/// Answers with a text, an image and a resource.
#[tool(read_only, concurrency_safe, content = ["text", "image", "embedded_resource"])]
fn test_multiple_content_types() -> Output {
    Output::new()
        .text("Multiple content types test:")
        .block(pixel())
        .block(Content::embedded_resource(
            "test://mixed-content-resource",
            "application/json",
            r#"{"test":"data","value":123}"#,
        ))
}

/// Fails, always.
#[tool(read_only, concurrency_safe)]
fn test_error_handling() -> Result<String, ToolError> {
    Err(ToolError::execution_failed(
        "intentional",
        "This tool intentionally returns an error for testing",
    ))
}

#[data]
struct Routed {
    /// Where the call belongs. A client repeats it in the header `Mcp-Param-Region`.
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
}

/// Answers with the region that it was called for, which HTTP clients also say in a header of their request.
#[tool(read_only, concurrency_safe)]
fn test_parameter_in_header(input: Routed) -> String {
    format!("called for {}", input.region)
}

fn pixel() -> Content {
    Content::image("image/png", PIXEL)
}

toolkit! {
    namespace: "everything",
    tools: [
        test_simple_text,
        test_image_content,
        test_audio_content,
        test_embedded_resource,
        test_multiple_content_types,
        test_error_handling,
        test_parameter_in_header,
        schema::json_schema_2020_12_tool,
        signals::test_tool_with_logging,
        signals::test_logging_tool,
        signals::test_tool_with_progress,
        questions::test_elicitation,
        questions::test_elicitation_sep1034_defaults,
        questions::test_elicitation_sep1330_enums,
        questions::test_input_required_result_elicitation,
        questions::test_input_required_result_request_state,
        questions::test_input_required_result_multi_round,
        questions::test_input_required_result_tampered_state,
        questions::test_streaming_elicitation,
        tasks::greet,
        tasks::slow_compute,
        tasks::failing_job,
        tasks::protocol_error_job,
        tasks::confirm_delete,
        tasks::multi_input,
        tasks::test_tool_with_task,
    ]
}

#[cfg(test)]
mod tests;
