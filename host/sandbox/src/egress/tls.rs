use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, CertificateError, ClientConfig, RootCertStore};
use toolcell_policy::network::HostName;
use toolcell_system::named_file;
use wasmtime_wasi_http::Error;

use super::connect::Socket;

/// In bytes; a larger PEM file is rejected.
const ROOTS_BYTES_MAX: u64 = 4 << 20;

/// Trusts Mozilla's program when toolcell was built, and the operator's roots.
pub(super) struct TlsClient {
    extra: Vec<CertificateDer<'static>>,
    /// Built when a tool first speaks TLS.
    config: OnceLock<Result<Arc<ClientConfig>, rustls::Error>>,
}

impl TlsClient {
    pub(super) fn new(extra_roots: Option<&Path>) -> anyhow::Result<Self> {
        let extra = match extra_roots {
            Some(file) => certificates(file)
                .with_context(|| format!("cannot read certificates from {}", file.display()))?,
            None => Vec::new(),
        };
        Ok(Self {
            extra,
            config: OnceLock::new(),
        })
    }

    /// The server must prove to be `host`.
    pub(super) async fn handshake(
        &self,
        host: &HostName,
        socket: Socket,
    ) -> Result<TlsStream<Socket>, TlsFailure> {
        let config = self
            .config
            .get_or_init(|| self.configure())
            .as_ref()
            .map_err(|_| Error::ConfigurationError)?;
        let name = match host {
            HostName::Name(name) => {
                ServerName::try_from(name.clone()).map_err(|_| Error::HttpRequestUriInvalid)?
            }
            HostName::Address(address) => ServerName::from(*address),
        };
        let connected = TlsConnector::from(Arc::clone(config))
            .connect(name, socket)
            .await;
        connected.map_err(|error| {
            match error
                .get_ref()
                .and_then(|error| error.downcast_ref::<rustls::Error>())
            {
                Some(rustls::Error::InvalidCertificate(why)) => {
                    TlsFailure::Certificate(reason(why))
                }
                None if error.kind() == ErrorKind::UnexpectedEof => {
                    Error::ConnectionTerminated.into()
                }
                _ => Error::TlsProtocolError.into(),
            }
        })
    }

    fn configure(&self) -> Result<Arc<ClientConfig>, rustls::Error> {
        let mut roots = RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
        };
        for certificate in &self.extra {
            roots.add(certificate.clone())?;
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // A session ticket would let a server link one call to another.
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }
}

pub(super) enum TlsFailure {
    Certificate(String),
    Other(Error),
}

impl From<Error> for TlsFailure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

fn reason(why: &CertificateError) -> String {
    let trusting = "--tls-ca=FILE adds an authority to the public ones";
    match why {
        CertificateError::UnknownIssuer => format!("its issuer is not known; {trusting}"),
        // The library has no word of its own for this.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "it is the certificate of an authority, which a server cannot use as its own: let that authority sign one for \
             the server"
                .to_owned()
        }
        why => why.to_string(),
    }
}

fn certificates(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let text = named_file::read(file, ROOTS_BYTES_MAX)?;
    let found = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>()?;
    anyhow::ensure!(!found.is_empty(), "there is no certificate in the file");
    let mut store = RootCertStore::empty();
    found
        .iter()
        .try_for_each(|certificate| store.add(certificate.clone()))?;
    Ok(found)
}
