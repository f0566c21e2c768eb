//! The answer of a guest's `describe`: Agent Tool 0.2.0 records as JSON, parsed and normalised. All of it is a claim.
//!
//! A field that would limit a call and cannot be honoured is an error, because a lost limit widens the tool; or a gap,
//! so that no call of the tool runs. Other unknown fields are kept and noted. Only `short.rs` knows the short form.

mod claims;
mod embedded;
mod fields;
mod findings;
mod hints;
mod mappings;
mod names;
mod references;
mod shape;
mod short;
mod unknown;

use serde_json::Value;

use crate::{Finding, JSON_VALUES_MAX, Toolkit, TypedFields, read_unique_json};

use findings::{Findings, ToolkitPlace};

const RECORDS_MAX: usize = 256;
/// The lists of records.
const RECORDS: [&str; 4] = [
    "declarations",
    "interfaces",
    "execution_profiles",
    "permission_profiles",
];

#[derive(Debug)]
pub struct LoadedToolkit {
    pub toolkit: Toolkit,
    /// Parts without effect on this host.
    pub notes: Vec<Finding>,
    is_short: bool,
}

impl LoadedToolkit {
    /// Places errors where the author wrote what caused them.
    pub fn placing(&self) -> impl Fn(Vec<Finding>) -> Vec<Finding> + use<> {
        let is_short = self.is_short;
        move |errors| {
            if is_short {
                errors.into_iter().filter_map(short::placed).collect()
            } else {
                errors
            }
        }
    }
}

/// Fails with everything that is incomplete, contradictory, dangling, unknown where words are closed, lost where it
/// would limit a call, or not honoured by this host.
pub fn toolkit(text: &str) -> Result<LoadedToolkit, Vec<Finding>> {
    let one = |message: String| vec![Finding::new("", &message)];
    let mut value = read_unique_json(text, JSON_VALUES_MAX).map_err(|error| {
        one(format!(
            "cannot read the toolkit that `describe` returns: {error}"
        ))
    })?;
    let mut findings = Findings::default();
    let is_short = short::is_short(&value);
    if is_short {
        let Some(records) = short::derive(&value, &mut findings) else {
            return Err(findings.into_errors());
        };
        value = records;
    } else {
        mappings::keep_text(&mut value, text);
    }
    let mut of_records = Findings::default();
    embedded::lift(&mut value);
    look(&value, &mut of_records);
    findings.add(of_records, if is_short { short::placed } else { Some });
    if findings.has_errors() {
        return Err(findings.into_errors());
    }
    references::complete(&mut value);
    let mut toolkit: Toolkit =
        serde_json::from_value(value).map_err(|error| one(error.to_string()))?;
    for declaration in &mut toolkit.declarations {
        if declaration.tool_id.is_empty() {
            declaration.tool_id = declaration.qualified_name();
        }
    }
    let (notes, gaps) = findings.into_notes();
    toolkit.gaps = gaps;
    Ok(LoadedToolkit {
        toolkit,
        notes,
        is_short,
    })
}

fn look(value: &Value, findings: &mut Findings) {
    let top = ToolkitPlace::TOP;
    for list in RECORDS {
        if value.list(list).len() > RECORDS_MAX {
            return findings.error(
                &top.field(list),
                format!("the list has more than {RECORDS_MAX} records"),
            );
        }
    }
    unknown::object(findings, &top, &fields::TOOLKIT, value);
    if value
        .get("declarations")
        .and_then(Value::as_array)
        .is_some_and(Vec::is_empty)
    {
        findings.error(&top.field("declarations"), "the toolkit declares no tool");
    }
    names::check(value, findings);
    for tool in references::link(value, findings) {
        claims::check(&tool, &names::tool_id(tool.declaration.value), findings);
    }
}
