//! Phase 8: canceled, rate_limited, and what else stops a call that waits.

use serde_json::json;

use crate::executor::canceled;
use crate::policy::Limits;
use crate::record::{AbortReason, ErrorClass, EventType, Refusal, Status};
use crate::scheduler::{NoPlace, Place};

use super::journey::Journey;
use super::permission::Permitted;

pub(super) struct Scheduled {
    pub(super) permitted: Permitted,
    pub(super) place: Place,
}

/// Time after which a call that got no memory may be tried again, in seconds.
const RETRY_AFTER: f64 = 1.0;

/// Waits for a place. A call that is canceled while it waits never starts.
pub(super) async fn wait(journey: &mut Journey<'_>, permitted: Permitted) -> Result<Scheduled, Refusal> {
    journey.heed_cancellation()?;
    let limits = permitted.permit.limits();
    let caller = journey.request.actor_ref.as_deref();
    if let Some(place) = journey.services.scheduler.try_place(caller, limits.host_bytes()) {
        return Ok(Scheduled { permitted, place });
    }
    journey.advance(Status::Queued)?;
    journey.trail.emit(EventType::Queued, json!({}));
    let place = place(journey, limits).await?;
    Ok(Scheduled { permitted, place })
}

/// Waits for a free place. It waits for the host's memory for at most the wall time of the call.
pub(super) async fn place(journey: &Journey<'_>, limits: &Limits) -> Result<Place, Refusal> {
    let cancellation = journey.request.cancellation.clone();
    let caller = journey.request.actor_ref.as_deref();
    tokio::select! {
        biased;
        () = cancellation.cancelled() => {
            Err(canceled(cancellation.requested().unwrap_or(AbortReason::UserInterruption)))
        }
        place = journey.services.scheduler.place(caller, limits.host_bytes(), limits.wall) => match place {
            Ok(place) => Ok(place),
            Err(NoPlace::Memory { total }) => Err(no_memory(limits, total)),
            Err(NoPlace::Gone) => Err(canceled(AbortReason::RuntimeShutdown)),
        }
    }
}

fn no_memory(limits: &Limits, total: u64) -> Refusal {
    let message = format!(
        "other calls use the {total} bytes of memory that this host gives to all of them, and the {} bytes of this one \
         were not free within {} ms; try again later, or raise --memory-total",
        limits.host_bytes(),
        limits.wall.as_millis()
    );
    let mut refusal = Refusal::new(ErrorClass::RateLimited, "host_memory", message);
    refusal.retry_after = Some(RETRY_AFTER);
    refusal
}
