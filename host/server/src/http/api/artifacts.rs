//! `/v1/calls/{id}/artifacts/{name}`: what a call wrote, or what was too large for its result.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_RANGE, RANGE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde_json::Value;
use toolcell::{Host, ToolResult};
use toolcell_spec::{ErrorCode, InvocationId};

use crate::calls::CallEnd;
use crate::http::problem::Problem;
use crate::reading::is_missing;
use crate::tasks::RecordedCall;

use super::answer::{PathParams, RequestCaller, call_id};
use super::body_sender::{BodySender, feed};
use super::calls::not_kept;
use super::{ApiCaller, ApiState};

/// Size of one piece of an artifact, in bytes: what one download holds in memory, a few times over.
const PIECE_BYTES: u64 = 256 << 10;

/// A stored payload.
struct ArtifactPayload {
    digest: String,
    media_type: String,
    size: u64,
}

/// The bytes that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WantedBytes {
    All,
    /// From the first on, so many.
    Part(u64, u64),
    /// No byte of it exists.
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
    State(shared): State<Arc<ApiState>>,
    RequestCaller(caller): RequestCaller,
    PathParams((id, name)): PathParams<(String, String)>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let result = result(&shared, &caller, call_id(&id)?).await?;
    let unknown = || {
        Problem::new(
            ErrorCode::UnknownArtifact,
            "the call has no such artifact; its result lists them",
        )
    };
    let stored = stored(&result.result, &name).ok_or_else(unknown)?;
    let host = Arc::clone(&shared.server.offering().tools.host);
    if !host.keeping().output {
        return Err(Problem::new(
            ErrorCode::OutputKeptBack,
            "a setting of the operator keeps all output back",
        ));
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
            Problem::new(
                ErrorCode::ArtifactRemoved,
                "the artifact was removed from the host; call the tool again",
            )
        } else {
            Problem::new(
                ErrorCode::ArtifactUnreadable,
                "the artifact cannot be read now; ask again later",
            )
            .after(1)
        }
    })?;
    let (feed, body) = feed(Some(count));
    let mut response = Response::new(body);
    *response.status_mut() = status;
    describe(response.headers_mut(), &stored, &tag);
    if status == StatusCode::PARTIAL_CONTENT {
        let last = first.saturating_add(count).saturating_sub(1);
        let range = HeaderValue::from_str(&format!("bytes {first}-{last}/{}", stored.size));
        range
            .into_iter()
            .for_each(|range| _ = response.headers_mut().insert(CONTENT_RANGE, range));
    }
    tokio::spawn(async move { send(&host, &stored.digest, (first, count), start, feed).await });
    Ok(response)
}

/// The result of a call of the caller.
async fn result(
    shared: &ApiState,
    caller: &ApiCaller,
    id: InvocationId,
) -> Result<Arc<CallEnd>, Problem> {
    match shared.state(caller, id).await? {
        RecordedCall::NotKept => Err(not_kept()),
        RecordedCall::Runs { .. } => Err(Problem::new(
            ErrorCode::StillRunning,
            "the call has no artifacts yet: it has not ended",
        )),
        RecordedCall::Ended(end, _) => Ok(end),
    }
}

/// The payload that `name` refers to. Only the host makes references; a tool cannot add one.
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
    let text = |field: &str| found.get(field).and_then(Value::as_str).map(str::to_owned);
    Some(ArtifactPayload {
        digest: text("digest")?,
        media_type: text("media_type").unwrap_or_default(),
        size: found.get("size_bytes").and_then(Value::as_u64)?,
    })
}

/// The bytes that the headers ask for, of `size` bytes with the ETag `tag`.
fn wanted(headers: &HeaderMap, tag: &str, size: u64) -> WantedBytes {
    let text = |value: Option<&HeaderValue>| {
        value
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned)
    };
    let Some(range) = text(headers.get(RANGE)) else {
        return WantedBytes::All;
    };
    if headers.contains_key(IF_RANGE) && text(headers.get(IF_RANGE)).as_deref() != Some(tag) {
        return WantedBytes::All;
    }
    // A range that cannot be read does not count, and neither do several.
    let parsed = range
        .strip_prefix("bytes=")
        .and_then(|range| range.split_once('-'));
    let Some((first, last)) = parsed else {
        return WantedBytes::All;
    };
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let (from, to) = match (first.trim().is_empty(), last.trim().is_empty()) {
        (true, false) => match number(last) {
            Some(0) => return WantedBytes::Nothing,
            Some(count) => (size.saturating_sub(count), size),
            None => return WantedBytes::All,
        },
        (false, true) => match number(first) {
            Some(first) => (first, size),
            None => return WantedBytes::All,
        },
        (false, false) => match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => (first, last.saturating_add(1).min(size)),
            _ => return WantedBytes::All,
        },
        (true, true) => return WantedBytes::All,
    };
    if from < to {
        WantedBytes::Part(from, to - from)
    } else {
        WantedBytes::Nothing
    }
}

/// Says what the bytes are. A tool chose the type, so a browser must not run or show what it is served from here.
fn describe(headers: &mut HeaderMap, stored: &ArtifactPayload, tag: &str) {
    let binary = HeaderValue::from_static("application/octet-stream");
    let media_type = HeaderValue::from_str(&stored.media_type)
        .ok()
        .filter(|media_type| !media_type.is_empty());
    headers.insert(CONTENT_TYPE, media_type.unwrap_or(binary));
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("sandbox; default-src 'none'"),
    );
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    HeaderValue::from_str(tag)
        .into_iter()
        .for_each(|tag| _ = headers.insert(ETAG, tag));
}

/// Sends `count` bytes of a payload from `first` on, which begin with `piece`.
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
