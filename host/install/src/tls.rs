//! TLS for requests to sources.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// A client that trusts Mozilla's root certificates, and those in the PEM file `roots`.
///
/// # Errors
///
/// A file that cannot be read, or has no certificates.
pub fn client(roots: Option<&Path>) -> anyhow::Result<ClientConfig> {
    let mut trusted = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(file) = roots {
        let read = || format!("cannot read certificates from {}", file.display());
        for certificate in CertificateDer::pem_file_iter(file).with_context(read)? {
            trusted.add(certificate.with_context(read)?).with_context(read)?;
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .context("cannot speak TLS")?;
    Ok(config.with_root_certificates(trusted).with_no_client_auth())
}
