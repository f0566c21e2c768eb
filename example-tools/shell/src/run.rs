//! One script, from its text to its answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bashkit::{
    Bash, BuiltinRegistry, Error, ExecOptions, LimitExceeded,
    parser::{ParseOptions, Parser},
};
use toolcell_guest::{Output, ToolError, context, tools};

use crate::{
    Ran, Script, curl, granted, help, limits, pace,
    stream::{Ended, Streams, Which},
    tree,
};

/// How much of the output an error shows, in bytes.
const TAIL_BYTES: usize = 1_000;

/// Maximum size of a stream in the structured answer, in bytes: the host keeps a larger answer by reference, and a caller
/// would see no exit code.
pub(crate) const STRUCTURED_BYTES_MAX: usize = 16_000;

/// Of commands that run others and print something themselves: bashkit 0.20 loses what they print if the output of the script
/// is handed on as it comes. Such a script's comes at its end.
const RUN_OTHERS: [&str; 3] = ["exec", "select", "awk"];

type Shared = Arc<Mutex<Streams>>;

pub(crate) fn run(input: &Script) -> Result<Output<Ran>, ToolError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let mut bash = bash()?;
    let streams: Shared = Arc::new(Mutex::new(Streams::new()));
    let sink = |which| {
        let streams = Arc::clone(&streams);
        move |bytes: Vec<u8>| {
            let written = lock(&streams).write(which, &bytes);
            async move { written.map_err(|()| Error::Cancelled) }
        }
    };
    let mut options = ExecOptions::new();
    if !input.args.is_empty() {
        options = options.positional(input.args.iter().cloned());
    }
    if !input.stdin.is_empty() {
        options = options.stdin(input.stdin.as_str());
    }
    let result = if RUN_OTHERS.iter().any(|word| input.script.contains(word)) {
        let ended = runtime.block_on(bash.exec_with_options(&input.script, options));
        if let Ok(ended) = &ended {
            let mut streams = lock(&streams);
            let written = streams.write(Which::Stdout, ended.stdout.as_bytes());
            // An error of the first is told below, too.
            let _ = written.and_then(|()| streams.write(Which::Stderr, ended.stderr.as_bytes()));
        }
        ended
    } else {
        let execution = bash
            .execute(&input.script)
            .options(options)
            .stdout_fn(sink(Which::Stdout))
            .stderr_fn(sink(Which::Stderr));
        runtime.block_on(async { execution.await })
    };
    drop(bash);
    let mut streams = Arc::into_inner(streams)
        .map(|streams| streams.into_inner().unwrap_or_else(PoisonError::into_inner))
        .ok_or_else(|| {
            ToolError::execution_failed("output_lost", "the output of the script is still in use")
        })?;
    match (result, streams.failure()) {
        (_, Some(error)) => Err(error),
        (Ok(result), None) => answer(result.exit_code, streams),
        (Err(error), None) => Err(failure(&error, &streams.tail(TAIL_BYTES))),
    }
}

/// Fails with `script_invalid` if the script is not bash. With aliases, only running it tells.
pub(crate) fn parse(script: &str) -> Result<(), ToolError> {
    if script.contains("expand_aliases") {
        return Ok(());
    }
    let limits = limits::execution();
    let options = ParseOptions {
        aliases: None,
        // As a script may set it in a line of its own: with it, less is refused.
        extglob: script.contains("extglob"),
    };
    Parser::with_limits(script, limits.max_ast_depth, limits.max_parser_operations)
        .with_options(options)
        .parse()
        .map(drop)
        .map_err(|error| failure(&error, ""))
}

fn lock(streams: &Shared) -> MutexGuard<'_, Streams> {
    streams.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bash() -> Result<Bash, ToolError> {
    let tree = tree::tree(&tree::folders(), &context())?;
    let commands = BuiltinRegistry::new();
    let bash = Bash::builder()
        .fs(tree.files)
        .cwd(tree.cwd)
        .env("HOME", tree.home)
        .username("user")
        .hostname("toolcell")
        .limits(limits::execution())
        .session_limits(limits::session())
        .memory_limits(limits::memory())
        .builtin_registry(commands.clone())
        .build();
    let own = bash.builtin_names();
    let granted = granted::named(tools::list(), &own);
    for tool in &granted {
        for name in &tool.commands {
            commands.insert(name.as_str(), Arc::new(granted::Command::new(tool)));
        }
    }
    commands.insert_command("curl", curl::Curl);
    commands.insert_command("yes", pace::Yes);
    commands.insert("sleep", Arc::new(pace::Sleep));
    commands.insert("help", Arc::new(help::Help::new(granted, own)));
    Ok(bash)
}

fn answer(exit_code: i32, streams: Streams) -> Result<Output<Ran>, ToolError> {
    let (stdout, stderr) = streams.end()?;
    let mut output = Output::new();
    if !stdout.text.is_empty() {
        output = output.text(stdout.text.as_str());
    }
    if !stderr.text.is_empty() {
        output = output.text(format!("stderr:\n{}", stderr.text));
    }
    if exit_code != 0 {
        output = output.text(format!("exit code: {exit_code}"));
    } else if output.content.is_empty() {
        output = output.text("exit code: 0, no output");
    }
    for (name, stream) in [("standard output", &stdout), ("standard error", &stderr)] {
        if let Some(artifact) = &stream.artifact {
            output = output
                .text(format!("all {} bytes of {name}:", stream.bytes))
                .block(artifact.clone());
        }
    }
    let (stdout, stdout_bytes) = short(stdout);
    let (stderr, stderr_bytes) = short(stderr);
    Ok(output
        .ui_summary(format!("exit code {exit_code}"))
        .structured(Ran {
            exit_code,
            stdout,
            stderr,
            stdout_bytes,
            stderr_bytes,
        }))
}

/// The beginning of a stream, and the length of the stream if that is more.
fn short(ended: Ended) -> (String, Option<u64>) {
    let mut text = ended.text;
    text.truncate(text.floor_char_boundary(STRUCTURED_BYTES_MAX));
    let longer = (ended.bytes != text.len() as u64).then_some(ended.bytes);
    (text, longer)
}

/// The error for a script that did not come to its end. `tail`: the end of its output.
fn failure(error: &Error, tail: &str) -> ToolError {
    let after = if tail.is_empty() {
        String::new()
    } else {
        format!("; the end of its output: {tail}")
    };
    let failed = |code: &str, what: String| {
        ToolError::execution_failed(code, format!("{what}{after}")).detail(error.to_string())
    };
    match error {
        Error::Parse {
            message, line: 0, ..
        } => ToolError::invalid_arguments(
            "script_invalid",
            format!("the script is not valid bash: {message}"),
        ),
        Error::Parse {
            message,
            line,
            column,
        } => ToolError::invalid_arguments(
            "script_invalid",
            format!("line {line}, column {column}: the script is not valid bash: {message}"),
        ),
        Error::ResourceLimit(LimitExceeded::AstTooDeep(..)) => ToolError::invalid_arguments(
            "script_too_deep",
            format!(
                "the script nests more than {} levels: use functions",
                limits::SYNTAX_DEPTH
            ),
        ),
        Error::ResourceLimit(
            LimitExceeded::MaxFunctionDepth(_)
            | LimitExceeded::MaxSubstDepth(_)
            | LimitExceeded::MaxSubshellDepth(_),
        ) => failed(
            "recursion_too_deep",
            format!(
                "functions, scripts or $(..) of the script call each other more than {} levels deep: use a loop",
                limits::DEPTH
            ),
        ),
        Error::ResourceLimit(limit) => {
            failed("shell_limit", format!("the script was ended: {limit}"))
        }
        Error::Cancelled => ToolError::canceled("canceled", "the script was canceled"),
        error => failed("script_failed", format!("the script was ended: {error}")),
    }
}
