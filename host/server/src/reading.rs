//! The host's own tool that reads back what was too large for a result. Its answers are no results of calls: they are
//! bounded, and never persisted themselves, so that reading a payload makes no new one (AT-CIRC).

use rmcp::RoleServer;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;
use toolcell_core::record::{ErrorClass, Input, Refusal};
use toolcell_dialect::mcp::{self, READ_RESULT, ReadArguments, Unreadable};

use super::payloads::Shelved;
use super::sent::Sent;
use super::session::Session;

impl Session {
    /// Answers a call of the tool that reads payloads back; `None` if `name` is another tool, or the tool is not offered.
    pub(super) async fn read_back(&self, name: &str, context: &RequestContext<RoleServer>) -> Option<CallToolResult> {
        if name != READ_RESULT || !(self.offering().can_persist() || self.payloads().has_any()) {
            return None;
        }
        let sent = Sent::with(context).unwrap_or_else(|| Sent::new("{}", None));
        Some(self.read_part(&sent.arguments).await.unwrap_or_else(|refusal| mcp::refused(&refusal)))
    }

    /// Reads a part of a payload that a result referred this client to, and no more of the payload than that. So the part
    /// is not checked against the digest of the whole.
    async fn read_part(&self, input: &Input) -> Result<CallToolResult, Refusal> {
        let arguments = ReadArguments::read(input)?;
        let (uri, offering) = (arguments.uri(), self.offering());
        let unreadable = |state| Ok(mcp::unreadable(&uri, state));
        let Some(Shelved { link, digest, provenance }) = self.payloads().find(&uri) else {
            return unreadable(match self.payloads().has_expired(&uri) {
                true => Unreadable::Expired,
                false => Unreadable::Unknown,
            });
        };
        // The operator may have decided since that no output leaves the host.
        if !offering.host.keeping().output {
            return unreadable(Unreadable::Redacted);
        }
        let (from, count) = arguments.window(link.size.unwrap_or_default());
        let bytes = match offering.host.payload_part(&digest, from, count).await {
            Ok(bytes) if bytes.len() as u64 == count => bytes,
            Ok(_) => return Err(unreadable_now("the stored result was changed on disk; call the tool again")),
            Err(error) if is_missing(&error) => return unreadable(Unreadable::Gone),
            Err(error) => {
                let refusal = unreadable_now("the stored result cannot be read; call again later");
                return Err(refusal.detail(format!("{error:#}")));
            }
        };
        Ok(mcp::part(&link, &bytes, &arguments, &provenance))
    }
}

fn unreadable_now(message: &str) -> Refusal {
    Refusal::new(ErrorClass::DependencyUnavailable, "payload_unreadable", message)
}

/// Whether the file of a payload was removed.
pub(super) fn is_missing(error: &anyhow::Error) -> bool {
    let missing = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    error.chain().any(|cause| cause.downcast_ref::<std::io::Error>().is_some_and(missing))
}
