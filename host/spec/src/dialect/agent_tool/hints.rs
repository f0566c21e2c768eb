//! Fields that say how a call is treated, and of which this host knows some words.

use serde::Deserialize;
use serde_json::Value;

use crate::{
    EmptyResultPolicy, InterruptBehavior, PERMISSION_INPUT, PermissionProfile, RenderingBoundary,
};

use super::findings::{Findings, ToolkitPlace};
use super::shape::word;

/// No tool can go on against the will of its caller.
pub(super) fn interrupt_behavior(findings: &mut Findings, place: &ToolkitPlace<'_>, value: &Value) {
    match word::<InterruptBehavior>(value) {
        Err(problem) => findings.error(place, problem),
        Ok(()) if value == "block" => findings.note(
            place,
            "has no effect: the host stops every call that is canceled",
        ),
        Ok(()) => {}
    }
}

pub(super) fn retention_hint(findings: &mut Findings, place: &ToolkitPlace<'_>, value: &Value) {
    match value.as_str() {
        Some(hint) if hint.is_empty() || PermissionProfile::keeps_nothing(hint) => {}
        Some(hint) if PermissionProfile::time(hint).is_some() => {}
        Some(_) => findings.note(
            place,
            "a hint that this host does not use; stored results stay until they are removed, those of a tool that says none, \
             transient or ephemeral are not stored, and those of one that says a time, such as 30d or 12h, end then",
        ),
        None if value.is_null() => {}
        None => findings.error(place, "is not a text"),
    }
}

/// Without a word that the host knows, the whole input is classified, which tells the component no more than it gets.
pub(super) fn classifier_input(findings: &mut Findings, place: &ToolkitPlace<'_>, value: &Value) {
    let is_whole = value.is_null() || value == PERMISSION_INPUT;
    if !is_whole && Vec::<String>::deserialize(value).is_err() {
        findings.note(
            place,
            "is neither the word permission_input nor a list of arguments, by name or JSON Pointer: the component classifies \
             the whole input",
        );
    }
}

pub(super) fn empty_result_policy(
    findings: &mut Findings,
    place: &ToolkitPlace<'_>,
    value: &Value,
) {
    if let Err(problem) = word::<EmptyResultPolicy>(value) {
        findings.note(place, format!("{problem}; an empty result gets a marker"));
    }
}

/// A boundary that the host cannot draw could keep something from the model or from people (AT-OUT-07).
pub(super) fn rendering_boundary(findings: &mut Findings, place: &ToolkitPlace<'_>, value: &Value) {
    if let Err(problem) = word::<RenderingBoundary>(value) {
        findings.gap(place, &problem);
    }
}
