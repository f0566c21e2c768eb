//! `[cluster]`: where other machines are asked to run calls, or ask this one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use toolcell_spec::RuleSource;

use super::ConfigText;
use super::file::ConfigFile;
use super::units::duration;

/// `[cluster]`: an error in a project's file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterSection {
    /// The addresses of NATS servers with JetStream, such as `nats://10.0.0.1:4222` or `tls://nats.example.com`.
    pub servers: Vec<ConfigText>,
    /// The file with the JWT and seed with which this process signs in.
    pub credentials: Option<ConfigText>,
    /// The file with the seed of the nkey with which this process signs in, instead of `credentials`.
    pub nkey: Option<ConfigText>,
    /// The file with the certificates of the authority that the servers have theirs from, besides the system's.
    pub ca: Option<ConfigText>,
    /// The file with the seed of the nkey with which a gateway signs its calls [default: one in the folder of toolcell's
    /// state, made when it is first needed].
    pub key: Option<ConfigText>,
    /// The public nkeys of the gateways whose calls a worker takes; `toolcell cluster key` prints a gateway's.
    pub gateways: Vec<ConfigText>,
    /// The public nkeys of the approvers whose answers a worker takes, by their names.
    pub approvers: BTreeMap<String, ConfigText>,
    /// Calls that a worker runs at once [default: 8].
    pub places: Option<usize>,
    /// The name of this process in the cluster [default: the name of its machine, and its process number].
    pub name: Option<ConfigText>,
    /// How many servers keep a copy of each value, 1 to 5 [default: 1].
    pub replicas: Option<usize>,
    /// Calls that wait for a worker; more are refused [default: 10000].
    pub queue: Option<i64>,
    /// A worker that is silent for so long has lost its calls, 1s to 5m [default: 10s].
    pub lease: Option<ConfigText>,
    /// A call that no worker began after this time has failed [default: 30s].
    pub wait: Option<ConfigText>,
}

/// Settings of a process in a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterConfig {
    pub servers: Vec<String>,
    pub credentials: Option<PathBuf>,
    pub nkey: Option<PathBuf>,
    pub ca: Option<PathBuf>,
    pub key: Option<PathBuf>,
    pub gateways: Vec<String>,
    /// Keys by name.
    pub approvers: BTreeMap<String, String>,
    pub places: usize,
    pub name: Option<String>,
    pub replicas: usize,
    pub queue: i64,
    pub lease: Duration,
    pub wait: Duration,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            credentials: None,
            nkey: None,
            ca: None,
            key: None,
            gateways: Vec::new(),
            approvers: BTreeMap::new(),
            places: 8,
            name: None,
            replicas: 1,
            queue: 10_000,
            lease: Duration::from_secs(10),
            wait: Duration::from_secs(30),
        }
    }
}

impl ClusterConfig {
    /// The files that hold authority, each with its meaning.
    pub fn files(&self) -> impl Iterator<Item = (&PathBuf, &'static str)> {
        let files = [
            (&self.credentials, "the credentials of [cluster]"),
            (&self.nkey, "the nkey of [cluster]"),
            (&self.key, "the key of [cluster]"),
        ];
        files
            .into_iter()
            .filter_map(|(file, what)| Some((file.as_ref()?, what)))
    }
}

/// Replaces `known` by the `[cluster]` of `file`, unless it is empty.
///
/// # Errors
///
/// Fails for the file of a project: it would choose who runs the calls of its user, and for whom this machine works.
pub(super) fn read(
    known: &mut Option<ClusterConfig>,
    source: RuleSource,
    file: &ConfigFile,
) -> anyhow::Result<()> {
    if file.cluster == ClusterSection::default() {
        return Ok(());
    }
    ensure!(
        !source.is_in_checkout() || !guard!("cluster_source"),
        "{}: [cluster] is for your own toolcell.toml or the file of --config, because it says which machines run your calls; \
         remove it here",
        file.path.display()
    );
    let settings = settings(file).with_context(|| file.path.display().to_string())?;
    *known = Some(settings);
    Ok(())
}

fn settings(file: &ConfigFile) -> anyhow::Result<ClusterConfig> {
    let section = &file.cluster;
    let path = |word: &Option<ConfigText>| word.as_deref().map(|word| file.folder.join(word));
    let mut settings = ClusterConfig {
        servers: section
            .servers
            .iter()
            .map(|word| word.to_string())
            .collect(),
        credentials: path(&section.credentials),
        nkey: path(&section.nkey),
        ca: path(&section.ca),
        key: path(&section.key),
        name: section.name.as_deref().map(str::to_owned),
        ..ClusterConfig::default()
    };
    for word in &section.servers {
        let is_known = ["nats://", "tls://"]
            .iter()
            .any(|scheme| word.starts_with(scheme));
        if !is_known {
            let line = file.line_of(word);
            bail!(
                "[cluster] servers in line {line}: give the address of a server with nats:// or tls://"
            );
        }
    }
    ensure!(
        section.credentials.is_none() || section.nkey.is_none(),
        "[cluster] has credentials and nkey: a process signs in with one of them"
    );
    let public_key = |what: &str, key: &ConfigText| {
        let is_key = key.len() == 56 && key.starts_with('U');
        let line = file.line_of(key);
        ensure!(
            is_key,
            "[cluster] {what} in line {line}: a public nkey has 56 characters and begins with U; `toolcell cluster key` \
             prints that of a machine"
        );
        Ok(key.to_string())
    };
    for key in &section.gateways {
        settings.gateways.push(public_key("gateways", key)?);
    }
    for (name, key) in &section.approvers {
        let key = public_key("approvers", key)?;
        settings.approvers.insert(name.clone(), key);
    }
    let number = |what, said: Option<usize>, range: std::ops::RangeInclusive<usize>, default| {
        let said = said.unwrap_or(default);
        let (from, to) = (range.start(), range.end());
        ensure!(
            range.contains(&said),
            "[cluster] {what} = {said}: give {from} to {to}"
        );
        Ok(said)
    };
    settings.places = number("places", section.places, 1..=1024, settings.places)?;
    settings.replicas = number("replicas", section.replicas, 1..=5, settings.replicas)?;
    if let Some(queue) = section.queue {
        ensure!(queue > 0, "[cluster] queue = {queue}: give at least 1");
        settings.queue = queue;
    }
    let time = |what, said: &Option<ConfigText>, default| match said {
        None => Ok(default),
        Some(word) => {
            let line = file.line_of(word);
            let time = duration(word).map_err(anyhow::Error::msg);
            let time = time.with_context(|| format!("[cluster] {what} in line {line}"))?;
            let is_allowed = (1..=300).contains(&time.as_secs());
            ensure!(is_allowed, "[cluster] {what} in line {line}: give 1s to 5m");
            Ok(time)
        }
    };
    settings.lease = time("lease", &section.lease, settings.lease)?;
    settings.wait = time("wait", &section.wait, settings.wait)?;
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn of(text: &str, source: RuleSource) -> anyhow::Result<Option<ClusterConfig>> {
        let file = ConfigFile::parse(text, Path::new("/etc/toolcell"))?;
        let mut known = None;
        read(&mut known, source, &file)?;
        Ok(known)
    }

    #[test]
    fn a_file_names_servers_and_gateways() {
        let key = "U".repeat(56);
        let text = format!(
            "[cluster]\nservers = [\"nats://one:4222\", \"tls://two\"]\ngateways = [\"{key}\"]\nnkey = \"seed\"\nlease = \"20s\""
        );
        let read = of(&text, RuleSource::UserSettings).unwrap().unwrap();
        assert_eq!(read.servers, ["nats://one:4222", "tls://two"]);
        assert_eq!(read.nkey.as_deref(), Some(Path::new("/etc/toolcell/seed")));
        assert_eq!((read.lease.as_secs(), read.places), (20, 8));
        assert_eq!(of("", RuleSource::UserSettings).unwrap(), None);
    }

    #[test]
    fn a_project_says_nothing_of_the_cluster() {
        let text = "cluster.servers = [\"nats://elsewhere:4222\"]";
        for source in [RuleSource::ProjectSettings, RuleSource::LocalSettings] {
            let error = of(text, source).unwrap_err().to_string();
            assert!(error.contains("[cluster] is for your own"), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_meant_names_its_line() {
        for (text, expected) in [
            ("servers = [\"http://one\"]", "nats:// or tls://"),
            ("gateways = [\"key\"]", "56 characters"),
            ("places = 0", "give 1 to 1024"),
            ("replicas = 6", "give 1 to 5"),
            ("queue = 0", "at least 1"),
            ("lease = \"10m\"", "give 1s to 5m"),
            ("wait = \"soon\"", "wait in line 2"),
            ("credentials = \"a\"\nnkey = \"b\"", "one of them"),
        ] {
            let error = of(&format!("[cluster]\n{text}"), RuleSource::UserSettings).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
