//! `/v1/calls/{id}/artifacts/{name}`: what a call wrote, or what was too large for its result.

use std::sync::Arc;

use axum::body::Body;
use axum::response::IntoResponse;
use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, IF_RANGE, RANGE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use toolcell::{Host, ToolResult};
use toolcell_spec::{ErrorCode, InvocationId};

use crate::calls::CallEnd;
use crate::http::problem::Problem;
use crate::reading::is_missing;
use crate::tasks::RecordedCall;

use super::answer::{CallerRequest, PathParams, call_id};
use super::body_sender::{BodySender, feed};
use super::{ApiCaller, ApiState};

/// One download holds it in memory, a few times over.
const PIECE_BYTES: u64 = 256 << 10;

#[derive(Deserialize)]
struct ArtifactPayload {
    digest: String,
    #[serde(default)]
    media_type: String,
    #[serde(rename = "size_bytes")]
    size: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WantedBytes {
    All,
    Part(u64, u64),
    Nothing,
}

/// The bytes of an artifact of a call.
#[utoipa::path(
    get, path = "/v1/calls/{id}/artifacts/{name}", tag = "calls",
    params(
        ("id" = String, Path, description = "The id of the call"),
        ("name" = String, Path, description = "The name of the artifact, its index from 0, or the digest of a payload of the result, `sha256:..`"),
        ("Range" = Option<String>, Header, description = "One range of bytes"),
        ("If-Range" = Option<String>, Header, description = "The ETag of the bytes that the range continues"),
    ),
    responses(
        (status = 200, description = "All bytes", content_type = "*/*", body = String),
        (status = 206, description = "The range of bytes", content_type = "*/*", body = String),
        (status = 404, description = "There is no such call of the caller, or no such artifact of the call"),
        (status = 410, description = "The bytes were removed, or a setting keeps them back"),
        (status = 416, description = "The artifact has no such bytes"),
    ),
)]
pub(super) async fn fetch(
    CallerRequest(shared, caller, _): CallerRequest,
    PathParams((id, name)): PathParams<(String, String)>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let result = result(&shared, &caller, call_id(&id)?).await?;
    let stored = stored(&result.result, &name).ok_or(ErrorCode::UnknownArtifact)?;
    let host = Arc::clone(&shared.server.offering().tools.host);
    if !host.keeping().output {
        return Err(ErrorCode::OutputKeptBack.into());
    }
    let tag = format!("\"{}\"", stored.digest);
    let (first, count, status) = match wanted(&headers, &tag, stored.size) {
        WantedBytes::All => (0, stored.size, StatusCode::OK),
        WantedBytes::Part(first, count) => (first, count, StatusCode::PARTIAL_CONTENT),
        WantedBytes::Nothing => {
            let why = format!(
                "the artifact has {} bytes, and none in this range",
                stored.size
            );
            return Err(Problem::new(ErrorCode::RangeNotSatisfiable, why));
        }
    };
    // Read before the answer begins, so that a payload that was removed is told from one that ends early.
    let start = host
        .payload_part(&stored.digest, first, count.min(PIECE_BYTES))
        .await;
    let start = start.map_err(|error| {
        if is_missing(&error) {
            ErrorCode::ArtifactRemoved.into()
        } else {
            Problem::from(ErrorCode::ArtifactUnreadable).after(1)
        }
    })?;
    let (feed, body) = feed();
    let mut headers = describe(&stored, &tag);
    headers.insert(CONTENT_LENGTH, count.into());
    if status == StatusCode::PARTIAL_CONTENT {
        let last = first.saturating_add(count).saturating_sub(1);
        let range = HeaderValue::from_str(&format!("bytes {first}-{last}/{}", stored.size));
        headers.extend(range.ok().map(|range| (CONTENT_RANGE, range)));
    }
    tokio::spawn(async move { send(&host, &stored.digest, (first, count), start, feed).await });
    Ok((status, headers, body).into_response())
}

async fn result(
    shared: &ApiState,
    caller: &ApiCaller,
    id: InvocationId,
) -> Result<Arc<CallEnd>, Problem> {
    match shared.state(caller, id).await? {
        RecordedCall::NotKept => Err(ErrorCode::ResultNotKept.into()),
        RecordedCall::Runs { .. } => {
            let message =
                "the call has no artifacts yet: it has not ended; its state is at /v1/calls/ID";
            Err(Problem::new(ErrorCode::StillRunning, message))
        }
        RecordedCall::Ended(end, _) => Ok(end),
    }
}

/// Only the host makes references; a tool cannot add one.
fn stored(result: &ToolResult, name: &str) -> Option<ArtifactPayload> {
    let has = |reference: &&Value, field: &str| {
        reference.get(field).and_then(Value::as_str) == Some(name)
    };
    let artifacts = &result.artifact_refs;
    let by_name = artifacts.iter().find(|artifact| has(artifact, "name"));
    let by_index = || artifacts.get(name.parse::<usize>().ok()?);
    let by_digest = || {
        artifacts
            .iter()
            .chain(&result.resource_refs)
            .find(|reference| has(reference, "digest"))
    };
    let found = by_name.or_else(by_index).or_else(by_digest)?;
    ArtifactPayload::deserialize(found).ok()
}

pub(super) fn wanted(headers: &HeaderMap, tag: &str, size: u64) -> WantedBytes {
    let text = |name: HeaderName| {
        let value = headers.get(name)?;
        Some(value.to_str().unwrap_or_default())
    };
    if text(IF_RANGE).is_some_and(|known| known != tag) {
        return WantedBytes::All;
    }
    // A range that cannot be read does not count, and neither do several.
    match text(RANGE).and_then(|range| bounds(range, size)) {
        None => WantedBytes::All,
        Some((from, to)) if from < to => WantedBytes::Part(from, to - from),
        Some(_) => WantedBytes::Nothing,
    }
}

fn bounds(range: &str, size: u64) -> Option<(u64, u64)> {
    let number = |text: &str| text.parse::<u64>().ok();
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    Some(match (first.trim(), last.trim()) {
        ("", count) => (size.saturating_sub(number(count)?), size),
        (first, "") => (number(first)?, size),
        (first, last) => {
            let first = number(first)?;
            let last = number(last)?;
            let end = last.saturating_add(1).min(size);
            (first <= last).then_some((first, end))?
        }
    })
}

/// A tool chose the type, so a browser must not run or show what it is served from here.
fn describe(stored: &ArtifactPayload, tag: &str) -> HeaderMap {
    let binary = HeaderValue::from_static("application/octet-stream");
    let media_type = HeaderValue::from_str(&stored.media_type)
        .ok()
        .filter(|media_type| !media_type.is_empty());
    let known = [
        (CONTENT_TYPE, media_type.unwrap_or(binary)),
        (CONTENT_DISPOSITION, HeaderValue::from_static("attachment")),
        (
            CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("sandbox; default-src 'none'"),
        ),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (ACCEPT_RANGES, HeaderValue::from_static("bytes")),
    ];
    let tag = HeaderValue::from_str(tag).ok().map(|tag| (ETAG, tag));
    known.into_iter().chain(tag).collect()
}

async fn send(
    host: &Host,
    digest: &str,
    (first, count): (u64, u64),
    piece: Vec<u8>,
    feed: BodySender,
) {
    let mut at = first;
    let end = first.saturating_add(count);
    let mut piece = piece;
    while at < end {
        if piece.is_empty() {
            return feed.fail("the artifact was changed on disk").await;
        }
        at = at.saturating_add(piece.len() as u64);
        if feed
            .send(Bytes::from(std::mem::take(&mut piece)))
            .await
            .is_err()
        {
            return;
        }
        if at < end {
            piece = match host
                .payload_part(digest, at, (end - at).min(PIECE_BYTES))
                .await
            {
                Ok(piece) => piece,
                Err(error) => return feed.fail(error.to_string()).await,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use http::header::{IF_RANGE, RANGE};
    use http::{HeaderMap, HeaderValue};

    use super::{WantedBytes, wanted};

    fn of(range: &str, tag: Option<&str>) -> WantedBytes {
        let mut headers = HeaderMap::new();
        headers.insert(RANGE, HeaderValue::from_str(range).unwrap());
        if let Some(tag) = tag {
            headers.insert(IF_RANGE, HeaderValue::from_str(tag).unwrap());
        }
        wanted(&headers, "\"tag\"", 10)
    }

    #[test]
    fn one_range_of_bytes_is_understood() {
        for (range, meant) in [
            ("bytes=0-3", WantedBytes::Part(0, 4)),
            ("bytes=4-", WantedBytes::Part(4, 6)),
            ("bytes=9-99", WantedBytes::Part(9, 1)),
            ("bytes=-3", WantedBytes::Part(7, 3)),
            ("bytes=-99", WantedBytes::Part(0, 10)),
            ("bytes=10-", WantedBytes::Nothing),
            ("bytes=-0", WantedBytes::Nothing),
            ("bytes=5-4", WantedBytes::All),
            ("bytes=0-1,3-4", WantedBytes::All),
            ("bytes=-", WantedBytes::All),
            ("lines=0-3", WantedBytes::All),
            (
                "bytes=18446744073709551615-18446744073709551615",
                WantedBytes::Nothing,
            ),
        ] {
            assert_eq!(of(range, None), meant, "{range}");
        }
        assert_eq!(wanted(&HeaderMap::new(), "\"tag\"", 10), WantedBytes::All);
    }

    #[test]
    fn a_range_of_other_bytes_gets_all_of_them() {
        assert_eq!(of("bytes=4-", Some("\"tag\"")), WantedBytes::Part(4, 6));
        assert_eq!(of("bytes=4-", Some("\"other\"")), WantedBytes::All);
    }
}
