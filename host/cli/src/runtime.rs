use std::pin::{Pin, pin};

use anyhow::Context;
use toolcell_system::BoxFuture;
use toolcell_system::pool::starting_threads;

use super::exit::BadRequest;

/// Its loop and tasks do not know the type of a future, which would otherwise bring a copy of each into the crate of
/// every command.
pub(crate) struct Runtime(tokio::runtime::Runtime);

impl Runtime {
    /// Threads would only delay the one call of such a command.
    pub(crate) fn on_this_thread() -> anyhow::Result<Self> {
        Self::built(&mut tokio::runtime::Builder::new_current_thread())
    }

    pub(crate) fn on_all_processors() -> anyhow::Result<Self> {
        Self::built(&mut tokio::runtime::Builder::new_multi_thread())
    }

    fn built(builder: &mut tokio::runtime::Builder) -> anyhow::Result<Self> {
        let built = starting_threads(|| builder.enable_all().build());
        let built = built.map_err(|error| BadRequest(format!("cannot start: {error}")))?;
        built.map(Self).context("cannot start the runtime")
    }

    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        let mut output = None;
        self.drive(pin!(async { output = Some(future.await) }));
        output.unwrap_or_else(|| unreachable!("a future has ended without an output"))
    }

    fn drive(&self, future: Pin<&mut dyn Future<Output = ()>>) {
        self.0.block_on(future);
    }

    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let future: BoxFuture<'static, ()> = Box::pin(future);
        self.0.spawn(future);
    }

    /// Does not wait for what still runs.
    pub(crate) fn shutdown_background(self) {
        self.0.shutdown_background();
    }
}
