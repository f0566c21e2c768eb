use std::future::Future;
use std::sync::Arc;

use serde_json::json;
use toolcell_core::record::{CallRecord, ErrorClass, Refusal, Timestamp};

use super::{Answer, ParsedCall, Service, WorkerSecret};
use crate::dialect::otc::Mode;

/// The principal of all calls of an engine.
const ENGINE: &str = "arcade:engine";

/// The routes that an Arcade engine calls of a worker.
pub struct Worker {
    service: Arc<Service>,
    secret: WorkerSecret,
    engine: Arc<str>,
}

impl Worker {
    /// Serves the tools of `service` to the engine that has the secret.
    pub fn new(service: Arc<Service>, secret: WorkerSecret) -> Self {
        Self { service, secret, engine: ENGINE.into() }
    }

    /// `GET /worker/health`, which needs no token.
    pub fn health(&self) -> Answer {
        let count = self.service.tools().tools.len();
        Answer::new(200, &json!({ "status": "ok", "tool_count": count.to_string() }))
    }

    /// `GET /worker/tools`. `authorization` is the value of that header.
    pub fn tools(&self, authorization: Option<&str>) -> Answer {
        match self.refusal(authorization) {
            Some(refused) => refused,
            None => self.service.list(Mode::Arcade),
        }
    }

    /// `POST /worker/tools/invoke`. A request without a right token makes no call.
    pub async fn invoke<F, R>(&self, authorization: Option<&str>, text: &str, call: F) -> Answer
    where
        F: FnOnce(ParsedCall) -> R,
        R: Future<Output = CallRecord>,
    {
        match self.refusal(authorization) {
            Some(refused) => refused,
            None => self.service.execute(&self.engine, text, Mode::Arcade, call).await,
        }
    }

    /// The answer to a request without a right token.
    fn refusal(&self, authorization: Option<&str>) -> Option<Answer> {
        let why = self.secret.verify(authorization, Timestamp::now()).err()?;
        let refusal = Refusal::new(ErrorClass::PermissionDenied, "unauthorized", why);
        Some(Answer::refused(401, &refusal, Mode::Arcade, ""))
    }
}
