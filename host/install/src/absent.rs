//! What a build has in place of parts that it lacks: no client for registries, and nothing that checks signatures.

use toolcell_core::executor::BoxFuture;
use toolcell_core::record::{ErrorClass, Refusal};

use crate::reference::Reference;
use crate::source::{Referrer, ReferrerKind, Resolved, Sink, Source};
use crate::verifier::{Subject, Verdict, Verifier};

/// Checks no signature: files are taken as they are, and everything else only if the user said that it may be unsigned.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unsigned;

impl Verifier for Unsigned {
    fn verify(&self, subject: &Subject<'_>, _found: &[Referrer]) -> Result<Verdict, Refusal> {
        if !subject.reference.is_path() && !subject.is_unsigned_allowed && guard!("unsigned") {
            let message = format!(
                "no signature of {} could be checked: if you trust where it comes from, say --allow-unsigned",
                subject.reference
            );
            return Err(Refusal::new(ErrorClass::PolicyBlocked, "unsigned", message));
        }
        let note = match subject.reference.is_path() {
            true => "it is a file, and no signature was checked",
            false => "no signature was checked, as you said",
        };
        Ok(Verdict { signer: None, is_named: false, notes: vec![note.to_owned()] })
    }
}

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
