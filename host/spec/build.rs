//! Reads `errors.toml` and writes the enum of error codes: see `record/error_code.rs`.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::path::Path;

use serde::Deserialize;

#[derive(Deserialize)]
struct ErrorTable {
    class: BTreeMap<String, ClassEntry>,
    code: BTreeMap<String, CodeEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassEntry {
    exit: u8,
    http: u16,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CodeEntry {
    #[serde(default)]
    class: Names,
    problem: Option<u16>,
    client: Option<String>,
    printed_by: Option<String>,
    exit: Option<u8>,
    http: Option<u16>,
    means: String,
    cause: String,
    remedy: String,
}

/// One name, or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Names {
    One(String),
    Several(Vec<String>),
}

impl Default for Names {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl Names {
    fn as_slice(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Several(names) => names,
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=errors.toml");
    let table: ErrorTable = toml::from_str(&std::fs::read_to_string("errors.toml")?)?;
    let folder = std::env::var("OUT_DIR")?;
    std::fs::write(Path::new(&folder).join("error_code.rs"), code(&table)?)?;
    Ok(())
}

/// The enum, and the tables that its methods read.
fn code(table: &ErrorTable) -> Result<String, Box<dyn Error>> {
    let mut variants = String::new();
    let mut names = String::new();
    let mut classes = String::new();
    let mut explanations = String::new();
    for (name, entry) in &table.code {
        check(name, entry)?;
        let variant = pascal(name);
        writeln!(variants, "/// {}\n{variant},", entry.means)?;
        writeln!(names, "ErrorCode::{variant} => {name:?},")?;
        let of_calls: Vec<String> = entry
            .class
            .as_slice()
            .iter()
            .map(|name| class(name))
            .collect();
        let of_calls = of_calls.join(", ");
        writeln!(
            classes,
            "ErrorCode::{variant} => CodeEntry {{ classes: &[{of_calls}], problem: {:?}, exit: {:?}, http: {:?} }},",
            entry.problem, entry.exit, entry.http,
        )?;
        let client = entry.client.as_deref().map_or_else(
            || "None".to_owned(),
            |name| format!("Some({})", class(name)),
        );
        writeln!(
            explanations,
            "Explanation {{ code: ErrorCode::{variant}, client: {client}, printed_by: {:?}, means: {:?}, cause: {:?}, remedy: {:?} }},",
            entry.printed_by, entry.means, entry.cause, entry.remedy,
        )?;
    }
    let count = table.code.len();
    let mut exits = String::new();
    let mut statuses = String::new();
    for (name, entry) in &table.class {
        let class = class(name);
        writeln!(exits, "{class} => {},", entry.exit)?;
        writeln!(statuses, "{class} => {},", entry.http)?;
    }
    Ok(format!(
        "/// The code of an error: stable, and finer than its class. `errors.toml` has all of them.\n\
         ///\n/// ```\n/// use toolcell_spec::ErrorCode;\n///\n\
         /// assert_eq!(ErrorCode::from_name(\"not_granted\"), Some(ErrorCode::NotGranted));\n/// ```\n\
         #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]\n\
         pub enum ErrorCode {{\n{variants}}}\n\
         #[expect(clippy::too_many_lines, reason = \"a line for each code\")]\n\
         const fn name(code: ErrorCode) -> &'static str {{\nmatch code {{\n{names}}}\n}}\n\
         #[expect(clippy::too_many_lines, reason = \"a line for each code\")]\n\
         const fn entry(code: ErrorCode) -> CodeEntry {{\nmatch code {{\n{classes}}}\n}}\n\
         static EXPLANATIONS: [Explanation; {count}] = [\n{explanations}];\n\
         fn exit_of_class(class: ErrorClass) -> u8 {{\nmatch class {{\n{exits}}}\n}}\n\
         fn status_of_class(class: ErrorClass) -> u16 {{\nmatch class {{\n{statuses}}}\n}}\n"
    ))
}

/// Refuses an entry that no error can have, and texts that are no sentences.
fn check(name: &str, entry: &CodeEntry) -> Result<(), String> {
    let is_used = !entry.class.as_slice().is_empty()
        || entry.problem.is_some()
        || entry.client.is_some()
        || entry.printed_by.is_some();
    if !is_used {
        return Err(format!("errors.toml: {name} is the code of no error"));
    }
    let texts = [&entry.means, &entry.cause, &entry.remedy];
    match texts
        .iter()
        .find(|text| !text.ends_with('.') || text.len() <= 10)
    {
        Some(text) => Err(format!("errors.toml: {name}: not a sentence: {text:?}")),
        None => Ok(()),
    }
}

fn class(name: &str) -> String {
    format!("ErrorClass::{}", pascal(name))
}

/// `not_granted` as `NotGranted`.
fn pascal(name: &str) -> String {
    let words = name.split('_').map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_ascii_uppercase() + rest
    });
    words.collect()
}
