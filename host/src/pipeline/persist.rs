//! Phase 12: result_too_large, where a large output cannot be kept.

use serde_json::{Value, json};

use crate::record::{
    Content, ErrorClass, EventType, Extra, PersistedRef, PersistenceId, Refusal, ResultId, ResultPersistence,
    SchemaVersion, Strategy, TEXT, Timestamp,
};

use super::journey::Journey;
use super::map_result::Mapped;

/// Characters of a payload that stay in the result.
const PREVIEW_CHARS: usize = 2_000;

/// What is stored, and what of it stays in the result.
pub(super) struct Persisted {
    pub(super) result_id: ResultId,
    pub(super) mapped: Mapped,
    pub(super) resource_refs: Vec<Value>,
}

/// Keeps what is too large for a result as payloads, and leaves previews.
pub(super) fn persist(journey: &mut Journey<'_>, mapped: Mapped) -> Persisted {
    let result_id = ResultId::new();
    let asked = journey.tool.as_ref().and_then(|tool| tool.max_inline_chars());
    let limit = asked.unwrap_or(u64::MAX).min(journey.services.inline_bytes_max);
    let mut persisted = Persisted { result_id, mapped, resource_refs: Vec::new() };
    let size = size(&persisted.mapped);
    if size <= limit {
        journey.persistence.push(decision(journey, result_id, Strategy::Inline, limit, size, size, None));
        return persisted;
    }
    if let Err(error) = spill(journey, &mut persisted, limit) {
        let message = format!("the output of {size} bytes is too large to return, and could not be stored");
        let refusal = Refusal::new(ErrorClass::ResultTooLarge, "not_persistable", message).detail(format!("{error:#}"));
        persisted.mapped = Mapped {
            ran: persisted.mapped.ran,
            usage: persisted.mapped.usage.take(),
            error: Some(refusal),
            ..Mapped::default()
        };
        persisted.resource_refs.clear();
        journey.persistence.push(decision(journey, result_id, Strategy::DropWithReason, limit, size, 0, None));
    }
    persisted
}

/// Moves the largest pieces out until the rest fits.
fn spill(journey: &mut Journey<'_>, persisted: &mut Persisted, limit: u64) -> anyhow::Result<()> {
    let mut kept_structured = false;
    loop {
        let size = size(&persisted.mapped);
        let largest = largest_text(&persisted.mapped.content);
        let structured = persisted.mapped.structured_content.as_ref().filter(|_| !kept_structured);
        let structured = structured.map_or(0, |value| value.to_string().len() as u64);
        if size <= limit || (largest.is_none() && structured == 0) {
            return Ok(());
        }
        let reference = match largest {
            Some((at, length)) if length >= structured => spill_block(journey, persisted, at)?,
            _ => {
                kept_structured = true;
                spill_structured(journey, persisted)?
            }
        };
        let record = json!({ "uri": reference.uri, "digest": reference.digest, "size_bytes": reference.size_bytes });
        let preview = PREVIEW_CHARS as u64;
        let strategy = Strategy::PreviewAndPersist;
        let id = persisted.result_id;
        let kept = decision(journey, id, strategy, limit, reference.size_bytes, preview, Some(reference));
        journey
            .trail
            .emit(EventType::ResultPersisted, json!({ "decision_id": kept.decision_id, "persisted_ref": record }));
        journey.persistence.push(kept);
    }
}

/// The largest block that has more text than a preview shows.
fn largest_text(content: &[Content]) -> Option<(usize, u64)> {
    let sized = content.iter().enumerate().filter_map(|(at, block)| {
        let text = block.fields.values().filter_map(Value::as_str).map(str::len).sum::<usize>();
        (block.kind != "persisted_output_ref" && text > PREVIEW_CHARS * 4).then_some((at, text as u64))
    });
    sized.max_by_key(|(_, length)| *length)
}

fn spill_block(journey: &Journey<'_>, persisted: &mut Persisted, at: usize) -> anyhow::Result<PersistedRef> {
    let Some(block) = persisted.mapped.content.get_mut(at) else { anyhow::bail!("no block {at}") };
    let reference = match (block.kind.as_str(), block.as_text()) {
        (TEXT | "log" | "diff", Some(text)) => {
            journey.services.payloads.keep(text.as_bytes(), "text/plain; charset=utf-8")?
        }
        _ => journey.services.payloads.keep(&serde_json::to_vec(block)?, "application/json")?,
    };
    let preview = preview(block.as_text().unwrap_or_default());
    let fields = json!({ "of": block.kind, "preview": preview, "persisted_ref": reference });
    *block = Content::new("persisted_output_ref", fields);
    persisted.resource_refs.push(resource(&reference));
    Ok(reference)
}

fn spill_structured(journey: &Journey<'_>, persisted: &mut Persisted) -> anyhow::Result<PersistedRef> {
    let value = persisted.mapped.structured_content.take().unwrap_or_default();
    let text = value.to_string();
    let reference = journey.services.payloads.keep(text.as_bytes(), "application/json")?;
    let fields = json!({ "of": "structured_content", "preview": preview(&text), "persisted_ref": reference });
    persisted.mapped.content.push(Content::new("persisted_output_ref", fields));
    persisted.resource_refs.push(resource(&reference));
    Ok(reference)
}

fn resource(reference: &PersistedRef) -> Value {
    json!({
        "id": reference.digest,
        "uri": reference.uri,
        "media_type": reference.media_type,
        "digest": reference.digest,
        "size_bytes": reference.size_bytes,
    })
}

fn preview(text: &str) -> String {
    text.chars().take(PREVIEW_CHARS).collect()
}

fn size(mapped: &Mapped) -> u64 {
    let blocks = mapped.content.iter().map(|block| block.fields.values().map(length).sum::<usize>()).sum::<usize>();
    (blocks + mapped.structured_content.as_ref().map_or(0, length)) as u64
}

/// Bytes of a value as JSON text, near enough and without writing it.
fn length(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| length(item) + 1).sum::<usize>() + 2,
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + length(value) + 4).sum::<usize>() + 2,
    }
}

fn decision(
    journey: &Journey<'_>,
    result_id: ResultId,
    strategy: Strategy,
    limit: u64,
    original_size_bytes: u64,
    preview_size_bytes: u64,
    persisted_ref: Option<PersistedRef>,
) -> ResultPersistence {
    let reason = match strategy {
        Strategy::Inline => "small enough to stay in the result",
        Strategy::PreviewAndPersist => "larger than a result may be",
        _ => "too large, and storing it failed",
    };
    ResultPersistence {
        schema_version: SchemaVersion::default(),
        decision_id: PersistenceId::new(),
        invocation_id: journey.invocation.invocation_id,
        result_id,
        strategy,
        threshold: json!({ "inline_bytes_max": limit }),
        original_size_bytes,
        preview_size_bytes,
        persisted_ref,
        redaction_state: "none".to_owned(),
        reason: reason.to_owned(),
        created_at: Timestamp::now(),
        extra: Extra::new(),
    }
}
