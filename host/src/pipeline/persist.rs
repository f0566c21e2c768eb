//! Phase 12: result_too_large or result_redacted, where a large or secret output cannot be kept.

use serde_json::{Value, json};

use crate::catalog::Tool;
use crate::record::{
    Content, ErrorClass, EventType, Extra, HookEvent, PersistedRef, PersistenceId, Refusal, ResultId,
    ResultPersistence, SchemaVersion, Strategy, Timestamp,
};

use super::journey::Journey;
use super::map_result::Mapped;
use super::post_hooks;

/// Maximum characters of a payload that stay in the result.
const PREVIEW_CHARS_MAX: u64 = 2_000;
/// Maximum bytes of a block's other fields that stay beside its preview.
const BESIDE_BYTES_MAX: usize = 1_000;

/// The output that stays in the result, and references to what was stored.
pub(super) struct Persisted {
    pub(super) result_id: ResultId,
    pub(super) mapped: Mapped,
    pub(super) resource_refs: Vec<Value>,
}

/// Stores output that is too large or too sensitive for a result as payloads, and leaves previews.
pub(super) async fn persist(journey: &mut Journey<'_>, mapped: Mapped) -> Persisted {
    let (mapped, stop) = hooked(journey, mapped).await;
    let result_id = ResultId::new();
    let mut mapped = mapped;
    // A hook changed the output after it was redacted.
    if !mapped.redacted {
        journey.redact(&mut mapped).await;
    }
    journey.tell_redaction();
    let limit = Inline::of(journey);
    if limit.is_none {
        mapped.ui_facing_summary = None;
    }
    let mut persisted = Persisted { result_id, mapped, resource_refs: Vec::new() };
    let size = size(&persisted.mapped);
    if limit.holds(&persisted.mapped) {
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
        let (class, what) = match limit.is_none {
            true => (ErrorClass::ResultRedacted, "secret, and so is not returned"),
            false => (ErrorClass::ResultTooLarge, "too large to return"),
        };
        let message = format!("the output of {size} bytes is {what}, {why}");
        let refusal = Refusal { detail, ..Refusal::new(class, code, message) };
        // A failed call of a tool with secret data keeps its own error.
        let refusal = persisted.mapped.error.take().filter(|_| limit.is_none).unwrap_or(refusal);
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

/// Runs the hooks that see a result before any of it is stored. An output that they update counts as redacted; a hook
/// that says stop keeps the result off the disk.
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
async fn spill(journey: &mut Journey<'_>, persisted: &mut Persisted, limit: Inline) -> anyhow::Result<()> {
    while !limit.holds(&persisted.mapped) {
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

/// A part of a result that is moved out in one step.
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

fn next(mapped: &Mapped, limit: Inline) -> Option<Piece> {
    let structured = mapped.structured_content.as_ref().map_or(0, length);
    let worth_it = usize::try_from(limit.preview_chars() * 4).unwrap_or(usize::MAX);
    let sized = mapped.content.iter().enumerate().filter_map(|(at, block)| {
        let bytes = block_length(block);
        (!block.is_persisted() && bytes > worth_it).then_some((at, bytes))
    });
    if limit.is_none && mapped.content.len() > 1 {
        // One payload for all of them.
        return mapped
            .content
            .iter()
            .any(|block| !block.is_persisted())
            .then_some(Piece::Rest)
            .or_else(|| (structured > 0).then_some(Piece::Structured));
    }
    match sized.max_by_key(|(_, bytes)| *bytes) {
        Some((at, bytes)) if bytes >= structured => Some(Piece::Block(at)),
        _ if structured > 0 => Some(Piece::Structured),
        _ => mapped.content.iter().any(is_rest).then_some(Piece::Rest),
    }
}

fn is_rest(block: &Content) -> bool {
    block.is_model_facing() && !block.is_persisted()
}

/// Stores a text as it is and leaves the block's other fields beside the preview; stores any other block as JSON.
async fn spill_block(
    journey: &Journey<'_>,
    persisted: &mut Persisted,
    at: usize,
    limit: Inline,
) -> anyhow::Result<Moved> {
    let Some(block) = persisted.mapped.content.get_mut(at) else { anyhow::bail!("no block {at}") };
    let preview = preview(journey, block.as_text().unwrap_or_default(), limit);
    let small = |text: &str| match limit.is_none {
        true => block.fields.len() == 1,
        false => block_length(block) - text.len() <= BESIDE_BYTES_MAX,
    };
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
    // The host's fields come last, so that a guest's fields of the same name cannot replace them.
    fields.extend(stand_in.fields);
    *block = Content { kind: stand_in.kind, fields };
    Ok(Moved { reference, preview_bytes: preview.len() as u64 })
}

async fn spill_structured(journey: &Journey<'_>, persisted: &mut Persisted, limit: Inline) -> anyhow::Result<Moved> {
    let value = persisted.mapped.structured_content.take().unwrap_or_default();
    let text = value.to_string();
    let reference = journey.services.payloads.keep(text.as_bytes().to_vec(), "application/json").await?;
    let preview = preview(journey, &text, limit);
    persisted.mapped.content.push(Content::persisted("structured_content", &preview, &reference));
    Ok(Moved { reference, preview_bytes: preview.len() as u64 })
}

async fn spill_rest(journey: &Journey<'_>, persisted: &mut Persisted, limit: Inline) -> anyhow::Result<Moved> {
    let content = std::mem::take(&mut persisted.mapped.content);
    let moves = |block: &Content| if limit.is_none { !block.is_persisted() } else { is_rest(block) };
    let (rest, stays): (Vec<_>, Vec<_>) = content.into_iter().partition(moves);
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

/// Limits on what may stay in a result.
#[derive(Clone, Copy)]
struct Inline {
    bytes_max: u64,
    /// Maximum characters of the tool's output: the text of a block, and the JSON text of structured output.
    chars_max: Option<u64>,
    /// The data of the tool is secret: none of it stays.
    is_none: bool,
}

impl Inline {
    /// The lower of the host's and the tool's limits.
    fn of(journey: &Journey<'_>) -> Self {
        let (tool, host) = (journey.tool.as_deref(), journey.services.inline_bytes_max);
        Self {
            bytes_max: tool.and_then(Tool::max_inline_bytes).unwrap_or(u64::MAX).min(host),
            chars_max: tool.and_then(Tool::max_inline_chars),
            is_none: tool.is_some_and(|tool| tool.permission_profile().is_secret()) && guard!("secret_results"),
        }
    }

    fn holds(self, mapped: &Mapped) -> bool {
        if self.is_none {
            return mapped.structured_content.is_none() && mapped.content.iter().all(Content::is_persisted);
        }
        size(mapped) <= self.bytes_max && self.chars_max.is_none_or(|max| chars(mapped) <= max)
    }

    /// The limits as the record shows them.
    fn threshold(self) -> Value {
        let bytes_max = if self.is_none { 0 } else { self.bytes_max };
        match self.chars_max {
            None => json!({ "inline_bytes_max": bytes_max }),
            Some(chars_max) => json!({ "inline_bytes_max": bytes_max, "inline_chars_max": chars_max }),
        }
    }

    /// Maximum characters of a preview: an eighth of what may stay inline, and at most [`PREVIEW_CHARS_MAX`].
    fn preview_chars(self) -> u64 {
        if self.is_none {
            return 0;
        }
        PREVIEW_CHARS_MAX.min(self.bytes_max.min(self.chars_max.unwrap_or(u64::MAX)) / 8)
    }
}

/// The preview of `text`; empty for sensitive data, of which only the reference stays in the result (AT-STRAT-03).
fn preview(journey: &Journey<'_>, text: &str, limit: Inline) -> String {
    if journey.redaction.is_silent() {
        return String::new();
    }
    text.chars().take(usize::try_from(limit.preview_chars()).unwrap_or(usize::MAX)).collect()
}

/// Characters of the tool's output: texts as they are, everything else as JSON.
fn chars(mapped: &Mapped) -> u64 {
    let of_field = |value: &Value| match value {
        Value::String(text) => text.chars().count() as u64,
        value => json_chars(value),
    };
    let blocks = mapped.content.iter().flat_map(|block| block.fields.values()).map(of_field).sum::<u64>();
    blocks + mapped.structured_content.as_ref().map_or(0, json_chars)
}

fn json_chars(value: &Value) -> u64 {
    struct Chars(u64);
    impl std::io::Write for Chars {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            // In UTF-8, all bytes of a character but its first begin with the bits 10.
            self.0 += bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count() as u64;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut chars = Chars(0);
    // Serializing a `Value` into a counter never fails.
    let _ = serde_json::to_writer(&mut chars, value);
    chars.0
}

/// Approximate size of an output as JSON text, in bytes.
pub(super) fn size(mapped: &Mapped) -> u64 {
    let blocks = mapped.content.iter().map(block_length).sum::<usize>();
    (blocks + mapped.structured_content.as_ref().map_or(0, length)) as u64
}

fn block_length(block: &Content) -> usize {
    block.fields.values().map(length).sum()
}

/// Approximate size of a value as JSON text, in bytes, without serializing it.
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
    limit: Inline,
    original_size_bytes: u64,
    preview_size_bytes: u64,
    persisted_ref: Option<PersistedRef>,
) -> ResultPersistence {
    let reason = match strategy {
        Strategy::Inline => "small enough to stay in the result",
        Strategy::NeverPersist => "a hook keeps it from being stored",
        Strategy::Redact => "a hook redacted it; small enough to stay in the result",
        Strategy::RefOnly if limit.is_none => "the tool's data is secret: no result holds it",
        Strategy::PreviewAndPersist => "larger than a result may be",
        Strategy::RefOnly => "larger than a result may be, and sensitive",
        _ if limit.is_none => "secret, and not stored",
        _ => "too large, and not stored",
    };
    ResultPersistence {
        schema_version: SchemaVersion::default(),
        decision_id: PersistenceId::new(),
        invocation_id: journey.invocation.invocation_id,
        result_id,
        strategy,
        threshold: limit.threshold(),
        original_size_bytes,
        preview_size_bytes,
        persisted_ref,
        redaction_state: journey.redaction.state().to_owned(),
        reason: reason.to_owned(),
        created_at: Timestamp::now(),
        extra: Extra::new(),
    }
}
