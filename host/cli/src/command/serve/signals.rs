//! SIGHUP, and what the service manager is told.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::signal::unix::Signal;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use toolcell_server::{InterruptFuture, Tokens};

use super::TokenSource;
use crate::serving::ReloadAnswer;
use crate::{interrupts, show};

/// A reload that takes longer is told as done: the tools of before are served.
const RELOAD_TIME: Duration = Duration::from_secs(60);

/// Without a service manager that listens, nothing happens.
pub(in super::super) fn tell(states: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}

/// Tells the service manager when the server begins to end.
pub(super) fn interrupted() -> InterruptFuture {
    let interrupted = interrupts::interrupted();
    Box::pin(async move {
        interrupted.await;
        tell(&[NotifyState::Stopping]);
    })
}

/// Reads tokens and configuration again at each signal. Unreadable files change nothing.
pub(super) async fn read_again(
    mut hangups: Signal,
    source: TokenSource,
    renew: UnboundedSender<Tokens>,
    reload: UnboundedSender<ReloadAnswer>,
) {
    while hangups.recv().await.is_some() {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => tell(&[NotifyState::Reloading, now]),
            Err(_) => tell(&[NotifyState::Reloading]),
        }
        match source.read() {
            Ok(tokens) => {
                let _ = renew.send(tokens);
                show::say("SIGHUP: the tokens were read again");
            }
            Err(error) => show::say(&format!(
                "warning: the tokens cannot be read again, and stay as they were: {error:#}"
            )),
        }
        let (answer, done) = oneshot::channel();
        let _ = reload.send(answer);
        let _ = tokio::time::timeout(RELOAD_TIME, done).await;
        tell(&[NotifyState::Ready]);
    }
}
