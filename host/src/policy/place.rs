//! Paths of the host as they are written: where they start, and where they really lead.

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail};

/// Links that lead from one to the next: no more than Linux itself follows.
const LINKS_MAX: u32 = 40;

/// `text` from `base`, unless it starts at the root or, with `~/`, in the user's own folder.
pub(super) fn rooted(text: &str, base: &Path) -> anyhow::Result<PathBuf> {
    if text == "~" || text.starts_with("~/") {
        let home = std::env::home_dir().context("find your own folder, for `~`; write the whole path")?;
        return Ok(home.join(text.trim_start_matches('~').trim_start_matches('/')));
    }
    let full = base.join(text);
    std::path::absolute(&full).with_context(|| format!("find the path {text}"))
}

/// The canonical form of a path that need not exist: links are followed as far as it does.
pub(super) fn canonical(full: &Path) -> anyhow::Result<PathBuf> {
    let mut rest = Vec::new();
    let mut known = full;
    loop {
        match std::fs::canonicalize(known) {
            Ok(canonical) => return Ok(rest.iter().rev().fold(canonical, |path, part| path.join(part))),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return Err(error).with_context(|| format!("find the path {}", full.display())),
        }
        match (known.parent(), known.file_name()) {
            (Some(parent), Some(name)) => {
                rest.push(name);
                known = parent;
            }
            _ => bail!("{}: the path may not lead through a missing folder with `..`", full.display()),
        }
    }
}

/// The places that decide what `full` leads to: every link on the way there, by its own name, and where it ends. Whoever
/// could change one of them could put something else there.
pub(super) fn on_the_way(full: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let (mut places, mut path) = (Vec::new(), full.to_owned());
    'links: for _ in 0..=LINKS_MAX {
        let (mut known, mut rest) = (PathBuf::new(), path.components());
        while let Some(part) = rest.next() {
            if let (Component::Normal(name), Ok(target)) = (part, std::fs::read_link(known.join(part))) {
                let folder = canonical(&known)?;
                places.push(folder.join(name));
                path = folder.join(target).join(rest.as_path());
                continue 'links;
            }
            known.push(part);
        }
        places.push(canonical(&known)?);
        return Ok(places);
    }
    bail!("{}: too many links", full.display())
}

#[cfg(test)]
mod tests {
    use super::on_the_way;
    use std::os::unix::fs::symlink;

    #[test]
    fn every_link_on_the_way_is_a_place() {
        let root = std::env::temp_dir().canonicalize().unwrap().join(format!("toolcell-places-{}", std::process::id()));
        std::fs::create_dir_all(root.join("real/deep")).unwrap();
        std::fs::write(root.join("real/deep/file"), "").unwrap();
        symlink("real", root.join("one")).unwrap();
        symlink(root.join("one/deep"), root.join("two")).unwrap();
        symlink("../deep/file", root.join("real/deep/three")).unwrap();
        let found = |path: &str| {
            let places = on_the_way(&root.join(path)).unwrap();
            places.iter().map(|place| place.strip_prefix(&root).unwrap().display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(found("real/deep/file"), ["real/deep/file"]);
        assert_eq!(found("two/three"), ["two", "one", "real/deep/three", "real/deep/file"]);
        assert_eq!(found("one/not/there"), ["one", "real/not/there"]);
        assert_eq!(found("one/../real/deep"), ["one", "real/deep"]);
        symlink("round", root.join("round")).unwrap();
        assert!(on_the_way(&root.join("round")).is_err());
        std::fs::remove_dir_all(root).unwrap();
    }
}
