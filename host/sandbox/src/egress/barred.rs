use std::sync::Arc;

use http::Request;
use toolcell_executor::{Observer, SandboxDenial};

use super::gate::{DENIALS_RECORDED_MAX, printable, shown};
use super::target::RequestTarget;

/// Requests of a guest that has no network, such as a tool's check.
pub(super) struct BarredRequests {
    observer: Arc<dyn Observer>,
    denials: u64,
}

impl BarredRequests {
    pub(super) fn new(observer: Arc<dyn Observer>) -> Self {
        Self {
            observer,
            denials: 0,
        }
    }

    pub(super) fn tell<B>(&mut self, request: Request<B>) {
        self.denials += 1;
        if self.denials > DENIALS_RECORDED_MAX {
            return;
        }
        let (parts, _) = request.into_parts();
        let (target, target_class) = match RequestTarget::from_parts(&parts) {
            Ok(target) => (shown(&target), "any"),
            Err(_) => (parts.method.to_string(), "malformed"),
        };
        self.observer.denied(SandboxDenial {
            capability: "network",
            target: printable(&target),
            target_class: target_class.to_owned(),
            rule: "a check has no network".to_owned(),
        });
    }
}
