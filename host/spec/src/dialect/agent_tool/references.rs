//! References between records. An unreferenced record is an error, because its statements would be lost.

use std::collections::HashMap;

use serde_json::Value;

use super::findings::{Findings, ToolkitPlace};
use crate::TypedFields;

/// The lists of records beside the declarations: name, id field, and the field of a declaration that refers to it.
pub(super) const LISTS: [(&str, &str, &str); 3] = [
    ("interfaces", "interface_id", "interface_ref"),
    (
        "execution_profiles",
        "execution_profile_id",
        "execution_profile_ref",
    ),
    (
        "permission_profiles",
        "permission_profile_id",
        "permission_profile_ref",
    ),
];

#[derive(Clone, Copy)]
pub(super) struct IndexedRecord<'a> {
    pub(super) at: usize,
    pub(super) value: &'a Value,
}

pub(super) struct LinkedRecords<'a> {
    pub(super) declaration: IndexedRecord<'a>,
    pub(super) interface: Option<IndexedRecord<'a>>,
    pub(super) execution_profile: Option<IndexedRecord<'a>>,
    pub(super) permission_profile: Option<IndexedRecord<'a>>,
}

struct RecordList<'a> {
    list: &'static str,
    reference: &'static str,
    by_id: HashMap<&'a str, usize>,
    records: &'a [Value],
    referred: Vec<bool>,
}

/// Reports dangling or contradictory references, duplicate ids, and unreferenced records.
pub(super) fn link<'a>(toolkit: &'a Value, findings: &mut Findings) -> Vec<LinkedRecords<'a>> {
    let [mut interfaces, mut executions, mut permissions] =
        LISTS.map(|list| RecordList::new(toolkit, list, findings));
    let mut tools = Vec::new();
    let top = ToolkitPlace::TOP;
    let declarations = top.field("declarations");
    for (at, value) in toolkit.list("declarations").iter().enumerate() {
        let place = declarations.item(at);
        let interface = interfaces.follow(&place, value, None, findings);
        let through = interface.map(|interface| interface.value);
        tools.push(LinkedRecords {
            declaration: IndexedRecord { at, value },
            interface,
            execution_profile: executions.follow(&place, value, through, findings),
            permission_profile: permissions.follow(&place, value, through, findings),
        });
    }
    for shelf in [interfaces, executions, permissions] {
        shelf.report(findings);
    }
    tools
}

pub(super) fn complete(toolkit: &mut Value) {
    let interfaces: HashMap<String, [Option<String>; LISTS.len()]> = toolkit
        .list("interfaces")
        .iter()
        .filter_map(|interface| {
            let references =
                LISTS.map(|(_, _, reference)| interface.text(reference).map(str::to_owned));
            Some((interface.text("interface_id")?.to_owned(), references))
        })
        .collect();
    let declarations = toolkit
        .get_mut("declarations")
        .and_then(Value::as_array_mut);
    for declaration in declarations
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        let named = declaration.text("interface_ref");
        let Some(references) = named.and_then(|id| interfaces.get(id)) else {
            continue;
        };
        for ((_, _, reference), id) in LISTS.iter().zip(references) {
            if let Some(id) = id
                && declaration.get(*reference).is_none_or(Value::is_null)
            {
                declaration.insert((*reference).to_owned(), id.as_str().into());
            }
        }
    }
}

impl<'a> RecordList<'a> {
    fn new(
        toolkit: &'a Value,
        list: (&'static str, &'static str, &'static str),
        findings: &mut Findings,
    ) -> Self {
        let (list, id, reference) = list;
        let records = toolkit.list(list);
        let mut by_id = HashMap::new();
        let top = ToolkitPlace::TOP;
        let mut referred = vec![false; records.len()];
        let place = top.field(list);
        for (at, record) in records.iter().enumerate() {
            let Some(named) = record.text(id) else {
                continue;
            };
            if let Some(first) = by_id.get(named) {
                findings.error(
                    &place.item(at).field(id),
                    format!("the id {named:?} is also used at /{list}/{first}"),
                );
                // A duplicate id is reported once.
                if let Some(referred) = referred.get_mut(at) {
                    *referred = true;
                }
                continue;
            }
            by_id.insert(named, at);
        }
        Self {
            list,
            reference,
            by_id,
            records,
            referred,
        }
    }

    /// The declaration's reference counts before its interface's.
    fn follow(
        &mut self,
        place: &ToolkitPlace<'_>,
        declaration: &'a Value,
        interface: Option<&'a Value>,
        findings: &mut Findings,
    ) -> Option<IndexedRecord<'a>> {
        let field = self.reference;
        let own = declaration.text(field);
        let through = interface.and_then(|interface| interface.text(field));
        if let (Some(own), Some(through)) = (own, through)
            && own != through
        {
            let message =
                format!("{field} {own:?} contradicts {through:?} of the tool's interface");
            findings.error(&place.field(field), message);
        }
        let id = own.or(through)?;
        let Some(at) = self.by_id.get(id).copied() else {
            findings.error(&place.field(field), format!("{field} `{id}` leads nowhere"));
            return None;
        };
        if let Some(referred) = self.referred.get_mut(at) {
            *referred = true;
        }
        self.records
            .get(at)
            .map(|value| IndexedRecord { at, value })
    }

    fn report(&self, findings: &mut Findings) {
        let top = ToolkitPlace::TOP;
        let place = top.field(self.list);
        for (at, _) in self
            .referred
            .iter()
            .enumerate()
            .filter(|(_, referred)| !**referred)
        {
            let field = self.reference;
            findings.error(
                &place.item(at),
                format!(
                    "no declaration refers to this record, so that it has no effect: name it in {field}, or remove it"
                ),
            );
        }
    }
}
