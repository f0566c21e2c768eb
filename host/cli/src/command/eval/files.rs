use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use toolcell_dialect::evaluation::{CASES_BYTES_MAX, EvalCase, EvaluationTrace, TRACE_BYTES_MAX};

use crate::exit::BadRequest;

/// Reads the cases in `file`, or on standard input if it is `-`.
pub(super) fn cases(file: &Path) -> Result<Vec<EvalCase>, BadRequest> {
    let text = text(file, CASES_BYTES_MAX)?;
    EvalCase::read_all(&text)
        .map_err(|why| BadRequest(format!("cannot read the cases from {}: {why}", name(file))))
}

/// Reads the trace in `file`, or on standard input if it is `-`.
pub(super) fn trace(file: &Path) -> Result<EvaluationTrace, BadRequest> {
    let text = text(file, TRACE_BYTES_MAX)?;
    EvaluationTrace::read(&text)
        .map_err(|why| BadRequest(format!("cannot read the trace from {}: {why}", name(file))))
}

fn name(file: &Path) -> String {
    if file == Path::new("-") {
        "standard input".to_owned()
    } else {
        file.display().to_string()
    }
}

fn text(file: &Path, bytes_max: usize) -> Result<String, BadRequest> {
    let fail = |why: String| BadRequest(format!("cannot read {}: {why}", name(file)));
    let source: Box<dyn Read> = if file == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(file).map_err(|error| fail(error.to_string()))?)
    };
    let mut bytes = Vec::new();
    source
        .take(bytes_max as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| fail(error.to_string()))?;
    if bytes.len() > bytes_max {
        return Err(fail(format!("it has more than {bytes_max} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| fail("it is not UTF-8 text".to_owned()))
}
