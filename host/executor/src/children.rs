use std::time::{Duration, Instant};

use toolcell_policy::Limits;
use toolcell_spec::{InvocationId, ToolError, Usage};

use toolcell_system::BoxFuture;

/// A call's deadline is this much after its caller's, so that the caller is stopped first, instead of getting an answer
/// in its last moment.
const AFTER_CALLER: Duration = Duration::from_millis(50);

/// Calls other tools for a guest. The pipeline implements it, so that such calls pass every phase.
pub trait ToolCaller: Send + Sync {
    fn list(&self) -> BoxFuture<'_, Vec<CallableTool>>;

    fn call(&self, call: ChildCall) -> BoxFuture<'_, ChildAnswer>;
}

#[derive(Clone, Debug)]
pub struct CallableTool {
    pub name: String,
    pub description: String,
}

#[derive(Clone, Debug)]
pub struct ChildCall {
    /// As the guest wrote it.
    pub tool: String,
    /// As the guest wrote them.
    pub input: String,
    pub share: LimitShare,
}

#[derive(Clone, Debug)]
pub struct LimitShare {
    /// Unused fuel, CPU time and quotas, and the possible growth of the caller's memories, which stay while it waits. Boxed,
    /// because few calls are made by others.
    pub left: Box<Limits>,
    pub deadline: Instant,
}

impl LimitShare {
    /// `spent` is the usage of earlier instances. The host's memory for the call is taken too, because the caller's
    /// reservation is for both.
    #[must_use]
    pub fn lower(&self, limits: &Limits, spent: Option<&Usage>) -> Limits {
        let mut own = limits.clone();
        if guard!("child_quotas") {
            own = own.quotas_within(&self.left);
        }
        if guard!("child_share") {
            let host = limits.host_bytes().saturating_sub(limits.memory_bytes);
            own.fuel = own.fuel.min(self.left.fuel);
            own.cpu = own.cpu.min(self.left.cpu);
            own.memory_bytes = own
                .memory_bytes
                .min(self.left.memory_bytes.saturating_sub(host));
        }
        if let Some(spent) = spent {
            own = own.less(spent);
        }
        if guard!("child_share") {
            own.wall = own.wall.min(self.time_left() + AFTER_CALLER);
        }
        own
    }

    fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

#[derive(Clone, Debug)]
pub struct ChildAnswer {
    pub result: Result<ChildOutput, ToolError>,
    /// Includes its own calls.
    pub used: Usage,
}

#[derive(Clone, Debug)]
pub struct ChildOutput {
    pub invocation_id: InvocationId,
    /// JSON text of the blocks.
    pub content: String,
    /// JSON text.
    pub structured: Option<String>,
    /// The missing part of a usable, incomplete output.
    pub missing: Option<ToolError>,
}

#[cfg(test)]
mod tests {
    use toolcell_policy::NetworkLimits;
    use toolcell_spec::{FileUsage, MeteredUsage};

    use super::*;

    #[test]
    fn a_call_uses_no_more_than_its_caller_has_left() {
        let limits = Limits::default();
        let hour = Instant::now() + Duration::from_secs(3_600);
        let share = |left: Limits, deadline| LimitShare {
            left: Box::new(left),
            deadline,
        };
        let plenty = Limits {
            fuel: u64::MAX,
            memory_bytes: u64::MAX,
            ..Limits::default()
        };
        assert_eq!(share(plenty.clone(), hour).lower(&limits, None), limits);
        let little = Limits {
            fuel: 100,
            memory_bytes: 64 << 20,
            ..plenty.clone()
        };
        let little = share(little, Instant::now());
        let left = little.lower(&limits, None);
        assert_eq!((left.fuel, left.wall), (100, AFTER_CALLER));
        assert_eq!(
            left.host_bytes(),
            64 << 20,
            "what the host needs for the call comes from the share too"
        );
        let spent = Usage {
            fuel: MeteredUsage {
                used: 30,
                limit: 100,
            },
            ..Usage::default()
        };
        assert_eq!(little.lower(&limits, Some(&spent)).fuel, 70);
        let none = share(
            Limits {
                memory_bytes: 1,
                ..plenty
            },
            hour,
        );
        assert_eq!(none.lower(&limits, None).memory_bytes, 0);
    }

    #[test]
    fn every_quota_of_a_call_is_for_the_calls_below_it_too() {
        let limits = Limits::default();
        let network = NetworkLimits {
            requests: 5,
            sent_bytes: 6,
            received_bytes: 7,
            ..NetworkLimits::default()
        };
        let left = Limits {
            disk_bytes: 1,
            files_created: 2,
            artifact_bytes: 3,
            artifacts: 4,
            network,
            ..limits.clone()
        };
        let share = LimitShare {
            left: Box::new(left.clone()),
            deadline: Instant::now() + Duration::from_secs(3_600),
        };
        let of = |spent| {
            share.lower(
                &Limits {
                    memory_bytes: 0,
                    ..limits.clone()
                },
                spent,
            )
        };
        assert_eq!(
            of(None),
            Limits {
                memory_bytes: 0,
                ..left
            }
        );
        let created = MeteredUsage { used: 2, limit: 2 };
        let files = Some(FileUsage {
            files_created: created,
            ..FileUsage::default()
        });
        let spent = Usage {
            files,
            ..Usage::default()
        };
        assert_eq!(
            (of(Some(&spent)).files_created, of(Some(&spent)).disk_bytes),
            (0, 1)
        );
        let more = Limits {
            artifacts: 3,
            ..limits
        };
        assert_eq!(
            share.lower(&more, None).artifacts,
            3,
            "a call gets no more than its own limit either"
        );
    }
}
