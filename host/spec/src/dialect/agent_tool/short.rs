//! The short form of a toolkit, `{"namespace", "tools": [..]}`: one object for each tool, from which the records of the
//! full form are derived. Without `access`, a tool gets an empty world.
//!
//! Unknown fields and fields without effect are errors: nothing else would say that an author meant something by them.

use std::collections::HashSet;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::dialect::wrapping::pointer;
use crate::{AccessKind, Finding, SchemaVersion, SubjectField, TypedFields, WriteEffect};

use super::RECORDS_MAX;
use super::findings::{Findings, ToolkitPlace};
use super::unknown::resembles;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum RecordPart {
    Declaration,
    Input,
    Output,
    Interface,
    Execution,
    Permission,
}

/// Each field of a tool, and the part that has it too.
const FIELDS: [(&str, RecordPart); 31] = [
    ("name", RecordPart::Declaration),
    ("description", RecordPart::Declaration),
    ("title", RecordPart::Declaration),
    ("aliases", RecordPart::Declaration),
    ("search_hint", RecordPart::Declaration),
    ("tool_kind", RecordPart::Declaration),
    ("input", RecordPart::Input),
    ("defaults", RecordPart::Input),
    ("examples", RecordPart::Input),
    ("sensitive_fields", RecordPart::Input),
    ("output", RecordPart::Output),
    ("content_types", RecordPart::Output),
    ("redaction_rules", RecordPart::Output),
    ("is_read_only", RecordPart::Interface),
    ("is_concurrency_safe", RecordPart::Interface),
    ("is_destructive", RecordPart::Interface),
    ("is_open_world", RecordPart::Interface),
    ("timeout_ms", RecordPart::Interface),
    ("requires_background", RecordPart::Execution),
    ("access", RecordPart::Permission),
    ("write_effects", RecordPart::Permission),
    ("network_scope", RecordPart::Permission),
    ("credential_refs", RecordPart::Permission),
    ("credential_uses", RecordPart::Permission),
    ("environment", RecordPart::Permission),
    ("tool_calls", RecordPart::Permission),
    ("user_info", RecordPart::Permission),
    ("risk_level", RecordPart::Permission),
    ("approval_required", RecordPart::Permission),
    ("approval_reason", RecordPart::Permission),
    ("data_sensitivity", RecordPart::Permission),
];

const RENAMED: [(&str, &str); 3] = [
    ("input", "model_input_schema"),
    ("output", "structured_schema"),
    ("access", "access_kinds"),
];

const SUBJECTS: [(&str, &str); 3] = [
    ("paths", "path"),
    ("urls", "url"),
    ("resources", "resource"),
];

const LISTS: [(&str, RecordPart); 4] = [
    ("declarations", RecordPart::Declaration),
    ("interfaces", RecordPart::Interface),
    ("execution_profiles", RecordPart::Execution),
    ("permission_profiles", RecordPart::Permission),
];

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

pub(super) fn is_short(toolkit: &Value) -> bool {
    toolkit.get("tools").is_some()
}

/// Tool number N's records are at index N of each list; `None` without a list of tools.
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
            ShortTool::read(tool, at, &list.item(at), findings).records(namespace, at, &mut ids);
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

/// Moves an error of derived records to its place in the short toolkit; `None` if another error says the same.
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
    let here = |(short, of): &&(&'static str, RecordPart)| *of == part && in_record(short) == field;
    if let Some((short, _)) = FIELDS.iter().find(here) {
        path = format!("{path}/{short}");
        path.extend(rest.map(|rest| format!("/{rest}")));
    }
    Some(Finding { path, ..found })
}

fn in_record(short: &'static str) -> &'static str {
    let renamed = RENAMED.iter().find(|(known, _)| *known == short);
    renamed.map_or(short, |(_, there)| there)
}

struct ShortTool {
    fields: Map<String, Value>,
    access: Vec<AccessKind>,
    effects: Vec<WriteEffect>,
    /// Keys are JSON Pointers.
    subjects: Map<String, Value>,
}

impl ShortTool {
    fn read(tool: &Value, at: usize, place: &ToolkitPlace<'_>, findings: &mut Findings) -> Self {
        let mut short = Self {
            fields: Map::new(),
            access: Vec::new(),
            effects: Vec::new(),
            subjects: Map::new(),
        };
        let Some(fields) = tool.as_object() else {
            findings.error(place, "is not an object");
            let named = [
                ("name", format!("unnamed{at}")),
                ("description", "unnamed".to_owned()),
            ];
            short
                .fields
                .extend(named.map(|(name, text)| (name.to_owned(), text.into())));
            return short;
        };
        let names = || {
            let own = FIELDS.iter().map(|(name, _)| *name);
            own.chain(SUBJECTS.map(|(name, _)| name))
        };
        for name in fields.keys() {
            if !names().any(|known| known == name) {
                unknown(findings, &place.field(name), name, names());
            }
        }
        if !fields.contains_key("input") {
            findings.error(place, "the field input is missing");
        }
        short.access = words(fields, "access");
        short.effects = words(fields, "write_effects");
        if has(fields, "credential_refs") && !short.access.contains(&AccessKind::Credential) {
            short.access.push(AccessKind::Credential);
        }
        if !fields.contains_key("write_effects") {
            let kept = short.access.contains(&AccessKind::FileWrite);
            short.effects.push(if kept {
                WriteEffect::LocalPersistent
            } else {
                WriteEffect::None
            });
        }
        short.subjects(fields, place, findings);
        short.effectless(fields, place, findings);
        short.fields = fields.clone();
        short
    }

    /// A subject that is no argument is an error, because it would narrow nothing.
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

    fn reaches_out(&self) -> bool {
        use AccessKind::{Browser, ExternalSend, Network, Payment};
        self.access
            .iter()
            .any(|kind| matches!(kind, Browser | ExternalSend | Network | Payment))
    }

    /// `true` if the fields allow no change: then calls may run concurrently.
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

    /// A decision raises the risk where grants imply a higher one.
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

    /// Follows the order of [`LISTS`]; `ids` are taken.
    fn records(
        self,
        namespace: &str,
        at: usize,
        ids: &mut HashSet<String>,
    ) -> [Value; LISTS.len()] {
        let name = self.fields.text("name").unwrap_or_default();
        let tool_id = format!("{namespace}.{name}");
        let id = if ids.insert(tool_id.clone()) {
            tool_id.clone()
        } else {
            format!("{tool_id}.{at}")
        };
        let [interface, execution, permission] =
            ["interface", "execution", "permission"].map(|part| format!("{id}.{part}"));
        let wants = |kind: AccessKind| self.access.contains(&kind);
        let has_files = wants(AccessKind::FileRead) || wants(AccessKind::FileWrite);
        let is_read_only = self
            .fields
            .get("is_read_only")
            .unwrap_or(&Value::Bool(true));
        let is_harmless = self.changes_nothing() && is_read_only == &Value::Bool(true);
        let mut input = self.part(RecordPart::Input, json!({}));
        input.insert("strict".to_owned(), true.into());
        let output = self.part(RecordPart::Output, json!({}));
        let declaration = json!({
            "namespace": namespace,
            "lifecycle": "available",
            "tool_kind": if has_files { "file_operation" } else { "function" },
            "input_contract": input,
            "output_contract": (!output.is_empty()).then_some(output),
            "interface_ref": interface,
            "execution_profile_ref": execution,
            "permission_profile_ref": permission,
        });
        let interface = json!({
            "interface_id": interface,
            "tool_id": tool_id,
            "is_read_only": self.changes_nothing(),
            "is_concurrency_safe": is_harmless,
            "is_destructive": is_harmless.then_some(false),
            "is_open_world": self.reaches_out(),
            "permission_subjects": self.subjects,
        });
        let execution = json!({
            "execution_profile_id": execution,
            "execution_kind": "embedded_runtime",
        });
        // What the arguments name, and nothing else.
        let network = if wants(AccessKind::Network) {
            "argument"
        } else {
            "none"
        };
        let permission = json!({
            "permission_profile_id": permission,
            "risk_level": self.risk(),
            "write_effects": self.effects,
            "network_scope": network,
            "access_kinds": self.access,
        });
        let implied = [declaration, interface, execution, permission];
        let mut records = LISTS.into_iter().zip(implied).map(|((_, part), implied)| {
            let mut record = self.part(part, implied);
            record.insert("schema_version".to_owned(), SchemaVersion::CURRENT.into());
            Value::Object(record)
        });
        LISTS.map(|_| records.next().unwrap_or_default())
    }

    fn part(&self, part: RecordPart, implied: Value) -> Map<String, Value> {
        let own = FIELDS.iter().filter(|(_, of)| *of == part);
        let mut fields: Map<String, Value> = own
            .filter_map(|(short, _)| {
                Some((
                    in_record(short).to_owned(),
                    self.fields.get(*short)?.clone(),
                ))
            })
            .collect();
        // What is not a list of known words stays as it is, and is reported.
        let given = fields.get("access_kinds").and_then(Value::as_array);
        if given.is_some_and(|given| given.len() < self.access.len()) {
            fields.remove("access_kinds");
        }
        if let Value::Object(implied) = implied {
            for (name, value) in implied.into_iter().filter(|(_, value)| !value.is_null()) {
                fields.entry(name).or_insert(value);
            }
        }
        fields
    }
}

fn has(fields: &Map<String, Value>, name: &str) -> bool {
    match fields.get(name) {
        None | Some(Value::Null) => false,
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::String(text)) => !text.is_empty(),
        Some(_) => true,
    }
}

/// Unknown words are left to the checks of the records.
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
