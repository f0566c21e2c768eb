//! `toolcell workspace`: the files that callers keep between calls.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::{Value, json};
use toolcell::Home;
use toolcell_config::{duration, size};
use toolcell_spec::Refusal;
use toolcell_workspace::{
    Access, ChangeList, FileInfo, Lease, Quota, SnapshotId, SnapshotInfo, Workspace, WorkspaceInfo,
    WorkspaceName, WorkspaceOwner, WorkspaceSettings, Workspaces,
};

use super::exit::{BadRequest, Exit, Stop};
use super::show;

/// While a call uses the workspace.
const PATIENCE: Duration = Duration::from_secs(60);
const FILES_SHOWN: usize = 1_000;

/// Manage workspaces: named trees of files that tools keep between calls (`toolcell call --workspace=NAME`). A tool has the
/// files at /workspace. They never leave their owner: those of a server's callers are not listed here.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  toolcell workspace put report sales.csv\n  \
                  toolcell call example-tools/files#read path=sales.csv --workspace=report\n  \
                  toolcell workspace snapshot report\n  toolcell workspace restore report s1"
)]
pub(super) struct ManageWorkspaces {
    #[command(subcommand)]
    action: Action,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the workspaces
    List,
    /// Create an empty workspace; --workspace and `put` create one with the defaults
    Create(Create),
    /// Show the files and snapshots of a workspace, and what it takes of its quota
    Show { name: WorkspaceName },
    /// Write a file, or the files of a tar archive, into a workspace
    Put(Put),
    /// Read a file, or all files as a tar archive
    Get(Get),
    /// Remove a file or folder from a workspace
    Rm { name: WorkspaceName, path: String },
    /// Show changes from a snapshot to another one, or to now
    Diff {
        name: WorkspaceName,
        from: SnapshotId,
        to: Option<SnapshotId>,
    },
    /// Keep the files as they are now, as a snapshot
    Snapshot {
        name: WorkspaceName,
        /// Name of the snapshot [default: s1, s2 and so on]
        id: Option<SnapshotId>,
    },
    /// Replace the current files with a snapshot's
    Restore { name: WorkspaceName, id: SnapshotId },
    /// Make a new workspace with the files of another, without its snapshots
    Fork {
        name: WorkspaceName,
        new: WorkspaceName,
    },
    /// Remove a workspace, or one of its snapshots
    Remove {
        name: WorkspaceName,
        /// Remove this snapshot alone
        #[arg(long, value_name = "ID")]
        snapshot: Option<SnapshotId>,
    },
}

#[derive(Debug, Args)]
struct Create {
    name: WorkspaceName,
    /// Bytes that the files and snapshots may take [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    quota: Option<u64>,
    /// Number of files, folders and links [default: 100000]
    #[arg(long, value_name = "N")]
    max_files: Option<u64>,
    /// Remove the workspace after this long without use [default: never]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    ttl: Option<Duration>,
}

#[derive(Debug, Args)]
struct Put {
    name: WorkspaceName,
    /// The file, or - for standard input
    file: PathBuf,
    /// Path in the workspace [default: the name of the file]
    path: Option<String>,
    /// FILE is a tar archive; all of its files are added, or none
    #[arg(long, conflicts_with = "path")]
    tar: bool,
}

#[derive(Debug, Args)]
struct Get {
    name: WorkspaceName,
    /// Path in the workspace
    #[arg(required_unless_present = "tar")]
    path: Option<String>,
    /// Read all files, as a tar archive without links
    #[arg(long, conflicts_with = "path")]
    tar: bool,
    /// Write to this new file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Serialize)]
struct WorkspaceListing {
    #[serde(flatten)]
    info: WorkspaceInfo,
    files: Vec<FileInfo>,
    snapshots: Vec<SnapshotInfo>,
}

/// What an action tells: JSON, and lines for people.
struct WorkspaceReport(Value, Vec<String>);

impl WorkspaceReport {
    fn new(value: impl Serialize, lines: impl IntoIterator<Item = String>) -> Self {
        Self(json!(value), lines.into_iter().collect())
    }
}

impl ManageWorkspaces {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let place = Place {
            workspaces: Workspaces::new(home.workspaces()),
            owner: WorkspaceOwner::user(),
        };
        let told = match self.action {
            Action::Get(get) => return get.run(&place, self.json),
            Action::Put(put) => put.run(&place),
            action => place.act(action).map_err(Stop::from),
        };
        match told {
            Ok(WorkspaceReport(value, _)) if self.json => show::print_json(&value),
            Ok(WorkspaceReport(_, lines)) => show::lines(lines),
            Err(stop) => show::refuse(&stop.refusal()?, self.json),
        }
    }
}

struct Place {
    workspaces: Workspaces,
    owner: WorkspaceOwner,
}

impl Place {
    fn act(&self, action: Action) -> Result<WorkspaceReport, Refusal> {
        let Self { workspaces, owner } = self;
        match action {
            Action::List => self.list(),
            Action::Create(create) => {
                workspaces.create(owner, &create.name, &create.settings())?;
                self.show(&create.name)
            }
            Action::Show { name } => self.show(&name),
            Action::Rm { name, path } => {
                let (workspace, lease) = self.open(&name, Access::Write)?;
                workspace.remove_path(&lease, &path)?;
                let line = format!("removed {path}");
                Ok(WorkspaceReport::new(json!({ "removed": path }), [line]))
            }
            Action::Diff { name, from, to } => {
                let (workspace, lease) = self.open(&name, Access::Read)?;
                Ok(changed(&workspace.diff(&lease, &from, to.as_ref())?))
            }
            Action::Snapshot { name, id } => {
                let (workspace, lease) = self.open(&name, Access::Write)?;
                let snapshot = workspace.snapshot(&lease, id)?;
                let line = snapshot_line(&snapshot);
                Ok(WorkspaceReport::new(snapshot, [line]))
            }
            Action::Restore { name, id } => {
                let (workspace, lease) = self.open(&name, Access::Write)?;
                Ok(changed(&workspace.restore(&lease, &id)?))
            }
            Action::Fork { name, new } => {
                workspaces.fork(owner, &name, &new)?;
                self.show(&new)
            }
            Action::Remove { name, snapshot } => self.remove(&name, snapshot.as_ref()),
            // They read and write files besides.
            Action::Put(_) | Action::Get(_) => Err(Refusal::host_fault("not an action of this")),
        }
    }

    fn open(&self, name: &WorkspaceName, access: Access) -> Result<(Workspace, Lease), Refusal> {
        let workspace = self.workspaces.open(&self.owner, name)?;
        let lease = leased(&workspace, access)?;
        Ok((workspace, lease))
    }

    fn list(&self) -> Result<WorkspaceReport, Refusal> {
        let mut infos = Vec::new();
        for workspace in self.workspaces.list(&self.owner)? {
            // One that is removed meanwhile is not listed.
            if let Ok(lease) = leased(&workspace, Access::Read) {
                infos.push(workspace.info(&lease)?);
            }
        }
        let lines: Vec<_> = infos.iter().map(info_line).collect();
        Ok(WorkspaceReport::new(json!({ "workspaces": infos }), lines))
    }

    fn show(&self, name: &WorkspaceName) -> Result<WorkspaceReport, Refusal> {
        let (workspace, lease) = self.open(name, Access::Read)?;
        let listing = WorkspaceListing {
            info: workspace.info(&lease)?,
            files: workspace.files(&lease)?,
            snapshots: workspace.snapshots()?,
        };
        let mut lines = vec![info_line(&listing.info)];
        let files = listing.files.iter().take(FILES_SHOWN);
        lines.extend(files.map(|file| format!("  {:>12}  {}", file.size, file.path)));
        let more = listing.files.len().saturating_sub(FILES_SHOWN);
        if more > 0 {
            lines.push(format!("  and {more} more; --json lists all"));
        }
        let snapshots = listing.snapshots.iter();
        lines.extend(snapshots.map(|snapshot| format!("  {}", snapshot_line(snapshot))));
        Ok(WorkspaceReport::new(listing, lines))
    }

    fn remove(
        &self,
        name: &WorkspaceName,
        snapshot: Option<&SnapshotId>,
    ) -> Result<WorkspaceReport, Refusal> {
        let Some(id) = snapshot else {
            self.workspaces.remove(&self.owner, name)?;
            let line = format!("removed the workspace {name}");
            return Ok(WorkspaceReport::new(json!({ "removed": name }), [line]));
        };
        let (workspace, lease) = self.open(name, Access::Write)?;
        workspace.remove_snapshot(&lease, id)?;
        let line = format!("removed the snapshot {id}");
        Ok(WorkspaceReport::new(json!({ "removed": id }), [line]))
    }
}

impl Create {
    fn settings(&self) -> WorkspaceSettings {
        let default = Quota::default();
        WorkspaceSettings {
            quota: Quota {
                bytes: self.quota.unwrap_or(default.bytes),
                files: self.max_files.unwrap_or(default.files),
            },
            time_to_live: self.ttl,
        }
    }
}

impl Put {
    fn run(&self, place: &Place) -> Result<WorkspaceReport, Stop> {
        let mut from = self.source()?;
        let path = self.path()?;
        path.as_deref().map_or(Ok(()), Workspace::check_path)?;
        let settings = WorkspaceSettings::default();
        let workspaces = &place.workspaces;
        let workspace = workspaces.open_or_create(&place.owner, &self.name, &settings)?;
        let lease = leased(&workspace, Access::Write)?;
        match path {
            None => Ok(changed(&workspace.put_archive(&lease, &mut *from)?)),
            Some(path) => {
                let file = workspace.put(&lease, &path, &mut *from)?;
                let line = format!("wrote {} ({} bytes)", file.path, file.size);
                Ok(WorkspaceReport::new(file, [line]))
            }
        }
    }

    fn source(&self) -> Result<Box<dyn Read>, Stop> {
        if self.file.as_os_str() == "-" {
            return Ok(Box::new(io::stdin().lock()));
        }
        let opened = File::open(&self.file);
        let file = opened
            .map_err(|error| BadRequest(format!("cannot read {}: {error}", self.file.display())))?;
        Ok(Box::new(file))
    }

    /// `None` for an archive.
    fn path(&self) -> Result<Option<String>, Stop> {
        if self.tar || self.path.is_some() {
            return Ok(self.path.clone());
        }
        let name = self.file.file_name().and_then(|name| name.to_str());
        match name.filter(|name| *name != "-") {
            Some(name) => Ok(Some(name.to_owned())),
            None => Err(BadRequest("name the path in the workspace, too".to_owned()).into()),
        }
    }
}

impl Get {
    fn run(&self, place: &Place, as_json: bool) -> anyhow::Result<Exit> {
        let (workspace, lease) = match place.open(&self.name, Access::Read) {
            Ok(opened) => opened,
            Err(refusal) => return show::refuse(&refusal, as_json),
        };
        // Before the file is made: a misspelled path leaves none behind.
        let file = match &self.path {
            Some(path) => match workspace.open_file(&lease, path) {
                Ok((file, _)) => Some(file),
                Err(refusal) => return show::refuse(&refusal, as_json),
            },
            None => None,
        };
        let mut to: Box<dyn io::Write> = match &self.output {
            Some(path) => {
                let made = File::create_new(path);
                Box::new(made.map_err(|error| {
                    BadRequest(format!("cannot create {}: {error}", path.display()))
                })?)
            }
            None => Box::new(io::stdout().lock()),
        };
        match file {
            Some(mut file) => {
                let copied = io::copy(&mut file, &mut to).and_then(|_| to.flush());
                show::done(copied, Exit::Succeeded)
            }
            None => match workspace.write_archive(&lease, &mut to) {
                Ok(()) => Ok(Exit::Succeeded),
                Err(refusal) => show::refuse(&refusal, as_json),
            },
        }
        .context("cannot write the content")
    }
}

fn leased(workspace: &Workspace, access: Access) -> Result<Lease, Refusal> {
    if let Some(lease) = workspace.try_lock(access)? {
        return Ok(lease);
    }
    show::say(&format!(
        "waiting for a call that uses the workspace {}",
        workspace.name()
    ));
    workspace.lock(access, PATIENCE)
}

fn info_line(info: &WorkspaceInfo) -> String {
    format!(
        "{:<24} {} files, {} of {} bytes, {} snapshots, used {}",
        info.name,
        info.usage.files,
        info.usage.bytes.saturating_add(info.snapshot_bytes),
        info.quota.bytes,
        info.snapshot_count,
        info.used_at,
    )
}

fn snapshot_line(snapshot: &SnapshotInfo) -> String {
    format!(
        "snapshot {}: {} files, {} bytes, {}",
        snapshot.id, snapshot.usage.files, snapshot.usage.bytes, snapshot.created_at
    )
}

fn changed(changes: &ChangeList) -> WorkspaceReport {
    let mut lines = show::change_lines(changes);
    if lines.is_empty() {
        lines.push("nothing changed".to_owned());
    }
    WorkspaceReport::new(changes, lines)
}
