//! The short form of a toolkit, `{"namespace", "tools": [..]}`: one object for each tool, from which the records of the full
//! form are derived. What a tool does not say is derived carefully: without `access` it gets an empty world.
//!
//! An unknown field is an error, and so is a field that has no effect beside the others: nothing else would say that an
//! author meant something by it.

use std::collections::HashSet;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::dialect::wrapping::pointer;
use crate::{AccessKind, Finding, SchemaVersion, SubjectField, TypedFields, WriteEffect};

use super::RECORDS_MAX;
use super::findings::{Findings, ToolkitPlace};
use super::unknown::resembles;

/// A part of the records of one tool.
#[derive(Clone, Copy, PartialEq)]
enum RecordPart {
    Declaration,
    Input,
    Output,
    Interface,
    Execution,
    Permission,
}

/// The fields of a tool that a record has too: the name here, the part, and the name there.
const FIELDS: [(&str, RecordPart, &str); 30] = [
    ("name", RecordPart::Declaration, "name"),
    ("description", RecordPart::Declaration, "description"),
    ("title", RecordPart::Declaration, "title"),
    ("aliases", RecordPart::Declaration, "aliases"),
    ("search_hint", RecordPart::Declaration, "search_hint"),
    ("tool_kind", RecordPart::Declaration, "tool_kind"),
    ("input", RecordPart::Input, "model_input_schema"),
    ("defaults", RecordPart::Input, "defaults"),
    ("examples", RecordPart::Input, "examples"),
    ("sensitive_fields", RecordPart::Input, "sensitive_fields"),
    ("output", RecordPart::Output, "structured_schema"),
    ("content_types", RecordPart::Output, "content_types"),
    ("redaction_rules", RecordPart::Output, "redaction_rules"),
    ("is_read_only", RecordPart::Interface, "is_read_only"),
    (
        "is_concurrency_safe",
        RecordPart::Interface,
        "is_concurrency_safe",
    ),
    ("is_destructive", RecordPart::Interface, "is_destructive"),
    ("is_open_world", RecordPart::Interface, "is_open_world"),
    ("timeout_ms", RecordPart::Interface, "timeout_ms"),
    (
        "requires_background",
        RecordPart::Execution,
        "requires_background",
    ),
    ("access", RecordPart::Permission, "access_kinds"),
    ("write_effects", RecordPart::Permission, "write_effects"),
    ("network_scope", RecordPart::Permission, "network_scope"),
    ("credential_refs", RecordPart::Permission, "credential_refs"),
    ("credential_uses", RecordPart::Permission, "credential_uses"),
    ("environment", RecordPart::Permission, "environment"),
    ("tool_calls", RecordPart::Permission, "tool_calls"),
    ("risk_level", RecordPart::Permission, "risk_level"),
    (
        "approval_required",
        RecordPart::Permission,
        "approval_required",
    ),
    ("approval_reason", RecordPart::Permission, "approval_reason"),
    (
        "data_sensitivity",
        RecordPart::Permission,
        "data_sensitivity",
    ),
];

/// The lists of arguments that name something, and the kind of what they name.
const SUBJECTS: [(&str, &str); 3] = [
    ("paths", "path"),
    ("urls", "url"),
    ("resources", "resource"),
];

/// The lists of the full form, and the part of their records.
const LISTS: [(&str, RecordPart); 4] = [
    ("declarations", RecordPart::Declaration),
    ("interfaces", RecordPart::Interface),
    ("execution_profiles", RecordPart::Execution),
    ("permission_profiles", RecordPart::Permission),
];

/// Names that other formats have for a field.
const SYNONYMS: [(&str, &str); 12] = [
    ("input_schema", "input"),
    ("inputSchema", "input"),
    ("model_input_schema", "input"),
    ("parameters", "input"),
    ("output_schema", "output"),
    ("outputSchema", "output"),
    ("structured_schema", "output"),
    ("access_kinds", "access"),
    ("permission_subjects", "paths, urls and resources"),
    ("secrets", "credential_refs"),
    ("hosts", "network_scope"),
    ("kind", "tool_kind"),
];

/// Returns whether a toolkit is meant to be in short form.
pub(super) fn is_short(toolkit: &Value) -> bool {
    toolkit.get("tools").is_some()
}

/// Returns the records of a short toolkit, with tool number N's at index N of each list; `None` if it has no list of
/// tools.
pub(super) fn derive(toolkit: &Value, findings: &mut Findings) -> Option<Value> {
    let top = ToolkitPlace::TOP;
    let fields = toolkit.as_object()?;
    for name in fields
        .keys()
        .filter(|name| !matches!(name.as_str(), "namespace" | "tools"))
    {
        if LISTS.iter().any(|(list, _)| list == name) {
            let message =
                "a toolkit has either tools, in the short form, or records: remove one of them";
            findings.error(&top.field(name), message);
        } else {
            unknown(
                findings,
                &top.field(name),
                name,
                ["namespace", "tools"].into_iter(),
            )
        }
    }
    let namespace = match fields.get("namespace") {
        Some(Value::String(namespace)) => namespace.as_str(),
        Some(_) => {
            findings.error(&top.field("namespace"), "is not a text");
            "unnamed"
        }
        None => {
            findings.error(&top, "the field namespace is missing");
            "unnamed"
        }
    };
    let list = top.field("tools");
    let Some(Value::Array(tools)) = fields.get("tools") else {
        findings.error(&list, "is not a list");
        return None;
    };
    if tools.len() > RECORDS_MAX {
        findings.error(&list, format!("the list has more than {RECORDS_MAX} tools"));
        return None;
    }
    let mut records = LISTS.map(|_| Vec::with_capacity(tools.len()));
    let mut ids = HashSet::new();
    for (at, tool) in tools.iter().enumerate() {
        let derived =
            ShortTool::read(tool, &list.item(at), findings).records(namespace, at, &mut ids);
        records
            .iter_mut()
            .zip(derived)
            .for_each(|(records, record)| records.push(record));
    }
    let lists = LISTS.into_iter().zip(records);
    Some(Value::Object(
        lists
            .map(|((list, _), records)| (list.to_owned(), Value::from(records)))
            .collect(),
    ))
}

/// Returns `found`, an error in derived records, with its place in the short toolkit; `None` if another error says the same.
pub(super) fn placed(found: Finding) -> Option<Finding> {
    let mut steps = found.path.splitn(4, '/').skip(1);
    let list = steps.next().unwrap_or_default();
    let at = steps.next();
    let rest = steps.next().unwrap_or_default();
    let Some((_, part)) = LISTS.iter().find(|(name, _)| *name == list) else {
        return Some(found);
    };
    let Some(at) = at else {
        return Some(Finding {
            path: "/tools".to_owned(),
            ..found
        });
    };
    let split = |rest: &str| {
        rest.split_once('/')
            .map_or((rest.to_owned(), None), |(a, b)| {
                (a.to_owned(), Some(b.to_owned()))
            })
    };
    let (mut field, mut rest) = split(rest);
    let part = match (part, field.as_str()) {
        (RecordPart::Declaration, "input_contract") => RecordPart::Input,
        (RecordPart::Declaration, "output_contract") => RecordPart::Output,
        // Two tools with one id have one name.
        (RecordPart::Declaration, "tool_id") => return None,
        (RecordPart::Declaration, "namespace") => {
            return Some(Finding {
                path: "/namespace".to_owned(),
                ..found
            });
        }
        _ => *part,
    };
    if matches!(part, RecordPart::Input | RecordPart::Output) {
        (field, rest) = split(&rest.unwrap_or_default());
    }
    let mut path = format!("/tools/{at}");
    if let Some((short, ..)) = FIELDS
        .iter()
        .find(|(_, of, there)| *of == part && *there == field)
    {
        path = format!("{path}/{short}");
        path.extend(rest.map(|rest| format!("/{rest}")));
    }
    Some(Finding { path, ..found })
}

/// One tool, and what it is known to want.
struct ShortTool<'a> {
    fields: Option<&'a Map<String, Value>>,
    access: Vec<AccessKind>,
    effects: Vec<WriteEffect>,
    /// The arguments that name something, by JSON Pointer.
    subjects: Map<String, Value>,
}

impl<'a> ShortTool<'a> {
    /// Reads a tool, and reports what only the short form can have wrong. The checks of the records report the rest.
    fn read(tool: &'a Value, place: &ToolkitPlace<'_>, findings: &mut Findings) -> Self {
        let Some(fields) = tool.as_object() else {
            findings.error(place, "is not an object");
            return Self {
                fields: None,
                access: Vec::new(),
                effects: Vec::new(),
                subjects: Map::new(),
            };
        };
        let names = || {
            FIELDS
                .iter()
                .map(|(name, ..)| *name)
                .chain(SUBJECTS.map(|(name, _)| name))
        };
        for name in fields
            .keys()
            .filter(|name| !names().any(|known| known == name.as_str()))
        {
            unknown(findings, &place.field(name), name, names());
        }
        if !fields.contains_key("input") {
            findings.error(place, "the field input is missing");
        }
        let mut tool = Self {
            fields: Some(fields),
            access: words(fields, "access"),
            effects: words(fields, "write_effects"),
            subjects: Map::new(),
        };
        if has(fields, "credential_refs") && !tool.access.contains(&AccessKind::Credential) {
            tool.access.push(AccessKind::Credential);
        }
        if !fields.contains_key("write_effects") {
            let kept = tool.access.contains(&AccessKind::FileWrite);
            tool.effects.push(if kept {
                WriteEffect::LocalPersistent
            } else {
                WriteEffect::None
            });
        }
        tool.subjects(fields, place, findings);
        tool.effectless(fields, place, findings);
        tool
    }

    /// Reads the arguments that name something. One that is no argument is an error, because it would narrow nothing.
    fn subjects(
        &mut self,
        fields: &Map<String, Value>,
        place: &ToolkitPlace<'_>,
        findings: &mut Findings,
    ) {
        for (name, kind) in SUBJECTS {
            let place = place.field(name);
            let items = match fields.get(name) {
                None => continue,
                Some(Value::Array(items)) => items,
                Some(_) => {
                    findings.error(&place, "is not a list");
                    continue;
                }
            };
            for (at, item) in items.iter().enumerate() {
                let place = place.item(at);
                let Some(item) = item.as_str() else {
                    findings.error(&place, "is not a text");
                    continue;
                };
                let pointer = pointer(item);
                let Some(input) = fields.get("input") else {
                    continue;
                };
                if let Err(problem) = SubjectField::argument(&pointer, input) {
                    let problem = problem
                        .trim_start_matches("permission_subjects: ")
                        .replace("model_input_schema", "input");
                    findings.error(&place, problem);
                } else if self.subjects.insert(pointer, kind.into()).is_some() {
                    findings.error(
                        &place,
                        "names an argument that is named before; remove one of them",
                    );
                }
            }
        }
    }

    /// Reports fields that have no effect beside the others.
    fn effectless(
        &self,
        fields: &Map<String, Value>,
        place: &ToolkitPlace<'_>,
        findings: &mut Findings,
    ) {
        let mut report = |field: &str, is_void: bool, why: &str| {
            if is_void && has(fields, field) {
                findings.error(&place.field(field), why);
            }
        };
        let wants = |kind: AccessKind| self.access.contains(&kind);
        let does = |effect: WriteEffect| self.effects.contains(&effect);
        let writes = wants(AccessKind::FileWrite);
        let lacks_files = !wants(AccessKind::FileRead) && !writes;
        report(
            "paths",
            lacks_files,
            "has no effect: access names neither file_read nor file_write",
        );
        let network = wants(AccessKind::Network);
        for field in [
            "urls",
            "network_scope",
            "credential_refs",
            "credential_uses",
        ] {
            report(
                field,
                !network,
                "has no effect: access does not name network",
            );
        }
        let local = does(WriteEffect::LocalDraft) || does(WriteEffect::LocalPersistent);
        report(
            "write_effects",
            local && !writes,
            "names an effect on files, and access does not name file_write",
        );
        let remote = does(WriteEffect::RemoteMutation) && !self.reaches_out();
        report(
            "write_effects",
            remote,
            "names an effect elsewhere, and access reaches nothing there",
        );
        let unwritten = writes && !local && !does(WriteEffect::Irreversible);
        report(
            "access",
            unwritten,
            "names file_write, and write_effects names no effect on files",
        );
        let nameless = wants(AccessKind::Credential) && !has(fields, "credential_refs");
        report(
            "access",
            nameless,
            "names credential, and credential_refs names no secret",
        );
        let aimless = network && !has(fields, "urls") && !has(fields, "network_scope");
        report(
            "access",
            aimless,
            "names network, and neither urls nor network_scope says what the tool reaches",
        );
        let optional = fields.get("approval_required") != Some(&Value::Bool(true));
        report(
            "approval_reason",
            optional,
            "has no effect: approval_required is not true",
        );
    }

    /// Returns whether the tool wants access beyond this machine.
    fn reaches_out(&self) -> bool {
        use AccessKind::{Browser, ExternalSend, Network, Payment};
        self.access
            .iter()
            .any(|kind| matches!(kind, Browser | ExternalSend | Network | Payment))
    }

    /// Returns whether the tool's fields allow no change: then its calls may run concurrently.
    fn changes_nothing(&self) -> bool {
        use AccessKind::{Credential, FileRead, Network};
        self.access
            .iter()
            .all(|kind| matches!(kind, FileRead | Network | Credential))
            && self
                .effects
                .iter()
                .all(|effect| matches!(effect, WriteEffect::None))
    }

    /// The risk that follows from the fields. A decision raises it where what was granted implies a higher one.
    fn risk(&self) -> &'static str {
        use AccessKind::{Credential, FileRead, FileWrite, Network};
        let usual = |kind: &AccessKind| matches!(kind, FileRead | FileWrite | Network | Credential);
        if self.effects.contains(&WriteEffect::Irreversible) || !self.access.iter().all(usual) {
            "high"
        } else if !self.changes_nothing() || self.access.contains(&Credential) {
            "medium"
        } else {
            "low"
        }
    }

    /// The four records, in the order of [`LISTS`]. `ids` has those that are taken.
    fn records(
        self,
        namespace: &str,
        at: usize,
        ids: &mut HashSet<String>,
    ) -> [Value; LISTS.len()] {
        let mut parts = RecordParts::default();
        match self.fields {
            Some(fields) => {
                for (name, part, field) in FIELDS {
                    if let Some(value) = fields.get(name) {
                        parts.part_mut(part).insert(field.to_owned(), value.clone());
                    }
                }
            }
            // It is not an object, which is reported.
            None => {
                parts
                    .part_mut(RecordPart::Declaration)
                    .insert("name".to_owned(), format!("unnamed{at}").into());
                parts
                    .part_mut(RecordPart::Declaration)
                    .insert("description".to_owned(), "unnamed".into());
            }
        }
        let name = parts.declaration.text("name").unwrap_or_default();
        let tool_id = format!("{namespace}.{name}");
        let id = if ids.insert(tool_id.clone()) {
            tool_id.clone()
        } else {
            format!("{tool_id}.{at}")
        };
        let profile = ["interface", "execution", "permission"].map(|part| format!("{id}.{part}"));
        self.complete(&mut parts);
        parts.into_records(namespace, tool_id, profile, self.subjects)
    }

    /// Adds what the fields imply.
    fn complete(&self, parts: &mut RecordParts) {
        parts.imply(
            RecordPart::Interface,
            "is_read_only",
            self.changes_nothing(),
        );
        let changes_nothing = parts.interface.get("is_read_only") == Some(&Value::Bool(true))
            && self.changes_nothing();
        parts.imply(
            RecordPart::Interface,
            "is_concurrency_safe",
            changes_nothing,
        );
        if changes_nothing {
            parts.imply(RecordPart::Interface, "is_destructive", false);
        }
        parts.imply(RecordPart::Interface, "is_open_world", self.reaches_out());
        let files = self
            .access
            .iter()
            .any(|kind| matches!(kind, AccessKind::FileRead | AccessKind::FileWrite));
        parts.imply(
            RecordPart::Declaration,
            "tool_kind",
            if files { "file_operation" } else { "function" },
        );
        parts.imply(RecordPart::Permission, "risk_level", self.risk());
        parts.imply(RecordPart::Permission, "write_effects", json!(self.effects));
        let network = self.access.contains(&AccessKind::Network);
        // What the arguments name, and nothing else.
        parts.imply(
            RecordPart::Permission,
            "network_scope",
            if network { "argument" } else { "none" },
        );
        // What is not a list of known words stays as it is, and is reported.
        let given = parts
            .permission
            .get("access_kinds")
            .map_or(Some(0), |kinds| kinds.as_array().map(Vec::len));
        if given.is_some_and(|given| given < self.access.len()) {
            parts
                .permission
                .insert("access_kinds".to_owned(), json!(self.access));
        }
    }
}

/// The parts of the records of one tool.
#[derive(Default)]
struct RecordParts {
    declaration: Map<String, Value>,
    input: Map<String, Value>,
    output: Map<String, Value>,
    interface: Map<String, Value>,
    execution: Map<String, Value>,
    permission: Map<String, Value>,
}

impl RecordParts {
    fn part_mut(&mut self, part: RecordPart) -> &mut Map<String, Value> {
        match part {
            RecordPart::Declaration => &mut self.declaration,
            RecordPart::Input => &mut self.input,
            RecordPart::Output => &mut self.output,
            RecordPart::Interface => &mut self.interface,
            RecordPart::Execution => &mut self.execution,
            RecordPart::Permission => &mut self.permission,
        }
    }

    /// Sets a field that the tool does not have.
    fn imply(&mut self, part: RecordPart, field: &str, value: impl Into<Value>) {
        self.part_mut(part)
            .entry(field)
            .or_insert_with(|| value.into());
    }

    /// `ids`: the ids of the interface, execution profile and permission profile.
    fn into_records(
        mut self,
        namespace: &str,
        tool_id: String,
        ids: [String; 3],
        subjects: Map<String, Value>,
    ) -> [Value; LISTS.len()] {
        self.input.insert("strict".to_owned(), true.into());
        let input = std::mem::take(&mut self.input);
        let output = std::mem::take(&mut self.output);
        self.imply(RecordPart::Declaration, "namespace", namespace);
        self.imply(RecordPart::Declaration, "lifecycle", "available");
        self.imply(RecordPart::Declaration, "input_contract", input);
        if !output.is_empty() {
            self.imply(RecordPart::Declaration, "output_contract", output);
        }
        let [interface, execution, permission] = ids;
        self.imply(RecordPart::Declaration, "interface_ref", interface.as_str());
        self.imply(
            RecordPart::Declaration,
            "execution_profile_ref",
            execution.as_str(),
        );
        self.imply(
            RecordPart::Declaration,
            "permission_profile_ref",
            permission.as_str(),
        );
        self.imply(RecordPart::Interface, "interface_id", interface);
        self.imply(RecordPart::Interface, "tool_id", tool_id);
        if !subjects.is_empty() {
            self.imply(RecordPart::Interface, "permission_subjects", subjects);
        }
        self.imply(RecordPart::Execution, "execution_profile_id", execution);
        self.imply(RecordPart::Execution, "execution_kind", "embedded_runtime");
        self.imply(RecordPart::Permission, "permission_profile_id", permission);
        for (_, part) in LISTS {
            self.imply(part, "schema_version", SchemaVersion::CURRENT);
        }
        let Self {
            declaration,
            interface,
            execution,
            permission,
            ..
        } = self;
        [declaration, interface, execution, permission].map(Value::Object)
    }
}

/// Returns whether the field has a value.
fn has(fields: &Map<String, Value>, name: &str) -> bool {
    match fields.get(name) {
        None | Some(Value::Null) => false,
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::String(text)) => !text.is_empty(),
        Some(_) => true,
    }
}

/// The known words of a list. The checks of the records report the others.
fn words<T: DeserializeOwned>(fields: &Map<String, Value>, name: &str) -> Vec<T> {
    let items = fields.list(name);
    items
        .iter()
        .filter_map(|word| T::deserialize(word).ok())
        .collect()
}

fn unknown(
    findings: &mut Findings,
    place: &ToolkitPlace<'_>,
    name: &str,
    mut known: impl Iterator<Item = &'static str>,
) {
    if !findings.count_unknown(place) {
        return;
    }
    let synonym = SYNONYMS
        .iter()
        .find(|(other, _)| *other == name)
        .map(|(_, known)| *known);
    match synonym.or_else(|| known.find(|known| resembles(name, known))) {
        Some(known) => {
            findings.error(
                place,
                format!(
                    "unknown field; the short form has {known}: correct the name, or remove it"
                ),
            );
        }
        None => findings.error(
            place,
            "unknown field; the short form has none like it: remove it, or write the records",
        ),
    }
}

#[cfg(test)]
mod tests;
