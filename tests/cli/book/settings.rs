//! The settings of `toolcell.toml`, read from the types that parse it, with their documentation.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::support::root;

/// The folder with the types, and the type of the whole file.
const SOURCES: &str = "host/config/src";
const WHOLE: &str = "ConfigFile";

#[derive(Debug, Default)]
struct Section {
    docs: String,
    fields: Vec<Field>,
}

#[derive(Debug)]
struct Field {
    name: String,
    kind: String,
    docs: String,
}

/// The types of the configuration that are parsed, by name.
fn sections() -> BTreeMap<String, Section> {
    let mut sections = BTreeMap::new();
    for entry in std::fs::read_dir(root().join(SOURCES)).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            read(&std::fs::read_to_string(path).unwrap(), &mut sections);
        }
    }
    // A type without public fields is written as one value.
    sections.retain(|_, section: &mut Section| !section.fields.is_empty());
    sections
}

/// Adds the types of a source file in which fields can be written.
fn read(source: &str, sections: &mut BTreeMap<String, Section>) {
    let mut docs = String::new();
    let mut attributes = String::new();
    let mut open: Option<(String, Section)> = None;
    for line in source.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            docs.push_str(text);
            continue;
        }
        if line.starts_with("#[") {
            attributes.push_str(line);
            continue;
        }
        let said = std::mem::take(&mut docs).trim().to_owned();
        let given = std::mem::take(&mut attributes);
        if let Some(name) = line
            .strip_prefix("pub struct ")
            .and_then(|rest| rest.strip_suffix(" {"))
        {
            open = given.contains("Deserialize").then(|| {
                (
                    name.to_owned(),
                    Section {
                        docs: said,
                        fields: Vec::new(),
                    },
                )
            });
        } else if line == "}" {
            sections.extend(open.take());
        } else if let Some((_, section)) = &mut open
            && let Some((name, kind)) = line
                .strip_prefix("pub ")
                .and_then(|rest| rest.strip_suffix(',')?.split_once(": "))
            && !given.contains("skip")
        {
            let renamed = given
                .split_once("rename = \"")
                .and_then(|(_, rest)| rest.split('"').next());
            let name = renamed.unwrap_or(name).to_owned();
            section.fields.push(Field {
                name,
                kind: kind.to_owned(),
                docs: said,
            });
        }
    }
}

/// What is written for a type of Rust.
fn word(kind: &str) -> &'static str {
    let kind = kind
        .strip_prefix("Option<")
        .and_then(|inner| inner.strip_suffix('>'))
        .unwrap_or(kind);
    match kind {
        "bool" => "true or false",
        "u32" | "u64" | "usize" | "i64" => "number",
        "Vec<ConfigText>" | "Vec<String>" => "list of texts",
        "SecretHeaders" | "ToolConfig" => "table",
        "BTreeMap<String, Vec<ConfigText>>" => "table of lists",
        _ if kind.starts_with("BTreeMap<") => "table",
        "ConfigText" | "String" | "PathBuf" | "OnFailure" | "ToolMeter" => "text",
        other => panic!("say in tests/cli/book/settings.rs how a value of type {other} is written"),
    }
}

/// The type in a list or an option.
fn part(kind: &str) -> &str {
    let inner = |wrapper: &str| kind.strip_prefix(wrapper)?.strip_suffix('>');
    inner("Vec<").or_else(|| inner("Option<")).unwrap_or(kind)
}

pub(super) fn page() -> String {
    let sections = sections();
    let whole = &sections[WHOLE];
    let mut text = "# Settings\n\nEvery setting of `toolcell.toml` and `toolcell.local.toml`. [Policy](../operators/policy.md) says where the files are, and how those of \
                    the user and of the project are combined. An unknown setting is an error, and so is `[tools]` in a local file.\n\n"
        .to_owned();
    text.push_str("| setting | value | meaning |\n|---|---|---|\n");
    let section_of = |field: &Field| sections.get(part(&field.kind));
    whole
        .fields
        .iter()
        .filter(|field| section_of(field).is_none())
        .for_each(|field| row("", field, &mut text));
    let mut count = 0;
    for field in &whole.fields {
        let Some(section) = section_of(field) else {
            continue;
        };
        let title = if field.kind.starts_with("Vec<") {
            format!("[[{}]]", field.name)
        } else {
            format!("[{}]", field.name)
        };
        let docs = section
            .docs
            .strip_prefix(&format!("`{title}`"))
            .unwrap_or(&section.docs);
        write!(text, "\n## `{title}`\n\n").unwrap();
        let docs = docs.trim_start_matches([':', '.', ' ']);
        if !docs.is_empty() {
            let (first, rest) = docs.split_at(docs.chars().next().unwrap().len_utf8());
            write!(text, "{}{rest}\n\n", first.to_uppercase()).unwrap();
        }
        text.push_str("| setting | value | meaning |\n|---|---|---|\n");
        for field in &section.fields {
            count += 1;
            let own = whole.fields.iter().find(|own| {
                part(&own.kind) == part(&field.kind) && sections.contains_key(part(&own.kind))
            });
            match sections.get(&field.kind) {
                // A section of its own, and a part of this one.
                _ if let Some(own) = own => {
                    let (value, title) = if own.kind.starts_with("Vec<") {
                        ("list of tables", format!("[[{}]]", own.name))
                    } else {
                        ("table", format!("[{}]", own.name))
                    };
                    writeln!(
                        text,
                        "| `{}` | {value} | {} It takes the settings of `{title}`. |",
                        field.name,
                        told(field)
                    )
                    .unwrap();
                }
                None => row("", field, &mut text),
                Some(inner) => inner
                    .fields
                    .iter()
                    .for_each(|part| row(&format!("{}.", field.name), part, &mut text)),
            }
        }
    }
    assert!(
        count > 55 && text.contains("| `behavior` | text |"),
        "only {count} settings were found:\n{text}"
    );
    text
}

/// The documentation of a field, which it must have.
fn told(field: &Field) -> String {
    assert!(
        !field.docs.is_empty(),
        "the setting {} has no documentation in {SOURCES}",
        field.name
    );
    field.docs.replace('|', "\\|")
}

fn row(prefix: &str, field: &Field, text: &mut String) {
    writeln!(
        text,
        "| `{prefix}{}` | {} | {} |",
        field.name,
        word(&field.kind),
        told(field)
    )
    .unwrap();
}
