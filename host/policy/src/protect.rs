use std::path::{Path, PathBuf};

use toolcell_spec::{ErrorCode, Refusal};

use super::Grants;

impl Grants {
    /// Reason against these grants in every call: overlap with `protected`, toolcell's own state, or a link that a tool
    /// may change.
    pub fn refusal(&self, protected: &[PathBuf]) -> Option<Refusal> {
        reaches_own_state(self, protected).or_else(|| leads_through_link(self))
    }
}

/// A tool could redirect such a link, and the next call with the same grant would open the new target.
fn leads_through_link(grants: &Grants) -> Option<Refusal> {
    if !guard!("grant_links") {
        return None;
    }
    let changeable = |link: &Path| grants.changing(link);
    let (grant, link, by) = grants.folders().find_map(|grant| {
        grant
            .links
            .iter()
            .find_map(|link| Some((grant, link, changeable(link)?)))
    })?;
    let message = format!(
        "{} leads through the link {}, which can be changed because of {}; if you mean what it leads to now, grant that \
         itself: {}",
        grant.rule,
        link.display(),
        by.rule,
        grant.host.display(),
    );
    Some(Refusal::new(ErrorCode::GrantLeadsThroughLink, message))
}

/// A tool that could read or change the host's own state could grant itself anything. A denial that closes the folder
/// for reading makes a wider grant possible.
fn reaches_own_state(grants: &Grants, protected: &[PathBuf]) -> Option<Refusal> {
    let closed = |folder: &PathBuf| {
        grants
            .deny_read
            .iter()
            .any(|closed| folder.starts_with(&closed.host))
    };
    let open = protected.iter().filter(|folder| !closed(folder));
    let given = || grants.folders().filter(|grant| grant.workspace.is_none());
    open.flat_map(|folder| given().map(move |grant| (folder, grant)))
        .find(|(folder, grant)| folder.starts_with(&grant.host) || grant.host.starts_with(folder))
        .map(|(folder, grant)| {
            let message = format!(
                "{} would expose toolcell's own data in {}: grant a narrower folder, or add --deny-read={}",
                grant.rule,
                folder.display(),
                folder.display(),
            );
            Refusal::new(ErrorCode::GrantReachesOwnState, message)
        })
}
