//! Artifacts of a call: writers, valid references, and which are kept.

use std::collections::HashSet;

use serde_json::Value;

use crate::catalog::Tool;
use toolcell_journal::{Artifacts, KeptArtifact, NoPayloadRoom};
use toolcell_policy::Limits;
use toolcell_spec::{ARTIFACT, Content, ErrorClass, ErrorCode, Refusal};

use super::call_state::CallState;
use super::map_result::MappedResult;

const QUOTED_CHARS_MAX: usize = 100;

/// Also counts the artifacts of the tool's calls; `None` if its component imports neither.
pub(super) fn begin(journey: &CallState<'_>, tool: &Tool, limits: &Limits) -> Option<Artifacts> {
    (tool.execution_profile().supports_artifacts == Some(true) || tool.calls_tools()).then(|| {
        Artifacts::new(
            &journey.payloads(),
            limits,
            journey.redaction.of_artifacts(),
        )
    })
}

/// Replaces the fields of each reference with the host's, because a guest's would be in the result whatever their size.
/// Fails with `artifact_ref_invalid` for a repeated reference, or one not finished by this call.
pub(super) fn resolve(journey: &CallState<'_>, content: &mut [Content]) -> Result<(), Refusal> {
    let mut seen = HashSet::new();
    for block in content.iter_mut().filter(|block| block.kind == ARTIFACT) {
        let given = reference(block).unwrap_or_default();
        let found = journey
            .artifacts
            .as_ref()
            .and_then(|artifacts| artifacts.find(given));
        match found.filter(|_| seen.insert(given.to_owned())) {
            Some(fields) => block.fields = fields,
            None if guard!("artifact_refs") => {
                let quoted: String = given.chars().take(QUOTED_CHARS_MAX).collect();
                let message = format!(
                    "the tool refers to the artifact {quoted:?}, which it did not finish in this call, or refers to twice; \
                     return each reference that `finish` gave once"
                );
                return Err(Refusal::new(ErrorCode::ArtifactRefInvalid, message));
            }
            None => {}
        }
    }
    Ok(())
}

/// Stores the referenced artifacts and removes the others. `barred` is why the result may not be stored. Without its
/// artifacts, an output is withheld.
pub(super) async fn keep(
    journey: &mut CallState<'_>,
    mapped: &mut MappedResult,
    barred: Option<(ErrorCode, String)>,
) -> Vec<KeptArtifact> {
    let Some(artifacts) = journey.artifacts.take() else {
        return Vec::new();
    };
    let blocks = mapped.content.iter().filter(|block| block.kind == ARTIFACT);
    let wanted: Vec<String> = blocks
        .map(|block| reference(block).unwrap_or_default().to_owned())
        .collect();
    let barred = barred.filter(|_| !wanted.is_empty());
    let stored = artifacts
        .keep(if barred.is_some() {
            Vec::new()
        } else {
            wanted.clone()
        })
        .await;
    let is_kept = |kept: &[KeptArtifact], wanted: &String| {
        let mut kept = kept.iter();
        kept.any(|one| one.record.get("reference").and_then(Value::as_str) == Some(wanted))
    };
    let (code, why, detail) = match (stored, barred) {
        (_, Some((code, why))) => (code, why, None),
        (Ok(kept), None) if wanted.iter().all(|wanted| is_kept(&kept, wanted)) => return kept,
        (Ok(_), None) => (
            ErrorCode::NotPersistable,
            "a reference to them was redacted".to_owned(),
            None,
        ),
        (Err(error), None) => not_stored("the host could not store them", &error),
    };
    let message = format!("the output has artifacts, and cannot be returned: {why}");
    mapped.withhold(Refusal {
        detail,
        ..Refusal::new(code, message).with_class(ErrorClass::ResultTooLarge)
    });
    Vec::new()
}

pub(super) fn not_stored(what: &str, error: &anyhow::Error) -> (ErrorCode, String, Option<String>) {
    let mut why = what.to_owned();
    if let Some(full) = error.downcast_ref::<NoPayloadRoom>() {
        why.push_str(&format!(": {full}"));
    }
    (ErrorCode::NotPersistable, why, Some(format!("{error:#}")))
}

fn reference(block: &Content) -> Option<&str> {
    block.fields.get("reference").and_then(Value::as_str)
}
