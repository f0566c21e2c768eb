//! Interrupts and termination of a command that calls tools.

use anyhow::Context;
use toolcell::Cancellation;
use toolcell_spec::AbortReason;

/// At the first signal, what runs still ends in a result; the second one ends the program with 130.
pub(crate) fn cancel(cancellation: Cancellation) -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen to interrupts")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen to termination")?;
    tokio::spawn(async move {
        let reason = tokio::select! {
            _ = interrupt.recv() => AbortReason::UserInterruption,
            _ = terminate.recv() => AbortReason::RuntimeShutdown,
        };
        cancellation.cancel(reason);
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        std::process::exit(130);
    });
    Ok(())
}
