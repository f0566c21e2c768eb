//! Finds where a guest's path really leads, in a form that cannot be redirected meanwhile.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::OFlags;
use toolcell_system::pool::GUEST_FILES;
use toolcell_system::resolved_path::{ResolvedPath, ThroughMissing};
use wasmtime_wasi::FsPerms;
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, DescriptorType, ErrorCode, HostDescriptor, OpenFlags, PathFlags,
};

use super::denial::{DenialScope, DeniedPaths, real_path};
use super::{Fd, PolicyFsView, again};

/// The kernel takes no longer paths.
const PATH_BYTES_MAX: usize = 4_096;

pub(super) struct AllowedName {
    pub(super) folder: Fd,
    pub(super) name: String,
    pub(super) host: PathBuf,
}

pub(super) enum PathTarget {
    Place(AllowedName),
    Opened(Fd),
}

/// `None` for a path that names the folder itself.
pub(super) fn folder_and_name(path: &str) -> Option<(&str, &str)> {
    let path = path.trim_end_matches('/');
    let (folder, name) = match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some(split) => split,
        None => (".", path),
    };
    (!matches!(name, "" | "." | "..")).then_some((folder, name))
}

/// `None` if `path` leads through a missing folder, or one that may not be entered, because the kernel goes no further
/// either. Any other path that cannot be followed counts as denied, because the kernel may follow it.
fn resolve(folder: &File, path: &str, follow: bool) -> Result<Option<ResolvedPath>, ErrorCode> {
    let base = real_path(folder).map_err(|_| ErrorCode::Access)?;
    // A slash or a dot at the end follows a link, even without `follow`.
    let unfollowed = folder_and_name(path).filter(|_| !follow && !path.ends_with('/'));
    let (walked, last) = match unfollowed {
        Some((folder, name)) => (base.join(folder), Some(name)),
        None => (base.join(path), None),
    };
    let not_entered = |error: &io::Error| error.kind() == ErrorKind::PermissionDenied;
    let ends = |error: &anyhow::Error| {
        error.is::<ThroughMissing>() || error.downcast_ref::<io::Error>().is_some_and(not_entered)
    };
    match ResolvedPath::resolve(&walked) {
        Ok(mut resolved) => {
            resolved.end.extend(last);
            Ok(Some(resolved))
        }
        Err(error) if ends(&error) => Ok(None),
        Err(_) => Err(ErrorCode::Access),
    }
}

fn identity(folder: &File, name: &str) -> Option<(u64, u64)> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{AtFlags, FileType, statat};
        let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        (FileType::from_raw_mode(found.st_mode) == FileType::RegularFile)
            .then_some((found.st_dev, found.st_ino))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (folder, name);
        None
    }
}

fn writes(file: &File) -> bool {
    rustix::fs::fcntl_getfl(file).is_ok_and(|flags| flags & OFlags::RWMODE != OFlags::RDONLY)
}

impl PolicyFsView<'_> {
    /// Fails for a denied path, whether it exists or not. `write` also applies denials of writing.
    pub(super) async fn check(
        &mut self,
        fd: &Fd,
        path: &str,
        follow: bool,
        write: bool,
    ) -> FsResult<()> {
        if self
            .is_resolved_to(fd, path, follow, move |denials, resolved| {
                denials.close(resolved, write)
            })
            .await?
        {
            Err(ErrorCode::Access.into())
        } else {
            Ok(())
        }
    }

    /// Fails also if a denied path lies below `path`: a move would take it to a place where it is not denied.
    async fn check_move(&mut self, fd: &Fd, path: &str) -> FsResult<()> {
        if self
            .is_resolved_to(fd, path, false, |denials, resolved| {
                denials.hold_in_place(&resolved.end)
            })
            .await?
        {
            Err(ErrorCode::Access.into())
        } else {
            Ok(())
        }
    }

    /// `false` for a path through a missing folder: wasmtime-wasi then fails, and reveals nothing of what lies outside.
    /// Runs on a thread for guests' files, because following a path can take thousands of system calls.
    pub(super) async fn is_resolved_to(
        &mut self,
        fd: &Fd,
        path: &str,
        follow: bool,
        question: impl FnOnce(&DeniedPaths, &ResolvedPath) -> bool + Send + 'static,
    ) -> FsResult<bool> {
        if path.len() > PATH_BYTES_MAX {
            return Err(ErrorCode::NameTooLong.into());
        }
        let (folder, _) = self.folder(fd)?;
        let rules = Arc::clone(&self.rules);
        let path = path.to_owned();
        let work = move || {
            resolve(&folder, &path, follow).map(|resolved| {
                resolved.is_some_and(|resolved| question(&rules.denials, &resolved))
            })
        };
        let answer = GUEST_FILES.run(work).await.map_err(|_| ErrorCode::Busy)?;
        Ok(answer?)
    }

    /// An operation on the name in the opened and checked folder cannot be redirected.
    pub(super) async fn place(&mut self, fd: &Fd, path: &str) -> FsResult<AllowedName> {
        let (folder, name) = folder_and_name(path).ok_or(ErrorCode::Access)?;
        let follow = PathFlags::SYMLINK_FOLLOW;
        let flags = DescriptorFlags::READ;
        let folder = self
            .open_only_files(
                again(fd),
                follow,
                folder.to_owned(),
                OpenFlags::DIRECTORY,
                flags,
            )
            .await?;
        let host = match self.plain.table.get(&folder)? {
            Descriptor::Dir(dir) => real_path(&dir.dir).ok(),
            Descriptor::File(_) => None,
        };
        match host.filter(|host| !self.denials().cover(host, false) || !guard!("denial_races")) {
            Some(host) => Ok(AllowedName {
                folder,
                host: host.join(name),
                name: name.to_owned(),
            }),
            None => {
                self.plain.table.delete(folder)?;
                Err(ErrorCode::Access.into())
            }
        }
    }

    /// Neither denied itself, nor a parent of a denied path.
    pub(super) async fn place_to_change(&mut self, fd: &Fd, path: &str) -> FsResult<AllowedName> {
        self.check_move(fd, path).await?;
        let place = self.place(fd, path).await?;
        if guard!("denial_races")
            && (self.denials().hold_in_place(&place.host) || self.is_denied_file(&place, true)?)
        {
            self.leave(place)?;
            return Err(ErrorCode::Access.into());
        }
        Ok(place)
    }

    pub(super) async fn places_to_change(
        &mut self,
        (fd, path): (&Fd, &str),
        (other_fd, other_path): (&Fd, &str),
    ) -> FsResult<(AllowedName, AllowedName)> {
        let place = self.place_to_change(fd, path).await?;
        match self.place_to_change(other_fd, other_path).await {
            Ok(other) => Ok((place, other)),
            Err(error) => {
                self.leave(place)?;
                Err(error)
            }
        }
    }

    fn is_denied_file(&self, place: &AllowedName, write: bool) -> FsResult<bool> {
        let identity = identity(self.handle(&place.folder)?, &place.name);
        Ok(identity.is_some_and(|identity| self.denials().of_same_file(identity, write).is_some()))
    }

    pub(super) fn leave(&mut self, place: AllowedName) -> FsResult<()> {
        self.plain.table.delete(place.folder)?;
        Ok(())
    }

    pub(super) async fn find(
        &mut self,
        fd: &Fd,
        path: &str,
        follow: bool,
        write: bool,
    ) -> FsResult<PathTarget> {
        if folder_and_name(path).is_none() || path.ends_with('/') {
            return self
                .open_to_look(fd, path, OpenFlags::DIRECTORY, write)
                .await;
        }
        let place = self.place(fd, path).await?;
        let covered = self.denials().cover(&place.host, write);
        // Listing a folder asks about each name in it, and reveals nothing.
        let is_listed = !write && !follow;
        let closed = if is_listed {
            covered && !self.denials().show(&place.host)
        } else {
            covered || self.is_denied_file(&place, write)?
        };
        if closed {
            self.leave(place)?;
            return Err(ErrorCode::Access.into());
        }
        if !follow {
            return Ok(PathTarget::Place(place));
        }
        let there = self
            .plain
            .stat_at(again(&place.folder), PathFlags::empty(), place.name.clone())
            .await;
        match there {
            Ok(stat) if stat.type_ != DescriptorType::SymbolicLink => Ok(PathTarget::Place(place)),
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

    async fn open_to_look(
        &mut self,
        fd: &Fd,
        path: &str,
        open: OpenFlags,
        write: bool,
    ) -> FsResult<PathTarget> {
        let follow = PathFlags::SYMLINK_FOLLOW;
        let opened = self
            .open_only_files(
                again(fd),
                follow,
                path.to_owned(),
                open,
                DescriptorFlags::READ,
            )
            .await?;
        let opened = self.settle(opened).await?;
        if write && self.is_narrowed(&opened)? {
            self.plain.table.delete(opened)?;
            return Err(ErrorCode::Access.into());
        }
        Ok(PathTarget::Opened(opened))
    }

    /// `settle` removed the write permission.
    fn is_narrowed(&self, fd: &Fd) -> FsResult<bool> {
        Ok(match self.plain.table.get(fd)? {
            Descriptor::File(file) => file.perms.write_not_permitted(),
            Descriptor::Dir(dir) => dir.perms.write_not_permitted(),
        })
    }

    /// Checks what was really opened: closes it if it is denied, and removes the write permission if only writing is
    /// denied.
    pub(super) async fn settle(&mut self, fd: Fd) -> FsResult<Fd> {
        let rules = Arc::clone(&self.rules);
        let file = Arc::clone(self.handle(&fd)?);
        let closed = match (real_path(&file), file.metadata()) {
            (Ok(path), Ok(metadata)) if guard!("denial_races") => {
                let by_name = if rules.denials.cover(&path, false) {
                    Some(DenialScope::Entirely)
                } else {
                    rules
                        .denials
                        .cover(&path, true)
                        .then_some(DenialScope::ForWriting)
                };
                let identity =
                    Some((metadata.dev(), metadata.ino())).filter(|_| metadata.is_file());
                let known = by_name
                    .max(identity.and_then(|same| rules.denials.of_same_file(same, writes(&file))));
                match known {
                    None | Some(DenialScope::ForWriting) => {
                        rules.denials.of_other_names(&metadata).await.max(known)
                    }
                    entirely => entirely,
                }
            }
            (Ok(_), Ok(metadata)) => rules.denials.of_other_names(&metadata).await,
            _ => Some(DenialScope::Entirely),
        };
        match (closed, self.plain.table.get_mut(&fd)?) {
            (None, _) => {}
            (Some(DenialScope::Entirely), _) => {
                self.plain.table.delete(fd)?;
                return Err(ErrorCode::Access.into());
            }
            (Some(DenialScope::ForWriting), Descriptor::File(file)) => {
                file.perms = FsPerms::ReadOnly
            }
            (Some(DenialScope::ForWriting), Descriptor::Dir(dir)) => dir.perms = FsPerms::ReadOnly,
        }
        Ok(fd)
    }
}
