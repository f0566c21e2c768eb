//! Decisions on assertions that only a reader can settle.

use std::path::Path;
use std::time::Duration;

use toolcell::Home;
use toolcell_config::configured_compilation;
use toolcell_dialect::evaluation::{self, Assertion, EvalCase, EvaluationTrace, JudgeVerdict};
use toolcell_system::component_file::read_component;

use super::{Eval, program};
use crate::exit::{BadRequest, Stop};
use crate::hosts;

/// Such an assertion never passes.
const NO_JUDGE: &str = "no judge configured";

pub(super) enum Judge<'e> {
    None,
    Program(&'e Eval),
    Component(Box<toolcell_sandbox::Judge>),
}

impl Judge<'_> {
    pub(super) async fn assess(
        &self,
        assertion: &Assertion,
        case: &EvalCase,
        trace: &EvaluationTrace,
    ) -> Result<JudgeVerdict, String> {
        let question = || evaluation::question(assertion, case, trace);
        let answer = match self {
            Self::None => return Err(NO_JUDGE.to_owned()),
            Self::Program(eval) => program::ask(eval, &question()?).await,
            Self::Component(judge) => judge.assess(&question()?).await,
        };
        answer
            .and_then(|answer| JudgeVerdict::read(&answer))
            .map_err(|why| format!("the judge failed: {why}"))
    }
}

/// Its answers take at most `wall` each.
pub(super) async fn load(file: &Path, wall: Duration) -> Result<toolcell_sandbox::Judge, Stop> {
    let home = Home::find()?;
    let compilation =
        configured_compilation(&home).map_err(|error| BadRequest(format!("{error:#}")))?;
    let host = hosts::host(&home, |settings| compilation.apply(settings))?;
    let bytes = read_component(file)?;
    Ok(host.load_judge(&bytes, wall).await?)
}
