//! Writes `[tools]` of a `toolcell.toml`, so that it names what is installed beside it. Everything else in the file stays.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use toml_edit::{DocumentMut, InlineTable, Item, Value};

use super::declared::DeclaredTool;
use super::{TrustStore, bytes};

/// The draft of a `toolcell.toml`, beside it. Written while the lock of installed tools is held.
const DRAFT: &str = ".toolcell.toml.draft";

/// Makes `[tools]` of `file` name `tool` as `name`, or not name it if it is `None`. A file that `trust` has stays trusted.
///
/// # Errors
///
/// A file that is not TOML or whose `tools` is not a table, that cannot be written, or that changed since it was trusted.
pub fn declare(
    file: &Path,
    name: &str,
    tool: Option<&DeclaredTool>,
    trust: &TrustStore,
) -> anyhow::Result<()> {
    let before = bytes(file)?.with_context(|| format!("cannot find {}", file.display()))?;
    let text =
        str::from_utf8(&before).with_context(|| format!("{} is not UTF-8 text", file.display()))?;
    let Some(after) = edited(text, name, tool)
        .with_context(|| format!("cannot write [tools] of {}", file.display()))?
    else {
        return Ok(());
    };
    match trust.find(file, &before)? {
        Some(trusted) => trust.renew(file, (&before, after.as_bytes()), &trusted, || {
            replace(file, &after)
        }),
        None => {
            ensure!(
                !trust.knows(file),
                "{} changed since it was trusted",
                file.display()
            );
            replace(file, &after)
        }
    }
}

/// `text` with the change; `None` if it is so already.
fn edited(text: &str, name: &str, tool: Option<&DeclaredTool>) -> anyhow::Result<Option<String>> {
    let mut document: DocumentMut = text.parse()?;
    if tool.is_none() && !document.contains_key("tools") {
        return Ok(None);
    }
    let tools = document.entry("tools").or_insert_with(toml_edit::table);
    let tools = tools.as_table_like_mut().context("it is not a table")?;
    match tool {
        Some(tool) => {
            let mut value = value(tool);
            match tools.get_mut(name) {
                Some(old) if is_same(old, tool) => return Ok(None),
                Some(Item::Value(old)) => {
                    // The comment behind it stays.
                    *value.decor_mut() = old.decor().clone();
                    *old = value;
                }
                _ => drop(tools.insert(name, value.into())),
            }
        }
        None => {
            if tools.remove(name).is_none() {
                return Ok(None);
            }
        }
    }
    let after = document.to_string();
    // The library ends lines with LF. In a file with both ends, a text of several lines could change.
    let crlf = text.matches("\r\n").count();
    Ok(Some(if crlf > 0 && crlf == text.matches('\n').count() {
        after.replace("\r\n", "\n").replace('\n', "\r\n")
    } else {
        after
    }))
}

/// Returns `true` if `item` already names `tool`, in any spelling.
fn is_same(item: &Item, tool: &DeclaredTool) -> bool {
    let (reference, allow_unsigned) = match item.as_table_like() {
        Some(table) => (
            table.get("reference"),
            table.get("allow_unsigned").and_then(Item::as_bool),
        ),
        None => (Some(item), None),
    };
    reference.and_then(Item::as_str) == Some(&tool.reference)
        && allow_unsigned.unwrap_or_default() == tool.allow_unsigned
}

fn value(tool: &DeclaredTool) -> Value {
    let reference = Value::from(tool.reference.as_str());
    if !tool.allow_unsigned {
        return reference;
    }
    let table = InlineTable::from_iter([("reference", reference), ("allow_unsigned", true.into())]);
    table.into()
}

/// Replaces `file`, or the file that it is a link to: a reader sees the old or the new text. Its mode stays.
fn replace(file: &Path, text: &str) -> anyhow::Result<()> {
    let write = || -> std::io::Result<()> {
        let file = file.canonicalize()?;
        let draft: PathBuf = file.with_file_name(DRAFT);
        let permissions = std::fs::metadata(&file)?.permissions();
        // Left by a process that was killed. A new file is created, because a link could be in its place.
        let _ = std::fs::remove_file(&draft);
        let mut open = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)?;
        open.write_all(text.as_bytes())?;
        open.set_permissions(permissions)?;
        open.sync_all()?;
        std::fs::rename(&draft, file)
    };
    write().with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::{DeclaredTool, edited};

    fn tool(reference: &str, allow_unsigned: bool) -> DeclaredTool {
        DeclaredTool {
            reference: reference.to_owned(),
            allow_unsigned,
        }
    }

    #[test]
    fn the_rest_of_the_file_stays_as_it_is() {
        let one = "[tools]\njq = \"./jq.wasm\"\n";
        let file =
            "# mine\nmode = \"plan\"\n\n[tools] # all\na = \"x\" # why\n\n[limits]\nfuel = 7\n";
        for (before, name, tool, after) in [
            ("", "jq", Some(tool("./jq.wasm", false)), one.to_owned()),
            (one, "jq", None, "[tools]\n".to_owned()),
            (
                one,
                "b",
                Some(tool("b", true)),
                format!("{one}b = {{ reference = \"b\", allow_unsigned = true }}\n"),
            ),
            (
                file,
                "b",
                Some(tool("y", false)),
                file.replace("# why\n", "# why\nb = \"y\"\n"),
            ),
            (file, "a", None, file.replace("a = \"x\" # why\n", "")),
            (
                file,
                "a",
                Some(tool("y", false)),
                file.replace("\"x\"", "\"y\""),
            ),
            (
                "fuel = 1",
                "a",
                Some(tool("y", false)),
                "fuel = 1\n\n[tools]\na = \"y\"\n".to_owned(),
            ),
        ] {
            assert_eq!(
                edited(before, name, tool.as_ref()).unwrap(),
                Some(after),
                "{before}"
            );
        }
        assert_eq!(edited(one, "b", None).unwrap(), None);
        assert_eq!(edited("", "b", None).unwrap(), None);
        assert_eq!(
            edited(one, "jq", Some(&tool("./jq.wasm", false))).unwrap(),
            None
        );
    }

    #[test]
    fn each_spelling_of_a_tool_is_replaced_and_removed() {
        for text in [
            "[tools.a]\nreference = \"x\"\n",
            "tools.a = \"x\"\n",
            "tools = { a = \"x\" }\n",
            "[tools]\r\n'a' = { reference =\r\n\"x\" }\r\n",
            "[tools]\na.reference = \"x\"\n",
            "[tools]\nb = \"\"\"\na = 1\n\"\"\"\na = \"x\"\n",
        ] {
            let replaced = edited(text, "a", Some(&tool("y", true))).unwrap().unwrap();
            let table: toml::Table = replaced.parse().unwrap();
            let wanted: toml::Table = "reference = 'y'\nallow_unsigned = true".parse().unwrap();
            assert_eq!(table["tools"]["a"], toml::Value::from(wanted), "{replaced}");
            let removed = edited(text, "a", None).unwrap().unwrap();
            let table: toml::Table = removed.parse().unwrap();
            assert!(
                table
                    .get("tools")
                    .is_none_or(|tools| tools.get("a").is_none()),
                "{removed}"
            );
            let lines = |text: &str| (text.matches('\n').count(), text.matches("\r\n").count());
            for after in [replaced, removed] {
                let (all, crlf) = lines(&after);
                assert!(
                    crlf == if text.contains('\r') { all } else { 0 },
                    "{after:?}"
                );
            }
        }
        let mixed = "[other]\r\nb = \"\"\"\nx\n\"\"\"\r\n";
        let after: toml::Table = edited(mixed, "a", Some(&tool("y", false)))
            .unwrap()
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!(after["other"]["b"].as_str(), Some("x\n"));
        for text in ["tools = 1\n", "[[tools]]\n", "[tools\n"] {
            assert!(
                edited(text, "a", Some(&tool("y", false))).is_err(),
                "{text}"
            );
        }
    }
}
