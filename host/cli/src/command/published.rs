//! The input of `toolcell check` and `toolcell push`: a tool's component, and the facts known beside it.

use std::path::{Path, PathBuf};

use crate::runtime::Runtime;
use toolcell::Home;
use toolcell_install::check::{CheckFinding, CheckInput, Severity, check};
use toolcell_install::component::ComponentFile;
use toolcell_install::digest::Digest;
use toolcell_install::package::PackageInfo;
use toolcell_spec::{ErrorClass, ErrorCode, Refusal};
use toolcell_system::component_file::read_component;

use super::exit::Stop;
use super::hosts;
use super::show;
use super::target::{BuildPermission, Target};

pub(super) struct CheckedTool {
    pub(super) bytes: Vec<u8>,
    pub(super) component: ComponentFile,
    pub(super) digest: Digest,
    /// The source folder, if it is one.
    pub(super) folder: Option<PathBuf>,
    pub(super) package: PackageInfo,
    pub(super) found: Vec<CheckFinding>,
}

impl CheckedTool {
    pub(super) fn examine(
        home: &Home,
        path: &Path,
        building: BuildPermission,
    ) -> Result<Self, Stop> {
        // The path is taken as it is: it names no tool of a component.
        let mut target = Target::parse(&path.to_string_lossy());
        (target.path, target.name) = (path.to_owned(), None);
        let host = hosts::loading_host(home)?;
        let file = target.locate(home, building)?;
        let loaded = Runtime::on_this_thread()?.block_on(host.load_file(&file))?;
        let bytes = read_component(&file)?;
        let digest = Digest::of(&bytes);
        if loaded
            .tools
            .iter()
            .any(|tool| **tool.component() != *digest.to_string())
        {
            let message = format!("{} changed while it was read; try again", file.display());
            return Err(Refusal::new(ErrorCode::ComponentChanged, message)
                .with_class(ErrorClass::SetupRequired)
                .into());
        }
        let component = ComponentFile::read(&bytes).map_err(|why| {
            let message = format!("the sections of {} cannot be read: {why}", file.display());
            Refusal::new(ErrorCode::ComponentUnreadable, message)
        })?;
        let folder = target.source_folder().map(Path::to_owned);
        let package = match &folder {
            Some(folder) => PackageInfo::of_folder(folder),
            None => PackageInfo::of_component(
                &bytes,
                &file.file_stem().unwrap_or_default().to_string_lossy(),
            ),
        };
        let is_folder = folder.is_some();
        let found = check(&CheckInput {
            tools: &loaded.tools,
            component: &component,
            package: &package,
            is_folder,
        });
        Ok(Self {
            bytes,
            component,
            digest,
            folder,
            package,
            found,
        })
    }

    pub(super) fn has_errors(&self) -> bool {
        self.found
            .iter()
            .any(|found| found.severity == Severity::Error)
    }
}

pub(super) fn line(found: &CheckFinding) -> String {
    let severity = show::word(&found.severity);
    show::printable(
        &format!(
            "{severity}: {}: {} [{}]",
            found.place, found.message, found.code
        ),
        true,
    )
}
