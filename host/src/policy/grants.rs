use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::{Denial, Mount, NetworkGrants, SecretGrant};

/// A folder that somebody granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderGrant {
    /// Canonical: a link in the granted path is followed once, here, and not again at each call.
    pub host: PathBuf,
    /// The name of the folder inside the guest: the host's own unless it was mapped.
    pub guest: String,
    /// The words of the grant, for the record: `--allow-read=src`.
    pub rule: String,
}

/// What the caller grants to the tools it calls. Empty unless filled: nothing is granted by default.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    pub read: Vec<FolderGrant>,
    /// A write grant includes reading.
    pub write: Vec<FolderGrant>,
    /// Names and values.
    pub environment: Vec<(String, String)>,
    /// Names and origins; the values stay in the store until a call needs them.
    pub secrets: Vec<SecretGrant>,
    pub deny_read: Vec<PathBuf>,
    pub deny_write: Vec<PathBuf>,
    pub network: NetworkGrants,
    /// The working directory of the caller: relative paths in arguments start here, where a grant covers it.
    pub cwd: Option<PathBuf>,
}

impl Grants {
    /// Adds `--allow-read=SPEC`. `SPEC` is `HOST`, or `HOST=GUEST`.
    pub fn allow_read(&mut self, spec: &str) -> anyhow::Result<()> {
        let grant = self.unambiguous(folder(spec, "--allow-read")?)?;
        self.read.push(grant);
        Ok(())
    }

    /// Adds `--allow-write=SPEC`.
    pub fn allow_write(&mut self, spec: &str) -> anyhow::Result<()> {
        let grant = self.unambiguous(folder(spec, "--allow-write")?)?;
        self.write.push(grant);
        Ok(())
    }

    /// Two folders cannot have one name inside the guest.
    fn unambiguous(&self, grant: FolderGrant) -> anyhow::Result<FolderGrant> {
        let mut known = self.read.iter().chain(&self.write);
        match known.find(|other| other.guest == grant.guest && other.host != grant.host) {
            Some(other) => bail!("{} and {} give two folders the same path inside the tool", other.rule, grant.rule),
            None => Ok(grant),
        }
    }

    /// Adds `--allow-env=NAME` with the value that `NAME` has in this process. An unset name grants nothing.
    pub fn allow_env(&mut self, name: &str) -> anyhow::Result<()> {
        if name.is_empty() || name.contains(['=', '\0']) {
            bail!("--allow-env={name}: not a name of an environment variable");
        }
        match std::env::var(name) {
            Ok(value) => self.environment.push((name.to_owned(), value)),
            Err(std::env::VarError::NotPresent) => {}
            Err(error) => return Err(error).with_context(|| format!("read the environment variable {name}")),
        }
        Ok(())
    }

    /// Adds `--deny-read=PATH`: nothing below it is opened, whatever is allowed.
    pub fn deny_read(&mut self, path: &str) -> anyhow::Result<()> {
        self.deny_read.push(absolute(path, "--deny-read")?);
        Ok(())
    }

    /// Adds `--deny-write=PATH`: nothing below it is changed, whatever is allowed.
    pub fn deny_write(&mut self, path: &str) -> anyhow::Result<()> {
        self.deny_write.push(absolute(path, "--deny-write")?);
        Ok(())
    }

    /// Adds `--allow-net=SPEC`: see [`super::network::Rule`] for what a `SPEC` looks like.
    pub fn allow_net(&mut self, spec: &str) -> anyhow::Result<()> {
        self.network.allow(spec)
    }

    /// Adds `--deny-net=SPEC`: such requests are not sent, whatever is allowed.
    pub fn deny_net(&mut self, spec: &str) -> anyhow::Result<()> {
        self.network.deny(spec)
    }

    /// Whether a denial covers `host` itself.
    pub(super) fn is_denied(&self, host: &Path, read: bool) -> bool {
        let denied = if read { &self.deny_read } else { &self.deny_write };
        denied.iter().any(|path| host.starts_with(path))
    }

    /// The denials that lie inside a mounted folder, where only the sandbox can hold them.
    pub(super) fn denials_within(&self, mounts: &[Mount]) -> Vec<Denial> {
        let within = |path: &&PathBuf| mounts.iter().any(|mount| path.starts_with(&mount.host));
        let read = self.deny_read.iter().filter(within).map(|host| Denial { host: host.clone(), read: true });
        let write = self.deny_write.iter().filter(within).map(|host| Denial { host: host.clone(), read: false });
        read.chain(write).collect()
    }
}

fn folder(spec: &str, flag: &str) -> anyhow::Result<FolderGrant> {
    let (host, guest) = match spec.split_once('=') {
        // A folder may have the sign in its name.
        Some((host, guest)) if !Path::new(spec).exists() => (host, Some(guest)),
        _ => (spec, None),
    };
    let canonical = std::fs::canonicalize(host).with_context(|| format!("{flag}={spec}: find the folder {host}"))?;
    if !canonical.is_dir() {
        let parent = canonical.parent().unwrap_or(&canonical).display();
        bail!("{flag}={spec}: {host} is not a folder; grant the folder that holds it: {flag}={parent}");
    }
    let guest = match guest {
        Some(guest) if guest.starts_with('/') && !guest.split('/').any(|part| part == "..") => guest.to_owned(),
        Some(guest) => bail!("{flag}={spec}: the path inside the guest, {guest}, must be absolute and without `..`"),
        None => canonical
            .to_str()
            .with_context(|| format!("{flag}={spec}: the path is not UTF-8; map it: {flag}={host}=/name"))?
            .to_owned(),
    };
    Ok(FolderGrant { host: canonical, guest, rule: format!("{flag}={spec}") })
}

/// The canonical form of a path that need not exist: links are followed as far as it does.
fn absolute(path: &str, flag: &str) -> anyhow::Result<PathBuf> {
    let full = std::path::absolute(path).with_context(|| format!("{flag}={path}: find the path"))?;
    let mut rest = Vec::new();
    let mut known: &Path = &full;
    loop {
        match std::fs::canonicalize(known) {
            Ok(canonical) => return Ok(rest.iter().rev().fold(canonical, |path, part| path.join(part))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("{flag}={path}: find the path")),
        }
        match (known.parent(), known.file_name()) {
            (Some(parent), Some(name)) => {
                rest.push(name);
                known = parent;
            }
            _ => bail!("{flag}={path}: the path may not lead through a missing folder with `..`"),
        }
    }
}
