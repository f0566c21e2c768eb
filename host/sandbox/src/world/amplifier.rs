//! Modules of Amplifier: one tool, whose specification, arguments and answers are bytes of JSON.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolcell_spec::{ErrorCode, JSON_VALUES_MAX, Refusal, read_json};
use toolcell_system::BoxFuture;
use wasmtime::Store;
use wasmtime::component::InstancePre;

use super::foreign_tool::{ForeignTool, names, toolkit};
use super::{Call, ComponentWorld, FirstLoad, Outcome, answer};
use crate::bindings::amplifier::ToolModulePre;
use crate::bindings::amplifier_root::ToolFunctionsPre;
use crate::bindings::tool::toolcell::tool::types::ErrorClass;
use crate::call;
use crate::state::StoreState;

/// Some modules export the functions at the root instead.
const INTERFACE: &str = "amplifier:modules/tool@1.0.0";
const FUNCTIONS: [&str; 2] = ["get-spec", "execute"];
const NAMESPACE: &str = "amplifier";
const SPEC_BYTES_MAX: usize = 1 << 20;

pub(super) const CONTRACT: &str = "amplifier:modules@1.0.0";

pub(super) fn is_exported_by(exports: &[String]) -> bool {
    let has = |wanted: &str| exports.iter().any(|name| name == wanted);
    has(INTERFACE) || FUNCTIONS.iter().all(|name| has(name))
}

pub(super) enum AmplifierWorld {
    Interface(ToolModulePre<StoreState>),
    Root(ToolFunctionsPre<StoreState>),
}

impl AmplifierWorld {
    pub(super) fn new(instance: InstancePre<StoreState>) -> wasmtime::Result<Self> {
        match instance.component().get_export_index(None, INTERFACE) {
            Some(_) => ToolModulePre::new(instance).map(Self::Interface),
            None => ToolFunctionsPre::new(instance).map(Self::Root),
        }
    }

    async fn get_spec(&self, store: &mut Store<StoreState>) -> wasmtime::Result<Vec<u8>> {
        match self {
            Self::Interface(module) => {
                let module = module.instantiate_async(&mut *store).await?;
                module.amplifier_modules_tool().call_get_spec(store).await
            }
            Self::Root(module) => {
                module
                    .instantiate_async(&mut *store)
                    .await?
                    .call_get_spec(store)
                    .await
            }
        }
    }

    async fn execute(
        &self,
        store: &mut Store<StoreState>,
        input: &[u8],
    ) -> wasmtime::Result<Result<Vec<u8>, String>> {
        match self {
            Self::Interface(module) => {
                let module = module.instantiate_async(&mut *store).await?;
                module
                    .amplifier_modules_tool()
                    .call_execute(store, input)
                    .await
            }
            Self::Root(module) => {
                module
                    .instantiate_async(&mut *store)
                    .await?
                    .call_execute(store, input)
                    .await
            }
        }
    }
}

impl ComponentWorld for AmplifierWorld {
    fn describe<'a>(&'a self, examined: FirstLoad<'a>) -> BoxFuture<'a, Result<String, Refusal>> {
        Box::pin(async move {
            let FirstLoad {
                imports, namespace, ..
            } = examined;
            let work = async |store: &mut Store<StoreState>| self.get_spec(store).await;
            let spec = call::examine(examined, work).await?;
            declared(&spec, imports)
                .map(|tool| toolkit(namespace.unwrap_or(NAMESPACE), &[tool], &[]))
        })
    }

    fn invoke<'a>(
        &'a self,
        store: &'a mut Store<StoreState>,
        call: &'a Call,
    ) -> BoxFuture<'a, wasmtime::Result<Outcome>> {
        Box::pin(async move {
            let answered = self.execute(store, call.input.as_bytes()).await?;
            match answered {
                Ok(bytes) => outcome(bytes),
                Err(message) => Ok(answer::failure(ErrorClass::ExecutionFailed, "", message)),
            }
        })
    }
}

/// Checked because serde also reads an array as a struct.
fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

#[derive(Deserialize)]
struct ModuleSpec {
    name: String,
    description: Option<String>,
    parameters: Option<Value>,
}

fn declared(spec: &[u8], imports: &[String]) -> Result<ForeignTool, Refusal> {
    let refused = |why: &str| {
        let message = format!(
            "cannot use what get-spec of the module returns: {why}; correct it, or ask its author to"
        );
        Refusal::new(ErrorCode::DescriptionInvalid, message)
    };
    if spec.len() > SPEC_BYTES_MAX {
        return Err(refused(&format!("it has more than {SPEC_BYTES_MAX} bytes")));
    }
    let text = std::str::from_utf8(spec)
        .ok()
        .filter(|text| is_object(text));
    let text = text.ok_or_else(|| refused("it is not a JSON object"))?;
    let spec: ModuleSpec = read_json(text, JSON_VALUES_MAX).map_err(|error| refused(&error))?;
    let name = names([spec.name.as_str()])
        .into_iter()
        .next()
        .unwrap_or_default();
    let schema = match spec.parameters {
        None | Some(Value::Null) => json!({ "type": "object" }),
        Some(schema @ Value::Object(_)) => schema,
        Some(_) => return Err(refused("parameters is not an object")),
    };
    Ok(ForeignTool::careful(
        name,
        spec.description.unwrap_or_default(),
        schema,
        imports,
    ))
}

/// Values stay as written, because a number may have more digits than a float.
#[derive(Deserialize)]
struct ModuleAnswer {
    #[serde(default = "yes")]
    success: bool,
    output: Option<Box<RawValue>>,
    error: Option<Box<RawValue>>,
}

fn yes() -> bool {
    true
}

fn outcome(bytes: Vec<u8>) -> wasmtime::Result<Outcome> {
    let broken =
        || wasmtime::Error::msg("the answer is not a JSON object with success, output and error");
    let text = String::from_utf8(bytes)
        .ok()
        .filter(|text| is_object(text))
        .ok_or_else(broken)?;
    let ModuleAnswer {
        success,
        output,
        error,
    } = read_json(&text, JSON_VALUES_MAX).map_err(|_| broken())?;
    let written = |value: Box<RawValue>| String::from(Box::<str>::from(value));
    Ok(match (success, output) {
        (true, Some(output)) => answer::success(written(output)),
        (true, None) => Outcome::Success(answer::nothing()),
        (false, output) => {
            let said = error.or(output).map(written);
            answer::failure(ErrorClass::ExecutionFailed, "", message(said))
        }
    })
}

/// A text, the text `message` of an object, or all of it.
fn message(error: Option<String>) -> String {
    let Some(error) = error else {
        return "the module does not say why".to_owned();
    };
    let value: Value = serde_json::from_str(&error).unwrap_or_default();
    match value.get("message").unwrap_or(&value) {
        Value::String(text) => text.clone(),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use toolcell_spec::dialect::agent_tool;
    use toolcell_spec::{AccessKind, ErrorClass, RiskLevel};

    use super::*;

    fn exported_by(exports: &[&str]) -> bool {
        is_exported_by(
            &exports
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn a_module_exports_the_interface_or_both_functions() {
        assert!(exported_by(&["amplifier:modules/tool@1.0.0"]));
        assert!(exported_by(&["memory", "execute", "get-spec"]));
        assert!(!exported_by(&["get-spec"]) && !exported_by(&["execute"]));
        assert!(!exported_by(&["amplifier:modules/hook-handler@1.0.0"]));
    }

    #[test]
    fn a_specification_becomes_one_tool_that_is_taken_carefully() {
        let spec =
            br#"{"name": "web search", "description": "Searches.", "parameters": {"type": "object"}, "version": 2}"#;
        let tool = declared(spec, &["wasi:http/types@0.2.3".to_owned()]).unwrap();
        let described = agent_tool::toolkit(&toolkit(NAMESPACE, &[tool], &[])).unwrap();
        assert!(described.notes.is_empty(), "{:?}", described.notes);
        let declaration = &described.toolkit.declarations[0];
        assert_eq!(
            (
                declaration.qualified_name().as_str(),
                declaration.description.as_str()
            ),
            ("amplifier.web-search", "Searches.")
        );
        let profile = &described.toolkit.permission_profiles[0];
        assert_eq!(
            (profile.risk_level, profile.access_kinds.as_slice()),
            (RiskLevel::Medium, &[AccessKind::Network][..])
        );
        assert_eq!(described.toolkit.interfaces[0].facts().is_read_only, None);
        let least = declared(br#"{"name": "a", "parameters": null}"#, &[]).unwrap();
        agent_tool::toolkit(&toolkit(NAMESPACE, &[least], &[])).unwrap();
    }

    #[test]
    fn a_specification_that_cannot_be_read_is_refused_with_the_reason() {
        let large = format!("{{\"name\": \"{}\"}}", "x".repeat(SPEC_BYTES_MAX));
        for (spec, why) in [
            (&b""[..], "JSON object"),
            (b"\xff", "JSON object"),
            (br#"["a", null, null]"#, "JSON object"),
            (br#"{"name": "a""#, "EOF"),
            (b"{}", "`name`"),
            (br#"{"name": 7}"#, "string"),
            (br#"{"name": "a", "name": "b"}"#, "duplicate"),
            (br#"{"name": "a", "parameters": []}"#, "parameters"),
            (large.as_bytes(), "bytes"),
        ] {
            let refusal = declared(spec, &[]).unwrap_err();
            assert_eq!(
                (refusal.class, refusal.code),
                (ErrorClass::SetupRequired, ErrorCode::DescriptionInvalid)
            );
            assert!(refusal.message.contains(why), "{}", refusal.message);
        }
    }

    fn answered(json: &str) -> Outcome {
        outcome(json.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn an_answer_is_a_success_unless_it_says_otherwise() {
        for (json, content, structured) in [
            (r#"{"output": {"n": 1.50}}"#, "[]", Some(r#"{"n": 1.50}"#)),
            (
                r#"{"success": true, "output": [1], "error": "ignored"}"#,
                "[]",
                Some("[1]"),
            ),
            (
                r#"{"output": "said"}"#,
                r#"[{"type":"text","text":"said"}]"#,
                None,
            ),
            (r#"{"output": null}"#, "[]", None),
            ("{}", "[]", None),
        ] {
            let Outcome::Success(output) = answered(json) else {
                panic!("{json}")
            };
            assert_eq!(
                (output.content.as_str(), output.structured.as_deref()),
                (content, structured),
                "{json}"
            );
        }
    }

    #[test]
    fn a_failure_has_the_words_of_the_module() {
        for (json, said) in [
            (
                r#"{"success": false, "error": "no such city"}"#,
                "no such city",
            ),
            (
                r#"{"success": false, "error": {"message": "no such city", "code": 4}}"#,
                "no such city",
            ),
            (
                r#"{"success": false, "error": {"code": 4}}"#,
                r#"{"code": 4}"#,
            ),
            (
                r#"{"success": false, "output": "half of it"}"#,
                "half of it",
            ),
            (r#"{"success": false}"#, "the module does not say why"),
        ] {
            let Outcome::Failure(error) = answered(json) else {
                panic!("{json}")
            };
            assert_eq!(error.message, said, "{json}");
        }
    }

    #[test]
    fn an_answer_that_is_no_object_breaks_the_contract() {
        for bytes in [
            &b""[..],
            b"\xff",
            b"[true, 1, 2]",
            b"7",
            b"{",
            br#"{"success": "yes"}"#,
            b"{} {}",
        ] {
            assert!(outcome(bytes.to_vec()).is_err(), "{bytes:?}");
        }
    }
}
