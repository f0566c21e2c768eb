use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde_json::json;
use toml::{Table, Value};
use toolcell::Home;
use toolcell_config::{self as config, ConfigLayers, ProjectFile, ProjectFiles, TrustStore};

use super::exit::{BadRequest, Exit};
use super::{options, serving, show};

/// Trusts the toolcell.toml and the toolcell.local.toml of a project, and the hooks that they name, as they are now.
#[derive(Debug, Args)]
pub(super) struct TrustProject {
    /// The folder of the project, or one below it
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Stop trusting the files; calls from that project are refused until you trust them again
    #[arg(long)]
    revoke: bool,
}

impl TrustProject {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        if self.revoke {
            revoke(&self.dir)
        } else {
            trust(&self.dir)
        }
    }
}

/// A change of the files, or of the hooks that they name, needs new trust.
fn trust(dir: &Path) -> anyhow::Result<Exit> {
    let home = Home::find()?;
    let project = project_files(dir)?;
    let mut files = Vec::new();
    for (source, path) in project.sources() {
        if let Some(bytes) = config::project_bytes(path).map_err(BadRequest::from_error)? {
            let path = path
                .canonicalize()
                .with_context(|| format!("cannot find {}", path.display()))?;
            files.push(ProjectFile {
                source,
                path,
                bytes,
            });
        }
    }
    // A file that refuses every call is not worth trusting.
    let (layers, trusted) =
        ConfigLayers::of_project(&home, &files).map_err(BadRequest::from_error)?;
    let understood = options::expiry_of_files(&layers).and_then(|_| serving::understands(&layers));
    understood.map_err(|refusal| BadRequest(refusal.message))?;
    let trust = TrustStore::at(home.trusted());
    let mut lines = Vec::new();
    for (file, trusted) in files.iter().zip(&trusted) {
        let before = trust.content(&file.path)?;
        trust.add(&file.path, &file.bytes, trusted)?;
        lines.push(format!("trusted: {}", file.path.display()));
        lines.extend(marked(before, &file.bytes));
    }
    show::lines(lines)
}

fn revoke(dir: &Path) -> anyhow::Result<Exit> {
    let trust = TrustStore::at(Home::find()?.trusted());
    let project = project_files(dir)?;
    let mut lines = Vec::new();
    for (_, path) in project.sources() {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let said = if trust.remove(&path)? {
            "no longer trusted"
        } else if path.exists() {
            "was not trusted"
        } else {
            continue;
        };
        lines.push(format!("{said}: {}", path.display()));
    }
    show::lines(lines)
}

fn project_files(dir: &Path) -> anyhow::Result<ProjectFiles> {
    let folder = dir
        .canonicalize()
        .map_err(|error| BadRequest(format!("cannot find {}: {error}", dir.display())))?;
    let missing = || {
        BadRequest(format!(
            "there is no {} or {} in {} or above it",
            toolcell_config::FILE_NAME,
            toolcell_config::LOCAL_FILE_NAME,
            folder.display()
        ))
    };
    Ok(ProjectFiles::find(&folder).ok_or_else(missing)?)
}

/// One line a word, in the file's own words: no setting can be left out.
fn settings(bytes: &[u8]) -> Vec<String> {
    let table: Table = str::from_utf8(bytes)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_default();
    let mut lines = Vec::new();
    for (name, value) in &table {
        match value {
            Value::Table(section) => {
                section
                    .iter()
                    .for_each(|(word, value)| lines.extend(each(&format!("{name}.{word}"), value)));
            }
            value => lines.extend(each(name, value)),
        }
    }
    lines
}

fn each(name: &str, value: &Value) -> Vec<String> {
    match value {
        Value::Array(values) => values
            .iter()
            .map(|value| format!("{name}: {}", json!(value)))
            .collect(),
        value => vec![format!("{name}: {}", json!(value))],
    }
}

/// Marks with `+` and `-` where the settings differ from those trusted as `before`.
fn marked(before: Option<Vec<u8>>, now: &[u8]) -> Vec<String> {
    let now = settings(now);
    let before = before.map_or_else(|| now.clone(), |before| settings(&before));
    let gone = before
        .iter()
        .filter(|line| !now.contains(line))
        .map(|line| format!("- {line}"));
    let mark = |line: &String| format!("{} {line}", if before.contains(line) { ' ' } else { '+' });
    gone.chain(now.iter().map(mark)).collect()
}
