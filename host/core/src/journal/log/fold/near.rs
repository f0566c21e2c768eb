//! Short forms of IDs, steps and event types that are at their usual place in a plain call.

use serde::{Deserialize, Serialize};

use crate::record::{EventType, InvocationId, Status};

/// The statuses of a plain call, in order. Lines that are on disk are read with them, and with [`EVENTS`].
const STEPS: [Status; 5] = [
    Status::Selected,
    Status::ArgumentsReady,
    Status::Approved,
    Status::Running,
    Status::Succeeded,
];
/// The events of a plain call, in order.
const EVENTS: [EventType; 7] = [
    EventType::Planned,
    EventType::Selected,
    EventType::ArgumentsReady,
    EventType::PermissionDecided,
    EventType::Started,
    EventType::ResultCreated,
    EventType::Succeeded,
];

/// Why a plain call is allowed. Lines that are on disk are read with it, too.
pub(super) const ALLOWED: &str = "the tool asks for no access";

/// The type of the event at `place` of a plain call.
pub(super) fn event_at(place: usize) -> Option<EventType> {
    EVENTS.get(place).copied()
}

/// An ID; as the distance from the call's ID if both are from the same millisecond, because IDs count upwards there.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Near<T> {
    After(u32),
    Whole(T),
}

impl<T> Near<T> {
    /// The id of which `bits` is the number.
    pub(super) fn new(id: T, bits: u128, call: InvocationId) -> Self {
        let distance = bits
            .checked_sub(call.bits())
            .and_then(|distance| u32::try_from(distance).ok());
        distance.map_or(Self::Whole(id), Self::After)
    }

    /// The id; `of_bits` makes it from its number.
    pub(super) fn id(self, call: InvocationId, of_bits: impl FnOnce(u128) -> T) -> T {
        match self {
            Self::After(distance) => of_bits(call.bits().wrapping_add(distance.into())),
            Self::Whole(id) => id,
        }
    }
}

/// A status with its time; without the status if it is the usual one at its place.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Step {
    At(i64),
    To(Status, i64),
}

impl Step {
    pub(super) fn new(place: usize, status: Status, at: i64) -> Self {
        match STEPS.get(place) {
            Some(usual) if *usual == status => Self::At(at),
            _ => Self::To(status, at),
        }
    }

    /// The status and its time; `None` if there is none at `place`.
    pub(super) fn at(self, place: usize) -> Option<(Status, i64)> {
        match self {
            Self::At(at) => STEPS.get(place).map(|status| (*status, at)),
            Self::To(status, at) => Some((status, at)),
        }
    }
}
