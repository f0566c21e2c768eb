use std::{
    fs, io,
    path::{Path, PathBuf},
};

use toolcell_guest::{ToolError, data, tool};

use crate::store;

#[data]
pub(crate) struct Content {
    /// The file. Missing folders are created.
    path: String,
    /// The whole text of the file.
    text: String,
}

#[data]
pub(crate) struct Written {
    path: String,
    /// The size of the file.
    bytes: u64,
    /// Whether the file is new.
    created: bool,
}

/// Writes a text file: creates it, or replaces all of its text.
///
/// Missing folders are created. Links are refused. To change a part of a file, use `edit`.
#[tool(
    kind = "file_operation",
    search_hint = "write create overwrite save text file",
    access = ["file_write"],
    write_effects = ["local_persistent"],
    risk = "medium",
    paths = ["path"],
    read_only = false,
    destructive
)]
pub(crate) fn write(input: Content) -> Result<Written, ToolError> {
    let path = Path::new(&input.path);
    if path.file_name().is_none() || input.path.ends_with('/') {
        let message = format!("{:?} names a folder; name a file in it", input.path);
        return Err(ToolError::invalid_arguments("is_a_folder", message));
    }
    let created = !store::is_file(path)?;
    let made = make_folders(path).map_err(|error| ToolError::at_path(path, &error))?;
    if let Err(error) = store::replace(path, None, &input.text) {
        remove_folders(&made);
        return Err(error);
    }
    Ok(Written {
        path: input.path,
        bytes: input.text.len() as u64,
        created,
    })
}

/// Creates the missing parent folders of `path`. Returns them, the outermost first.
fn make_folders(path: &Path) -> io::Result<Vec<PathBuf>> {
    let missing: Vec<&Path> = path
        .ancestors()
        .skip(1)
        .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
        .collect();
    let mut made = Vec::new();
    for folder in missing.into_iter().rev() {
        match fs::create_dir(folder) {
            Ok(()) => made.push(folder.to_owned()),
            // Another call created it, or the path has a `..` in it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
            Err(error) => {
                remove_folders(&made);
                return Err(error);
            }
        }
    }
    Ok(made)
}

/// Errors are ignored: another program may have put a file into one of the folders.
fn remove_folders(made: &[PathBuf]) {
    for folder in made.iter().rev() {
        let _ = fs::remove_dir(folder);
    }
}

#[cfg(test)]
mod tests {
    use toolcell_guest::{
        Outcome,
        serde_json::{Value, json},
        testing,
    };

    use super::*;
    use crate::{Toolkit, folder::Folder};

    fn write(path: &str, text: &str) -> Result<Value, ToolError> {
        match testing::invoke::<Toolkit>("write", json!({"path": path, "text": text})) {
            Outcome::Success(output) => Ok(output.structured.unwrap()),
            Outcome::Failure(error) => Err(error),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_is_created_with_its_folders_and_then_replaced() {
        let folder = Folder::new(&[]);
        let path = folder.text("deep/er/a.txt");
        assert_eq!(
            write(&path, "zwölf\r\n"),
            Ok(json!({"path": path, "bytes": 8, "created": true}))
        );
        assert_eq!(
            write(&path, ""),
            Ok(json!({"path": path, "bytes": 0, "created": false}))
        );
        assert_eq!(
            folder.files(),
            [("deep/er/a.txt".to_owned(), String::new())]
        );
    }

    #[test]
    fn what_is_not_a_file_is_left_as_it_is() {
        let folder = Folder::new(&[("file", "x"), ("sub/file", "y")]);
        let before = folder.files();
        let code = |path: &str| write(&folder.text(path), "new").unwrap_err().code;
        assert_eq!(code("sub"), "is_a_folder");
        assert_eq!(code("new/"), "is_a_folder");
        assert_eq!(code(".."), "is_a_folder");
        assert_eq!(write("", "new").unwrap_err().code, "is_a_folder");
        assert_eq!(code("file/below"), "not_a_folder");
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(folder.text("file"), folder.text("link")).unwrap();
            assert_eq!(code("link"), "path_is_link");
            fs::remove_file(folder.text("link")).unwrap();
        }
        assert_eq!(folder.files(), before);
    }

    #[test]
    fn folders_that_were_made_for_nothing_are_removed() {
        let folder = Folder::new(&[("keep", "")]);
        let long = "x".repeat(300);
        assert!(write(&folder.text(&format!("a/b/{long}")), "").is_err());
        assert!(write(&folder.text(&format!("a/{long}/b")), "").is_err());
        assert!(!folder.path().join("a").exists());
    }
}
