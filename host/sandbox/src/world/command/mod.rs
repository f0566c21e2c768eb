//! Commands: components that export `wasi:cli/run`. A command is one tool, whose working directory is the scratch
//! folder of the call.

mod command_files;
mod declaration;
mod input;
mod json_output;
pub(super) mod name;
mod output;

use toolcell_executor::CommandEnd;
use toolcell_spec::{ErrorCode, Refusal};
use toolcell_system::BoxFuture;
use wasmtime::Store;
use wasmtime::component::types::{self, ComponentItem};
use wasmtime::component::{Accessor, Component, InstancePre, Type};
use wasmtime_wasi::I32Exit;
use wasmtime_wasi::{p2, p3};

use super::foreign_tool::LeftOut;
use super::profile::profile;
use super::wit::ExportedFunctions;
use super::{Call, ComponentWorld, FirstLoad, Outcome};
use crate::state::StoreState;
use crate::wasi::CommandInput;

use declaration::CommandFacts;
pub(super) use declaration::named_by;

/// Starts of the export's name: all versions of WASI 0.2 are compatible, and all of WASI 0.3. A program of WASI 0.3
/// may export both, with one of WASI 0.2 that its toolchain made and that does nothing.
const RUN: &str = "wasi:cli/run@0.2.";
const CONCURRENT_RUN: &str = "wasi:cli/run@0.3.";

fn is_run(name: &str) -> bool {
    name.starts_with(RUN) || name.starts_with(CONCURRENT_RUN)
}

pub(super) fn exported(exports: &[String]) -> bool {
    exports.iter().any(|name| is_run(name))
}

/// Each call would fail at its start with another type.
fn has_run(component: &types::Component, engine: &wasmtime::Engine) -> bool {
    let runs = component.exports(engine).filter(|(name, _)| is_run(name));
    let run = runs.min_by_key(|(name, _)| !name.starts_with(CONCURRENT_RUN));
    let Some((export, item)) = run else {
        return false;
    };
    let ComponentItem::ComponentInstance(instance) = item.ty else {
        return false;
    };
    let Some(ComponentItem::ComponentFunc(run)) =
        instance.get_export(engine, "run").map(|item| item.ty)
    else {
        return false;
    };
    let mut results = run.results();
    let plain = match (results.next(), results.next()) {
        (Some(Type::Result(result)), None) => result.ok().is_none() && result.err().is_none(),
        _ => false,
    };
    plain && run.params().len() == 0 && run.async_() == export.starts_with(CONCURRENT_RUN)
}

fn left_out(component: &Component) -> Vec<LeftOut> {
    const REASON: &str = "the component runs as a command; `toolcell wrap FILE --functions -o NEW` makes tools of its functions instead";
    let functions = ExportedFunctions::from_component(component)
        .functions
        .into_iter();
    functions
        .map(|function| LeftOut {
            name: function.tool,
            reason: REASON.to_owned(),
        })
        .collect()
}

enum LinkedCommand {
    Sequential(p2::bindings::CommandPre<StoreState>),
    /// Of WASI 0.3.
    Concurrent(p3::bindings::CommandPre<StoreState>),
}

impl LinkedCommand {
    fn new(instance: InstancePre<StoreState>) -> wasmtime::Result<Self> {
        let component = instance.component();
        let kind = component.component_type();
        let mut exports = kind.exports(component.engine());
        let is_concurrent = exports.any(|(name, _)| name.starts_with(CONCURRENT_RUN));
        drop(exports);
        Ok(if is_concurrent {
            Self::Concurrent(p3::bindings::CommandPre::new(instance)?)
        } else {
            Self::Sequential(p2::bindings::CommandPre::new(instance)?)
        })
    }

    async fn run(&self, store: &mut Store<StoreState>) -> wasmtime::Result<Result<(), ()>> {
        match self {
            Self::Sequential(command) => {
                let command = command.instantiate_async(&mut *store).await?;
                command.wasi_cli_run().call_run(&mut *store).await
            }
            Self::Concurrent(command) => {
                let command = command.instantiate_async(&mut *store).await?;
                let run = async move |store: &Accessor<StoreState>| {
                    command.wasi_cli_run().call_run(store).await
                };
                store.run_concurrent(run).await?
            }
        }
    }
}

pub(super) struct CommandWorld {
    command: LinkedCommand,
    /// It reads and prints JSON.
    is_json: bool,
}

impl CommandWorld {
    pub(super) fn new(instance: InstancePre<StoreState>) -> wasmtime::Result<Self> {
        Ok(Self {
            command: LinkedCommand::new(instance)?,
            is_json: false,
        })
    }

    async fn run(&self, store: &mut Store<StoreState>) -> wasmtime::Result<i32> {
        match self.command.run(store).await {
            Ok(Ok(())) => Ok(0),
            Ok(Err(())) => Ok(1),
            Err(error) => match error.downcast_ref::<I32Exit>() {
                Some(exit) => Ok(exit.0),
                None => Err(error),
            },
        }
    }
}

impl ComponentWorld for CommandWorld {
    /// Runs no code of the command: the tool is the same for all, but for the name.
    fn describe<'a>(&'a self, examined: FirstLoad<'a>) -> BoxFuture<'a, Result<String, Refusal>> {
        Box::pin(async move {
            let FirstLoad {
                engine,
                component,
                bytes,
                imports,
                namespace,
                ..
            } = examined;
            let kind = component.component_type();
            if !has_run(&kind, engine.wasmtime()) {
                let message = "the component does not follow wasi:cli: its `run` is not a function without parameters \
                    whose result is ok or an error, each without a value";
                return Err(Refusal::new(
                    ErrorCode::ContractMismatch,
                    message.to_owned(),
                ));
            }
            // A profile that cannot be read was refused before.
            let profile = profile(bytes).ok().flatten();
            Ok(declaration::toolkit(&CommandFacts {
                namespace,
                name: name::from_bytes(bytes).as_deref(),
                interface: profile
                    .as_ref()
                    .and_then(|profile| profile.command.as_ref()),
                imports,
                left_out: &left_out(component),
            }))
        })
    }

    fn described(&mut self, toolkit: &str) {
        self.is_json = declaration::is_json(toolkit);
    }

    fn process(&self, tool: &str, input: &str) -> Result<Option<Box<CommandInput>>, Refusal> {
        let process = if self.is_json {
            CommandInput {
                args: vec![tool.to_owned()],
                stdin: input.to_owned().into(),
                env: Vec::new(),
                files: Vec::new(),
            }
        } else {
            input::process(tool, input)?
        };
        Ok(Some(Box::new(process)))
    }

    fn invoke<'a>(
        &'a self,
        store: &'a mut Store<StoreState>,
        _: &'a Call,
    ) -> BoxFuture<'a, wasmtime::Result<Outcome>> {
        Box::pin(async move {
            let files = store
                .data_mut()
                .process
                .take()
                .map(|process| process.files)
                .unwrap_or_default();
            let given = match command_files::write(store.data_mut(), files).await? {
                Ok(given) => given,
                Err(why) => return Ok(output::not_started(why)),
            };
            let status = self.run(&mut *store).await?;
            store.data_mut().command = Some(CommandEnd {
                exit_code: Some(status),
            });
            let made = command_files::keep(store.data_mut(), given).await;
            let printed = store.data().logs.output();
            Ok(if self.is_json {
                json_output::outcome(status, printed, made)
            } else {
                output::outcome(status, printed, made)
            })
        })
    }
}
