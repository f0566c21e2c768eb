//! Limits a call by another call to the caller's permit.

use toolcell_spec::{AccessKind, ErrorCode, ReasonType};

use super::decide::Ruling;
use super::missing::missing;
use super::network::Origin;
use super::rule_match::RuleCall;
use super::{Capability, DecisionCase, Denial, Grants, Mount, Permit, facts};

/// Made from the caller's permit alone, so that no other code can raise it.
#[derive(Clone, Debug)]
pub struct CallCeiling {
    capability: Capability,
    changes_nothing: bool,
    pub(super) caller: String,
}

impl CallCeiling {
    pub fn from_permit(permit: &Permit, tool_id: &str) -> Self {
        Self {
            capability: permit.capability().clone(),
            changes_nothing: permit.changes_nothing(),
            caller: tool_id.to_owned(),
        }
    }

    pub fn may_call(&self, name: &str) -> bool {
        self.capability.tools.allow(name)
    }
}

/// The declared and granted capability, without `closed`, and at most the caller's. It has no network yet.
pub(super) fn effective(case: &DecisionCase<'_>, closed: &[Denial]) -> Capability {
    let mut wide = Capability::effective(case.declared.profile, case.grants, closed);
    if let Some(ceiling) = case.ceiling.filter(|_| guard!("child_ceiling")) {
        wide.limit(&ceiling.capability, case.grants);
    }
    wide
}

/// Narrows the network to the origins `named`, and to the caller's.
pub(super) fn reach(case: &DecisionCase<'_>, wide: &mut Capability, named: &[Origin]) {
    if let Some(ceiling) = case.ceiling {
        wide.closed_urls
            .extend(ceiling.capability.closed_urls.iter().cloned());
    }
    wide.reach(case.declared.profile, case.grants, named);
    if let Some(ceiling) = case.ceiling.filter(|_| guard!("child_ceiling")) {
        wide.network.limit(&ceiling.capability.network);
    }
}

/// `ruling`, or that the caller has less than the grants allow.
pub(super) fn blame(
    call: &RuleCall<'_>,
    kind: &AccessKind,
    closed: &[Denial],
    named: &[Origin],
    ruling: Ruling,
) -> Ruling {
    let case = call.case;
    let Some(ceiling) = case.ceiling else {
        return ruling;
    };
    let mut alone = Capability::effective(case.declared.profile, case.grants, closed);
    alone.reach(case.declared.profile, case.grants, named);
    if missing(call, kind, &alone, named).is_some() {
        return ruling;
    }
    beyond(case, ceiling, "more access than that tool has in this call")
}

/// A call with lasting changes needs a caller that can make some.
pub(super) fn check(case: &DecisionCase<'_>, world: Capability) -> Result<Capability, Box<Ruling>> {
    let Some(ceiling) = case
        .ceiling
        .filter(|ceiling| ceiling.changes_nothing && guard!("child_changes"))
    else {
        return Ok(world);
    };
    if facts::changes_nothing(case.declared.profile, &world) {
        Ok(world)
    } else {
        Err(beyond(
            case,
            ceiling,
            "lasting changes, and that tool can make none in this call",
        )
        .into())
    }
}

fn beyond(case: &DecisionCase<'_>, ceiling: &CallCeiling, what: &str) -> Ruling {
    let tool = case.tool_id();
    let caller = &ceiling.caller;
    let message = format!(
        "{tool} is called by {caller}, and wants {what}; grant {caller} the same, if its profile declares it, or call \
         {tool} itself"
    );
    Ruling::refuse(ReasonType::SafetyCheck, ErrorCode::BeyondCaller, message)
}

impl Capability {
    /// Folders for drafts stay, because each call has its own. Networks are limited later.
    fn limit(&mut self, most: &Self, grants: &Grants) {
        let mut mounts: Vec<Mount> = Vec::new();
        let met = self.mounts.iter().flat_map(|mount| {
            most.mounts
                .iter()
                .filter_map(move |other| meet(mount, other))
        });
        for mount in met {
            match mounts.iter_mut().find(|known| known.guest == mount.guest) {
                // Two of the caller's mounts can hold one folder, under two names: it may use either.
                Some(known) => known.writable |= mount.writable && known.host == mount.host,
                None => mounts.push(mount),
            }
        }
        self.mounts = mounts;
        let closed: Vec<Denial> = self.denials.iter().chain(&most.denials).cloned().collect();
        self.keep_denials(&closed);
        self.secrets.retain(|one| {
            most.secrets
                .iter()
                .any(|own| own.name == one.name && own.origin == one.origin)
        });
        self.environment
            .retain(|variable| most.environment.contains(variable));
        self.tools.limit(&most.tools);
        self.start(grants);
    }
}

/// The folder in both, placed as in the first.
fn meet(mount: &Mount, most: &Mount) -> Option<Mount> {
    let writable = mount.writable && most.writable;
    if mount.host.starts_with(&most.host) {
        return Some(Mount {
            writable,
            ..mount.clone()
        });
    }
    let rest = most.host.strip_prefix(&mount.host).ok()?;
    let guest = std::path::Path::new(&mount.guest)
        .join(rest)
        .to_str()?
        .to_owned();
    Some(Mount {
        host: most.host.clone(),
        guest,
        writable,
    })
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use crate::PathPattern;

    use super::*;

    fn mount(host: &str, guest: &str, writable: bool) -> Mount {
        Mount {
            host: PathBuf::from(host),
            guest: guest.to_owned(),
            writable,
        }
    }

    fn limited(own: &[Mount], most: &[Mount]) -> Vec<Mount> {
        let mut own = Capability {
            mounts: own.to_vec(),
            ..Capability::default()
        };
        own.limit(
            &Capability {
                mounts: most.to_vec(),
                ..Capability::default()
            },
            &Grants::default(),
        );
        own.mounts
    }

    #[test]
    fn a_folder_is_what_both_have_with_the_rights_of_both() {
        for (own, most, both) in [
            (
                ("/a", "/a", true),
                ("/a", "/a", false),
                Some(("/a", "/a", false)),
            ),
            (
                ("/a", "/a", false),
                ("/a", "/a", true),
                Some(("/a", "/a", false)),
            ),
            (
                ("/a/b", "/x", true),
                ("/a", "/y", true),
                Some(("/a/b", "/x", true)),
            ),
            (
                ("/a", "/x", true),
                ("/a/b", "/y", true),
                Some(("/a/b", "/x/b", true)),
            ),
            (("/a", "/a", true), ("/ab", "/ab", true), None),
            (("/a", "/a", true), ("/b", "/b", true), None),
        ] {
            let of = |(host, guest, writable)| mount(host, guest, writable);
            assert_eq!(
                limited(&[of(own)], &[of(most)]),
                both.map(of).into_iter().collect::<Vec<_>>(),
                "{own:?} {most:?}"
            );
        }
        let most = [mount("/a/r", "/a/r", false), mount("/a/w", "/a/w", true)];
        assert_eq!(limited(&[mount("/a", "/a", true)], &most), most);
        assert!(limited(&[mount("/a", "/a", true)], &[]).is_empty());
    }

    #[test]
    fn what_is_closed_for_the_caller_stays_closed_and_its_variables_are_all() {
        let closed = |text: &str| Denial {
            what: PathPattern::compile(text, Path::new("/no-such")).unwrap(),
            read: true,
            by_host: false,
        };
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut own = Capability {
            mounts: vec![mount("/no-such", "/no-such", false)],
            denials: vec![closed("a")],
            environment: vec![variable("A", "1"), variable("B", "1")],
            ..Capability::default()
        };
        let most = Capability {
            mounts: vec![mount("/no-such", "/no-such", false)],
            denials: vec![closed("b"), closed("/elsewhere")],
            environment: vec![variable("A", "1")],
            ..Capability::default()
        };
        own.limit(&most, &Grants::default());
        assert_eq!(own.denials, [closed("a"), closed("b")]);
        assert_eq!(own.environment, [variable("A", "1")]);
    }
}
