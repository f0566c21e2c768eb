//! Phase 12: result_too_large or result_redacted, where a large or secret output cannot be kept.

mod inline_limit;

use serde_json::{Value, json};

use toolcell_journal::KeptArtifact;
use toolcell_spec::{
    Content, ErrorCode, EventType, Extra, HookEvent, PersistedRef, PersistenceId, Refusal,
    ResultId, ResultPersistence, SchemaVersion, Strategy, Timestamp, json_bytes,
};

use super::artifacts;
use super::call_state::{CallState, phase_token};
use super::map_result::MappedResult;
use super::post_hooks::{self, PostHooked};
use super::preview;

use inline_limit::{InlineLimit, block_length, exact_size, source};
pub(super) use inline_limit::{modifiers_size, names_size, size};

const PREVIEW_CHARS_MAX: u64 = 2_000;
/// Limit on the ratio of structured output to texts that say the same: it repeats field names.
const TOLD_PARTS: usize = 3;
/// A block's other fields that stay beside its preview.
const BESIDE_BYTES_MAX: usize = 1_000;
/// Readers of what a call left: its caller, and the operator.
const ACCESS: &str = "caller";

phase_token! {
    pub(super) Persisted(StoredResult)
}

pub(super) struct StoredResult {
    pub(super) result_id: ResultId,
    pub(super) mapped: Box<MappedResult>,
    pub(super) resource_refs: Vec<Value>,
    pub(super) artifact_refs: Vec<Value>,
}

impl StoredResult {
    fn new(result_id: ResultId, mapped: Box<MappedResult>, artifact_refs: Vec<Value>) -> Self {
        Self {
            result_id,
            mapped,
            resource_refs: Vec::new(),
            artifact_refs,
        }
    }
}

pub(super) async fn persist(journey: &mut CallState<'_>, hooked: PostHooked) -> Persisted {
    let mut mapped = hooked.open();
    let stop = persistence_hooks(journey, &mut mapped).await;
    let result_id = ResultId::new();
    // A hook changed the output after it was redacted.
    if !mapped.redacted {
        journey.redaction.redact(&mut mapped).await;
    }
    let limit = InlineLimit::from_call(journey, result_id, stop.is_some());
    let quotes = mapped.quotes_tool() && guard!("quiet_results");
    if !limit.keeping.output && (mapped.has_output() || quotes) {
        withhold(journey, &mut mapped, limit).await;
        return Persisted(StoredResult::new(result_id, mapped, Vec::new()));
    }
    journey.redaction.tell();
    if !limit.keeping.inline {
        mapped.ui_facing_summary = None;
        mapped.context_modifiers.clear();
        if quotes {
            move_words(&mut mapped);
        }
    }
    let barred = match &stop {
        Some(reason) => Some((
            ErrorCode::HookStop,
            format!("a hook keeps the result from being stored: {reason}"),
        )),
        None => (!limit.keeping.payload).then(|| {
            (
                ErrorCode::NeverPersisted,
                "they may not be stored".to_owned(),
            )
        }),
    };
    let artifact_refs = match journey.artifacts {
        None => Vec::new(),
        // Boxed, to keep the future of a call without artifacts small.
        Some(_) => Box::pin(keep_artifacts(journey, &mut mapped, barred, limit)).await,
    };
    let mut stored = StoredResult::new(result_id, mapped, artifact_refs);
    if limit.holds(&stored.mapped) {
        let strategy = if !limit.keeping.journal {
            Strategy::NeverPersist
        } else if journey.redaction.hooked {
            Strategy::Redact
        } else {
            Strategy::Inline
        };
        let size = exact_size(&stored.mapped);
        record(journey, limit, strategy, [size, size]);
        return Persisted(stored);
    }
    spill_or_drop(journey, &mut stored, limit, stop).await;
    Persisted(stored)
}

/// Withholds an output that the operator keeps from every caller; removes its artifacts.
async fn withhold(journey: &mut CallState<'_>, mapped: &mut MappedResult, limit: InlineLimit) {
    let original = exact_size(mapped);
    let setting = if journey.services.keeping.output {
        "persistence_policy_ref"
    } else {
        "results.persistence"
    };
    journey.redaction.withhold(mapped, setting);
    journey.redaction.tell();
    record_loss(journey, limit, Strategy::Redact, original);
    if let Some(artifacts) = journey.artifacts.take() {
        // Removes the files. Boxed, to keep the future of a call without artifacts small.
        let _ = Box::pin(artifacts.keep(Vec::new())).await;
    }
}

/// `stop` is a hook's reason against storing.
async fn spill_or_drop(
    journey: &mut CallState<'_>,
    stored: &mut StoredResult,
    limit: InlineLimit,
    stop: Option<String>,
) {
    let size = exact_size(&stored.mapped);
    let spilled = match stop {
        Some(reason) => Err((
            ErrorCode::HookStop,
            format!("and a hook keeps it from being stored: {reason}"),
            None,
        )),
        None if !limit.keeping.payload => Err((
            ErrorCode::NeverPersisted,
            "and may not be stored; ask for less at once".to_owned(),
            None,
        )),
        // Boxed, to keep the future of a call with a small output small.
        None => Box::pin(spill(journey, stored, limit))
            .await
            .map_err(|error| artifacts::not_stored("and could not be stored", &error)),
    };
    if let Err((code, why, detail)) = spilled {
        let message = format!("the output of {size} bytes is {}, {why}", limit.verdict());
        let refusal = Refusal {
            detail,
            ..Refusal::new(code, message).with_class(limit.class())
        };
        drop_output(journey, stored, (limit, size), refusal);
    }
}

/// Moves a failure's words into the content, because the result has only a reference (AT-STRAT-03). The detail is for
/// the record alone.
fn move_words(mapped: &mut MappedResult) {
    let Some(error) = mapped.error.take() else {
        return;
    };
    let said = match &error.guest_code {
        Some(code) => format!("{} [{code}]", error.message),
        None => error.message.clone(),
    };
    mapped.content.push(Content::text(said));
    let message = "the tool failed; the result has no text of the tool, at most a reference to it";
    mapped.error = Some(error.reworded(message));
}

/// For an output allowed neither in the result nor on disk (AT-STRAT-05).
fn drop_output(
    journey: &mut CallState<'_>,
    stored: &mut StoredResult,
    (limit, original): (InlineLimit, u64),
    refusal: Refusal,
) {
    // A failed call of a tool with secret data keeps its own error.
    let refusal = stored
        .mapped
        .error
        .take()
        .filter(|_| !limit.keeping.inline)
        .unwrap_or(refusal);
    stored.mapped.lose(refusal);
    stored.resource_refs.clear();
    stored.artifact_refs.clear();
    // Partial results and hooks may have repeated the output: the log of calls leaves them out, too.
    record_loss(journey, limit, Strategy::DropWithReason, original);
}

/// Records a decision on each artifact; returns `artifact_refs`.
async fn keep_artifacts(
    journey: &mut CallState<'_>,
    mapped: &mut MappedResult,
    barred: Option<(ErrorCode, String)>,
    limit: InlineLimit,
) -> Vec<Value> {
    let mut records = Vec::new();
    for KeptArtifact {
        mut record,
        persisted_ref,
    } in artifacts::keep(journey, mapped, barred).await
    {
        if let Some(fields) = record.as_object_mut() {
            // Other bytes are another version.
            fields.insert("version".to_owned(), persisted_ref.digest.as_str().into());
            fields.insert("access".to_owned(), ACCESS.into());
            fields.insert("source".to_owned(), source(journey, limit));
        }
        let sizes = [persisted_ref.size_bytes, 0];
        let kept = ResultPersistence {
            persisted_ref: Some(persisted_ref),
            reason: "the tool wrote it as an artifact".to_owned(),
            ..decision(journey, limit, Strategy::RefOnly, sizes)
        };
        persisted(journey, kept);
        records.push(record);
    }
    records
}

fn persisted(journey: &mut CallState<'_>, kept: ResultPersistence) {
    let record = kept
        .persisted_ref
        .as_ref()
        .map(|stored| json!({ "uri": stored.uri, "digest": stored.digest, "size_bytes": stored.size_bytes }));
    let data = json!({ "decision_id": kept.decision_id, "persisted_ref": record });
    journey.trail.emit(EventType::ResultPersisted, data);
    journey.persistence.push(kept);
}

/// Runs before anything is stored. An updated output counts as redacted; a stop keeps it off the disk.
async fn persistence_hooks(
    journey: &mut CallState<'_>,
    mapped: &mut MappedResult,
) -> Option<String> {
    let tool = journey.tool.clone().filter(|_| mapped.ran)?;
    let services = journey.services;
    let event = HookEvent::ResultPersistence;
    let mut stop = None;
    for hook in services.hooks.hearing(event, tool.declaration()) {
        let mappings = journey.mappings.hooks.len();
        let said = post_hooks::one(journey, &tool, hook, event, mapped).await;
        stop = said.or(stop);
        if journey.mappings.hooks.len() > mappings {
            journey.redaction.hooked = true;
            let redacted = json!({ "rule": format!("hook:{}", hook.id()), "pointers": ["/content", "/structured_content"] });
            journey.trail.emit(EventType::ResultRedacted, redacted);
        }
    }
    stop
}

/// Moves pieces out, largest first, until the rest fits or nothing is movable.
async fn spill(
    journey: &mut CallState<'_>,
    stored: &mut StoredResult,
    limit: InlineLimit,
) -> anyhow::Result<()> {
    while !limit.holds(&stored.mapped) {
        let (of, moved) = match next(&stored.mapped, limit) {
            Some(ResultPiece::Block(at)) => {
                ("content", spill_block(journey, stored, at, limit).await?)
            }
            Some(ResultPiece::Structured) => {
                (STRUCTURED, spill_structured(journey, stored, limit).await?)
            }
            Some(ResultPiece::Rest) => ("content", spill_rest(journey, stored, limit).await?),
            None => break,
        };
        let StoredPart {
            reference,
            preview_bytes,
        } = moved;
        let resource = resource(journey, limit, of, &reference);
        stored.resource_refs.push(resource);
        let strategy = if limit.silent || !limit.keeping.inline {
            Strategy::RefOnly
        } else {
            Strategy::PreviewAndPersist
        };
        let sizes = [reference.size_bytes, preview_bytes];
        let kept = ResultPersistence {
            persisted_ref: Some(reference),
            ..decision(journey, limit, strategy, sizes)
        };
        persisted(journey, kept);
    }
    Ok(())
}

enum ResultPiece {
    Block(usize),
    Structured,
    Rest,
}

const STRUCTURED: &str = "structured_content";

struct StoredPart {
    reference: PersistedRef,
    preview_bytes: u64,
}

fn next(mapped: &MappedResult, limit: InlineLimit) -> Option<ResultPiece> {
    let structured = mapped.structured_content.as_ref().map_or(0, json_bytes);
    let worth_it = usize::try_from(limit.preview_chars() * 4).unwrap_or(usize::MAX);
    let sized = mapped.content.iter().enumerate().filter_map(|(at, block)| {
        let bytes = block_length(block);
        (!block.is_reference() && bytes > worth_it).then_some((at, bytes))
    });
    if !limit.keeping.inline && mapped.content.len() > 1 {
        // One payload for all of them.
        return mapped
            .content
            .iter()
            .any(|block| !block.is_reference())
            .then_some(ResultPiece::Rest)
            .or_else(|| (structured > 0).then_some(ResultPiece::Structured));
    }
    if structured > 0 && is_told(&mapped.content, structured) && limit.holds_content(mapped) {
        return Some(ResultPiece::Structured);
    }
    match sized.max_by_key(|(_, bytes)| *bytes) {
        Some((at, bytes)) if bytes >= structured => Some(ResultPiece::Block(at)),
        _ if structured > 0 => Some(ResultPiece::Structured),
        _ => mapped
            .content
            .iter()
            .any(is_rest)
            .then_some(ResultPiece::Rest),
    }
}

/// Returns whether the texts cover structured output of `bytes`: then they are its best preview, and an outline would
/// repeat them.
fn is_told(content: &[Content], bytes: usize) -> bool {
    let told = |block: &Content| match block.as_text() {
        Some(text) => text.len(),
        None if block.fields.get("of").is_some_and(|of| of == "text") => {
            let size = block
                .fields
                .get("persisted_ref")
                .and_then(|kept| kept.get("size_bytes")?.as_u64());
            size.and_then(|size| usize::try_from(size).ok())
                .unwrap_or(0)
        }
        None => 0,
    };
    let texts = content
        .iter()
        .filter(|block| block.is_model_facing())
        .map(told)
        .fold(0, usize::saturating_add);
    texts.saturating_mul(TOLD_PARTS) >= bytes
}

fn is_rest(block: &Content) -> bool {
    block.is_model_facing() && !block.is_reference()
}

async fn spill_block(
    journey: &CallState<'_>,
    stored: &mut StoredResult,
    at: usize,
    limit: InlineLimit,
) -> anyhow::Result<StoredPart> {
    let Some(block) = stored.mapped.content.get_mut(at) else {
        anyhow::bail!("no block {at}")
    };
    let text = block.as_text().unwrap_or_default();
    let shown = preview::of_text(text, limit.shown_chars()).to_owned();
    let small = |text: &str| {
        if limit.keeping.inline {
            block_length(block) - text.len() <= BESIDE_BYTES_MAX
        } else {
            block.fields.len() == 1
        }
    };
    let (reference, beside) = match block.as_text().filter(|text| small(text)) {
        Some(text) => {
            let mut beside = block.fields.clone();
            beside.retain(|_, value| value.as_str() != Some(text));
            (
                journey
                    .payloads()
                    .keep(text.as_bytes().to_vec(), "text/plain; charset=utf-8")
                    .await?,
                beside,
            )
        }
        None => (
            journey
                .payloads()
                .keep(serde_json::to_vec(block)?, "application/json")
                .await?,
            Extra::new(),
        ),
    };
    let stand_in = stand_in(&block.kind, &shown, &reference);
    let mut fields = beside;
    // The host's fields come last, so that a guest's fields of the same name cannot replace them.
    fields.extend(stand_in.fields);
    *block = Content {
        kind: stand_in.kind,
        fields,
    };
    Ok(StoredPart {
        reference,
        preview_bytes: shown.len() as u64,
    })
}

async fn spill_structured(
    journey: &CallState<'_>,
    stored: &mut StoredResult,
    limit: InlineLimit,
) -> anyhow::Result<StoredPart> {
    let value = stored.mapped.structured_content.take().unwrap_or_default();
    if limit.keeping.inline && is_told(&stored.mapped.content, json_bytes(&value)) {
        let reference = journey
            .payloads()
            .keep(serde_json::to_vec(&value)?, "application/json")
            .await?;
        return Ok(StoredPart {
            reference,
            preview_bytes: 0,
        });
    }
    let (stand_in, moved) = keep_json(journey, limit, STRUCTURED, &value).await?;
    stored.mapped.content.push(stand_in);
    Ok(moved)
}

async fn spill_rest(
    journey: &CallState<'_>,
    stored: &mut StoredResult,
    limit: InlineLimit,
) -> anyhow::Result<StoredPart> {
    let content = std::mem::take(&mut stored.mapped.content);
    let moves = |block: &Content| {
        if limit.keeping.inline {
            is_rest(block)
        } else {
            !block.is_reference()
        }
    };
    let (rest, stays): (Vec<_>, Vec<_>) = content.into_iter().partition(moves);
    let (stand_in, moved) =
        keep_json(journey, limit, "content", &serde_json::to_value(&rest)?).await?;
    stored.mapped.content = std::iter::once(stand_in).chain(stays).collect();
    Ok(moved)
}

async fn keep_json(
    journey: &CallState<'_>,
    limit: InlineLimit,
    of: &str,
    value: &Value,
) -> anyhow::Result<(Content, StoredPart)> {
    let reference = journey
        .payloads()
        .keep(serde_json::to_vec(value)?, "application/json")
        .await?;
    let shown = preview::of_json(value, limit.shown_chars());
    let stand_in = stand_in(of, &shown, &reference);
    let preview_bytes = shown.len() as u64;
    let part = StoredPart {
        reference,
        preview_bytes,
    };
    Ok((stand_in, part))
}

fn stand_in(of: &str, preview: &str, reference: &PersistedRef) -> Content {
    let mut block = Content::persisted(of, preview, reference);
    if !preview.is_empty() {
        let is_cut = (preview.len() as u64) < reference.size_bytes;
        block
            .fields
            .insert("preview_is_cut".to_owned(), is_cut.into());
    }
    block
}

/// Data for a client to read a payload, and its origin (AT-RES-10).
fn resource(
    journey: &CallState<'_>,
    limit: InlineLimit,
    of: &str,
    reference: &PersistedRef,
) -> Value {
    json!({
        "id": reference.digest,
        "uri": reference.uri,
        "media_type": reference.media_type,
        "digest": reference.digest,
        "size_bytes": reference.size_bytes,
        "access": ACCESS,
        "of": of,
        "source": source(journey, limit),
    })
}

fn record(journey: &mut CallState<'_>, limit: InlineLimit, strategy: Strategy, sizes: [u64; 2]) {
    let decision = decision(journey, limit, strategy, sizes);
    journey.persistence.push(decision);
}

/// For an output lost from the result and, if it may not be there, the log.
fn record_loss(journey: &mut CallState<'_>, limit: InlineLimit, strategy: Strategy, original: u64) {
    record(journey, limit, strategy, [original, 0]);
    if !limit.keeping.journal {
        record(journey, limit, Strategy::NeverPersist, [original, 0]);
    }
}

fn decision(
    journey: &CallState<'_>,
    limit: InlineLimit,
    strategy: Strategy,
    [original_size_bytes, preview_size_bytes]: [u64; 2],
) -> ResultPersistence {
    let created_at = Timestamp::now();
    ResultPersistence {
        schema_version: SchemaVersion::default(),
        decision_id: PersistenceId::at(created_at),
        invocation_id: journey.invocation.invocation_id,
        result_id: limit.result_id,
        strategy,
        threshold: limit.threshold(),
        original_size_bytes,
        preview_size_bytes,
        persisted_ref: None,
        redaction_state: journey.redaction.state().to_owned(),
        reason: limit.reason(strategy).to_owned(),
        created_at,
        extra: Extra::new(),
    }
}
