//! Tools: what each could ever ask for, who signed it, and a form to try it.

use std::collections::BTreeMap;

use axum::extract::{Form, Path};
use axum::response::Response;
use maud::{Markup, html};
use serde_json::{Map, Value};
use toolcell_spec::text::{Whitespace, visible};

use super::{list as items, text};
use crate::json_tree::tree;
use crate::layout::{PageProblem, Place, badge, fact};
use crate::route::see;
use crate::text::{in_url, line, start_of};
use crate::{DescribedTool, OwnPage, PageState, ToolRow};

const DESCRIPTION_CHARS_MAX: usize = 4_000;
const FIELDS_MAX: usize = 100;
/// All arguments as one JSON object.
const WHOLE: &str = "input";
const FIELD: &str = "arg-";

type Fields = BTreeMap<String, String>;

pub(crate) async fn list(OwnPage(state): OwnPage) -> Result<Response, PageProblem> {
    let tools = state.actions.tools().await?;
    // A server does not say where its tools are from.
    let has_origin = tools
        .iter()
        .any(|tool| !tool.reference.is_empty() || !tool.signer.is_empty());
    let names: &[&str] = if has_origin {
        &["Name", "State", "Version", "From", "Signed by"]
    } else {
        &["Name", "State"]
    };
    let body = html! {
        h1 { "Tools" }
        @if tools.is_empty() {
            p class="empty" {
                @if state.user.principal().is_some() { "You have no tools." }
                @else {
                    "No tool is installed: " code { "toolcell install REF" } " installs one, and "
                    code { "toolcell inspect PATH" } " shows one that is not."
                }
            }
        } @else {
            div class="scroll" tabindex="0" {
                table {
                    thead { tr { @for name in names { th scope="col" { (name) } } } }
                    tbody { @for tool in &tools { (row(tool, has_origin)) } }
                }
            }
        }
    };
    let shown = move |state: &PageState| state.page("Tools", Place::Tools, &body);
    state.aside(shown).await
}

fn row(tool: &ToolRow, has_origin: bool) -> Markup {
    html! {
        tr {
            td { a class="open said" href={ "/tools/" (in_url(&tool.name)) } { (line(&tool.name)) } }
            td { (badge(&tool.state)) }
            @if has_origin {
                td class="said" { (line(&tool.version)) }
                td class="said" { (line(&tool.reference)) }
                td class="said" { (line(&tool.signer)) }
            }
        }
    }
}

pub(crate) async fn show(
    OwnPage(state): OwnPage,
    Path(name): Path<String>,
) -> Result<Response, PageProblem> {
    let described = state.actions.describe(&name).await?;
    let body = html! {
        h1 { "Tool " span class="said" { (line(&name)) } }
        dl class="facts" {
            @for (label, value) in described.facts.iter().filter(|(_, value)| !value.is_empty()) {
                (fact(label, &html! { span class="said" { (line(value)) } }))
            }
        }
        @for declaration in &described.declarations { (one(&state, &name, &described, declaration)) }
    };
    let shown = move |state: &PageState| state.page(&name, Place::Tools, &body);
    state.aside(shown).await
}

fn one(
    state: &PageState,
    component: &str,
    described: &DescribedTool,
    declaration: &Value,
) -> Markup {
    let name = text(declaration, "name");
    let reference = text(declaration, "permission_profile_ref");
    let mut profiles = described.permission_profiles.iter();
    let own = profiles.find(|profile| text(profile, "permission_profile_id") == reference);
    let null = Value::Null;
    let profile = own.unwrap_or(&null);
    let (said, _) = start_of(text(declaration, "description"), DESCRIPTION_CHARS_MAX);
    let schema = declaration
        .pointer("/input_contract/model_input_schema")
        .unwrap_or(&null);
    html! {
        section class="tool" aria-label=(line(name)) {
            h2 class="said" { (line(text(declaration, "tool_id"))) }
            p class="said lines" { (visible(said, Whitespace::Kept)) }
            h3 { "Could ever ask for" }
            ul { @for words in asks(profile) { li { (words) } } }
            details { summary { "Schema of its arguments" } (tree(schema, None)) }
            @if let Some(output) = declaration.pointer("/output_contract/structured_schema") {
                details { summary { "Schema of its result" } (tree(output, None)) }
            }
            details {
                summary { "Try it" }
                (form(state, component, name, schema))
            }
        }
    }
}

/// The most that a call of the tool could do, in plain words.
fn asks(profile: &Value) -> Vec<String> {
    let kinds = items(profile, "access_kinds")
        .iter()
        .filter_map(Value::as_str);
    let mut words: Vec<String> = kinds
        .map(|kind| match kind {
            "file_read" => "read files in folders that you grant".to_owned(),
            "file_write" => "change files in folders that you grant".to_owned(),
            "network" => format!(
                "send requests to hosts that you grant ({})",
                text(profile, "network_scope")
            ),
            "credential" => "send secrets that you grant in its requests".to_owned(),
            other => format!("{}, which cannot be granted", other.replace('_', " ")),
        })
        .map(|words| line(&words))
        .collect();
    for (field, label) in [
        ("credential_refs", "use the secrets"),
        ("environment", "read the variables"),
        ("tool_calls", "call the tools"),
    ] {
        let names = items(profile, field).iter().filter_map(Value::as_str);
        let names: Vec<&str> = names.collect();
        if !names.is_empty() {
            words.push(line(&format!("{label} {}", names.join(", "))));
        }
    }
    if profile.get("user_info").and_then(Value::as_bool) == Some(true) {
        words.push("see what the caller's client says of its user".to_owned());
    }
    if words.is_empty() {
        words.push("nothing: it computes on its arguments alone".to_owned());
    }
    let effects = items(profile, "write_effects")
        .iter()
        .filter_map(Value::as_str);
    let effects: Vec<String> = effects
        .filter(|effect| *effect != "none")
        .map(|effect| effect.replace('_', " "))
        .collect();
    if !effects.is_empty() {
        words.push(line(&format!("effects: {}", effects.join(", "))));
    }
    words.push(line(&format!("risk: {}", text(profile, "risk_level"))));
    words
}

fn form(state: &PageState, component: &str, name: &str, schema: &Value) -> Markup {
    let fields = schema.get("properties").and_then(Value::as_object);
    let fields: Vec<(&String, &Value)> = fields.into_iter().flatten().take(FIELDS_MAX).collect();
    let required = items(schema, "required");
    html! {
        form method="post" action={ "/tools/" (in_url(component)) } {
            input type="hidden" name="tool" value=(name);
            @for (field, schema) in &fields {
                (field_of(field, schema, required.iter().any(|one| one == *field)))
            }
            details open[fields.is_empty()] {
                summary { "As JSON" }
                label {
                    "All arguments; the fields above do not count then"
                    textarea name=(WHOLE) rows="6" spellcheck="false" { @if fields.is_empty() { "{}" } }
                }
            }
            @if let Some(grants) = state.actions.grants() {
                p class="note" {
                    "Granted: "
                    @if grants.is_empty() { "nothing. " code { "toolcell inspect --allow-read=DIR" } " and its like grant more." }
                    @else { @for grant in grants { code class="said" { (line(grant)) } " " } }
                }
            }
            button { "Call it" }
        }
    }
}

/// The `type` in the schema says how the text of a field is read.
fn field_of(name: &str, schema: &Value, is_required: bool) -> Markup {
    let kind = kind_of(schema);
    let default = schema.get("default").filter(|value| !value.is_null());
    let default = default.map(|value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    });
    let id = format!("{FIELD}{kind}-{name}");
    let choices = items(schema, "enum");
    html! {
        label {
            span class="said" { (line(name)) @if is_required { " (required)" } }
            " " span class="note said" { (line(text(schema, "description"))) }
            @if !choices.is_empty() {
                select name=(id) {
                    @if !is_required { option value="" {} }
                    @for choice in choices.iter().filter_map(Value::as_str) {
                        option value=(choice) selected[default.as_deref() == Some(choice)] { (line(choice)) }
                    }
                }
            } @else if kind == "boolean" {
                select name=(id) {
                    @for value in ["", "true", "false"] { option value=(value) { (value) } }
                }
            } @else if kind == "json" {
                textarea name=(id) rows="3" spellcheck="false" placeholder="JSON" {}
            } @else {
                input name=(id) autocomplete="off" placeholder=(default.as_deref().map(line).unwrap_or_default()) required[is_required && kind != "string"];
            }
        }
    }
}

fn kind_of(schema: &Value) -> &'static str {
    let word = match schema.get("type") {
        Some(Value::String(word)) => word.as_str(),
        Some(Value::Array(words)) => {
            let mut words = words.iter().filter_map(Value::as_str);
            words.find(|word| *word != "null").unwrap_or_default()
        }
        _ => "",
    };
    match word {
        "string" => "string",
        "boolean" => "boolean",
        "integer" | "number" => "number",
        _ => "json",
    }
}

/// An empty field is left out.
fn arguments(fields: &Fields) -> Result<Value, PageProblem> {
    let wrong = |name: &str, error: &dyn std::fmt::Display| {
        PageProblem::bad(format!("{name}: {error}; nothing was called"))
    };
    let whole = fields
        .get(WHOLE)
        .map(|text| text.trim())
        .unwrap_or_default();
    if !whole.is_empty() {
        return serde_json::from_str(whole)
            .map_err(|error| wrong("the arguments are not JSON", &error));
    }
    let mut arguments = Map::new();
    for (field, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        let typed = field
            .strip_prefix(FIELD)
            .and_then(|rest| rest.split_once('-'));
        let Some((kind, name)) = typed else { continue };
        let value = match kind {
            "string" => Value::String(value.replace("\r\n", "\n")),
            _ => serde_json::from_str(value).map_err(|error| wrong(name, &error))?,
        };
        arguments.insert(name.to_owned(), value);
    }
    Ok(Value::Object(arguments))
}

/// Calls the tool with the grants that the user has.
pub(crate) async fn attempt(
    OwnPage(state): OwnPage,
    Path(name): Path<String>,
    Form(fields): Form<Fields>,
) -> Result<Response, PageProblem> {
    let tool = fields.get("tool").map(String::as_str).unwrap_or_default();
    let input = arguments(&fields)?.to_string();
    match state.actions.call(&name, tool, input).await? {
        Some(id) => see(&format!("/calls/{}", in_url(&id))),
        None => see("/"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Fields, arguments};

    #[test]
    fn fields_become_arguments_of_their_types() {
        let fields = |pairs: &[(&str, &str)]| -> Fields {
            let pairs = pairs.iter();
            pairs
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect()
        };
        let given = fields(&[
            ("tool", "read"),
            ("arg-string-path", "1"),
            ("arg-number-limit", "2"),
            ("arg-json-of-list", "[3]"),
            ("arg-boolean-all", ""),
        ]);
        let expected = json!({ "path": "1", "limit": 2, "of-list": [3] });
        assert_eq!(arguments(&given).unwrap(), expected);
        let whole = fields(&[("input", "{\"a\": 1}"), ("arg-string-path", "x")]);
        assert_eq!(arguments(&whole).unwrap(), json!({ "a": 1 }));
        assert!(arguments(&fields(&[("arg-number-limit", "x")])).is_err());
    }
}
