//! Signals to this process: the only place that knows their names.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use toolcell::Cancellation;
use toolcell_server::InterruptFuture;
use toolcell_spec::AbortReason;

/// SIGHUP, from now on. Must be called within a runtime.
pub(crate) fn hangups() -> anyhow::Result<Signal> {
    signal(SignalKind::hangup()).context("cannot listen to SIGHUP")
}

/// Signals count from this call on, not from the first poll, because a client may end the server as soon as it is
/// ready. Must be called within a runtime.
pub(crate) fn interrupted() -> InterruptFuture {
    let signals = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    );
    Box::pin(async move {
        let (Ok(mut interrupt), Ok(mut terminate)) = signals else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// At the first signal, what runs still ends in a result; the second one ends the program with 130.
pub(crate) fn cancel(cancellation: Cancellation) -> anyhow::Result<()> {
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
