//! The place of `foreign.rs` in a build without the feature `foreign-worlds`: no component is of another host's world.

use std::path::Path;

use serde::{Deserialize, Serialize};
use wasmtime::component::{InstancePre, Linker};

use super::ComponentWorld;
use crate::linking::LinkedInterface;
use crate::state::StoreState;

pub(crate) const NEAR: [LinkedInterface; 0] = [];
pub(crate) const FOR_TOOLS: [LinkedInterface; 0] = [];
/// The beginnings of the exports of components that such a build refuses, and why.
pub(super) const FAMILIES: [(&str, &str); 4] = [
    ("wasi:http/", LEFT_OUT),
    ("near:agent/", LEFT_OUT),
    ("act:tools/", LEFT_OUT),
    ("amplifier:modules/", LEFT_OUT),
];
const LEFT_OUT: &str =
    "this program is built without the feature foreign-worlds, which runs such components";

/// A world that no component has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ForeignWorld {}

impl ForeignWorld {
    pub(super) fn find(_exports: &[String]) -> Option<Self> {
        None
    }

    pub(super) fn server(_exports: &[String]) -> Option<Self> {
        None
    }

    pub(super) fn is_server(self) -> bool {
        match self {}
    }

    pub(super) fn named_by(self, _file: &Path, _toolkit: &str) -> Option<String> {
        match self {}
    }

    pub(super) fn linker(
        self,
        _engine: &wasmtime::Engine,
        _imports: &[String],
    ) -> wasmtime::Result<Linker<StoreState>> {
        match self {}
    }

    pub(super) fn bind(
        self,
        _instance: InstancePre<StoreState>,
    ) -> wasmtime::Result<Box<dyn ComponentWorld>> {
        match self {}
    }

    pub(super) fn fails_with_output(self) -> bool {
        match self {}
    }

    pub(super) fn contract(self) -> &'static str {
        match self {}
    }
}
