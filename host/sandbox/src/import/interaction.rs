use toolcell_executor as executor;
use toolcell_executor::NeededInput;

use crate::state::StoreState;
use crate::trap::StopReason;

use super::wit::interaction::{Host, InputRequest};

/// Limits of one tool's questions at once: keys, messages and schemas together.
const REQUESTS_MAX: usize = 8;
const REQUEST_BYTES_MAX: usize = 64 << 10;
const RESUME_STATE_BYTES_MAX: usize = 64 << 10;

impl Host for StoreState {
    async fn responses(&mut self) -> wasmtime::Result<String> {
        Ok(self
            .resumed
            .as_ref()
            .map_or_else(|| "{}".to_owned(), |resumed| resumed.responses.clone()))
    }

    async fn resume_state(&mut self) -> wasmtime::Result<Vec<u8>> {
        Ok(self
            .resumed
            .as_ref()
            .map_or_else(Vec::new, |resumed| resumed.resume_state.clone()))
    }

    async fn ask(
        &mut self,
        requests: Vec<InputRequest>,
        resume_state: Vec<u8>,
    ) -> wasmtime::Result<()> {
        let bytes: usize = requests
            .iter()
            .map(|it| it.key.len() + it.message.len() + it.schema.len())
            .sum();
        if requests.is_empty() || requests.len() > REQUESTS_MAX || bytes > REQUEST_BYTES_MAX {
            return Err(StopReason::Question(
                "it asks 1 to 8 questions at once, in at most 64 KiB",
            )
            .into());
        }
        if resume_state.len() > RESUME_STATE_BYTES_MAX {
            return Err(
                StopReason::Question("what it keeps while it waits has at most 64 KiB").into(),
            );
        }
        let requests = requests.into_iter().map(
            |InputRequest {
                 key,
                 message,
                 schema,
             }| executor::InputRequest {
                key,
                message,
                schema,
            },
        );
        self.needed = Some(NeededInput {
            requests: requests.collect(),
            resume_state,
        });
        Err(StopReason::NeedsInput.into())
    }
}
