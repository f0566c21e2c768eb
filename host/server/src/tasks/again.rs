//! Calls that another process began: goes on with them, or ends them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use toolcell::{Background, Callee, Held, Kept, Request};

use crate::asking::{AskChannel, messenger};
use crate::call::TIMEOUT_KEY;
use crate::{Offering, Server};

use super::ended::{Ended, mapped};
use super::{Detached, Tasks};

impl Server {
    /// Goes on with an approved call. Without a place for another call, it stays as it is: the next question about it
    /// tries again.
    pub(super) fn go_on(
        self: &Arc<Self>,
        tasks: &Arc<Tasks>,
        owner: &str,
        kept: Box<Kept>,
        held: Held,
        channel: AskChannel,
    ) {
        let id = kept.approval.invocation_id;
        if self.stop.is_cancelled() {
            return;
        }
        let Some(place) = self.calls.begin() else { return };
        let offering = self.offering();
        let keep = offering.keep;
        let mut request = request(&offering, &kept);
        request.keeper = self.keeper();
        let cancellation = request.cancellation.clone();
        let mut questions = None;
        if channel == AskChannel::InputRequired {
            let (respondent, asked) = messenger(kept.approval.actor_ref.as_deref(), None, offering.outdated());
            request.respondent = Some(respondent);
            questions = Some(asked);
        }
        let background = Background::default();
        request.background = Some(background.clone());
        let (server, canceled) = (Arc::clone(self), cancellation.clone());
        let call = tokio::spawn(async move {
            let resumed = {
                let call = std::pin::pin!(offering.host.resume(request, &kept, held));
                server.until_stopped(&canceled, || background.can_be_left(), call).await.flatten()
            };
            if let Some(record) = &resumed {
                server.keep(record).await;
            }
            drop(place);
            resumed.map(Box::new)
        });
        let detached = Detached { call, cancellation, questions, keep };
        tasks.put(&mut tasks.entries(), id, owner, detached, None);
    }

    /// Ends a call that cannot run any more; `None` if it turns out that it can, or has ended.
    pub(super) async fn end_orphan(&self, kept: &Kept, held: Held) -> Option<Ended> {
        let offering = self.offering();
        let record = offering.host.close(request(&offering, kept), kept, held).await?;
        self.keep(&record).await;
        Some(Ended::of(record, offering.keep))
    }
}

/// The request of a stored call, made from the present offering: what it denies by now stays denied.
fn request(offering: &Offering, kept: &Kept) -> Request {
    let plan = &kept.approval.plan;
    let mut limits = offering.limits.clone();
    let (found, surface) = (offering.offers.find(&plan.tool), offering.offers.surface());
    let offer = found.as_ref().ok();
    for wall in [wish(kept), offer.and_then(|offer| offer.wall)].into_iter().flatten() {
        limits.wall = limits.wall.min(wall);
    }
    // What is not offered any more does not run.
    let withheld = match &found {
        Ok(offer) => surface.refusal(&offer.tool, offer.standing),
        Err(refusal) => Some(refusal.clone()),
    };
    let callee = Callee::from(plan.tool.as_str()).on_surface(Arc::clone(surface.id()), withheld);
    let mut request = Request::new(callee, plan.model_input.as_str())
        .grants(Arc::clone(&offering.grants))
        .policy(Arc::clone(&offering.policy))
        .limits(limits)
        .actor(kept.approval.actor_ref.clone());
    request.offered = Some(offering.offers.callable());
    request
}

/// The timeout that the first request asked for. The approval is bound to it.
fn wish(kept: &Kept) -> Option<Duration> {
    let wish = mapped(&kept.invocation.extra, "_meta")?.get(TIMEOUT_KEY).and_then(Value::as_u64);
    wish.filter(|ms| *ms > 0).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolcell_core::record::Extra;

    use super::{TIMEOUT_KEY, mapped};

    #[test]
    fn the_metadata_of_the_first_request_is_found_in_its_record() {
        let mapping = json!([{ "source": "mcp", "tool_name": "a", "_meta": { TIMEOUT_KEY: 5 } }]);
        let extra = Extra::from_iter([("external_mappings".to_owned(), mapping)]);
        assert_eq!(mapped(&extra, "_meta").and_then(|meta| meta.get(TIMEOUT_KEY)), Some(&json!(5)));
        assert!(mapped(&Extra::new(), "tool_name").is_none());
    }
}
