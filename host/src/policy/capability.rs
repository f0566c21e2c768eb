use std::path::{Path, PathBuf};

use crate::record::{AccessKind, PermissionProfile};

use super::network::Origin;
use super::{Grants, Network, SecretUse, secret};

/// A folder of the host that the guest can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Canonical.
    pub host: PathBuf,
    pub guest: String,
    pub writable: bool,
}

/// A path of the host that stays closed, although it lies in a mounted folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Canonical, so far as it exists.
    pub host: PathBuf,
    /// Closed for reading, and so for everything; otherwise for writing only.
    pub read: bool,
}

/// The exact world that one call gets. The default is the empty world.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capability {
    pub mounts: Vec<Mount>,
    pub denials: Vec<Denial>,
    pub environment: Vec<(String, String)>,
    /// What requests carry, and where to. The guest sees neither the values nor that they are there.
    pub secrets: Vec<SecretUse>,
    /// The caller's working directory as the guest names it, if it lies in a mount.
    pub cwd: Option<String>,
    pub network: Network,
}

impl Capability {
    /// What `profile` declares and `grants` allows: the intersection. `named` are the origins in the call's arguments.
    pub fn effective(profile: &PermissionProfile, grants: &Grants, named: &[Origin]) -> Self {
        let mut capability = Self::default();
        if profile.wants_file_write() {
            for grant in &grants.write {
                capability.mount(&grant.host, &grant.guest, true, grants);
            }
        }
        let reads = profile.wants(&AccessKind::FileRead) || profile.wants_file_write();
        if reads {
            for grant in &grants.read {
                capability.mount(&grant.host, &grant.guest, false, grants);
            }
        }
        if profile.wants(&AccessKind::FileRead) && !profile.wants_file_write() {
            // Writing was granted, reading is what the tool declares: it may look, not touch.
            for grant in &grants.write {
                capability.mount(&grant.host, &grant.guest, false, grants);
            }
        }
        capability.denials = grants.denials_within(&capability.mounts);
        capability.environment = grants
            .environment
            .iter()
            .filter(|(name, _)| profile.environment.iter().any(|wanted| wanted == name))
            .cloned()
            .collect();
        if profile.wants(&AccessKind::Credential) {
            capability.secrets = secret::uses(profile, grants);
        }
        capability.cwd = grants.cwd.as_deref().and_then(|cwd| capability.guest_path(cwd));
        capability.network = Network::effective(profile, &grants.network, named);
        capability
    }

    fn mount(&mut self, host: &Path, guest: &str, writable: bool, grants: &Grants) {
        if grants.is_denied(host, true) || self.mounts.iter().any(|mount| mount.guest == guest) {
            return;
        }
        let writable = writable && !grants.is_denied(host, false);
        self.mounts.push(Mount { host: host.to_owned(), guest: guest.to_owned(), writable });
    }

    /// How the guest names `host`, if it lies in a mount.
    fn guest_path(&self, host: &Path) -> Option<String> {
        self.mounts.iter().find_map(|mount| {
            let rest = host.strip_prefix(&mount.host).ok()?;
            let guest = Path::new(&mount.guest).join(rest);
            Some(guest.to_str()?.trim_end_matches('/').to_owned()).filter(|path| !path.is_empty())
        })
    }
}
