//! The parts of `toolcell-install` that the commands are made of.

use std::path::{Path, PathBuf};

use toolcell::{Home, Refusal};
use toolcell_core::record::ErrorClass;
use toolcell_install::absent::NoRegistries;
use toolcell_install::local::Local;
use toolcell_install::obtain::Sources;
use toolcell_install::signature::SignatureVerifier;
use toolcell_install::source::Source;
use toolcell_install::tls;
use toolcell_install::verifier::Verifier;
use toolcell_install::web::Web;

use crate::config::Layers;

use super::super::exit::BadRequest;
use super::super::target::{Building, Target};
use super::options::SourceOptions;

/// The sources that `options` allow.
pub(in crate::command) fn sources(home: &Home, options: &SourceOptions) -> Result<Sources, BadRequest> {
    let tls = tls::client(options.tls_ca.as_deref()).map_err(|error| BadRequest(format!("{error:#}")))?;
    let local = {
        let home = home.clone();
        Local::new(move |path: &Path| component(&home, path))
    };
    let web = Box::new(Web::new(tls));
    Ok(Sources { registry: oci(), web, local: Box::new(local), offline: options.offline })
}

/// Registries.
fn oci() -> Box<dyn Source> {
    Box::new(NoRegistries)
}

/// What checks signatures, as the settings of `layers` say.
pub(super) fn verifier(layers: &Layers) -> Box<dyn Verifier> {
    Box::new(SignatureVerifier::new(layers.signers().clone()))
}

/// The component of a file, or of a source folder that was built. Installing builds nothing.
fn component(home: &Home, path: &Path) -> Result<PathBuf, Refusal> {
    let text = path.to_str().ok_or_else(|| {
        let message = format!("{}: a path that is not Unicode cannot be installed", path.display());
        Refusal::new(ErrorClass::InvalidArguments, "bad_reference", message)
    })?;
    Target::parse(text).locate(home, Building::No)
}
