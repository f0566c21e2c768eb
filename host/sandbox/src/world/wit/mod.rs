//! Components of plain functions: one tool for each function whose types have values in JSON. A description reads only
//! the types; no code runs.

mod collect;
mod docs;
mod exports;
mod schema;
mod shape;
mod toolkit;
mod value;

use std::collections::HashMap;

use serde_json::Value;
use toolcell_spec::{ErrorCode, JSON_VALUES_MAX, Refusal, read_unique_json};
use toolcell_system::BoxFuture;
use wasmtime::Store;
use wasmtime::component::{Component, ComponentExportIndex, InstancePre, Val};

use super::{Call, ComponentWorld, FirstLoad, Outcome, answer};
use crate::bindings::tool::toolcell::tool::types::{ErrorClass, ToolError};
use crate::state::StoreState;
use collect::StreamItems;
pub(in crate::world) use exports::ExportedFunctions;
use shape::{FunctionSignature, JsonShape};
use value::ValueMismatch;

pub(super) struct WitWorld {
    instance: InstancePre<StoreState>,
    functions: HashMap<String, BoundFunction>,
}

struct BoundFunction {
    export: ComponentExportIndex,
    signature: FunctionSignature,
}

impl WitWorld {
    pub(super) fn new(instance: InstancePre<StoreState>) -> wasmtime::Result<Self> {
        let component = instance.component();
        let mut functions = HashMap::new();
        for exports::ExportedFunction {
            tool,
            interface,
            name,
            signature,
        } in ExportedFunctions::from_component(component).functions
        {
            let export = index(component, interface.as_deref(), &name).ok_or_else(|| {
                wasmtime::Error::msg(format!("the export of `{tool}` is not there"))
            })?;
            functions.insert(tool, BoundFunction { export, signature });
        }
        Ok(Self {
            instance,
            functions,
        })
    }
}

fn index(
    component: &Component,
    interface: Option<&str>,
    name: &str,
) -> Option<ComponentExportIndex> {
    match interface {
        Some(interface) => {
            let instance = component.get_export_index(None, interface)?;
            component.get_export_index(Some(&instance), name)
        }
        None => component.get_export_index(None, name),
    }
}

impl ComponentWorld for WitWorld {
    fn describe<'a>(&'a self, examined: FirstLoad<'a>) -> BoxFuture<'a, Result<String, Refusal>> {
        Box::pin(async move {
            let functions = ExportedFunctions::from_component(examined.component);
            toolkit::toolkit(&functions, examined.imports, examined.bytes)
        })
    }

    fn invoke<'a>(
        &'a self,
        store: &'a mut Store<StoreState>,
        call: &'a Call,
    ) -> BoxFuture<'a, wasmtime::Result<Outcome>> {
        Box::pin(async move {
            let Some(BoundFunction { export, signature }) = self.functions.get(&call.tool) else {
                return Err(wasmtime::Error::msg(
                    "the component has no function of this name",
                ));
            };
            let arguments = match arguments(signature, &call.input) {
                Ok(arguments) => arguments,
                Err(why) => {
                    let code = ErrorCode::ArgumentConversion.as_str();
                    return Ok(answer::failure(ErrorClass::InvalidArguments, code, why));
                }
            };
            let instance = self.instance.instantiate_async(&mut *store).await?;
            let function = instance
                .get_func(&mut *store, export)
                .ok_or_else(|| wasmtime::Error::msg("the export is not a function"))?;
            let mut results = vec![Val::Bool(false); signature.results];
            function
                .call_async(&mut *store, &arguments, &mut results)
                .await?;
            if let Some(item) = &signature.streamed
                && let Some(value) = results.pop()
            {
                return match collect::collect(store, value, item).await? {
                    StreamItems::Bytes(base64) => Ok(success(Value::String(base64))),
                    StreamItems::Items(items) if is_list(signature) => {
                        outcome(signature, vec![Val::List(items)])
                    }
                    StreamItems::Items(item) => outcome(signature, item),
                };
            }
            outcome(signature, results)
        })
    }
}

fn is_list(signature: &FunctionSignature) -> bool {
    matches!((&signature.output, &signature.streamed), (Some(JsonShape::List(item)), Some(streamed)) if **item == *streamed)
}

fn arguments(signature: &FunctionSignature, input: &str) -> Result<Vec<Val>, String> {
    let told = |why: String| format!("cannot pass the arguments: {why}");
    let input = read_unique_json(input, JSON_VALUES_MAX).map_err(told)?;
    match value::read(&signature.input, input) {
        Ok(Val::Record(fields)) => Ok(fields.into_iter().map(|(_, value)| value).collect()),
        Ok(_) => Err(told("not an object".to_owned())),
        Err(unfit) => Err(told(unfit.to_string())),
    }
}

/// An `err` at the top is a failed call.
fn outcome(signature: &FunctionSignature, mut results: Vec<Val>) -> wasmtime::Result<Outcome> {
    let Some(shape) = &signature.output else {
        return Ok(answer::structured(None));
    };
    let result = match results.len() {
        1 => results.pop(),
        _ => Some(Val::Tuple(results)),
    };
    let Some(result) = result else {
        return Ok(answer::structured(None));
    };
    let written = match (shape, result) {
        (JsonShape::Result(Some(ok), _), Val::Result(Ok(Some(payload)))) => {
            value::write(ok, *payload).map(success)
        }
        (JsonShape::Result(..), Val::Result(Ok(_))) => Ok(answer::structured(None)),
        (JsonShape::Result(_, Some(err)), Val::Result(Err(Some(payload)))) => {
            let code = case(&payload);
            value::write(err, *payload).map(|value| error(code, value))
        }
        (JsonShape::Result(..), Val::Result(Err(_))) => {
            let message = "the function failed, and does not say why".to_owned();
            let code = ErrorCode::ToolFailed.as_str();
            Ok(answer::failure(ErrorClass::ExecutionFailed, code, message))
        }
        (shape, result) => value::write(shape, result).map(success),
    };
    match written {
        Err(unfit @ ValueMismatch::TooMany(_)) => {
            let message = format!("the function returned {unfit}");
            let code = ErrorCode::TooManyValues.as_str();
            Ok(answer::failure(ErrorClass::ResultTooLarge, code, message))
        }
        Err(unfit) => Err(wasmtime::Error::msg(format!(
            "the function returned a value of another type: {unfit}"
        ))),
        Ok(outcome) => Ok(outcome),
    }
}

fn case(error: &Val) -> String {
    match error {
        Val::Enum(name) | Val::Variant(name, _) => name.clone(),
        _ => String::new(),
    }
}

fn error(code: String, value: Value) -> Outcome {
    let detail = value.to_string();
    let message = match value {
        Value::String(text) if !text.trim().is_empty() => text,
        _ => detail.clone(),
    };
    Outcome::Failure(ToolError {
        detail: Some(detail),
        ..answer::error(ErrorClass::ExecutionFailed, code, message)
    })
}

fn success(value: Value) -> Outcome {
    answer::structured(Some(value.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bindings::tool::exports::toolcell::tool::guest::Output;

    fn returning(output: Option<JsonShape>, value: Vec<Val>) -> Outcome {
        let signature = FunctionSignature {
            input: JsonShape::Record(Vec::new()),
            output,
            results: value.len(),
            streamed: None,
        };
        outcome(&signature, value).unwrap()
    }

    #[track_caller]
    fn structured(outcome: Outcome) -> Option<String> {
        match outcome {
            Outcome::Success(Output {
                content,
                structured,
                ui_summary: None,
            }) if content == "[]" => structured,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn failed(outcome: Outcome) -> (String, String, Option<String>) {
        match outcome {
            Outcome::Failure(ToolError {
                class: ErrorClass::ExecutionFailed,
                code,
                message,
                detail,
                ..
            }) => (code, message, detail),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_a_function_returns_is_structured_output() {
        assert_eq!(structured(returning(None, Vec::new())), None);
        assert_eq!(
            structured(returning(Some(JsonShape::Bool), vec![Val::Bool(true)])).as_deref(),
            Some("true")
        );
        let option = JsonShape::Option(JsonShape::Bool.into());
        assert_eq!(
            structured(returning(Some(option), vec![Val::Option(None)])).as_deref(),
            Some("null")
        );
        let pair = JsonShape::Tuple(vec![JsonShape::Bool, JsonShape::Char]);
        let several = vec![Val::Bool(false), Val::Char('x')];
        assert_eq!(
            structured(returning(Some(pair), several)).as_deref(),
            Some("[false,\"x\"]")
        );
    }

    #[test]
    fn a_result_at_the_top_succeeds_or_fails() {
        let shape = |ok: Option<JsonShape>, err: Option<JsonShape>| {
            Some(JsonShape::Result(ok.map(Box::new), err.map(Box::new)))
        };
        let ok = Val::Result(Ok(Some(Val::Bool(true).into())));
        assert_eq!(
            structured(returning(shape(Some(JsonShape::Bool), None), vec![ok])).as_deref(),
            Some("true")
        );
        assert_eq!(
            structured(returning(shape(None, None), vec![Val::Result(Ok(None))])),
            None
        );
        let err = |val: Val| vec![Val::Result(Err(Some(val.into())))];
        let text = failed(returning(
            shape(None, Some(JsonShape::String)),
            err(Val::String("gone".to_owned())),
        ));
        assert_eq!(
            text,
            (
                String::new(),
                "gone".to_owned(),
                Some("\"gone\"".to_owned())
            )
        );
        let words = JsonShape::Enum(vec!["not-found".to_owned()]);
        let word = failed(returning(
            shape(None, Some(words)),
            err(Val::Enum("not-found".to_owned())),
        ));
        assert_eq!(
            (word.0.as_str(), word.1.as_str()),
            ("not-found", "not-found")
        );
        let empty = failed(returning(
            shape(None, Some(JsonShape::String)),
            err(Val::String(" ".to_owned())),
        ));
        assert_eq!(empty.1, "\" \"");
        assert!(
            failed(returning(shape(None, None), vec![Val::Result(Err(None))]))
                .1
                .contains("does not say why")
        );
    }

    #[test]
    fn too_many_values_are_too_large_a_result() {
        let shape = JsonShape::List(JsonShape::Bool.into());
        let many = vec![Val::List(vec![Val::Bool(true); JSON_VALUES_MAX])];
        match returning(Some(shape), many) {
            Outcome::Failure(ToolError {
                class: ErrorClass::ResultTooLarge,
                code,
                message,
                ..
            }) => {
                assert_eq!(code, "too_many_values");
                assert!(
                    message.starts_with("the function returned more than 100000 values"),
                    "{message}"
                );
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn arguments_are_in_the_order_of_the_parameters() {
        let input = JsonShape::Record(vec![
            ("b".to_owned(), JsonShape::Bool),
            ("a".to_owned(), JsonShape::Option(JsonShape::Char.into())),
        ]);
        let signature = FunctionSignature {
            input,
            output: None,
            results: 0,
            streamed: None,
        };
        let read = arguments(&signature, "{\"a\": \"x\", \"b\": true}").unwrap();
        assert_eq!(
            read,
            [Val::Bool(true), Val::Option(Some(Val::Char('x').into()))]
        );
        assert_eq!(
            arguments(&signature, "{\"b\": false}").unwrap()[1],
            Val::Option(None)
        );
        for (text, why) in [
            ("{\"b\": 1}", "/b: not true or false"),
            ("[]", "not an object"),
            ("{", "EOF"),
        ] {
            let refusal = arguments(&signature, text).unwrap_err();
            assert!(
                refusal.starts_with("cannot pass the arguments: ") && refusal.contains(why),
                "{refusal}"
            );
        }
    }
}
