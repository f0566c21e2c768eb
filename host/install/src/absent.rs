//! What a build has in place of a part that it lacks: no client for registries.

use toolcell_core::executor::BoxFuture;
use toolcell_core::record::{ErrorClass, Refusal};

use crate::reference::Reference;
use crate::source::{Referrer, ReferrerKind, Resolved, Sink, Source};

/// The source of a build without a client for registries: refuses every reference.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRegistries;

impl Source for NoRegistries {
    fn resolve<'a>(&'a self, reference: &'a Reference) -> BoxFuture<'a, Result<Resolved, Refusal>> {
        Box::pin(async move { Err(none(reference)) })
    }

    fn fetch<'a>(&'a self, resolved: &'a Resolved, _sink: &'a mut Sink<'_>) -> BoxFuture<'a, Result<(), Refusal>> {
        Box::pin(async move { Err(none(&resolved.reference)) })
    }

    fn referrers<'a>(
        &'a self,
        resolved: &'a Resolved,
        _kind: ReferrerKind,
    ) -> BoxFuture<'a, Result<Vec<Referrer>, Refusal>> {
        Box::pin(async move { Err(none(&resolved.reference)) })
    }
}

fn none(reference: &Reference) -> Refusal {
    let message = format!("{reference}: this build has no client for registries; install a URL or a file");
    Refusal::new(ErrorClass::CapabilityGap, "no_registries", message)
}
