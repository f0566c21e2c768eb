use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::Deserialize;
use toolcell_policy::GrantWord;
use toolcell_spec::text::{Whitespace, visible};

use super::cluster::ClusterSection;
use super::config_text::{self, ConfigText, line};
use super::declared::{self, DeclaredTool};
use super::issuer::IssuerSection;
use super::ownership;
use super::principal::PrincipalEntry;
use super::registry::RegistrySection;
use super::server::ServerSection;
use super::signers::TrustSection;
use super::surface::SurfaceSection;
use super::telemetry::TelemetrySection;
use super::tool_config::ToolConfig;
use super::units::size;

/// Maximum size of a configuration file, in bytes; a larger one is rejected before it is parsed.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Maximum length of what is said about a file that is not trusted, in characters, because it can quote the file.
const PROBLEM_CHARS_MAX: usize = 200;

/// A `toolcell.toml` as it is written, not yet interpreted. An unknown field is an error, so that a misspelled denial
/// is not ignored.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConfigFile {
    /// `default`, `non_interactive` or `plan`.
    pub mode: Option<ConfigText>,
    pub grants: GrantSection,
    pub limits: LimitSection,
    pub approvals: ApprovalSection,
    pub cache: CacheSection,
    pub cluster: ClusterSection,
    pub compile: CompileSection,
    pub log: JournalSection,
    pub registry: RegistrySection,
    pub results: ResultSection,
    pub retry: RetrySection,
    pub server: ServerSection,
    pub surface: SurfaceSection,
    pub telemetry: TelemetrySection,
    pub workspace: WorkspaceSection,
    #[serde(rename = "rule")]
    pub rules: Vec<RuleEntry>,
    #[serde(rename = "principal")]
    pub principals: Vec<PrincipalEntry>,
    #[serde(rename = "hook")]
    pub hooks: Vec<HookEntry>,
    #[serde(rename = "tool")]
    pub tools: Vec<ToolEntry>,
    #[serde(rename = "issuer")]
    pub issuers: Vec<IssuerSection>,
    pub signer: Vec<TrustSection>,
    /// The trusted root of a private sigstore deployment: a file in JSON. An error in a project's file.
    pub trusted_root: Option<ConfigText>,
    /// `[tools]`: names, and what `toolcell install` installs under them: a reference, or
    /// `{ reference = "..", allow_unsigned = true }`.
    #[serde(rename = "tools", deserialize_with = "declared::by_name")]
    pub declared: BTreeMap<String, DeclaredTool>,
    /// The folder in which relative paths of this file start.
    #[serde(skip)]
    pub folder: PathBuf,
    /// The path of the file.
    #[serde(skip)]
    pub path: PathBuf,
    #[serde(skip)]
    text: String,
}

/// `[grants]`: the same words as the options of the command line.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GrantSection {
    /// Folders to read, such as `src` or `HOST=GUEST`; relative paths start at this file.
    pub read: Vec<ConfigText>,
    /// Folders to read and write.
    pub write: Vec<ConfigText>,
    /// Names of environment variables.
    pub env: Vec<ConfigText>,
    /// Hosts, such as `api.example.com`, `*.example.com` or `GET+HEAD@HOST`.
    pub net: Vec<ConfigText>,
    /// Secrets and the only origin of each, as `NAME@https://HOST`.
    pub secret: Vec<ConfigText>,
    /// Tools that a tool may call, such as `files.*`.
    pub tool: Vec<ConfigText>,
    /// Paths that stay closed to readers.
    pub deny_read: Vec<ConfigText>,
    /// Paths that stay closed to writers.
    pub deny_write: Vec<ConfigText>,
    /// Hosts that no request reaches.
    pub deny_net: Vec<ConfigText>,
}

impl GrantSection {
    /// The grants or denials of one kind.
    pub fn specs(&self, word: GrantWord) -> &[ConfigText] {
        match word {
            GrantWord::Read => &self.read,
            GrantWord::Write => &self.write,
            GrantWord::Env => &self.env,
            GrantWord::DenyRead => &self.deny_read,
            GrantWord::DenyWrite => &self.deny_write,
            GrantWord::Net => &self.net,
            GrantWord::Secret => &self.secret,
            GrantWord::Tool => &self.tool,
            GrantWord::DenyNet => &self.deny_net,
        }
    }
}

/// `[limits]`: the same words as the options of the command line.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitSection {
    /// Wall time of a call, such as `10s`.
    pub timeout: Option<ConfigText>,
    /// CPU budget of a call, in units of fuel.
    pub fuel: Option<u64>,
    /// CPU time of a call, such as `30s`, of a tool with `meter = "time"`.
    pub cpu: Option<ConfigText>,
    /// Memory of a call, such as `256MiB`; a size without a unit is in bytes.
    #[serde(deserialize_with = "config_text::size")]
    pub memory: Option<ConfigText>,
    /// Memory of all calls of a server together.
    #[serde(deserialize_with = "config_text::size")]
    pub memory_total: Option<ConfigText>,
    /// Size of what a tool returns, such as `8MiB`.
    #[serde(deserialize_with = "config_text::size")]
    pub max_output: Option<ConfigText>,
    /// Size of what a call writes to files, such as `1GiB`.
    #[serde(deserialize_with = "config_text::size")]
    pub max_disk: Option<ConfigText>,
    /// Size of the files that a tool answers with, such as `1GiB`.
    #[serde(deserialize_with = "config_text::size")]
    pub max_artifact_bytes: Option<ConfigText>,
}

/// `[approvals]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ApprovalSection {
    /// How long a question stays open, such as `10m`.
    pub timeout: Option<ConfigText>,
    /// `false`: no question is sent through a client of a server.
    pub elicitation: Option<bool>,
    /// `wait` or `return`: what happens to a call whose client cannot ask its user.
    pub if_client_cannot_ask: Option<ConfigText>,
}

/// `[cache]`: an error in any file but the user's own.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CacheSection {
    /// Maximum size of compiled code and unpacked files of components on disk, such as `2GiB`.
    #[serde(deserialize_with = "config_text::size")]
    pub max: Option<ConfigText>,
}

/// `[compile]`: an error in any file but the user's own.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CompileSection {
    /// CPU time limit of one compilation, for each started 64 MiB of the component, such as `2m`.
    pub time: Option<ConfigText>,
    /// Address space limit of one compilation, likewise, such as `3GiB`.
    #[serde(deserialize_with = "config_text::size")]
    pub memory: Option<ConfigText>,
    /// Maximum size of a component, such as `128MiB`.
    pub size: Option<ConfigText>,
}

/// `[log]`: an error in any file but the user's own.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JournalSection {
    /// `all`, `failures` or `none`.
    pub keep: Option<ConfigText>,
    /// `normal` or `full`: whether a call waits until the disk has its record.
    pub durability: Option<ConfigText>,
    /// Maximum size of the log of calls on disk, such as `1GiB`.
    #[serde(deserialize_with = "config_text::size")]
    pub max: Option<ConfigText>,
    /// Time after which calls are removed from the log, such as `129600m`.
    pub age: Option<ConfigText>,
    /// Maximum size of all payloads on disk, such as `4GiB`; each caller of a server has a share of it.
    #[serde(deserialize_with = "config_text::size")]
    pub payloads: Option<ConfigText>,
    /// `on` or `off`: whether a record has what a replay of its call needs.
    pub replay: Option<ConfigText>,
}

/// `[results]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ResultSection {
    /// A strategy, such as `never_persist`: how outputs are kept at most.
    pub persistence: Option<ConfigText>,
}

/// `[retry]`: which failed calls run again.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetrySection {
    /// Maximum number of attempts of a call, the first included.
    pub attempts: Option<u32>,
    /// Longest wait after the first attempt, such as `200ms`.
    pub backoff: Option<ConfigText>,
    /// Error classes, such as `rate_limited`.
    pub classes: Option<Vec<ConfigText>>,
}

/// `[workspace]`: files that the calls of a server keep, as `/workspace`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkspaceSection {
    /// Whose calls share a workspace: `session`, `principal` (all calls of one caller) or `none`.
    pub per: Option<ConfigText>,
    /// Bytes that a new workspace may take, its snapshots included, such as `1GiB`.
    #[serde(deserialize_with = "config_text::size")]
    pub quota: Option<ConfigText>,
    /// Number of files, folders and links of a new workspace.
    pub max_files: Option<u64>,
    /// A new workspace that is unused for so long is removed, such as `1440m`. For a session it is a day.
    pub ttl: Option<ConfigText>,
    /// If a call does not succeed, the files are put back as they were.
    pub rollback: Option<bool>,
}

/// `[[tool]]`: what `toolcell mcp` and `toolcell serve` offer, and the settings of a tool for all commands.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolEntry {
    /// A .wasm file, a folder of such files, the source folder of a tool, or the name of an installed tool; with `#NAME`
    /// for one of its tools.
    pub component: ConfigText,
    /// Time limit of a call, such as `5s`.
    pub timeout: Option<ConfigText>,
    /// `fuel`, or `time`: the tools of the component are limited by CPU time. They run faster, and a tool that is stopped
    /// is not stopped at the same point each time.
    pub meter: Option<ToolMeter>,
    /// Settings for a component that takes them.
    pub config: Option<ToolConfig>,
}

/// Limits how much a tool computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolMeter {
    Fuel,
    Time,
}

/// `[[rule]]`: every subject that is named must match; patterns may contain `*`, and `**` for paths.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleEntry {
    /// `allow`, `ask` or `deny`.
    pub behavior: ConfigText,
    /// Name of a tool, such as `patch.*`.
    pub tool: Option<ConfigText>,
    /// Namespace of a tool.
    pub namespace: Option<ConfigText>,
    /// `sha256:<hex>` of a component. A tool chooses its own name, but not this.
    pub component: Option<ConfigText>,
    /// Path that an argument names, or that a tool would open. In `deny` and `ask`, `**/NAME` is one in every folder;
    /// another relative path starts at this file, and is an error in your own.
    pub path: Option<ConfigText>,
    /// URL that an argument names, or that a tool requests.
    pub url: Option<ConfigText>,
    /// Resource that an argument names.
    pub resource: Option<ConfigText>,
    /// Command that an argument names, such as `git push*`.
    pub command: Option<ConfigText>,
    /// Id of an operation of another protocol, which an argument names or the tool declares.
    pub native_operation_id: Option<ConfigText>,
    /// Matches tools of at least this risk.
    pub risk: Option<ConfigText>,
    /// The caller, as `actor_ref` of a record has it, such as `token:anna`.
    pub actor: Option<ConfigText>,
    /// Shown to the approver, or to the caller that is refused.
    pub reason: Option<String>,
}

/// `[[hook]]`: a component of the world `hook`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookEntry {
    /// The hook's name in records. Default: the file name of the component.
    pub id: Option<String>,
    /// A .wasm file; in the user's own file also a source folder that is built.
    pub component: PathBuf,
    /// Hook events, such as `pre_tool_use`. Default: all that the component handles.
    #[serde(default)]
    pub events: Vec<String>,
    #[serde(default)]
    pub matcher: HookMatcher,
    /// Higher runs first.
    #[serde(default)]
    pub priority: i64,
    /// Default: `block` before the tool, `warn` after it.
    pub on_failure: Option<OnFailure>,
    /// Time limit of a run, such as `500ms`.
    pub timeout: Option<String>,
    /// Access granted to the hook itself. Default: none.
    #[serde(default)]
    pub grants: GrantSection,
}

/// The calls that a hook runs for. Default: all.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HookMatcher {
    /// Name of a tool, such as `files.*`.
    pub tool: Option<String>,
    /// Namespace of a tool.
    pub namespace: Option<String>,
}

/// The effect of a failed or slow hook on the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The call does not go on, or its output is withheld.
    Block,
    /// The call goes on, and the record says what happened.
    Warn,
}

impl ConfigFile {
    /// Reads `path`, the user's own file; `None` if it does not exist. Fails if it cannot be parsed, or if another user
    /// could have written it.
    pub fn read(path: &Path) -> anyhow::Result<Option<Self>> {
        bytes(path)?
            .map(|bytes| Self::from_bytes(bytes, path))
            .transpose()
    }

    /// Reads `path`, a file that the user named: checks who may write to it, but not who may replace it, which the user has
    /// to know.
    pub fn read_named(path: &Path) -> anyhow::Result<Option<Self>> {
        read(path, OFlags::empty(), FILE_BYTES_MAX, ownership::check)?
            .map(|bytes| Self::from_bytes(bytes, path))
            .transpose()
    }

    /// Parses `bytes`, the content of the file `path`.
    pub fn from_bytes(bytes: Vec<u8>, path: &Path) -> anyhow::Result<Self> {
        let text =
            String::from_utf8(bytes).with_context(|| format!("cannot parse {}", path.display()))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut file = Self::parse(&text, folder)
            .with_context(|| format!("cannot parse {}", path.display()))?;
        path.clone_into(&mut file.path);
        Ok(file)
    }

    /// Parses the text of a file in `folder`.
    pub fn parse(text: &str, folder: &Path) -> anyhow::Result<Self> {
        let mut file: Self = toml::from_str(text).map_err(|error| {
            // No line may be quoted, because headers for a collector are secrets.
            if text.contains("telemetry") && guard!("telemetry_quotes") {
                let at = error.span().map(|span| span.start).unwrap_or_default();
                anyhow!("line {}: {}", line(text.as_bytes(), at), error.message())
            } else {
                error.into()
            }
        })?;
        folder.clone_into(&mut file.folder);
        text.clone_into(&mut file.text);
        Ok(file)
    }

    /// Returns where `word`, a word of this file, is written, for messages: `FILE, line N`.
    pub fn place_of(&self, word: &ConfigText) -> String {
        format!("{}, line {}", self.path.display(), self.line_of(word))
    }

    /// Parses `word`, the value of the setting `name`. An error says where it is written.
    pub(super) fn parsed<T>(
        &self,
        name: &str,
        word: &ConfigText,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> anyhow::Result<T> {
        parse(word).map_err(|why| anyhow!("{}: {name} = {word:?}: {why}", self.place_of(word)))
    }

    /// Replaces `setting` by the value of the setting `name`, if this file has it.
    pub(super) fn set<T>(
        &self,
        setting: &mut T,
        name: &str,
        word: &Option<ConfigText>,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> anyhow::Result<()> {
        if let Some(word) = word {
            *setting = self.parsed(name, word, parse)?;
        }
        Ok(())
    }

    /// Does what [`Self::set`] does for each of several sizes.
    pub(super) fn set_sizes<const N: usize>(
        &self,
        sizes: [(&mut u64, &str, &Option<ConfigText>); N],
    ) -> anyhow::Result<()> {
        let mut sizes = sizes.into_iter();
        sizes.try_for_each(|(setting, name, word)| self.set(setting, name, word, size))
    }

    /// Returns the number of the line in which `word`, a word of this file, is written.
    pub(super) fn line_of(&self, word: &ConfigText) -> usize {
        line(self.text.as_bytes(), word.at)
    }

    /// Returns why the content `bytes` of a file cannot be parsed, in one line, such as `line 3: unknown field`; `None`
    /// if it can. The file is untrusted: what is quoted from it is cut, and escaped for a terminal.
    pub(super) fn problem(bytes: &[u8]) -> Option<String> {
        let (at, why) = match str::from_utf8(bytes) {
            Err(error) => (Some(error.valid_up_to()), "not UTF-8".to_owned()),
            Ok(text) => match toml::from_str::<Self>(text) {
                Ok(_) => return None,
                Err(error) => (
                    error.span().map(|span| span.start),
                    error.message().to_owned(),
                ),
            },
        };
        let why: String = why.chars().take(PROBLEM_CHARS_MAX).collect();
        let place = at
            .map(|at| format!("line {}: ", line(bytes, at)))
            .unwrap_or_default();
        Some(format!("{place}{}", visible(&why, Whitespace::WrittenOut)))
    }
}

/// Reads `path`; `None` if it does not exist. Fails if it has more than 1 MiB, or if a user other than this one and
/// root could have written it or put it there.
pub fn bytes(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    let check = ownership::check_with_folders;
    read(path, OFlags::empty(), FILE_BYTES_MAX, check)
}

/// Like [`bytes()`], for the file of a project, which must not be a symbolic link: trust is for the project that contains
/// the file, and a link would give one project what was granted to another.
pub fn project_bytes(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    if path.is_symlink() && guard!("project_links") {
        let target = path.canonicalize().unwrap_or_default();
        bail!(
            "{} is a link, and the file of a project may be none; --config={} reads what it leads to",
            path.display(),
            target.display(),
        );
    }
    let check = ownership::check_with_folders;
    read(path, OFlags::NOFOLLOW, FILE_BYTES_MAX, check)
}

/// Reads the regular file `path`, which has at most `bytes_max` bytes and passes `check`; `None` if it does not exist.
pub(super) fn read(
    path: &Path,
    flags: OFlags,
    bytes_max: u64,
    check: fn(&Path, &File, &Metadata) -> anyhow::Result<()>,
) -> anyhow::Result<Option<Vec<u8>>> {
    let place = || format!("cannot read {}", path.display());
    // Without NONBLOCK, a named pipe would block the reader.
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT | Errno::NOTDIR) if !path.is_symlink() => return Ok(None),
        Err(error) => return Err(error).with_context(place),
    };
    let metadata = file.metadata().with_context(place)?;
    if !metadata.is_file() {
        bail!("{} is not a regular file", path.display());
    }
    check(path, &file, &metadata)?;
    let mut bytes = Vec::new();
    file.take(bytes_max + 1)
        .read_to_end(&mut bytes)
        .with_context(place)?;
    if bytes.len() as u64 > bytes_max {
        bail!("{} is larger than {bytes_max} bytes", path.display());
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_is_read() {
        let text = r#"
            mode = "non_interactive"
            [grants]
            read = ["src"]
            net = ["https://api.example.com"]
            deny_read = [".secrets"]
            [limits]
            timeout = "5s"
            [approvals]
            timeout = "10m"
            [[rule]]
            behavior = "deny"
            path = "/etc/**"
            reason = "not ours"
            [[hook]]
            component = "audit.wasm"
            events = ["pre_tool_use"]
            matcher = { tool = "files.*" }
            priority = 10
            on_failure = "warn"
        "#;
        let file = ConfigFile::parse(text, Path::new("/project")).unwrap();
        assert_eq!(&*file.grants.read[0], "src");
        assert_eq!(&*file.rules[0].behavior, "deny");
        assert_eq!(file.hooks[0].on_failure, Some(OnFailure::Warn));
        assert_eq!(file.folder, Path::new("/project"));
    }

    #[test]
    fn a_misspelled_field_is_an_error() {
        let wrong = [
            "mod = \"plan\"",
            "[grants]\nraed = []",
            "[[rule]]\nbehavior = \"deny\"\npaht = \"/\"",
        ];
        assert!(
            wrong
                .iter()
                .all(|text| ConfigFile::parse(text, Path::new("/")).is_err())
        );
    }

    #[test]
    fn a_word_is_at_its_own_place_and_not_at_that_of_its_double() {
        let text = "[grants]\nread = [\"src\"]\nwrite = [\n  'lib',\n  \"src\",\n]\n[[rule]]\nbehavior = \"deny\"\n\
                    tool = \"deny\"\n[[tool]]\ncomponent = \"src\"\n";
        let file = ConfigFile::parse(text, Path::new("/")).unwrap();
        let rule = &file.rules[0];
        let words = [
            (&file.grants.read[0], 2),
            (&file.grants.write[0], 4),
            (&file.grants.write[1], 5),
            (&rule.behavior, 8),
            (rule.tool.as_ref().unwrap(), 9),
            (&file.tools[0].component, 11),
        ];
        for (word, line) in words {
            assert!(
                file.place_of(word).ends_with(&format!(", line {line}")),
                "{word:?}: {}",
                file.place_of(word)
            );
        }
    }

    #[test]
    fn what_is_wrong_with_a_file_is_one_short_line_that_controls_nothing() {
        let of = |text: &str| ConfigFile::problem(text.as_bytes()).unwrap();
        assert_eq!(ConfigFile::problem(b"[grants]\nread = []\n"), None);
        assert!(of("\n[grants]\nraed = []\n").starts_with("line 3: unknown field `raed`"));
        assert!(of("mode = \"plan\"\n[grants\n").starts_with("line 2: "));
        assert_eq!(
            ConfigFile::problem(b"\n\n\xff").unwrap(),
            "line 3: not UTF-8"
        );
        let hostile = of("\"\\u001b[2J\\nline 1: all is well\" = 1\n");
        assert!(
            hostile.starts_with("line 1: ") && !hostile.chars().any(char::is_control),
            "{hostile}"
        );
        let long = of(&format!("{} = 1\n", "k".repeat(100_000)));
        assert!(
            long.chars().count() <= PROBLEM_CHARS_MAX + "line 1: ".len(),
            "{}",
            long.len()
        );
    }
}
