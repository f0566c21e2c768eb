//! The transition graph against a table that was written from the requirements (1.9.2), not from the code.
//!
//! Promise: One result.

use toolcell_spec::Status;

/// Every status, and the statuses from which it can be reached.
pub(super) const ENTERED_FROM: [(&str, &str); 20] = [
    ("planned", ""),
    ("selected", "planned"),
    ("schema_parse_failed", "selected"),
    ("arguments_ready", "selected"),
    ("validation_failed", "arguments_ready"),
    ("pre_hooks_running", "arguments_ready"),
    ("awaiting_approval", "arguments_ready pre_hooks_running"),
    (
        "approved",
        "arguments_ready pre_hooks_running awaiting_approval",
    ),
    (
        "denied",
        "arguments_ready pre_hooks_running awaiting_approval",
    ),
    ("queued", "approved"),
    ("running", "approved queued needs_input partial_result"),
    ("needs_input", "running"),
    ("partial_result", "running"),
    ("post_hooks_running", "running partial_result"),
    ("yielded", "running post_hooks_running"),
    ("succeeded", "running post_hooks_running yielded"),
    (
        "failed",
        "planned selected schema_parse_failed validation_failed pre_hooks_running running post_hooks_running yielded",
    ),
    (
        "canceled",
        "planned selected schema_parse_failed arguments_ready validation_failed pre_hooks_running awaiting_approval \
         approved queued running needs_input partial_result post_hooks_running yielded",
    ),
    (
        "timed_out",
        "awaiting_approval queued running needs_input post_hooks_running",
    ),
    (
        "blocked",
        "planned selected arguments_ready pre_hooks_running",
    ),
];

const TERMINAL: [&str; 6] = [
    "denied",
    "succeeded",
    "failed",
    "canceled",
    "timed_out",
    "blocked",
];

fn status(word: &str) -> Status {
    serde_json::from_value(word.into()).unwrap()
}

#[test]
fn the_graph_has_exactly_the_edges_of_the_requirements() {
    let mut wrong = Vec::new();
    for (to, sources) in ENTERED_FROM {
        for (from, _) in ENTERED_FROM {
            let expected = sources.split_whitespace().any(|source| source == from);
            if status(from).may_become(status(to)) != expected {
                wrong.push(format!("{from} -> {to} should be {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_status_is_terminal_where_nothing_follows_it() {
    for (word, _) in ENTERED_FROM {
        let followed = ENTERED_FROM
            .iter()
            .any(|(_, sources)| sources.split_whitespace().any(|source| source == word));
        assert_eq!(
            status(word).is_terminal(),
            TERMINAL.contains(&word),
            "{word}"
        );
        assert_eq!(status(word).is_terminal(), !followed, "{word}");
        assert_eq!(status(word).as_str(), word);
    }
}
