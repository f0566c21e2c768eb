use toolcell_executor::Cancellation;
use toolcell_spec as record;
use wasmtime::component::Resource;
use wasmtime_wasi::p2::{DynPollable, Pollable, subscribe};

use crate::bindings::waiting::toolcell::tool::cancellation_signal;
use crate::state::StoreState;

use super::wit::cancellation::{AbortReason, Host};

impl Host for StoreState {
    async fn requested(&mut self) -> wasmtime::Result<Option<AbortReason>> {
        let asked = self.cancellation.requested().or(self.expiry.requested());
        Ok(asked.map(|reason| match reason {
            record::AbortReason::UserInterruption => AbortReason::UserInterruption,
            record::AbortReason::SiblingError => AbortReason::SiblingError,
            record::AbortReason::Timeout => AbortReason::Timeout,
            record::AbortReason::Fallback => AbortReason::Fallback,
            record::AbortReason::RuntimeShutdown => AbortReason::RuntimeShutdown,
        }))
    }

    async fn acknowledge(&mut self) -> wasmtime::Result<()> {
        if self.cancellation.requested().is_some() {
            self.observer.cancel_acknowledged();
        }
        Ok(())
    }
}

impl cancellation_signal::Host for StoreState {
    async fn subscribe(&mut self) -> wasmtime::Result<Resource<DynPollable>> {
        let wish = self.table.push(StopPollable {
            canceled: self.cancellation.clone(),
            expired: self.expiry.clone(),
        })?;
        subscribe(&mut self.table, wish)
    }
}

struct StopPollable {
    canceled: Cancellation,
    expired: Cancellation,
}

#[wasmtime_wasi::async_trait]
impl Pollable for StopPollable {
    async fn ready(&mut self) {
        tokio::select! {
            () = self.canceled.cancelled() => {}
            () = self.expired.cancelled() => {}
        }
    }
}
