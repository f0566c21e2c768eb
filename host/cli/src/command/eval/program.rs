//! A judge that is a program of the user. It runs outside of the sandbox, but reads what an agent wrote, so it gets no
//! environment that it does not need.

use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use toolcell_dialect::evaluation::VERDICT_BYTES_MAX;

use super::Eval;

/// The rest is read and dropped, so that a judge that says much does not wait.
const SAID_BYTES_MAX: u64 = 8 << 10;
/// In characters.
const SAID_MAX: usize = 300;

/// Killed on drop: at the end, at the deadline, or at an interrupt.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It fails if the group has ended by itself.
            kill_process_group(group, Signal::KILL).ok();
        }
    }
}

/// Asks the program of `--judge-command`. Its environment is PATH, and the variables of `--judge-env` that are set.
pub(super) async fn ask(eval: &Eval, question: &str) -> Result<String, String> {
    let Some((program, arguments)) = eval.judge_command.split_first() else {
        return Err("there is no program".to_owned());
    };
    let names = eval.judge_env.iter().map(String::as_str).chain(["PATH"]);
    let mut child = Command::new(program)
        .env_clear()
        .args(arguments)
        .envs(names.filter_map(|name| Some((name, std::env::var_os(name)?))))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("cannot start {program:?}: {error}"))?;
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    let _group = Group(id.and_then(Pid::from_raw));
    let wall = eval.judge_timeout;
    let late = |_| Err(format!("it did not answer within {} ms", wall.as_millis()));
    tokio::time::timeout(wall, talk(&mut child, question))
        .await
        .unwrap_or_else(late)
}

async fn talk(child: &mut Child, question: &str) -> Result<String, String> {
    let (mut input, output, errors) =
        match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
            (Some(input), Some(output), Some(errors)) => (input, output, errors),
            _ => return Err("it has no pipes".to_owned()),
        };
    let send = async {
        // A program may answer without reading everything.
        let _ = input.write_all(question.as_bytes()).await;
        let _ = input.write_all(b"\n").await;
        drop(input);
        Ok(())
    };
    let ((), answer, said) = tokio::try_join!(send, answer(output), said(errors))?;
    let status = child
        .wait()
        .await
        .map_err(|error| format!("cannot wait for it: {error}"))?;
    if status.success() {
        String::from_utf8(answer).map_err(|_| "its answer is not UTF-8 text".to_owned())
    } else {
        Err(ended(status, &said))
    }
}

/// Fails at once when there is too much, because the program may never end.
async fn answer(output: impl AsyncRead + Unpin) -> Result<Vec<u8>, String> {
    let mut answer = Vec::new();
    let read = output
        .take(VERDICT_BYTES_MAX as u64 + 1)
        .read_to_end(&mut answer)
        .await;
    read.map_err(|error| format!("cannot read its answer: {error}"))?;
    if answer.len() > VERDICT_BYTES_MAX {
        Err(format!("it printed more than {VERDICT_BYTES_MAX} bytes"))
    } else {
        Ok(answer)
    }
}

async fn said(mut errors: impl AsyncRead + Unpin) -> Result<String, String> {
    let mut said = Vec::new();
    let fail = |error: std::io::Error| format!("cannot read its standard error: {error}");
    (&mut errors)
        .take(SAID_BYTES_MAX)
        .read_to_end(&mut said)
        .await
        .map_err(fail)?;
    tokio::io::copy(&mut errors, &mut tokio::io::sink())
        .await
        .map_err(fail)?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// Quotes its last line: most programs put their reason there.
fn ended(status: ExitStatus, said: &str) -> String {
    match toolcell_toolchain::last_line(said) {
        Some(last) => format!("it ended with {status}: {last:.SAID_MAX$}"),
        None => format!("it ended with {status}"),
    }
}
