//! The parts of `toolcell-install` that the commands are made of.

use std::path::{Path, PathBuf};

use toolcell::{Home, Refusal};
use toolcell_config::configured_registry;
use toolcell_install::local::LocalSource;
use toolcell_install::obtain::{ComponentSources, InterpreterMaker};
use toolcell_install::package_index::InterpreterParts;
use toolcell_install::registry::Registries;
use toolcell_install::tls;
use toolcell_install::web::WebSource;
use toolcell_spec::ErrorCode;

use super::super::exit::BadRequest;
use super::super::hosts;
use super::super::target::{BuildPermission, Target};
use super::options::SourceOptions;

pub(in crate::command) fn sources(
    home: &Home,
    options: &SourceOptions,
) -> Result<ComponentSources, BadRequest> {
    let roots: Vec<PathBuf> = options.tls_ca.iter().cloned().collect();
    let tls = tls::client(&roots).map_err(BadRequest::from_error)?;
    let owned = home.clone();
    Ok(ComponentSources {
        registry: registries(home, roots)?,
        web: WebSource::new(tls),
        interpreters: interpreters(home),
        local: LocalSource::new(move |path: &Path| component(&owned, path)),
        offline: options.offline,
    })
}

/// Each in a host of its own, which has loaded nothing.
fn interpreters(home: &Home) -> InterpreterMaker {
    let home = home.clone();
    Box::new(move |parts: InterpreterParts| {
        let home = home.clone();
        Box::pin(async move {
            let host = hosts::loading_host(&home)
                .map_err(|error| Refusal::host_fault(format!("{error:#}")))?;
            host.interpreter(&parts.module, &parts.library, &parts.place)
                .await
        })
    })
}

/// Reaches registries as the user's own file says, and trusts `roots` beside the certificates of the file.
pub(in crate::command) fn registries(
    home: &Home,
    roots: Vec<PathBuf>,
) -> Result<Registries, BadRequest> {
    let mut settings = configured_registry(home).map_err(BadRequest::from_error)?;
    settings.roots.extend(roots);
    Registries::new(settings).map_err(|refusal| BadRequest(refusal.message))
}

/// A source folder has to be built before, because installing builds nothing.
fn component(home: &Home, path: &Path) -> Result<PathBuf, Refusal> {
    let text = path.to_str().ok_or_else(|| {
        let message = format!(
            "{}: a path that is not Unicode cannot be installed",
            path.display()
        );
        Refusal::new(ErrorCode::BadReference, message)
    })?;
    let target = Target::parse(text);
    if let Some(name) = &target.name {
        let message = format!(
            "{}: a component is installed with all of its tools: leave out `#{name}`, and call NAME#{name}",
            target.shown()
        );
        return Err(Refusal::new(ErrorCode::BadReference, message));
    }
    target.locate(home, BuildPermission::No)
}
