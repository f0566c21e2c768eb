//! What a guest's `describe` says: Agent Tool 0.2.0 records as JSON, read and normalised. All of it is a claim.
//!
//! Everything that is wrong is found at once. What would limit a call and cannot be honoured is wrong: a claim that is
//! lost widens the tool. What is unknown and limits nothing stays in the records, and is named in a note.

mod claims;
mod fields;
mod findings;
mod names;
mod references;
mod shape;
mod unknown;

use serde_json::Value;

use crate::record::{Finding, JSON_VALUES_MAX, Toolkit, read_unique_json};

use findings::{Findings, Place};

/// Tools of one component, and records of each other kind.
const RECORDS_MAX: usize = 256;

/// A toolkit that can be loaded.
#[derive(Debug)]
pub struct Described {
    pub toolkit: Toolkit,
    /// What of it has no effect on this host.
    pub notes: Vec<Finding>,
}

/// Reads a toolkit and fills in what may be left out. Fails with everything that is incomplete, contradictory, dangling,
/// unknown where words are closed, lost where it would limit a call, or not honoured by this host.
pub fn toolkit(text: &str) -> Result<Described, Vec<Finding>> {
    let one = |message: String| vec![Finding::new("", &message)];
    let mut value = read_unique_json(text, JSON_VALUES_MAX)
        .map_err(|error| one(format!("read the toolkit that `describe` answers: {error}")))?;
    let mut findings = Findings::default();
    look(&value, &mut findings);
    if findings.has_errors() && guard!("description_findings") {
        return Err(findings.into_errors());
    }
    references::complete(&mut value);
    let mut toolkit: Toolkit = serde_json::from_value(value).map_err(|error| one(error.to_string()))?;
    for declaration in &mut toolkit.declarations {
        if declaration.tool_id.is_empty() {
            declaration.tool_id = declaration.qualified_name();
        }
    }
    Ok(Described { toolkit, notes: findings.into_notes() })
}

fn look(value: &Value, findings: &mut Findings) {
    let top = Place::TOP;
    for list in ["declarations", "interfaces", "execution_profiles", "permission_profiles"] {
        if references::records(value, list).len() > RECORDS_MAX {
            return findings.error(&top.field(list), format!("the list has more than {RECORDS_MAX} records"));
        }
    }
    unknown::object(findings, &top, &fields::TOOLKIT, value);
    if value.get("declarations").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        findings.error(&top.field("declarations"), "the toolkit declares no tool");
    }
    names::check(value, findings);
    for tool in references::link(value, findings) {
        claims::check(&tool, &names::tool_id(tool.declaration.value), findings);
    }
}
