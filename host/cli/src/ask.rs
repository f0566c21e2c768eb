//! The approver of the calls that this program makes, and the data with which another process can repeat a call.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcell::{Approver, Prompt, Reply, Respondent};
use toolcell_system::BoxFuture;

use super::options::CallOptions;
use super::protected_sources::{CommandFiles, absolute};
use super::show;
use super::terminal::Terminal;

/// Names the caller for the record. The named caller cannot approve its own calls.
pub(crate) const ACTOR_VARIABLE: &str = "TOOLCELL_ACTOR";

pub(crate) fn actor() -> Option<String> {
    std::env::var(ACTOR_VARIABLE)
        .ok()
        .filter(|actor| !actor.is_empty())
}

/// The actor if it is set, else the system user.
pub(crate) fn principal() -> String {
    actor().unwrap_or_else(|| format!("user:{}", rustix::process::getuid().as_raw()))
}

/// The user at the terminal, or an announcement of how to answer from another process.
pub(crate) fn approver() -> Arc<dyn Approver> {
    match Terminal::if_there(principal()) {
        Some(terminal) => Arc::new(terminal),
        None => Arc::new(Announcer(principal())),
    }
}

pub(crate) fn respondent() -> Option<Arc<dyn Respondent>> {
    Some(Arc::new(Terminal::if_there(principal())?))
}

/// Servers announce, because a terminal is their client's, if any.
pub(crate) fn announce(prompt: &Prompt) {
    show::say(prompt.text());
    show::say(&elsewhere(prompt));
}

/// Never answers.
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

pub(crate) fn elsewhere(prompt: &Prompt) -> String {
    let id = prompt.invocation_id();
    format!(
        "waiting for approval; answer with `toolcell approvals approve {id}` or `toolcell approvals deny {id}`"
    )
}

/// The data with which another process can repeat a request: its options as typed, without any values.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Origin {
    pub(crate) component: PathBuf,
    /// Relative paths start here.
    pub(crate) cwd: PathBuf,
    pub(crate) options: CallOptions,
    /// No tool may change the sources of the command's tools, and the files that its command line names.
    pub(crate) named: CommandFiles,
    pub(crate) callable: Vec<PathBuf>,
    /// Restricts which tools can be called.
    pub(crate) role: Option<String>,
}

impl Origin {
    pub(crate) fn new(component: &Path, named: &CommandFiles, options: &CallOptions) -> Self {
        Self {
            component: absolute(component),
            cwd: std::env::current_dir().unwrap_or_default(),
            options: options.clone(),
            named: named.clone(),
            callable: Vec::new(),
            role: None,
        }
    }

    /// `None` if a path is not Unicode, which cannot be stored.
    pub(crate) fn words(&self) -> Option<Arc<Value>> {
        serde_json::to_value(self).ok().map(Arc::new)
    }
}
