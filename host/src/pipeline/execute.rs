//! Phase 9: every error of the sandbox, see `sandbox/trap.rs`.

use std::sync::Arc;

use serde_json::json;

use crate::catalog::Tool;
use crate::executor::{Cancellation, Execution, GuestOutcome, GuestProgress, Observer, Run, SandboxDenial};
use crate::journal::Trail;
use crate::record::{
    EventType, Extra, InvocationId, ProgressId, ProgressStatus, Refusal, SchemaVersion, Status, Timestamp, ToolProgress,
};

use super::interact;
use super::journey::Journey;
use super::schedule::Scheduled;

pub(super) struct Executed {
    pub(super) tool: Arc<Tool>,
    pub(super) execution: Execution,
}

/// Runs the tool with what the permit carries.
pub(super) async fn run(journey: &mut Journey<'_>, scheduled: Scheduled) -> Result<Executed, Refusal> {
    let Scheduled { permitted, place } = scheduled;
    let limits = permitted.permit.limits();
    let started = json!({
        "attempt": permitted.permit.subject().attempt,
        "fuel_limit": limits.fuel,
        "wall_ms_limit": u64::try_from(limits.wall.as_millis()).unwrap_or(u64::MAX),
        "memory_limit_bytes": limits.memory_bytes,
    });
    journey.advance(Status::Running)?;
    journey.changes = !permitted.permit.changes_nothing();
    journey.trail.emit(EventType::Started, started);
    let run = Run {
        cancellation: journey.request.cancellation.clone(),
        secrets: journey.redaction.secrets(),
        observer: Arc::new(Relay {
            trail: journey.trail.clone(),
            invocation_id: journey.invocation.invocation_id,
            cancellation: journey.request.cancellation.clone(),
        }),
        resumed: None,
    };
    let mut execution = journey.services.executor.invoke(&permitted.permit, run.clone()).await;
    drop(place);
    if matches!(execution.outcome, Ok(GuestOutcome::NeedsInput(_))) {
        // Boxed, to keep the future of a call without questions small.
        execution = Box::pin(interact::go_on(journey, &permitted.permit, run, execution)).await;
    }
    if let Some(reason) = journey.request.cancellation.requested() {
        journey.trail.cancel_requested(reason);
        journey.trail.cancel_acknowledged("host");
    }
    Ok(Executed { tool: permitted.tool, execution })
}

/// Writes the events of a running guest to the trail.
struct Relay {
    trail: Trail,
    invocation_id: InvocationId,
    cancellation: Cancellation,
}

impl Observer for Relay {
    fn progress(&self, update: GuestProgress) {
        let (partial_result_refs, partial_content) = match update.partial {
            Some((reference, content)) => (vec![reference], Some(content)),
            None => (Vec::new(), None),
        };
        self.trail.progress(ToolProgress {
            schema_version: SchemaVersion::default(),
            progress_id: ProgressId::new(),
            invocation_id: self.invocation_id,
            sequence: 0,
            status: if partial_content.is_some() { ProgressStatus::PartialResult } else { update.status },
            message: update.message,
            percent: update.percent,
            current_step: update.current_step,
            total_steps: update.total_steps,
            elapsed_ms: 0,
            bytes_read: update.bytes_read,
            bytes_written: update.bytes_written,
            line_count: update.line_count,
            partial_result_refs,
            partial_content,
            timestamp: Timestamp::now(),
            extra: Extra::new(),
        });
    }

    fn log(&self, level: &str, message: &str, fields: Option<&str>) {
        self.trail.logged(level, message, fields);
    }

    fn cancel_acknowledged(&self) {
        if let Some(reason) = self.cancellation.requested() {
            self.trail.cancel_requested(reason);
        }
        self.trail.cancel_acknowledged("guest");
    }

    fn denied(&self, denial: SandboxDenial) {
        let denied = json!({
            "capability": denial.capability,
            "target": denial.target,
            "target_class": denial.target_class,
            "rule": denial.rule,
        });
        self.trail.emit(EventType::SandboxDenied, denied);
    }
}
