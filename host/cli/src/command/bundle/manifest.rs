//! `manifest.json` of an MCP bundle, and `server.json` of the MCP registry.

use serde_json::{Map, Value, json};

use super::super::options::{CHOSEN_READ, CHOSEN_WRITE};

/// Its clients know `user_config` and `platform_overrides`; later versions add runtimes.
const MANIFEST_VERSION: &str = "0.3";
const SERVER_SCHEMA: &str =
    "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json";
/// In characters.
const SHORT_MAX: usize = 100;
/// In characters.
const SERVER_NAME: std::ops::RangeInclusive<usize> = 3..=200;
const UNPACKED: &str = "${__dirname}";
pub(super) const PROGRAM: &str = "server/toolcell";

pub(super) struct AskedFolder {
    pub(super) title: String,
    pub(super) writable: bool,
}

impl AskedFolder {
    /// The title in lower-case letters, digits and underscores.
    pub(super) fn key(&self) -> String {
        let fit = |c: char| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '_'
            }
        };
        self.title.trim().chars().map(fit).collect()
    }

    /// The client replaces the variable; a comma in the path must not begin another grant.
    fn option(&self) -> String {
        let option = if self.writable {
            CHOSEN_WRITE
        } else {
            CHOSEN_READ
        };
        format!("{option}=${{user_config.{}}}", self.key())
    }

    fn setting(&self) -> Value {
        let may = if self.writable {
            "read and change"
        } else {
            "read"
        };
        json!({
            "type": "directory",
            "title": self.title,
            "description": format!("A folder that the tools may {may}, with everything in it"),
            // Without a value the variable would stay as it is, and name no folder.
            "required": true,
        })
    }
}

pub(super) struct Facts<'a> {
    pub(super) name: &'a str,
    pub(super) title: Option<&'a str>,
    pub(super) description: &'a str,
    pub(super) release: &'a str,
    pub(super) author: &'a str,
    /// `linux` or `darwin`.
    pub(super) platform: &'a str,
    /// TOOL as on the command line, with `/` in front.
    pub(super) targets: &'a [String],
    /// Grants and limits, as on the command line.
    pub(super) options: &'a [String],
    pub(super) folders: &'a [AskedFolder],
    /// Name and description of each.
    pub(super) tools: &'a [(String, String)],
}

impl Facts<'_> {
    /// The manifest follows version 0.3 of the MCPB schema.
    pub(super) fn manifest(&self) -> Value {
        // Exactly what the bundle says: no file of the user adds a grant, and none of the folder where the client starts it.
        let mut args = vec!["mcp".to_owned(), "--no-config".to_owned()];
        args.extend(
            self.targets
                .iter()
                .map(|target| format!("{UNPACKED}{target}")),
        );
        args.extend(self.options.iter().cloned());
        args.extend(self.folders.iter().map(AskedFolder::option));
        let tools = self
            .tools
            .iter()
            .map(|(name, description)| json!({ "name": name, "description": description }));
        let mut manifest = json!({
            "manifest_version": MANIFEST_VERSION,
            "name": self.name,
            "version": self.release,
            "description": self.description,
            "long_description": self.long_description(),
            "author": { "name": self.author },
            "server": {
                "type": "binary",
                "entry_point": PROGRAM,
                "mcp_config": { "command": format!("{UNPACKED}/{PROGRAM}"), "args": args },
            },
            "tools": tools.collect::<Vec<_>>(),
            "compatibility": { "platforms": [self.platform] },
        });
        if let Some(fields) = manifest.as_object_mut() {
            if let Some(title) = self.title {
                fields.insert("display_name".to_owned(), title.into());
            }
            if !self.folders.is_empty() {
                let settings: Map<String, Value> = self
                    .folders
                    .iter()
                    .map(|folder| (folder.key(), folder.setting()))
                    .collect();
                fields.insert("user_config".to_owned(), settings.into());
            }
        }
        manifest
    }

    /// The user reads it who decides whether to install the bundle.
    fn long_description(&self) -> String {
        let folders = self.folders.iter().map(|folder| {
            let may = if folder.writable {
                "read and change"
            } else {
                "read"
            };
            format!("{may} the folder that you choose as \"{}\"", folder.title)
        });
        let given: Vec<String> = folders
            .chain(self.options.iter().map(|option| format!("`{option}`")))
            .collect();
        let given = if given.is_empty() {
            "nothing".to_owned()
        } else {
            given.join(", ")
        };
        format!(
            "{}\n\nEach call runs in a fresh WebAssembly sandbox of toolcell. The tools are given: {given}. No toolcell.toml \
             is read.",
            self.description
        )
    }

    pub(super) fn server(&self, server_name: &str, url: &str, sha256: &str) -> Value {
        let mut server = json!({
            "$schema": SERVER_SCHEMA,
            "name": server_name,
            "description": short(self.description),
            "version": self.release,
            // The version of a bundle is a part of its URL.
            "packages": [{
                "registryType": "mcpb",
                "identifier": url,
                "fileSha256": sha256,
                "transport": { "type": "stdio" },
            }],
        });
        if let (Some(fields), Some(title)) = (server.as_object_mut(), self.title) {
            fields.insert("title".to_owned(), short(title).into());
        }
        server
    }
}

fn short(text: &str) -> String {
    if text.chars().count() <= SHORT_MAX {
        return text.to_owned();
    }
    let cut: String = text.chars().take(SHORT_MAX - 1).collect();
    format!("{}…", cut.trim_end())
}

/// A namespace in reverse-DNS form, a slash, and the server's name.
pub(super) fn is_server_name(name: &str) -> bool {
    let fits = |part: &str, more: &[char]| {
        let is_meant = |c: char| c.is_ascii_alphanumeric() || more.contains(&c);
        !part.is_empty() && part.chars().all(is_meant)
    };
    let parts = name.split_once('/');
    SERVER_NAME.contains(&name.len())
        && parts.is_some_and(|(space, own)| fits(space, &['.', '-']) && fits(own, &['.', '_', '-']))
}

#[cfg(test)]
mod tests {
    use super::{AskedFolder, is_server_name, short};

    #[test]
    fn names_of_servers_have_one_slash() {
        for good in ["io.github.me/tools", "a/b", "com.example-1/x_y.z"] {
            assert!(is_server_name(good), "{good}");
        }
        for bad in [
            "tools",
            "a/b/c",
            "/b",
            "a/",
            "a b/c",
            "a_b/c",
            &format!("a/{}", "b".repeat(200)),
        ] {
            assert!(!is_server_name(bad), "{bad}");
        }
    }

    #[test]
    fn a_folder_becomes_a_variable_and_long_texts_are_cut() {
        let folder = AskedFolder {
            title: "My notes, 2".to_owned(),
            writable: true,
        };
        assert_eq!(folder.option(), "--chosen-write=${user_config.my_notes__2}");
        assert_eq!(short("x"), "x");
        assert_eq!(short(&"é".repeat(101)).chars().count(), 100);
    }
}
