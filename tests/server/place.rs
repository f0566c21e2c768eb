use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{Ran, Toolcell, records, scratch, share_compiled};

/// A folder to write to, and its own journal; compiled components are shared with all tests.
pub(super) struct Place {
    _guard: tempfile::TempDir,
    pub(super) home: PathBuf,
    folder: PathBuf,
}

impl Place {
    pub(super) fn new() -> Self {
        let (guard, path) = scratch();
        let home = path.join("home");
        let folder = path.join("work");
        std::fs::create_dir(&folder).unwrap();
        std::fs::create_dir(&home).unwrap();
        share_compiled(&home);
        Self {
            _guard: guard,
            home,
            folder,
        }
    }

    /// The options of a server whose tools may write to the folder, and whose records are kept; and more of them.
    pub(super) fn options(&self, more: &[&str]) -> Vec<String> {
        let mut options = vec![
            format!("--allow-write={}", self.folder.display()),
            format!("--record-to={}", self.home.join("records").display()),
        ];
        options.extend(more.iter().map(|option| (*option).to_owned()));
        options
    }

    pub(super) fn toolcell(&self, arguments: Vec<String>) -> Toolcell {
        Toolcell::at(&self.home, arguments)
            .dir(&self.folder)
            .env("TOOLCELL_SESSION", "")
            .env("TOOLCELL_ACTOR", "")
    }

    pub(super) fn run(&self, arguments: &[&str]) -> Ran {
        self.toolcell(
            arguments
                .iter()
                .map(|argument| (*argument).to_owned())
                .collect(),
        )
        .run()
    }

    /// Arguments of `append_approved`, which adds `line` to those that [`Self::lines`] returns.
    pub(super) fn line(&self, line: &str) -> Value {
        json!({ "path": self.folder.join("lines"), "text": format!("{line}\n") })
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.join("lines")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The data of all events of this type, which are on record.
    pub(super) fn events_of_type(&self, event_type: &str) -> Vec<Value> {
        let ran = self
            .run(&["events", "--json", &format!("--type={event_type}")])
            .exits(0);
        let read =
            |line: &str| serde_json::from_str::<Value>(line).unwrap()["event"]["data"].clone();
        ran.stdout.lines().map(read).collect()
    }

    /// What is on record of the cancellations in vain.
    pub(super) fn failed_cancellations(&self) -> Vec<Value> {
        self.events_of_type("tool.invocation.cancel_failed")
    }

    pub(super) fn records(&self) -> Vec<Value> {
        records(&self.home.join("records"))
    }
}
