//! What an SDK offers, each of them does: a table of rows, and a probe in each language that has a tool for each row. A probe is
//! a project like an author's, with a native test of its own.

mod rows;

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use toolcell::Host;
use toolcell_toolchain::Language;

use crate::cli::{BUILDING, build::with_toolchain};
use crate::support::{Called, Server, Test, host, root, scratch, wat};

/// The probe in one language, built.
struct Probe {
    language: Language,
    project: PathBuf,
    component: PathBuf,
    /// Of this probe alone, because all have the same names.
    host: Arc<Host>,
    /// A server that greets.
    server: Server,
}

fn copy(from: &Path, to: &Path, change: &dyn Fn(&str) -> String) {
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let place = to.join(change(entry.file_name().to_str().unwrap()));
        if entry.path().is_dir() {
            std::fs::create_dir_all(&place).unwrap();
            copy(&entry.path(), &place, change);
        } else {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            std::fs::write(place, change(&text)).unwrap();
        }
    }
}

impl Probe {
    fn build(place: &Path, language: Language) -> Self {
        let name = language.name();
        let parent = place.join(name);
        std::fs::create_dir(&parent).unwrap();
        with_toolchain(&parent, &["new", "parity", "--lang", name])
            .run()
            .exits(0);
        let project = parent.join("parity");
        let probes = root().join("tests/parity/probes");
        // The sources of TypeScript have no types that are written out, so that they are JavaScript too.
        let (folder, change): (_, &dyn Fn(&str) -> String) = match name {
            "javascript" => ("typescript", &|text| {
                text.replace("tool.ts", "tool.js")
                    .replace("test.ts", "test.js")
            }),
            _ => (name, &str::to_owned),
        };
        copy(&probes.join(folder), &project, change);
        declare(&project, name);
        with_toolchain(&parent, &["build", "parity"]).run().exits(0);
        Self {
            language,
            component: project.join("target/toolcell/parity.wasm"),
            project,
            host: own_host(),
            // The body is read before the connection is closed.
            server: Server::start(|visit| {
                if visit.head().is_some() {
                    visit.say("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
                    visit.drain();
                }
            }),
        }
    }

    fn test(&self, tool: &str) -> Test {
        Test::of_file(&self.component, Some(tool)).on(&self.host)
    }

    /// The unit tests of the probe, on this machine.
    fn test_natively(&self) {
        let ran = Command::new("sh")
            .args(["-c", self.language.test_command()])
            .current_dir(&self.project)
            .output()
            .unwrap();
        let said = [ran.stdout, ran.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(ran.status.success(), "{}", said.concat());
    }

    /// What a client of MCP reads of a tool.
    fn listed(&self, tool: &str) -> Value {
        let component = self.component.to_str().unwrap();
        let printed = with_toolchain(&self.project, &["export", "--dialect=mcp", component]).run();
        let tools: Vec<Value> = serde_json::from_str(&printed.exits(0).stdout).unwrap();
        let is_wanted = |found: &&Value| found["name"].as_str().unwrap().ends_with(tool);
        tools.iter().find(is_wanted).unwrap().clone()
    }
}

fn own_host() -> Arc<Host> {
    Arc::new(host(|settings| settings.pooled(false)))
}

/// What the project's manifest has to say beside what the template does.
fn declare(project: &Path, language: &str) {
    let change = |file: &str, from: &str, to: &str| {
        let file = project.join(file);
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(from), "{}", file.display());
        std::fs::write(file, text.replace(from, to)).unwrap();
    };
    match language {
        "rust" => {
            change(
                "Cargo.toml",
                "toolcell-guest = \"0.1\"",
                "toolcell-guest = { version = \"0.1\", features = [\"http\"] }",
            );
            change("Cargo.toml", "edition", "license = \"MIT\"\nedition");
        }
        "python" => change(
            "pyproject.toml",
            "requires-python",
            "license = \"MIT\"\nrequires-python",
        ),
        "typescript" | "javascript" => change(
            "package.json",
            "\"private\"",
            "\"license\": \"MIT\",\n  \"private\"",
        ),
        _ => {}
    }
}

fn wait_for<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// Where a schema has a member: through references, choices with null, and the items of lists and maps.
fn member(schema: &Value, path: &str) -> Value {
    let mut found = resolved(schema, schema);
    for name in path.split('/').filter(|name| !name.is_empty()) {
        for inside in ["items", "additionalProperties"] {
            if found[inside].is_object() && found.get("properties").is_none() {
                found = resolved(schema, &found[inside]);
            }
        }
        found = resolved(schema, &found["properties"][name]);
    }
    found
}

fn resolved(whole: &Value, part: &Value) -> Value {
    let mut part = part.clone();
    for choices in ["anyOf", "oneOf", "allOf"] {
        let rest = part[choices].as_array().map(|all| {
            all.iter()
                .find(|one| one["type"] != "null")
                .unwrap()
                .clone()
        });
        if let Some(rest) = rest {
            part.as_object_mut()
                .unwrap()
                .extend(resolved(whole, &rest).as_object().unwrap().clone());
        }
    }
    if let Some(place) = part["$ref"]
        .as_str()
        .and_then(|place| whole.pointer(place.trim_start_matches('#')))
    {
        let fields = resolved(whole, place).as_object().unwrap().clone();
        for (name, value) in fields {
            part.as_object_mut().unwrap().entry(name).or_insert(value);
        }
    }
    part
}

/// What each language lacks of the table, by row.
fn lacking(probe: &Probe) -> BTreeMap<&'static str, String> {
    let mut lacking = BTreeMap::new();
    for (name, row) in rows::ROWS {
        if let Err(cause) = catch_unwind(AssertUnwindSafe(|| row(probe))) {
            let text = cause.downcast_ref::<String>().cloned();
            let text = text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            lacking.insert(*name, text.unwrap_or_default());
        }
    }
    lacking
}

#[test]
#[ignore = "builds a probe in each language: `just nightly` runs it"]
fn each_language_has_each_row() {
    let _turn = BUILDING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let (_guard, place) = scratch();
    let wanted = std::env::var("TOOLCELL_LANGUAGES").ok();
    let is_wanted = |language: &Language| {
        wanted
            .as_ref()
            .is_none_or(|names| names.split(',').any(|name| name == language.name()))
    };
    let mut failed = String::new();
    for language in Language::all().filter(is_wanted) {
        let Ok(probe) = catch_unwind(|| Probe::build(&place, language)) else {
            failed += &format!("{}: the probe does not build\n", language.name());
            continue;
        };
        for (row, why) in lacking(&probe) {
            failed += &format!("{}: {row}: {why}\n", language.name());
        }
    }
    assert!(failed.is_empty(), "\n{failed}");
}

#[test]
fn the_book_lists_the_rows() {
    let text = std::fs::read_to_string(root().join("docs/authors.md")).unwrap();
    let text: Vec<&str> = text.split_whitespace().collect();
    for (name, _) in rows::ROWS {
        assert!(
            text.join(" ").contains(name),
            "docs/authors.md does not list {name:?}"
        );
    }
}

/// The echo of another component, loaded beside the probes for calls of other tools.
fn echo() -> Vec<u8> {
    wat("echo")
}

/// The blocks of a result, without what the host adds to them.
fn texts(called: &Called) -> Value {
    let content = called.record()["result"]["content"].clone();
    let blocks = content.as_array().unwrap().iter();
    json!(
        blocks
            .map(|block| block["text"].clone())
            .collect::<Vec<_>>()
    )
}
