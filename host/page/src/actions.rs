//! Actions of the page for its user. The page executes nothing itself: each of these is a command of the program, or a
//! request to the server, with all of their checks.

use serde_json::Value;
use toolcell_spec::InvocationId;
use toolcell_system::BoxFuture;

use crate::layout::PageProblem;

/// The end of an action.
pub type PageFuture<'a, T> = BoxFuture<'a, Result<T, PageProblem>>;

/// Acts for a user of the page.
pub trait PageActions: Send + Sync {
    /// The tools that the user can look at.
    fn tools(&self) -> PageFuture<'_, Vec<ToolRow>>;

    /// The tool, or the tools of the component, that is listed as `name`.
    fn describe<'a>(&'a self, name: &'a str) -> PageFuture<'a, DescribedTool>;

    /// Calls `tool` of what is listed as `name`. The id of the call; `None` for one that takes long and is found in the list.
    fn call<'a>(
        &'a self,
        name: &'a str,
        tool: &'a str,
        input: String,
    ) -> PageFuture<'a, Option<String>>;

    /// Answers the question about a call.
    fn answer(&self, id: InvocationId, answer: PageAnswer) -> PageFuture<'_, ()>;

    /// The grants of a call that is tried, as options of a command; `None` if they cannot be chosen.
    fn grants(&self) -> Option<&[String]>;

    /// A principal's tools, grants, limits and quotas, in words.
    fn facts(&self) -> Vec<(&'static str, String)>;

    /// Further actions; `None` on a server.
    fn commands(&self) -> Option<&dyn PageCommands>;
}

/// Actions of the home's user alone, who can also set rules for a session.
pub trait PageCommands: Send + Sync {
    /// The report on a replay of the call; `None` if it takes long.
    fn replay<'a>(&'a self, id: &'a str) -> PageFuture<'a, Option<Value>>;

    /// Callers of servers with rules of their own, as `toolcell policy principals --json` prints them.
    fn principals(&self) -> PageFuture<'_, Vec<Value>>;

    /// `true` if a cluster is configured.
    fn has_machines(&self) -> bool;

    /// The workers and open calls of the cluster, as `toolcell cluster status --json` prints them.
    fn machines(&self) -> PageFuture<'_, Value>;
}

/// A line of the list of tools.
#[derive(Clone, Debug, Default)]
pub struct ToolRow {
    pub name: String,
    pub version: String,
    /// Where it is from.
    pub reference: String,
    pub signer: String,
    pub state: String,
}

/// One or more tools, in the specification's records.
#[derive(Clone, Debug, Default)]
pub struct DescribedTool {
    pub facts: Vec<(&'static str, String)>,
    pub declarations: Vec<Value>,
    pub permission_profiles: Vec<Value>,
}

/// An answer to a question.
#[derive(Clone, Debug)]
pub struct PageAnswer {
    pub approves: bool,
    /// Other arguments, as JSON.
    pub edit: Option<String>,
    pub feedback: Option<String>,
    pub accept_partial_view: bool,
    /// The same access needs no further approval in this session; for [`PageCommands`].
    pub always: bool,
}
