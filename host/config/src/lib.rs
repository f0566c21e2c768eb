//! The contents of `toolcell.toml`, the layers that its files form, and which projects are trusted.

#[macro_use(guard)]
extern crate toolcell_spec;

mod cluster;
mod compilation;
mod config_text;
mod declared;
mod declaring;
mod file;
mod find;
mod hooks;
mod installed;
mod issuer;
mod journal;
mod layers;
mod limits;
mod manifest;
mod openapi;
mod ownership;
mod policy;
mod principal;
mod registry;
mod results;
mod retry;
mod server;
mod signers;
mod surface;
mod telemetry;
mod tool_config;
mod trust;
mod units;
mod workspace;
mod yaml;

pub use cluster::{ClusterConfig, ClusterSection};
pub use compilation::{CompilationSettings, configured_compilation};
pub use config_text::ConfigText;
pub use declared::DeclaredTool;
pub use declaring::declare;
pub use file::{
    ApprovalSection, ConfigFile, GrantSection, HookEntry, HookMatcher, LimitSection, OnFailure,
    RuleEntry, ToolEntry, ToolMeter, bytes, project_bytes,
};
pub use find::{FILE_NAME, LOCAL_FILE_NAME, ProjectFiles};
pub use hooks::{ConfiguredHook, add_hook, hook_digests};
pub use installed::{InstalledComponent, InstalledNames, not_installed};
pub use issuer::IssuerSection;
pub use journal::configured_journal;
pub use layers::{
    ConfigLayer, ConfigLayers, LayerOptions, MODES, ProjectFile, WITHOUT_FILES, policy_unreadable,
    untrusted,
};
pub use limits::GivenLimits;
pub use manifest::extension_manifest;
pub use openapi::api_routes;
pub use policy::policy_ceiling;
pub use principal::{Principal, PrincipalEntry, QuotaSection};
pub use registry::{RegistrySection, configured_registry};
pub use server::{GivenServerLimits, ServerSection, call_count, request_count};
pub use signers::{TrustSection, identified};
pub use surface::{SurfaceSection, selection};
pub use telemetry::{Collector, TelemetrySection, TelemetrySettings, configured_telemetry};
pub use tool_config::ToolConfig;
pub use trust::{TrustStore, TrustedDigests};
pub use units::{duration, size};
pub use workspace::{WorkspaceConfig, WorkspaceScope};
