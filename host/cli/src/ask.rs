//! The approver of the calls that this program makes, and the data with which another process can repeat a call.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcell::{Approver, Prompt, Reply, Respondent};
use toolcell_system::BoxFuture;

use super::options::{CallOptions, GrantOptions, LimitOptions, PolicyOptions};
use super::protected_sources::{CommandFiles, KeptFile, absolute};
use super::show;
use super::terminal::Terminal;

/// The environment variable that names the caller for the record. The named caller cannot approve its own calls.
pub(crate) const ACTOR_VARIABLE: &str = "TOOLCELL_ACTOR";

/// The name of the caller, if it is known.
pub(crate) fn actor() -> Option<String> {
    std::env::var(ACTOR_VARIABLE)
        .ok()
        .filter(|actor| !actor.is_empty())
}

/// The name of the approver: the same name if it is set, else the system user.
pub(crate) fn principal() -> String {
    actor().unwrap_or_else(|| format!("user:{}", rustix::process::getuid().as_raw()))
}

/// The user at the terminal; without a terminal, an announcement of how to answer from another process.
pub(crate) fn approver() -> Arc<dyn Approver> {
    match Terminal::if_there(principal()) {
        Some(terminal) => Arc::new(terminal),
        None => Arc::new(Announcer(principal())),
    }
}

/// The user at the terminal, who also answers the questions of tools.
pub(crate) fn respondent() -> Option<Arc<dyn Respondent>> {
    Some(Arc::new(Terminal::if_there(principal())?))
}

/// Prints on standard error what waits and how to answer it. For servers, whose terminal, if any, is their client's.
pub(crate) fn announce(prompt: &Prompt) {
    show::say(prompt.text());
    show::say(&elsewhere(prompt));
}

/// Prints on standard error what waits and how to answer it; never answers.
struct Announcer(String);

impl Approver for Announcer {
    fn principal(&self) -> &str {
        &self.0
    }

    fn channel(&self) -> &str {
        "none"
    }

    fn ask<'a>(&'a self, prompt: &'a Prompt) -> BoxFuture<'a, Option<Reply>> {
        announce(prompt);
        Box::pin(async { None })
    }
}

/// How to answer from another process.
pub(crate) fn elsewhere(prompt: &Prompt) -> String {
    let id = prompt.invocation_id();
    format!(
        "waiting for approval; answer with `toolcell approvals approve {id}` or `toolcell approvals deny {id}`"
    )
}

/// The data with which another process can repeat a request: its options as they were typed, without any values.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Origin {
    /// The component's file.
    pub(crate) component: PathBuf,
    /// The folder that relative paths start in.
    pub(crate) cwd: PathBuf,
    pub(crate) grants: GrantOptions,
    pub(crate) limits: LimitOptions,
    pub(crate) policy: PolicyOptions,
    /// The source folders of the command's tools, which no tool may change.
    pub(crate) sources: Vec<PathBuf>,
    /// The components of the tools that the tool may call.
    #[serde(default)]
    pub(crate) callable: Vec<PathBuf>,
    /// The files that the command line names, and that are closed to tools.
    #[serde(default)]
    pub(crate) kept: Vec<KeptFile>,
    /// The role of the callers, if the command line named it: it restricts which tools can be called.
    #[serde(default)]
    pub(crate) role: Option<String>,
}

impl Origin {
    pub(crate) fn new(component: &Path, named: &CommandFiles, options: &CallOptions) -> Self {
        let CallOptions {
            grants,
            limits,
            policy,
        } = options.clone();
        Self {
            sources: named.sources.clone(),
            callable: Vec::new(),
            kept: named.files.clone(),
            component: absolute(component),
            role: None,
            cwd: std::env::current_dir().unwrap_or_default(),
            grants,
            limits,
            policy,
        }
    }

    /// The stored form; `None` if a path is not Unicode, which cannot be stored.
    pub(crate) fn words(&self) -> Option<Arc<Value>> {
        serde_json::to_value(self).ok().map(Arc::new)
    }
}

/// The data of each tool of one command. It is the same but for the component, so only that is made for each: a server may
/// have thousands of tools.
pub(crate) struct Origins(Option<Value>);

impl Origins {
    pub(crate) fn new(named: &CommandFiles, options: &CallOptions, role: Option<&String>) -> Self {
        let origin = Origin {
            role: role.cloned(),
            ..Origin::new(Path::new(""), named, options)
        };
        Self(serde_json::to_value(origin).ok())
    }

    /// As [`Origin::words`], for the tool in the file `component`.
    pub(crate) fn words(&self, component: &Path) -> Option<Arc<Value>> {
        let mut words = self.0.clone()?;
        *words.get_mut("component")? = serde_json::to_value(absolute(component)).ok()?;
        Some(Arc::new(words))
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use clap::Parser;

    use super::{CallOptions, CommandFiles, KeptFile, Origin, Origins};

    #[derive(Parser)]
    struct Options {
        #[command(flatten)]
        call: CallOptions,
    }

    #[test]
    fn the_tools_of_a_command_have_the_data_that_each_would_have_alone() {
        let options = Options::parse_from(["toolcell", "--allow-read=/data"]).call;
        let files = vec![KeptFile::shut(Path::new("/tokens"), "tokens")];
        let named = CommandFiles {
            sources: vec![PathBuf::from("/tools/a")],
            files,
        };
        let origins = Origins::new(&named, &options, None);
        for file in ["b.wasm", "/tools/c.wasm"] {
            let alone = Origin::new(Path::new(file), &named, &options).words();
            let words = origins.words(Path::new(file));
            assert!(words.is_some());
            assert_eq!(
                words.map(|words| words.to_string()),
                alone.map(|words| words.to_string())
            );
        }
    }
}
