//! Opens a repository, and finds what a revision names.

use std::error::Error;

use gix::open::Options;
use gix::{Commit, Id, ObjectId, Repository};
use toolcell_guest::ToolError;

const CONFIGURATION: [&str; 4] = [
    // A larger file counts as binary.
    "core.bigFileThreshold=8m",
    // WASI has neither the executable bit nor the time of the last change of a file's metadata.
    "core.fileMode=false",
    "core.trustCtime=false",
    "core.checkStat=minimal",
];
/// Bytes of unpacked trees that are kept for the next commit.
const CACHE_BYTES: usize = 8 << 20;

/// # Errors
///
/// Code `not_a_repository`.
pub(crate) fn open(path: &str) -> Result<Repository, ToolError> {
    // A repository may name programs, such as filters. None of them can be started here.
    let options = Options::isolated().config_overrides(CONFIGURATION);
    let mut repository = gix::open_opts(path, options).map_err(|error| {
        let message = format!("there is no git repository in {path}: {error}");
        ToolError::capability_gap("not_a_repository", message).detail(chain(&error))
    })?;
    repository.object_cache_size(CACHE_BYTES);
    Ok(repository)
}

/// # Errors
///
/// Code `unknown_revision`.
pub(crate) fn id<'a>(repository: &'a Repository, revision: &str) -> Result<Id<'a>, ToolError> {
    repository.rev_parse_single(revision).map_err(|error| {
        let message = format!("{revision} names nothing in this repository: {error}");
        ToolError::invalid_arguments("unknown_revision", message).detail(chain(&error))
    })
}

/// # Errors
///
/// Code `unknown_revision`, also if `revision` names something else than a commit.
pub(crate) fn commit<'a>(
    repository: &'a Repository,
    revision: &str,
) -> Result<Commit<'a>, ToolError> {
    let found = id(repository, revision)?.object().map_err(damaged)?;
    found.peel_to_commit().map_err(|error| {
        let message = format!("{revision} is no commit: {error}");
        ToolError::invalid_arguments("unknown_revision", message)
    })
}

/// Those that are here: in a shallow clone the oldest commits have theirs elsewhere.
pub(crate) fn parents<'a>(commit: &Commit<'a>) -> Result<Vec<Commit<'a>>, ToolError> {
    let shallow = commit.repo.shallow_commits().map_err(damaged)?;
    if shallow.is_some_and(|commits| commits.contains(&commit.id)) {
        return Ok(Vec::new());
    }
    let parents = commit.parent_ids().map(|id| {
        let object = id.object().map_err(damaged)?;
        object.try_into_commit().map_err(damaged)
    });
    parents.collect()
}

/// The commit that is checked out; `None` before the first one.
pub(crate) fn checked_out(repository: &Repository) -> Result<Option<ObjectId>, ToolError> {
    let head = repository.head().map_err(damaged)?;
    if head.is_unborn() {
        return Ok(None);
    }
    Ok(Some(head.into_peeled_id().map_err(damaged)?.detach()))
}

/// The repository cannot be read.
pub(crate) fn damaged(error: impl Error + 'static) -> ToolError {
    let message = format!("the repository cannot be read: {}", chain(&error));
    ToolError::execution_failed("unreadable_repository", message)
}

fn chain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    let mut lines: Vec<String> = causes.map(ToString::to_string).collect();
    lines.retain(|line| !line.is_empty());
    lines.dedup();
    lines.join(": ")
}
