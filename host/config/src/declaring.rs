//! Writes `[tools]` of a `toolcell.toml`, so that it names what is installed beside it. Everything else in the file stays.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use toml::{Table, Value};

use super::declared::DeclaredTool;
use super::{Trust, bytes};

/// The draft of a `toolcell.toml`, beside it. Written while the lock of installed tools is held.
const DRAFT: &str = ".toolcell.toml.draft";

/// Makes `[tools]` of `file` name `tool` as `name`, or not name it if it is `None`. A file that `trust` has stays trusted.
///
/// # Errors
///
/// A file that cannot be written, that changed since it was trusted, or whose `[tools]` is written in a way that only its
/// author can change.
pub fn declare(file: &Path, name: &str, tool: Option<&DeclaredTool>, trust: &Trust) -> anyhow::Result<()> {
    let before = bytes(file)?.with_context(|| format!("cannot find {}", file.display()))?;
    let text = str::from_utf8(&before).with_context(|| format!("{} is not UTF-8 text", file.display()))?;
    let Some(after) =
        edited(text, name, tool).with_context(|| format!("cannot write [tools] of {}", file.display()))?
    else {
        return Ok(());
    };
    match trust.of(file, &before)? {
        Some(trusted) => trust.renew(file, (&before, after.as_bytes()), &trusted, || replace(file, &after)),
        None => {
            ensure!(!trust.knows(file), "{} changed since it was trusted", file.display());
            replace(file, &after)
        }
    }
}

/// `text` with the change; `None` if it is so already.
fn edited(text: &str, name: &str, tool: Option<&DeclaredTool>) -> anyhow::Result<Option<String>> {
    let parsed = |text: &str| -> anyhow::Result<Table> { Ok(text.parse()?) };
    let before = parsed(text)?;
    let mut wanted = before.clone();
    let tools =
        wanted.entry("tools").or_insert_with(|| Table::new().into()).as_table_mut().context("it is not a table")?;
    match tool {
        Some(tool) => drop(tools.insert(name.to_owned(), value(tool))),
        None => drop(tools.remove(name)),
    }
    if tools.is_empty() && !before.contains_key("tools") {
        wanted.remove("tools");
    }
    if wanted == before {
        return Ok(None);
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let heading = |line: &str| line.split('#').next().unwrap_or_default().trim().to_owned();
    let start = lines.iter().position(|line| heading(line) == "[tools]");
    let rest = start.map_or(lines.len(), |start| start + 1);
    let length = lines.iter().skip(rest).take_while(|line| !line.trim_start().starts_with('[')).count();
    let section = rest..rest + length;
    let names =
        |line: &String| line.split_once('=').is_some_and(|(key, _)| key.trim().trim_matches(['"', '\'']) == name);
    let known = lines.iter().skip(section.start).take(length).position(names).map(|at| section.start + at);
    match (known, tool, start) {
        (Some(at), None, _) => drop(lines.remove(at)),
        (Some(at), Some(tool), _) => drop(lines.splice(at..=at, [line(name, tool)])),
        (None, Some(tool), Some(_)) => {
            let blank =
                lines.iter().take(section.end).rev().take(length).take_while(|line| line.trim().is_empty()).count();
            lines.insert(section.end - blank, line(name, tool));
        }
        (None, Some(tool), None) => {
            let blank = lines.last().filter(|line| !line.trim().is_empty()).map(|_| String::new());
            lines.extend(blank.into_iter().chain(["[tools]".to_owned(), line(name, tool)]));
        }
        (None, None, _) => {}
    }
    let after = lines.join("\n") + "\n";
    // TOML has other spellings of the same, such as a table over several lines.
    if parsed(&after).ok() != Some(wanted) {
        bail!(
            "`{name}` is written there in a way that toolcell does not change: change it yourself, and run the command again"
        );
    }
    Ok(Some(after))
}

fn value(tool: &DeclaredTool) -> Value {
    let reference = Value::from(tool.reference.clone());
    if !tool.allow_unsigned {
        return reference;
    }
    let mut table = Table::new();
    table.insert("reference".to_owned(), reference);
    table.insert("allow_unsigned".to_owned(), true.into());
    table.into()
}

fn line(name: &str, tool: &DeclaredTool) -> String {
    let reference = Value::from(tool.reference.clone());
    match tool.allow_unsigned {
        true => format!("{name} = {{ reference = {reference}, allow_unsigned = true }}"),
        false => format!("{name} = {reference}"),
    }
}

/// Replaces `file`: a reader sees the old or the new text. Its mode stays.
fn replace(file: &Path, text: &str) -> anyhow::Result<()> {
    let draft: PathBuf = file.with_file_name(DRAFT);
    let write = || -> std::io::Result<()> {
        let permissions = std::fs::metadata(file)?.permissions();
        // Left by a process that was killed. A new file is created, because a link could be in its place.
        let _ = std::fs::remove_file(&draft);
        let mut open = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
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
        DeclaredTool { reference: reference.to_owned(), allow_unsigned }
    }

    #[test]
    fn the_rest_of_the_file_stays_as_it_is() {
        let one = "[tools]\njq = \"./jq.wasm\"\n";
        let file = "# mine\nmode = \"plan\"\n\n[tools] # all\na = \"x\" # why\n\n[limits]\nfuel = 7\n";
        for (before, name, tool, after) in [
            ("", "jq", Some(tool("./jq.wasm", false)), one.to_owned()),
            (one, "jq", None, "[tools]\n".to_owned()),
            (one, "b", Some(tool("b", true)), format!("{one}b = {{ reference = \"b\", allow_unsigned = true }}\n")),
            (file, "b", Some(tool("y", false)), file.replace("# why\n", "# why\nb = \"y\"\n")),
            (file, "a", None, file.replace("a = \"x\" # why\n", "")),
            (file, "a", Some(tool("y", false)), file.replace("a = \"x\" # why\n", "a = \"y\"\n")),
            ("fuel = 1", "a", Some(tool("y", false)), "fuel = 1\n\n[tools]\na = \"y\"\n".to_owned()),
        ] {
            assert_eq!(edited(before, name, tool.as_ref()).unwrap(), Some(after), "{before}");
        }
        assert_eq!(edited(one, "b", None).unwrap(), None);
        assert_eq!(edited("", "b", None).unwrap(), None);
        assert_eq!(edited(one, "jq", Some(&tool("./jq.wasm", false))).unwrap(), None);
    }

    #[test]
    fn what_is_written_in_another_way_is_left_to_its_author() {
        for text in [
            "[tools.a]\nreference = \"x\"\n",
            "tools.a = \"x\"\n",
            "tools = { a = \"x\" }\n",
            "[tools]\na = { reference =\n\"x\" }\n",
            "[tools]\nb = \"\"\"\na = 1\n\"\"\"\n",
            "[tools]\na.reference = \"x\"\n",
        ] {
            for tool in [None, Some(tool("y", false))] {
                let is_there = text.contains("\"x\"");
                match edited(text, "a", tool.as_ref()) {
                    Ok(Some(after)) => assert!(!is_there, "{text} became {after}"),
                    Ok(None) => assert!(!is_there && tool.is_none(), "{text}"),
                    Err(error) => assert!(error.to_string().contains("change it yourself"), "{error}"),
                }
            }
        }
    }
}
