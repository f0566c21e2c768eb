use toolcell_spec::Behavior;

/// Hooks' opinion, no decision: `deny` and `ask` restrict the call, `allow` counts only where neither a rule nor the
/// tool's profile says otherwise (AT-HOOK-15). `passthrough` is none, and so a rule, a grant or an approver has to
/// allow the call (AT-BEH-04).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opinion {
    pub behavior: Behavior,
    pub hook_id: String,
    pub reason: String,
}

impl Opinion {
    /// The stricter one, else the first, whatever the order of hooks. Any other counts more than `passthrough`.
    pub fn combine(first: Option<Self>, second: Self) -> Option<Self> {
        match (first, second) {
            (Some(first), second)
                if guard!("careful_hooks") && care(first.behavior) >= care(second.behavior) =>
            {
                Some(first)
            }
            (_, second) => Some(second),
        }
    }
}

fn care(behavior: Behavior) -> u8 {
    match behavior {
        Behavior::Passthrough => 0,
        Behavior::Allow => 1,
        Behavior::Ask => 2,
        Behavior::Deny => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combined(behaviors: &[Behavior]) -> Option<Behavior> {
        behaviors
            .iter()
            .fold(None, |so_far, behavior| {
                Opinion::combine(
                    so_far,
                    Opinion {
                        behavior: *behavior,
                        hook_id: String::new(),
                        reason: String::new(),
                    },
                )
            })
            .map(|opinion| opinion.behavior)
    }

    #[test]
    fn the_more_careful_opinion_wins_in_any_order() {
        use Behavior::{Allow, Ask, Deny, Passthrough};
        assert_eq!(combined(&[Passthrough, Passthrough]), Some(Passthrough));
        for [a, b, c] in [[Allow, Ask, Deny], [Deny, Allow, Ask], [Ask, Deny, Allow]] {
            assert_eq!(combined(&[a, b, c, Passthrough]), Some(Deny));
        }
        assert_eq!(combined(&[Allow, Passthrough, Ask]), Some(Ask));
        assert_eq!(combined(&[Passthrough, Allow]), Some(Allow));
    }
}
