//! The hosts of commands.

use toolcell::{Home, Host, HostBuilder, Limits};
use toolcell_config::{ConfigLayers, configured_compilation};

use super::exit::BadRequest;
use super::tool_configs;

pub(crate) fn host(
    home: &Home,
    change: impl FnOnce(HostBuilder) -> HostBuilder,
) -> anyhow::Result<Host> {
    let settings = Host::builder()
        .home(home.clone())
        .calls_at_once(1)
        .pooled(false);
    let settings = match super::compiling::shown() {
        Some(shown) => settings.compile_watch(shown),
        None => settings,
    };
    Ok(change(settings).build()?)
}

/// Calls no components; the user's own file decides.
pub(crate) fn loading_host(home: &Home) -> anyhow::Result<Host> {
    let compilation = configured_compilation(home).map_err(BadRequest::from_error)?;
    host(home, |settings| compilation.apply(settings))
}

/// Sets how components are compiled.
pub(crate) fn loading(host: HostBuilder, home: &Home, layers: &ConfigLayers) -> HostBuilder {
    tool_configs::metered(layers.compilation.apply(host), home, layers)
}

pub(crate) fn configure(
    host: HostBuilder,
    home: &Home,
    layers: &ConfigLayers,
    limits: &Limits,
) -> HostBuilder {
    loading(host, home, layers)
        .memory_bytes_max(limits.memory_bytes)
        .journal(layers.journal)
        .keeping(layers.keeping)
}
