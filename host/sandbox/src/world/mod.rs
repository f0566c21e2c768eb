//! The worlds that a component can be made for: what it declares, and how a call reaches it. What the call may do is
//! the same in all of them.

#[cfg(feature = "foreign-worlds")]
mod act;
#[cfg(feature = "foreign-worlds")]
mod amplifier;
mod answer;
mod command;
#[cfg_attr(not(feature = "foreign-worlds"), path = "foreign_left_out.rs")]
mod foreign;
mod foreign_tool;
#[cfg(feature = "foreign-worlds")]
mod http;
#[cfg(feature = "foreign-worlds")]
mod near;
mod profile;
mod tool;
mod wit;

use std::path::Path;

use serde::{Deserialize, Serialize};
use toolcell_policy::Limits;
use toolcell_spec::{ErrorCode, Refusal};
use toolcell_system::BoxFuture;
use wasmtime::Store;
use wasmtime::component::{Component, InstancePre, Linker};

use super::bindings::tool::exports::toolcell::tool::guest::{Call, Outcome};
use super::component::{OptionalExports, TOOL_CONTRACT};
use super::engine::GuestEngine;
use super::linking;
use super::own_files::OpenFolders;
use super::state::StoreState;
use super::wasi::CommandInput;

pub(super) use foreign::{FOR_TOOLS, ForeignWorld, NEAR};

pub(super) trait ComponentWorld: Send + Sync {
    /// JSON text of Agent Tool records, all of it a claim. Called twice at load; the answers must be equal.
    fn describe<'a>(&'a self, examined: FirstLoad<'a>) -> BoxFuture<'a, Result<String, Refusal>>;

    /// `None` in all worlds but the command's.
    fn process(&self, _tool: &str, _input: &str) -> Result<Option<Box<CommandInput>>, Refusal> {
        Ok(None)
    }

    /// Called once, before any call.
    fn described(&mut self, _toolkit: &str) {}

    fn invoke<'a>(
        &'a self,
        store: &'a mut Store<StoreState>,
        call: &'a Call,
    ) -> BoxFuture<'a, wasmtime::Result<Outcome>>;
}

#[derive(Clone, Copy)]
pub(super) struct FirstLoad<'a> {
    pub(super) engine: &'a GuestEngine,
    pub(super) component: &'a Component,
    pub(super) bytes: &'a [u8],
    pub(super) imports: &'a [String],
    pub(super) limits: &'a Limits,
    pub(super) own_files: &'a OpenFolders,
    /// Written into the component, in worlds other than plain functions.
    pub(super) namespace: Option<&'a str>,
}

/// Version of the toolkits and components that the host makes (`adapt.rs`), and of its refusals (`metadata.rs`); change
/// it with them. They are kept with the code: an older toolkit may ask for more, and an older component was not
/// checked.
pub(super) const TRANSLATION_VERSION: &str = "4";

/// Interfaces of worlds that are not plain functions, in any version.
const RESERVED: [&str; 4] = ["toolcell:", "near:agent/", "act:", "amplifier:modules/"];

/// The beginning of the exports of commands in any version, and the versions that run here.
const COMMANDS: (&str, &str) = (
    "wasi:cli/run@",
    "toolcell runs commands of wasi:cli@0.2 and wasi:cli@0.3",
);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WorldKind {
    /// toolcell's own contract.
    Tool,
    /// `wasi:cli/run`.
    Command,
    /// Plain functions: any export that is in no other world.
    Wit,
    /// Another host's contract.
    #[serde(untagged)]
    Foreign(ForeignWorld),
}

impl WorldKind {
    pub(super) fn find(exports: &[String], imports: &[String]) -> Result<Self, Refusal> {
        if exports.iter().any(|name| name == tool::GUEST) {
            return Ok(Self::Tool);
        }
        if let Some(foreign) = ForeignWorld::find(exports) {
            return Ok(Self::Foreign(foreign));
        }
        let has_functions = exports.iter().any(|name| !name.starts_with("wasi:"));
        if let Some(server) = ForeignWorld::server(exports).filter(|_| !has_functions) {
            return Ok(Self::Foreign(server));
        }
        if command::exported(exports) {
            return Ok(Self::Command);
        }
        // A hook, a judge, or a tool of a version that this host does not know: its functions are no tools by themselves.
        let is_reserved = |name: &String| RESERVED.iter().any(|start| name.starts_with(start));
        if !exports.iter().any(is_reserved) && has_functions {
            return Ok(Self::Wit);
        }
        let of_family = |start: &str| exports.iter().any(|name| name.starts_with(start));
        let mut families = [&COMMANDS].into_iter().chain(&foreign::FAMILIES);
        let other = families.find(|(start, _)| of_family(start));
        let message = format!(
            "the component is not a tool: a tool exports {}, or functions whose types have values in JSON; this component \
             exports {}, and imports {}{}",
            tool::GUEST,
            listed(exports),
            listed(imports),
            other
                .map(|(_, runs)| format!("; {runs}"))
                .unwrap_or_default()
        );
        Err(Refusal::new(ErrorCode::NotATool, message))
    }

    /// A profile can choose plain functions, also for a command, and routes, also for a component that has functions.
    pub(super) fn chosen(self, exports: &[String], bytes: &[u8]) -> Self {
        if !matches!(self, Self::Command | Self::Wit) {
            return self;
        }
        let Ok(Some(profile)) = profile::profile(bytes) else {
            return self;
        };
        if let Some(server) = ForeignWorld::server(exports).filter(|_| !profile.routes.is_empty()) {
            return Self::Foreign(server);
        }
        let has_functions = exports.iter().any(|name| !name.starts_with("wasi:"));
        if has_functions && profile.functions {
            Self::Wit
        } else {
            self
        }
    }

    pub(super) fn is_server(self) -> bool {
        matches!(self, Self::Foreign(world) if world.is_server())
    }

    /// Files are used, and no profile says by which tools; plain functions cannot say it.
    pub(super) fn takes_granted_files(self, imports: &[String], bytes: &[u8]) -> bool {
        let says_nothing = || match profile::profile(bytes) {
            Ok(profile) => {
                profile.is_none_or(|profile| profile.tools.is_empty() && profile.ceiling.is_none())
            }
            Err(_) => false,
        };
        (self == Self::Wit || self.is_server())
            && imports
                .iter()
                .any(|name| name.starts_with("wasi:filesystem/"))
            && says_nothing()
    }

    pub(super) fn linker(
        self,
        engine: &wasmtime::Engine,
        imports: &[String],
    ) -> wasmtime::Result<Linker<StoreState>> {
        match self {
            Self::Foreign(world) => world.linker(engine, imports),
            Self::Tool | Self::Command | Self::Wit => linking::for_tool(engine, imports),
        }
    }

    pub(super) fn bind(
        self,
        instance: InstancePre<StoreState>,
        exports: OptionalExports,
    ) -> wasmtime::Result<Box<dyn ComponentWorld>> {
        Ok(match self {
            Self::Tool => Box::new(tool::ToolWorld::new(instance, exports)?),
            Self::Foreign(world) => world.bind(instance)?,
            Self::Command => Box::new(command::CommandWorld::new(instance)?),
            Self::Wit => Box::new(wit::WitWorld::new(instance)?),
        })
    }

    pub(super) fn named_by(self, file: &Path, toolkit: &str) -> Option<String> {
        match self {
            Self::Command => command::named_by(file, toolkit),
            Self::Foreign(world) => world.named_by(file, toolkit),
            Self::Tool | Self::Wit => None,
        }
    }

    /// Files left in the scratch folder, or large bodies, become artifacts.
    pub(super) fn leaves_files(self) -> bool {
        self == Self::Command || self.is_server()
    }

    /// Failed calls keep their output, in a partial outcome. A tool of toolcell's own world is partial only if it says
    /// so itself.
    pub(super) fn fails_with_output(self) -> bool {
        match self {
            Self::Command => true,
            Self::Foreign(world) => world.fails_with_output(),
            Self::Tool | Self::Wit => false,
        }
    }

    /// Violated by a component that cannot be bound.
    pub(super) fn contract(self) -> &'static str {
        match self {
            Self::Tool => TOOL_CONTRACT,
            Self::Foreign(world) => world.contract(),
            Self::Command => "wasi:cli",
            Self::Wit => "its own types",
        }
    }

    /// Refuses a profile in a world that does not read it, because what it narrows would be lost.
    pub(super) fn heed_profile(self, bytes: &[u8]) -> Result<Option<String>, Refusal> {
        let refused = |why: &str| {
            Err(Refusal::new(
                ErrorCode::DescriptionInvalid,
                format!("the component has {why}"),
            ))
        };
        match (self, profile::profile(bytes)) {
            (world, Ok(Some(profile))) if profile.command.is_some() && world != Self::Command => {
                refused("a profile with the interface of a command, and is none")
            }
            (world, Ok(Some(profile))) if world.is_server() && profile.functions => {
                refused("a profile that chooses its functions, and routes; leave out one of them")
            }
            (world, _) if world.is_server() => Ok(None),
            (_, Ok(Some(profile))) if !profile.routes.is_empty() => {
                refused("a profile with routes, and exports no handler of wasi:http")
            }
            // Read with the rest of what such a component says.
            (Self::Wit, _) | (_, Ok(None)) => Ok(None),
            (Self::Tool, _) => refused(
                "a custom section `toolcell:profile`, which only components that were not made for toolcell may have; \
                 remove it",
            ),
            (_, Err(why)) => refused(&format!(
                "a custom section `toolcell:profile` that cannot be used: {why}"
            )),
            (_, Ok(Some(profile))) if profile.functions => refused(
                "a profile that chooses its functions, and exports none beside those of its kind; leave that out",
            ),
            (_, Ok(Some(profile))) if !profile.tools.is_empty() || profile.ceiling.is_some() => {
                refused(
                    "a profile or a ceiling of its tools, which only components of plain functions may have; a component of its kind may \
                 have a namespace alone",
                )
            }
            (_, Ok(Some(profile))) => Ok(profile.namespace),
        }
    }
}

/// At most eight, each cut, without characters that act on a terminal.
pub(super) fn listed(names: &[String]) -> String {
    const NAMES_MAX: usize = 8;
    const CHARS_MAX: usize = 120;
    if names.is_empty() {
        return "nothing".to_owned();
    }
    let shown = |name: &String| {
        name.chars()
            .take(CHARS_MAX)
            .flat_map(char::escape_debug)
            .collect::<String>()
    };
    let mut listed: Vec<String> = names.iter().take(NAMES_MAX).map(shown).collect();
    if names.len() > NAMES_MAX {
        listed.push(format!("and {} more", names.len() - NAMES_MAX));
    }
    listed.join(", ")
}

#[cfg(test)]
mod tests {
    use toolcell_spec::dialect::sections::with_custom;

    use super::{ForeignWorld, WorldKind};

    fn find(exports: &[&str], imports: &[&str]) -> Result<WorldKind, String> {
        let own = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        WorldKind::find(&own(exports), &own(imports)).map_err(|refusal| refusal.message)
    }

    #[test]
    fn a_component_is_of_the_world_that_it_exports() {
        assert_eq!(
            find(&["acme:docs/tools", "toolcell:tool/guest@0.2.0"], &[]),
            Ok(WorldKind::Tool)
        );
        for exports in [
            &["answer"][..],
            &["wasi:cli/environment@0.2.0", "acme:docs/tools@0.1.0"],
            // Some toolchains make every component a server too.
            &["wasi:http/incoming-handler@0.2.10", "acme:docs/tools@0.1.0"],
        ] {
            assert_eq!(find(exports, &[]), Ok(WorldKind::Wit));
        }
        // A server that was built as a program has a `run` that does nothing.
        for exports in [
            &["wasi:http/incoming-handler@0.2.6"][..],
            &["wasi:cli/run@0.2.3", "wasi:http/incoming-handler@0.2.6"],
            &["wasi:http/handler@0.3.0"],
        ] {
            let server = WorldKind::Foreign(ForeignWorld::Http);
            assert_eq!(find(exports, &[]), Ok(server));
        }
        assert_eq!(find(&["wasi:cli/run@0.3.0"], &[]), Ok(WorldKind::Command));
    }

    #[test]
    fn an_unknown_component_is_told_what_it_has_and_what_it_lacks() {
        for exports in [
            &["toolcell:tool/hook-handler@0.2.0"][..],
            &["toolcell:tool/guest@0.1.0", "helper"],
            &["wasi:http/types@0.2.6"],
        ] {
            let message = find(exports, &["wasi:io/poll@0.2.6"]).unwrap_err();
            for part in [
                "a tool exports toolcell:tool/guest@0.2.0",
                exports[0],
                "imports wasi:io/poll@0.2.6",
            ] {
                assert!(message.contains(part), "{message}");
            }
        }
        for (export, runs) in [
            (
                "wasi:cli/run@0.4.0",
                "; toolcell runs commands of wasi:cli@0.2 and wasi:cli@0.3",
            ),
            (
                "wasi:http/handler@0.4.0",
                "; toolcell runs servers that export wasi:http/incoming-handler@0.2 or wasi:http/handler@0.3",
            ),
            (
                "near:agent/tool@0.5.0",
                "; toolcell runs tools of near:agent@0.4.1",
            ),
            (
                "act:tools/tool-provider@0.3.0",
                "; toolcell runs tools of act:tools@0.1.0 and act:tools@0.2.0",
            ),
            (
                "amplifier:modules/hook@1.0.0",
                "; toolcell runs modules that export amplifier:modules/tool@1.0.0",
            ),
        ] {
            let message = find(&[export], &[]).unwrap_err();
            assert!(
                message.contains(export) && message.ends_with(runs),
                "{message}"
            );
        }
        let empty = find(&[], &[]).unwrap_err();
        assert!(
            empty.ends_with("this component exports nothing, and imports nothing"),
            "{empty}"
        );
        let long = "wasi:\u{1b}".repeat(1_000);
        let many = find(&vec![long.as_str(); 1_000], &[]).unwrap_err();
        assert!(
            many.len() < 6_000 && many.contains("and 992 more") && !many.contains('\u{1b}'),
            "{many}"
        );
    }

    #[test]
    fn notes_beside_compiled_code_name_each_world_with_one_word() {
        for (world, word) in [
            (WorldKind::Tool, "\"tool\""),
            (WorldKind::Command, "\"command\""),
            (WorldKind::Foreign(ForeignWorld::Near), "\"near\""),
        ] {
            assert_eq!(serde_json::to_string(&world).unwrap(), word);
            assert_eq!(serde_json::from_str::<WorldKind>(word).unwrap(), world);
        }
        assert!(serde_json::from_str::<WorldKind>("\"other\"").is_err());
    }

    #[test]
    fn a_profile_is_only_where_it_has_an_effect() {
        let plain = b"\0asm\x0d\0\x01\0";
        let profiled = with_custom(plain, "toolcell:profile", b"{}").unwrap();
        let carrying =
            |text: &str| with_custom(plain, "toolcell:profile", text.as_bytes()).unwrap();
        assert!(
            WorldKind::Tool.heed_profile(plain).is_ok()
                && WorldKind::Wit.heed_profile(&profiled).is_ok()
        );
        let named = carrying(r#"{"namespace": "mine"}"#);
        let full = carrying(r#"{"tools": {"a": {"read_only": true}}}"#);
        let closed = carrying(r#"{"ceiling": {}}"#);
        for world in [
            WorldKind::Command,
            WorldKind::Foreign(ForeignWorld::Amplifier),
            WorldKind::Foreign(ForeignWorld::Near),
            WorldKind::Foreign(ForeignWorld::Act),
        ] {
            assert_eq!(world.heed_profile(&named).unwrap().as_deref(), Some("mine"));
            assert_eq!(world.heed_profile(&profiled).unwrap(), None);
            let plain = "only components of plain functions";
            for (component, why) in [
                (&full, plain),
                (&closed, plain),
                (&carrying("{"), "cannot be used"),
            ] {
                let refusal = world.heed_profile(component).unwrap_err();
                assert!(refusal.message.contains(why), "{}", refusal.message);
            }
        }
        let refusal = WorldKind::Tool.heed_profile(&profiled).unwrap_err();
        assert!(
            refusal.message.contains("not made for toolcell"),
            "{}",
            refusal.message
        );
    }
}
