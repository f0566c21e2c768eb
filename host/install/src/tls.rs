//! TLS for requests to sources.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, ensure};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use toolcell_system::named_file;

pub use tokio_rustls::TlsConnector;

/// In bytes.
const ROOTS_BYTES_MAX: u64 = 4 << 20;

/// As OpenSSL and curl have it.
const ROOTS_VARIABLE: &str = "SSL_CERT_FILE";

/// Trusts Mozilla's root certificates, those in the PEM files `roots`, and those in the file of `SSL_CERT_FILE`. Fails on a
/// file without certificates.
pub fn client(roots: &[PathBuf]) -> anyhow::Result<TlsConnector> {
    let named = std::env::var_os(ROOTS_VARIABLE).filter(|file| !file.is_empty());
    let named = named.map(PathBuf::from);
    let mut trusted = RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    for file in roots.iter().chain(&named) {
        let read = || format!("cannot read certificates from {}", file.display());
        let before = trusted.len();
        let text = named_file::read(file, ROOTS_BYTES_MAX).with_context(read)?;
        for certificate in CertificateDer::pem_slice_iter(&text) {
            trusted
                .add(certificate.with_context(read)?)
                .with_context(read)?;
        }
        ensure!(
            trusted.len() > before,
            "there is no certificate in {}; give a PEM file",
            file.display()
        );
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .context("cannot speak TLS")?;
    let config = config.with_root_certificates(trusted).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_certificate_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        for text in [
            "",
            "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        ] {
            std::fs::write(&file, text).unwrap();
            let error = client(std::slice::from_ref(&file))
                .err()
                .unwrap()
                .to_string();
            assert!(error.contains("there is no certificate in"), "{error}");
        }
        let missing = client(&[folder.path().join("missing.pem")])
            .err()
            .unwrap()
            .to_string();
        assert!(missing.contains("missing.pem"), "{missing}");
        assert!(client(&[]).is_ok());
    }
}
