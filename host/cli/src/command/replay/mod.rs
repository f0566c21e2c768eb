//! Runs a recorded call again, with the recorded random numbers and clock readings. The replay is a call of its own,
//! with an empty world, and is on record.

mod compare;
mod recorded;
mod report;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::Value;
use toolcell::{
    CallContext, CallRecord, CallSpec, Cancellation, ComponentTools, ErrorClass, Grants, Home,
    Host, Limits, Refusal, Tool,
};
use toolcell_spec::{ArtifactUsage, MeteredUsage, Replay as ReplayOf, ReplayBlocker, Usage};

use super::calls;
use crate::exit::{BadRequest, Exit};
use crate::hosts;
use crate::options::{ApprovalOptions, PolicyOptions};
use crate::protected_sources::{self, CommandFiles};
use crate::runtime::Runtime;
use crate::tool_configs::ToolConfigs;
use crate::{ask, hooks, interrupts, surface};

use recorded::ReplayableCall;
use report::{BlockedReplay, Outcome, ReplayObstacle, Report};

/// Runs a recorded call again: the same component on the same input, with the random numbers and the clock that it had.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit 0 if the output is the same, 1 if it differs, 3 if the call cannot be replayed. The replay \
                        has no grants, and is on record as a call of its own."
)]
pub(crate) struct Replay {
    /// The id of the call, or the end of it: `toolcell calls` lists them
    id: String,
    /// Run this .wasm file instead of the recorded component, for example a newer version of it
    #[arg(long, value_name = "FILE")]
    component: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    policy: PolicyOptions,
    #[command(flatten)]
    approvals: ApprovalOptions,
}

impl Replay {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let unknown = || {
            BadRequest(format!(
                "no call has an id that equals or ends in {}; list calls with `toolcell calls`",
                self.id
            ))
        };
        let mut report = Report {
            of: self.id.clone(),
            replayed_as: None,
            outcome: Outcome::Same,
        };
        let outcome = match calls::log(&home)?
            .checked_record(&self.id)?
            .ok_or_else(unknown)?
        {
            Ok(record) => self.replay(&home, &record, &mut report),
            Err(damage) => blocked(ReplayBlocker::LogDamaged, &damage.to_string()),
        };
        report.outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Blocked {
                reasons: error.downcast::<BlockedReplay>()?.0,
            },
        };
        report.print(self.json)
    }

    fn replay(&self, home: &Home, record: &Value, report: &mut Report) -> anyhow::Result<Outcome> {
        if let Some(id) = record
            .pointer("/invocation/invocation_id")
            .and_then(Value::as_str)
        {
            id.clone_into(&mut report.of);
        }
        let recorded = ReplayableCall::read(record).map_err(BlockedReplay)?;
        let replayed = self.again(home, &recorded)?;
        report.replayed_as = Some(replayed.invocation.invocation_id);
        judge(&recorded, &replayed)
    }

    fn again(&self, home: &Home, recorded: &ReplayableCall) -> anyhow::Result<CallRecord> {
        let component = match self.component.as_ref().or(recorded.component_file.as_ref()) {
            Some(component) if component.is_file() => component,
            Some(component) if self.component.is_some() => {
                let component = component.display();
                return Err(BadRequest(format!("--component: {component} is not a file")).into());
            }
            Some(component) => {
                return blocked(
                    ReplayBlocker::ComponentMissing,
                    &component.display().to_string(),
                );
            }
            None => return Err(BlockedReplay::from(ReplayBlocker::ComponentMissing).into()),
        };
        let mut settings = match self.policy.settings(home) {
            Ok(settings) => settings,
            Err(stop) => return Err(refused(&stop.refusal()?)),
        };
        let closed = protected_sources::close(home, &mut settings, &CommandFiles::default());
        let layers = std::mem::take(&mut settings.layers);
        let selection = std::mem::take(&mut settings.selection);
        let expire = self.approvals.expire(settings.expire);
        settings.limits = at_most(settings.limits, &recorded.usage);
        let mut host = hosts::host(home, |host| {
            hosts::configure(host, home, &layers, &settings.limits).approver(ask::approver())
        })?;
        let runtime = Runtime::on_this_thread()?;
        let replayed = runtime.block_on(async {
            let cancellation = Cancellation::new();
            interrupts::cancel(cancellation.clone())?;
            hooks::add(&mut host, home, &layers, &closed).await?;
            let (tool, loaded) = self.load(&host, component, recorded).await?;
            ToolConfigs::new(home, &layers).name(component, &mut settings.policy, &loaded);
            // A call that can be replayed had an empty world, so its replay gets no more, whatever is granted now.
            if guard!("replay_world") {
                settings.grants = Grants::default();
            }
            let all = settings.tool_set(Arc::new(host)).expire(expire);
            let tools = surface::select(all, loaded.tools, selection, HashMap::new()).await;
            let spec = CallSpec {
                session: self.approvals.call_session(),
                is_loaded: Some(true),
                replay: Some(ReplayOf {
                    of: recorded.id,
                    data: recorded.data.clone(),
                }),
                ..CallSpec::new("", recorded.input.clone())
                    .exactly(&tool)
                    .actor(ask::actor())
            };
            let context = CallContext {
                cancellation,
                ..CallContext::default()
            };
            let tools = Arc::new(tools);
            let record = tools.call(spec, context).await;
            // The process ends now, so dropping the engine would only take time.
            std::mem::forget(tools);
            anyhow::Ok(*record)
        })?;
        runtime.shutdown_background();
        Ok(replayed)
    }

    async fn load(
        &self,
        host: &Host,
        component: &Path,
        recorded: &ReplayableCall,
    ) -> anyhow::Result<(Arc<Tool>, ComponentTools)> {
        let loaded = host.load_file(component).await;
        let loaded = loaded.map_err(|refusal| refused(&refusal))?;
        let found = loaded
            .tools
            .iter()
            .find(|tool| tool.declaration().tool_id == recorded.tool_id)
            .cloned();
        let is_same =
            |tool: &Arc<Tool>| tool.runtime_refs().first() == recorded.runtime_refs.first();
        let file = component.display();
        match (found, &self.component) {
            (Some(tool), None) if is_same(&tool) => Ok((tool, loaded)),
            (_, None) => blocked(ReplayBlocker::ComponentChanged, &file.to_string()),
            (Some(tool), Some(_)) => Ok((tool, loaded)),
            (None, Some(_)) => {
                let tool = &recorded.tool_id;
                let why = format!("--component: {file} has no tool with the id {tool}");
                Err(BadRequest(why).into())
            }
        }
    }
}

/// `value` caused the obstacle.
fn blocked<T>(code: ReplayBlocker, value: &str) -> anyhow::Result<T> {
    Err(BlockedReplay(vec![ReplayObstacle::with(code, value)]).into())
}

fn refused(refusal: &Refusal) -> anyhow::Error {
    let code = refusal.code.as_str();
    BlockedReplay(vec![ReplayObstacle::refused(&refusal.message, code)]).into()
}

/// The lower of the recorded and the current limits.
fn at_most(now: Limits, recorded: &Usage) -> Limits {
    // A call that began no artifact has no limits of artifacts on record, and met none.
    let artifacts = recorded.artifacts.unwrap_or(ArtifactUsage {
        bytes: MeteredUsage {
            used: 0,
            limit: now.artifact_bytes,
        },
        created: MeteredUsage {
            used: 0,
            limit: now.artifacts,
        },
    });
    Limits {
        fuel: now.fuel.min(recorded.fuel.limit),
        cpu: recorded
            .cpu_ms
            .map_or(now.cpu, |cpu| now.cpu.min(Duration::from_millis(cpu.limit))),
        wall: now.wall.min(Duration::from_millis(recorded.wall_ms.limit)),
        memory_bytes: now.memory_bytes.min(recorded.memory_bytes.limit),
        table_elements: now.table_elements.min(recorded.table_elements.limit),
        instances: now.instances.min(recorded.instances_limit),
        handles: now.handles.min(recorded.handles_limit),
        descriptors: now.descriptors.min(recorded.descriptors_limit),
        output_bytes: now.output_bytes.min(recorded.output_bytes.limit),
        log_bytes: now.log_bytes.min(recorded.log_bytes.limit),
        artifact_bytes: now.artifact_bytes.min(artifacts.bytes.limit),
        artifacts: now.artifacts.min(artifacts.created.limit),
        ..now
    }
}

fn judge(recorded: &ReplayableCall, replayed: &CallRecord) -> anyhow::Result<Outcome> {
    let invocation = &replayed.invocation;
    let result = &replayed.result;
    let error = result.error.as_ref();
    let blocked = |blocker: ReplayBlocker| Err(BlockedReplay::from(blocker).into());
    if result.error_class() == Some(ErrorClass::Canceled) {
        return blocked(ReplayBlocker::CanceledNow);
    }
    if let Some(error) = error.filter(|_| result.usage.is_none()) {
        let refused = ReplayObstacle::refused(&error.message, &error.error_code);
        return Err(BlockedReplay(vec![refused]).into());
    }
    if error.is_some_and(recorded::is_out_of_time) {
        return blocked(ReplayBlocker::StoppedByClock);
    }
    // The reference of a sensitive input is concealed: a newer component may declare it as such.
    let ran = invocation
        .call_input_ref
        .as_deref()
        .filter(|reference| reference.starts_with("sha256:"));
    if ran.is_some_and(|reference| reference != recorded.input.reference()) {
        return blocked(ReplayBlocker::InputChanged);
    }
    // Written and read like the recorded result, so that both have the same numbers.
    let replayed =
        serde_json::to_string(result).and_then(|text| serde_json::from_str::<Value>(&text));
    let replayed = replayed.context("the result of the replay cannot be read")?;
    Ok(match compare::first(&recorded.result, &replayed) {
        Some(difference) => Outcome::Differs { difference },
        None => Outcome::Same,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_has_the_lower_limits_of_artifacts() {
        let limited = |limit| MeteredUsage { used: 0, limit };
        let usage = |artifacts| Usage {
            artifacts,
            ..Usage::default()
        };
        let of = |usage: &Usage| {
            let now = Limits {
                artifact_bytes: 1_000,
                artifacts: 10,
                ..Limits::default()
            };
            let limits = at_most(now, usage);
            (limits.artifact_bytes, limits.artifacts)
        };
        assert_eq!(
            of(&usage(Some(ArtifactUsage {
                bytes: limited(600),
                created: limited(20)
            }))),
            (600, 10)
        );
        assert_eq!(
            of(&usage(Some(ArtifactUsage {
                bytes: limited(2_000),
                created: limited(3)
            }))),
            (1_000, 3)
        );
        assert_eq!(of(&usage(None)), (1_000, 10));
    }
}
