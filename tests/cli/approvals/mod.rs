//! Calls that wait for an approval, and their approvers: real processes, which may be killed at any moment.

mod answers;
mod damage;
pub(crate) mod kills;
mod restarts;
mod sessions;
pub(crate) mod terminal;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Child;

use serde_json::{Value, json};

use super::guest;
use crate::support::{Ran, Toolcell, kept, scratch};

/// A folder to write to, and its own journal; compiled components are shared with all tests.
pub(crate) struct Place {
    _guard: tempfile::TempDir,
    home: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) tool: String,
}

impl Place {
    fn new() -> Self {
        Self::of(&guest("probe#append_approved"))
    }

    /// A place for the tool `FILE#NAME`.
    pub(crate) fn of(tool: &str) -> Self {
        let (guard, path) = scratch();
        let home = path.join("home");
        let folder = path.join("work");
        std::fs::create_dir(&folder).unwrap();
        std::fs::create_dir(&home).unwrap();
        for part in ["cache", "keys"] {
            std::fs::create_dir_all(kept("home").join(part)).unwrap();
            std::os::unix::fs::symlink(kept("home").join(part), home.join(part)).unwrap();
        }
        Self {
            _guard: guard,
            home,
            folder,
            tool: tool.to_owned(),
        }
    }

    /// The file to which every run of the tool adds a line.
    fn file(&self) -> PathBuf {
        self.folder.join("lines")
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.file()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) fn input(&self, line: &str) -> String {
        json!({ "path": self.file(), "text": format!("{line}\n") }).to_string()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.toolcell(arguments).run()
    }

    pub(crate) fn toolcell(&self, arguments: &[&str]) -> Toolcell {
        Toolcell::at(&self.home, arguments)
            .dir(&self.folder)
            .env("TOOLCELL_SESSION", "")
            .env("TOOLCELL_ACTOR", "")
    }

    /// A call that adds `line`, with `options`.
    fn call(&self, line: &str, options: &[&str]) -> Toolcell {
        let input = self.input(line);
        let grant = format!("--allow-write={}", self.folder.display());
        let mut arguments = vec!["call", &self.tool, &input, &grant];
        arguments.extend(options);
        self.toolcell(&arguments)
    }

    /// A call that adds `line`, once it waits, and its id.
    pub(crate) fn waiting(&self, line: &str, options: &[&str]) -> (Child, String) {
        waiting(self.call(line, options))
    }

    /// An orphaned call: it waits, and its process was killed.
    pub(crate) fn orphan(&self, line: &str, options: &[&str]) -> String {
        let (child, id) = self.waiting(line, options);
        kill(child);
        id
    }

    pub(crate) fn show(&self, id: &str) -> Value {
        self.run(&["approvals", "show", id, "--json"])
            .exits(0)
            .json()
    }

    fn state(&self, id: &str) -> String {
        self.show(id)["state"].as_str().unwrap().to_owned()
    }

    /// The listed ids with their states.
    fn list(&self, options: &[&str]) -> Vec<(String, String)> {
        let mut arguments = vec!["approvals", "list", "--json"];
        arguments.extend(options);
        let listed = self.run(&arguments).exits(0).json();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let listed = listed["approvals"].as_array().unwrap().clone();
        listed
            .iter()
            .map(|one| (text(&one["invocation_id"]), text(&one["state"])))
            .collect()
    }
}

/// Starts a call, and reads the id that it prints once it waits.
pub(crate) fn waiting(call: Toolcell) -> (Child, String) {
    let mut child = call.spawn();
    let id = said_id(&mut child)
        .unwrap_or_else(|| panic!("the call ended: {:?}", child.wait_with_output_of_stdout()));
    (child, id)
}

/// The id that a waiting call prints; `None` if the call ends without one.
fn said_id(child: &mut Child) -> Option<String> {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let found = lines.by_ref().map_while(Result::ok).find_map(|line| {
        let rest =
            line.strip_prefix("waiting for approval; answer with `toolcell approvals approve ")?;
        Some(rest.split('`').next().unwrap().to_owned())
    });
    // A thread reads the rest of stderr, or the full pipe would block the process.
    std::thread::spawn(move || lines.for_each(drop));
    found
}

trait Stdout {
    fn wait_with_output_of_stdout(&mut self) -> String;
}

impl Stdout for Child {
    fn wait_with_output_of_stdout(&mut self) -> String {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut self.stdout.take().unwrap(), &mut text).unwrap();
        self.wait().unwrap();
        text
    }
}

/// Kills a process with SIGKILL, which it cannot handle.
pub(crate) fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The output of a call that must end by itself.
fn ended(child: Child) -> Ran {
    Ran::from(child.wait_with_output().unwrap())
}

/// The statuses that an invocation went through.
fn passed(record: &Value) -> Vec<&str> {
    let steps = record["invocation"]["status_transitions"]
        .as_array()
        .unwrap();
    steps
        .iter()
        .map(|step| step["to"].as_str().unwrap())
        .collect()
}

pub(crate) fn error(record: &Value) -> (&str, &str) {
    let error = &record["result"]["error"];
    (
        error["error_class"].as_str().unwrap(),
        error["error_code"].as_str().unwrap(),
    )
}

/// A copy of the guest that a test can change.
pub(crate) fn copy_of(tool: &str, to: &Path) -> String {
    let (file, name) = tool.split_once('#').unwrap();
    std::fs::copy(file, to).unwrap();
    format!("{}#{name}", to.display())
}
