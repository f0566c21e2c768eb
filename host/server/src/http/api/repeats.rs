//! `Idempotency-Key` of what is answered as a whole: a request that is sent again gets the first answer. Calls of
//! `/v1/calls` have [`keys`](super::keys) of their own, because they can be asked about while they run.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::middleware::Next;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt;
use tokio::sync::oneshot;
use toolcell_spec::ErrorCode;

use crate::budget::ByteBudget;
use crate::executions::{ClaimRefusal, ExecutionAnswer, ExecutionClaim, ExecutionKey};
use crate::http::problem::Problem;

use super::body_sender::{BodySender, feed};
use super::calls::{RETRY_AFTER, key, lost, too_many_open};
use super::workspaces::WORKSPACE;
use super::{ApiState, TokenRole};

/// Of all principals.
pub(super) const ANSWERS_BYTES_MAX: usize = 16 << 20;
/// No larger answer is kept.
const ANSWER_BYTES_MAX: usize = ANSWERS_BYTES_MAX / 8;

#[derive(Clone)]
pub(super) struct KeptResponse {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl ExecutionAnswer for KeptResponse {
    fn bytes(&self) -> usize {
        self.body.len()
    }
}

/// The work of a request with a key goes on when its client disconnects.
pub(super) async fn answer_once(
    State(shared): State<Arc<ApiState>>,
    request: Request<Body>,
    next: Next,
) -> Result<Response<Body>, Problem> {
    let role = request.extensions().get::<TokenRole>().cloned();
    let key = key(request.headers())?;
    let (Some(key), Some(TokenRole::Caller(caller))) = (key, role) else {
        return Ok(next.run(request).await);
    };
    let key = ExecutionKey {
        run_id: request.uri().path().to_owned(),
        execution_id: key.to_owned(),
    };
    let (parts, body) = request.into_parts();
    // It was read within its limit already.
    let body = to_bytes(body, usize::MAX).await.map_err(|_| lost())?;
    let mut digest = blake3::Hasher::new();
    if let Some(workspace) = parts.headers.get(WORKSPACE) {
        digest.update(blake3::hash(workspace.as_bytes()).as_bytes());
    }
    let digest = digest.update(&body).finalize();
    let claimed = shared
        .answers
        .claim(caller.name(), &key, digest.into())
        .await;
    let ticket = match claimed.map_err(refusal)? {
        ExecutionClaim::First(ticket) => ticket,
        ExecutionClaim::Answered(kept) => {
            let mut response = Response::new(Body::from(kept.body));
            (*response.status_mut(), *response.headers_mut()) = (kept.status, kept.headers);
            return Ok(response);
        }
    };
    let Some(room) = caller.room() else {
        ticket.release();
        return Err(too_many_open());
    };
    let (answers, answer) = oneshot::channel();
    let request = Request::from_parts(parts, Body::from(body));
    tokio::spawn(async move {
        let (parts, body) = next.run(request).await.into_parts();
        let (feed, out) = feed();
        let _ = answers.send(Response::from_parts(parts.clone(), out));
        let passed = pass_on(body, &feed, &caller.results).await;
        match passed {
            // Nothing ran.
            _ if !parts.status.is_success() => ticket.release(),
            Ok(Some(body)) => ticket.end(Some(KeptResponse {
                status: parts.status,
                headers: parts.headers,
                body,
            })),
            Ok(None) => ticket.end_unkept(),
            // Its end tells others that it is lost.
            Err(BrokenBody) => drop(ticket),
        }
        drop((feed, room));
    });
    answer.await.map_err(|_| lost())
}

struct BrokenBody;

/// Returns a copy of what it sends; `None` if that is too large, or the principal's results take all of their memory.
async fn pass_on(
    mut body: Body,
    feed: &BodySender,
    budget: &ByteBudget,
) -> Result<Option<Bytes>, BrokenBody> {
    let mut copy = Some((BytesMut::new(), Vec::new()));
    while let Some(frame) = body.frame().await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => {
                feed.fail(error).await;
                return Err(BrokenBody);
            }
        };
        let Ok(piece) = frame.into_data() else {
            continue;
        };
        copy = copy.and_then(|(mut bytes, mut leases)| {
            let has_room = bytes.len() + piece.len() <= ANSWER_BYTES_MAX;
            leases.push(budget.try_take_any(piece.len()).ok().filter(|_| has_room)?);
            bytes.extend_from_slice(&piece);
            Some((bytes, leases))
        });
        // Fails if the client is gone.
        let _ = feed.send(piece).await;
    }
    Ok(copy.map(|(bytes, _)| bytes.freeze()))
}

fn refusal(why: ClaimRefusal) -> Problem {
    match why {
        ClaimRefusal::OtherRequest => ErrorCode::IdempotencyKeyReused.into(),
        ClaimRefusal::NotKept => ErrorCode::ResultNotKept.into(),
        ClaimRefusal::Lost => lost(),
        ClaimRefusal::TooMany => Problem::from(ErrorCode::TooManyKeys).after(RETRY_AFTER),
    }
}
