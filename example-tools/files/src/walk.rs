use std::{
    fs::{self, FileType},
    path::{Path, PathBuf},
};

use globset::{GlobBuilder, GlobMatcher};
use toolcell_guest::ToolError;

/// Folders with generated files.
const GENERATED: [&str; 3] = [".git", "node_modules", "target"];

/// One entry of a folder.
pub(crate) struct Entry {
    /// A path that the caller can pass to another tool: the folder as given, joined with `relative`.
    pub(crate) path: PathBuf,
    /// The path relative to the root of the walk.
    pub(crate) relative: PathBuf,
    pub(crate) kind: FileType,
}

/// The number of folders that a walk could not read.
pub(crate) type Unreadable = u32;

/// Walks the tree below `root` until `visit` returns false. Names are in byte order, a folder comes before its entries,
/// and links are not followed, so the order depends only on the files. `.git`, `node_modules` and `target` are skipped
/// unless `generated` is set.
///
/// Returns the number of folders that could not be read. Fails if `root` itself cannot be read.
pub(crate) fn walk(
    root: &Path,
    generated: bool,
    visit: &mut dyn FnMut(Entry) -> Result<bool, ToolError>,
) -> Result<Unreadable, ToolError> {
    let mut unreadable = 0;
    let mut waiting = children(root, Path::new(""))?;
    waiting.reverse();
    while let Some(entry) = waiting.pop() {
        let opens = entry.kind.is_dir() && (generated || !is_generated(&entry.path));
        let path = entry.path.clone();
        let relative = entry.relative.clone();
        if !visit(entry)? {
            break;
        }
        if opens {
            match children(&path, &relative) {
                Ok(inner) => waiting.extend(inner.into_iter().rev()),
                Err(_) => unreadable += 1,
            }
        }
    }
    Ok(unreadable)
}

/// The entries of `folder`, in byte order of their names.
pub(crate) fn children(folder: &Path, relative: &Path) -> Result<Vec<Entry>, ToolError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| ToolError::at_path(folder, &error))? {
        let entry = entry.map_err(|error| ToolError::at_path(folder, &error))?;
        let kind = entry
            .file_type()
            .map_err(|error| ToolError::at_path(entry.path(), &error))?;
        let name = entry.file_name();
        found.push(Entry {
            path: join(folder, &name),
            relative: relative.join(&name),
            kind,
        });
    }
    found.sort_by(|a, b| {
        a.path
            .as_os_str()
            .as_encoded_bytes()
            .cmp(b.path.as_os_str().as_encoded_bytes())
    });
    Ok(found)
}

/// Joins the two; below `.` the result is `src`, not `./src`, as people write it.
fn join(folder: &Path, name: impl AsRef<Path>) -> PathBuf {
    if folder == Path::new(".") {
        name.as_ref().to_owned()
    } else {
        folder.join(name)
    }
}

fn is_generated(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| GENERATED.iter().any(|generated| name == *generated))
}

/// A glob that matches the whole path from the root if it contains a `/`, and the file name if it does not.
pub(crate) struct Glob {
    matcher: GlobMatcher,
    whole: bool,
}

impl Glob {
    /// Returns the error invalid_arguments, code `glob_invalid`, if the pattern is not a glob.
    pub(crate) fn new(pattern: &str) -> Result<Self, ToolError> {
        let glob = GlobBuilder::new(pattern).literal_separator(true).build();
        let glob =
            glob.map_err(|error| ToolError::invalid_arguments("glob_invalid", error.to_string()))?;
        Ok(Self {
            matcher: glob.compile_matcher(),
            whole: pattern.contains('/'),
        })
    }

    pub(crate) fn matches(&self, relative: &Path) -> bool {
        match relative.file_name() {
            Some(name) if !self.whole => self.matcher.is_match(name),
            _ => self.matcher.is_match(relative),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    fn seen(root: &Path, generated: bool) -> Vec<String> {
        let mut seen = Vec::new();
        walk(root, generated, &mut |entry| {
            seen.push(entry.relative.display().to_string());
            Ok(true)
        })
        .unwrap();
        seen
    }

    #[test]
    fn the_order_is_that_of_the_names_and_generated_folders_stay_closed() {
        let folder = Folder::new(&[
            ("b.txt", "b"),
            ("a/z.txt", "z"),
            ("a/y.txt", "y"),
            ("target/out", "o"),
        ]);
        assert_eq!(
            seen(folder.path(), false),
            ["a", "a/y.txt", "a/z.txt", "b.txt", "target"]
        );
        assert_eq!(
            seen(folder.path(), true).last().map(String::as_str),
            Some("target/out")
        );
    }

    #[test]
    fn a_glob_without_a_slash_looks_at_the_name_alone() {
        assert!(Glob::new("*.rs").unwrap().matches(Path::new("src/a.rs")));
        assert!(
            !Glob::new("src/*.rs")
                .unwrap()
                .matches(Path::new("src/deep/a.rs"))
        );
        assert!(
            Glob::new("src/**/*.rs")
                .unwrap()
                .matches(Path::new("src/deep/a.rs"))
        );
        assert_eq!(
            Glob::new("[").err().map(|error| error.code),
            Some("glob_invalid".to_owned())
        );
    }
}
