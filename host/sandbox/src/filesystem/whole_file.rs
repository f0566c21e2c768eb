//! Reads a whole text file for a guest without a file system, which gets no more than it could open itself.

use std::path::Path;

use wasmtime_wasi::cli::WasiCliView;
use wasmtime_wasi::p2::bindings::cli::environment;
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, ErrorCode, HostDescriptor, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{FsError, FsResult};

use super::pooled::PooledView;
use super::{Fd, again, guarded};
use crate::state::StoreState;

const FILE_BYTES_MAX: u64 = 4 << 20;
const CHUNK_BYTES: u64 = 64 << 10;

/// `path` is relative to the working directory, or else to one of the folders. `None` for a file that does not exist,
/// is denied, is larger than 4 MiB, or is not UTF-8. Fails if a limit that ends the guest is exceeded.
pub(crate) async fn read_text(
    state: &mut StoreState,
    path: &str,
) -> wasmtime::Result<Option<String>> {
    let cwd = environment::Host::initial_cwd(&mut state.cli())?;
    let mut files = guarded(state);
    let folders = preopens::Host::get_directories(&mut files.0.plain)?;
    let mut text = None;
    for (folder, rest) in places(&folders, cwd.as_deref(), path) {
        match files.text(folder, rest).await {
            Ok(Some(found)) => {
                text = Some(found);
                break;
            }
            Ok(None) => {}
            // An error without a code of WASI is a limit.
            Err(error) => _ = error.downcast()?,
        }
    }
    for (folder, _) in folders {
        HostDescriptor::drop(&mut files, folder)?;
    }
    Ok(text)
}

fn places<'a, T>(
    folders: &'a [(T, String)],
    cwd: Option<&str>,
    path: &str,
) -> Vec<(&'a T, String)> {
    let is_above = path.split('/').any(|part| part == "..");
    if path.is_empty() || path.starts_with('/') || is_above {
        return Vec::new();
    }
    let Some(cwd) = cwd else {
        return folders
            .iter()
            .map(|(folder, _)| (folder, path.to_owned()))
            .collect();
    };
    let whole = Path::new(cwd).join(path);
    let below = |(folder, name): &'a (T, String)| {
        let rest = whole.strip_prefix(name).ok()?.to_str()?.to_owned();
        (!rest.is_empty()).then_some((folder, rest))
    };
    // The shortest rest is in the innermost folder.
    folders
        .iter()
        .filter_map(below)
        .min_by_key(|(_, rest)| rest.len())
        .into_iter()
        .collect()
}

impl PooledView<'_> {
    async fn text(&mut self, folder: &Fd, path: String) -> FsResult<Option<String>> {
        let follow = PathFlags::SYMLINK_FOLLOW;
        let flags = DescriptorFlags::READ;
        let file =
            HostDescriptor::open_at(self, again(folder), follow, path, OpenFlags::empty(), flags)
                .await?;
        let text = self.whole(&file).await;
        HostDescriptor::drop(self, file).map_err(FsError::trap)?;
        text
    }

    async fn whole(&mut self, file: &Fd) -> FsResult<Option<String>> {
        let size = HostDescriptor::stat(self, again(file)).await?.size;
        if size > FILE_BYTES_MAX {
            return Ok(None);
        }
        let _charge = self
            .0
            .charge(usize::try_from(size).map_err(|_| ErrorCode::InsufficientMemory)?)?;
        let mut bytes = Vec::new();
        // Bytes that are added to the file later are not read.
        while (bytes.len() as u64) < size {
            let left = size.saturating_sub(bytes.len() as u64).min(CHUNK_BYTES);
            let (chunk, ended) =
                HostDescriptor::read(self, again(file), left, bytes.len() as u64).await?;
            bytes.extend(chunk);
            if ended {
                break;
            }
        }
        Ok(String::from_utf8(bytes).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::places;

    fn found(folders: &[&str], cwd: Option<&str>, path: &str) -> Vec<(usize, String)> {
        let folders: Vec<(usize, String)> = folders
            .iter()
            .enumerate()
            .map(|(at, name)| (at, (*name).to_owned()))
            .collect();
        places(&folders, cwd, path)
            .into_iter()
            .map(|(at, rest)| (*at, rest))
            .collect()
    }

    #[test]
    fn a_path_is_relative_to_the_working_directory_or_else_to_a_folder() {
        let folders = ["/a", "/a/b", "/c"];
        let at = |folder: usize, rest: &str| vec![(folder, rest.to_owned())];
        assert_eq!(found(&folders, Some("/a"), "x/y"), at(0, "x/y"));
        assert_eq!(found(&folders, Some("/a"), "b/y"), at(1, "y"));
        assert_eq!(found(&folders, Some("/a/b/d"), "y"), at(1, "d/y"));
        assert_eq!(found(&folders, Some("/ab"), "y"), []);
        assert_eq!(found(&folders, None, "y").len(), 3);
        assert_eq!(found(&[], None, "y"), []);
    }

    #[test]
    fn no_other_path_leads_anywhere() {
        for path in ["", "/a/x", "../x", "x/..", "x/../../y"] {
            assert_eq!(found(&["/a"], Some("/a"), path), [], "{path}");
            assert_eq!(found(&["/a"], None, path), [], "{path}");
        }
    }
}
