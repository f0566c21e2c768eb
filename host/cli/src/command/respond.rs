//! `toolcell respond`: the calls in a message of a model, and the messages that answer it.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use toolcell::PlanError;
use toolcell_dialect::{CallTerms, Dialect, FinishedCall, ModelCall};
use toolcell_engine::scheduler::batch::CALLS_MAX;

use super::batch::{self, Job, Line, OrderOptions, Output, ToolNaming};
use super::exit::{BadRequest, Exit};
use super::exported::{self, SurfaceOptions};
use super::options::RunOptions;
use super::{input, show};

/// Makes the calls in a message of a model as one batch, and prints a JSON array of the messages to send back. Each
/// call has one result there, also if its tool is unknown or its arguments are not JSON. If the message repeats that
/// its request forbids parallel calls, they run one after the other. The exit code is the first failed call's.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  toolcell respond example-tools/jq --dialect=openai < response.json\n  \
                        toolcell respond example-tools/files --dialect=anthropic --message=message.json --allow-read=."
)]
pub(super) struct Respond {
    /// The tools of `toolcell export`, in the same order, because it decides on names that several tools share: a .wasm file,
    /// a folder of such files, or a built source folder; with #NAME for one of its tools [default: the
    /// tools of toolcell.toml]
    #[arg(value_name = "TOOL")]
    tools: Vec<String>,
    /// The format of the message
    #[arg(long, value_name = "DIALECT", value_parser = exported::dialect(|dialect| dialect.exchange().is_some()))]
    dialect: Dialect,
    /// The message of the model, or the whole response of its API, of at most 16 MiB. - for standard input
    #[arg(long, value_name = "FILE|-", default_value = "-")]
    message: PathBuf,
    /// Print one object with id and result for each call, as `toolcell batch` does, instead of messages
    #[arg(long, conflicts_with = "print_record")]
    json: bool,
    /// Print the full record of each call, one per line, instead of messages
    #[arg(long)]
    print_record: bool,
    #[command(flatten)]
    surface: SurfaceOptions,
    #[command(flatten)]
    order: OrderOptions,
    #[command(flatten)]
    options: RunOptions,
}

impl Respond {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let name = self.dialect.as_str();
        let no_calls = || {
            BadRequest(format!(
                "the dialect {name} carries no calls in messages; choose another one"
            ))
        };
        let form = batch::form(self.json, self.print_record);
        let exchange = self.dialect.exchange().ok_or_else(no_calls)?;
        let text = input::message(&self.message)?;
        let calls = (exchange.read)(&text).map_err(|error| BadRequest(error.to_string()))?;
        if calls.len() > CALLS_MAX {
            return Err(BadRequest(PlanError::TooManyCalls { at: CALLS_MAX }.to_string()).into());
        }
        if calls.is_empty() {
            show::say("note: the message calls no tool");
            if form.is_some() {
                return Ok(Exit::Succeeded);
            }
            return show::print_json(&exchange.answers(&[]));
        }
        let output = Arc::new(Output::new(
            form,
            calls.iter().map(|call| call.id.clone()).collect(),
        ));
        let terms = CallTerms::read(&text);
        let naming = ToolNaming::Exported(self.dialect, &self.surface, &terms);
        let job = Job {
            tools: &self.tools,
            naming,
            order: &self.order,
            options: &self.options,
        };
        if let Some(refused) =
            job.run(calls.into_iter().enumerate().map(line).collect(), &output)?
        {
            return Ok(refused);
        }
        let exit = output.exit()?;
        if form.is_some() {
            return Ok(exit);
        }
        let kept = output.take_kept();
        let ended: Vec<FinishedCall<'_>> = kept
            .iter()
            .map(|record| (&record.invocation, &record.result))
            .collect();
        show::done(show::json(&exchange.answers(&ended)), exit)
    }
}

/// The call's place is its id, because a model can give two calls the same one.
fn line((at, call): (usize, ModelCall)) -> Line {
    Line {
        id: at.to_string(),
        tool: call.name,
        input: call.arguments,
        depends_on: Vec::new(),
        native_id: Some(call.id),
    }
}
