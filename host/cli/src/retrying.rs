use clap::Args;
use toolcell::Policy;

/// How often a call that failed runs again.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct RetryOptions {
    /// Run a call again, at most N times, if it failed for a reason that can go away, and repeating it does no harm. All
    /// attempts together have the limits of one call [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=9))]
    retry: Option<u32>,
}

impl RetryOptions {
    pub(crate) fn apply(&self, policy: &mut Policy) {
        if let Some(further) = self.retry {
            policy.retry.attempts = further.saturating_add(1);
        }
    }
}
