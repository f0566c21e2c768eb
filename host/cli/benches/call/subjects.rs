//! The components to call, from a few hundred bytes to a real tool, and a host to call them in.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use toolcell::{Grants, Home, Host, HostBuilder, Keep, LogSettings, Request};
use toolcell_spec::CallRecord;
use toolcell_toolchain::{
    BuildSettings, Language, Preference, ProjectKind, ToolchainSearch, build, new_project,
    write_sdk,
};

/// One component, and one call of it.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) component: Vec<u8>,
    /// The tool's name in the component.
    pub(crate) tool: &'static str,
    /// The tool's name in the host.
    pub(crate) qualified: &'static str,
    pub(crate) input: &'static str,
    /// A folder that the call reads, as `/sample`.
    pub(crate) sample: Option<PathBuf>,
    pub(crate) grants: Grants,
}

impl Subject {
    pub(crate) fn request(&self) -> Request {
        request(self.qualified, self.input).grants(self.grants.clone())
    }
}

/// The smallest component: no imports, no allocator.
pub(crate) fn echo() -> anyhow::Result<Subject> {
    let component = wat("echo")?;
    Ok(Subject {
        name: "wat echo",
        component,
        tool: "echo",
        qualified: "wat.echo",
        input: r#"{"a":1}"#,
        sample: None,
        grants: Grants::default(),
    })
}

/// What `toolcell new` writes: the smallest tool that an author would write with the SDK.
pub(crate) fn count() -> anyhow::Result<Subject> {
    Ok(Subject {
        name: "SDK new",
        ..count_in("rust".parse()?)?
    })
}

/// The same tool in another language.
pub(crate) fn count_in(lang: Language) -> anyhow::Result<Subject> {
    let sdk = write_sdk(home().folder())?;
    let parent = kept().join(lang.name());
    let folder = parent.join("count");
    if !folder.exists() {
        std::fs::create_dir_all(&parent)?;
        new_project(&parent, "count", lang, ProjectKind::Tool, Some(&sdk))?;
    }
    let component = component(&folder, Some(sdk))?;
    let input = r#"{"text":"one two"}"#;
    Ok(Subject {
        name: lang.title(),
        component,
        tool: "count",
        qualified: "count.count",
        input,
        sample: None,
        grants: Grants::default(),
    })
}

/// A tool with a parser, an interpreter and structured output under a schema.
pub(crate) fn jq() -> anyhow::Result<Subject> {
    let component = component(&root().join("example-tools/jq"), None)?;
    let input = r#"{"filter":".","input":{"a":1}}"#;
    Ok(Subject {
        name: "SDK jq .",
        component,
        tool: "jq",
        qualified: "jq.jq",
        input,
        sample: None,
        grants: Grants::default(),
    })
}

/// A call of a tool in the toolbox that is not a subject above.
struct ToolboxCall {
    /// Of its folder and its component.
    name: &'static str,
    tool: &'static str,
    qualified: &'static str,
    input: &'static str,
    /// In the checkout, for the call to read as `/sample`.
    sample: Option<&'static str>,
}

const TOOLBOX: [ToolboxCall; 7] = [
    ToolboxCall {
        name: "sql",
        tool: "query",
        qualified: "sql.query",
        input: r#"{"sql":"SELECT count(*) FROM requests","files":[{"path":"/sample/requests.csv"}]}"#,
        sample: Some("example-tools/sql/sample"),
    },
    ToolboxCall {
        name: "image",
        tool: "info",
        qualified: "image.info",
        input: r#"{"path":"/sample/pixel.png"}"#,
        sample: Some("example-tools/everything/src"),
    },
    ToolboxCall {
        name: "pdf",
        tool: "text",
        qualified: "pdf.text",
        input: r#"{"path":"/sample/report.pdf"}"#,
        sample: Some("example-tools/pdf/sample"),
    },
    ToolboxCall {
        name: "archive",
        tool: "list",
        qualified: "archive.list",
        input: r#"{"path":"/sample/sql.tar"}"#,
        sample: None,
    },
    ToolboxCall {
        name: "chart",
        tool: "chart",
        qualified: "chart.chart",
        input: r#"{"kind":"bar","rows":[{"day":"Mon","calls":3},{"day":"Tue","calls":5}],"x":"day","y":"calls"}"#,
        sample: None,
    },
    ToolboxCall {
        name: "git",
        tool: "log",
        qualified: "git.log",
        input: r#"{"path":"/sample","limit":3}"#,
        sample: Some(""),
    },
    ToolboxCall {
        name: "shell",
        tool: "shell",
        qualified: "shell.shell",
        input: r#"{"script":"seq 10 | sort -r | head -1"}"#,
        sample: None,
    },
];

/// Calls of the tools that the packages carry.
pub(crate) fn toolbox() -> impl Iterator<Item = anyhow::Result<Subject>> {
    TOOLBOX.iter().map(ToolboxCall::subject)
}

impl ToolboxCall {
    fn subject(&self) -> anyhow::Result<Subject> {
        let mut grants = Grants::default();
        let sample = match self.sample {
            Some(folder) => Some(root().join(folder)),
            None if self.name == "archive" => Some(archived()?),
            None => None,
        };
        if let Some(folder) = &sample {
            grants.allow_read(&format!("{}=/sample", folder.display()))?;
        }
        if self.name == "chart" {
            // It asks for both, whatever it is called with.
            let folder = kept().join("chart");
            std::fs::create_dir_all(&folder)?;
            grants.allow_read(&format!("{}=/chart", folder.display()))?;
            grants.allow_write(&format!("{}=/chart", folder.display()))?;
        }
        Ok(Subject {
            name: self.name,
            component: component(&root().join("example-tools").join(self.name), None)?,
            tool: self.tool,
            qualified: self.qualified,
            input: self.input,
            sample,
            grants,
        })
    }
}

/// A folder with an archive, because git has no binary files of this project.
fn archived() -> anyhow::Result<PathBuf> {
    let folder = kept().join("archive");
    std::fs::create_dir_all(&folder)?;
    let made = Command::new("tar")
        .arg("-cf")
        .arg(folder.join("sql.tar"))
        .arg("-C")
        .arg(root().join("example-tools/sql"))
        .arg("sample")
        .status()
        .context("start tar")?;
    anyhow::ensure!(made.success(), "tar ended with {made}");
    Ok(folder)
}

/// A guest of the tests, written without the SDK.
pub(crate) fn fixture(
    guest: &str,
    name: &'static str,
    tool: &'static str,
    qualified: &'static str,
) -> anyhow::Result<Subject> {
    let component = component(&root().join("tests/guests").join(guest), None)?;
    Ok(Subject {
        name,
        component,
        tool,
        qualified,
        input: "{}",
        sample: None,
        grants: Grants::default(),
    })
}

pub(crate) fn wat(name: &str) -> anyhow::Result<Vec<u8>> {
    Ok(wat::parse_str(wat_text(name)?)?)
}

pub(crate) fn wat_text(name: &str) -> anyhow::Result<String> {
    let file = root().join("tests/guests/wat").join(format!("{name}.wat"));
    std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))
}

fn component(folder: &Path, sdk: Option<PathBuf>) -> anyhow::Result<Vec<u8>> {
    let own = Home::find()?;
    let mut settings = BuildSettings::new(
        ToolchainSearch::new(Preference::from_env()?, own.cache()),
        home().builds(),
    );
    // Where the tests compile the same tools.
    settings.target_dir = Some(own.compiling());
    settings.sdk = sdk;
    let built = build(folder, &settings, &mut |line| eprintln!("{line}"))?;
    std::fs::read(&built.wasm).with_context(|| format!("read {}", built.wasm.display()))
}

/// A host that serves many calls, unless `change` says otherwise.
pub(crate) fn host(change: impl FnOnce(HostBuilder) -> HostBuilder) -> anyhow::Result<Host> {
    let settings = Host::builder()
        .home(home())
        .compiler(env!("CARGO_BIN_EXE_toolcell"))
        // The row measures a call; the journal has a row of its own.
        .journal(LogSettings {
            keep: Keep::None,
            ..LogSettings::default()
        });
    Ok(change(settings).build()?)
}

pub(crate) fn request(tool: &str, input: &str) -> Request {
    Request::new(tool, input)
}

/// Fails unless the call succeeded, because a benchmark of an error would be a fast one.
pub(crate) fn succeeded(record: CallRecord) -> anyhow::Result<CallRecord> {
    anyhow::ensure!(
        !record.result.is_error,
        "the call failed: {:?}",
        record.result.error
    );
    Ok(record)
}

pub(crate) async fn load(host: &Host, component: &[u8]) -> anyhow::Result<()> {
    host.load(component)
        .await
        .map_err(|refusal| anyhow::anyhow!("load a component: {refusal:?}"))?;
    Ok(())
}

/// The folder of this benchmark, kept between runs.
pub(crate) fn kept() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench")
}

fn home() -> Home {
    Home::at(kept().join("home"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
