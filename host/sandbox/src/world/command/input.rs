//! The arguments of a call of a command, checked beyond its schema before anything is written.

use std::collections::BTreeMap;

use bytes::Bytes;
use data_encoding::BASE64;
use serde::Deserialize;
use toolcell_spec::{ErrorCode, Refusal};

use crate::wasi::CommandInput;

pub(super) const ARGS_MAX: usize = 1_024;
pub(super) const ENV_MAX: usize = 256;
pub(super) const FILES_MAX: usize = 256;
/// Arguments and variables together: the host copies them into the guest at once.
const WORDS_BYTES_MAX: usize = 1 << 20;
/// Limits of most file systems, in bytes.
pub(super) const PATH_BYTES_MAX: usize = 1_024;
const NAME_BYTES_MAX: usize = 255;
pub(super) const DEPTH_MAX: usize = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InputArguments {
    #[serde(default)]
    args: Vec<String>,
    stdin: Option<InputData>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    files: BTreeMap<String, InputData>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum InputData {
    Text(String),
    Bytes { base64: String },
}

impl InputData {
    fn bytes(self, what: &str) -> Result<Bytes, Refusal> {
        match self {
            Self::Text(text) => Ok(Bytes::from(text)),
            Self::Bytes { base64 } => {
                BASE64
                    .decode(base64.as_bytes())
                    .map(Bytes::from)
                    .map_err(|error| {
                        Refusal::new(
                            ErrorCode::Base64Invalid,
                            format!("cannot decode {what}: {error}; write base64 with padding"),
                        )
                    })
            }
        }
    }
}

pub(super) fn process(name: &str, input: &str) -> Result<CommandInput, Refusal> {
    let InputArguments {
        args,
        stdin,
        env,
        files,
    } = serde_json::from_str(input).map_err(|error| {
        Refusal::new(
            ErrorCode::ArgumentsInvalid,
            format!("cannot read the arguments: {error}"),
        )
    })?;
    check_words(&args, &env)?;
    check_paths(&files)?;
    let stdin = stdin
        .map(|data| data.bytes("stdin"))
        .transpose()?
        .unwrap_or_default();
    let mut given = Vec::with_capacity(files.len());
    for (path, data) in files {
        let bytes = data.bytes(&format!("the file {path:?}"))?;
        given.push((path, bytes));
    }
    let args = std::iter::once(name.to_owned()).chain(args).collect();
    Ok(CommandInput {
        args,
        stdin,
        env: env.into_iter().collect(),
        files: given,
    })
}

fn check_words(args: &[String], env: &BTreeMap<String, String>) -> Result<(), Refusal> {
    let too_many = |what, count, max| {
        Err(Refusal::new(
            ErrorCode::ArgumentsTooMany,
            format!("cannot pass {count} {what}; at most {max} are allowed"),
        ))
    };
    if args.len() > ARGS_MAX {
        return too_many("arguments", args.len(), ARGS_MAX);
    }
    if env.len() > ENV_MAX {
        return too_many("environment variables", env.len(), ENV_MAX);
    }
    let pairs = env.iter().flat_map(|(name, value)| [name, value]);
    let bytes = args
        .iter()
        .chain(pairs.clone())
        .fold(0_usize, |sum, word| sum.saturating_add(word.len()));
    if bytes > WORDS_BYTES_MAX {
        return too_many(
            "bytes of arguments and environment variables",
            bytes,
            WORDS_BYTES_MAX,
        );
    }
    // C programs would see a text that ends there.
    if args.iter().chain(pairs).any(|word| word.contains('\0')) {
        let message =
            "cannot pass an argument or an environment variable that contains a null character";
        return Err(Refusal::new(ErrorCode::ArgumentInvalid, message));
    }
    match env
        .keys()
        .find(|name| name.is_empty() || name.contains('='))
    {
        Some(name) => {
            let message = format!(
                "cannot set the environment variable {name:?}: its name is empty, or contains `=`"
            );
            Err(Refusal::new(ErrorCode::VariableInvalid, message))
        }
        None => Ok(()),
    }
}

fn check_paths(files: &BTreeMap<String, InputData>) -> Result<(), Refusal> {
    if files.len() > FILES_MAX {
        let message = format!(
            "cannot write {} files; at most {FILES_MAX} are allowed",
            files.len()
        );
        return Err(Refusal::new(ErrorCode::FilesTooMany, message));
    }
    for path in files.keys() {
        if let Err(why) = check_path(path)
            && guard!("command_paths")
        {
            return Err(Refusal::new(
                ErrorCode::PathInvalid,
                format!("cannot write the file {path:?}: {why}"),
            ));
        }
        let mut folders = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
        if let Some(file) = folders.find(|folder| files.contains_key(*folder)) {
            let message =
                format!("cannot write the file {path:?}: {file:?} is a file, not a folder");
            return Err(Refusal::new(ErrorCode::PathInvalid, message));
        }
    }
    Ok(())
}

/// The path must lead nowhere but into the folder, on every system.
fn check_path(path: &str) -> Result<(), &'static str> {
    if path.len() > PATH_BYTES_MAX {
        return Err("the path is too long");
    }
    if path.contains(|c: char| c == '\\' || c.is_control()) {
        return Err("the path contains a backslash or a control character");
    }
    let mut depth = 0_usize;
    for name in path.split('/') {
        depth = depth.saturating_add(1);
        match name {
            "" => return Err("the path is empty or absolute, or a name in it is empty"),
            "." | ".." => return Err("the path contains `.` or `..`"),
            name if name.len() > NAME_BYTES_MAX => return Err("a name in the path is too long"),
            _ => {}
        }
    }
    if depth > DEPTH_MAX {
        Err("the path has too many folders")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{ARGS_MAX, ENV_MAX, FILES_MAX, process};

    fn code(input: &Value) -> &'static str {
        process("wc", &input.to_string())
            .err()
            .map_or("accepted", |refusal| refusal.code.as_str())
    }

    #[test]
    fn everything_that_a_caller_gives_reaches_the_process() {
        let input = json!({
            "args": ["-l", ""],
            "stdin": { "base64": "AP8=" },
            "env": { "A": "1", "B": "" },
            "files": { "data/a.csv": "a\n", "b.bin": { "base64": "/w==" } },
        });
        let process = process("wc", &input.to_string()).unwrap();
        assert_eq!(process.args, ["wc", "-l", ""]);
        assert_eq!(process.stdin[..], [0, 255]);
        assert_eq!(
            process.env,
            [
                ("A".to_owned(), "1".to_owned()),
                ("B".to_owned(), String::new())
            ]
        );
        let files: Vec<(&str, &[u8])> = process
            .files
            .iter()
            .map(|(path, bytes)| (path.as_str(), &bytes[..]))
            .collect();
        assert_eq!(files, [("b.bin", &[255][..]), ("data/a.csv", &b"a\n"[..])]);
    }

    #[test]
    fn a_call_without_arguments_gives_nothing() {
        let process = process("wc", "{}").unwrap();
        assert!(process.args == ["wc"] && process.stdin.is_empty() && process.env.is_empty());
        assert!(process.files.is_empty());
    }

    #[test]
    fn a_file_stays_in_its_folder() {
        let long = "x".repeat(256);
        let deep = "a/".repeat(16) + "b";
        for path in [
            "", "/a", "../a", "a/../b", "a/..", "./a", "a//b", "a/", "a\\b", "a\0b", "a\nb", &long,
            &deep,
        ] {
            assert_eq!(
                code(&json!({ "files": { path: "x" } })),
                "path_invalid",
                "{path:?}"
            );
        }
        for path in ["a", "..a", "a..", "a b/c.d", ".hidden", "\u{e4}/b"] {
            assert_eq!(
                code(&json!({ "files": { path: "x" } })),
                "accepted",
                "{path:?}"
            );
        }
        assert_eq!(
            code(&json!({ "files": { "a": "x", "a/b/c": "y" } })),
            "path_invalid"
        );
        assert_eq!(
            code(&json!({ "files": { "a": "x", "a.b/c": "y", "ab": "z" } })),
            "accepted"
        );
    }

    #[test]
    fn what_no_process_can_be_given_is_refused() {
        assert_eq!(code(&json!({ "args": ["a\0b"] })), "argument_invalid");
        assert_eq!(code(&json!({ "env": { "A": "\0" } })), "argument_invalid");
        for name in ["", "A=B"] {
            assert_eq!(
                code(&json!({ "env": { name: "1" } })),
                "variable_invalid",
                "{name:?}"
            );
        }
        for broken in [
            json!({ "base64": "A" }),
            json!({ "base64": "AP8" }),
            json!({ "base64": "A P8=" }),
        ] {
            assert_eq!(code(&json!({ "stdin": broken })), "base64_invalid");
            assert_eq!(code(&json!({ "files": { "a": broken } })), "base64_invalid");
        }
        for input in [
            json!([]),
            json!({ "args": "a" }),
            json!({ "stdin": 1 }),
            json!({ "unknown": 1 }),
        ] {
            assert_eq!(code(&input), "arguments_invalid", "{input}");
        }
    }

    #[test]
    fn numbers_and_sizes_are_bounded() {
        let many = |count: usize| {
            (0..count)
                .map(|at| (format!("n{at}"), json!("x")))
                .collect::<Value>()
        };
        assert_eq!(code(&json!({ "args": vec!["x"; ARGS_MAX] })), "accepted");
        assert_eq!(
            code(&json!({ "args": vec!["x"; ARGS_MAX + 1] })),
            "arguments_too_many"
        );
        assert_eq!(
            code(&json!({ "args": ["x".repeat(1 << 20)], "env": { "A": "1" } })),
            "arguments_too_many"
        );
        assert_eq!(code(&json!({ "env": many(ENV_MAX) })), "accepted");
        assert_eq!(
            code(&json!({ "env": many(ENV_MAX + 1) })),
            "arguments_too_many"
        );
        assert_eq!(code(&json!({ "files": many(FILES_MAX) })), "accepted");
        assert_eq!(
            code(&json!({ "files": many(FILES_MAX + 1) })),
            "files_too_many"
        );
    }
}
