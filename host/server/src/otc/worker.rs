use serde_json::json;
use toolcell_spec::{ErrorCode, Refusal, Timestamp};

use super::{OtcAnswer, WorkerSecret};

/// The principal of all calls of an engine.
pub const ENGINE: &str = "arcade:engine";

/// A worker's authentication of Arcade engines, and its health.
#[derive(Debug)]
pub struct Worker(WorkerSecret);

impl Worker {
    /// Serves the engine that has the secret.
    pub fn new(secret: WorkerSecret) -> Self {
        Self(secret)
    }

    /// `GET /worker/health`, which needs no token, of a worker with so many `tools`.
    pub fn health(&self, tools: usize) -> OtcAnswer {
        OtcAnswer::new(
            200,
            &json!({ "status": "ok", "tool_count": tools.to_string() }),
        )
    }

    /// The answer to a request for any other route that has no right token. `authorization` is the value of that header.
    pub fn refusal(&self, authorization: Option<&str>) -> Option<OtcAnswer> {
        let why = self.0.verify(authorization, Timestamp::now()).err()?;
        let refusal = Refusal::new(ErrorCode::Unauthorized, why);
        Some(OtcAnswer::problem(401, &refusal))
    }
}
