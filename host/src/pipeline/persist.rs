//! Phase 12: result_too_large, where a large output cannot be kept.

use serde_json::{Value, json};

use crate::record::{
    Content, ErrorClass, EventType, Extra, HookEvent, PersistedRef, PersistenceId, Refusal, ResultId,
    ResultPersistence, SchemaVersion, Strategy, Timestamp,
};

use super::journey::Journey;
use super::map_result::Mapped;
use super::post_hooks;

/// Characters of a payload that stay in the result, at the most.
const PREVIEW_CHARS_MAX: u64 = 2_000;
/// Bytes of a block's other fields that stay beside its preview.
const BESIDE_BYTES_MAX: usize = 1_000;

/// What is stored, and what of it stays in the result.
pub(super) struct Persisted {
    pub(super) result_id: ResultId,
    pub(super) mapped: Mapped,
    pub(super) resource_refs: Vec<Value>,
}

/// Keeps what is too large for a result as payloads, and leaves previews.
pub(super) async fn persist(journey: &mut Journey<'_>, mapped: Mapped) -> Persisted {
    let (mapped, stop) = hooked(journey, mapped).await;
    let result_id = ResultId::new();
    let mut mapped = mapped;
    // Hooks may have changed it since the tool answered.
    journey.redact(&mut mapped).await;
    journey.tell_redaction();
    let asked = journey.tool.as_ref().and_then(|tool| tool.max_inline_chars());
    let limit = asked.unwrap_or(u64::MAX).min(journey.services.inline_bytes_max);
    let mut persisted = Persisted { result_id, mapped, resource_refs: Vec::new() };
    let size = size(&persisted.mapped);
    if size <= limit {
        let strategy = match stop {
            Some(_) => Strategy::NeverPersist,
            None if journey.redaction.by_hook() => Strategy::Redact,
            None => Strategy::Inline,
        };
        journey.persistence.push(decision(journey, result_id, strategy, limit, size, size, None));
        return persisted;
    }
    let spilled = match stop {
        Some(reason) => Err(("hook_stop", format!("and a hook keeps it from being stored: {reason}"), None)),
        None => spill(journey, &mut persisted, limit)
            .await
            .map_err(|error| ("not_persistable", "and could not be stored".to_owned(), Some(format!("{error:#}")))),
    };
    if let Err((code, why, detail)) = spilled {
        let message = format!("the output of {size} bytes is too large to return, {why}");
        let refusal = Refusal { detail, ..Refusal::new(ErrorClass::ResultTooLarge, code, message) };
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

/// Runs the hooks that look at a result before anything of it is stored. An output that they update is redacted; one that
/// says stop keeps the result off the disk.
async fn hooked(journey: &mut Journey<'_>, mapped: Mapped) -> (Mapped, Option<String>) {
    let Some(tool) = journey.tool.clone().filter(|_| mapped.ran) else { return (mapped, None) };
    let (services, declaration) = (journey.services, tool.declaration());
    let event = HookEvent::ResultPersistence;
    let (mut mapped, mut stop) = (mapped, None);
    for hook in services.hooks.hearing(event, &declaration.tool_id, &declaration.namespace) {
        let mappings = journey.mappings.hooks.len();
        stop = post_hooks::one(journey, &tool, hook, event, &mut mapped).await.or(stop);
        if journey.mappings.hooks.len() > mappings {
            journey.redaction.hooked();
            let redacted =
                json!({ "rule": format!("hook:{}", hook.id()), "pointers": ["/content", "/structured_content"] });
            journey.trail.emit(EventType::ResultRedacted, redacted);
        }
    }
    (mapped, stop)
}

/// Moves pieces out, the largest first, until the rest fits or nothing is left that could be moved.
async fn spill(journey: &mut Journey<'_>, persisted: &mut Persisted, limit: u64) -> anyhow::Result<()> {
    while size(&persisted.mapped) > limit {
        let moved = match next(&persisted.mapped, limit) {
            Some(Piece::Block(at)) => spill_block(journey, persisted, at, limit).await?,
            Some(Piece::Structured) => spill_structured(journey, persisted, limit).await?,
            Some(Piece::Rest) => spill_rest(journey, persisted, limit).await?,
            None => break,
        };
        let Moved { reference, preview_bytes } = moved;
        persisted.resource_refs.push(resource(&reference));
        let record = json!({ "uri": reference.uri, "digest": reference.digest, "size_bytes": reference.size_bytes });
        let strategy = if journey.redaction.is_silent() { Strategy::RefOnly } else { Strategy::PreviewAndPersist };
        let id = persisted.result_id;
        let kept = decision(journey, id, strategy, limit, reference.size_bytes, preview_bytes, Some(reference));
        journey
            .trail
            .emit(EventType::ResultPersisted, json!({ "decision_id": kept.decision_id, "persisted_ref": record }));
        journey.persistence.push(kept);
    }
    Ok(())
}

/// What can be moved out of a result at once.
enum Piece {
    Block(usize),
    Structured,
    /// All blocks for the model that are too small to be moved one by one.
    Rest,
}

/// What was moved out.
struct Moved {
    reference: PersistedRef,
    preview_bytes: u64,
}

fn next(mapped: &Mapped, limit: u64) -> Option<Piece> {
    let structured = mapped.structured_content.as_ref().map_or(0, length);
    let worth_it = usize::try_from(preview_chars(limit) * 4).unwrap_or(usize::MAX);
    let sized = mapped.content.iter().enumerate().filter_map(|(at, block)| {
        let bytes = block_length(block);
        (!block.is_persisted() && bytes > worth_it).then_some((at, bytes))
    });
    match sized.max_by_key(|(_, bytes)| *bytes) {
        Some((at, bytes)) if bytes >= structured => Some(Piece::Block(at)),
        _ if structured > 0 => Some(Piece::Structured),
        _ => mapped.content.iter().any(is_rest).then_some(Piece::Rest),
    }
}

fn is_rest(block: &Content) -> bool {
    block.is_model_facing() && !block.is_persisted()
}

/// A text is kept as it is, and what else the block says stays beside the preview; any other block is kept as JSON.
async fn spill_block(journey: &Journey<'_>, persisted: &mut Persisted, at: usize, limit: u64) -> anyhow::Result<Moved> {
    let Some(block) = persisted.mapped.content.get_mut(at) else { anyhow::bail!("no block {at}") };
    let preview = preview(journey, block.as_text().unwrap_or_default(), limit);
    let small = |text: &str| block_length(block) - text.len() <= BESIDE_BYTES_MAX;
    let (reference, beside) = match block.as_text().filter(|text| small(text)) {
        Some(text) => {
            let mut beside = block.fields.clone();
            beside.retain(|_, value| value.as_str() != Some(text));
            (journey.services.payloads.keep(text.as_bytes().to_vec(), "text/plain; charset=utf-8").await?, beside)
        }
        None => (journey.services.payloads.keep(serde_json::to_vec(block)?, "application/json").await?, Extra::new()),
    };
    let stand_in = Content::persisted(&block.kind, &preview, &reference);
    let mut fields = beside;
    // What the host says comes last, so that a guest's field of the same name cannot take its place.
    fields.extend(stand_in.fields);
    *block = Content { kind: stand_in.kind, fields };
    Ok(Moved { reference, preview_bytes: preview.len() as u64 })
}

async fn spill_structured(journey: &Journey<'_>, persisted: &mut Persisted, limit: u64) -> anyhow::Result<Moved> {
    let value = persisted.mapped.structured_content.take().unwrap_or_default();
    let text = value.to_string();
    let reference = journey.services.payloads.keep(text.as_bytes().to_vec(), "application/json").await?;
    let preview = preview(journey, &text, limit);
    persisted.mapped.content.push(Content::persisted("structured_content", &preview, &reference));
    Ok(Moved { reference, preview_bytes: preview.len() as u64 })
}

async fn spill_rest(journey: &Journey<'_>, persisted: &mut Persisted, limit: u64) -> anyhow::Result<Moved> {
    let content = std::mem::take(&mut persisted.mapped.content);
    let (rest, stays): (Vec<_>, Vec<_>) = content.into_iter().partition(is_rest);
    let text = serde_json::to_string(&rest)?;
    let reference = journey.services.payloads.keep(text.as_bytes().to_vec(), "application/json").await?;
    let preview = preview(journey, &text, limit);
    persisted.mapped.content.push(Content::persisted("content", &preview, &reference));
    persisted.mapped.content.extend(stays);
    Ok(Moved { reference, preview_bytes: preview.len() as u64 })
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

/// A preview is much smaller than what may stay inline.
fn preview_chars(limit: u64) -> u64 {
    PREVIEW_CHARS_MAX.min(limit / 8)
}

/// What stays in the result of something sensitive is the reference alone (AT-STRAT-03).
fn preview(journey: &Journey<'_>, text: &str, limit: u64) -> String {
    if journey.redaction.is_silent() {
        return String::new();
    }
    text.chars().take(usize::try_from(preview_chars(limit)).unwrap_or(usize::MAX)).collect()
}

/// Bytes of an answer as JSON text, near enough.
pub(super) fn size(mapped: &Mapped) -> u64 {
    let blocks = mapped.content.iter().map(block_length).sum::<usize>();
    (blocks + mapped.structured_content.as_ref().map_or(0, length)) as u64
}

fn block_length(block: &Content) -> usize {
    block.fields.values().map(length).sum()
}

/// Bytes of a value as JSON text, near enough and without writing it.
pub(super) fn length(value: &Value) -> usize {
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
        Strategy::NeverPersist => "a hook keeps it from being stored",
        Strategy::Redact => "a hook redacted it; small enough to stay in the result",
        Strategy::PreviewAndPersist => "larger than a result may be",
        Strategy::RefOnly => "larger than a result may be, and sensitive",
        _ => "too large, and not stored",
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
        redaction_state: journey.redaction.state().to_owned(),
        reason: reason.to_owned(),
        created_at: Timestamp::now(),
        extra: Extra::new(),
    }
}
