//! One call: what happened, in order of time, and what came of it.

mod output;
mod phases;
mod record;
pub(crate) mod replay;

use std::fs::File;
use std::io::Read;

use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http::StatusCode;
use http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use maud::{Markup, html};
use serde_json::Value;
use toolcell_journal::StoredPayload;
use toolcell_system::pool::STORE;

use super::{list, text};
use crate::layout::{PageProblem, Place};
use crate::text::{laid_out, line};
use crate::{OwnPage, PageState, waiting};
pub(super) use output::kind;

/// For what a tool made: nothing of it runs, and it has no origin.
pub(super) const SANDBOX: &str = "sandbox; default-src 'none'; frame-ancestors 'none'";
const PIECE_BYTES: u64 = 256 << 10;

pub(super) fn find(state: &PageState, id: &str) -> Result<Value, PageProblem> {
    let unknown = || PageProblem::unknown("no call has this id, or it is no longer on record");
    if !state.user.names_call(id) {
        return Err(unknown());
    }
    let caller = state.user.caller();
    let logged = || state.log.record_of(id, caller.as_deref());
    let mut record = logged()?;
    if record.is_none() {
        record = waiting::record(&state.journal, id, caller.as_deref())?;
    }
    if record.is_none() {
        // It may have started meanwhile.
        record = logged()?;
    }
    let actor = |record: &Value| {
        let actor = record.pointer("/invocation/actor_ref");
        actor.and_then(Value::as_str).map(str::to_owned)
    };
    let own = record.filter(|record| state.user.has_call(actor(record).as_deref()));
    own.ok_or_else(unknown)
}

pub(crate) async fn show(
    OwnPage(state): OwnPage,
    Path(id): Path<String>,
) -> Result<Response, PageProblem> {
    let work = move |state: &PageState| {
        let record = find(state, &id)?;
        let title = text(record.get("invocation").unwrap_or(&Value::Null), "tool_id").to_owned();
        let body = body(state, &record);
        state.page(&title, Place::Calls, &body)
    };
    state.aside(work).await
}

fn body(state: &PageState, record: &Value) -> Markup {
    let invocation = record.get("invocation").unwrap_or(&Value::Null);
    let result = record.get("result").unwrap_or(&Value::Null);
    let has_ended = !result.is_null();
    html! {
        h1 { "Call of " span class="said" { (line(text(invocation, "tool_id"))) } }
        section id="content" data-live=[(!has_ended).then_some("call")] {
            (record::head(state, invocation))
            (replay::offer(state, invocation))
            (output::show(invocation, result))
            (phases::show(record))
            (record::decisions(record))
            (record::arguments(record))
            (record::progress(record))
            (record::usage(result))
            (record::family(state, invocation))
        }
    }
}

/// All of a part of a call, as plain text.
pub(crate) async fn whole(
    OwnPage(state): OwnPage,
    Path((id, part)): Path<(String, String)>,
) -> Result<Response, PageProblem> {
    let work = move |state: &PageState| {
        let record = find(state, &id)?;
        let all = whole_part(&record, &part);
        let text = all.ok_or_else(|| PageProblem::unknown("the call has no such part"))?;
        Ok(plain(text))
    };
    state.aside(work).await
}

pub(super) fn plain(text: String) -> Response {
    let headers = [
        (CONTENT_TYPE, "text/plain; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, SANDBOX),
    ];
    (headers, text).into_response()
}

fn whole_part(record: &Value, part: &str) -> Option<String> {
    let result = record.get("result").unwrap_or(&Value::Null);
    let pretty = |value: &Value| Some(laid_out(value));
    match part {
        "record" => pretty(record),
        "arguments" => pretty(record.pointer("/invocation/model_input")?),
        "structured" => pretty(result.get("structured_content")?),
        part => {
            let at: usize = part.strip_prefix("content-")?.parse().ok()?;
            let block = list(result, "content").get(at)?;
            let said = ["text", "diff"]
                .iter()
                .find_map(|name| block.get(*name)?.as_str());
            said.map(str::to_owned).or_else(|| pretty(block))
        }
    }
}

/// The image or sound of a block, of a type that a browser shows without running anything.
pub(crate) async fn media(
    OwnPage(state): OwnPage,
    Path((id, at)): Path<(String, usize)>,
) -> Result<Response, PageProblem> {
    let work = move |state: &PageState| {
        let record = find(state, &id)?;
        let result = record.get("result").unwrap_or(&Value::Null);
        let block = list(result, "content").get(at);
        let bytes = block.and_then(output::bytes);
        let shown = bytes.and_then(|bytes| Some((output::kind(&bytes)?, bytes)));
        let none = || PageProblem::unknown("the call has no image or sound there");
        let (kind, bytes) = shown.ok_or_else(none)?;
        let headers = [(CONTENT_TYPE, kind), (CONTENT_SECURITY_POLICY, SANDBOX)];
        Ok((headers, bytes).into_response())
    };
    state.aside(work).await
}

/// A stored part of a result, for download alone.
pub(crate) async fn artifact(
    OwnPage(state): OwnPage,
    Path((id, digest)): Path<(String, String)>,
) -> Result<Response, PageProblem> {
    let work = move |state: &PageState| {
        let record = find(state, &id)?;
        let result = record.get("result").unwrap_or(&Value::Null);
        let references = list(result, "artifact_refs").iter();
        let mut references = references.chain(list(result, "resource_refs"));
        let is_of_call = references.any(|reference| text(reference, "digest") == digest);
        if !is_of_call {
            return Err(PageProblem::unknown("the call has no such artifact"));
        }
        let stored = state.payloads.open(&digest);
        match stored.map_err(|error| PageProblem::failed(&error))? {
            StoredPayload::Whole(file, size) => Ok(download(file, size)),
            StoredPayload::Changed => Err(PageProblem::new(
                StatusCode::GONE,
                "the artifact was changed on disk",
            )),
            StoredPayload::Missing => Err(PageProblem::new(
                StatusCode::GONE,
                "the artifact was removed",
            )),
        }
    };
    state.aside(work).await
}

/// The file in pieces, never all of it in memory.
pub(super) fn download(file: File, size: u64) -> Response {
    let pieces = stream::try_unfold(file.take(size), |mut file| async move {
        let read = move || {
            let mut piece = Vec::new();
            let read = file.by_ref().take(PIECE_BYTES).read_to_end(&mut piece);
            read.map(|_| (piece, file))
        };
        let read = STORE.run(read).await.map_err(std::io::Error::other)?;
        let (piece, file) = read?;
        Ok::<_, std::io::Error>((!piece.is_empty()).then_some((piece, file)))
    });
    let headers = [
        (CONTENT_TYPE, "application/octet-stream".to_owned()),
        (CONTENT_DISPOSITION, "attachment".to_owned()),
        (CONTENT_SECURITY_POLICY, SANDBOX.to_owned()),
        (CONTENT_LENGTH, size.to_string()),
    ];
    (headers, Body::from_stream(pieces)).into_response()
}
