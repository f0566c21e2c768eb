//! The worlds of other hosts, and servers, chosen by the feature `foreign-worlds`.

use std::path::Path;

use serde::{Deserialize, Serialize};
use wasmtime::component::{InstancePre, Linker};

use super::{ComponentWorld, act, amplifier, http, near};
use crate::import;
use crate::linking::{self, LinkedInterface};
use crate::state::StoreState;

/// The interface of IronClaw's tools.
pub(crate) const NEAR: [LinkedInterface; 1] = [("near:agent/host", import::near::add_to_linker)];
/// Interfaces that all other tools get too.
pub(crate) const FOR_TOOLS: [LinkedInterface; 2] = [
    ("act:credentials/store", act::link_credentials),
    ("act:consent/consent-authority", act::link_consent),
];
/// The beginnings of the exports of these worlds in any version, and the versions that run here.
pub(super) const FAMILIES: [(&str, &str); 4] = [
    (
        "wasi:http/",
        "toolcell runs servers that export wasi:http/incoming-handler@0.2 or wasi:http/handler@0.3",
    ),
    ("near:agent/", "toolcell runs tools of near:agent@0.4.1"),
    (
        "act:tools/",
        "toolcell runs tools of act:tools@0.1.0 and act:tools@0.2.0",
    ),
    (
        "amplifier:modules/",
        "toolcell runs modules that export amplifier:modules/tool@1.0.0",
    ),
];

/// Another host's world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ForeignWorld {
    /// A module of Amplifier.
    Amplifier,
    /// A tool of IronClaw.
    Near,
    /// The tools of ACT.
    Act,
    /// A server.
    Http,
}

impl ForeignWorld {
    /// Finds the world of a component with these exports; `None` if it is for none of these.
    pub(super) fn find(exports: &[String]) -> Option<Self> {
        let has = |known: &[&str]| exports.iter().any(|name| known.contains(&name.as_str()));
        if amplifier::is_exported_by(exports) {
            Some(Self::Amplifier)
        } else if has(&[near::INTERFACE]) {
            Some(Self::Near)
        } else if has(&act::PROVIDERS) {
            Some(Self::Act)
        } else {
            None
        }
    }

    /// A server is of other worlds first.
    pub(super) fn server(exports: &[String]) -> Option<Self> {
        http::exported(exports).then_some(Self::Http)
    }

    pub(super) fn is_server(self) -> bool {
        self == Self::Http
    }

    pub(super) fn named_by(self, file: &Path, toolkit: &str) -> Option<String> {
        self.is_server().then(|| http::named_by(file, toolkit))?
    }

    pub(super) fn linker(
        self,
        engine: &wasmtime::Engine,
        imports: &[String],
    ) -> wasmtime::Result<Linker<StoreState>> {
        match self {
            Self::Near => linking::linker(engine, imports, linking::WASI.iter().chain(&NEAR)),
            Self::Amplifier | Self::Act | Self::Http => linking::for_tool(engine, imports),
        }
    }

    pub(super) fn bind(
        self,
        instance: InstancePre<StoreState>,
    ) -> wasmtime::Result<Box<dyn ComponentWorld>> {
        Ok(match self {
            Self::Amplifier => Box::new(amplifier::AmplifierWorld::new(instance)?),
            Self::Near => Box::new(near::NearWorld::new(instance)?),
            Self::Act => Box::new(act::ActWorld::new(instance)?),
            Self::Http => Box::new(http::HttpWorld::new(instance)?),
        })
    }

    pub(super) fn fails_with_output(self) -> bool {
        matches!(self, Self::Act | Self::Http)
    }

    pub(super) fn contract(self) -> &'static str {
        match self {
            Self::Amplifier => amplifier::CONTRACT,
            Self::Near => near::CONTRACT,
            Self::Act => "act:tools@0.2.0",
            Self::Http => http::CONTRACT,
        }
    }
}
