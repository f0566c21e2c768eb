//! Stand-in programs for tests: small shell scripts that are found as if they were on PATH.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::{Preference, ToolchainSearch, process};

pub(super) struct ShimPrograms {
    folder: tempfile::TempDir,
}

impl ShimPrograms {
    pub(super) fn new() -> Self {
        ShimPrograms {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(super) fn with(self, name: &str, script: &str) -> Self {
        let file = self.folder.path().join(name);
        std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    pub(super) fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// The script finds the system's programs, such as `sleep`; `which` still finds only the stand-ins.
    pub(super) fn command(&self, name: &str) -> Command {
        let path = OsString::from("/usr/bin:/bin");
        process::command(&self.dir().join(name), &path)
    }

    pub(super) fn search(&self, preference: Preference) -> ToolchainSearch {
        ToolchainSearch {
            preference,
            cache_dir: self.dir().join("cache"),
            dir: self.dir().to_owned(),
            path: self.dir().as_os_str().to_owned(),
        }
    }
}
