use std::{fmt::Write, fs, path::Path};

use toolcell_guest::{Output, ToolError, data, tool};

use crate::{
    here,
    walk::{Entry, Glob, children, walk},
};

#[data]
pub(crate) struct Folder {
    /// The folder.
    #[serde(default = "here")]
    path: String,
    /// Glob to match in the whole tree, such as `**/*.rs`, `*.md` or `src/*`. Without it, only the folder's direct
    /// entries are listed.
    #[serde(default)]
    pattern: Option<String>,
    /// Maximum number of entries.
    #[serde(default = "max")]
    #[schemars(range(min = 1, max = 10_000))]
    max: u32,
    /// Also search `.git`, `node_modules` and `target`.
    #[serde(default)]
    include_generated: bool,
}

fn max() -> u32 {
    1000
}

#[data]
pub(crate) struct Listing {
    entries: Vec<Listed>,
    /// Whether there are more entries.
    truncated: bool,
    /// Folders that could not be read.
    unreadable: u32,
}

#[data]
struct Listed {
    /// As the other tools take it.
    path: String,
    kind: Kind,
    /// The size of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

#[data]
#[serde(rename_all = "snake_case")]
enum Kind {
    File,
    Folder,
    Link,
    Other,
}

/// Lists a folder, or finds files by glob.
///
/// Entries come in the order of their names. Links are shown, and not followed.
#[tool(
    kind = "file_operation",
    search_hint = "list folder directory find files glob",
    access = ["file_read"],
    paths = ["path"],
    content = ["text"],
    read_only,
    concurrency_safe
)]
pub(crate) fn list(input: Folder) -> Result<Output<Listing>, ToolError> {
    let mut listing = Listing {
        entries: Vec::new(),
        truncated: false,
        unreadable: 0,
    };
    let max = input.max as usize;
    match &input.pattern {
        Some(pattern) => {
            let glob = Glob::new(pattern)?;
            listing.unreadable = walk(
                Path::new(&input.path),
                input.include_generated,
                &mut |entry| Ok(!glob.matches(&entry.relative) || take(&mut listing, max, entry)),
            )?;
        }
        None => {
            for entry in children(Path::new(&input.path), Path::new(""))? {
                if !take(&mut listing, max, entry) {
                    break;
                }
            }
        }
    }
    Ok(Output::new().text(render(&listing)).structured(listing))
}

/// Adds the entry; returns false if the listing is full.
fn take(listing: &mut Listing, max: usize, entry: Entry) -> bool {
    listing.truncated = listing.entries.len() == max;
    if !listing.truncated {
        listing.entries.push(describe(entry));
    }
    !listing.truncated
}

fn describe(entry: Entry) -> Listed {
    let kind = match entry.kind {
        kind if kind.is_file() => Kind::File,
        kind if kind.is_dir() => Kind::Folder,
        kind if kind.is_symlink() => Kind::Link,
        _ => Kind::Other,
    };
    let bytes = match kind {
        Kind::File => fs::symlink_metadata(&entry.path)
            .ok()
            .map(|metadata| metadata.len()),
        _ => None,
    };
    Listed {
        path: entry.path.display().to_string(),
        kind,
        bytes,
    }
}

fn render(listing: &Listing) -> String {
    let mut text = String::new();
    for entry in &listing.entries {
        // Writing to a String cannot fail.
        let _ = match (&entry.kind, entry.bytes) {
            (Kind::Folder, _) => writeln!(text, "{}/", entry.path),
            (Kind::Link, _) => writeln!(text, "{} (link)", entry.path),
            (_, Some(bytes)) => writeln!(text, "{} ({bytes} bytes)", entry.path),
            (_, None) => writeln!(text, "{}", entry.path),
        };
    }
    if listing.entries.is_empty() {
        text.push_str("nothing found\n");
    }
    if listing.truncated {
        let _ = writeln!(
            text,
            "(cut after {} entries; there are more)",
            listing.entries.len()
        );
    }
    if listing.unreadable > 0 {
        let _ = writeln!(text, "({} folders could not be read)", listing.unreadable);
    }
    text
}

#[cfg(test)]
mod tests {
    use toolcell_guest::{
        Outcome,
        serde_json::{Value, json},
        testing,
    };

    use crate::{Toolkit, folder::Folder};

    fn list(input: Value) -> (Vec<String>, Value) {
        let Outcome::Success(output) = testing::invoke::<Toolkit>("list", input) else {
            panic!()
        };
        let value = output.structured.unwrap();
        let paths = value["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["path"].as_str().unwrap().to_owned());
        (paths.collect(), value)
    }

    #[test]
    fn a_folder_shows_its_own_entries() {
        let folder = Folder::new(&[("b.txt", "four"), ("a/deep.txt", "")]);
        let (paths, value) = list(json!({"path": folder.text("")}));
        assert_eq!(paths, [folder.text("a"), folder.text("b.txt")]);
        assert_eq!(value["entries"][0]["kind"], "folder");
        assert_eq!(
            (&value["entries"][1]["kind"], &value["entries"][1]["bytes"]),
            (&json!("file"), &json!(4))
        );
    }

    #[test]
    fn a_pattern_finds_files_in_the_tree_up_to_a_limit() {
        let folder = Folder::new(&[
            ("x/a.rs", ""),
            ("x/y/b.rs", ""),
            ("c.md", ""),
            ("target/d.rs", ""),
        ]);
        let (paths, _) = list(json!({"path": folder.text(""), "pattern": "**/*.rs"}));
        assert_eq!(paths, [folder.text("x/a.rs"), folder.text("x/y/b.rs")]);
        let (paths, value) = list(json!({"path": folder.text(""), "pattern": "*.rs", "max": 1}));
        assert_eq!((paths.len(), &value["truncated"]), (1, &json!(true)));
        let (paths, _) =
            list(json!({"path": folder.text(""), "pattern": "*.rs", "include_generated": true}));
        assert_eq!(paths.len(), 3);
    }

    #[test]
    fn a_missing_folder_is_named() {
        let Outcome::Failure(error) =
            testing::invoke::<Toolkit>("list", json!({"path": "/no/such"}))
        else {
            panic!()
        };
        assert_eq!(
            (error.code.as_str(), error.message.as_str()),
            ("not_found", "/no/such: no such file or folder")
        );
    }
}
