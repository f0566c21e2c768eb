use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use super::{check_printed, kept};

/// The `toolcell` program, run as a user runs it.
pub(crate) struct Toolcell {
    command: Command,
    input: Option<String>,
}

impl Toolcell {
    /// With shared state, so that components are compiled once.
    pub(crate) fn new<I: AsRef<OsStr>>(arguments: impl IntoIterator<Item = I>) -> Self {
        Self::at(&kept("home"), arguments)
    }

    /// With its state in `home`.
    pub(crate) fn at<I: AsRef<OsStr>>(home: &Path, arguments: impl IntoIterator<Item = I>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolcell"));
        command.args(arguments).env("TOOLCELL_HOME", home);
        Self::exactly(command)
    }

    /// Runs a command that another configuration specifies.
    pub(crate) fn exactly(command: Command) -> Self {
        Self {
            command,
            input: None,
        }
    }

    pub(crate) fn dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn stdin(mut self, text: &str) -> Self {
        self.input = Some(text.to_owned());
        self
    }

    /// Starts the program and returns the process, so that a test can interrupt or kill it.
    pub(crate) fn spawn(mut self) -> Child {
        let stdin = if self.input.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        };
        let mut child = self
            .command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        if let (Some(mut pipe), Some(text)) = (child.stdin.take(), self.input) {
            // The program may exit before it reads everything.
            let _ = pipe.write_all(text.as_bytes());
        }
        child
    }

    /// Starts the program with pipes at all three streams.
    pub(crate) fn spawn_piped(mut self) -> Child {
        self.command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Runs the program to its end.
    pub(crate) fn run(self) -> Ran {
        Ran::from(self.spawn().wait_with_output().unwrap())
    }
}

/// The exit code and output of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ran {
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "stdout: {}\nstderr: {}",
            self.stdout,
            self.stderr
        );
        self
    }

    /// The only JSON document on standard output.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let value: Value = serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {:?}\n{}", self.stdout, self.stderr));
        check_printed(&value);
        value
    }
}
