use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use toolcell::{Home, Loaded, Tool, read_component};
use toolcell_core::dialect::near::SECTION;
use toolcell_core::dialect::sections::with_custom;
use toolcell_core::record::Refusal;

use crate::config::{configured_cache_bytes, extension_manifest};

use super::exit::{self, BadRequest, Exit};
use super::{runtime, show, target};

/// Source of the external mapping that each tool of a manifest has.
const PROTOCOL: &str = "near:agent";

/// Writes what a component does not say of itself into a copy of it: the manifest of an IronClaw extension.
#[derive(Debug, Args)]
pub(super) struct Wrap {
    /// The component: a .wasm file
    #[arg(value_name = "FILE")]
    component: PathBuf,
    /// The manifest.toml of an IronClaw extension, with the schemas beside it
    #[arg(long, value_name = "FILE")]
    manifest: PathBuf,
    /// The copy to write; it must not exist yet
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

impl Wrap {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let bad = |error: anyhow::Error| BadRequest(format!("{error:#}"));
        let home = Home::find()?;
        let manifest = serde_json::to_string(&extension_manifest(&self.manifest).map_err(bad)?)?;
        let component = match read_component(&self.component) {
            Ok(component) => component,
            Err(refusal) => return Ok(refused(&refusal)),
        };
        let shown = self.component.display();
        let copy = with_custom(&component, SECTION, manifest.as_bytes())
            .map_err(|why| BadRequest(format!("cannot wrap {shown}: {why}")))?;
        let cache_bytes_max = configured_cache_bytes(&home).map_err(bad)?;
        let host = target::host(&home, |settings| settings.cache_bytes_max = cache_bytes_max)?;
        // A copy that could not be loaded is not written.
        let loaded = match runtime()?.block_on(host.load(&copy)) {
            Ok(loaded) => loaded,
            Err(refusal) => return Ok(refused(&refusal)),
        };
        if !loaded.tools.iter().all(|tool| is_of_manifest(tool)) {
            let message =
                format!("cannot wrap {shown}: it is not a tool of near:agent@0.4.1, which alone reads a manifest");
            return Err(BadRequest(message).into());
        }
        self.write(&copy)?;
        let text = show::printable(&self.told(&loaded), true);
        writeln!(std::io::stdout(), "{text}").map(|()| Exit::Succeeded).or_else(show::closed)
    }

    /// Writes the copy to a new file: an existing one may be a component that is in use, or a link to it.
    fn write(&self, copy: &[u8]) -> Result<(), BadRequest> {
        let made = OpenOptions::new().write(true).create_new(true).open(&self.output);
        made.and_then(|mut file| file.write_all(copy)).map_err(|error| {
            let output = self.output.display();
            BadRequest(format!("cannot write {output}: {error}; name a file that does not exist yet"))
        })
    }

    fn told(&self, loaded: &Loaded) -> String {
        let output = self.output.display();
        let call = |tool: &Tool| format!("\n  {output}#{}", tool.declaration().name);
        let calls: String = loaded.tools.iter().map(|tool| call(tool)).collect();
        format!("wrote {output}, with the tools of the manifest:{calls}")
    }
}

fn is_of_manifest(tool: &Tool) -> bool {
    tool.declaration().external_mappings.iter().any(|mapping| mapping.source == PROTOCOL)
}

fn refused(refusal: &Refusal) -> Exit {
    let error = refusal.to_error();
    show::say(&show::printable(&format!("error: {} [{}]", error.message, error.error_code), true));
    show::detail(refusal);
    exit::of_refusal(refusal)
}
