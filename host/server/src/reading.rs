//! Payloads that a result referred to, as resources, and through the host's own tool, whose answers are bounded, and
//! never persisted, so that reading a payload makes no new one (AT-CIRC).

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ErrorData, ReadResourceResponse, ReadResourceResult};
use rmcp::service::RequestContext;
use serde_json::json;
use toolcell_dialect::mcp::{self, READ_RESULT, ReadArguments, ReferenceError, WorkspaceFile};
use toolcell_journal::PayloadChanged;
use toolcell_spec::{ErrorCode, Input, Refusal};

use super::payloads::ReadablePayload;
use super::results;
use super::sent_arguments::SentArguments;
use super::session::{ClientSession, PAYLOAD_BYTES_MAX};

const PART_BYTES_MAX: u64 = 8 << 20;

impl ClientSession {
    pub(super) async fn read_payload(
        &self,
        uri: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let unreadable = |why: ReferenceError| {
            let (code, advice) = why.said();
            let message = format!("the resource cannot be read: {advice}");
            let data = json!({ "uri": uri, "state": code });
            ErrorData::resource_not_found(message, Some(data))
        };
        let (whole, from) = mcp::part_of(uri).map_or((uri, None), |(whole, at)| (whole, Some(at)));
        if let Some(file) = WorkspaceFile::from_uri(whole) {
            return self.read_workspace_file((uri, file), from, context).await;
        }
        let ReadablePayload {
            link,
            digest,
            provenance,
        } = self.find_payload(whole).map_err(unreadable)?;
        let host = Arc::clone(&self.server.offering().tools.host);
        // A client that asks for all of a large payload gets its first part, which says where the next one is.
        let from = from.or_else(|| {
            link.size
                .is_some_and(|size| size > PAYLOAD_BYTES_MAX)
                .then_some(0)
        });
        let bytes = link.size.unwrap_or_default().min(PAYLOAD_BYTES_MAX);
        results::reserve(context, usize::try_from(bytes).unwrap_or(usize::MAX)).await?;
        let read = match from {
            None => host
                .payload(&digest, PAYLOAD_BYTES_MAX)
                .await
                .map(|all| mcp::payload(&link, all, &provenance)),
            Some(from) => {
                let count = link
                    .size
                    .unwrap_or_default()
                    .saturating_sub(from)
                    .min(PART_BYTES_MAX);
                let part = host.payload_part(&digest, from, count).await;
                // A part has no digest, but a size.
                part.and_then(|bytes| {
                    if bytes.len() as u64 == count {
                        Ok(mcp::payload_part(&link, from, bytes, &provenance))
                    } else {
                        Err(PayloadChanged.into())
                    }
                })
            }
        };
        match read {
            Ok(contents) => Ok(ReadResourceResult::new(vec![contents]).into()),
            Err(error) if is_missing(&error) => Err(unreadable(ReferenceError::Gone)),
            Err(error) if error.is::<PayloadChanged>() => Err(ErrorData::resource_not_found(
                "the resource was changed on disk; call the tool again",
                Some(json!({ "uri": uri, "state": "damaged" })),
            )),
            Err(error) => Err(ErrorData::internal_error(format!("{error:#}"), None)),
        }
    }

    /// The payload behind `uri`, if a result referred this client to it, and output may leave the host.
    fn find_payload(&self, uri: &str) -> Result<ReadablePayload, ReferenceError> {
        match self.payloads().find(uri) {
            Some(_) if !self.offering().tools.host.keeping().output => {
                Err(ReferenceError::Redacted)
            }
            Some(payload) => Ok(payload),
            None if self.payloads().has_expired(uri) => Err(ReferenceError::Expired),
            None => Err(ReferenceError::Unknown),
        }
    }

    /// `None` if `name` is another tool, or the tool is not offered.
    pub(super) async fn read_back(
        &self,
        name: &str,
        context: &RequestContext<RoleServer>,
    ) -> Option<CallToolResult> {
        if name != READ_RESULT || !(self.offering().can_persist() || self.payloads().has_any()) {
            return None;
        }
        let sent = SentArguments::with(context).unwrap_or_else(|| SentArguments::new("{}", None));
        Some(
            self.read_part(&sent.arguments)
                .await
                .unwrap_or_else(|refusal| mcp::refused(&refusal)),
        )
    }

    /// Reads no more than the part, so it is not checked against the digest of the whole.
    async fn read_part(&self, input: &Input) -> Result<CallToolResult, Refusal> {
        let arguments = ReadArguments::read(input)?;
        let uri = arguments.uri();
        let offering = self.offering();
        let unreadable = |state| Ok(mcp::unreadable(&uri, state));
        let ReadablePayload {
            link,
            digest,
            provenance,
        } = match self.find_payload(&uri) {
            Ok(payload) => payload,
            Err(why) => return unreadable(why),
        };
        let (from, count) = arguments.window(link.size.unwrap_or_default());
        let bytes = match offering.tools.host.payload_part(&digest, from, count).await {
            Ok(bytes) if bytes.len() as u64 == count => bytes,
            Ok(_) => {
                return Err(unreadable_now(
                    "the stored result was changed on disk; call the tool again",
                ));
            }
            Err(error) if is_missing(&error) => return unreadable(ReferenceError::Gone),
            Err(error) => {
                let refusal = unreadable_now("the stored result cannot be read; call again later");
                return Err(refusal.detail(format!("{error:#}")));
            }
        };
        Ok(mcp::part(&link, &bytes, &arguments, &provenance))
    }
}

fn unreadable_now(message: &str) -> Refusal {
    Refusal::new(ErrorCode::PayloadUnreadable, message)
}

pub(super) fn is_missing(error: &anyhow::Error) -> bool {
    let missing = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    error
        .chain()
        .any(|cause| cause.downcast_ref::<std::io::Error>().is_some_and(missing))
}
