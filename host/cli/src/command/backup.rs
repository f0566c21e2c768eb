//! Copies the folder of all state while it is in use.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use toolcell::Home;
use toolcell_journal::{CallLog, PayloadStore};

use super::{calls, log};
use crate::exit::{BadRequest, Exit};
use crate::show;

const MODE: u32 = 0o700;

/// Copies all of toolcell's state: settings, keys, secrets, installed tools, payloads, and the journal. Other processes may go on.
#[derive(Debug, Args)]
#[command(
    after_help = "The copy has the keys: keep it as private as the original. To use it, set TOOLCELL_HOME to it, or move it \
                  to the place of the original. Compiled components are left out, because they can be made again."
)]
pub(crate) struct Backup {
    /// The folder of the copy, which must not exist
    folder: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Backup {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let folder = std::path::absolute(&self.folder)?;
        if !home.folder().is_dir() {
            let message = format!("there is no {} to copy", home.folder().display());
            return Err(BadRequest(message).into());
        }
        let unfit = || {
            let message = format!(
                "{} exists, or is in the folder that is copied; name a new folder elsewhere",
                folder.display()
            );
            BadRequest(message)
        };
        if fs::symlink_metadata(&folder).is_ok() {
            return Err(unfit().into());
        }
        DirBuilder::new()
            .recursive(true)
            .mode(MODE)
            .create(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        // By the paths that no link leads away from: a copy inside of the original would have no end.
        if folder
            .canonicalize()?
            .starts_with(home.folder().canonicalize()?)
        {
            fs::remove_dir(&folder)?;
            return Err(unfit().into());
        }
        let [original, at] = [home.folder(), &folder].map(|folder| folder.display().to_string());
        let cannot = || format!("cannot copy {original} to {at}");
        let payloads = PayloadStore::new(home.payloads());
        let mut left_out = vec![home.cache(), home.scratch(), home.journal()];
        left_out.extend(payloads.list_files());
        copy_folder(home.folder(), &folder, &left_out, true).with_context(cannot)?;
        let copy = Home::at(&folder);
        // After the payloads: the end of each one that was copied is on it.
        payloads.copy_list(&copy.payloads()).with_context(cannot)?;
        let log = calls::log(&home)?;
        log.copy_to(&copy.journal(), &copy.calls_key())?;
        let verified = CallLog::new(copy.journal(), copy.calls_key(), log.settings()).verify()?;
        if self.json {
            return show::done(
                show::json(&log::report(&folder, &verified)),
                Exit::from_success(verified.is_ok()),
            );
        }
        let after = if verified.is_ok() {
            ""
        } else {
            ", whose log was damaged before: toolcell log verify"
        };
        show::print(format!("{at}: a copy of {original}{after}\n"))
            .map(|_| Exit::from_success(verified.is_ok()))
    }
}

/// Leaves out `left_out` and the ends of the log. A folder of all state `has_parts`, which may be links to other disks.
fn copy_folder(from: &Path, to: &Path, left_out: &[PathBuf], has_parts: bool) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(MODE).create(to)?;
    for entry in fs::read_dir(from)? {
        let source = entry?.path();
        let Some(name) = source.file_name() else {
            continue;
        };
        let is_head = source
            .extension()
            .is_some_and(|extension| extension == "head");
        if is_head || left_out.contains(&source) {
            continue;
        }
        match copy_entry(&source, &to.join(name), has_parts) {
            // Another process removed it at this moment.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            copied => copied?,
        }
    }
    Ok(())
}

fn copy_entry(source: &Path, target: &Path, is_part: bool) -> io::Result<()> {
    let kind = fs::symlink_metadata(source)?.file_type();
    if kind.is_dir() || is_part && source.is_dir() {
        copy_folder(source, target, &[], false)
    } else if kind.is_symlink() {
        symlink(fs::read_link(source)?, target)
    } else if kind.is_file() {
        fs::copy(source, target).map(drop)
    } else {
        Ok(())
    }
}
