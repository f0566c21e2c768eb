//! Commands of bashkit that end before the host's limits do: its `yes` writes 10,000 lines, its `sleep` takes a minute.

use std::{io, time::Duration};

use bashkit::{
    Builtin, BuiltinContext, Command, CommandContext, CommandStatus, Error, ExecResult, Result,
    async_trait,
};

/// Bytes that `yes` writes at once.
const YES_BYTES: usize = 4_096;

/// Writes a line until nothing reads it.
pub(crate) struct Yes;

#[async_trait]
impl Command for Yes {
    async fn execute(&self, ctx: CommandContext<'_>) -> Result<CommandStatus> {
        let line = match ctx.args {
            [] => "y\n".to_owned(),
            words => format!("{}\n", words.join(" ")),
        };
        let many = line.repeat((YES_BYTES / line.len()).max(1));
        loop {
            match ctx.stdout.write_all(many.as_bytes()).await {
                Err(Error::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                    // As a shell shows a command that ended by SIGPIPE.
                    return Ok(CommandStatus::with_code(141));
                }
                written => written?,
            }
            // A write to memory is always ready, and would leave other commands no turn.
            tokio::task::yield_now().await;
        }
    }
}

/// Waits for the sum of its arguments: numbers with `s`, `m`, `h`, `d` or nothing for seconds.
pub(crate) struct Sleep;

#[async_trait]
impl Builtin for Sleep {
    async fn execute(&self, ctx: BuiltinContext<'_>) -> Result<ExecResult> {
        let mut total = Duration::ZERO;
        if ctx.args.is_empty() {
            return Ok(ExecResult::err("sleep: missing operand\n", 1));
        }
        for word in ctx.args {
            let Some(time) = interval(word) else {
                return Ok(ExecResult::err(
                    format!("sleep: invalid time interval '{word}'\n"),
                    1,
                ));
            };
            total = total.saturating_add(time);
        }
        tokio::time::sleep(total).await;
        Ok(ExecResult::ok(String::new()))
    }
}

pub(crate) fn interval(word: &str) -> Option<Duration> {
    let (number, unit) = match word.char_indices().last()? {
        (at, 's') => (word.get(..at)?, 1.0),
        (at, 'm') => (word.get(..at)?, 60.0),
        (at, 'h') => (word.get(..at)?, 3_600.0),
        (at, 'd') => (word.get(..at)?, 86_400.0),
        _ => (word, 1.0),
    };
    if number == "infinity" || number == "inf" {
        return Some(Duration::from_secs(u64::from(u32::MAX)));
    }
    let seconds: f64 = number.parse().ok()?;
    Duration::try_from_secs_f64(seconds * unit).ok()
}
