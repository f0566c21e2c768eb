use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use toolcell_spec::{AccessKind, PermissionProfile, digest, short_id};

use super::call_subjects::{below, mount_of};
use super::network::Origin;
use super::{Grants, Network, PathPattern, SecretUse, ToolCalls, UrlPattern, secret_grant};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Canonical, to be opened without following links.
    pub host: PathBuf,
    pub guest: String,
    pub writable: bool,
}

/// A place that is closed even inside a mounted folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    pub what: PathPattern,
    /// `false`: for writing only.
    pub read: bool,
    /// `true` if closed in every call; a question omits it.
    pub by_host: bool,
}

/// All that one call can reach; nothing by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capability {
    pub mounts: Vec<Mount>,
    pub denials: Vec<Denial>,
    /// Secrets and their origins. The guest sees neither values nor that they are sent.
    pub secrets: Vec<SecretUse>,
    pub tools: ToolCalls,
    pub network: Network,
    pub closed_urls: Vec<UrlPattern>,
    /// Guest path of a folder that is deleted after the call.
    pub scratch: Option<String>,
    pub environment: Vec<(String, String)>,
    /// Files and name of the caller's workspace. Who answers a question knows the name.
    pub workspace: Option<(PathBuf, String)>,
    /// The caller's folder, if it lies in a mount or contains one; otherwise the only granted one.
    pub cwd: Option<String>,
    /// Start of relative paths among the arguments. No guest learns it.
    pub from: Option<String>,
    /// The only granted folder before narrowing.
    pub only: Option<String>,
}

const FOLDERS_SHOWN: usize = 5;
/// Guest path of the folder for drafts.
pub const SCRATCH: &str = "/scratch";

impl Capability {
    /// Intersects `profile` and `grants`, without `closed`. The network is left to `Self::reach`.
    pub fn effective(profile: &PermissionProfile, grants: &Grants, closed: &[Denial]) -> Self {
        let mut capability = Self::default();
        let writes = profile.wants_file_write();
        let reads = profile.wants(&AccessKind::FileRead);
        let folders = [
            (writes, &grants.write, true),
            (writes || reads, &grants.read, false),
            // The tool declares reading only, so a write grant lets it read.
            (reads && !writes, &grants.write, false),
        ];
        for (_, folders, writable) in folders.into_iter().filter(|(applies, ..)| *applies) {
            for grant in folders {
                capability.mount(&grant.host, &grant.guest, writable, closed);
            }
        }
        // Last, so that no folder loses its own path to the alias of another.
        for (_, folders, writable) in folders.into_iter().filter(|(applies, ..)| *applies) {
            for grant in folders {
                if let Some(alias) = &grant.alias {
                    capability.mount(&grant.host, alias, writable, closed);
                }
            }
        }
        // A tool that asks for a folder of its own gets the caller's, where there is one.
        let workspace = grants.write.iter().find(|grant| grant.workspace.is_some());
        capability.workspace = workspace.and_then(|grant| {
            let name = grant.workspace.clone()?;
            Some((grant.host.clone(), name))
        });
        if let Some(grant) = workspace.filter(|_| profile.wants_drafts() && !writes) {
            capability.mounts.retain(|mount| mount.guest != grant.guest);
            capability.mount(&grant.host, &grant.guest, true, closed);
        }
        capability.keep_denials(closed);
        capability.scratch = profile.wants_drafts().then(|| SCRATCH.to_owned());
        capability.environment = grants
            .environment
            .iter()
            .filter(|(name, _)| {
                profile.environment.iter().any(|wanted| wanted == name) || !guard!("environment")
            })
            .cloned()
            .collect();
        if profile.wants(&AccessKind::Credential) {
            capability.secrets = secret_grant::uses(profile, grants);
        }
        capability.tools = ToolCalls::effective(profile, grants);
        capability.start(grants);
        capability
    }

    pub(super) fn to_look(&self) -> Self {
        let Self {
            mut mounts,
            denials,
            cwd,
            from,
            only,
            ..
        } = self.clone();
        mounts
            .iter_mut()
            .for_each(|mount| mount.writable &= !guard!("preflight_reads"));
        Self {
            mounts,
            denials,
            cwd,
            from,
            only,
            ..Self::default()
        }
    }

    pub(super) fn start(&mut self, grants: &Grants) {
        let cwd = grants.cwd.as_deref();
        let inside = cwd.and_then(|cwd| self.guest_path(cwd));
        // A folder that is granted, and closed, is still one that a caller can mean.
        let is_only = |only: &&str| {
            grants
                .folders()
                .all(|grant| grant.paths().any(|path| below(path, only).is_some()))
        };
        self.only = self.only_folder().filter(is_only).map(str::to_owned);
        self.from = inside.clone().or_else(|| cwd?.to_str().map(str::to_owned));
        self.cwd = inside.or_else(|| self.only.clone());
    }

    pub(super) fn only_folder(&self) -> Option<&str> {
        let outer = self
            .mounts
            .iter()
            .min_by_key(|mount| Path::new(&mount.guest).components().count())?;
        let is_only = self.mounts.iter().all(|mount| {
            below(&mount.guest, &outer.guest).is_some() || mount.host.starts_with(&outer.host)
        });
        is_only.then_some(outer.guest.as_str())
    }

    pub(super) fn folders_in_words(&self) -> String {
        let shown: Vec<&str> = self
            .mounts
            .iter()
            .map(|mount| mount.guest.as_str())
            .take(FOLDERS_SHOWN)
            .collect();
        match self.mounts.len().saturating_sub(shown.len()) {
            0 => shown.join(", "),
            more => format!("{} and {more} more", shown.join(", ")),
        }
    }

    /// Intersects declared and granted networks, narrowed to the origins `named` in the arguments.
    pub(super) fn reach(&mut self, profile: &PermissionProfile, grants: &Grants, named: &[Origin]) {
        self.network = Network::effective(profile, &grants.network, named, &self.closed_urls);
    }

    /// Independent of the order of the grants; approvals are bound to it. Possibly secret values are digests.
    pub fn canonical(&self) -> Value {
        // No `..` in this pattern, so that a new field must be bound too.
        let Self {
            mounts,
            denials,
            secrets,
            tools,
            network,
            closed_urls,
            scratch,
            environment,
            workspace,
            cwd,
            from,
            only,
        } = self;
        let bytes = |path: &Path| digest(path.as_os_str().as_encoded_bytes());
        let mut mounts: Vec<_> = mounts
            .iter()
            .map(|m| (m.guest.clone(), bytes(&m.host), m.writable))
            .collect();
        let mut denials: Vec<_> = denials
            .iter()
            .map(|d| (bytes(d.what.prefix()), d.what.text(), d.read))
            .collect();
        let mut closed_urls: Vec<_> = closed_urls.iter().map(UrlPattern::text).collect();
        let mut environment: Vec<_> = environment
            .iter()
            .map(|(name, value)| (name.clone(), digest(value.as_bytes())))
            .collect();
        let mut secrets: Vec<_> = secrets
            .iter()
            .map(|used| format!("{} {:?}", used.grant(), used.placement))
            .collect();
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
            "tools": tools.canonical(),
            "closed_urls": closed_urls,
            "scratch": scratch,
            "environment": environment,
            "workspace": workspace.as_ref().map(|(tree, name)| (bytes(tree), name)),
            "cwd": cwd,
            "from": from,
            "only": only,
        })
    }

    /// The same for the same capability (AT-EXEC-13).
    pub fn reference(&self) -> String {
        short_id("sandbox", &self.canonical().to_string(), 16)
    }

    fn mount(&mut self, host: &Path, guest: &str, writable: bool, closed: &[Denial]) {
        let is_closed = |read: bool| {
            closed
                .iter()
                .any(|denial| denial.read == read && denial.what.covers(host))
        };
        if is_closed(true) || self.mounts.iter().any(|mount| mount.guest == guest) {
            return;
        }
        self.mounts.push(Mount {
            host: host.to_owned(),
            guest: guest.to_owned(),
            writable: writable && !is_closed(false),
        });
    }

    /// Keeps denials that could lie in a mounted folder, because only the sandbox can enforce those.
    pub(super) fn keep_denials(&mut self, closed: &[Denial]) {
        let meets = |denial: &&Denial| {
            self.mounts
                .iter()
                .any(|mount| denial.what.reaches_into(&mount.host))
        };
        let kept = closed.iter().filter(meets).cloned().collect();
        self.denials = kept;
    }

    /// The scratch folder stays writable.
    pub(super) fn read_only(&mut self) {
        self.mounts
            .iter_mut()
            .for_each(|mount| mount.writable = false);
    }

    pub fn is_writable(&self) -> bool {
        self.mounts.iter().any(|mount| mount.writable)
    }

    /// Otherwise the working directory is an empty folder.
    pub fn holds_cwd(&self) -> bool {
        self.cwd
            .as_deref()
            .is_none_or(|cwd| mount_of(cwd, &self.mounts).is_some())
    }

    /// Guest path of a place in a mount or around one. Around one, relative paths keep the caller's meaning, and files
    /// beside the mount do not exist for the guest.
    pub(super) fn guest_path(&self, host: &Path) -> Option<String> {
        let inside = self.mounts.iter().find_map(|mount| {
            let rest = host.strip_prefix(&mount.host).ok()?;
            let guest = Path::new(&mount.guest).join(rest);
            Some(guest.to_str()?.trim_end_matches('/').to_owned()).filter(|path| !path.is_empty())
        });
        let around = || {
            self.mounts
                .iter()
                .any(|mount| Path::new(&mount.guest).starts_with(host))
        };
        inside.or_else(|| {
            host.to_str()
                .filter(|host| *host != "/" && around())
                .map(str::to_owned)
        })
    }
}
