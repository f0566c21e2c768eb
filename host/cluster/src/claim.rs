//! The state of a call in the cluster, as a value: each function makes the next state, or says why there is none. Nothing
//! here reads a clock or sends a message.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use toolcell_spec::AbortReason;

/// Milliseconds since 1970.
pub type UnixMillis = u64;

/// A value of the bucket `calls`, by the id of the call. It changes by compare-and-set alone.
///
/// ```
/// use toolcell_cluster::{Claim, Holder, Stage};
///
/// let queued = Claim::queued("sha256:1f".into(), "jq.jq".into(), 2_000, false);
/// let holder = Holder { worker: "w1".into(), attempt: "a1".into() };
/// let claimed = queued.claimed_by(&holder, 1_000).unwrap();
/// assert_eq!(claimed.stage, Stage::Claimed { holder });
/// assert_eq!(claimed.epoch, 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Digest of what was asked, by which a repeated request is recognised.
    pub request: String,
    /// Qualified name of the tool.
    pub tool: String,
    /// A call that no worker claimed by then is not claimed any more.
    pub deadline: UnixMillis,
    /// The caller accepts that effects happen more than once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retry: bool,
    /// How often the call was claimed, and not given back.
    pub epoch: u32,
    /// A worker that was lost after the call could have had an effect. No end says any more that nothing started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// Asked for by the caller. It counts until the call ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<AbortReason>,
    pub stage: Stage,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "snake_case", deny_unknown_fields)]
pub enum Stage {
    Queued,
    /// The worker decides; no guest has run with a permit.
    Claimed {
        holder: Holder,
    },
    Started {
        holder: Holder,
        /// The permit allows a lasting effect: a write, the network, a secret.
        changes: bool,
    },
    Ended {
        end: CallEnd,
    },
}

/// One attempt of one worker. Two deliveries of one message to one worker are two attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Holder {
    pub worker: String,
    pub attempt: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case", deny_unknown_fields)]
pub enum CallEnd {
    Result {
        worker: String,
        /// SHA-256 of the record, in hexadecimal.
        digest: String,
        /// The record as JSON; `None`: an object has it, by its digest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inline: Option<String>,
    },
    /// The worker was lost after the call could have had an effect, or too many workers were.
    WorkerLost { worker: String },
    /// Before it could have had an effect.
    Canceled { reason: AbortReason },
    /// No worker claimed it before its deadline, and it had no effect.
    Expired,
}

/// Why a state has no such successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotPossible {
    #[error("another attempt has the call")]
    Superseded,
    #[error("the call has ended")]
    Ended,
    #[error("the caller canceled the call")]
    Canceled,
    #[error("the deadline of the call is over")]
    Expired,
}

/// When a silent attempt is given up.
#[derive(Clone, Copy, Debug)]
pub struct LeaseTerms {
    /// A claim that does not change for so long has lost its worker.
    pub time: Duration,
    /// Claims of one call; after so many lost workers it ends.
    pub claims_max: u32,
}

impl Default for LeaseTerms {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(10),
            claims_max: 4,
        }
    }
}

impl Claim {
    pub fn queued(request: String, tool: String, deadline: UnixMillis, retry: bool) -> Self {
        Self {
            request,
            tool,
            deadline,
            retry,
            epoch: 0,
            lost: None,
            cancel: None,
            stage: Stage::Queued,
        }
    }

    fn with(&self, stage: Stage) -> Self {
        Self {
            stage,
            ..self.clone()
        }
    }

    pub fn end(&self) -> Option<&CallEnd> {
        match &self.stage {
            Stage::Ended { end } => Some(end),
            _ => None,
        }
    }

    pub fn holder(&self) -> Option<&Holder> {
        match &self.stage {
            Stage::Claimed { holder } | Stage::Started { holder, .. } => Some(holder),
            _ => None,
        }
    }

    /// A worker takes the queued call.
    ///
    /// # Errors
    ///
    /// The call is not queued, or must not start any more.
    pub fn claimed_by(&self, holder: &Holder, now: UnixMillis) -> Result<Self, NotPossible> {
        match &self.stage {
            Stage::Queued => {}
            Stage::Ended { .. } => return Err(NotPossible::Ended),
            _ if !fence!("cluster_queued") => {}
            _ => return Err(NotPossible::Superseded),
        }
        if self.cancel.is_some() {
            return Err(NotPossible::Canceled);
        }
        if now >= self.deadline && fence!("cluster_deadline") {
            return Err(NotPossible::Expired);
        }
        Ok(Self {
            epoch: self.epoch.saturating_add(1),
            ..self.with(Stage::Claimed {
                holder: holder.clone(),
            })
        })
    }

    /// The holder is about to run the guest.
    ///
    /// # Errors
    ///
    /// The attempt lost the call, or its caller canceled it.
    pub fn started(&self, by: &Holder, changes: bool) -> Result<Self, NotPossible> {
        self.held_by(by)?;
        if self.cancel.is_some() && fence!("cluster_cancel") {
            return Err(NotPossible::Canceled);
        }
        Ok(self.with(Stage::Started {
            holder: by.clone(),
            changes,
        }))
    }

    /// The holder's lease goes on: the same value, with a new revision.
    ///
    /// # Errors
    ///
    /// The attempt lost the call.
    pub fn renewed(&self, by: &Holder) -> Result<Self, NotPossible> {
        self.held_by(by).map(|()| self.clone())
    }

    /// The holder gives the call back, before it started.
    ///
    /// # Errors
    ///
    /// The attempt lost the call, or has started.
    pub fn given_back(&self, by: &Holder) -> Result<Self, NotPossible> {
        self.held_by(by)?;
        match &self.stage {
            Stage::Claimed { .. } => Ok(Self {
                epoch: self.epoch - u32::from(self.epoch > 0 && fence!("cluster_epoch")),
                ..self.with(self.waiting())
            }),
            _ => Err(NotPossible::Superseded),
        }
    }

    /// For another worker, unless its caller canceled it.
    fn waiting(&self) -> Stage {
        match self.cancel {
            Some(reason) if fence!("cluster_waiting") => self.not_run(CallEnd::Canceled { reason }),
            _ => Stage::Queued,
        }
    }

    /// `end`, unless an earlier attempt could have had an effect.
    fn not_run(&self, end: CallEnd) -> Stage {
        let end = match self.lost.clone() {
            Some(worker) if fence!("cluster_lost") => CallEnd::WorkerLost { worker },
            _ => end,
        };
        Stage::Ended { end }
    }

    /// The holder has the result.
    ///
    /// # Errors
    ///
    /// The attempt lost the call.
    pub fn ended(&self, by: &Holder, end: CallEnd) -> Result<Self, NotPossible> {
        self.held_by(by)?;
        Ok(self.with(Stage::Ended { end }))
    }

    /// The caller wants no result any more. A queued call ends at once; a worker ends the others.
    ///
    /// # Errors
    ///
    /// The call has ended, or is canceled: to write that again would look like a worker that works.
    pub fn canceled(&self, reason: AbortReason) -> Result<Self, NotPossible> {
        match &self.stage {
            Stage::Ended { .. } => Err(NotPossible::Ended),
            Stage::Queued => Ok(self.with(self.not_run(CallEnd::Canceled { reason }))),
            _ if self.cancel.is_some() => Err(NotPossible::Canceled),
            _ => Ok(Self {
                cancel: Some(reason),
                ..self.clone()
            }),
        }
    }

    /// The successor of a claim that did not change for the time `unchanged`; `None`: nothing yet.
    pub fn overdue(&self, unchanged: Duration, now: UnixMillis, lease: LeaseTerms) -> Option<Self> {
        let holder = match &self.stage {
            Stage::Ended { .. } => return None,
            Stage::Queued => {
                let is_over = now >= self.deadline;
                return is_over.then(|| self.with(self.not_run(CallEnd::Expired)));
            }
            Stage::Claimed { holder } | Stage::Started { holder, .. } => holder,
        };
        if unchanged < lease.time {
            return None;
        }
        let worker = holder.worker.clone();
        let may_have_changed = matches!(self.stage, Stage::Started { changes: true, .. });
        let is_final = may_have_changed && !self.retry && fence!("cluster_effects");
        if is_final || self.epoch >= lease.claims_max && fence!("cluster_claims") {
            let end = CallEnd::WorkerLost { worker };
            return Some(self.with(Stage::Ended { end }));
        }
        let lost = may_have_changed.then_some(worker);
        let next = Self {
            lost: lost.or_else(|| self.lost.clone()),
            ..self.clone()
        };
        Some(next.with(next.waiting()))
    }

    fn held_by(&self, by: &Holder) -> Result<(), NotPossible> {
        match self.holder() {
            Some(holder) if holder == by || !fence!("cluster_holder") => Ok(()),
            Some(holder) if holder.worker == by.worker && !fence!("cluster_attempt") => Ok(()),
            None if self.end().is_some() => Err(NotPossible::Ended),
            _ => Err(NotPossible::Superseded),
        }
    }
}
