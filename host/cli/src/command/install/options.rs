//! Options that several of the commands have.

use std::path::PathBuf;

use clap::Args;

/// Which lock a command works on.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::command) struct PlaceOptions {
    /// Use your user-wide lock file instead of the project's
    #[arg(long)]
    pub(super) user: bool,
    /// Use the toolcell.lock next to this file, not the project's
    #[arg(long, value_name = "FILE", conflicts_with = "user")]
    pub(super) config: Option<PathBuf>,
}

/// How sources are asked.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::command) struct SourceOptions {
    /// Use what is on this machine, and send no request
    #[arg(long)]
    pub(super) offline: bool,
    /// Also trust the CA certificates in a PEM file
    #[arg(long, value_name = "FILE")]
    pub(super) tls_ca: Option<PathBuf>,
}

/// User consent.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::command) struct Consent {
    /// Answer yes to all questions, such as about a signer; for scripts
    #[arg(long, short)]
    pub(super) yes: bool,
    /// Show each value that differs, also of added and removed tools and of records that no model reads
    #[arg(long)]
    pub(super) details: bool,
}
