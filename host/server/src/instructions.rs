use std::path::Path;

use toolcell::Grants;
use toolcell_policy::FolderGrant;

use super::ServerTools;

/// The text is part of every conversation.
const NAMED_MAX: usize = 20;

const WORKSPACE: &str = "- files that stay from call to call: in /workspace, where relative paths start; read and written";

/// The client's model cannot guess where tools may read, write and send requests, and would try it in calls that fail.
pub(super) fn instructions(offering: &ServerTools) -> String {
    let grants = &*offering.tools.grants;
    let folders = |folders: &[FolderGrant]| listed(folders.iter().map(|grant| grant.guest.clone()));
    let has_workspace = offering.workspaces.is_some();
    let mut lines =
        vec!["The tools run in a sandbox. A call gets what its tool declares, of this:".to_owned()];
    lines.extend(match (grants.read.as_slice(), grants.write.as_slice()) {
        ([], []) if has_workspace => None,
        ([], []) => Some("- files: none".to_owned()),
        (read, []) => Some(format!(
            "- files: may be read in {}; writing is not allowed",
            folders(read)
        )),
        ([], write) => Some(format!(
            "- files: may be read and written in {}",
            folders(write)
        )),
        (read, write) => Some(format!(
            "- files: may be read in {}; read and written in {}",
            folders(read),
            folders(write)
        )),
    });
    if has_workspace {
        lines.push(WORKSPACE.to_owned());
    } else {
        lines.extend(start(grants));
    }
    lines.push(if grants.network.is_empty() {
        "- requests: none".to_owned()
    } else {
        format!("- requests: to {}", listed(grants.network.targets()))
    });
    lines.join("\n")
}

/// `None` if relative paths do not start in one folder for all tools.
fn start(grants: &Grants) -> Option<String> {
    let mut folders = grants.folders();
    let holds = |grant: &FolderGrant, place: &Path| place.starts_with(&grant.host);
    let cwd = grants.cwd.as_deref();
    if let Some((cwd, grant)) =
        cwd.and_then(|cwd| Some((cwd, grants.folders().find(|grant| holds(grant, cwd))?)))
    {
        let place = Path::new(&grant.guest).join(cwd.strip_prefix(&grant.host).ok()?);
        return Some(format!("- relative paths start in {}", place.display()));
    }
    let only = folders.next()?;
    folders
        .all(|other| other.guest == only.guest)
        .then(|| format!("- relative paths start in {}", only.guest))
}

fn listed(mut names: impl Iterator<Item = String>) -> String {
    let shown: Vec<String> = names.by_ref().take(NAMED_MAX).collect();
    match names.count() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
