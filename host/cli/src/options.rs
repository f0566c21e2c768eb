//! Options that several commands share: grants, limits, policy, approvals.

mod workspace;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcell::{
    Elsewhere, GrantWord, Grants, Home, Host, Limits, NetworkSettings, Policy, ToolSet,
};
use toolcell_config::{
    self as config, ClusterConfig, ConfigFile, ConfigLayers, ConfigText, GivenLimits, LayerOptions,
    MODES, duration, size,
};
use toolcell_engine::approval::Session;
use toolcell_engine::catalog::ToolSelection;
use toolcell_install::tls;
use toolcell_policy::Provenance;
use toolcell_sandbox::SystemResolver;
use toolcell_spec::{EXPIRE_DEFAULT, EXPIRE_MAX};
use toolcell_spec::{Mode, Refusal};

use super::cluster::{self, ClusterConnection};
use super::exit::{BadRequest, Stop};
use super::protected_sources::{self, KeptFile};
use super::retrying::RetryOptions;
pub(crate) use workspace::{SessionWorkspaces, WorkspaceOptions};

/// Access, limits and approval of a call.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
pub(crate) struct CallOptions {
    #[command(flatten)]
    pub(crate) grants: GrantOptions,
    #[command(flatten)]
    #[serde(default)]
    pub(crate) workspace: WorkspaceOptions,
    #[command(flatten)]
    pub(crate) limits: LimitOptions,
    #[command(flatten)]
    pub(crate) policy: PolicyOptions,
}

impl CallOptions {
    /// As [`settings`].
    pub(crate) fn settings(&self, home: &Home) -> Result<Settings, Stop> {
        settings(home, &self.grants, &self.limits, &self.policy)
    }
}

/// The options of a command that makes calls and ends with them.
#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    #[command(flatten)]
    pub(crate) call: CallOptions,
    #[command(flatten)]
    pub(crate) retry: RetryOptions,
    #[command(flatten)]
    pub(crate) approvals: ApprovalOptions,
    /// Run the calls on workers of the cluster, at the NATS server URL [default: the servers of [cluster] in toolcell.toml]
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true)]
    cluster: Option<Option<String>>,
}

impl RunOptions {
    /// Where the calls run, if not here.
    pub(crate) async fn elsewhere(
        &self,
        home: &Home,
        config: Option<ClusterConfig>,
    ) -> Result<Option<Arc<dyn Elsewhere>>, Refusal> {
        let Some(address) = &self.cluster else {
            return Ok(None);
        };
        let config = cluster::with_address(config, address.as_deref());
        let connection = ClusterConnection::open(home, &config, true).await?;
        Ok(Some(connection.elsewhere()))
    }
}

/// Nothing is granted unless it is granted here; a tool gets what it declares and what is granted, both.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Grants")]
pub(crate) struct GrantOptions {
    /// Allow reading a folder and its contents. HOST=GUEST mounts it under another path in the sandbox
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    allow_read: Vec<String>,
    /// Allow reading and changing a folder and its contents
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    allow_write: Vec<String>,
    /// Expose an environment variable to the tool
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    allow_env: Vec<String>,
    /// Allow HTTP requests to a host: [METHOD+METHOD@][https://]HOST[:PORT][/PATH]. HOST is a name, *.NAME, * or an IP
    /// address. http:// and non-public addresses must be spelled out
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    allow_net: Vec<String>,
    /// Add a secret (see `toolcell secrets`) to requests to one origin; the tool never sees its value
    #[arg(long, value_name = "NAME@https://HOST", value_delimiter = ',')]
    allow_secret: Vec<String>,
    /// Allow the tool to call other tools, by name or pattern, such as files.*. A nested call never gets more access than its caller
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    #[serde(default)]
    allow_tool: Vec<String>,
    /// Let the tool read the folder that the user of a bundle chose. The path is taken as it is, with commas and `=`
    #[arg(long, value_name = "CHOSEN", hide = true)]
    #[serde(default)]
    chosen_read: Vec<String>,
    /// Let the tool read and change the folder that the user of a bundle chose
    #[arg(long, value_name = "CHOSEN", hide = true)]
    #[serde(default)]
    chosen_write: Vec<String>,
    /// Block all access to a path, even if another option allows it
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    deny_read: Vec<String>,
    /// Block changes to a path, even if another option allows them
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    deny_write: Vec<String>,
    /// Block requests to a host, even if another option allows them
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    deny_net: Vec<String>,
    /// Trust the CA certificates in a PEM file, in addition to the public ones, for tools' https requests
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Use this DNS server, ADDRESS or ADDRESS:PORT, instead of those in /etc/resolv.conf
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', value_parser = dns_server)]
    dns_server: Vec<SocketAddr>,
}

/// The user of a bundle chose these folders.
pub(crate) const CHOSEN_READ: &str = "--chosen-read";
pub(crate) const CHOSEN_WRITE: &str = "--chosen-write";

impl GrantOptions {
    pub(crate) fn network(&self) -> NetworkSettings {
        let mut network = NetworkSettings {
            extra_roots: self.tls_ca.clone(),
            ..NetworkSettings::default()
        };
        if !self.dns_server.is_empty() {
            network.resolver = Arc::new(SystemResolver::asking(self.dns_server.clone()));
        }
        network
    }

    pub(crate) fn tls_ca(&self) -> Option<&Path> {
        self.tls_ca.as_deref()
    }

    fn add_to(&self, grants: &mut Grants) -> anyhow::Result<()> {
        for word in GrantWord::ALL {
            self.specs(word)
                .iter()
                .try_for_each(|spec| grants.add(word, spec, &Provenance::COMMAND_LINE))?;
        }
        for (option, word, folder) in self.chosen() {
            // One that is there is granted as a whole, even if its name has a `=`.
            let is_whole = Path::new(folder).is_absolute() && Path::new(folder).is_dir();
            anyhow::ensure!(
                is_whole,
                "{option}={folder} is not the absolute path of a folder; choose a folder that exists"
            );
            grants.add(word, folder, &Provenance::COMMAND_LINE)?;
        }
        Ok(())
    }

    fn chosen(&self) -> impl Iterator<Item = (&'static str, GrantWord, &str)> {
        let read = self
            .chosen_read
            .iter()
            .map(|folder| (CHOSEN_READ, GrantWord::Read, folder.as_str()));
        read.chain(
            self.chosen_write
                .iter()
                .map(|folder| (CHOSEN_WRITE, GrantWord::Write, folder.as_str())),
        )
    }

    /// Fails if a value is not understood, or depends on the current folder.
    pub(crate) fn typed(&self) -> anyhow::Result<Vec<String>> {
        let mut typed = Vec::new();
        let mut grants = Grants::default();
        if let Some((option, ..)) = self.chosen().next() {
            anyhow::bail!(
                "{option} is for the user of a bundle: grant a folder of this machine with --allow-read"
            );
        }
        for word in GrantWord::ALL {
            for spec in self.specs(word) {
                let place = spec
                    .split_once('=')
                    .map_or(spec.as_str(), |(place, _)| place);
                let is_pattern = matches!(word, GrantWord::DenyRead | GrantWord::DenyWrite)
                    && place.starts_with('*');
                match word.is_path() {
                    true if is_pattern || Path::new(place).is_absolute() => {}
                    true => anyhow::bail!(
                        "{}={spec} is not an absolute path, and would be another folder there",
                        word.option()
                    ),
                    false => grants.add(word, spec, &Provenance::COMMAND_LINE)?,
                }
                typed.push(format!("{}={spec}", word.option()));
            }
        }
        if let Some(file) = &self.tls_ca {
            anyhow::ensure!(
                file.is_absolute(),
                "--tls-ca={} is not an absolute path",
                file.display()
            );
            typed.push(format!(
                "--tls-ca={}",
                file.to_str().context("--tls-ca is not Unicode")?
            ));
        }
        typed.extend(
            self.dns_server
                .iter()
                .map(|server| format!("--dns-server={server}")),
        );
        Ok(typed)
    }

    fn specs(&self, word: GrantWord) -> &[String] {
        match word {
            GrantWord::Read => &self.allow_read,
            GrantWord::Write => &self.allow_write,
            GrantWord::Env => &self.allow_env,
            GrantWord::DenyRead => &self.deny_read,
            GrantWord::DenyWrite => &self.deny_write,
            GrantWord::Net => &self.allow_net,
            GrantWord::Secret => &self.allow_secret,
            GrantWord::Tool => &self.allow_tool,
            GrantWord::DenyNet => &self.deny_net,
        }
    }
}

const DNS_PORT: u16 = 53;

fn dns_server(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse().or_else(|_| {
        text.parse()
            .map(|address: IpAddr| SocketAddr::new(address, DNS_PORT))
    });
    address.map_err(|_| {
        format!("{text:?} is neither an IP address nor one with a port, such as 10.0.0.1:53")
    })
}

/// The policy besides grants: the mode, and the files with rules.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Policy")]
pub(crate) struct PolicyOptions {
    /// Calls that need an approval: ask for it (default), deny them (non_interactive), or deny them and all calls with
    /// effects (plan)
    #[arg(long, value_name = "MODE", value_parser = words::<Mode, 3>(MODES.map(Mode::as_str)))]
    mode: Option<Mode>,
    /// Use FILE instead of the project's toolcell.toml
    #[arg(long, value_name = "FILE", conflicts_with = "no_config")]
    config: Option<PathBuf>,
    /// Ignore all toolcell.toml files, yours and the project's
    #[arg(long)]
    no_config: bool,
}

impl PolicyOptions {
    /// As [`settings`]. The command line grants nothing.
    pub(crate) fn settings(&self, home: &Home) -> Result<Settings, Stop> {
        settings(
            home,
            &GrantOptions::default(),
            &LimitOptions::default(),
            self,
        )
    }

    pub(crate) fn named(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    pub(crate) fn reads_none(&self) -> bool {
        self.no_config
    }
}

/// Parses one of the specification's words.
pub(crate) fn words<T, const N: usize>(words: [&'static str; N]) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(words)
        .try_map(|word| serde_json::from_value::<T>(Value::String(word)))
}

/// Parses one of these words.
pub(crate) fn one_of<T, const N: usize>(
    words: [(&'static str, T); N],
) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    PossibleValuesParser::new(words.map(|(word, _)| word)).try_map(move |typed| {
        let mut words = words.into_iter();
        let found = words.find_map(|(word, value)| (word == typed).then_some(value));
        found.ok_or("no such word")
    })
}

/// The options and the configuration files together.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) grants: Grants,
    pub(crate) limits: Limits,
    pub(crate) policy: Policy,
    /// For the sections that other modules read.
    pub(crate) layers: ConfigLayers,
    pub(crate) expire: Option<Duration>,
    pub(crate) selection: ToolSelection,
    /// [`protected_sources::close`] closes them to guests.
    pub(crate) kept: Vec<KeptFile>,
}

impl Settings {
    /// All tools of `host` under these settings.
    pub(crate) fn tool_set(self, host: Arc<Host>) -> ToolSet {
        ToolSet::new(host)
            .grants(self.grants)
            .policy(self.policy)
            .limits(self.limits)
    }
}

/// A file that is not trusted or not valid is a refusal; an invalid option is a bad request.
pub(crate) fn settings(
    home: &Home,
    grants: &GrantOptions,
    limits: &LimitOptions,
    policy: &PolicyOptions,
) -> Result<Settings, Stop> {
    if let Some(file) = &grants.tls_ca {
        // Read here, because the sandbox, which reads it again, can only say that it cannot be set up.
        tls::client(std::slice::from_ref(file))
            .map_err(|error| BadRequest(format!("--tls-ca: {error:#}")))?;
    }
    let cwd = std::env::current_dir().and_then(std::fs::canonicalize).ok();
    let mut granted = Grants {
        cwd: cwd.clone(),
        ..Grants::default()
    };
    grants
        .add_to(&mut granted)
        .map_err(BadRequest::from_error)?;
    let options = LayerOptions {
        file: policy.config.clone(),
        none: policy.no_config,
    };
    let mut layers = ConfigLayers::read(home, cwd.as_deref(), &options)?;
    let expire = expiry_of_files(&layers)?;
    let selection = config::selection(&layers, None, None)?;
    granted
        .extend(&layers.grants)
        .map_err(BadRequest::from_error)?;
    for folder in &granted.missing {
        super::show::say(&format!(
            "note: {}: the folder does not exist, so that no tool with files can be called; make it, or remove the grant",
            folder.rule
        ));
    }
    layers.note_changeable(&granted);
    let kept = protected_sources::of_settings(home, cwd.as_deref(), grants, policy, &layers);
    Ok(Settings {
        grants: granted,
        limits: limits.given().over(layers.limits(Limits::default())),
        policy: layers.policy(policy.mode),
        expire,
        selection,
        layers,
        kept,
    })
}

/// Limits of one call. Units: ms, s, m for time; KiB, MiB, GiB for sizes, which are in bytes without one.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitOptions {
    /// Wall-clock limit, such as 500ms, 5s or 2m [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// CPU budget in units of fuel; 15 to 35 million take about 1 ms [default: 500000000000]
    #[arg(long, value_name = "N")]
    fuel: Option<u64>,
    /// CPU time limit for tools that are metered by time instead of fuel [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    cpu: Option<Duration>,
    /// Memory limit of the call [default: 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<u64>,
    /// Maximum size of the output [default: 8MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_output: Option<u64>,
    /// Maximum bytes written to files, including holes in sparse files [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_disk: Option<u64>,
    /// Maximum total size of the tool's artifacts [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_artifact_bytes: Option<u64>,
}

impl LimitOptions {
    fn given(&self) -> GivenLimits {
        GivenLimits {
            timeout: self.timeout,
            fuel: self.fuel,
            cpu: self.cpu,
            memory: self.memory,
            memory_total: None,
            max_output: self.max_output,
            max_disk: self.max_disk,
            max_artifact_bytes: self.max_artifact_bytes,
        }
    }

    pub(crate) fn typed(&self) -> Vec<String> {
        // A new limit does not compile until it is listed here.
        let &Self {
            timeout,
            fuel,
            cpu,
            memory,
            max_output,
            max_disk,
            max_artifact_bytes,
        } = self;
        let numbers = [
            ("--fuel", fuel),
            ("--memory", memory),
            ("--max-output", max_output),
            ("--max-disk", max_disk),
            ("--max-artifact-bytes", max_artifact_bytes),
        ];
        let times = [("--timeout", timeout), ("--cpu", cpu)]
            .into_iter()
            .filter_map(|(option, time)| Some(format!("{option}={}ms", time?.as_millis())));
        let numbers = numbers
            .into_iter()
            .filter_map(|(option, value)| Some(format!("{option}={}", value?)));
        times.chain(numbers).collect()
    }
}

pub(crate) const SESSION_VARIABLE: &str = "TOOLCELL_SESSION";

/// The way to approve a call that needs it.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Approvals")]
pub(crate) struct ApprovalOptions {
    /// How long a call waits for its approval [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = expiry)]
    approval_timeout: Option<Duration>,
    /// Session in which an "always" approval is valid [default: $TOOLCELL_SESSION, else the terminal session]
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
}

impl ApprovalOptions {
    pub(crate) fn session(&self) -> Option<String> {
        let named = self
            .session
            .clone()
            .or_else(|| std::env::var(SESSION_VARIABLE).ok());
        named.filter(|name| !name.is_empty())
    }

    pub(crate) fn call_session(&self) -> Session {
        self.session().map_or(Session::Terminal, Session::Named)
    }

    /// `configured` is from the configuration.
    pub(crate) fn expire(&self, configured: Option<Duration>) -> Duration {
        self.approval_timeout
            .or(configured)
            .unwrap_or(EXPIRE_DEFAULT)
    }
}

/// The shortest time that a question may stay open; `None` if no file says.
pub(crate) fn expiry_of_files(layers: &ConfigLayers) -> Result<Option<Duration>, Refusal> {
    let mut shortest = None;
    for layer in layers.files() {
        let said = configured_expiry(&layer.file).map_err(|error| {
            config::policy_unreadable(format!(
                "all calls are refused, because the policy cannot be read: {error}"
            ))
        })?;
        shortest = [shortest, said].into_iter().flatten().min();
    }
    Ok(shortest)
}

/// `None` if the file does not say.
fn configured_expiry(file: &ConfigFile) -> Result<Option<Duration>, String> {
    let read = |word: &ConfigText| {
        expiry(word).map_err(|error| {
            format!(
                "{}: [approvals] timeout = {word:?}: {error}",
                file.place_of(word)
            )
        })
    };
    file.approvals.timeout.as_ref().map(read).transpose()
}

fn expiry(text: &str) -> Result<Duration, String> {
    let wanted = duration(text)?;
    if wanted <= EXPIRE_MAX {
        Ok(wanted)
    } else {
        Err(format!(
            "a question can stay open for {} hours at the most",
            EXPIRE_MAX.as_secs() / 3_600
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use clap::{Args, Command};
    use toolcell::{GrantWord, Limits};
    use toolcell_config::{ConfigFile, GivenLimits};

    use super::{GrantOptions, LimitOptions, configured_expiry};

    fn file(text: &str) -> ConfigFile {
        ConfigFile::parse(text, Path::new("/")).unwrap()
    }

    fn options<T: Args>() -> Vec<String> {
        let command = T::augment_args(Command::new("t"));
        command
            .get_arguments()
            .filter_map(|argument| Some(format!("--{}", argument.get_long()?)))
            .collect()
    }

    fn typed<T: Args>(option: &str) -> T {
        let matches = T::augment_args(Command::new("t"))
            .try_get_matches_from(["t", option])
            .unwrap();
        T::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn a_question_stays_open_for_a_time_that_has_an_end() {
        let of =
            |text: &str| configured_expiry(&file(&format!("[approvals]\ntimeout = {text:?}\n")));
        assert_eq!(of("10m").unwrap(), Some(Duration::from_secs(600)));
        assert_eq!(configured_expiry(&ConfigFile::default()).unwrap(), None);
        for wrong in ["", "soon", "0s", "10", "99999m"] {
            let error = of(wrong).unwrap_err();
            assert!(
                error.contains("line 2: [approvals] timeout"),
                "{wrong}: {error}"
            );
        }
    }

    #[test]
    fn each_grant_is_an_option_and_an_entry_of_a_file() {
        let mut known = options::<GrantOptions>();
        known.retain(|option| option.starts_with("--allow-") || option.starts_with("--deny-"));
        known.sort();
        let mut words = GrantWord::ALL.map(GrantWord::option);
        words.sort_unstable();
        assert_eq!(known, words);
        for word in GrantWord::ALL {
            let options: GrantOptions = typed(&format!("{}=x", word.option()));
            let file = file(&format!("[grants]\n{} = [\"x\"]\n", word.entry()));
            for other in GrantWord::ALL {
                let expected: &[&str] = if other == word { &["x"] } else { &[] };
                assert_eq!(options.specs(other), expected, "{word:?}, {other:?}");
                let specs: Vec<&str> = file
                    .grants
                    .specs(other)
                    .iter()
                    .map(|spec| &**spec)
                    .collect();
                assert_eq!(specs, expected, "{word:?}, {other:?}");
            }
        }
    }

    #[test]
    fn each_limit_means_the_same_as_an_option_and_in_a_file() {
        let mut known = Vec::new();
        for (entry, value) in [
            ("timeout", "\"7s\""),
            ("fuel", "7"),
            ("cpu", "\"7s\""),
            ("memory", "\"7MiB\""),
            ("max_output", "\"7KiB\""),
            ("max_disk", "\"7GiB\""),
            ("max_artifact_bytes", "\"7GiB\""),
        ] {
            let option = format!("--{}", entry.replace('_', "-"));
            let options: LimitOptions = typed(&format!("{option}={}", value.trim_matches('"')));
            let given = options.given().over(Limits::default());
            assert_ne!(given, Limits::default(), "{option}");
            let said =
                GivenLimits::of_file(&file(&format!("[limits]\n{entry} = {value}\n"))).unwrap();
            assert_eq!(given, said.over(Limits::default()), "{entry}");
            known.push(option);
        }
        assert_eq!(options::<LimitOptions>(), known);
    }
}
