use jaq_core::{
    Compiler, Ctx, Vars,
    compile::Undefined,
    data::JustLut,
    load::{self, Arena, File, Loader},
};
use jaq_json::Val;
use toolcell_guest::{ToolError, serde_json::Value};

use crate::convert::{from_json, to_json};

/// Runs `filter` on `input` and passes each output to `take` until it returns false.
///
/// Fails with invalid_arguments: `filter_invalid` if the filter cannot be compiled, `filter_failed` if it fails on this
/// input.
pub(crate) fn run(
    filter: &str,
    input: &Value,
    take: &mut dyn FnMut(Value) -> bool,
) -> Result<(), ToolError> {
    let arena = Arena::default();
    let loader = Loader::new(
        jaq_core::defs()
            .chain(jaq_std::defs())
            .chain(jaq_json::defs()),
    );
    let modules = loader
        .load(
            &arena,
            File {
                code: filter,
                path: (),
            },
        )
        .map_err(|errors| {
            invalid(
                filter,
                errors
                    .into_iter()
                    .flat_map(|(_, error)| unreadable(error))
                    .collect(),
            )
        })?;
    let program = Compiler::default()
        .with_funs(
            jaq_core::funs()
                .chain(jaq_std::funs())
                .chain(jaq_json::funs()),
        )
        .compile(modules)
        .map_err(|errors| {
            invalid(
                filter,
                errors
                    .into_iter()
                    .flat_map(|(_, errors)| errors)
                    .map(undefined)
                    .collect(),
            )
        })?;
    let context = Ctx::<JustLut<Val>>::new(&program.lut, Vars::new([]));
    for output in program.id.run((context, from_json(input))) {
        match output.map_err(|stop| stop.get_err()) {
            Ok(output) if take(to_json(&output)) => {}
            Ok(_) => break,
            Err(Ok(error)) => {
                return Err(ToolError::invalid_arguments(
                    "filter_failed",
                    error.to_string(),
                ));
            }
            // `halt` ends the filter: there are no further outputs.
            Err(Err(_)) => break,
        }
    }
    Ok(())
}

/// An error message and the part of the filter that it is about; an empty part means the end of the filter.
type Problem<'f> = (String, &'f str);

fn unreadable(error: load::Error<&str>) -> Vec<Problem<'_>> {
    let expected = |what: &str, found| (format!("expected {what}"), found);
    match error {
        load::Error::Io(errors) => errors
            .into_iter()
            .map(|(path, _)| ("modules cannot be loaded here".to_owned(), path))
            .collect(),
        load::Error::Lex(errors) => errors
            .into_iter()
            .map(|(what, found)| expected(what.as_str(), found))
            .collect(),
        load::Error::Parse(errors) => errors
            .into_iter()
            .map(|(what, found)| expected(what.as_str(), found))
            .collect(),
    }
}

fn undefined((name, what): (&str, Undefined)) -> Problem<'_> {
    let detail = match what {
        Undefined::Filter(arity) => format!("unknown filter {name}/{arity}"),
        other => format!("unknown {} {name}", other.as_str()),
    };
    (detail, name)
}

fn invalid(filter: &str, problems: Vec<Problem<'_>>) -> ToolError {
    let lines: Vec<String> = problems
        .into_iter()
        .map(|(what, part)| format!("{}: {what}", position(filter, part)))
        .collect();
    ToolError::invalid_arguments(
        "filter_invalid",
        format!("the filter is not valid at {}", lines.join("; at ")),
    )
}

/// `line 1, column 5 ("foo")`, in characters.
fn position(filter: &str, part: &str) -> String {
    let whole = filter.as_bytes().as_ptr_range();
    // An empty part, for the end, need not lie in the filter.
    let start = if whole.contains(&part.as_ptr()) {
        part.as_ptr() as usize - whole.start as usize
    } else {
        filter.len()
    };
    let before = &filter[..start];
    let line = before.matches('\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count()
        + 1;
    let found: String = filter[start..]
        .chars()
        .take_while(|c| *c != '\n')
        .take(20)
        .collect();
    if found.is_empty() {
        format!("line {line}, column {column} (the end)")
    } else {
        format!("line {line}, column {column} ({found:?})")
    }
}
