use serde_json::{Value, json};
use strum::IntoStaticStr;
use toolcell_spec::{ErrorClass, ToolError, ToolInvocation, ToolResult};

use super::content::{AmplifierBlock, block};
use crate::{block as shared, hint_without_loading};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AmplifierMode {
    /// The contract's page: `output` and `error` are texts.
    Seed,
    /// `amplifier-core` 2.0: `output` is any value, `error` an object, and `content` has images.
    Upstream,
}

/// `error.type`: the three words that Amplifier has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum ErrorType {
    Execution,
    Validation,
    Timeout,
}

/// As in requirements 3.4.
pub fn error_type(class: ErrorClass) -> ErrorType {
    use ErrorClass::{
        InvalidArguments, SchemaNotLoaded, SchemaValidationFailed, Timeout, UnknownTool,
    };
    match class {
        UnknownTool | InvalidArguments | SchemaValidationFailed | SchemaNotLoaded => {
            ErrorType::Validation
        }
        Timeout => ErrorType::Timeout,
        _ => ErrorType::Execution,
    }
}

/// An error's `output` says class, code and hint, because a model sees nothing else (requirements 1.37, 3.3).
pub fn result(invocation: &ToolInvocation, result: &ToolResult, mode: AmplifierMode) -> Value {
    let shown = ModelView::from_result(result);
    let metadata = metadata(invocation, result, &shown);
    match mode {
        AmplifierMode::Seed => json!({
            "success": !result.is_error,
            "output": shown.text(),
            "error": shown.error,
            "metadata": metadata,
        }),
        AmplifierMode::Upstream => {
            let mut answer = json!({
                "success": !result.is_error,
                "output": shown.value(),
                "error": result.error.as_ref().map(facts),
                "metadata": metadata,
            });
            if let (Some(content), Some(fields)) = (shown.content(), answer.as_object_mut()) {
                fields.insert("content".to_owned(), content);
            }
            answer
        }
    }
}

struct ModelView<'a> {
    value: Option<&'a Value>,
    blocks: Vec<AmplifierBlock>,
    context: Vec<String>,
    error: Option<String>,
}

impl<'a> ModelView<'a> {
    fn from_result(result: &'a ToolResult) -> Self {
        let blocks: Vec<AmplifierBlock> = shared::output(result).iter().map(block).collect();
        let no_context = result.additional_context.is_empty();
        Self {
            value: result
                .structured_content
                .as_ref()
                .filter(|value| no_context && is_all_said(value, &blocks)),
            blocks,
            context: shared::context(result).collect(),
            error: result.error.as_ref().map(line),
        }
    }

    /// JSON of a value, as in `get_serialized_output` of `amplifier-core`.
    fn text(&self) -> Option<String> {
        let mut texts: Vec<String> = match self.value {
            Some(value) => vec![value.to_string()],
            None => self.blocks.iter().map(AmplifierBlock::to_text).collect(),
        };
        texts.extend(self.context.iter().cloned());
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    fn value(&self) -> Value {
        if let Some(value) = self.value {
            return value.clone();
        }
        let texts: Vec<String> = self.text().into_iter().chain(self.error.clone()).collect();
        if texts.is_empty() {
            Value::Null
        } else {
            texts.join("\n").into()
        }
    }

    /// Given where `output` alone is incomplete: it holds no image, and no error next to a value.
    fn content(&self) -> Option<Value> {
        let says_more = self.value.is_some() && self.error.is_some();
        if !says_more && !self.blocks.iter().any(AmplifierBlock::is_image) {
            return None;
        }
        let value = self
            .value
            .filter(|_| self.blocks.iter().all(AmplifierBlock::is_image))
            .map(Value::to_string);
        let texts = |texts: Vec<String>| {
            texts
                .into_iter()
                .map(|text| AmplifierBlock::Text(text).to_value())
        };
        let after: Vec<String> = self.context.iter().chain(&self.error).cloned().collect();
        let blocks = self.blocks.iter().map(AmplifierBlock::to_value);
        Some(
            texts(value.into_iter().collect())
                .chain(blocks)
                .chain(texts(after))
                .collect(),
        )
    }
}

/// Returns whether the only text is the host's copy of the value. A tool's own text is for a model: a file's lines,
/// next to a value with their number.
fn is_all_said(value: &Value, blocks: &[AmplifierBlock]) -> bool {
    let mut texts = blocks.iter().filter_map(|block| match block {
        AmplifierBlock::Text(text) => Some(text),
        AmplifierBlock::Image { .. } => None,
    });
    match (texts.next(), texts.next()) {
        (None, _) => true,
        (Some(text), None) => {
            let copy = value.to_string();
            copy == *text
        }
        (Some(_), Some(_)) => false,
    }
}

fn line(error: &ToolError) -> String {
    let class = error.error_class.as_str();
    let hint = hint_without_loading(error.error_class);
    format!("{} [{class}/{}]\n{hint}", error.message, error.error_code)
}

/// Omits the underlying error and developers' detail, which are not for a model.
fn facts(error: &ToolError) -> Value {
    json!({
        "message": error.message,
        "type": error_type(error.error_class).into_str(),
        "class": error.error_class,
        "code": error.error_code,
        "hint": hint_without_loading(error.error_class),
        "recoverability": error.recoverability,
        "retry_after": error.retry_after,
    })
}

/// Data that Amplifier lacks (AM-10).
fn metadata(invocation: &ToolInvocation, result: &ToolResult, shown: &ModelView<'_>) -> Value {
    let duration = invocation
        .started_at()
        .zip(invocation.ended_at())
        .map(|(start, end)| end.millis_since(start));
    json!({
        "invocation_id": result.invocation_id,
        "tool_id": invocation.tool_id,
        "tool_call_id": invocation.native_call_id,
        "status": result.status,
        "duration_ms": duration,
        "structured_content": result.structured_content.as_ref().filter(|_| shown.value.is_none()),
        "empty_result": result.empty_result,
        "redaction_state": result.redaction_state,
        "artifact_refs": result.artifact_refs,
        "resource_refs": result.resource_refs,
        "persistence_refs": result.persistence_refs,
        "context_modifiers": result.context_modifiers,
        "provenance": result.provenance,
    })
}

#[cfg(test)]
mod tests {
    use rmcp::model::ProtocolVersion;
    use serde_json::{Value, json};
    use toolcell_spec::{ErrorClass, ErrorCode, Input, Refusal, ToolInvocation, ToolResult};

    use super::{AmplifierMode, result};
    use crate::mcp::call_result;
    use crate::parts::samples;

    fn record(change: Value) -> ToolResult {
        let mut said = json!({ "model_facing_content": [{ "type": "text", "text": "t" }] });
        said.as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        samples::result(said)
    }

    fn mapped(change: Value, mode: AmplifierMode) -> Value {
        let mut invocation = ToolInvocation::planned("files.read", &Input::from_text("{}"));
        invocation.native_call_id = Some("call-1".to_owned());
        result(&invocation, &record(change), mode)
    }

    fn failed(class: ErrorClass, change: Value) -> Value {
        let error = Refusal::new(ErrorCode::TooManyCalls, "the message")
            .with_class(class)
            .detail("/etc/hidden")
            .native(json!("a trap"));
        let mut whole = json!({
            "is_error": true, "error": error.to_error(), "status": class.result_status(),
            "model_facing_content": [{ "type": "text", "text": "the message" }],
        });
        whole
            .as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        whole
    }

    #[test]
    fn every_error_class_has_one_of_three_types_and_says_class_code_and_hint() {
        use ErrorClass::{
            InvalidArguments, SchemaNotLoaded, SchemaValidationFailed, Timeout, UnknownTool,
        };
        for class in ErrorClass::ALL {
            let word = json!(class);
            let kind = match class {
                UnknownTool | InvalidArguments | SchemaValidationFailed | SchemaNotLoaded => {
                    "validation"
                }
                Timeout => "timeout",
                _ => "execution",
            };
            let said = format!("the message [{}/too_many_calls]\n", word.as_str().unwrap());
            let answer = mapped(failed(class, json!({})), AmplifierMode::Upstream);
            assert_eq!(answer["success"], false, "{class:?}");
            let error = &answer["error"];
            assert_eq!(
                (&error["message"], &error["type"]),
                (&json!("the message"), &json!(kind)),
                "{class:?}"
            );
            assert_eq!(
                (&error["class"], &error["code"]),
                (&word, &json!("too_many_calls"))
            );
            let output = answer["output"].as_str().unwrap();
            assert!(
                output.starts_with(&said) && output.ends_with(error["hint"].as_str().unwrap()),
                "{output}"
            );
            let seed = mapped(failed(class, json!({})), AmplifierMode::Seed);
            assert_eq!(
                (&seed["success"], &seed["output"], &seed["error"]),
                (&json!(false), &Value::Null, &json!(output))
            );
            for answer in [&answer, &seed] {
                let text = answer.to_string();
                assert!(
                    !text.contains("hidden") && !text.contains("a trap"),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn a_value_stays_a_value_upstream_and_is_json_text_in_the_seed() {
        for copy in [json!([{ "type": "text", "text": r#"{"n":1}"# }]), json!([])] {
            let change = json!({ "structured_content": { "n": 1 }, "model_facing_content": copy });
            let upstream = mapped(change.clone(), AmplifierMode::Upstream);
            assert_eq!(
                (&upstream["output"], &upstream["error"]),
                (&json!({ "n": 1 }), &Value::Null)
            );
            assert!(upstream.get("content").is_none(), "{upstream}");
            assert_eq!(upstream["metadata"]["structured_content"], Value::Null);
            assert_eq!(mapped(change, AmplifierMode::Seed)["output"], r#"{"n":1}"#);
        }
    }

    #[test]
    fn a_text_of_the_tool_is_the_output_although_there_is_a_value() {
        for mode in [AmplifierMode::Seed, AmplifierMode::Upstream] {
            assert_eq!(mapped(json!({}), mode)["output"], "t");
            let answer = mapped(json!({ "structured_content": { "lines": 1 } }), mode);
            assert_eq!(answer["output"], "t");
            assert_eq!(
                answer["metadata"]["structured_content"],
                json!({ "lines": 1 })
            );
        }
    }

    #[test]
    fn an_empty_result_is_a_success_without_output() {
        for mode in [AmplifierMode::Seed, AmplifierMode::Upstream] {
            let answer = mapped(json!({ "empty_result": true }), mode);
            assert_eq!(
                (&answer["success"], &answer["output"]),
                (&json!(true), &Value::Null)
            );
            assert_eq!(answer["metadata"]["empty_result"], true);
        }
    }

    #[test]
    fn an_image_is_content_and_named_in_the_output() {
        let image = json!({ "type": "image", "data": "AAAA", "media_type": "image/png" });
        let blocks = json!({ "model_facing_content": [{ "type": "text", "text": "look" }, image] });
        let upstream = mapped(blocks.clone(), AmplifierMode::Upstream);
        assert_eq!(upstream["output"], "look\n[image, image/png, 3 bytes]");
        let source = json!({ "type": "base64", "media_type": "image/png", "data": "AAAA" });
        assert_eq!(
            upstream["content"],
            json!([{ "type": "text", "text": "look" }, { "type": "image", "source": source }])
        );
        assert_eq!(
            mapped(blocks, AmplifierMode::Seed)["output"],
            "look\n[image, image/png, 3 bytes]"
        );
    }

    #[test]
    fn a_partial_result_keeps_its_output_beside_the_error() {
        let text =
            json!([{ "type": "text", "text": "half" }, { "type": "text", "text": "the message" }]);
        let answer = mapped(
            failed(
                ErrorClass::PartialFailure,
                json!({ "model_facing_content": text }),
            ),
            AmplifierMode::Upstream,
        );
        assert!(
            answer["output"]
                .as_str()
                .unwrap()
                .starts_with("half\nthe message [partial_failure/too_many_calls]\n")
        );
        let value = json!({
            "structured_content": [1],
            "model_facing_content": [{ "type": "text", "text": "[1]" }, { "type": "text", "text": "the message" }],
        });
        let answer = mapped(
            failed(ErrorClass::PartialFailure, value.clone()),
            AmplifierMode::Upstream,
        );
        assert_eq!(
            (&answer["success"], &answer["output"]),
            (&json!(false), &json!([1]))
        );
        let content = answer["content"].as_array().unwrap();
        assert_eq!(
            (content.len(), &content[0]["text"]),
            (2, &json!("[1]")),
            "{content:?}"
        );
        assert!(
            content[1]["text"]
                .as_str()
                .unwrap()
                .starts_with("the message [partial_failure/too_many_calls]")
        );
        let seed = mapped(
            failed(ErrorClass::PartialFailure, value),
            AmplifierMode::Seed,
        );
        assert_eq!(seed["output"], "[1]");
        assert!(seed["error"].as_str().unwrap().starts_with("the message ["));
    }

    #[test]
    fn a_large_result_is_its_preview_and_a_redacted_one_says_so() {
        let reference = json!({ "uri": "toolcell:payload/x", "digest": "sha256:00", "media_type": "text/plain", "size_bytes": 99 });
        let moved = json!({ "type": "persisted_output_ref", "of": "text", "preview": "pre", "persisted_ref": reference });
        let change = json!({
            "model_facing_content": [moved], "redaction_state": "partial",
            "persistence_refs": ["01ARZ3NDEKTSV4RRFFQ69G5FAV"],
        });
        let answer = mapped(change, AmplifierMode::Upstream);
        assert_eq!(
            answer["output"],
            "pre\n[cut: 99 bytes of text in all, in the resource toolcell:payload/x]"
        );
        let metadata = &answer["metadata"];
        assert_eq!(metadata["redaction_state"], "partial");
        assert_eq!(
            metadata["persistence_refs"],
            json!(["01ARZ3NDEKTSV4RRFFQ69G5FAV"])
        );
        assert_eq!(
            (&metadata["tool_call_id"], &metadata["tool_id"]),
            (&json!("call-1"), &json!("unresolved:files.read"))
        );
    }

    #[test]
    fn context_of_hooks_follows_what_the_tool_said() {
        for mode in [AmplifierMode::Seed, AmplifierMode::Upstream] {
            assert_eq!(
                mapped(
                    json!({ "additional_context": ["take care", { "a": 1 }] }),
                    mode
                )["output"],
                "t\ntake care\n{\"a\":1}"
            );
        }
    }

    /// `tests/clients/amplifier/test_results.py` reads the same table.
    #[test]
    fn a_result_is_the_same_here_and_through_the_python_package() {
        let table = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/clients/amplifier/results.json"
        );
        let table: Vec<Value> =
            serde_json::from_str(&std::fs::read_to_string(table).unwrap()).unwrap();
        assert!(table.len() >= 8);
        for case in table {
            let answer = mapped(case["result"].clone(), AmplifierMode::Upstream);
            for field in ["success", "output", "error", "content"] {
                assert_eq!(
                    answer.get(field).unwrap_or(&Value::Null),
                    &case["amplifier"][field],
                    "{field} of {case:#}"
                );
            }
            let value = &answer["metadata"]["structured_content"];
            assert_eq!(value, &case["amplifier"]["structured_content"], "{case:#}");
            let native = call_result(
                &record(case["result"].clone()),
                &ProtocolVersion::V_2026_07_28,
                None,
            );
            let native = serde_json::to_value(native).unwrap();
            for field in ["content", "structuredContent", "isError"] {
                assert_eq!(
                    native.get(field).unwrap_or(&Value::Null),
                    &case["mcp"][field],
                    "{field} of {case:#}"
                );
            }
            let added = native.pointer("/_meta/toolcell~1text_property");
            assert_eq!(added, case["mcp"].get("added"), "{case:#}");
            let facts = native
                .pointer("/_meta/toolcell~1error")
                .unwrap_or(&Value::Null);
            assert_eq!(facts, &case["mcp"]["error"], "{case:#}");
        }
    }
}
