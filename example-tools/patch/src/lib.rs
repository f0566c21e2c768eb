//! Applies a unified diff to files, completely or not at all.

mod apply;
mod parse;
mod place;
mod placement;
mod search;
mod write;

#[cfg(test)]
mod tests;

use parse::FilePatch;
use search::Work;
use toolcell_guest::{Output, ToolError, data, tool, toolkit};
use write::Change;

#[data]
struct Patch {
    /// The folder that the paths in the diff start from, or the one file that the diff is about.
    #[serde(default = "here")]
    path: String,
    /// A unified diff, as `diff -u` and `git diff` write it, for one file or several. `@@` alone may begin a hunk.
    diff: String,
}

fn here() -> String {
    ".".to_owned()
}

#[data]
struct Patched {
    files: Vec<Summary>,
    /// Lines added, in all files.
    added: u32,
    /// Lines removed, in all files.
    removed: u32,
}

#[data]
struct Summary {
    path: String,
    action: Action,
    added: u32,
    removed: u32,
    hunks: u32,
    /// Hunks that were found at other lines than their headers say.
    #[serde(default, skip_serializing_if = "is_zero")]
    moved: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[data]
#[derive(Clone, Copy, Debug, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Action {
    Created,
    Modified,
    Deleted,
}

/// Applies a unified diff to files.
///
/// Context lines must match the file exactly. The numbers of a `@@` line may be wrong or missing if the lines of the hunk
/// occur in one place only. If any hunk does not apply, nothing is written. The diff can create (`--- /dev/null`) and
/// delete (`+++ /dev/null`) files, but not rename them or patch binary files.
#[tool(
    kind = "file_operation",
    search_hint = "apply patch unified diff edit files",
    access = ["file_read", "file_write"],
    write_effects = ["local_persistent"],
    risk = "medium",
    paths = ["path"],
    content = ["text", "diff"],
    read_only = false,
    destructive,
    validate = is_readable
)]
fn patch(input: Patch) -> Result<Output<Patched>, ToolError> {
    let patches = parse::parse(&input.diff)?;
    // Every hunk of every file must find its place before anything is written.
    let mut work = Work::new();
    let changes = patches
        .iter()
        .map(|patch| plan(&input.path, patch, &mut work))
        .collect::<Result<Vec<_>, _>>()?;
    write::commit(&changes)?;
    Ok(render(&changes))
}

/// Checks, before an approver is asked, that the diff can be parsed and stays inside the folder.
fn is_readable(input: &Patch) -> Result<(), ToolError> {
    for patch in parse::parse(&input.diff)? {
        place::inside(&patch.path)?;
    }
    Ok(())
}

fn plan(base: &str, patch: &FilePatch, work: &mut Work) -> Result<Change, ToolError> {
    let target = place::find(base, patch)?;
    let before = place::read(&target, patch.action)?;
    let applied = apply::apply(
        &target.name,
        before.as_deref().unwrap_or_default(),
        &patch.hunks,
        work,
    )?;
    if patch.action == Action::Deleted && !applied.text.is_empty() {
        let message = format!(
            "{}: the diff deletes the file, but does not remove all of its lines",
            target.name
        );
        return Err(ToolError::invalid_arguments("deletes_too_little", message));
    }
    Ok(Change {
        name: target.name,
        path: target.path,
        action: patch.action,
        before,
        applied,
    })
}

fn render(changes: &[Change]) -> Output<Patched> {
    let files: Vec<Summary> = changes.iter().map(summary).collect();
    let (added, removed) = files.iter().fold((0, 0), |sum, file| {
        (sum.0 + file.added, sum.1 + file.removed)
    });
    let lines: Vec<String> = files.iter().map(line).collect();
    let mut output = Output::new()
        .text(lines.join("\n"))
        .ui_summary(format!(
            "{} files changed, +{added} -{removed}",
            files.len()
        ))
        .structured(Patched {
            files,
            added,
            removed,
        });
    for change in changes {
        output = output.diff(&change.name, change.diff());
    }
    output
}

fn summary(change: &Change) -> Summary {
    Summary {
        path: change.name.clone(),
        action: change.action,
        added: change.applied.added,
        removed: change.applied.removed,
        hunks: change.applied.hunks,
        moved: change.applied.moved,
    }
}

fn line(file: &Summary) -> String {
    let action = match file.action {
        Action::Created => "created",
        Action::Modified => "modified",
        Action::Deleted => "deleted",
    };
    let moved = match file.moved {
        0 => String::new(),
        moved => format!(
            ", {moved} of {} hunks at other lines than the diff says",
            file.hunks
        ),
    };
    format!(
        "{action} {} (+{} -{}{moved})",
        file.path, file.added, file.removed
    )
}

toolkit! { namespace: "patch", tools: [patch] }
