//! Registries: what is pushed, what is pulled, and what a registry that lies achieves.

mod debian;
mod installing;
mod pulling;
mod pushing;

use std::time::Duration;

use toolcell_install::digest::Digest;
use toolcell_install::reference::ComponentReference;
use toolcell_install::registry::{Registries, RegistrySettings};
use toolcell_install::source::{ComponentSink, Referrer, ReferrerKind, ResolvedReference};
use toolcell_spec::Refusal;

pub(super) use debian::Debian;
pub(crate) use pushing::edited;

/// What a pull gives: what the reference stands for, and the component.
type Pulled = Result<(ResolvedReference, Vec<u8>), Refusal>;

/// Registries that are given up after some seconds without progress.
fn settings(seconds: u64) -> RegistrySettings {
    RegistrySettings {
        patience: Duration::from_secs(seconds),
        ..RegistrySettings::default()
    }
}

fn reference(text: &str) -> ComponentReference {
    ComponentReference::parse(text, "/".as_ref()).unwrap()
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

fn pull(text: &str) -> Pulled {
    pull_with(settings(20), text)
}

fn pull_with(settings: RegistrySettings, text: &str) -> Pulled {
    wait(async {
        let registries = Registries::new(settings)?;
        let reference = reference(text);
        let resolved = registries.resolve(&reference).await?;
        let mut component = Vec::new();
        let mut sink = ComponentSink::new(&mut component, u64::MAX);
        registries.fetch(&resolved, &mut sink).await?;
        assert_eq!(Some(sink.finish()), resolved.component);
        Ok((resolved, component))
    })
}

/// What is attached to the artifact that `text` stands for.
fn attached(text: &str, kind: ReferrerKind) -> Result<Vec<Referrer>, Refusal> {
    attached_with(settings(20), text, kind)
}

fn attached_with(
    settings: RegistrySettings,
    text: &str,
    kind: ReferrerKind,
) -> Result<Vec<Referrer>, Refusal> {
    wait(async {
        let registries = Registries::new(settings)?;
        let resolved = registries.resolve(&reference(text)).await?;
        registries.referrers(&resolved, kind).await
    })
}

/// `host/repository@digest`
fn pinned(host: &str, repository: &str, digest: Digest) -> String {
    format!("oci://{host}/{repository}@{digest}")
}
