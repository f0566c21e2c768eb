//! Files of workspaces as resources.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use rmcp::model::{ContentBlock, Resource};
use serde_json::Value;
use toolcell_spec::ToolResult;

/// In a result; `_meta` has it with the host's prefix.
pub(super) const WORKSPACE: &str = "workspace";
const SCHEME: &str = "toolcell://workspace/";
/// A model reads each link. All changes are in `_meta`.
const LINKS_MAX: usize = 20;
const ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A file of a workspace, as clients name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceFile {
    pub workspace: String,
    pub path: String,
}

impl WorkspaceFile {
    /// `None` for the URI of anything else.
    pub fn from_uri(uri: &str) -> Option<Self> {
        let (workspace, path) = uri.strip_prefix(SCHEME)?.split_once('/')?;
        let path = percent_decode_str(path).decode_utf8().ok()?;
        Some(Self {
            workspace: workspace.to_owned(),
            path: path.into_owned(),
        })
    }

    pub fn uri(&self) -> String {
        let path = utf8_percent_encode(&self.path, ENCODED);
        format!("{SCHEME}{}/{path}", self.workspace)
    }

    pub fn link(&self, size: Option<u64>) -> Resource {
        let mut link = Resource::new(self.uri(), self.path.clone());
        link.size = size;
        link
    }
}

/// The files that the call added and changed, for the model.
pub(super) fn links(result: &ToolResult) -> Vec<ContentBlock> {
    let Some(note) = result.extra.get(WORKSPACE) else {
        return Vec::new();
    };
    let workspace = note.get("name").and_then(Value::as_str).unwrap_or_default();
    let files = note.get("files").and_then(Value::as_array);
    let files = files.into_iter().flatten();
    // Without a digest, it was removed, or is a link.
    let files = files.filter(|file| file.get("digest").is_some());
    let links = files.take(LINKS_MAX).filter_map(|file| {
        let named = WorkspaceFile {
            workspace: workspace.to_owned(),
            path: file.get("path")?.as_str()?.to_owned(),
        };
        let size = file.get("size").and_then(Value::as_u64);
        Some(ContentBlock::resource_link(named.link(size)))
    });
    links.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_uri_and_comes_back_from_it() {
        for (path, uri) in [
            ("a.csv", "toolcell://workspace/w/a.csv"),
            (
                "a b/ä#1?.txt",
                "toolcell://workspace/w/a%20b/%C3%A4%231%3F.txt",
            ),
            ("100%", "toolcell://workspace/w/100%25"),
        ] {
            let file = WorkspaceFile {
                workspace: "w".to_owned(),
                path: path.to_owned(),
            };
            assert_eq!(file.uri(), uri);
            assert_eq!(WorkspaceFile::from_uri(uri), Some(file));
        }
        for other in [
            "toolcell:payload/sha256:ab",
            "toolcell://workspace/w",
            "file:///a",
        ] {
            assert_eq!(WorkspaceFile::from_uri(other), None);
        }
    }
}
