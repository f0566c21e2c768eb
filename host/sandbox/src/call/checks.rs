//! Checks of a tool before its call: in an empty world, or in one that reads files.

use std::sync::Arc;

use toolcell_executor::{InputCheck, PreflightAccess};
use toolcell_policy::Capability;
use toolcell_spec::{ErrorClass, Refusal, SafetyFacts};
use wasmtime::Store;

use crate::bindings::classifying::exports::toolcell::tool::classification::Claim;
use crate::component::LinkedComponent;
use crate::egress::Egress;
use crate::engine::GuestEngine;
use crate::own_files::{self, OpenFolders};
use crate::state::StoreState;

use super::end::tell_denied_files;
use super::outcome::guest_error;
use super::{not_started, run, without_network};

/// Preflight runs in the instance of value validation, an empty world, or in one that reads files.
pub(crate) async fn validate(
    (linked, own_files): (&LinkedComponent, &OpenFolders),
    check: InputCheck<'_>,
) -> Result<(), Refusal> {
    let nothing = Capability::default();
    let (access, checks) = match check.preflight {
        PreflightAccess::Offline => ((&nothing, check.input), (true, true)),
        PreflightAccess::Left => ((&nothing, check.input), (true, false)),
        PreflightAccess::Alone(allowed) => (
            (allowed.capability(), allowed.input().text()),
            (false, true),
        ),
    };
    own_files::refuse_taken(own_files, access.0)?;
    look((linked, own_files), check, access, checks).await
}

async fn look(
    (linked, own_files): (&LinkedComponent, &OpenFolders),
    check: InputCheck<'_>,
    (capability, input): (&Capability, &str),
    (values, preflight): (bool, bool),
) -> Result<(), Refusal> {
    let (Some(validating), engine) = (&linked.validating, &linked.engine) else {
        return Ok(());
    };
    let limits = check.limits;
    let store = observed(engine, (capability, own_files), &check);
    let mut store = store.map_err(|error| not_started(&error))?;
    let tool = check.tool.to_owned();
    let input = input.to_owned();
    let work = async |store: &mut Store<StoreState>| {
        let guest = validating.instantiate_async(&mut *store).await?;
        let guest = guest.toolcell_tool_validation();
        if values
            && let Err(error) = guest
                .call_validate_values(&mut *store, &tool, &input)
                .await?
        {
            return Ok(Err(error));
        }
        if preflight {
            guest.call_preflight(store, &tool, &input).await
        } else {
            Ok(Ok(()))
        }
    };
    let checked = run(engine, &mut store, limits, check.cancellation, work).await;
    tell_denied_files(store.data());
    checked?.map_err(|error| guest_error(error, ErrorClass::InvalidArguments))
}

/// `None` if the component does not answer.
pub(crate) async fn classify(
    (linked, own_files): (&LinkedComponent, &OpenFolders),
    check: InputCheck<'_>,
) -> Option<SafetyFacts> {
    let classifying = linked.classifying.as_ref()?;
    let engine = &linked.engine;
    let mut store = observed(engine, (&Capability::default(), own_files), &check).ok()?;
    let tool = check.tool.to_owned();
    let input = check.input.to_owned();
    let work = async |store: &mut Store<StoreState>| {
        let guest = classifying.instantiate_async(&mut *store).await?;
        let guest = guest.toolcell_tool_classification();
        guest.call_classify(store, &tool, &input).await
    };
    // If anything stopped the guest, its claims are unknown.
    let facts = run(engine, &mut store, check.limits, check.cancellation, work)
        .await
        .ok()?;
    let plain = |claim| match claim {
        Claim::Unstated => None,
        Claim::No => Some(false),
        Claim::Yes => Some(true),
    };
    Some(SafetyFacts {
        is_read_only: plain(facts.read_only),
        is_concurrency_safe: plain(facts.concurrency_safe),
        is_destructive: plain(facts.destructive),
        is_open_world: plain(facts.open_world),
    })
}

/// As [`offline`]; the check's observer hears of what the guest logs, and of what is denied.
fn observed(
    engine: &GuestEngine,
    world: (&Capability, &OpenFolders),
    check: &InputCheck<'_>,
) -> wasmtime::Result<Store<StoreState>> {
    let egress = Egress::barred(Arc::clone(&check.observer));
    let heard = (Arc::clone(&check.observer), egress);
    without_network(engine, world, check.limits, check.cancellation, heard)
}
