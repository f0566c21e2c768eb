//! The declaration of a component of another world. Missing facts get safe defaults: nothing is read-only or safe
//! beside other calls, and the risk is medium.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Value, json};
use toolcell_spec::{
    AccessKind, CredentialUse, RiskLevel, SafetyFacts, SchemaVersion, SubjectKind, WriteEffect,
};

const NAME_BYTES_MAX: usize = 64;
const DESCRIPTION_CHARS_MAX: usize = 16_000;
const LEFT_OUT_MAX: usize = 32;
/// Limit of the name and of the reason of a part that is left out.
const REASON_CHARS_MAX: usize = 300;

#[derive(Clone, Debug)]
pub(super) struct ForeignTool {
    /// Unique in the component: see [`names`].
    pub(super) name: String,
    /// A missing description is replaced, and a long one is cut.
    pub(super) description: String,
    pub(super) tool_kind: &'static str,
    pub(super) input_schema: Value,
    pub(super) output_schema: Option<Value>,
    pub(super) access: Vec<AccessKind>,
    /// Empty: everything that `access` lets the tool change.
    pub(super) effects: Vec<WriteEffect>,
    /// Hosts, with [`AccessKind::Network`]. `None`: any host that is granted.
    pub(super) network_scope: Option<String>,
    pub(super) credentials: Vec<CredentialUse>,
    /// Patterns.
    pub(super) tool_calls: Vec<String>,
    pub(super) approval_required: bool,
    pub(super) facts: SafetyFacts,
    /// Arguments that name paths, URLs or other resources, by JSON Pointer.
    pub(super) subjects: BTreeMap<String, SubjectKind>,
    pub(super) timeout_ms: Option<u64>,
    /// The tool's name in its own protocol.
    pub(super) mapping: Option<Value>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) name: String,
    pub(super) reason: String,
}

impl ForeignTool {
    /// Imports of files say nothing, because language runtimes import them even for pure code.
    pub(super) fn careful(
        name: String,
        description: String,
        input_schema: Value,
        imports: &[String],
    ) -> Self {
        let has = |start: &str| imports.iter().any(|import| import.starts_with(start));
        let http = has("wasi:http/");
        Self {
            name,
            description,
            tool_kind: "function",
            input_schema,
            output_schema: None,
            access: if http {
                vec![AccessKind::Network]
            } else {
                Vec::new()
            },
            effects: Vec::new(),
            network_scope: None,
            credentials: Vec::new(),
            tool_calls: Vec::new(),
            approval_required: false,
            facts: SafetyFacts {
                is_open_world: (http || has("wasi:sockets/")).then_some(true),
                ..SafetyFacts::default()
            },
            subjects: BTreeMap::new(),
            timeout_ms: None,
            mapping: None,
        }
    }

    fn wants(&self, kind: AccessKind) -> bool {
        self.access.contains(&kind)
    }

    fn declaration(&self, namespace: &str, id: &str) -> Value {
        let mut description: String = self
            .description
            .trim()
            .chars()
            .take(DESCRIPTION_CHARS_MAX)
            .collect();
        if description.is_empty() {
            description = format!("The component does not describe `{}`.", self.name);
        }
        let output = self.output_schema.as_ref();
        record(json!({
            "schema_version": SchemaVersion::CURRENT,
            "tool_id": id,
            "namespace": namespace,
            "name": self.name,
            "description": description,
            "lifecycle": "available",
            "tool_kind": self.tool_kind,
            "input_contract": { "model_input_schema": self.input_schema },
            "interface_ref": interface_id(id),
            "permission_profile_ref": permission_id(id),
            "output_contract": output.map(|schema| json!({ "structured_schema": schema })),
            "external_mappings": self.mapping.as_ref().map(|mapping| [mapping]),
        }))
    }

    fn interface(&self, id: &str) -> Value {
        let SafetyFacts {
            is_read_only,
            is_concurrency_safe,
            is_destructive,
            is_open_world,
        } = self.facts;
        record(json!({
            "schema_version": SchemaVersion::CURRENT,
            "interface_id": interface_id(id),
            "tool_id": id,
            "is_read_only": is_read_only,
            "is_concurrency_safe": is_concurrency_safe,
            "is_destructive": is_destructive,
            "is_open_world": is_open_world,
            "timeout_ms": self.timeout_ms,
            "permission_subjects": (!self.subjects.is_empty()).then_some(&self.subjects),
        }))
    }

    fn permission_profile(&self, id: &str) -> Value {
        let any = if self.wants(AccessKind::Network) {
            "any"
        } else {
            "none"
        };
        let uses = Some(&self.credentials).filter(|uses| !uses.is_empty());
        let names = |uses: &Vec<CredentialUse>| {
            let names = uses.iter().map(|used| used.credential_ref.clone());
            names.collect::<Vec<String>>()
        };
        record(json!({
            "schema_version": SchemaVersion::CURRENT,
            "permission_profile_id": permission_id(id),
            "risk_level": RiskLevel::Medium,
            "access_kinds": self.access,
            "write_effects": self.write_effects(),
            "network_scope": self.network_scope.as_deref().unwrap_or(any),
            "approval_required": self.approval_required.then_some(true),
            "credential_refs": uses.map(names),
            "credential_uses": uses,
            "tool_calls": (!self.tool_calls.is_empty()).then_some(&self.tool_calls),
        }))
    }

    fn write_effects(&self) -> Vec<WriteEffect> {
        if !self.effects.is_empty() {
            return self.effects.clone();
        }
        let kinds = [
            (AccessKind::FileWrite, WriteEffect::LocalPersistent),
            (AccessKind::Network, WriteEffect::RemoteMutation),
        ];
        let effects: Vec<WriteEffect> = kinds
            .into_iter()
            .filter(|(kind, _)| self.wants(*kind))
            .map(|(_, effect)| effect)
            .collect();
        if effects.is_empty() {
            vec![WriteEffect::None]
        } else {
            effects
        }
    }
}

/// `namespace` is as [`namespace`] makes it.
pub(super) fn toolkit(namespace: &str, tools: &[ForeignTool], left_out: &[LeftOut]) -> String {
    let mut declarations = Vec::new();
    let mut interfaces = Vec::new();
    let mut profiles = Vec::new();
    for tool in tools {
        let id = format!("{namespace}.{}", tool.name);
        declarations.push(tool.declaration(namespace, &id));
        interfaces.push(tool.interface(&id));
        profiles.push(tool.permission_profile(&id));
    }
    let toolkit = json!({
        "declarations": declarations,
        "interfaces": interfaces,
        "permission_profiles": profiles,
        "not_offered": (!left_out.is_empty()).then(|| not_offered(left_out)),
    });
    record(toolkit).to_string()
}

pub(super) fn mapped(toolkit: &str, protocol: &str, field: &str) -> HashMap<String, String> {
    // Most toolkits need not be parsed.
    if !toolkit.contains("\"external_mappings\"") {
        return HashMap::new();
    }
    let toolkit: Value = serde_json::from_str(toolkit).unwrap_or_default();
    let own = |declaration: &Value| {
        let mappings = declaration.get("external_mappings")?.as_array()?;
        let is_own = |mapping: &&Value| mapping.get("source").is_some_and(|it| it == protocol);
        let value = mappings.iter().find(is_own)?.get(field)?.as_str()?;
        Some((
            declaration.get("name")?.as_str()?.to_owned(),
            value.to_owned(),
        ))
    };
    let declarations = toolkit.get("declarations").and_then(Value::as_array);
    declarations.into_iter().flatten().filter_map(own).collect()
}

/// Places that have the id of a toolkit's only tool, or begin with it.
const IDS: [&str; 6] = [
    "/declarations/0/tool_id",
    "/declarations/0/interface_ref",
    "/declarations/0/permission_profile_ref",
    "/interfaces/0/tool_id",
    "/interfaces/0/interface_id",
    "/permission_profiles/0/permission_profile_id",
];

/// The toolkit, whose only tool gets a name. `None` if the tool has another name than `unnamed`.
pub(super) fn renamed(toolkit: &str, unnamed: &str, name: &str) -> Option<String> {
    let mut toolkit: Value = serde_json::from_str(toolkit).ok()?;
    let place = toolkit
        .pointer_mut("/declarations/0/name")
        .filter(|name| *name == unnamed)?;
    let new = names([name]).pop()?;
    *place = new.as_str().into();
    let namespace = toolkit.pointer("/declarations/0/namespace")?.as_str()?;
    let old = format!("{namespace}.{unnamed}");
    let new = format!("{namespace}.{new}");
    for place in IDS {
        let id = toolkit.pointer_mut(place)?;
        *id = id.as_str()?.replacen(&old, &new, 1).into();
    }
    Some(toolkit.to_string())
}

fn not_offered(left_out: &[LeftOut]) -> Vec<String> {
    let cut = |text: &str| text.chars().take(REASON_CHARS_MAX).collect::<String>();
    let named = |part: &LeftOut| format!("{}: {}", cut(&part.name), cut(&part.reason));
    let mut listed: Vec<String> = left_out.iter().take(LEFT_OUT_MAX).map(named).collect();
    if left_out.len() > LEFT_OUT_MAX {
        listed.push(format!(
            "{} more, which are not listed",
            left_out.len() - LEFT_OUT_MAX
        ));
    }
    listed
}

/// Valid and different names, in the same order: other characters than letters, digits, `_` and `-` become `-`, and a
/// repeated name is numbered.
pub(super) fn names<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut taken = HashSet::new();
    let mut unique = |text: &str| {
        let first = plain(text, false, "tool");
        let mut name = first.clone();
        let mut count = 1_u32;
        while !taken.insert(name.clone()) {
            count = count.saturating_add(1);
            let number = format!("-{count}");
            let kept = NAME_BYTES_MAX.saturating_sub(number.len()).min(first.len());
            name = format!("{}{number}", first.get(..kept).unwrap_or_default());
        }
        name
    };
    texts.into_iter().map(&mut unique).collect()
}

pub(super) fn namespace(text: &str, otherwise: &str) -> String {
    plain(text, true, otherwise)
}

/// ASCII, so that it can be cut at any byte.
fn plain(text: &str, dotted: bool, otherwise: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || (dotted && c == '.');
    let plain: String = text
        .chars()
        .take(NAME_BYTES_MAX)
        .map(|c| if fits(c) { c } else { '-' })
        .collect();
    match plain.trim_matches(['-', '.']) {
        "" => otherwise.to_owned(),
        plain => plain.to_owned(),
    }
}

fn interface_id(id: &str) -> String {
    format!("{id}.interface")
}

fn permission_id(id: &str) -> String {
    format!("{id}.permission")
}

fn record(mut fields: Value) -> Value {
    if let Some(fields) = fields.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    fields
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolcell_spec::dialect::agent_tool::{self, LoadedToolkit};
    use toolcell_spec::{AccessKind, CredentialUse, RiskLevel, SubjectKind, Toolkit, WriteEffect};

    use super::{ForeignTool, LeftOut, names, namespace, toolkit};

    fn careful(name: &str, imports: &[&str]) -> ForeignTool {
        let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
        let imports: Vec<String> = imports.iter().map(|import| (*import).to_owned()).collect();
        ForeignTool::careful(name.to_owned(), "Does it.".to_owned(), schema, &imports)
    }

    #[track_caller]
    fn accepted(tools: &[ForeignTool]) -> Toolkit {
        let text = toolkit("docs.example", tools, &[]);
        let LoadedToolkit { toolkit, notes, .. } =
            agent_tool::toolkit(&text).unwrap_or_else(|errors| panic!("{errors:?}"));
        assert!(notes.is_empty(), "{notes:?}");
        toolkit
    }

    #[test]
    fn what_a_component_does_not_say_is_taken_carefully() {
        let kit = accepted(&[
            careful("a", &["wasi:filesystem/types@0.2.6"]),
            careful("b", &["wasi:http/types@0.2.0"]),
        ]);
        let names: Vec<String> = kit
            .declarations
            .iter()
            .map(|tool| tool.qualified_name())
            .collect();
        assert_eq!(names, ["docs.example.a", "docs.example.b"]);
        let [pure, remote] = &kit.permission_profiles[..] else {
            panic!()
        };
        assert!(pure.access_kinds.is_empty() && pure.write_effects == [WriteEffect::None]);
        assert_eq!(remote.access_kinds, [AccessKind::Network]);
        assert_eq!(remote.write_effects, [WriteEffect::RemoteMutation]);
        assert_eq!(remote.network_scope.as_deref(), Some("any"));
        assert!(
            kit.permission_profiles
                .iter()
                .all(|profile| profile.risk_level == RiskLevel::Medium)
        );
        let facts: Vec<_> = kit
            .interfaces
            .iter()
            .map(|interface| interface.facts())
            .collect();
        assert!(
            facts
                .iter()
                .all(|facts| facts.is_read_only.is_none() && facts.is_concurrency_safe.is_none())
        );
        assert_eq!(
            facts
                .iter()
                .map(|facts| facts.is_open_world)
                .collect::<Vec<_>>(),
            [None, Some(true)]
        );
    }

    #[test]
    fn sockets_reach_out_and_declare_nothing_that_could_be_granted() {
        let kit = accepted(&[careful("a", &["wasi:sockets/tcp@0.2.6"])]);
        assert_eq!(kit.interfaces[0].facts().is_open_world, Some(true));
        assert!(kit.permission_profiles[0].access_kinds.is_empty());
    }

    #[test]
    fn everything_that_a_world_can_declare_is_in_its_records() {
        let mut tool = careful("a", &["wasi:http/outgoing-handler@0.2.6"]);
        tool.output_schema = Some(json!({ "type": "string" }));
        tool.access.extend([
            AccessKind::FileRead,
            AccessKind::FileWrite,
            AccessKind::Credential,
        ]);
        tool.credentials = vec![CredentialUse::bearer("KEY")];
        tool.network_scope = Some("*.example.com".to_owned());
        tool.tool_calls = vec!["files.*".to_owned()];
        tool.approval_required = true;
        tool.facts.is_read_only = Some(false);
        tool.subjects = [("/path".to_owned(), SubjectKind::Path)].into();
        tool.timeout_ms = Some(7);
        let kit = accepted(&[tool]);
        let declaration = &kit.declarations[0];
        let interface = &kit.interfaces[0];
        assert_eq!(
            declaration
                .output_contract
                .as_ref()
                .unwrap()
                .structured_schema,
            Some(json!({ "type": "string" }))
        );
        assert_eq!(
            (interface.timeout_ms, interface.facts().is_read_only),
            (Some(7), Some(false))
        );
        assert_eq!(interface.permission_subjects["/path"], SubjectKind::Path);
        let profile = &kit.permission_profiles[0];
        assert_eq!(
            profile.write_effects,
            [WriteEffect::LocalPersistent, WriteEffect::RemoteMutation]
        );
        assert_eq!(profile.approval_required, Some(true));
        assert_eq!(
            (
                profile.credential_refs[0].as_str(),
                profile.tool_calls[0].as_str()
            ),
            ("KEY", "files.*")
        );
        assert_eq!(profile.network_scope.as_deref(), Some("*.example.com"));
    }

    #[test]
    fn a_description_is_never_empty_and_never_too_long() {
        for text in ["", " \n", &"x".repeat(20_000)] {
            let kit = accepted(&[ForeignTool {
                description: text.to_owned(),
                ..careful("a", &[])
            }]);
            assert!(!kit.declarations[0].description.is_empty());
        }
    }

    #[test]
    fn what_is_left_out_is_noted_with_its_reason_up_to_a_limit() {
        let part = |at: usize| LeftOut {
            name: format!("f{at}"),
            reason: "it takes a stream".repeat(100),
        };
        let left_out: Vec<LeftOut> = (0..100).map(part).collect();
        let LoadedToolkit { notes, .. } =
            agent_tool::toolkit(&toolkit("a", &[careful("a", &[])], &left_out)).unwrap();
        assert!(
            notes[0]
                .message
                .starts_with("not offered as a tool: f0: it takes a stream"),
            "{}",
            notes[0]
        );
        assert_eq!(notes.len(), 33);
        assert_eq!(
            notes[32].message,
            "not offered as a tool: 68 more, which are not listed"
        );
    }

    #[test]
    fn names_are_valid_and_unique() {
        let long = "x".repeat(100);
        let texts = [
            "read-file",
            "a b\u{e9}/c",
            "",
            "---",
            "read-file",
            "read-file-2",
            long.as_str(),
            long.as_str(),
        ];
        let names = names(texts);
        assert_eq!(
            names[..6],
            [
                "read-file",
                "a-b--c",
                "tool",
                "tool-2",
                "read-file-2",
                "read-file-2-2"
            ]
        );
        let mut tools = Vec::new();
        for name in &names {
            tools.push(ForeignTool {
                name: name.clone(),
                ..careful("", &[])
            });
        }
        accepted(&tools);
        assert_eq!((names[6].len(), names[7].len()), (64, 64));
        assert_eq!(namespace("acme:docs.tools", "wit"), "acme-docs.tools");
        assert_eq!(namespace("..", "wit"), "wit");
    }
}
