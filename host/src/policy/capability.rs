use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::record::{AccessKind, PermissionProfile, digest};

use super::named::mount_of;
use super::network::Origin;
use super::{Grants, Network, PathPattern, SecretUse, UrlPattern, secret};

/// A folder of the host that the guest can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Canonical: whoever opens it follows no link.
    pub host: PathBuf,
    pub guest: String,
    pub writable: bool,
}

/// A place that stays closed, although it lies in a mounted folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    pub what: PathPattern,
    /// Closed for reading, and so for everything; otherwise for writing only.
    pub read: bool,
}

/// The exact world that one call gets. The default is the empty world.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capability {
    pub mounts: Vec<Mount>,
    pub denials: Vec<Denial>,
    /// What requests carry, and where to. The guest sees neither the values nor that they are there.
    pub secrets: Vec<SecretUse>,
    /// The requests that may be sent.
    pub network: Network,
    /// URLs that stay closed, whatever the network grants allow.
    pub closed_urls: Vec<UrlPattern>,
    /// A folder of the call's own, made for it and gone after it: the name that the guest has for it.
    pub scratch: Option<String>,
    pub environment: Vec<(String, String)>,
    /// The caller's working directory as the guest names it, if it lies in a mount, or a mount in it.
    pub cwd: Option<String>,
}

/// Where drafts go (`local_draft`).
const SCRATCH: &str = "/scratch";

impl Capability {
    /// What `profile` declares and `grants` allows: the intersection, without what `closed` closes. What the arguments name
    /// of the network is not in it yet: see [`Self::reach`].
    pub fn effective(profile: &PermissionProfile, grants: &Grants, closed: &[Denial]) -> Self {
        let mut capability = Self::default();
        let writes = profile.wants_file_write();
        if writes {
            for grant in &grants.write {
                capability.mount(&grant.host, &grant.guest, true, closed);
            }
        }
        if writes || profile.wants(&AccessKind::FileRead) {
            for grant in &grants.read {
                capability.mount(&grant.host, &grant.guest, false, closed);
            }
        }
        if !writes && profile.wants(&AccessKind::FileRead) {
            // Writing was granted, reading is what the tool declares: it may look, not touch.
            for grant in &grants.write {
                capability.mount(&grant.host, &grant.guest, false, closed);
            }
        }
        capability.keep_denials(closed);
        capability.scratch = profile.wants_drafts().then(|| SCRATCH.to_owned());
        capability.environment = grants
            .environment
            .iter()
            .filter(|(name, _)| profile.environment.iter().any(|wanted| wanted == name) || !guard!("environment"))
            .cloned()
            .collect();
        if profile.wants(&AccessKind::Credential) {
            capability.secrets = secret::uses(profile, grants);
        }
        capability.cwd = grants.cwd.as_deref().and_then(|cwd| capability.guest_path(cwd));
        capability
    }

    /// Gives the call the network: what `profile` declares and `grants` allows, narrowed to the origins that its arguments
    /// name.
    pub(super) fn reach(&mut self, profile: &PermissionProfile, grants: &Grants, named: &[Origin]) {
        self.network = Network::effective(profile, &grants.network, named, &self.closed_urls);
    }

    /// A form that is the same for the same capability, whatever order it was granted in: approvals are bound to it.
    /// Of values that may be secret it holds digests.
    pub fn canonical(&self) -> Value {
        // Without `..`: a field that is added has to be bound, too.
        let Self { mounts, denials, secrets, network, closed_urls, scratch, environment, cwd } = self;
        let bytes = |path: &Path| digest(path.as_os_str().as_encoded_bytes());
        let mut mounts: Vec<_> = mounts.iter().map(|m| (m.guest.clone(), bytes(&m.host), m.writable)).collect();
        let mut denials: Vec<_> = denials.iter().map(|d| (bytes(d.what.prefix()), d.what.text(), d.read)).collect();
        let mut closed_urls: Vec<_> = closed_urls.iter().map(UrlPattern::text).collect();
        let mut environment: Vec<_> =
            environment.iter().map(|(name, value)| (name.clone(), digest(value.as_bytes()))).collect();
        let mut secrets: Vec<_> = secrets.iter().map(|used| format!("{} {:?}", used.grant(), used.placement)).collect();
        secrets.sort_unstable();
        mounts.sort();
        denials.sort();
        closed_urls.sort_unstable();
        environment.sort();
        json!({
            "mounts": mounts,
            "denials": denials,
            "network": network.canonical(),
            "secrets": secrets,
            "closed_urls": closed_urls,
            "scratch": scratch,
            "environment": environment,
            "cwd": cwd,
        })
    }

    fn mount(&mut self, host: &Path, guest: &str, writable: bool, closed: &[Denial]) {
        let is_closed = |read: bool| closed.iter().any(|denial| denial.read == read && denial.what.covers(host));
        if is_closed(true) || self.mounts.iter().any(|mount| mount.guest == guest) {
            return;
        }
        self.mounts.push(Mount {
            host: host.to_owned(),
            guest: guest.to_owned(),
            writable: writable && !is_closed(false),
        });
    }

    /// The denials that could meet a mounted folder, where only the sandbox can hold them.
    pub(super) fn keep_denials(&mut self, closed: &[Denial]) {
        let meets = |denial: &&Denial| self.mounts.iter().any(|mount| denial.what.reaches_into(&mount.host));
        let kept = closed.iter().filter(meets).cloned().collect();
        self.denials = kept;
    }

    /// The same world, in which nothing can be changed but what is gone afterwards.
    pub(super) fn read_only(&mut self) {
        self.mounts.iter_mut().for_each(|mount| mount.writable = false);
    }

    /// Whether anything that lasts could be changed here.
    pub fn is_writable(&self) -> bool {
        self.mounts.iter().any(|mount| mount.writable)
    }

    /// Whether the working directory lies in a mount; otherwise it is an empty folder.
    pub fn holds_cwd(&self) -> bool {
        self.cwd.as_deref().is_none_or(|cwd| mount_of(cwd, &self.mounts).is_some())
    }

    /// How the guest names `host`, if it lies in a mount, or a mount lies in it: a path from there is then what its caller
    /// means, and what lies beside the mount is not there.
    fn guest_path(&self, host: &Path) -> Option<String> {
        let inside = self.mounts.iter().find_map(|mount| {
            let rest = host.strip_prefix(&mount.host).ok()?;
            let guest = Path::new(&mount.guest).join(rest);
            Some(guest.to_str()?.trim_end_matches('/').to_owned()).filter(|path| !path.is_empty())
        });
        let around = || self.mounts.iter().any(|mount| Path::new(&mount.guest).starts_with(host));
        inside.or_else(|| host.to_str().filter(|host| *host != "/" && around()).map(str::to_owned))
    }
}
