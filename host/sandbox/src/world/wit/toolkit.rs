//! The toolkit of a component of plain functions, from types, documentation and profile.

use serde_json::Value;
use toolcell_spec::dialect::sections;
use toolcell_spec::{ErrorCode, Refusal};

use super::docs::ComponentDocs;
use super::exports::{ExportedFunction, ExportedFunctions};
use super::schema::schema;
use super::shape::{FunctionSignature, JsonShape};
use crate::world::foreign_tool::{self, ForeignTool};
use crate::world::listed;
use crate::world::profile::{narrow, profile};

const NAMELESS: &str = "wit";

pub(super) fn toolkit(
    found: &ExportedFunctions,
    imports: &[String],
    bytes: &[u8],
) -> Result<String, Refusal> {
    if found.functions.is_empty() {
        return Err(Refusal::new(ErrorCode::NotATool, without_tools(found)));
    }
    describe(found, imports, bytes).map_err(|why| {
        Refusal::new(
            ErrorCode::DescriptionInvalid,
            format!("cannot describe the component: {why}"),
        )
    })
}

fn without_tools(found: &ExportedFunctions) -> String {
    let reasons: Vec<String> = found
        .left_out
        .iter()
        .map(|part| format!("{} ({})", part.name, part.reason))
        .collect();
    format!(
        "the component is not a tool: it exports no function that can be called with JSON; left out: {}",
        listed(&reasons)
    )
}

fn describe(found: &ExportedFunctions, imports: &[String], bytes: &[u8]) -> Result<String, String> {
    let docs = ComponentDocs::read(bytes)?;
    let profile = profile(bytes)?.unwrap_or_default();
    let tool = |function| declared(function, &docs, imports);
    let mut tools: Vec<ForeignTool> = found.functions.iter().map(tool).collect();
    narrow(&mut tools, &profile, imports)?;
    let namespace = match profile.namespace {
        Some(namespace) => namespace,
        None => foreign_tool::namespace(
            found
                .package()
                .or(sections::component_name(bytes))
                .unwrap_or(NAMELESS),
            NAMELESS,
        ),
    };
    Ok(foreign_tool::toolkit(&namespace, &tools, &found.left_out))
}

fn declared(function: &ExportedFunction, docs: &ComponentDocs, imports: &[String]) -> ForeignTool {
    let ExportedFunction {
        tool,
        name,
        signature,
        ..
    } = function;
    let interface = function.interface_name();
    let description = match (docs.function(interface, name), interface) {
        (Some(text), _) => text.to_owned(),
        (None, Some(interface)) => {
            format!(
                "Calls `{name}` of the interface `{interface}`. The component does not describe it."
            )
        }
        (None, None) => format!("Calls `{name}`. The component does not describe it."),
    };
    let mut declared =
        ForeignTool::careful(tool.clone(), description, schema(&signature.input), imports);
    declared.output_schema = output_schema(signature);
    declared
}

/// `None` if a call that succeeds returns nothing.
fn output_schema(signature: &FunctionSignature) -> Option<Value> {
    match signature.output.as_ref()? {
        JsonShape::Result(ok, _) => ok.as_ref().map(|ok| schema(ok)),
        shape => Some(schema(shape)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolcell_spec::dialect::agent_tool::{self, LoadedToolkit};
    use toolcell_spec::dialect::sections::with_custom;
    use toolcell_spec::{AccessKind, ErrorCode, SubjectKind, Toolkit, WriteEffect};

    use super::toolkit;
    use crate::world::foreign_tool::LeftOut;
    use crate::world::wit::exports::{ExportedFunction, ExportedFunctions};
    use crate::world::wit::shape::{FunctionSignature, IntegerType, JsonShape};

    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";
    const FILES: &str = "wasi:filesystem/types@0.2.6";
    const HTTP: &str = "wasi:http/outgoing-handler@0.2.6";

    fn found() -> ExportedFunctions {
        let path = ("path".to_owned(), JsonShape::String);
        let options = JsonShape::Record(vec![(
            "url".to_owned(),
            JsonShape::Option(JsonShape::String.into()),
        )]);
        let input = JsonShape::Record(vec![path, ("options".to_owned(), options)]);
        let output = JsonShape::Result(
            Some(JsonShape::Int(IntegerType::U8).into()),
            Some(JsonShape::String.into()),
        );
        let function =
            |tool: &str, interface: Option<&str>, name: &str, signature| ExportedFunction {
                tool: tool.to_owned(),
                interface: interface.map(str::to_owned),
                name: name.to_owned(),
                signature,
            };
        let read = FunctionSignature {
            input,
            output: Some(output),
            results: 1,
            streamed: None,
        };
        let stop = FunctionSignature {
            input: JsonShape::Record(Vec::new()),
            output: None,
            results: 0,
            streamed: None,
        };
        ExportedFunctions {
            functions: vec![
                function("tools-read", Some("acme:docs/tools@1.0.0"), "read", read),
                function("stop", None, "stop", stop),
            ],
            left_out: vec![LeftOut {
                name: "watch".to_owned(),
                reason: "it uses a stream".to_owned(),
            }],
        }
    }

    fn described(imports: &[&str], bytes: &[u8]) -> Result<Toolkit, String> {
        let imports: Vec<String> = imports.iter().map(|import| (*import).to_owned()).collect();
        let text = toolkit(&found(), &imports, bytes).map_err(|refusal| refusal.message)?;
        let LoadedToolkit { toolkit, notes, .. } =
            agent_tool::toolkit(&text).unwrap_or_else(|errors| panic!("{errors:?}"));
        let notes: Vec<&str> = notes.iter().map(|note| note.message.as_str()).collect();
        assert_eq!(notes, ["not offered as a tool: watch: it uses a stream"]);
        Ok(toolkit)
    }

    fn profiled(imports: &[&str], profile: &Value) -> Result<Toolkit, String> {
        let bytes = with_custom(EMPTY, "toolcell:profile", profile.to_string().as_bytes()).unwrap();
        described(imports, &bytes)
    }

    #[test]
    fn types_and_documentation_become_a_toolkit() {
        let docs = json!({ "interfaces": { "tools": { "funcs": { "read": { "docs": "Reads a file." } } } } });
        let bytes = with_custom(EMPTY, "package-docs", format!("\u{1}{docs}").as_bytes()).unwrap();
        let kit = described(&[], &bytes).unwrap();
        let [read, stop] = &kit.declarations[..] else {
            panic!()
        };
        assert_eq!(
            (read.tool_id.as_str(), stop.tool_id.as_str()),
            ("acme-docs.tools-read", "acme-docs.stop")
        );
        assert_eq!(read.description, "Reads a file.");
        assert_eq!(
            stop.description,
            "Calls `stop`. The component does not describe it."
        );
        let schema = read
            .input_contract
            .as_ref()
            .unwrap()
            .model_input_schema
            .as_ref()
            .unwrap();
        assert_eq!(schema["required"], json!(["path", "options"]));
        let output = read
            .output_contract
            .as_ref()
            .unwrap()
            .structured_schema
            .as_ref()
            .unwrap();
        assert_eq!(output["maximum"], 255);
        assert!(stop.output_contract.is_none());
    }

    #[test]
    fn a_profile_informs_and_narrows() {
        let profile = json!({ "namespace": "papers", "tools": { "tools-read": {
            "description": "Reads.", "read_only": true, "network": false, "paths": ["path"], "urls": ["/options/url"],
        } } });
        let kit = profiled(&[FILES, HTTP], &profile).unwrap();
        let tool = &kit.declarations[0];
        let interface = &kit.interfaces[0];
        let profile = &kit.permission_profiles[0];
        assert_eq!(
            (tool.tool_id.as_str(), tool.description.as_str()),
            ("papers.tools-read", "Reads.")
        );
        assert_eq!(profile.access_kinds, [AccessKind::FileRead]);
        assert_eq!(profile.write_effects, [WriteEffect::None]);
        assert_eq!(profile.network_scope.as_deref(), Some("none"));
        assert_eq!(
            (
                interface.facts().is_read_only,
                interface.facts().is_open_world
            ),
            (Some(true), None)
        );
        assert_eq!(interface.permission_subjects["/path"], SubjectKind::Path);
        assert_eq!(
            interface.permission_subjects["/options/url"],
            SubjectKind::Url
        );
        assert_eq!(
            kit.permission_profiles[1].access_kinds,
            [AccessKind::Network],
            "the other tool has no profile"
        );
    }

    #[test]
    fn paths_ask_for_files_that_a_tool_may_change_unless_it_says_otherwise() {
        let kit = profiled(
            &[FILES],
            &json!({ "tools": { "tools-read": { "paths": ["path"] } } }),
        )
        .unwrap();
        let profile = &kit.permission_profiles[0];
        assert_eq!(
            profile.access_kinds,
            [AccessKind::FileRead, AccessKind::FileWrite]
        );
        assert_eq!(profile.write_effects, [WriteEffect::LocalPersistent]);
    }

    #[test]
    fn tools_ask_for_what_their_component_imports_below_its_ceiling() {
        let below = |imports: &[&str], ceiling: &Value, tool: &Value| {
            let kit = profiled(
                imports,
                &json!({ "ceiling": ceiling, "tools": { "tools-read": tool } }),
            );
            kit.map(|kit| kit.permission_profiles[0].clone())
        };
        let all = json!({ "file_read": true, "file_write": true, "network": ["https://a.test", "http://b.test:*"] });
        let profile = below(&[FILES, HTTP], &all, &json!({})).unwrap();
        assert_eq!(
            profile.access_kinds,
            [
                AccessKind::Network,
                AccessKind::FileRead,
                AccessKind::FileWrite
            ]
        );
        assert_eq!(
            profile.network_scope.as_deref(),
            Some("https://a.test,http://b.test:*")
        );
        let profile = below(&[], &all, &json!({})).unwrap();
        assert!(
            profile.access_kinds.is_empty() && profile.network_scope.as_deref() == Some("none")
        );
        let profile = below(&[FILES, HTTP], &json!({}), &json!({})).unwrap();
        assert!(
            profile.access_kinds.is_empty() && profile.network_scope.as_deref() == Some("none")
        );
        let any = below(
            &[HTTP],
            &json!({ "network": ["any", "https://a.test"] }),
            &json!({}),
        )
        .unwrap();
        assert_eq!(any.network_scope.as_deref(), Some("any"));
        // A tool's own profile narrows further.
        let own = json!({ "paths": ["path"], "read_only": true, "network": false });
        let profile = below(&[FILES, HTTP], &all, &own).unwrap();
        assert_eq!(
            (&profile.access_kinds[..], profile.network_scope.as_deref()),
            (&[AccessKind::FileRead][..], Some("none"))
        );
        for (tool, why) in [
            (json!({ "paths": ["path"] }), "has no files"),
            (json!({ "network": true }), "has none"),
        ] {
            let refusal = below(&[FILES, HTTP], &json!({}), &tool).unwrap_err();
            assert!(refusal.contains(why), "{refusal}");
        }
    }

    #[test]
    fn a_profile_that_says_what_cannot_be_is_refused() {
        for (profile, why) in [
            (
                json!({ "tools": { "tools-raed": {} } }),
                "\"tools-raed\", which is none of its tools: tools-read, stop",
            ),
            (
                json!({ "tools": { "stop": { "network": true } } }),
                "does not import wasi:http",
            ),
            (
                json!({ "tools": { "stop": { "paths": ["path"] } } }),
                "does not import wasi:filesystem",
            ),
            (
                json!({ "tools": { "stop": { "paths": [], "urls": 7 } } }),
                "cannot read the profile",
            ),
        ] {
            let refusal = profiled(&[], &profile).unwrap_err();
            assert!(
                refusal.starts_with("cannot describe the component: ") && refusal.contains(why),
                "{refusal}"
            );
        }
    }

    #[test]
    fn an_argument_of_a_profile_that_does_not_exist_is_an_error_of_the_toolkit() {
        let profile = json!({ "tools": { "tools-read": { "urls": ["link"] } } });
        let bytes = with_custom(EMPTY, "toolcell:profile", profile.to_string().as_bytes()).unwrap();
        let text = toolkit(&found(), &[], &bytes).unwrap();
        let errors = agent_tool::toolkit(&text).unwrap_err();
        assert!(
            errors
                .iter()
                .any(|error| error.message.contains("leads to no argument")),
            "{errors:?}"
        );
    }

    #[test]
    fn a_component_without_a_package_has_its_own_name_or_none() {
        let nameless = || {
            let mut found = found();
            found.functions.remove(0);
            found
        };
        let id = |bytes: &[u8]| {
            let kit = agent_tool::toolkit(&toolkit(&nameless(), &[], bytes).unwrap())
                .unwrap()
                .toolkit;
            kit.declarations[0].tool_id.clone()
        };
        assert_eq!(id(EMPTY), "wit.stop");
        assert_eq!(
            id(&with_custom(EMPTY, "component-name", b"\0\x05\x04a b!").unwrap()),
            "a-b.stop"
        );
    }

    #[test]
    fn a_component_without_a_tool_says_what_was_left_out() {
        let none = ExportedFunctions {
            functions: Vec::new(),
            ..found()
        };
        let refusal = toolkit(&none, &[], EMPTY).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::NotATool);
        assert!(
            refusal
                .message
                .ends_with("left out: watch (it uses a stream)"),
            "{}",
            refusal.message
        );
    }
}
