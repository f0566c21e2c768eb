//! The lines of a batch, all read and checked before anything runs.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use toolcell::PlanError;
use toolcell_engine::scheduler::batch::{BatchPlan, CALLS_MAX};
use toolcell_spec::Input;

use super::super::document;
use super::super::exit::BadRequest;

/// In bytes.
const LINE_BYTES_MAX: usize = 4 << 20;
/// In bytes: its records hold the arguments of all calls.
const BATCH_BYTES_MAX: usize = 64 << 20;

const FORM: &str = r#"{"id": .., "tool": .., "input": {..}, "depends_on": [..]}"#;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::command) struct Line {
    pub(in crate::command) id: String,
    pub(in crate::command) tool: String,
    #[serde(default = "no_input", deserialize_with = "input")]
    pub(in crate::command) input: Input,
    #[serde(default)]
    pub(in crate::command) depends_on: Vec<String>,
    /// The caller's own id; `None` if it is `id`.
    #[serde(skip)]
    pub(in crate::command) native_id: Option<String>,
}

fn no_input() -> Input {
    Input::from_text("{}")
}

/// The arguments as they are written.
fn input<'de, D: Deserializer<'de>>(written: D) -> Result<Input, D::Error> {
    let written = Option::<&RawValue>::deserialize(written)?;
    Ok(written.map_or_else(no_input, |text| Input::from_text(text.get())))
}

/// Reads `file`, or standard input if it is `-`. Fails with the number of the first line at fault.
pub(super) fn read(file: &Path) -> Result<Vec<Line>, BadRequest> {
    let from = document::open(file).map_err(BadRequest)?;
    let what = document::name(file);
    parse(&what, BufReader::new(from), BATCH_BYTES_MAX)
}

fn parse(what: &str, mut from: impl BufRead, bytes_max: usize) -> Result<Vec<Line>, BadRequest> {
    let fail = |number: usize, why: &str| BadRequest(format!("{what}: line {number}: {why}"));
    let mut lines = Vec::new();
    let mut numbers = Vec::new();
    let mut total = 0;
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        let read = from
            .by_ref()
            .take(LINE_BYTES_MAX as u64 + 1)
            .read_until(b'\n', &mut bytes);
        let count = read.map_err(|error| BadRequest(format!("cannot read {what}: {error}")))?;
        if count == 0 {
            break;
        }
        total += count;
        if count > LINE_BYTES_MAX {
            let why = format!("the line has more than {LINE_BYTES_MAX} bytes; shorten the input");
            return Err(fail(number, &why));
        }
        if total > bytes_max {
            let why = format!("the batch has more than {bytes_max} bytes; split it");
            return Err(fail(number, &why));
        }
        let text =
            std::str::from_utf8(&bytes).map_err(|_| fail(number, "the line is not UTF-8 text"))?;
        if text.trim().is_empty() {
            continue;
        }
        if lines.len() >= CALLS_MAX {
            let error = PlanError::TooManyCalls { at: lines.len() };
            return Err(fail(number, &error.to_string()));
        }
        lines.push(line(text.trim_end()).map_err(|why| fail(number, &why))?);
        numbers.push(number);
    }
    let plan = BatchPlan::new(
        lines
            .iter()
            .map(|line| (line.id.as_str(), line.depends_on.as_slice())),
    );
    match plan {
        Ok(_) => Ok(lines),
        Err(error) => Err(fail(
            numbers.get(error.at()).copied().unwrap_or_default(),
            &error.to_string(),
        )),
    }
}

fn line(text: &str) -> Result<Line, String> {
    // Without this, an array of the fields would be accepted, too.
    if !text.trim_start().starts_with('{') {
        return Err(format!("the line is not a JSON object; write {FORM}"));
    }
    let line: Line = serde_json::from_str(text).map_err(|error| {
        let why = error.to_string();
        // The error counts lines within this one.
        let why = why.split(" at line ").next().unwrap_or_default();
        format!("{why}, at column {}; write {FORM}", error.column())
    })?;
    if line.depends_on.len() > CALLS_MAX {
        return Err(format!(
            "depends_on has {} ids, and a batch has at most {CALLS_MAX} calls",
            line.depends_on.len()
        ));
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::{BATCH_BYTES_MAX, LINE_BYTES_MAX, Line};
    use crate::command::exit::BadRequest;

    fn parse(text: &[u8]) -> Result<Vec<Line>, BadRequest> {
        super::parse("calls", text, BATCH_BYTES_MAX)
    }

    fn fails(text: &[u8]) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn arguments_are_kept_as_they_are_written() {
        let text = "\n{\"id\": \"a\", \"tool\": \"x\", \"input\": {\"n\": 1.0,  \"m\":\"\\u0041\"} }\r\n\
                    {\"depends_on\": [\"a\"], \"tool\": \"y#z\", \"id\": \"b\"}";
        let lines = parse(text.as_bytes()).unwrap();
        let [first, second] = lines.as_slice() else {
            panic!("{lines:?}")
        };
        assert_eq!(
            (first.id.as_str(), first.input.text()),
            ("a", "{\"n\": 1.0,  \"m\":\"\\u0041\"}")
        );
        assert_eq!(
            (
                second.tool.as_str(),
                second.input.text(),
                second.depends_on.len()
            ),
            ("y#z", "{}", 1)
        );
        assert!(parse(b"\n \n").unwrap().is_empty());
    }

    #[test]
    fn the_line_at_fault_is_named() {
        let good = "{\"id\": \"a\", \"tool\": \"x\"}\n\n";
        for (line, why) in [
            (
                "{\"id\": \"b\"",
                "calls: line 3: EOF while parsing an object, at column ",
            ),
            (
                "[\"b\", \"x\"]",
                "calls: line 3: the line is not a JSON object; write {\"id\"",
            ),
            ("{\"id\": \"b\"}", "missing field `tool`"),
            (
                "{\"id\": \"b\", \"tool\": \"x\", \"inputs\": {}}",
                "unknown field `inputs`",
            ),
            (
                "{\"id\": \"b\", \"id\": \"b\", \"tool\": \"x\"}",
                "duplicate field `id`",
            ),
            ("{\"id\": 1, \"tool\": \"x\"}", "invalid type: integer `1`"),
            (
                "{\"id\": \"a\", \"tool\": \"x\"}",
                "calls: line 3: two calls have the id \"a\"",
            ),
            (
                "{\"id\": \"b\", \"tool\": \"x\", \"depends_on\": [\"c\"]}",
                "calls: line 3: the call \"b\" depends on",
            ),
        ] {
            let told = fails(format!("{good}{line}\n").as_bytes());
            assert!(told.contains(why), "{told}");
        }
        assert_eq!(
            fails(b"\xff\n"),
            "calls: line 1: the line is not UTF-8 text"
        );
    }

    #[test]
    fn a_batch_and_its_lines_have_limits() {
        let of = |id: &str, length: usize| {
            let frame = format!("{{\"id\": \"{id}\", \"tool\": \"x\", \"input\": \"\"}}\n").len();
            format!(
                "{{\"id\": \"{id}\", \"tool\": \"x\", \"input\": \"{}\"}}\n",
                "x".repeat(length - frame)
            )
        };
        assert!(parse(of("a", LINE_BYTES_MAX).as_bytes()).is_ok());
        assert!(
            fails(of("a", LINE_BYTES_MAX + 1).as_bytes())
                .contains("line 1: the line has more than 4194304 bytes")
        );
        let two = format!("{}{}", of("a", 60), of("b", 60));
        assert!(super::parse("calls", two.as_bytes(), 120).is_ok());
        let told = super::parse("calls", two.as_bytes(), 119)
            .unwrap_err()
            .to_string();
        assert_eq!(
            told,
            "calls: line 2: the batch has more than 119 bytes; split it"
        );
        let many: String = (0..=1_000)
            .map(|n| format!("{{\"id\": \"{n}\", \"tool\": \"x\"}}\n"))
            .collect();
        assert!(fails(many.as_bytes()).contains("line 1001: a batch has at most 1000 calls"));
        let needs = vec!["\"0\""; 1_001].join(",");
        let line = format!("{{\"id\": \"0\", \"tool\": \"x\", \"depends_on\": [{needs}]}}");
        assert!(fails(line.as_bytes()).contains("line 1: depends_on has 1001 ids"));
    }
}
