//! Phase 8: canceled, and what else stops a call that waits.

use serde_json::json;

use crate::executor::canceled;
use crate::record::{AbortReason, EventType, Refusal, Status};
use crate::scheduler::Place;

use super::journey::Journey;
use super::permission::Permitted;

pub(super) struct Scheduled {
    pub(super) permitted: Permitted,
    pub(super) place: Place,
}

/// Waits for a place. A call that is canceled while it waits never starts.
pub(super) async fn wait(journey: &mut Journey<'_>, permitted: Permitted) -> Result<Scheduled, Refusal> {
    journey.heed_cancellation()?;
    if let Some(place) = journey.services.scheduler.try_place() {
        return Ok(Scheduled { permitted, place });
    }
    journey.advance(Status::Queued)?;
    journey.trail.emit(EventType::Queued, json!({}));
    Ok(Scheduled { permitted, place: place(journey).await? })
}

/// The next place that is free.
pub(super) async fn place(journey: &Journey<'_>) -> Result<Place, Refusal> {
    let cancellation = journey.request.cancellation.clone();
    tokio::select! {
        biased;
        () = cancellation.cancelled() => {
            Err(canceled(cancellation.requested().unwrap_or(AbortReason::UserInterruption)))
        }
        place = journey.services.scheduler.place() => match place {
            Some(place) => Ok(place),
            None => Err(canceled(AbortReason::RuntimeShutdown)),
        }
    }
}
