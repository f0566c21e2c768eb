//! The worlds that a component can be made for, one file each. A world says what such a component declares, and how a call
//! reaches it. What the call may do and use up is decided elsewhere, and is the same in all of them.

mod act;
mod amplifier;
mod answer;
mod command;
mod declared;
mod near;
mod tool;

use serde::{Deserialize, Serialize};
use toolcell_core::executor::BoxFuture;
use toolcell_core::policy::Limits;
use toolcell_core::record::Refusal;
use wasmtime::Store;
use wasmtime::component::{Component, InstancePre, Linker};

use super::bindings::tool::exports::toolcell::tool::guest::{Call, Outcome};
use super::component::{Exports, invalid};
use super::engine::Engine;
use super::linking;
use super::state::State;
use super::wasi::Process;

pub(crate) use act::{EVENTS_MAX, link_consent, link_credentials};

/// A component of one world: linked, and ready to be instantiated.
pub(super) trait World: Send + Sync {
    /// Returns the toolkit: JSON text of Agent Tool records. All of it is a claim. Called at load, twice; the two answers
    /// must be equal.
    fn describe<'a>(&'a self, examined: Examined<'a>) -> BoxFuture<'a, Result<String, Refusal>>;

    /// What the arguments `input` of a call of `tool` give a command; `None` in all other worlds.
    fn process(&self, _tool: &str, _input: &str) -> Result<Option<Box<Process>>, Refusal> {
        Ok(None)
    }

    /// Takes the toolkit of the component, in which a world may keep what its calls need. Called once, before any call.
    fn described(&mut self, _toolkit: &str) {}

    /// Instantiates the component in `store`, and runs the tool that `call` names.
    fn invoke<'a>(&'a self, store: &'a mut Store<State>, call: &'a Call) -> BoxFuture<'a, wasmtime::Result<Outcome>>;
}

/// A component at its first load.
#[derive(Clone, Copy)]
pub(super) struct Examined<'a> {
    pub(super) engine: &'a Engine,
    pub(super) component: &'a Component,
    /// The bytes of its file.
    pub(super) bytes: &'a [u8],
    /// What code of the component may use while it is examined.
    pub(super) limits: &'a Limits,
}

/// Which world a component is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// toolcell's own contract.
    Tool,
    /// A module of Amplifier.
    Amplifier,
    /// A tool of IronClaw.
    Near,
    /// `wasi:cli/run`.
    Command,
    /// The tools of ACT.
    Act,
}

impl Kind {
    /// Finds the world of a component with these exports.
    pub(super) fn find(exports: &[String]) -> Result<Self, Refusal> {
        if exports.iter().any(|name| name == tool::GUEST) {
            return Ok(Self::Tool);
        }
        if amplifier::is_exported_by(exports) {
            return Ok(Self::Amplifier);
        }
        if exports.iter().any(|name| name == near::INTERFACE) {
            return Ok(Self::Near);
        }
        if exports.iter().any(|name| act::PROVIDERS.contains(&name.as_str())) {
            return Ok(Self::Act);
        }
        if command::exported(exports) {
            return Ok(Self::Command);
        }
        let message = format!("the component is not a tool: it does not export {}", tool::GUEST);
        Err(invalid("not_a_tool", message))
    }

    /// Returns a linker for a component of this world with these imports.
    pub(super) fn linker(self, engine: &wasmtime::Engine, imports: &[String]) -> wasmtime::Result<Linker<State>> {
        match self {
            Self::Tool | Self::Amplifier | Self::Act | Self::Command => linking::for_tool(engine, imports),
            Self::Near => linking::for_near(engine, imports),
        }
    }

    /// Binds the exports of a component of this world.
    pub(super) fn bind(self, instance: InstancePre<State>, exports: Exports) -> wasmtime::Result<Box<dyn World>> {
        Ok(match self {
            Self::Tool => Box::new(tool::Tool::new(instance, exports)?),
            Self::Amplifier => Box::new(amplifier::Amplifier::new(instance)?),
            Self::Near => Box::new(near::Near::new(instance)?),
            Self::Command => Box::new(command::Command::new(instance)?),
            Self::Act => Box::new(act::Act::new(instance)?),
        })
    }

    /// Whether the files that a component of this world leaves in its scratch folder become artifacts.
    pub(super) fn leaves_files(self) -> bool {
        match self {
            Self::Tool | Self::Amplifier | Self::Near | Self::Act => false,
            Self::Command => true,
        }
    }

    /// What a component that cannot be bound does not follow.
    pub(super) fn contract(self) -> &'static str {
        match self {
            Self::Tool => "toolcell:tool@0.2.0",
            Self::Amplifier => amplifier::CONTRACT,
            Self::Near => near::CONTRACT,
            Self::Command => "wasi:cli@0.2",
            Self::Act => "act:tools@0.2.0",
        }
    }
}
