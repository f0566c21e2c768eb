use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Toolcell, scratch, share_compiled};

/// A `TOOLCELL_HOME` for one test, with its own journal, payloads and configuration, and the compiled components of all
/// tests. Removed on drop.
pub(crate) struct Home {
    _guard: tempfile::TempDir,
    path: PathBuf,
}

impl Home {
    pub(crate) fn new() -> Self {
        let (guard, path) = scratch();
        share_compiled(&path);
        Self {
            _guard: guard,
            path,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the user's own `toolcell.toml`.
    pub(crate) fn configure(&self, text: &str) {
        std::fs::write(self.path.join("toolcell.toml"), text).unwrap();
    }

    /// Writes a component, and returns its path.
    pub(crate) fn keep(&self, name: &str, component: &[u8]) -> String {
        let file = self.path.join(name);
        std::fs::write(&file, component).unwrap();
        file.display().to_string()
    }

    /// The program with its state here, without a session and an actor of the environment.
    pub(crate) fn toolcell(&self, arguments: &[&str]) -> Toolcell {
        Toolcell::at(&self.path, arguments)
            .env("TOOLCELL_SESSION", "")
            .env("TOOLCELL_ACTOR", "")
    }

    /// Calls a tool, and returns the record of the call.
    pub(crate) fn call(&self, tool: &str, input: &Value, options: &[&str]) -> Value {
        let input = input.to_string();
        let arguments = [&["call", tool, &input, "--print-record"], options].concat();
        self.toolcell(&arguments).run().json()
    }

    /// The list of `calls --json`.
    pub(crate) fn calls(&self, options: &[&str]) -> Vec<Value> {
        let ran = self
            .toolcell(&[&["calls", "--json"], options].concat())
            .run()
            .exits(0);
        ran.json()["calls"].as_array().unwrap().clone()
    }

    /// The files of the log of all calls, oldest first.
    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.path.join("journal/calls")).unwrap();
        let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "log"));
        files.sort();
        files
    }
}
