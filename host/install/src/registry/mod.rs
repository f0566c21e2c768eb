//! Registries as a source of components, and as a place to push them to, over the OCI distribution specification.
//!
//! Everything that a registry sends is untrusted: its size is bounded, its digest is computed from its bytes, and where
//! it leads to is checked.

mod auth;
mod credentials;
mod manifest;
mod pull;
mod push;
mod referrers;
mod refusal;
mod wire;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderValue, StatusCode};
use toolcell_spec::{ErrorCode, Refusal};
use url::Url;

use crate::exchange::{self, HttpCall};
use crate::reference::{ComponentReference, RegistryReference};

use auth::RepositoryAction;
use wire::{RegistryClient, RegistryHost, RegistryResponse};

pub use credentials::{RegistryCredential, RegistryCredentials};
pub use manifest::{Attachment, COMPONENT, CONFIG, ComponentArtifact, Descriptor, MANIFEST};
pub use push::PushResult;

/// Settings may say otherwise.
pub const PATIENCE: Duration = exchange::PATIENCE;
/// In bytes.
const ERROR_BYTES_MAX: usize = 8 << 10;
/// The name of docker's registry, and the host that answers for it.
const DOCKER_HUB: [&str; 2] = ["docker.io", "index.docker.io"];
const DOCKER_HUB_HOST: &str = "registry-1.docker.io";
const DOCKER_HUB_TOKENS: &str = "auth.docker.io:443";

pub(crate) fn is_docker_hub(host: &str) -> bool {
    DOCKER_HUB.contains(&host) || host == DOCKER_HUB_HOST
}

#[derive(Clone, Debug)]
pub struct RegistrySettings {
    /// Hosts spoken to without TLS, with a port if any. Registries of this machine always are.
    pub plain_http: Vec<String>,
    /// Hosts, with an unusual port, that credentials may be sent to although they are none of the registry's own: token
    /// servers that a registry names.
    pub token_servers: Vec<String>,
    /// PEM files, trusted beside Mozilla's certificates.
    pub roots: Vec<PathBuf>,
    /// Time without progress.
    pub patience: Duration,
    pub credentials: RegistryCredentials,
}

impl Default for RegistrySettings {
    fn default() -> Self {
        Self {
            plain_http: Vec::new(),
            token_servers: Vec::new(),
            roots: Vec::new(),
            patience: PATIENCE,
            credentials: RegistryCredentials::default(),
        }
    }
}

pub struct Registries {
    wire: RegistryClient,
    settings: RegistrySettings,
    /// One for each repository and kind of access.
    authorized: Mutex<HashMap<(String, RepositoryAction), HeaderValue>>,
}

impl Registries {
    /// Sends nothing yet. Fails if certificates cannot be read.
    pub fn new(settings: RegistrySettings) -> Result<Self, Refusal> {
        let wire = RegistryClient::new(&settings.roots, settings.patience).map_err(|error| {
            let message = format!(
                "registries cannot be reached: {error:#}; correct the [registry] of toolcell.toml"
            );
            Refusal::new(ErrorCode::RegistrySettingsInvalid, message)
        })?;
        Ok(Self {
            wire,
            settings,
            authorized: Mutex::default(),
        })
    }

    fn repository<'a>(
        &'a self,
        reference: &'a RegistryReference,
        access: RepositoryAction,
    ) -> Result<Repository<'a>, Refusal> {
        let host = reference.host.as_str();
        let is_plain =
            reference.is_loopback() || self.settings.plain_http.iter().any(|plain| plain == host);
        let (asked, path) = match DOCKER_HUB.contains(&host) {
            true if !reference.repository.contains('/') => {
                (DOCKER_HUB_HOST, format!("library/{}", reference.repository))
            }
            true => (DOCKER_HUB_HOST, reference.repository.clone()),
            false => (host, reference.repository.clone()),
        };
        let scheme = if is_plain { "http" } else { "https" };
        let home = Url::parse(&format!("{scheme}://{asked}/v2/"))
            .map_err(|_| refusal::unreachable(host, "this is not the name of a host"))?;
        Ok(Repository {
            registries: self,
            reference,
            path,
            home: RegistryHost(home),
            access,
        })
    }
}

/// Refuses any other reference.
fn of_registry(reference: &ComponentReference) -> Result<&RegistryReference, Refusal> {
    match reference {
        ComponentReference::Registry(registry) => Ok(registry),
        other => {
            let message = format!(
                "{other} is not in a registry; a reference of one is `host/repository:tag`"
            );
            Err(Refusal::new(ErrorCode::BadReference, message))
        }
    }
}

struct Repository<'a> {
    registries: &'a Registries,
    reference: &'a RegistryReference,
    path: String,
    /// `https://host/v2/`
    home: RegistryHost,
    access: RepositoryAction,
}

impl Repository<'_> {
    fn url(&self, rest: &str) -> Result<Url, Refusal> {
        let url = self.home.0.join(&format!("{}/{rest}", self.path));
        url.map_err(|_| {
            refusal::unreachable(&self.reference.host, "no URL can be made of its name")
        })
    }

    fn host(&self) -> &str {
        &self.reference.host
    }

    /// Sends `call` again with credentials if the registry asks for them.
    async fn send(&self, call: HttpCall) -> Result<RegistryResponse, Refusal> {
        let wire = &self.registries.wire;
        let key = (self.reference.name(), self.access);
        let known = self.authorized().get(&key).cloned();
        let answer = wire
            .send(self.with(call.clone(), known.as_ref()), &self.home)
            .await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        // Its challenge would name the server that the credentials of the registry are sent to.
        if !answer.is_home && guard!("registry_challenges") {
            let why =
                "which wants credentials, and those of the registry are for the registry alone";
            return Err(refusal::redirected(self.host(), &answer.host, why));
        }
        let challenges = auth::challenges(&answer);
        drop(answer);
        // A token that was good for an earlier request can have expired.
        let credential = self
            .registries
            .settings
            .credentials
            .of_host(self.host())
            .await?;
        let scope = (self.host(), self.path.as_str(), self.access);
        let granted = (
            credential.as_ref(),
            self.registries.settings.token_servers.as_slice(),
        );
        let value = auth::authorization(wire, &self.home, &challenges, granted, scope).await?;
        let answer = wire.send(self.with(call, Some(&value)), &self.home).await?;
        if answer.status() == StatusCode::UNAUTHORIZED {
            return Err(refusal::unauthorized(self.host(), credential.is_some()));
        }
        self.authorized().insert(key, value);
        Ok(answer)
    }

    /// A `call` to another host than the registry goes without `authorization`.
    fn with(&self, mut call: HttpCall, authorization: Option<&HeaderValue>) -> HttpCall {
        if let Some(value) =
            authorization.filter(|_| self.home.is(&call.url) || !guard!("registry_credentials"))
        {
            call.headers.insert(AUTHORIZATION, value.clone());
        }
        call
    }

    fn authorized(
        &self,
    ) -> std::sync::MutexGuard<'_, HashMap<(String, RepositoryAction), HeaderValue>> {
        self.registries
            .authorized
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// `what` was asked for.
    async fn failed(&self, answer: RegistryResponse, what: &str) -> Refusal {
        let status = answer.status();
        let said = answer.start(ERROR_BYTES_MAX).await;
        refusal::status(self.host(), what, status, &said)
    }
}
