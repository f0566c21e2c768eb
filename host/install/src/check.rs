//! Problems that keep a tool from being published, or that its users would notice.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use toolcell_engine::catalog::{ListedSchema, Tool};
use toolcell_spec::AccessKind;
use toolcell_spec::text::deceives;

use Severity::{Error, Note, Warning};

use crate::component::ComponentFile;
use crate::package::PackageInfo;

/// In characters: shorter ones say too little, longer ones cost each model call too much.
const DESCRIPTION_MIN: usize = 15;
const DESCRIPTION_MAX: usize = 2_000;
/// In bytes; a larger one is noted.
const SIZE_LARGE: u64 = 20 << 20;
/// Findings of one kind in one tool.
const PLACES_MAX: usize = 10;

/// They speak to the model about anything but the tool; in lower case.
const INSTRUCTIONS: [&str; 14] = [
    "ignore previous",
    "ignore all previous",
    "ignore the above",
    "disregard previous",
    "disregard all",
    "system prompt",
    "do not tell the user",
    "don't tell the user",
    "without telling the user",
    "do not mention this",
    "before using any other tool",
    "instead of any other tool",
    "<important>",
    "<system>",
];

const HTTP: &[&str] = &["wasi:http/", "wasi:sockets/", "near:agent/host@"];
const FILES: &[&str] = &[
    "wasi:filesystem/",
    "wasi_snapshot_preview1",
    "near:agent/host@",
];
const ENVIRONMENT: &[&str] = &["wasi:cli/environment", "wasi_snapshot_preview1"];
const TOOLS: &[&str] = &["toolcell:tool/tools@", "near:agent/host@"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Something to know.
    Note,
    /// Users of the tool would stumble over it.
    Warning,
    /// Keeps the tool from being pushed.
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckFinding {
    pub severity: Severity,
    /// A word for programs, such as `description_missing`.
    pub code: &'static str,
    /// A tool and a place in its declaration, or `package`, or `component`.
    pub place: String,
    pub message: String,
}

impl CheckFinding {
    pub fn new(
        severity: Severity,
        code: &'static str,
        place: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            severity,
            code,
            place: place.into(),
            message: message.into(),
        }
    }
}

pub struct CheckInput<'a> {
    pub tools: &'a [Arc<Tool>],
    pub component: &'a ComponentFile,
    pub package: &'a PackageInfo,
    pub is_folder: bool,
}

#[derive(Default)]
struct Findings(Vec<CheckFinding>);

impl Findings {
    fn add(
        &mut self,
        severity: Severity,
        code: &'static str,
        place: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.0
            .push(CheckFinding::new(severity, code, place, message));
    }
}

pub fn check(checked: &CheckInput<'_>) -> Vec<CheckFinding> {
    let mut found = Findings::default();
    for tool in checked.tools {
        let name = tool.declaration().qualified_name();
        description(&name, &tool.declaration().description, &mut found);
        texts(&name, tool, &mut found);
        listing(&name, tool.contract().listed(), &mut found);
        schema(&name, tool.contract().listed_schema(), &mut found);
        output(&name, tool, &mut found);
        ceiling(&name, tool, checked.component, &mut found);
        for note in tool.notes().iter().take(PLACES_MAX) {
            let place = format!("{name}{}", note.path);
            found.add(Note, "without_effect", place, note.message.as_str());
        }
    }
    component(checked.component, &mut found);
    package(checked, &mut found);
    found
        .0
        .sort_by_key(|found| std::cmp::Reverse(found.severity));
    found.0
}

fn description(name: &str, text: &str, found: &mut Findings) {
    let place = || format!("{name}/description");
    match text.trim().chars().count() {
        0 => {
            let message = "the tool has no description, so that no model knows when to call it; write one sentence";
            found.add(Error, "description_missing", place(), message);
        }
        length if length < DESCRIPTION_MIN => {
            let message = format!(
                "the description has {length} characters; say what the tool does, and with what"
            );
            found.add(Warning, "description_short", place(), message);
        }
        length if length > DESCRIPTION_MAX => {
            let message = format!(
                "the description has {length} characters, which every call of a model pays for; shorten it"
            );
            found.add(Warning, "description_long", place(), message);
        }
        _ => {}
    }
}

/// All of them can reach a model: each of the two can have the schemas.
fn texts(name: &str, tool: &Tool, found: &mut Findings) {
    let mut hidden = Vec::new();
    let mut instructions = Vec::new();
    let mut look = |place: &str, text: &str| {
        if text
            .chars()
            .any(|c| deceives(c) && !matches!(c, '\n' | '\t' | '\r'))
            && hidden.len() < PLACES_MAX
        {
            hidden.push(place.to_owned());
        }
        let lower = text.to_lowercase();
        let phrase = INSTRUCTIONS.iter().find(|phrase| lower.contains(**phrase));
        if let Some(phrase) = phrase.filter(|_| instructions.len() < PLACES_MAX) {
            instructions.push((place.to_owned(), *phrase));
        }
    };
    let declaration = serde_json::to_value(&**tool.declaration());
    let interface = tool.interface().map(serde_json::to_value).transpose();
    walk(
        &declaration.unwrap_or_default(),
        &mut String::new(),
        &mut look,
    );
    walk(
        &interface.unwrap_or_default().unwrap_or_default(),
        &mut "/interface".to_owned(),
        &mut look,
    );
    for place in hidden {
        let message = "the text has control characters or invisible ones, which a person does not see and a model reads; \
                       remove them";
        found.add(Error, "text_hidden", format!("{name}{place}"), message);
    }
    for (place, phrase) in instructions {
        let message = format!(
            "the text says \"{phrase}\", as texts do that instruct a model instead of describing a tool; say what the \
             tool does"
        );
        found.add(Warning, "text_instructs", format!("{name}{place}"), message);
    }
}

fn walk(value: &Value, place: &mut String, each: &mut impl FnMut(&str, &str)) {
    let length = place.len();
    match value {
        Value::String(text) => each(place, text),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                place.push_str(&format!("/{at}"));
                walk(item, place, each);
                place.truncate(length);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                // A finding quotes the place, and so must not have what it warns of.
                place.push_str(&format!("/{}", name.escape_debug()));
                each(place, name);
                walk(field, place, each);
                place.truncate(length);
            }
        }
        _ => {}
    }
}

fn listing(name: &str, listed: &ListedSchema, found: &mut Findings) {
    let place = || format!("{name}/input");
    if !listed.is_possible() {
        let message = "the schema of the arguments accepts no object, so that the tool cannot be listed for a model, and no \
                       call of it can succeed; arguments are an object: describe its properties";
        found.add(Error, "listing_impossible", place(), message);
    }
    if listed.is_cut() {
        let message = "what the schema of the arguments refers to takes more than 128 KiB where it is used, so that some \
                       arguments are listed as any value; use fewer and smaller definitions";
        found.add(Warning, "listing_cut", place(), message);
    }
}

fn schema(name: &str, schema: &Value, found: &mut Findings) {
    let properties = schema.get("properties").and_then(Value::as_object);
    let place = || format!("{name}/input");
    if properties.is_none() && schema.get("type").is_none() && schema.get("$ref").is_none() {
        let message = "the schema of the arguments accepts anything, so that no model knows what to write; name the \
                       arguments and their types";
        found.add(Warning, "schema_open", place(), message);
    }
    let is_silent =
        |field: &Value| field.get("description").is_none() && field.get("$ref").is_none();
    let silent = properties
        .into_iter()
        .flatten()
        .filter(|(_, field)| is_silent(field));
    let silent: Vec<String> = silent
        .map(|(name, _)| format!("`{}`", name.escape_debug()))
        .take(PLACES_MAX)
        .collect();
    if !silent.is_empty() {
        let message = format!(
            "no description says what {} means; a model reads it before it writes a value",
            silent.join(", ")
        );
        found.add(Warning, "argument_undescribed", place(), message);
    }
}

/// Finds a text beside structured output that has facts alone: then the output does not say what the tool answers.
fn output(name: &str, tool: &Tool, found: &mut Findings) {
    let contract = tool.declaration().output_contract.as_ref();
    let says_text =
        contract.is_some_and(|contract| contract.content_types.iter().any(|kind| kind == "text"));
    let Some(whole) = tool.contract().output_schema().filter(|_| says_text) else {
        return;
    };
    let properties = whole.get("properties").and_then(Value::as_object);
    let is_fact = |schema: &Value| {
        let target = schema
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|target| whole.pointer(target.strip_prefix('#')?));
        let schema = target.unwrap_or(schema);
        let kinds = match schema.get("type") {
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
            kind => kind.and_then(Value::as_str).into_iter().collect::<Vec<_>>(),
        };
        schema.get("enum").is_some()
            || (!kinds.is_empty()
                && kinds
                    .iter()
                    .all(|kind| !matches!(*kind, "array" | "object")))
    };
    if properties.is_some_and(|fields| !fields.is_empty() && fields.values().all(is_fact)) {
        let message = "the tool answers with text beside structured output that has facts alone; clients that give a model the \
                       structured output alone get the text as an added property `text`: let the output have it";
        found.add(
            Note,
            "text_beside_output",
            format!("{name}/output"),
            message,
        );
    }
}

/// Finds access that the profile asks for and the component cannot use: users would approve it for nothing.
fn ceiling(name: &str, tool: &Tool, component: &ComponentFile, found: &mut Findings) {
    let profile = tool.permission_profile();
    let asks = |kind: &AccessKind| profile.access_kinds.contains(kind);
    for (asked, what, imports) in [
        (asks(&AccessKind::Network), "access_kinds: network", HTTP),
        (
            asks(&AccessKind::FileRead),
            "access_kinds: file_read",
            FILES,
        ),
        (
            asks(&AccessKind::FileWrite),
            "access_kinds: file_write",
            FILES,
        ),
        (
            asks(&AccessKind::Credential) || !profile.credential_refs.is_empty(),
            "secrets",
            HTTP,
        ),
        (!profile.environment.is_empty(), "environment", ENVIRONMENT),
        (!profile.tool_calls.is_empty(), "tool_calls", TOOLS),
    ] {
        if asked && !component.imports_any(imports) {
            let message = format!(
                "the profile asks for {what}, and the component imports nothing that could use it ({}); ask for less",
                imports.join(", ")
            );
            found.add(
                Warning,
                "ceiling_too_large",
                format!("{name}/permissions"),
                message,
            );
        }
    }
}

fn component(component: &ComponentFile, found: &mut Findings) {
    let size = component.size;
    let debug = component.debug_bytes;
    if size > SIZE_LARGE {
        let message =
            format!("the component has {size} bytes; each user fetches and compiles them");
        found.add(Warning, "component_large", "component", message);
    }
    if debug > 0 {
        let message = format!(
            "{debug} of {size} bytes are debug information; build for release, with `strip`"
        );
        found.add(Warning, "debug_information", "component", message);
    }
}

fn package(checked: &CheckInput<'_>, found: &mut Findings) {
    let package = checked.package;
    let place = if checked.is_folder {
        "package"
    } else {
        "component"
    };
    let mut add = |severity, code, message: &str| found.add(severity, code, place, message);
    if package.version.is_none() {
        add(
            Warning,
            "version_missing",
            "no manifest says the version; users see it, and a downgrade is told by it",
        );
    }
    if package.licence.is_none() {
        let message = if package.has_licence_file {
            "there is a file with the licence, and no manifest names it; write its SPDX expression"
        } else {
            "without a licence, its users have no right to use it; write its SPDX expression into the manifest"
        };
        add(Warning, "licence_missing", message);
    }
    if package.description.is_none() {
        add(
            Note,
            "package_undescribed",
            "no manifest says in a sentence what the package is",
        );
    }
    if checked.is_folder && !package.has_readme {
        add(
            Warning,
            "readme_missing",
            "there is no README; say what the tool does, and which grants it needs",
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn descriptions_say_enough_and_not_too_much() {
        let code = |text: &str| {
            let mut found = Findings::default();
            description("a.b", text, &mut found);
            found.0.first().map(|found| (found.code, found.severity))
        };
        assert_eq!(code(" \n"), Some(("description_missing", Severity::Error)));
        assert_eq!(
            code("Counts."),
            Some(("description_short", Severity::Warning))
        );
        assert_eq!(code("Counts the words of a text."), None);
        assert_eq!(
            code(&"x".repeat(2_001)),
            Some(("description_long", Severity::Warning))
        );
    }

    #[test]
    fn every_text_is_seen_with_its_place() {
        let mut seen = Vec::new();
        let value = json!({ "a": ["x", { "b": "y" }], "c": 1 });
        walk(&value, &mut String::new(), &mut |place, text| {
            seen.push(format!("{place}={text}"))
        });
        assert_eq!(seen, ["/a=a", "/a/0=x", "/a/1/b=b", "/a/1/b=y", "/c=c"]);
    }

    #[test]
    fn a_schema_names_and_describes_its_arguments() {
        let codes = |value: Value| {
            let mut found = Findings::default();
            schema("a.b", &value, &mut found);
            found.0.iter().map(|found| found.code).collect::<Vec<_>>()
        };
        assert_eq!(codes(json!({})), ["schema_open"]);
        assert_eq!(
            codes(json!({ "type": "object", "properties": { "a": {} } })),
            ["argument_undescribed"]
        );
        assert!(
            codes(json!({ "type": "object", "properties": { "a": { "description": "A." } } }))
                .is_empty()
        );
    }
}
