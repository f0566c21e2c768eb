use clap::Args;
use toolcell::Policy;

/// How often a call that failed runs again.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct RetryOptions {
    /// Retry a call at most N times if it failed for a temporary reason and is safe to repeat. All attempts share the
    /// limits of one call [default: 0]
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
