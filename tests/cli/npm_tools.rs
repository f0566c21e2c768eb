//! The example tools in TypeScript and JavaScript: built with the packages that their lock files pin, in a copy, because what
//! npm and a build write beside the sources would be sources of the Rust tools' workspace.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use serde_json::json;

use super::BUILDING;
use super::build::with_toolchain;
use crate::support::{Home, Ran, Toolcell, component, kept, root, scratch};

/// What npm and builds write beside the sources.
const MADE: [&str; 3] = [".toolcell", "node_modules", "target"];

/// The component of an example tool, built once.
pub(super) fn built(name: &'static str) -> PathBuf {
    static BUILT: Mutex<Option<HashMap<&str, PathBuf>>> = Mutex::new(None);
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let known = built.get_or_insert_default();
    if let Some(component) = known.get(name) {
        return component.clone();
    }
    let _turn = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    let place = kept("npm-tools");
    copy(&root().join("example-tools").join(name), &place.join(name));
    // Links to the SDK, which may be that of another program: the build writes them again.
    std::fs::remove_dir_all(place.join(name).join(".toolcell")).ok();
    install(&place.join(name), &place.join(format!("{name}.installed")));
    with_toolchain(&place, &["build", name]).run().exits(0);
    let component = place
        .join(name)
        .join("target/toolcell")
        .join(format!("{name}.wasm"));
    known.insert(name, component.clone());
    component
}

/// Makes `to` a copy of `from`, without what was made beside the sources. A source that is gone goes from the copy too.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    let made = |path: &Path| MADE.iter().any(|name| path.ends_with(name));
    for path in entries(to).into_iter().filter(|path| !made(path)) {
        if path.is_dir() {
            std::fs::remove_dir_all(&path)
        } else {
            std::fs::remove_file(&path)
        }
        .unwrap();
    }
    for path in entries(from).into_iter().filter(|path| !made(path)) {
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target)
        } else {
            std::fs::copy(&path, &target).map(drop).unwrap()
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect()
}

/// Installs what the lock file names, unless that is there: `installed` has the lock file of the last time.
pub(super) fn install(project: &Path, installed: &Path) {
    let lock = std::fs::read(project.join("package-lock.json")).unwrap();
    if project.join("node_modules").is_dir()
        && std::fs::read(installed).is_ok_and(|known| known == lock)
    {
        return;
    }
    run(Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .current_dir(project));
    std::fs::write(installed, lock).unwrap();
}

fn run(command: &mut Command) {
    let ran = command.output().unwrap();
    let said = [ran.stdout, ran.stderr]
        .map(|text| String::from_utf8_lossy(&text).into_owned())
        .concat();
    assert!(ran.status.success(), "{command:?}: {said}");
}

/// Runs the tool's own unit tests, natively.
pub(super) fn native_test(name: &'static str) {
    let component = built(name);
    run(Command::new("npm")
        .arg("test")
        .current_dir(component.ancestors().nth(3).unwrap()));
}

/// Runs the calls that the tool's README shows, in the checkout, with the components of the tools that they name.
pub(super) fn readme_calls(name: &'static str, others: &[&str]) -> Vec<String> {
    let folder = format!("example-tools/{name}");
    let text = std::fs::read_to_string(root().join(&folder).join("README.md")).unwrap();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    for line in [
        format!("(cd {folder} && npm ci --ignore-scripts)"),
        format!("toolcell build {folder}"),
    ] {
        assert!(lines.contains(&line.as_str()), "{line}");
    }
    let home = Home::new();
    let program = Path::new(env!("CARGO_BIN_EXE_toolcell")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let said = |line: &str| {
        let mut line = line.replace(
            &format!("{folder}#"),
            &format!("{}#", built(name).display()),
        );
        for other in others.iter().map(|other| format!("example-tools/{other}")) {
            line = line.replace(
                &format!("--with={other}"),
                &format!("--with={}", component(&other).display()),
            );
        }
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &line])
            .env("PATH", &path)
            .env("TOOLCELL_HOME", home.path());
        Toolcell::exactly(shell).dir(&root()).run().exits(0).stdout
    };
    lines
        .into_iter()
        .filter(|line| line.starts_with("toolcell call "))
        .map(said)
        .collect()
}

fn markdown(folder: &Path, tool: &str, input: &serde_json::Value, options: &[&str]) -> Ran {
    let tool = format!("{}#{tool}", built("markdown").display());
    Toolcell::new([&["call", &tool, &input.to_string(), "--json"], options].concat())
        .dir(folder)
        .run()
}

#[test]
fn markdown_looks_into_the_files_that_were_granted_and_renders_without_a_grant() {
    let (_guard, folder) = scratch();
    let text = "---\ntitle: T\n---\n# One\n\n## Größe\n\n| a | b |\n|---|---|\n| `x` | 2 |\n";
    std::fs::write(folder.join("page.md"), text).unwrap();
    let page = json!({ "path": "page.md" });
    let refused = markdown(&folder, "outline", &page, &[]).exits(3).json();
    assert_eq!(
        refused["error"]["error_class"], "permission_denied",
        "{refused}"
    );
    let outline = markdown(&folder, "outline", &page, &["--allow-read=."])
        .exits(0)
        .json();
    assert_eq!(
        outline["structured_content"],
        json!({
            "front_matter": { "title": "T" },
            "headings": [
                { "level": 1, "text": "One", "id": "one", "line": 4 },
                { "level": 2, "text": "Größe", "id": "größe", "line": 6 },
            ],
            "lines": 10,
        })
    );
    let tables = markdown(&folder, "tables", &page, &["--allow-read=."])
        .exits(0)
        .json();
    let table = json!({ "under": "Größe", "line": 8, "columns": ["a", "b"], "rows": [{ "a": "x", "b": "2" }] });
    assert_eq!(tables["structured_content"], json!({ "tables": [table] }));

    let render = |text: &str, to: &str| {
        let rendered = markdown(&folder, "render", &json!({ "text": text, "to": to }), &[])
            .exits(0)
            .json();
        rendered["content"][0]["text"].as_str().unwrap().to_owned()
    };
    let hostile =
        "# A\n\nx <script>y</script><b onclick=x>b</b> [c](javascript:x) [d](https://d.example)";
    let safe = "<h1>A</h1>\n<p>x b [c](javascript:x) <a href=\"https://d.example\">d</a></p>\n";
    assert_eq!(render(hostile, "html"), safe);
    assert_eq!(
        render("# A\n\n- *b* [c](https://c.example)", "text"),
        "A\n\n- b c (https://c.example)"
    );
    // What takes too long ends at the limits of the call.
    let slow = json!({ "text": "<a".repeat(20_000) });
    let stopped = markdown(&folder, "render", &slow, &["--fuel=100000000"])
        .exits(4)
        .json();
    assert_eq!(
        stopped["error"]["error_code"], "fuel_exhausted",
        "{stopped}"
    );
}

#[test]
fn the_readme_of_markdown_shows_what_it_does_and_its_own_tests_pass() {
    let said = readme_calls("markdown", &[]);
    let [outline, tables] = said.as_slice() else {
        panic!("{said:?}")
    };
    assert!(outline.contains("  Packages (line "), "{outline}");
    let tables: serde_json::Value = serde_json::from_str(tables).unwrap();
    let rows = tables["tables"][0]["rows"].as_array().unwrap();
    assert!(
        rows.iter().any(|row| row["folder"] == "host/engine"),
        "{tables}"
    );
    native_test("markdown");
}
