//! Where a path of the guest's really leads, found so that nobody can lead it elsewhere meanwhile.

use std::path::PathBuf;
use std::sync::Arc;

use wasmtime_wasi::FsPerms;
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, DescriptorType, ErrorCode, HostDescriptor, OpenFlags, PathFlags,
};

use crate::way::Way;

use super::denial::{Closed, real_path, resolve};
use super::{Fd, Guarded, again};

/// A name in a folder that was opened and found to be open to the guest.
pub(super) struct Place {
    pub(super) folder: Fd,
    pub(super) name: String,
    pub(super) host: PathBuf,
}

/// What a path leads to, in a form that nobody can lead elsewhere.
pub(super) enum Found {
    Place(Place),
    Opened(Fd),
}

/// The folder of a path, and the last name in it. `None` for what names the folder itself.
pub(super) fn folder_and_name(path: &str) -> Option<(&str, &str)> {
    let path = path.trim_end_matches('/');
    let (folder, name) = match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some(split) => split,
        None => (".", path),
    };
    (!matches!(name, "" | "." | "..")).then_some((folder, name))
}

impl Guarded<'_> {
    /// Fails when `path` below `fd` leads to what is closed, whether that exists or not. `write` also heeds what is closed
    /// for writing only.
    pub(super) fn check(&self, fd: &Fd, path: &str, follow: bool, write: bool) -> FsResult<()> {
        let Some(host) = self.resolve(fd, path, follow)? else { return Ok(()) };
        if self.denials().cover(&host, write) || self.leads_through_closed(fd, path, follow, write)? {
            return Err(ErrorCode::Access.into());
        }
        Ok(())
    }

    /// Whether a link on the way of `path` is closed by its own name, wherever it leads: `.env` is, under a denial of
    /// `**/.env`, although what it points to has another name.
    fn leads_through_closed(&self, fd: &Fd, path: &str, follow: bool, write: bool) -> FsResult<bool> {
        let Descriptor::Dir(dir) = self.plain.table.get(fd)? else {
            return Err(ErrorCode::NotDirectory.into());
        };
        let full = real_path(&dir.dir).map_err(|_| ErrorCode::Access)?.join(path);
        // A name that is not followed has been looked at already.
        let walked = if follow || path.ends_with('/') { Some(full.as_path()) } else { full.parent() };
        // What cannot be followed, nobody can open.
        let way = walked.filter(|_| guard!("denied_names")).and_then(|path| Way::of(path).ok()).unwrap_or_default();
        Ok(way.links.iter().any(|link| self.denials().cover(link, write)))
    }

    /// Fails also when something closed lies below `path`: moved along, it would be open at its new place, and what
    /// takes its place would be taken for it.
    fn check_move(&self, fd: &Fd, path: &str) -> FsResult<()> {
        let Some(host) = self.resolve(fd, path, false)? else { return Ok(()) };
        if self.denials().hold_in_place(&host) { Err(ErrorCode::Access.into()) } else { Ok(()) }
    }

    /// Where `path` below `fd` leads on the host. `None` where it leads through what is not there: wasmtime-wasi then
    /// says the same as without denials, and tells nothing of what lies outside.
    pub(super) fn resolve(&self, fd: &Fd, path: &str, follow: bool) -> FsResult<Option<PathBuf>> {
        use std::io::ErrorKind;
        let Descriptor::Dir(dir) = self.plain.table.get(fd)? else {
            return Err(ErrorCode::NotDirectory.into());
        };
        let full = real_path(&dir.dir).map_err(|_| ErrorCode::Access)?.join(path);
        // A slash at the end follows a link, whoever says otherwise.
        match resolve(&full, follow || path.ends_with('/')) {
            Ok(path) => Ok(Some(path)),
            Err(error) => match error.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied => Ok(None),
                _ => Err(ErrorCode::Access.into()),
            },
        }
    }

    /// Opens the folder of `path` and looks where it really is. What is then done to the name in it stays there.
    pub(super) async fn place(&mut self, fd: &Fd, path: &str) -> FsResult<Place> {
        let (folder, name) = folder_and_name(path).ok_or(ErrorCode::Access)?;
        let follow = PathFlags::SYMLINK_FOLLOW;
        let flags = DescriptorFlags::READ;
        let folder = self.open_only_files(again(fd), follow, folder.to_owned(), OpenFlags::DIRECTORY, flags).await?;
        let host = match self.plain.table.get(&folder)? {
            Descriptor::Dir(dir) => real_path(&dir.dir).ok(),
            Descriptor::File(_) => None,
        };
        match host.filter(|host| !self.denials().cover(host, false) || !guard!("denial_races")) {
            Some(host) => Ok(Place { folder, host: host.join(name), name: name.to_owned() }),
            None => {
                self.plain.table.delete(folder)?;
                Err(ErrorCode::Access.into())
            }
        }
    }

    /// A place that may be changed: neither closed itself, nor around something closed.
    pub(super) async fn place_to_change(&mut self, fd: &Fd, path: &str) -> FsResult<Place> {
        self.check_move(fd, path)?;
        let place = self.place(fd, path).await?;
        if guard!("denial_races") && self.denials().hold_in_place(&place.host) {
            self.leave(place)?;
            return Err(ErrorCode::Access.into());
        }
        Ok(place)
    }

    pub(super) fn leave(&mut self, place: Place) -> FsResult<()> {
        self.plain.table.delete(place.folder)?;
        Ok(())
    }

    /// Finds what `path` leads to, for whoever asks about it or sets its times.
    pub(super) async fn find(&mut self, fd: &Fd, path: &str, follow: bool, write: bool) -> FsResult<Found> {
        if folder_and_name(path).is_none() || path.ends_with('/') {
            return self.open_to_look(fd, path, OpenFlags::DIRECTORY, write).await;
        }
        let place = self.place(fd, path).await?;
        if self.denials().cover(&place.host, write) && !(self.denials().show(&place.host) && !write && !follow) {
            self.leave(place)?;
            return Err(ErrorCode::Access.into());
        }
        if !follow {
            return Ok(Found::Place(place));
        }
        let there = self.plain.stat_at(again(&place.folder), PathFlags::empty(), place.name.clone()).await;
        match there {
            Ok(stat) if stat.type_ != DescriptorType::SymbolicLink => Ok(Found::Place(place)),
            Ok(_) => {
                self.leave(place)?;
                self.open_to_look(fd, path, OpenFlags::empty(), write).await
            }
            Err(error) => {
                self.leave(place)?;
                Err(error)
            }
        }
    }

    async fn open_to_look(&mut self, fd: &Fd, path: &str, open: OpenFlags, write: bool) -> FsResult<Found> {
        let follow = PathFlags::SYMLINK_FOLLOW;
        let opened = self.open_only_files(again(fd), follow, path.to_owned(), open, DescriptorFlags::READ).await?;
        let opened = self.settle(opened).await?;
        if write && self.is_narrowed(&opened)? {
            self.plain.table.delete(opened)?;
            return Err(ErrorCode::Access.into());
        }
        Ok(Found::Opened(opened))
    }

    /// Whether `settle` took the right to write away.
    fn is_narrowed(&self, fd: &Fd) -> FsResult<bool> {
        Ok(match self.plain.table.get(fd)? {
            Descriptor::File(file) => file.perms.write_not_permitted(),
            Descriptor::Dir(dir) => dir.perms.write_not_permitted(),
        })
    }

    /// Looks at what was really opened: takes it away again if it is closed, and the right to write if only that is.
    pub(super) async fn settle(&mut self, fd: Fd) -> FsResult<Fd> {
        let rules = Arc::clone(&self.rules);
        let file = match self.plain.table.get(&fd)? {
            Descriptor::File(file) => Arc::clone(&file.file),
            Descriptor::Dir(dir) => Arc::clone(&dir.dir),
        };
        let closed = match (real_path(&file), file.metadata()) {
            (Ok(path), Ok(metadata)) if guard!("denial_races") => {
                let by_name = if rules.denials.cover(&path, false) {
                    Some(Closed::Entirely)
                } else {
                    rules.denials.cover(&path, true).then_some(Closed::ForWriting)
                };
                match by_name {
                    None | Some(Closed::ForWriting) => rules.denials.of_other_names(&metadata).await.max(by_name),
                    entirely => entirely,
                }
            }
            (Ok(_), Ok(metadata)) => rules.denials.of_other_names(&metadata).await,
            _ => Some(Closed::Entirely),
        };
        match (closed, self.plain.table.get_mut(&fd)?) {
            (None, _) => {}
            (Some(Closed::Entirely), _) => {
                self.plain.table.delete(fd)?;
                return Err(ErrorCode::Access.into());
            }
            (Some(Closed::ForWriting), Descriptor::File(file)) => file.perms = FsPerms::ReadOnly,
            (Some(Closed::ForWriting), Descriptor::Dir(dir)) => dir.perms = FsPerms::ReadOnly,
        }
        Ok(fd)
    }
}
