//! Where toolcell keeps its state.

use std::path::{Path, PathBuf};

use anyhow::Context;
use etcetera::BaseStrategy;

/// The environment variable that names the folder of all state.
pub const HOME_VARIABLE: &str = "TOOLCELL_HOME";

/// The folder that holds all state.
#[derive(Clone, Debug)]
pub struct Home(PathBuf);

impl Home {
    /// `TOOLCELL_HOME`, else `toolcell` in the platform's data folder.
    pub fn find() -> anyhow::Result<Self> {
        if let Some(home) = std::env::var_os(HOME_VARIABLE).filter(|home| !home.is_empty()) {
            let home =
                std::path::absolute(&home).with_context(|| format!("cannot find the folder of {HOME_VARIABLE}"))?;
            return Ok(Self(home));
        }
        let base = etcetera::choose_base_strategy()
            .with_context(|| format!("cannot find a folder for toolcell's data; set {HOME_VARIABLE} to choose one"))?;
        Ok(Self(base.data_dir().join("toolcell")))
    }

    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Data that can be created again: compiled components, the toolchain for guests.
    pub fn cache(&self) -> PathBuf {
        self.0.join("cache")
    }

    pub fn components(&self) -> PathBuf {
        self.cache().join("components")
    }

    /// Where cargo compiles tools: not beside their sources, where a tool with a grant could replace a compiled build
    /// script.
    pub fn compiling(&self) -> PathBuf {
        self.cache().join("builds")
    }

    /// Components built with the user's consent, and records of their sources.
    pub fn builds(&self) -> PathBuf {
        self.0.join("builds")
    }

    /// The key that authenticates compiled components; kept apart from them.
    pub fn component_key(&self) -> PathBuf {
        self.0.join("keys").join("components")
    }

    /// The calls for which an approval was requested.
    pub fn journal(&self) -> PathBuf {
        self.0.join("journal")
    }

    /// The key that seals what calls in the journal would run with; kept apart from it.
    pub fn journal_key(&self) -> PathBuf {
        self.0.join("keys").join("journal")
    }

    /// Folders that live as long as one call.
    pub fn scratch(&self) -> PathBuf {
        self.0.join("scratch")
    }

    /// Which project files the user has trusted.
    pub fn trusted(&self) -> PathBuf {
        self.0.join("trusted")
    }

    /// The secrets, sealed.
    pub fn secrets(&self) -> PathBuf {
        self.0.join("secrets").join("store")
    }

    /// The key that seals the secrets; kept apart from them.
    pub fn secret_key(&self) -> PathBuf {
        self.0.join("keys").join("secrets")
    }

    pub fn payloads(&self) -> PathBuf {
        self.0.join("payloads")
    }
}
