//! `toolcell call --artifacts`: the artifacts of a result as files.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use serde_json::Value;
use toolcell::{CallRecord, Host};

use super::exit::BadRequest;
use super::show;

/// In bytes. File systems take 255.
const NAME_BYTES_MAX: usize = 100;
const NAMES_MAX: usize = 1_000;

/// Open from before the call on, because the tool could put a link in its place.
pub(super) struct Folder {
    path: PathBuf,
    open: OwnedFd,
}

impl Folder {
    /// A tool with effects must not run in vain, so this comes before the call.
    pub(super) fn make(path: &Path) -> anyhow::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let made = fs::create_dir_all(path);
        let opened = made.and_then(|()| Ok(rustix::fs::open(path, flags, Mode::empty())?));
        let open = opened.map_err(|error| {
            let path = path.display();
            BadRequest(format!(
                "cannot create the folder {path} for artifacts: {error}; name another one"
            ))
        })?;
        Ok(Self {
            path: path.to_owned(),
            open,
        })
    }

    fn enter(&self, name: &str) -> anyhow::Result<Self> {
        let path = self.path.join(name);
        let made = match rustix::fs::mkdirat(&self.open, name, Mode::from_raw_mode(0o777)) {
            Err(Errno::EXIST) | Ok(()) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                rustix::fs::openat(&self.open, name, flags, Mode::empty())
            }
            Err(error) => Err(error),
        };
        let open = made.with_context(|| format!("cannot create the folder {}", path.display()))?;
        Ok(Self { path, open })
    }
}

/// New files in the folders of their names.
pub(super) async fn save(host: &Host, record: &CallRecord, folder: &Folder) -> anyhow::Result<()> {
    for artifact in &record.result.artifact_refs {
        let text = |field: &str| {
            artifact
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (within, name, file) = create(folder, text("name"))?;
        let path = within.path.join(&name);
        if let Err(error) = host.copy_payload(text("digest"), file).await {
            let _ = rustix::fs::unlinkat(&within.open, &name, AtFlags::empty());
            let get = format!(
                "cannot save an artifact as {}; toolcell artifact {}",
                path.display(),
                text("uri")
            );
            return Err(error).context(get);
        }
        show::say(&format!(
            "artifact {}: saved as {}",
            text("name"),
            path.display()
        ));
    }
    Ok(())
}

/// Never opens an existing file, and follows no link. Returns also the file's folder and its name there.
fn create(folder: &Folder, name: &str) -> anyhow::Result<(Folder, String, File)> {
    let mut parts: Vec<&str> = name
        .split(['/', '\\'])
        .filter(|part| !part.trim_matches('.').is_empty())
        .collect();
    let name = file_name(parts.pop().unwrap_or_default());
    let mut folder = Folder {
        path: folder.path.clone(),
        open: folder.open.try_clone()?,
    };
    for part in parts {
        folder = folder.enter(&file_name(part))?;
    }
    for number in 1..=NAMES_MAX {
        let name = if number == 1 {
            name.clone()
        } else {
            format!("{number}-{name}")
        };
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&folder.open, &name, flags, Mode::from_raw_mode(0o666)) {
            Ok(file) => return Ok((folder, name, file.into())),
            Err(Errno::EXIST) => {}
            Err(error) => {
                let path = folder.path.join(name);
                return Err(error)
                    .with_context(|| format!("cannot create the file {}", path.display()));
            }
        }
    }
    bail!(
        "{NAMES_MAX} files in {} are named like {name}; name another folder",
        folder.path.display()
    )
}

/// One segment of a path, not hidden, and no option of a program.
fn file_name(name: &str) -> String {
    let plain = |c: char| {
        if c.is_alphanumeric() || "._-".contains(c) {
            c
        } else {
            '_'
        }
    };
    let name: String = name.chars().map(plain).collect();
    let name = name.trim_start_matches(['.', '-']);
    match name
        .get(..name.floor_char_boundary(NAME_BYTES_MAX))
        .unwrap_or_default()
    {
        "" => "artifact".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_one_visible_file_in_the_folder() {
        for (name, file) in [
            ("report.csv", "report.csv"),
            ("a/b", "a_b"),
            (".bashrc", "bashrc"),
            ("-rf", "rf"),
            ("a b\u{1b}[2J", "a_b__2J"),
            ("...", "artifact"),
            ("", "artifact"),
            ("\u{e9}t\u{e9}.txt", "\u{e9}t\u{e9}.txt"),
        ] {
            assert_eq!(file_name(name), file, "{name:?}");
        }
        assert!(file_name(&"\u{e9}".repeat(500)).len() <= NAME_BYTES_MAX);
    }

    #[test]
    fn an_existing_file_and_a_link_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("outside");
        std::os::unix::fs::symlink(&outside, folder.path().join("a")).unwrap();
        fs::write(folder.path().join("2-a"), "mine").unwrap();
        let (_, name, _) = create(&Folder::make(folder.path()).unwrap(), "a").unwrap();
        assert_eq!(name, "3-a");
        std::os::unix::fs::symlink(folder.path(), folder.path().join("link")).unwrap();
        let (within, name, _) =
            create(&Folder::make(folder.path()).unwrap(), "../b/../.ssh/config").unwrap();
        assert_eq!(
            (within.path, name),
            (folder.path().join("b/ssh"), "config".to_owned())
        );
        assert!(
            create(&Folder::make(folder.path()).unwrap(), "link/c").is_err(),
            "a link is not followed"
        );
        assert!(!outside.exists());
        assert_eq!(
            fs::read_to_string(folder.path().join("2-a")).unwrap(),
            "mine"
        );
    }
}
