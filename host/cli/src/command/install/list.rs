use clap::Args;
use serde_json::json;
use toolcell::{Home, Refusal};
use toolcell_engine::approval::legible;
use toolcell_install::lock::{FILE_NAME, LockEntry};
use toolcell_install::lock_location::{InstalledTools, LockLocation};
use toolcell_install::store;
use toolcell_spec::ErrorCode;

use super::super::bundled;
use super::super::exit::Exit;
use super::super::show;
use super::options::PlaceOptions;
use super::{report, shop};

/// Lists the installed tools: of this project, and your own.
#[derive(Debug, Args)]
pub(in crate::command) struct List {
    #[command(flatten)]
    place: PlaceOptions,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl List {
    pub(in crate::command) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let mut places = vec![shop::place(&home, &self.place)?];
        if !self.place.user && self.place.config.is_none() {
            places.push(LockLocation::beside(&home.user_file()?, home.folder()));
        }
        places.dedup();
        let mut lines = Vec::new();
        let mut listed = Vec::new();
        for place in places {
            let installed = match place.read() {
                Ok(installed) => installed,
                Err(refusal) => return show::refuse(&refusal, self.json),
            };
            let locked = installed.lock.0.values();
            let locked = locked.map(|entry| (entry, state(&installed, entry, &home)));
            let orphans = installed.orphans();
            let orphans = orphans.map(|entry| (entry, Err(not_in_lock(&entry.name))));
            for (entry, state) in locked.chain(orphans) {
                lines.push(line(entry, &state));
                let why = state.as_ref().err().map(|refusal| refusal.message.clone());
                let state = state.map_or_else(|refusal| refusal.code.as_str(), |()| "ready");
                listed.push(
                    json!({ "lock": place.file(), "state": state, "why": why, "tool": entry }),
                );
            }
        }
        if listed.is_empty() {
            lines.push("no tools installed; install one with `toolcell install REF`".to_owned())
        } else {
            lines.insert(0, row("NAME", "VERSION", "FROM"))
        }
        lines.extend(shipped());
        report::print(&json!({ "installed": listed }), &lines, self.json)
    }
}

fn shipped() -> Vec<String> {
    let names = bundled::names();
    let descriptions = bundled::descriptions();
    let line = |name: &String| {
        let description = descriptions.get(name).map(String::as_str);
        format!("  {name:<12} {}", legible(description.unwrap_or_default()))
    };
    let mut lines: Vec<String> = names.iter().map(line).collect();
    if !lines.is_empty() {
        lines.insert(0, "came with toolcell (toolcell mcp --toolbox):".to_owned());
    }
    lines
}

fn state(installed: &InstalledTools, entry: &LockEntry, home: &Home) -> Result<(), Refusal> {
    installed.get(&entry.name).transpose()?;
    store::read(home.folder(), &entry.component).map(|_| ())
}

/// The lock lost the name by other means.
fn not_in_lock(name: &str) -> Refusal {
    let message = format!(
        "{FILE_NAME} does not have it: rules that name it go on to mean these bytes; `toolcell remove {name}` takes the name \
         back"
    );
    Refusal::new(ErrorCode::NotInstalled, message)
}

/// Keeps an entry's words on one line each, because a lock of others could write a line that passes for another entry.
fn line(entry: &LockEntry, state: &Result<(), Refusal>) -> String {
    let version = entry.version.as_deref().map(legible);
    let signer = match &entry.signer {
        Some(signer) => format!("signed by {signer}"),
        None => "unsigned".to_owned(),
    };
    let why = state.as_ref().err();
    let why = why.map(|refusal| format!("\n  {}", legible(&refusal.message)));
    let version = version.as_deref().unwrap_or("-");
    let row = row(&entry.name, version, &legible(&entry.reference));
    let why = why.unwrap_or_default();
    format!("{row}\n  {}{why}", legible(&signer))
}

fn row(name: &str, version: &str, from: &str) -> String {
    format!("{name:<20} {version:<12} {from}")
}
