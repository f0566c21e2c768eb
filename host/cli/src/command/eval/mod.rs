//! Checks the trace of an agent's run against eval cases (agentool's EvalCase, ReasoningTrace and EvalResult).

mod judge;
mod program;
mod report;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::runtime::Runtime;
use anyhow::{Context, bail};
use clap::Args;
use toolcell::{Cancellation, Refusal};
use toolcell_config::duration;
use toolcell_dialect::evaluation::{
    self, AssertionResult, CASES_BYTES_MAX, EvalCase, EvalResult, EvaluationTrace, TRACE_BYTES_MAX,
};
use toolcell_engine::catalog::SCHEMA_STACK_BYTES;
use toolcell_spec::Timestamp;

use super::document;
use crate::exit::{self, BadRequest, Exit, Stop};
use crate::{interrupts, show};

use judge::Judge;

/// Checks the trace of an agent's run against eval cases: which tools it called, how often, at what cost, and what it
/// answered.
#[derive(Debug, Args)]
#[command(
    after_help = "Assertions: contains_tool_call (tool_name, arguments, require_success), tool_call_count (min, max, \
                        tool_name), response_format (schema), context_efficiency (max_tokens), latency (max_ms); with a \
                        judge output_property (property) and no_hallucination. Without a judge these two fail.\n\n\
                        A judge reads {\"assertion\": .., \"case\": .., \"trace\": ..} on standard input, and writes \
                        {\"passed\": .., \"score\": 0 to 1, \"reason\": .., \"model\": ..} on standard output.\n\n\
                        Exit 0 if all cases pass, 1 if some fail.\n\n\
                        Examples:\n  toolcell eval cases.json --trace trace.json\n  \
                        toolcell eval cases.json --trace trace.json --json --judge-env API_KEY --judge-command python3 judge.py"
)]
pub(crate) struct Eval {
    /// A JSON file of EvalCases: an array, one a line, or a single one; - for standard input
    #[arg(value_name = "CASES|-")]
    cases: PathBuf,
    /// A JSON file with the ReasoningTrace of the run; - for standard input
    #[arg(long, value_name = "FILE|-", default_value = "-")]
    trace: PathBuf,
    /// Print the EvalResults as JSON, one a line
    #[arg(long)]
    json: bool,
    /// Ask this component of the world `judge`, a .wasm file. It runs in the sandbox, without files and network
    #[arg(long, value_name = "FILE", conflicts_with = "judge_command")]
    judge: Option<PathBuf>,
    /// Time for each answer of the judge
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    judge_timeout: Duration,
    /// An environment variable that the judge's program gets, beside PATH; can be given more than once
    #[arg(long, value_name = "NAME", requires = "judge_command")]
    judge_env: Vec<String>,
    /// Ask this program, which runs outside of the sandbox. Takes the rest of the command line: the program's arguments
    #[arg(long, value_name = "PROGRAM", num_args = 1.., allow_hyphen_values = true)]
    judge_command: Vec<OsString>,
}

impl Eval {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        if [&self.cases, &self.trace]
            .iter()
            .all(|file| file.as_path() == Path::new("-"))
        {
            let message = "cannot read both the cases and the trace from standard input; name a file with --trace";
            return Err(BadRequest(message.to_owned()).into());
        }
        let cases = read("cases", &self.cases, CASES_BYTES_MAX, EvalCase::read_all)?;
        let trace = read("trace", &self.trace, TRACE_BYTES_MAX, EvaluationTrace::read)?;
        // Checks of schemas need more stack than the main thread may have.
        let checks = thread::Builder::new()
            .name("toolcell-eval".to_owned())
            .stack_size(SCHEMA_STACK_BYTES);
        thread::scope(|scope| {
            let checks = checks
                .spawn_scoped(scope, || self.evaluate(&cases, &trace))
                .context("cannot start a thread")?;
            checks
                .join()
                .unwrap_or_else(|_| bail!("the evaluation panicked"))
        })
    }

    fn evaluate(&self, cases: &[EvalCase], trace: &EvaluationTrace) -> anyhow::Result<Exit> {
        Runtime::on_this_thread()?.block_on(async {
            let cancellation = Cancellation::new();
            interrupts::cancel(cancellation.clone())?;
            let evaluated = async {
                let judge = match self.judge().await {
                    Ok(judge) => judge,
                    Err(Stop::Refused(refusal)) => return Ok(refused(&refusal)),
                    Err(Stop::Failed(error)) => return Err(error),
                };
                self.results(cases, trace, &judge).await
            };
            tokio::select! {
                biased;
                () = cancellation.cancelled() => {
                    show::say("canceled");
                    Ok(Exit::Canceled)
                }
                exit = evaluated => exit,
            }
        })
    }

    async fn judge(&self) -> Result<Judge<'_>, Stop> {
        if let Some(file) = &self.judge {
            let judge = judge::load(file, self.judge_timeout).await?;
            return Ok(Judge::Component(Box::new(judge)));
        }
        Ok(if self.judge_command.is_empty() {
            Judge::None
        } else {
            Judge::Program(self)
        })
    }

    /// Prints each result as soon as it is known, because a judge may take long.
    async fn results(
        &self,
        cases: &[EvalCase],
        trace: &EvaluationTrace,
        judge: &Judge<'_>,
    ) -> anyhow::Result<Exit> {
        let mut passed = 0;
        for case in cases {
            let result = result(case, trace, judge).await;
            passed += usize::from(result.passed);
            if self.json {
                show::print_json(&result)?;
            } else {
                show::text(&report::case(&result))?;
            }
        }
        let exit = Exit::from_success(passed == cases.len());
        if !self.json {
            show::text(&format!("{passed} of {} cases passed\n", cases.len()))?;
        }
        Ok(exit)
    }
}

fn read<T>(
    subject: &str,
    file: &Path,
    bytes_max: usize,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, BadRequest> {
    let too_large = |name: &str| format!("cannot read {name}: it has more than {bytes_max} bytes");
    let text = document::read(file, bytes_max, too_large).map_err(BadRequest)?;
    parse(&text).map_err(|why| {
        let name = document::name(file);
        BadRequest(format!("cannot read the {subject} from {name}: {why}"))
    })
}

async fn result(case: &EvalCase, trace: &EvaluationTrace, judge: &Judge<'_>) -> EvalResult {
    let mut results = Vec::with_capacity(case.assertions.len());
    let mut models = Vec::new();
    for assertion in &case.assertions {
        if let Some(settled) = evaluation::check(assertion, trace) {
            results.push(settled);
            continue;
        }
        let verdict = judge.assess(assertion, case, trace).await;
        models.extend(verdict.as_ref().ok().map(|verdict| verdict.model.clone()));
        results.push(AssertionResult::judged(assertion, verdict));
    }
    EvalResult::new(case, trace, results, models, Timestamp::now())
}

fn refused(refusal: &Refusal) -> Exit {
    show::refused(refusal);
    show::detail(refusal);
    exit::of_refusal(refusal)
}
