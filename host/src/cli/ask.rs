//! Who is asked when a call of this program needs an approval, and how the call can be made again without it.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::host::{Approver, Prompt, Reply, Respondent};

use super::options::{GrantOptions, LimitOptions, PolicyOptions};
use super::show;
use super::terminal::Terminal;

/// Names who calls, for the record: who is named here cannot approve what they call.
pub(super) const ACTOR_VARIABLE: &str = "TOOLCELL_ACTOR";

/// Who calls, if that is known.
pub(super) fn actor() -> Option<String> {
    std::env::var(ACTOR_VARIABLE).ok().filter(|actor| !actor.is_empty())
}

/// Who answers: the same name where there is one, else the user of the system.
pub(super) fn principal() -> String {
    actor().unwrap_or_else(|| format!("user:{}", rustix::process::getuid().as_raw()))
}

/// Whoever sits at the terminal; without one, whoever answers from another process.
pub(super) fn approver() -> Arc<dyn Approver> {
    match Terminal::if_there(principal()) {
        Some(terminal) => Arc::new(terminal),
        None => Arc::new(Announcer(principal())),
    }
}

/// Whoever sits at the terminal answers what tools ask, too.
pub(super) fn respondent() -> Option<Arc<dyn Respondent>> {
    Some(Arc::new(Terminal::if_there(principal())?))
}

/// Says on standard error what waits, and how to answer it: for servers, whose terminal, if any, is their client's.
pub(super) fn announce(prompt: &Prompt) {
    show::say(prompt.text());
    show::say(&elsewhere(prompt));
}

/// Says on standard error that something waits, and how to answer it. It never answers.
struct Announcer(String);

impl Approver for Announcer {
    fn principal(&self) -> &str {
        &self.0
    }

    fn channel(&self) -> &str {
        "none"
    }

    fn ask<'a>(&'a self, prompt: &'a Prompt) -> Pin<Box<dyn Future<Output = Option<Reply>> + Send + 'a>> {
        announce(prompt);
        Box::pin(async { None })
    }
}

/// How to answer from another process.
pub(super) fn elsewhere(prompt: &Prompt) -> String {
    let id = prompt.invocation_id();
    format!("waiting for an answer: toolcell approvals approve {id}, or toolcell approvals deny {id}")
}

/// What it takes to make the same request again in another process: the words of the first one, no values.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Origin {
    /// The component's file.
    pub(super) component: PathBuf,
    /// The folder that relative paths start in.
    pub(super) cwd: PathBuf,
    pub(super) grants: GrantOptions,
    pub(super) limits: LimitOptions,
    pub(super) policy: PolicyOptions,
    /// The source folders of the command's tools, which no tool may change.
    pub(super) sources: Vec<PathBuf>,
}

impl Origin {
    pub(super) fn new(
        component: &Path,
        sources: &[PathBuf],
        (grants, limits, policy): (&GrantOptions, &LimitOptions, &PolicyOptions),
    ) -> Self {
        Self {
            sources: sources.to_vec(),
            component: std::path::absolute(component).unwrap_or_else(|_| component.to_owned()),
            cwd: std::env::current_dir().unwrap_or_default(),
            grants: grants.clone(),
            limits: limits.clone(),
            policy: policy.clone(),
        }
    }

    /// The form in which it is stored; nothing where a path is not Unicode, and so cannot be.
    pub(super) fn words(&self) -> Option<Arc<Value>> {
        serde_json::to_value(self).ok().map(Arc::new)
    }
}
