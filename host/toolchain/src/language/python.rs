//! Python: componentize-py makes a component of the sources, the SDK and a Python of its own, and runs the module once
//! inside of WebAssembly, so that a call begins with everything imported.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::super::make::CompileJob;
use super::super::toolchain_cache::{SetUp, ToolchainPart};
use super::super::{ProgressSink, sdk};
use super::fetched::{FetchedToolchain, listed, nothing};
use super::{EmbeddedFile, LanguageRow};

const TOOL: &[EmbeddedFile] = &[
    (
        "pyproject.toml",
        include_str!("../template/python/pyproject.toml"),
    ),
    ("tool.py", include_str!("../template/python/tool.py")),
    (
        "test_tool.py",
        include_str!("../template/python/test_tool.py"),
    ),
    ("README.md", include_str!("../template/python/README.md")),
    (".gitignore", include_str!("../template/python/gitignore")),
];

const SDK: &[EmbeddedFile] = sdk::files![
    "guest-sdk/python/README.md",
    "guest-sdk/python/build.py",
    "guest-sdk/python/toolcell/__init__.py",
    "guest-sdk/python/toolcell/_calls.py",
    "guest-sdk/python/toolcell/_component.py",
    "guest-sdk/python/toolcell/_configuration.py",
    "guest-sdk/python/toolcell/_context.py",
    "guest-sdk/python/toolcell/_declare.py",
    "guest-sdk/python/toolcell/_errors.py",
    "guest-sdk/python/toolcell/_host.py",
    "guest-sdk/python/toolcell/_http.py",
    "guest-sdk/python/toolcell/_output.py",
    "guest-sdk/python/toolcell/_questions.py",
    "guest-sdk/python/toolcell/_running.py",
    "guest-sdk/python/toolcell/_schema.py",
    "guest-sdk/python/toolcell/testing.py",
    "guest-sdk/python/wit/clocks.wit",
    "guest-sdk/python/wit/http.wit",
    "guest-sdk/python/wit/io.wit",
];

const PACKAGE: &str = "toolcell";

const REQUIREMENTS: &str = "componentize-py==0.25.1 \
    --hash=sha256:8623cd8cab8453cb0cd8bf03f3c7103420d06f2f3d360186a280a70a1ca5e89f \
    --hash=sha256:7b6a87c520358166843af0daa86d2312d7af4cbcbbf1e598951085cf7f2991ca \
    --hash=sha256:a556991534cc496207a9d2ca733c4b0f17ed38ef56a8d6b5f1847fdf1225dd1b \
    --hash=sha256:65fbc4a94df1de8acf7da50a1f5ed1711230188844e53e6332d99029be4e0afa\n";

static COMPONENTIZE: ToolchainPart = ToolchainPart {
    name: "componentize-py-0.25.1",
    contents: "componentize-py 0.25.1",
    registry: "PyPI",
    download_mb: 17,
    disk_mb: 46,
    needs: &[("python3", "install Python 3.11 or later, with pip")],
    made_of: String::new,
    set_up,
};

fn set_up(part: &SetUp, say: ProgressSink) -> Result<()> {
    part.pip(REQUIREMENTS, say)
}

fn compile(job: &CompileJob, say: ProgressSink) -> Result<PathBuf> {
    // A link leads to a copy that is not the project's own.
    if !job.dir.join(PACKAGE).is_symlink() {
        job.refresh(local_files(job.sdk)?)?;
    }
    say("making the component, which takes 10 to 30 s");
    let component = component(job);
    // Isolated from the user's site packages and variables, so that the same sources make the same component; -B, because
    // the folder of the SDK never changes.
    let mut python = job.on_path("python3")?;
    python
        .args(["-I", "-B"])
        .arg(job.sdk.join("guest-sdk/python/build.py"));
    python
        .arg(job.dir)
        .arg(job.sdk.join("guest-sdk/python"))
        .arg(job.sdk.join("wit"))
        .arg(&component);
    python.arg(job.part_folder(&COMPONENTIZE).join("python"));
    job.run(python, say)?;
    Ok(component)
}

fn component(job: &CompileJob) -> PathBuf {
    job.work.join("component.wasm")
}

/// A copy, because editors and type checkers follow no link that only Python resolves.
fn local_files(_sdk: &Path) -> Result<Vec<(String, String)>> {
    let inside = SDK
        .iter()
        .filter_map(|(path, text)| Some((path.strip_prefix("guest-sdk/python/")?, *text)));
    let package = inside.filter(|(path, _)| Path::new(path).starts_with(PACKAGE));
    Ok(package
        .map(|(path, text)| (path.to_owned(), text.to_owned()))
        .collect())
}

pub(super) static PYTHON: LanguageRow = LanguageRow {
    name: "python",
    title: "Python",
    marks: &["pyproject.toml"],
    tool: TOOL,
    hook: &[],
    local_files,
    // The test imports the package of this name from the project's folder.
    refuses_name: |name| (name == PACKAGE).then_some("it is the name of the SDK"),
    sdk: SDK,
    test_command: "python3 -m unittest",
    fetched: Some(FetchedToolchain {
        part: &COMPONENTIZE,
        made_beside: &[
            "__pycache__",
            ".venv",
            "venv",
            ".mypy_cache",
            ".pytest_cache",
            ".ruff_cache",
            PACKAGE,
        ],
        steering: &[],
        beside: nothing,
        read: |job| listed(&component(job)),
        skips: true,
        compile,
    }),
};
