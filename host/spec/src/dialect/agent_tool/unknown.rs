//! The specification's objects are open, so unknown fields are kept; but no call runs without a limit that a misspelt or
//! misplaced field was meant for.

use serde_json::Value;

use super::fields::OBJECTS;
use super::findings::{Findings, ToolkitPlace};
use super::shape::{FieldShape, ObjectShape, hold};

/// The longest name that limits a call has 25 characters.
const NAME_BYTES_MAX: usize = 48;

pub(super) fn object(
    findings: &mut Findings,
    place: &ToolkitPlace<'_>,
    object: &'static ObjectShape,
    value: &Value,
) {
    let Value::Object(fields) = value else {
        return findings.error(place, "is not an object");
    };
    for (name, value) in fields {
        match object.fields.iter().find(|field| field.name == name) {
            Some(field) => hold(findings, &place.field(name), field, value, self::object),
            None => unknown(findings, &place.field(name), object, name),
        }
    }
    for field in object.fields.iter().filter(|field| field.required) {
        if !fields.contains_key(field.name) {
            findings.error(place, format!("the field {} is missing", field.name));
        }
    }
}

fn unknown(
    findings: &mut Findings,
    place: &ToolkitPlace<'_>,
    object: &'static ObjectShape,
    name: &str,
) {
    if !findings.count_unknown(place) {
        return;
    }
    if is_extension(name) {
        return findings.note(place, "unknown field: it is kept, and has no effect");
    }
    let belongs: Vec<(&ObjectShape, &FieldShape)> = elsewhere(object)
        .filter(|(_, field)| field.name == name)
        .collect();
    if !belongs.is_empty() {
        let places: Vec<&str> = belongs.iter().map(|(object, _)| object.name).collect();
        let message = format!("has no effect here; it belongs in {}", places.join(" or "));
        return if belongs.iter().any(|(_, field)| field.narrows) {
            findings.gap(place, &format!("{message}: move it, or remove it"))
        } else {
            findings.note(place, message)
        };
    }
    let own = object.fields.iter().map(|field| (object, field));
    let mut similar = own
        .chain(elsewhere(object))
        .filter(|(_, field)| resembles(name, field.name));
    match similar.clone().find(|(_, field)| field.narrows) {
        Some((of, field)) => {
            let known = field.name;
            findings.gap(
                place,
                &format!(
                    "unknown field; {known} of {} limits what a tool may do: correct the name, or remove it",
                    of.name
                ),
            );
        }
        None => match similar.next() {
            Some((of, field)) => findings.note(
                place,
                format!(
                    "unknown field: it is kept, and has no effect; {} is known in {}",
                    field.name, of.name
                ),
            ),
            None => findings.note(place, "unknown field: it is kept, and has no effect"),
        },
    }
}

/// A name that its author marks as his own is no misspelling.
fn is_extension(name: &str) -> bool {
    name.starts_with("x_") || name.starts_with("x-") || name.contains([':', '.'])
}

/// Skips objects whose names are common words.
fn elsewhere(
    object: &'static ObjectShape,
) -> impl Iterator<Item = (&'static ObjectShape, &'static FieldShape)> + Clone {
    let others = OBJECTS
        .iter()
        .copied()
        .filter(move |other| !std::ptr::eq(*other, object) && !other.common_names);
    others.flat_map(|other| other.fields.iter().map(move |field| (other, field)))
}

/// Annotations are never read (AT-DECL-18). With a field that limits a call no call runs, because it was meant for a record.
pub(super) fn annotations(findings: &mut Findings, place: &ToolkitPlace<'_>, value: &Value) {
    match value {
        Value::Object(annotations) => {
            if !annotations.is_empty() {
                findings.note(
                    place,
                    "untrusted: no policy, no scheduler and no sandbox of this host reads any of it",
                );
            }
            for name in annotations.keys() {
                let meant = OBJECTS
                    .iter()
                    .filter(|object| !object.common_names)
                    .find_map(|object| {
                        let field = object
                            .fields
                            .iter()
                            .find(|field| field.narrows && field.name == name)?;
                        Some((object.name, field.name))
                    });
                if let Some((object, known)) = meant {
                    let message = format!(
                        "has no effect in annotations; {known} belongs in {object}: move it"
                    );
                    findings.gap(&place.field(name), &message);
                }
            }
        }
        Value::Null => {}
        _ => findings.error(place, "is not an object"),
    }
}

/// Ignores case, separators and plurals, and permits up to two wrong letters.
pub(super) fn resembles(name: &str, known: &str) -> bool {
    if name.len() > NAME_BYTES_MAX {
        return false;
    }
    let name = bare(name);
    let known = bare(known);
    // One wrong letter turns a short word into another word.
    let letters = match known.len() {
        0..5 => 0,
        5..8 => 1,
        _ => 2,
    };
    name == known
        || (name.len().abs_diff(known.len()) <= letters
            && strsim::osa_distance(&name, &known) <= letters)
}

/// Drops a plural's `s`.
fn bare(name: &str) -> String {
    let mut bare: String = name
        .chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect();
    if bare.ends_with('s') {
        bare.pop();
    }
    bare
}

#[cfg(test)]
mod tests {
    use super::resembles;

    #[test]
    fn misspellings_are_recognised_and_other_words_are_not() {
        for (name, known) in [
            ("permission_subject", "permission_subjects"),
            ("permissionSubjects", "permission_subjects"),
            ("permission-subjects", "permission_subjects"),
            ("permisson_subjcts", "permission_subjects"),
            ("approval_requierd", "approval_required"),
            ("read_only", "is_read_only"),
            ("timeout", "timeout_ms"),
            ("qeury", "query"),
            ("headers", "header"),
        ] {
            assert!(resembles(name, known), "{name} {known}");
        }
        for (name, known) in [
            ("ref2", "ref"),
            ("a_field_of_tomorrow", "sensitive_fields"),
            ("struct_", "strict_mode"),
            ("", "ref"),
            ("s", "ref"),
            ("version", "environment"),
        ] {
            assert!(!resembles(name, known), "{name} {known}");
        }
        assert!(!resembles(
            &"permission_subjects".repeat(1_000),
            "permission_subjects"
        ));
    }
}
