use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::doc::paragraphs;
use crate::{Context, Outcome, ToolError, context};

/// The version of Agent Tool that the records follow.
const SCHEMA_VERSION: &str = "0.2.0";

/// What `#[tool(..)]` and the doc comment say about a tool. Booleans that are `None` are unstated.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Attributes {
    pub name: &'static str,
    pub description: &'static str,
    pub title: Option<&'static str>,
    pub kind: &'static str,
    pub search_hint: Option<&'static str>,
    pub aliases: &'static [&'static str],
    pub lifecycle: &'static str,
    pub risk: &'static str,
    pub access: &'static [&'static str],
    pub write_effects: &'static [&'static str],
    pub network_scope: Option<&'static str>,
    pub credential_refs: &'static [&'static str],
    /// Each is JSON, as are `defaults`, `examples`, and a redaction rule that is not the name of a field.
    pub credential_uses: &'static [&'static str],
    pub env: &'static [&'static str],
    pub tool_calls: &'static [&'static str],
    pub approval: Option<&'static str>,
    pub data_sensitivity: Option<&'static str>,
    pub defaults: Option<&'static str>,
    pub examples: &'static [&'static str],
    pub sensitive_fields: &'static [&'static str],
    pub internal_fields: &'static [&'static str],
    pub redaction_rules: &'static [&'static str],
    pub paths: &'static [&'static str],
    pub urls: &'static [&'static str],
    pub resources: &'static [&'static str],
    pub content: &'static [&'static str],
    pub read_only: Option<bool>,
    pub concurrency_safe: Option<bool>,
    pub destructive: Option<bool>,
    pub open_world: Option<bool>,
    pub should_defer: Option<bool>,
    pub always_load: Option<bool>,
    pub requires_background: Option<bool>,
    pub context_modifier_policy: Option<&'static str>,
    pub timeout_ms: Option<u64>,
}

impl Attributes {
    /// Attributes of a tool that states only its name and description: a function of low risk without any access.
    pub const fn new(name: &'static str, description: &'static str) -> Self {
        Self {
            name,
            description,
            title: None,
            kind: "function",
            search_hint: None,
            aliases: &[],
            lifecycle: "available",
            risk: "low",
            access: &[],
            write_effects: &[],
            network_scope: None,
            credential_refs: &[],
            credential_uses: &[],
            env: &[],
            tool_calls: &[],
            approval: None,
            data_sensitivity: None,
            defaults: None,
            examples: &[],
            sensitive_fields: &[],
            internal_fields: &[],
            redaction_rules: &[],
            paths: &[],
            urls: &[],
            resources: &[],
            content: &[],
            read_only: None,
            concurrency_safe: None,
            destructive: None,
            open_world: None,
            should_defer: None,
            always_load: None,
            requires_background: None,
            context_modifier_policy: None,
            timeout_ms: None,
        }
    }
}

/// A typed function as a tool. `#[tool]` generates the implementation, in which the types are already erased, because
/// they may be more private than the tool.
pub trait Tool {
    /// What the tool declares about itself.
    const ATTRIBUTES: Attributes;

    /// The JSON Schema of the input.
    fn input_schema() -> Value;

    /// The JSON Schema of the structured value, if there is one.
    fn structured_schema() -> Option<Value>;

    /// The block types that can be returned; an empty list means any.
    fn content_types() -> &'static [&'static str];

    /// Runs the function on JSON text.
    fn run(input: &str) -> Outcome;

    /// Checks values beyond what a schema can express, on JSON text.
    fn validate(_input: &str) -> Result<(), ToolError> {
        Ok(())
    }

    /// Checks whether the call could start at all, on JSON text.
    fn preflight(_input: &str) -> Result<(), ToolError> {
        Ok(())
    }

    /// Says what the call would do, on JSON text.
    fn classify(_input: &str) -> Facts {
        Facts::default()
    }
}

/// Claims of `classify` about one call; `None` is unstated. They may only narrow what the tool declares.
///
/// ```
/// use toolcell_guest::{Facts, data, tool, toolkit};
///
/// #[data]
/// struct Change {
///     dry_run: bool,
/// }
///
/// fn facts(input: &Change) -> Facts {
///     Facts { read_only: Some(input.dry_run), ..Facts::default() }
/// }
///
/// /// Renames files, or says which ones it would rename.
/// #[tool(classify = facts)]
/// fn rename(input: Change) -> String {
///     if input.dry_run { "a to b" } else { "renamed" }.to_owned()
/// }
///
/// toolkit! { namespace: "files", tools: [rename] }
/// # fn main() {
/// # use toolcell_guest::{serde_json::json, testing};
/// # assert_eq!(testing::classify::<Toolkit>("rename", json!({ "dry_run": true })).read_only, Some(true));
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Facts {
    pub read_only: Option<bool>,
    pub concurrency_safe: Option<bool>,
    pub destructive: Option<bool>,
    pub open_world: Option<bool>,
}

/// One tool with its types erased.
#[derive(Clone, Copy)]
pub struct Entry {
    attributes: Attributes,
    input_schema: fn() -> Value,
    structured_schema: fn() -> Option<Value>,
    content_types: fn() -> &'static [&'static str],
    run: fn(&str) -> Outcome,
    validate: fn(&str) -> Result<(), ToolError>,
    preflight: fn(&str) -> Result<(), ToolError>,
    classify: fn(&str) -> Facts,
}

impl Entry {
    /// The entry of the tool `T`.
    pub const fn of<T: Tool>() -> Self {
        Self {
            attributes: T::ATTRIBUTES,
            input_schema: T::input_schema,
            structured_schema: T::structured_schema,
            content_types: T::content_types,
            run: T::run,
            validate: T::validate,
            preflight: T::preflight,
            classify: T::classify,
        }
    }
}

/// The tools of one component. `toolkit!` generates the implementation.
pub trait Toolkit {
    /// The first part of every tool id.
    const NAMESPACE: &'static str;
    /// The tools, in the order in which they are described.
    const TOOLS: &'static [Entry];

    /// Takes the settings of the operator, as JSON text. Only a component whose `toolkit!` names a type for them takes any.
    fn configure(_config: &str) -> Result<(), ToolError> {
        Err(ToolError::setup_required(
            "not_configurable",
            "the component takes no settings",
        ))
    }
}

/// Fails the build if two tools of `K` share a name, because the host could call only one of them.
pub const fn assert_unique_names<K: Toolkit>() {
    let tools = K::TOOLS;
    let mut first = 0;
    while first < tools.len() {
        let mut second = first + 1;
        while second < tools.len() {
            let a = tools[first].attributes.name.as_bytes();
            let b = tools[second].attributes.name.as_bytes();
            assert!(!equal(a, b), "two tools of this toolkit have the same name");
            second += 1;
        }
        first += 1;
    }
}

const fn equal(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// The records of every tool of `K`, in the order of its list.
pub(crate) fn describe<K: Toolkit>() -> Value {
    let records: Vec<Records> = K::TOOLS
        .iter()
        .map(|entry| Records::of(K::NAMESPACE, entry))
        .collect();
    let each = |pick: fn(&Records) -> &Value| records.iter().map(pick).cloned().collect::<Vec<_>>();
    json!({
        "declarations": each(|records| &records.declaration),
        "interfaces": each(|records| &records.interface),
        "execution_profiles": each(|records| &records.execution_profile),
        "permission_profiles": each(|records| &records.permission_profile),
    })
}

/// Runs one tool of `K` on JSON text.
pub(crate) fn invoke<K: Toolkit>(tool: &str, input: &str, call: Context) -> Outcome {
    context::set(call);
    match find::<K>(tool) {
        Ok(entry) => (entry.run)(input),
        Err(error) => Outcome::Failure(error),
    }
}

/// Runs the value checks of one tool of `K`.
pub(crate) fn validate<K: Toolkit>(tool: &str, input: &str) -> Result<(), ToolError> {
    (find::<K>(tool)?.validate)(input)
}

/// Runs the preflight of one tool of `K`.
pub(crate) fn preflight<K: Toolkit>(tool: &str, input: &str) -> Result<(), ToolError> {
    (find::<K>(tool)?.preflight)(input)
}

/// What one tool of `K` says of a call.
pub(crate) fn classify<K: Toolkit>(tool: &str, input: &str) -> Facts {
    find::<K>(tool).map_or_else(|_| Facts::default(), |entry| (entry.classify)(input))
}

fn find<K: Toolkit>(tool: &str) -> Result<&'static Entry, ToolError> {
    K::TOOLS
        .iter()
        .find(|entry| entry.attributes.name == tool)
        .ok_or_else(|| {
            ToolError::capability_gap(
                "unknown_tool",
                format!("the toolkit {} has no tool {tool}", K::NAMESPACE),
            )
        })
}

/// Parses the input of a tool from JSON text.
pub fn parse<T: DeserializeOwned>(input: &str) -> Result<T, ToolError> {
    serde_json::from_str(input)
        .map_err(|error| ToolError::invalid_arguments("invalid_input", error.to_string()))
}

/// The four records of one tool. The host adds what only it can know.
struct Records {
    declaration: Value,
    interface: Value,
    execution_profile: Value,
    permission_profile: Value,
}

impl Records {
    fn of(namespace: &str, entry: &Entry) -> Self {
        let ids = Ids::new(namespace, entry.attributes.name);
        Self {
            declaration: declaration(namespace, entry, &ids),
            interface: interface(entry, &ids),
            execution_profile: execution_profile(&entry.attributes, &ids),
            permission_profile: permission_profile(&entry.attributes, &ids),
        }
    }
}

struct Ids {
    tool: String,
    interface: String,
    execution_profile: String,
    permission_profile: String,
}

impl Ids {
    fn new(namespace: &str, name: &str) -> Self {
        let tool = format!("{namespace}.{name}");
        Self {
            interface: format!("{tool}.interface"),
            execution_profile: format!("{tool}.execution"),
            permission_profile: format!("{tool}.permission"),
            tool,
        }
    }
}

fn declaration(namespace: &str, entry: &Entry, ids: &Ids) -> Value {
    let attributes = &entry.attributes;
    let input = Object::new()
        .set("model_input_schema", (entry.input_schema)())
        .set("strict", true)
        .set("argument_mode", "json")
        .maybe("defaults", attributes.defaults.map(json))
        .jsons("examples", attributes.examples)
        .list("sensitive_fields", attributes.sensitive_fields)
        .list("internal_only_fields", attributes.internal_fields);
    let content_types = match attributes.content {
        [] => (entry.content_types)(),
        stated => stated,
    };
    let output = Object::new()
        .maybe("structured_schema", (entry.structured_schema)())
        .list("content_types", content_types)
        .jsons("redaction_rules", attributes.redaction_rules);
    Object::new()
        .set("schema_version", SCHEMA_VERSION)
        .set("tool_id", ids.tool.as_str())
        .set("namespace", namespace)
        .set("name", attributes.name)
        .list("aliases", attributes.aliases)
        .maybe("search_hint", attributes.search_hint)
        .maybe("title", attributes.title)
        .set("description", paragraphs(attributes.description))
        .set("lifecycle", attributes.lifecycle)
        .set("tool_kind", attributes.kind)
        .set("input_contract", input.0)
        .set("output_contract", output.0)
        .set("interface_ref", ids.interface.as_str())
        .set("execution_profile_ref", ids.execution_profile.as_str())
        .set("permission_profile_ref", ids.permission_profile.as_str())
        .into()
}

fn interface(entry: &Entry, ids: &Ids) -> Value {
    let attributes = &entry.attributes;
    Object::new()
        .set("schema_version", SCHEMA_VERSION)
        .set("interface_id", ids.interface.as_str())
        .set("tool_id", ids.tool.as_str())
        .set("name", attributes.name)
        .list("aliases", attributes.aliases)
        .maybe("search_hint", attributes.search_hint)
        .set("model_input_schema", (entry.input_schema)())
        .maybe("output_schema", (entry.structured_schema)())
        .set("strict", true)
        .maybe("is_read_only", attributes.read_only)
        .maybe("is_concurrency_safe", attributes.concurrency_safe)
        .maybe("is_destructive", attributes.destructive)
        .maybe("is_open_world", attributes.open_world)
        .maybe("should_defer", attributes.should_defer)
        .maybe("always_load", attributes.always_load)
        .maybe(
            "context_modifier_policy",
            attributes.context_modifier_policy,
        )
        .maybe("permission_subjects", permission_subjects(attributes))
        .set("execution_profile_ref", ids.execution_profile.as_str())
        .set("permission_profile_ref", ids.permission_profile.as_str())
        .into()
}

/// The arguments that name what a call is about, by JSON Pointer: a field of the input, or a pointer if it begins with
/// `/`.
fn permission_subjects(attributes: &Attributes) -> Option<Value> {
    let mut subjects = Object::new();
    for (kind, fields) in [
        ("path", attributes.paths),
        ("url", attributes.urls),
        ("resource", attributes.resources),
    ] {
        for field in fields {
            let pointer = match field.strip_prefix('/') {
                Some(_) => (*field).to_owned(),
                None => format!("/{}", field.replace('~', "~0").replace('/', "~1")),
            };
            subjects = subjects.set(&pointer, kind);
        }
    }
    (!subjects.0.is_empty()).then(|| subjects.into())
}

fn execution_profile(attributes: &Attributes, ids: &Ids) -> Value {
    Object::new()
        .set("schema_version", SCHEMA_VERSION)
        .set("execution_profile_id", ids.execution_profile.as_str())
        .set("execution_kind", "embedded_runtime")
        .set("sandboxed", true)
        .maybe("requires_background", attributes.requires_background)
        .maybe("timeout_ms", attributes.timeout_ms)
        .into()
}

fn permission_profile(attributes: &Attributes, ids: &Ids) -> Value {
    // The default is the least that the access kinds can mean.
    let write_effects = match attributes.write_effects {
        [] if attributes.access.contains(&"file_write") => &["local_persistent"],
        [] => &["none"],
        stated => stated,
    };
    let network_scope = match attributes.network_scope {
        None if !attributes.access.contains(&"network") => Some("none"),
        stated => stated,
    };
    Object::new()
        .set("schema_version", SCHEMA_VERSION)
        .set("permission_profile_id", ids.permission_profile.as_str())
        .set("risk_level", attributes.risk)
        .set("access_kinds", json!(attributes.access))
        .set("write_effects", json!(write_effects))
        .maybe("network_scope", network_scope)
        .list("credential_refs", attributes.credential_refs)
        .jsons("credential_uses", attributes.credential_uses)
        .maybe("approval_required", attributes.approval.map(|_| true))
        .maybe("approval_reason", attributes.approval)
        .maybe("data_sensitivity", attributes.data_sensitivity)
        .list("environment", attributes.env)
        .list("tool_calls", attributes.tool_calls)
        .into()
}

/// The value of a JSON text. What is none is a text, which the host refuses where it takes no text.
fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// A JSON object that leaves out absent values.
struct Object(Map<String, Value>);

impl Object {
    fn new() -> Self {
        Self(Map::new())
    }

    fn set(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    fn maybe(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.set(name, value),
            None => self,
        }
    }

    fn list(self, name: &str, values: &[&str]) -> Self {
        if values.is_empty() {
            self
        } else {
            self.set(name, json!(values))
        }
    }

    fn jsons(self, name: &str, texts: &[&str]) -> Self {
        let values: Vec<Value> = texts.iter().map(|text| json(text)).collect();
        if values.is_empty() {
            self
        } else {
            self.set(name, values)
        }
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        Self::Object(object.0)
    }
}
