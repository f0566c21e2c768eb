//! The calls of a session that have begun, on disk: a call that could change something is written down before its guest
//! runs, so that no later process runs it again, whatever becomes of this one.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use toolcell_system::private;

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Call {
        tool_use_id: String,
        /// Of its record; empty if it has none.
        invocation_id: String,
    },
    Work {
        work_id: String,
    },
}

/// Held by the one process of this home that serves the session, until it is dropped.
#[derive(Debug)]
pub(super) struct Claims {
    path: PathBuf,
    file: File,
    calls: HashMap<String, String>,
    works: HashSet<String>,
}

impl Claims {
    /// `None` while another one serves the session.
    pub(super) fn open(folder: &Path, session: &str) -> io::Result<Option<Self>> {
        private::create_dir(folder)?;
        let path = folder.join(session).with_extension("claims");
        loop {
            let file = private::open_or_create(&path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => return Ok(None),
                locked => locked?,
            }
            // One that was removed before it was locked protects nothing.
            if file.metadata()?.nlink() > 0 {
                return Self::read(path, file).map(Some);
            }
        }
    }

    fn read(path: PathBuf, mut file: File) -> io::Result<Self> {
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        // The rest is of a process that was killed while it wrote: its call had not begun.
        let whole = text.iter().rposition(|byte| *byte == b'\n');
        let whole = whole.map_or(0, |at| at + 1);
        file.set_len(whole as u64)?;
        io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
        text.truncate(whole);
        let mut claims = Self {
            path,
            file,
            calls: HashMap::new(),
            works: HashSet::new(),
        };
        for line in text
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            claims.note(serde_json::from_slice(line)?);
        }
        Ok(claims)
    }

    fn note(&mut self, line: Line) {
        match line {
            Line::Call {
                tool_use_id,
                invocation_id,
            } => drop(self.calls.insert(tool_use_id, invocation_id)),
            Line::Work { work_id } => drop(self.works.insert(work_id)),
        }
    }

    fn add(&mut self, line: Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        self.file.write_all(&text)?;
        self.file.sync_data()?;
        self.note(line);
        Ok(())
    }

    /// The id of the record of a call that has begun.
    pub(super) fn begun(&self, tool_use: &str) -> Option<&str> {
        self.calls.get(tool_use).map(String::as_str)
    }

    /// To be called before the guest of `tool_use` runs.
    pub(super) fn begin(&mut self, tool_use: &str, invocation: &str) -> io::Result<()> {
        self.add(Line::Call {
            tool_use_id: tool_use.to_owned(),
            invocation_id: invocation.to_owned(),
        })
    }

    /// Returns `true` if this home had the work before.
    pub(super) fn take_work(&mut self, work: &str) -> io::Result<bool> {
        if self.works.contains(work) {
            return Ok(true);
        }
        let work_id = work.to_owned();
        self.add(Line::Work { work_id }).map(|()| false)
    }

    /// For a session whose calls all have their results.
    pub(super) fn remove(self) -> io::Result<()> {
        std::fs::remove_file(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::Claims;

    #[test]
    fn a_claim_outlives_its_process_and_half_a_line_is_none() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("managed").join("env_1");
        let open = || Claims::open(&folder, "sesn_1").unwrap();
        let mut claims = open().unwrap();
        assert!(open().is_none(), "one at a time");
        assert!(!claims.take_work("work_1").unwrap());
        claims.begin("a", "inv_1").unwrap();
        claims.file.write_all(b"{\"tool_use_id\": \"b").unwrap();
        drop(claims);
        let mut claims = open().unwrap();
        assert_eq!(
            (claims.begun("a"), claims.begun("b")),
            (Some("inv_1"), None)
        );
        assert!(claims.take_work("work_1").unwrap());
        claims.begin("c", "inv_2").unwrap();
        drop(claims);
        let claims = open().unwrap();
        assert_eq!(claims.begun("c"), Some("inv_2"));
        claims.remove().unwrap();
        assert_eq!(open().unwrap().begun("a"), None);
    }
}
