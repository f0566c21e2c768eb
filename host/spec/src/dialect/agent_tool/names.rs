//! Restricts names and texts of a declaration, because they end up in other protocols and on terminals.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use crate::{CONNECTION_HEADERS, CredentialUse, ExternalMapping, ToolKind, TypedFields};

use super::findings::{Findings, ToolkitPlace};

const NAME_CHARS_MAX: usize = 64;
/// A longer description would be an attack on the model's attention.
const DESCRIPTION_CHARS_MAX: usize = 16_000;
/// Words of a search hint (AT-DECL-06).
const HINT_WORDS_MIN: usize = 3;
const HINT_WORDS_MAX: usize = 10;
const CREDENTIALS_MAX: usize = 16;

pub(super) fn check(toolkit: &Value, findings: &mut Findings) {
    let top = ToolkitPlace::TOP;
    let list = top.field("declarations");
    let declarations = toolkit.list("declarations");
    for (at, declaration) in declarations.iter().enumerate() {
        words(declaration, &list.item(at), findings);
    }
    unique(declarations, &list, findings);
    let mut schemes = Vec::new();
    for list in ["declarations", "interfaces"] {
        let place = top.field(list);
        for (at, record) in toolkit.list(list).iter().enumerate() {
            let of_record = security_schemes(record);
            if of_record.len() > CREDENTIALS_MAX {
                findings.error(
                    &place.item(at).field("external_mappings"),
                    format!("it names more than {CREDENTIALS_MAX} security schemes"),
                );
            }
            schemes.extend(of_record);
        }
    }
    let list = top.field("permission_profiles");
    for (at, profile) in toolkit.list("permission_profiles").iter().enumerate() {
        credentials(profile, &schemes, &list.item(at), findings);
    }
}

/// Security schemes of the mappings of a record (AT-MAP-02).
fn security_schemes(record: &Value) -> Vec<String> {
    record
        .list("external_mappings")
        .iter()
        .filter_map(|mapping| ExternalMapping::deserialize(mapping).ok())
        .flat_map(|mapping| {
            let named = mapping.security_schemes().unwrap_or_default();
            named.into_iter().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

pub(super) fn tool_id(declaration: &Value) -> String {
    let of = |field| declaration.text(field).unwrap_or_default();
    match of("tool_id") {
        "" => format!("{}.{}", of("namespace"), of("name")),
        id => id.to_owned(),
    }
}

fn words(declaration: &Value, place: &ToolkitPlace<'_>, findings: &mut Findings) {
    for field in ["name", "namespace"] {
        if let Some(name) = declaration.text(field) {
            name_is_plain(name, field, &place.field(field), findings);
        }
    }
    let aliases = place.field("aliases");
    for (at, alias) in items(declaration, "aliases").enumerate() {
        name_is_plain(alias, "alias", &aliases.item(at), findings);
    }
    if let Some(description) = declaration.text("description") {
        let place = place.field("description");
        if description.trim().is_empty() {
            findings.error(&place, "the description is empty");
        } else if description.chars().count() > DESCRIPTION_CHARS_MAX {
            findings.error(
                &place,
                format!("the description is longer than {DESCRIPTION_CHARS_MAX} characters"),
            );
        }
    }
    if let Some(hint) = declaration.text("search_hint") {
        let words = hint.split_whitespace().count();
        if !(HINT_WORDS_MIN..=HINT_WORDS_MAX).contains(&words) {
            findings.note(
                &place.field("search_hint"),
                format!("a hint of {words} words: 3 to 10 are found best"),
            );
        }
    }
    match declaration.text("tool_kind") {
        Some("") => findings.error(&place.field("tool_kind"), "tool_kind is empty"),
        Some(kind) if !ToolKind(kind.to_owned()).is_known() => {
            findings.note(
                &place.field("tool_kind"),
                "an unknown kind of tool: it is kept, and has no effect",
            );
        }
        _ => {}
    }
}

fn name_is_plain(name: &str, what: &str, place: &ToolkitPlace<'_>, findings: &mut Findings) {
    let dotted = what == "namespace";
    let allowed =
        |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || (dotted && c == '.');
    if name.is_empty() {
        findings.error(place, format!("the {what} is empty"));
    } else if name.len() > NAME_CHARS_MAX {
        findings.error(
            place,
            format!("the {what} is longer than {NAME_CHARS_MAX} characters"),
        );
    } else if !name.chars().all(allowed) {
        findings.error(
            place,
            format!("the {what} {name:?} has characters other than letters, digits, `_` and `-`"),
        );
    }
}

/// No two tools share a name or an id, and no alias is the name of a tool.
fn unique(declarations: &[Value], list: &ToolkitPlace<'_>, findings: &mut Findings) {
    let mut names = HashMap::new();
    let mut ids = HashMap::new();
    for (at, declaration) in declarations.iter().enumerate() {
        let place = list.item(at);
        if let Some(name) = declaration.text("name")
            && names.insert(name, at).is_some()
        {
            findings.error(
                &place.field("name"),
                format!("two tools are named `{name}`"),
            );
        }
        let id = tool_id(declaration);
        if ids.contains_key(&id) {
            findings.error(
                &place.field("tool_id"),
                format!("two tools have the id `{id}`"),
            );
        }
        ids.insert(id, at);
    }
    for (at, declaration) in declarations.iter().enumerate() {
        let place = list.item(at);
        let aliases = place.field("aliases");
        for (index, alias) in items(declaration, "aliases").enumerate() {
            if names.contains_key(alias) {
                findings.error(
                    &aliases.item(index),
                    format!("the alias `{alias}` is the name of a tool"),
                );
            }
        }
    }
}

/// Credentials must be declared, in the profile or as security schemes, and a request must be able to carry them.
fn credentials(
    profile: &Value,
    schemes: &[String],
    place: &ToolkitPlace<'_>,
    findings: &mut Findings,
) {
    let mut refs: Vec<&str> = items(profile, "credential_refs").collect();
    let uses = profile.list("credential_uses");
    for (field, length) in [
        ("credential_refs", refs.len()),
        ("credential_uses", uses.len()),
    ] {
        if length > CREDENTIALS_MAX {
            return findings.error(
                &place.field(field),
                format!("it names more than {CREDENTIALS_MAX} credentials"),
            );
        }
    }
    refs.extend(schemes.iter().map(String::as_str));
    let list = place.field("credential_uses");
    for (at, used) in uses.iter().enumerate() {
        // An unreadable value has an error of its own.
        if let Ok(used) = CredentialUse::deserialize(used)
            && let Err(problem) = goes_into_a_request(&used, &refs)
        {
            findings.error(&list.item(at), problem);
        }
    }
}

fn goes_into_a_request(named: &CredentialUse, refs: &[&str]) -> Result<(), String> {
    let name = &named.credential_ref;
    if !refs.contains(&name.as_str()) {
        return Err(format!(
            "credential_uses names {name:?}, credential_refs does not"
        ));
    }
    if named.query.is_some() && (named.header.is_some() || named.prefix.is_some()) {
        return Err(format!(
            "the credential {name:?} goes into a header or into a query, not both"
        ));
    }
    let header = named.header_name().to_ascii_lowercase();
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if header.is_empty() || !header.chars().all(token) {
        return Err(format!("{header:?} is not a header name"));
    }
    // A guest may set the length of its body, which toolcell checks.
    if header == "content-length" || CONNECTION_HEADERS.contains(&header.as_str()) {
        return Err(format!("the header {header:?} belongs to the connection"));
    }
    let printable = |c: char| c == ' ' || c.is_ascii_graphic();
    if !named.header_prefix().chars().all(printable) {
        return Err(format!(
            "the prefix of {name:?} has characters that no header has"
        ));
    }
    if named.query.as_deref() == Some("") {
        return Err(format!("the query parameter of {name:?} has no name"));
    }
    Ok(())
}

fn items<'a>(record: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    record.list(field).iter().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::{CONNECTION_HEADERS, CredentialUse, goes_into_a_request};

    #[test]
    fn a_credential_goes_into_no_header_that_toolcell_writes() {
        let put = |header: &str| {
            let used = CredentialUse {
                header: Some(header.to_owned()),
                ..CredentialUse::bearer("A")
            };
            goes_into_a_request(&used, &["A"])
        };
        for name in CONNECTION_HEADERS.into_iter().chain(["content-length"]) {
            let refused = put(&name.to_ascii_uppercase()).unwrap_err();
            assert!(refused.contains("belongs to the connection"), "{refused}");
        }
        assert_eq!(put("x-api-key"), Ok(()));
    }
}
