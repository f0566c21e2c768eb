//! The JSON Schemas of the records and listings that toolcell prints, which are part of the program.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use toolcell_engine::catalog::RecordSchema;
use toolcell_spec::{ErrorCode, Finding, read_unique_json};

use super::document;
use crate::exit::{BadRequest, Exit};
use crate::show;

macro_rules! schemas {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../schemas/", $name, ".schema.json")))),*]
    };
}

const SCHEMAS: &[(&str, &str)] = schemas![
    "agentool-eval-case",
    "agentool-eval-result",
    "agentool-reasoning-trace",
    "agentool-tool-call",
    "agentool-tool-registry",
    "agentool-tool-result",
    "agentool-tool-spec",
    "approval",
    "approvals-list",
    "approvals-show",
    "artifact",
    "batch-result",
    "build",
    "bundle",
    "call-record",
    "calls",
    "check",
    "common",
    "connect",
    "describe",
    "doctor",
    "error",
    "error-code",
    "error-codes",
    "event",
    "events",
    "execution-profile",
    "hook",
    "input-mutation",
    "install",
    "installed-list",
    "installed-tool",
    "invocation",
    "journal-verify",
    "otc/arcade-tool-call-response",
    "otc/arcade-tool-definition",
    "otc/authorization",
    "otc/execute-tool-request",
    "otc/execute-tool-response",
    "otc/registration",
    "otc/tool-definition",
    "otc/worker-health",
    "permission-decision",
    "permission-profile",
    "policy-check",
    "policy-explain",
    "progress",
    "push",
    "replay",
    "result",
    "result-persistence",
    "scheduler-policy",
    "secret-list",
    "sign",
    "tool-declaration",
    "tool-interface",
    "tool-namespace",
    "tool-search-result",
    "tool-surface",
    "toolkit-short",
    "verify",
    "workspace",
    "workspace-changes",
    "workspace-list",
    "wrap",
];
/// It describes no document.
const COMMON: &str = "common";
/// In bytes.
const DOCUMENT_BYTES_MAX: usize = 16 << 20;
/// A value takes some 100 bytes, and its violation some 300.
const DOCUMENT_VALUES_MAX: usize = 500_000;
const VIOLATIONS_MAX: usize = 100;

/// The JSON Schemas (2020-12) of the records and listings that toolcell prints.
#[derive(Debug, Args)]
pub(crate) struct Schema {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the schemas
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a schema
    Show {
        /// A name from `toolcell schema list`
        name: String,
    },
    /// Check a JSON document against a schema: exit 0 if it is valid, 2 if it is not or cannot be read
    Validate {
        /// A name from `toolcell schema list`
        name: String,
        /// The document, of at most 16 MiB; - for standard input
        #[arg(default_value = "-", value_name = "FILE|-")]
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Schema {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        match self.command {
            Command::List { json } => list(json),
            Command::Show { name } => show::print(text(&name)?),
            Command::Validate { name, file, json } => validate(&name, &file, json),
        }
    }
}

fn text(name: &str) -> Result<&'static str, BadRequest> {
    let found = SCHEMAS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text);
    found.ok_or_else(|| {
        BadRequest(format!(
            "there is no schema {name:?}; `toolcell schema list` lists them"
        ))
    })
}

fn parsed() -> anyhow::Result<Vec<Value>> {
    let parse = |(name, text): &(&str, &str)| {
        let parsed: serde_json::Result<Value> = serde_json::from_str(text);
        parsed.with_context(|| format!("cannot parse the schema {name}"))
    };
    SCHEMAS.iter().map(parse).collect()
}

fn list(as_json: bool) -> anyhow::Result<Exit> {
    let schemas = parsed()?;
    let all = SCHEMAS.iter().map(|(name, _)| name).zip(&schemas);
    if as_json {
        let listed = all.map(|(name, schema)| {
            json!({ "name": name, "id": schema.get("$id"), "description": schema.get("description") })
        });
        let listed: Vec<Value> = listed.collect();
        return show::print_json(&json!({ "schemas": listed }));
    }
    let rows = all.map(|(name, schema)| {
        let description = schema["description"].as_str().unwrap_or_default();
        format!("{name:<20} {description}\n")
    });
    show::print(rows.collect::<String>())
}

fn validate(name: &str, file: &Path, as_json: bool) -> anyhow::Result<Exit> {
    let schema: Value = serde_json::from_str(text(name)?)
        .with_context(|| format!("cannot parse the schema {name}"))?;
    if name == COMMON {
        let message = format!(
            "{COMMON} describes no document; `toolcell schema list` lists the schemas that do"
        );
        return Err(BadRequest(message).into());
    }
    let schema = RecordSchema::compile(&schema, &parsed()?)
        .with_context(|| format!("cannot compile the schema {name}"))?;
    let mut found = match read(file) {
        Ok(document) => schema.violations(&document, VIOLATIONS_MAX + 1),
        Err(why) if as_json => vec![Finding::new("", &why)],
        Err(why) => return Err(BadRequest(why).into()),
    };
    let more = found.len() > VIOLATIONS_MAX;
    found.truncate(VIOLATIONS_MAX);
    let valid = found.is_empty();
    let printed = if as_json {
        show::json(&json!({ "schema": name, "valid": valid, "errors": found, "more": more }))
    } else {
        for_people(name, &found, more)
    };
    let exit = if valid {
        Exit::Succeeded
    } else {
        Exit::BadRequest
    };
    show::done(printed, exit)
}

/// Refuses duplicate keys. An error names the file.
fn read(file: &Path) -> Result<Value, String> {
    let too_large = |name: &str| {
        format!("{name} is larger than {DOCUMENT_BYTES_MAX} bytes; check a part of it")
    };
    let text = document::read(file, DOCUMENT_BYTES_MAX, too_large)?;
    read_unique_json(&text, DOCUMENT_VALUES_MAX)
        .map_err(|error| format!("{} cannot be read as JSON: {error}", document::name(file)))
}

/// Escapes the texts of violations.
fn for_people(name: &str, found: &[Finding], more: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if found.is_empty() {
        return writeln!(out, "valid");
    }
    for Finding { path, message } in found {
        let place = if path.is_empty() { "the top" } else { path };
        writeln!(out, "{place}: {message}")?;
    }
    out.flush()?;
    let count = match (found.len(), more) {
        (_, true) => format!("more than {VIOLATIONS_MAX} violations, of which these are the first"),
        (1, false) => "1 violation".to_owned(),
        (count, false) => format!("{count} violations"),
    };
    show::say(&format!(
        "error: the document is not valid: {count}; see `toolcell schema show {name}` [{}]",
        ErrorCode::SchemaViolated
    ));
    Ok(())
}
