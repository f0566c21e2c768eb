//! `toolcell bundle`: an MCP bundle, which desktop clients install by opening it.

mod manifest;

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use crate::runtime::Runtime;
use crate::surface;
use anyhow::Context;
use clap::Args;
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use toolcell::{Grants, Home, Policy, ToolTerms};
use toolcell_config::ConfigLayers;
use toolcell_engine::catalog::ToolSelection;
use toolcell_install::reference::ComponentReference;
use toolcell_server::ToolOffer;
use toolcell_spec::{LoadingState, Refusal};
use toolcell_system::component_file::read_component;

use self::manifest::{AskedFolder, Facts, PROGRAM, is_server_name};
use super::exit::{self, BadRequest, Exit, Stop};
use super::hosts;
use super::options::{GrantOptions, LimitOptions};
use super::serving::{self, NamedTool};
use super::zip::{self, Entry};
use super::{show, wrap};

/// In bytes: a build with debug information has 200 MiB.
const PROGRAM_BYTES_MAX: u64 = 1 << 30;
const NAMED_MAX: usize = 5;
const TOOLS: &str = "server/tools";

/// Makes one .mcpb file (MCP Bundle) of toolcell, tools, grants and limits. A desktop client installs it by opening it, and
/// starts `toolcell mcp` with exactly these tools, grants and limits. The same input gives the same bytes.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  toolcell bundle example-tools/jq --author=\"Ada\" -o jq.mcpb\n  \
                        toolcell bundle example-tools/files --ask-read=\"Notes\" --timeout=5s --author=\"Ada\" -o notes.mcpb"
)]
pub(super) struct Bundle {
    /// A .wasm file, a folder of such files, or a built source folder; with #NAME for one of its tools
    #[arg(value_name = "TOOL", required = true)]
    tools: Vec<String>,
    /// Publisher of the bundle
    #[arg(long, value_name = "NAME")]
    author: String,
    /// The name of the bundle: letters, digits, `-`, `_` and `.` [default: its first tool's file name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The name that clients show
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Purpose of the tools [default: their names]
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// The version of the bundle
    #[arg(long, value_name = "VERSION", default_value = "0.1.0")]
    bundle_version: String,
    /// Let the user choose a folder that the tools may read, under this name; can be repeated
    #[arg(long, value_name = "NAME")]
    ask_read: Vec<String>,
    /// Let the user choose a folder that the tools may read and change, under this name; can be repeated
    #[arg(long, value_name = "NAME")]
    ask_write: Vec<String>,
    /// The toolcell program to put in, such as one for another platform [default: this one]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Write the server.json with which the MCP registry lists the bundle
    #[arg(long, value_name = "FILE", requires_all = ["server_name", "url"])]
    server_json: Option<PathBuf>,
    /// The name in the MCP registry, such as io.github.me/notes
    #[arg(long, value_name = "NAME", requires = "server_json")]
    server_name: Option<String>,
    /// Where the bundle will be downloaded from
    #[arg(long, value_name = "URL", requires = "server_json")]
    url: Option<String>,
    /// The new file
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace the files if they exist
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    grants: GrantOptions,
    #[command(flatten)]
    limits: LimitOptions,
}

struct Parts {
    files: Vec<Entry>,
    targets: Vec<String>,
    /// Name and description of each.
    tools: Vec<(String, String)>,
}

struct WrittenBundle {
    sha256: String,
    bytes: usize,
    tools: Vec<String>,
}

impl Bundle {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let bundled = exit::refusable(self.make())?;
        let refusal = bundled.as_ref().err();
        let made = bundled.as_ref().ok();
        let record = self.json.then(|| {
            let server_json = self.server_json.as_ref().filter(|_| made.is_some());
            json!({
                "bundled": made.map(|_| self.output.to_string_lossy()),
                "sha256": made.map(|made| &made.sha256),
                "bytes": made.map(|made| made.bytes),
                "tools": made.map_or(&[][..], |made| &made.tools),
                "server_json": server_json.map(|file| file.to_string_lossy()),
                "error": refusal.map(Refusal::to_error),
            })
        });
        let output = self.output.display().to_string();
        show::outcome(refusal, record.as_ref(), &output)
    }

    fn make(&self) -> Result<WrittenBundle, Stop> {
        for file in [Some(&self.output), self.server_json.as_ref()]
            .into_iter()
            .flatten()
        {
            if !self.force && file.symlink_metadata().is_ok() {
                return Err(wrap::exists(file).into());
            }
        }
        if self
            .server_json
            .as_ref()
            .is_some_and(|file| is_same(file, &self.output))
        {
            let message = format!(
                "{} cannot be the bundle and the server.json: name two files",
                self.output.display()
            );
            return Err(BadRequest(message).into());
        }
        let registry = self.registry()?;
        let folders = self.folders()?;
        let mut options = self.grants.typed().map_err(BadRequest::from_error)?;
        options.extend(self.limits.typed());
        let (program, platform) = self.program()?;
        let parts = self.parts()?;
        let name = self.name(&parts)?;
        let description = self
            .description
            .clone()
            .unwrap_or_else(|| describe(&parts.tools));
        let facts = Facts {
            name: &name,
            title: self.title.as_deref(),
            description: &description,
            release: &self.bundle_version,
            author: &self.author,
            platform,
            targets: &parts.targets,
            options: &options,
            folders: &folders,
            tools: &parts.tools,
        };
        let mut files = vec![
            Entry {
                name: "manifest.json".to_owned(),
                mode: 0o644,
                bytes: text(&facts.manifest()),
            },
            Entry {
                name: PROGRAM.to_owned(),
                mode: 0o755,
                bytes: program,
            },
        ];
        files.extend(parts.files);
        let archive = zip::archive(&files)
            .map_err(|why| BadRequest(format!("cannot make the bundle: {why}")))?;
        let sha256 = HEXLOWER.encode(&Sha256::digest(&archive));
        wrap::write(&self.output, &archive, self.force)?;
        if let Some((file, server_name, url)) = registry {
            wrap::write(
                file,
                &text(&facts.server(server_name, url, &sha256)),
                self.force,
            )?;
        }
        let tools = parts.tools.iter().map(|(name, _)| name.clone()).collect();
        Ok(WrittenBundle {
            sha256,
            bytes: archive.len(),
            tools,
        })
    }

    /// Each needs a key of its own.
    fn folders(&self) -> Result<Vec<AskedFolder>, BadRequest> {
        let of = |titles: &[String], writable: bool| -> Vec<AskedFolder> {
            titles
                .iter()
                .map(|title| AskedFolder {
                    title: title.clone(),
                    writable,
                })
                .collect()
        };
        let mut folders = of(&self.ask_read, false);
        folders.extend(of(&self.ask_write, true));
        let mut keys = BTreeSet::new();
        for folder in &folders {
            if !folder.title.contains(|c: char| c.is_ascii_alphanumeric())
                || !keys.insert(folder.key())
            {
                let message = format!(
                    "the name {:?} of a folder has no letter, or another folder has it",
                    folder.title
                );
                return Err(BadRequest(message));
            }
        }
        Ok(folders)
    }

    fn program(&self) -> anyhow::Result<(Vec<u8>, &'static str)> {
        let file = match &self.program {
            Some(file) => file.clone(),
            None => std::env::current_exe().context("cannot find the toolcell program itself")?,
        };
        let unreadable =
            |why: String| BadRequest(format!("cannot read the program {}: {why}", file.display()));
        let metadata = fs::metadata(&file).map_err(|error| unreadable(error.to_string()))?;
        if !metadata.is_file() || metadata.len() > PROGRAM_BYTES_MAX {
            return Err(unreadable(format!(
                "not a regular file of at most {PROGRAM_BYTES_MAX} bytes"
            ))
            .into());
        }
        let bytes = fs::read(&file).map_err(|error| unreadable(error.to_string()))?;
        let platform = platform(&bytes);
        Ok((bytes, platform))
    }

    /// Loads the tools, none of which runs.
    fn parts(&self) -> Result<Parts, Stop> {
        let home = Home::find()?;
        let host = hosts::loading_host(&home)?;
        let runtime = Runtime::on_this_thread()?;
        let mut parts = Parts {
            files: Vec::new(),
            targets: Vec::new(),
            tools: Vec::new(),
        };
        let mut known = HashMap::<PathBuf, String>::new();
        let mut offered = Vec::new();
        for named in serving::named(&self.tools, &ConfigLayers::default())? {
            let file = named.locate(&home)?;
            let bytes = read_component(&file)?;
            let loaded = runtime.block_on(host.load(&bytes));
            let tools = loaded.and_then(|loaded| named.target.tools(&loaded));
            let tools = tools.map_err(|refusal| named.failed(refusal))?;
            offered.extend(tools.into_iter().map(|tool| ToolOffer {
                tool,
                terms: ToolTerms::default(),
                provider: None,
            }));
            let place = match known.get(&file) {
                Some(place) => place.clone(),
                None => {
                    let place = place(&file, &known);
                    parts.files.push(Entry {
                        name: place.clone(),
                        mode: 0o644,
                        bytes,
                    });
                    known.insert(file, place.clone());
                    place
                }
            };
            parts.targets.push(argument(&named, &place));
        }
        let rules = (&Policy::default(), &Grants::default());
        let missing = BTreeSet::new();
        let offers = surface::expose(offered, ToolSelection::default(), rules, &missing);
        let described = offers.describe(|listed, standing| {
            let is_listed = standing.state != LoadingState::Unavailable;
            is_listed.then(|| (listed.name.to_owned(), listed.description.to_owned()))
        });
        parts.tools = described.into_iter().flatten().collect();
        Ok(parts)
    }

    fn name(&self, parts: &Parts) -> Result<String, BadRequest> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => parts
                .files
                .first()
                .map(|file| stem(Path::new(&file.name)))
                .unwrap_or_default(),
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c);
        if name.is_empty() || !name.chars().all(fits) {
            return Err(BadRequest(format!(
                "{name:?} is no name of a bundle: give letters, digits, `-`, `_` or `.`"
            )));
        }
        Ok(name)
    }

    /// The file for the registry, the name there, and the URL of the bundle.
    fn registry(&self) -> Result<Option<(&Path, &str, &str)>, BadRequest> {
        let (Some(file), Some(name), Some(url)) = (&self.server_json, &self.server_name, &self.url)
        else {
            return Ok(None);
        };
        if !is_server_name(name) {
            let message = format!(
                "{name:?} is no name of the MCP registry: give NAMESPACE/NAME, as in io.github.me/notes"
            );
            return Err(BadRequest(message));
        }
        // Without a user, a password and a query, which a list of servers would show.
        let is_url = matches!(
            ComponentReference::parse(url, Path::new("/")),
            Ok(ComponentReference::Url(_))
        );
        if !is_url || !url.starts_with("https://") || url.contains(char::is_whitespace) {
            return Err(BadRequest(format!(
                "the bundle cannot be downloaded from {url:?}: give an https URL without a user and a query"
            )));
        }
        Ok(Some((file.as_path(), name.as_str(), url.as_str())))
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    let place = |file: &Path| {
        let folder = wrap::folder_of(file);
        (
            folder.canonicalize().unwrap_or_else(|_| folder.to_owned()),
            file.file_name().map(ToOwned::to_owned),
        )
    };
    place(one) == place(other)
}

/// `linux` or `darwin`: by the format of the program, else this machine's.
fn platform(program: &[u8]) -> &'static str {
    /// 64 bits in little endian, and programs for several processors.
    const DARWIN: [[u8; 4]; 2] = [[0xcf, 0xfa, 0xed, 0xfe], [0xca, 0xfe, 0xba, 0xbe]];
    let start = program.first_chunk::<4>();
    match start {
        Some(b"\x7fELF") => "linux",
        Some(start) if DARWIN.contains(start) => "darwin",
        _ if cfg!(target_os = "macos") => "darwin",
        _ => "linux",
    }
}

fn place(file: &Path, known: &HashMap<PathBuf, String>) -> String {
    let stem = stem(file);
    let numbered = (1_u32..).map(|number| match number {
        1 => format!("{TOOLS}/{stem}.wasm"),
        number => format!("{TOOLS}/{stem}-{number}.wasm"),
    });
    // Where names have no case, as on macOS, one of two files would replace the other.
    let mut free = numbered.filter(|place| {
        !known
            .values()
            .any(|taken| taken.eq_ignore_ascii_case(place))
    });
    free.next().unwrap_or_default()
}

fn stem(file: &Path) -> String {
    let stem = file
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default();
    stem.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' || c == '_' {
                c
            } else {
                '_'
            }
        })
        .collect()
}

fn argument(named: &NamedTool, place: &str) -> String {
    match &named.target.name {
        Some(name) => format!("/{place}#{name}"),
        None => format!("/{place}"),
    }
}

fn describe(tools: &[(String, String)]) -> String {
    match tools {
        [(_, description)] => description.lines().next().unwrap_or_default().to_owned(),
        tools => {
            let names: Vec<&str> = tools
                .iter()
                .take(NAMED_MAX)
                .map(|(name, _)| name.as_str())
                .collect();
            let more = if tools.len() > NAMED_MAX {
                ", and more"
            } else {
                ""
            };
            format!("Sandboxed tools: {}{more}", names.join(", "))
        }
    }
}

fn text(document: &Value) -> Vec<u8> {
    format!("{document:#}\n").into_bytes()
}
