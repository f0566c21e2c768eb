use std::path::PathBuf;

use crate::record::{ErrorClass, Refusal};

use super::Grants;

/// Why a grant may not be: it holds, or lies in, a folder of the host's own state. A tool that could read or change that
/// could give itself whatever it liked. A denial that closes the folder for reading makes a wider grant possible.
pub(super) fn reaches_own_state(grants: &Grants, protected: &[PathBuf]) -> Option<Refusal> {
    let closed = |folder: &PathBuf| grants.deny_read.iter().any(|closed| folder.starts_with(&closed.host));
    let open = protected.iter().filter(|folder| !closed(folder));
    open.flat_map(|folder| grants.folders().map(move |grant| (folder, grant)))
        .find(|(folder, grant)| folder.starts_with(&grant.host) || grant.host.starts_with(folder))
        .map(|(folder, grant)| {
            let message = format!(
                "{} would reach toolcell's own state in {}; grant a narrower folder, or close it with --deny-read={}",
                grant.rule,
                folder.display(),
                folder.display(),
            );
            Refusal::new(ErrorClass::PolicyBlocked, "grant_reaches_own_state", message)
        })
}
