//! What a guest's `describe` says: Agent Tool 0.2.0 records as JSON, read and normalised. All of it is a claim.

use std::collections::HashSet;

use anyhow::{Context, bail, ensure};

use crate::record::{JSON_VALUES_MAX, PermissionProfile, ToolDeclaration, Toolkit, read_json};

/// Tools of one component.
const TOOLS_MAX: usize = 256;
/// Characters of a name or a namespace.
const NAME_CHARS_MAX: usize = 64;
/// Characters of a description: more would be an attack on the model's attention.
const DESCRIPTION_CHARS_MAX: usize = 16_000;
/// Credentials that one profile names.
const CREDENTIALS_MAX: usize = 16;
/// Headers that say where a request goes and where it ends: a value in one of them would be a request of its own.
const FRAMING_HEADERS: [&str; 10] = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "te",
    "trailer",
    "upgrade",
    "proxy-authorization",
    "proxy-connection",
    "expect",
];

/// Reads a toolkit, fills in what may be left out, and refuses what is incomplete, contradictory or dangling.
pub fn toolkit(text: &str) -> anyhow::Result<Toolkit> {
    let mut toolkit: Toolkit = read_json(text, JSON_VALUES_MAX)
        .map_err(anyhow::Error::msg)
        .context("read the toolkit that `describe` answers")?;
    ensure!(!toolkit.declarations.is_empty(), "the toolkit declares no tool");
    ensure!(toolkit.declarations.len() <= TOOLS_MAX, "the toolkit declares more than {TOOLS_MAX} tools");
    for declaration in &mut toolkit.declarations {
        if declaration.tool_id.is_empty() {
            declaration.tool_id = declaration.qualified_name();
        }
    }
    let mut names = HashSet::new();
    let mut ids = HashSet::new();
    for declaration in &toolkit.declarations {
        check(declaration, &toolkit).with_context(|| format!("the declaration of `{}`", declaration.name))?;
        ensure!(names.insert(&declaration.name), "two tools are named `{}`", declaration.name);
        ensure!(ids.insert(&declaration.tool_id), "two tools have the id `{}`", declaration.tool_id);
    }
    for declaration in &toolkit.declarations {
        if let Some(alias) = declaration.aliases.iter().find(|alias| names.contains(alias)) {
            bail!("the alias `{alias}` of `{}` is the name of another tool", declaration.name);
        }
    }
    for profile in &toolkit.permission_profiles {
        check_credentials(profile).with_context(|| format!("the profile `{}`", profile.permission_profile_id))?;
    }
    Ok(toolkit)
}

/// Secrets are named, and go where a request may carry them.
fn check_credentials(profile: &PermissionProfile) -> anyhow::Result<()> {
    ensure!(
        profile.credential_refs.len() <= CREDENTIALS_MAX && profile.credential_uses.len() <= CREDENTIALS_MAX,
        "it names more than {CREDENTIALS_MAX} credentials"
    );
    for named in &profile.credential_uses {
        let name = &named.credential_ref;
        ensure!(profile.credential_refs.contains(name), "credential_uses names {name:?}, credential_refs does not");
        ensure!(
            named.query.is_none() || (named.header.is_none() && named.prefix.is_none()),
            "the credential {name:?} goes into a header or into a query, not both"
        );
        let header = named.header_name().to_ascii_lowercase();
        let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        ensure!(!header.is_empty() && header.chars().all(token), "{header:?} is no name of a header");
        ensure!(!FRAMING_HEADERS.contains(&header.as_str()), "the header {header:?} belongs to the connection");
        let printable = |c: char| c == ' ' || c.is_ascii_graphic();
        ensure!(
            named.header_prefix().chars().all(printable),
            "the prefix of {name:?} has characters that no header has"
        );
        ensure!(named.query.as_deref() != Some(""), "the query parameter of {name:?} has no name");
    }
    Ok(())
}

fn check(declaration: &ToolDeclaration, toolkit: &Toolkit) -> anyhow::Result<()> {
    ensure!(
        declaration.schema_version.is_supported(),
        "schema_version {} is not one that this host reads",
        declaration.schema_version.as_str()
    );
    check_name(&declaration.name, "name")?;
    check_name(&declaration.namespace, "namespace")?;
    for alias in &declaration.aliases {
        check_name(alias, "alias")?;
    }
    ensure!(!declaration.description.trim().is_empty(), "the description is empty");
    ensure!(
        declaration.description.chars().count() <= DESCRIPTION_CHARS_MAX,
        "the description is longer than {DESCRIPTION_CHARS_MAX} characters"
    );
    ensure!(!declaration.tool_kind.0.is_empty(), "tool_kind is empty");
    let interfaces = toolkit.interfaces.iter().map(|i| i.interface_id.as_str()).collect();
    resolves("interface_ref", declaration.interface_ref.as_deref(), interfaces)?;
    let execution = toolkit.execution_profiles.iter().map(|p| p.execution_profile_id.as_str()).collect();
    resolves("execution_profile_ref", declaration.execution_profile_ref.as_deref(), execution)?;
    let permission = toolkit.permission_profiles.iter().map(|p| p.permission_profile_id.as_str()).collect();
    resolves("permission_profile_ref", declaration.permission_profile_ref.as_deref(), permission)
}

/// Names end up in other protocols and on terminals: letters, digits, `_` and `-`; namespaces may be dotted.
fn check_name(name: &str, what: &str) -> anyhow::Result<()> {
    let dotted = what == "namespace";
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || (dotted && c == '.');
    ensure!(!name.is_empty(), "the {what} is empty");
    ensure!(name.len() <= NAME_CHARS_MAX, "the {what} is longer than {NAME_CHARS_MAX} characters");
    ensure!(name.chars().all(allowed), "the {what} {name:?} has characters other than letters, digits, `_` and `-`");
    Ok(())
}

fn resolves(field: &str, reference: Option<&str>, known: Vec<&str>) -> anyhow::Result<()> {
    match reference {
        Some(reference) if !known.contains(&reference) => bail!("{field} `{reference}` leads nowhere"),
        _ => Ok(()),
    }
}
