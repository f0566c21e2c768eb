//! The state of a session, from its events alone.

use std::collections::{HashMap, HashSet};

use super::wire::{Event, StopReason, ToolUse};

/// Calls in the order of the agent's events.
#[derive(Debug, Default)]
pub(super) struct SessionState {
    /// Without those that have a result.
    open: Vec<OpenUse>,
    seen: HashSet<String>,
    answered: HashSet<String>,
    /// `true`: allowed.
    verdicts: HashMap<String, bool>,
    ended_threads: HashSet<String>,
    has_ended: bool,
    turn_has_ended: bool,
}

#[derive(Debug)]
struct OpenUse {
    tool_use: ToolUse,
    /// The user interrupted the agent after it.
    is_interrupted: bool,
}

/// What is to do for a tool use.
#[derive(Debug, PartialEq)]
pub(super) enum Step<T> {
    Run(T),
    /// It is answered without a run.
    Interrupted(T),
}

impl SessionState {
    /// Replaces what is known by `history`, except for results and verdicts: a list may lag behind the stream.
    pub(super) fn read_again(&mut self, history: Vec<Event>) {
        let before = std::mem::take(self);
        self.answered = before.answered;
        self.verdicts = before.verdicts;
        history.into_iter().for_each(|event| self.apply(event));
        for open in before.open {
            if self.seen.insert(open.tool_use.id.clone()) && !self.is_answered(&open.tool_use.id) {
                self.open.push(open);
            }
        }
        self.has_ended |= before.has_ended;
    }

    pub(super) fn apply(&mut self, event: Event) {
        match event {
            // The turn that ended stays so.
            Event::Confirmation {
                tool_use_id,
                result,
            } => {
                // Any other word than `allow` denies, and a denial stays.
                let verdict = self.verdicts.entry(tool_use_id).or_insert(true);
                *verdict &= result == "allow";
                return;
            }
            Event::ThreadTerminated { session_thread_id } => {
                self.ended_threads.insert(session_thread_id);
                return;
            }
            Event::ToolUse(tool_use) | Event::CustomToolUse(tool_use) => self.add(tool_use),
            Event::ToolResult { tool_use_id: id }
            | Event::CustomToolResult {
                custom_tool_use_id: id,
            } => self.set_answered(&id),
            Event::Interrupt { session_thread_id } => {
                let thread = session_thread_id.as_ref();
                let is_meant = |open: &&mut OpenUse| {
                    thread.is_none() || open.tool_use.session_thread_id.as_ref() == thread
                };
                let open = self.open.iter_mut().filter(is_meant);
                open.for_each(|open| open.is_interrupted = true);
            }
            Event::Idle { stop_reason } => {
                let waits = stop_reason
                    .as_ref()
                    .is_some_and(StopReason::requires_action);
                self.turn_has_ended = !waits;
                return;
            }
            Event::Ended => self.has_ended = true,
            Event::Other => {}
        }
        self.turn_has_ended = false;
    }

    fn add(&mut self, tool_use: ToolUse) {
        if self.seen.insert(tool_use.id.clone()) && !self.is_answered(&tool_use.id) {
            self.open.push(OpenUse {
                tool_use,
                is_interrupted: false,
            });
        }
    }

    /// It has a result, or can get none.
    pub(super) fn set_answered(&mut self, id: &str) {
        self.answered.insert(id.to_owned());
        self.open.retain(|open| open.tool_use.id != id);
    }

    pub(super) fn is_answered(&self, id: &str) -> bool {
        self.answered.contains(id)
    }

    /// The session takes no more results.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The agent waits for its user: nothing comes unless the user writes.
    pub(super) fn turn_has_ended(&self) -> bool {
        self.turn_has_ended
    }

    /// Every tool use has a result, a denial, or an end of its thread.
    pub(super) fn is_settled(&self) -> bool {
        self.open.iter().all(|open| self.is_closed(&open.tool_use))
    }

    /// The ids of tool uses without a result.
    pub(super) fn open_ids(&self) -> impl Iterator<Item = &str> {
        self.open.iter().map(|open| open.tool_use.id.as_str())
    }

    /// The user interrupted the agent during this one.
    pub(super) fn is_interrupted(&self, id: &str) -> bool {
        let open = self.open.iter().find(|open| open.tool_use.id == id);
        open.is_some_and(|open| open.is_interrupted)
    }

    /// The first tool use that needs a result of this worker, and can have one. Others are those of other clients.
    pub(super) fn next(&self, is_own: impl Fn(&ToolUse) -> bool) -> Option<Step<&ToolUse>> {
        let ready = |open: &&OpenUse| {
            let tool_use = &open.tool_use;
            !self.is_closed(tool_use)
                && (open.is_interrupted || self.is_allowed(tool_use))
                && is_own(tool_use)
        };
        let open = self.open.iter().find(ready)?;
        Some(if open.is_interrupted {
            Step::Interrupted(&open.tool_use)
        } else {
            Step::Run(&open.tool_use)
        })
    }

    /// A denial is an answer of the user, and the API takes no result after it.
    fn is_closed(&self, tool_use: &ToolUse) -> bool {
        let thread = tool_use.session_thread_id.as_ref();
        tool_use.evaluated_permission.as_deref() == Some("deny")
            || self.verdicts.get(&tool_use.id) == Some(&false)
            || thread.is_some_and(|thread| self.ended_threads.contains(thread))
    }

    /// An unknown permission waits for the user, as `ask` does.
    fn is_allowed(&self, tool_use: &ToolUse) -> bool {
        let permission = tool_use.evaluated_permission.as_deref();
        matches!(permission, None | Some("allow")) || self.verdicts.get(&tool_use.id) == Some(&true)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{SessionState, Step};
    use crate::managed::wire::Event;

    fn state(events: &[Value]) -> SessionState {
        let mut state = SessionState::default();
        state.read_again(read(events));
        state
    }

    fn read(events: &[Value]) -> Vec<Event> {
        events.iter().cloned().map(Event::read).collect()
    }

    fn tool_use(id: &str, permission: Option<&str>) -> Value {
        json!({ "type": "agent.tool_use", "id": id, "name": "bash", "input": {}, "evaluated_permission": permission })
    }

    fn result(id: &str) -> Value {
        json!({ "type": "user.tool_result", "tool_use_id": id })
    }

    fn verdict(id: &str, word: &str) -> Value {
        json!({ "type": "user.tool_confirmation", "tool_use_id": id, "result": word })
    }

    fn idle(kind: &str) -> Value {
        json!({ "type": "session.status_idle", "stop_reason": { "type": kind } })
    }

    /// `!` before the id: interrupted.
    fn next(state: &SessionState) -> String {
        match state.next(|_| true) {
            None => String::new(),
            Some(Step::Run(tool_use)) => tool_use.id.clone(),
            Some(Step::Interrupted(tool_use)) => format!("!{}", tool_use.id),
        }
    }

    #[test]
    fn uses_without_a_result_are_next_in_their_order() {
        let history = [
            tool_use("a", None),
            tool_use("b", Some("allow")),
            json!({ "type": "agent.custom_tool_use", "id": "c", "name": "x", "input": {} }),
            result("b"),
        ];
        let mut state = state(&history);
        assert_eq!(next(&state), "a");
        assert!(matches!(state.next(|one| one.is_custom), Some(Step::Run(one)) if one.id == "c"));
        state.set_answered("a");
        assert_eq!(next(&state), "c");
        // The list is read again before it has the result.
        state.read_again(read(&history[..3]));
        assert_eq!(next(&state), "c");
        state.apply(Event::read(
            json!({ "type": "user.custom_tool_result", "custom_tool_use_id": "c" }),
        ));
        assert_eq!(next(&state), "");
        assert!(state.is_settled());
        // Delivered twice.
        state.apply(Event::read(tool_use("a", None)));
        assert_eq!(next(&state), "");
    }

    #[test]
    fn what_is_asked_about_waits_and_a_denial_closes_it() {
        let waits = state(&[tool_use("a", Some("ask")), tool_use("b", Some("unknown"))]);
        assert_eq!(next(&waits), "");
        assert!(!waits.is_settled());
        for (verdicts, expected) in [
            (&["allow"][..], "a"),
            (&["deny"], ""),
            (&["perhaps"], ""),
            (&["deny", "allow"], ""),
            (&["allow", "deny"], ""),
        ] {
            let words = verdicts.iter().map(|word| verdict("a", word));
            // Before and after the use.
            let before: Vec<_> = words.clone().chain([tool_use("a", Some("ask"))]).collect();
            let after: Vec<_> = [tool_use("a", Some("ask"))]
                .into_iter()
                .chain(words)
                .collect();
            for events in [before, after] {
                let state = state(&events);
                assert_eq!(next(&state), expected, "{events:?}");
                assert_eq!(state.is_settled(), expected.is_empty());
            }
        }
        let denied = state(&[tool_use("a", Some("deny")), verdict("a", "allow")]);
        assert_eq!(next(&denied), "");
    }

    #[test]
    fn an_interrupt_is_for_the_uses_before_it() {
        let interrupt = json!({ "type": "user.interrupt" });
        let history = [
            tool_use("a", None),
            tool_use("b", Some("ask")),
            interrupt.clone(),
            tool_use("c", None),
        ];
        let mut state = state(&history);
        assert_eq!(next(&state), "!a");
        assert!(state.is_interrupted("a") && !state.is_interrupted("c"));
        state.read_again(read(&history));
        state.set_answered("a");
        assert_eq!(next(&state), "!b");
        state.set_answered("b");
        assert_eq!(next(&state), "c");
        let other = json!({ "type": "user.interrupt", "session_thread_id": "t" });
        let other = self::state(&[tool_use("a", None), other]);
        assert_eq!(next(&other), "a");
    }

    #[test]
    fn a_turn_ends_until_the_agent_goes_on() {
        let mut state = state(&[tool_use("a", None), idle("requires_action")]);
        assert!(!state.turn_has_ended());
        for reason in ["end_turn", "refusal", "something_new"] {
            state.apply(Event::read(idle(reason)));
            assert!(state.turn_has_ended(), "{reason}");
        }
        state.apply(Event::read(verdict("z", "allow")));
        assert!(state.turn_has_ended());
        state.apply(Event::read(json!({ "type": "session.status_running" })));
        assert!(!state.turn_has_ended());
        assert!(!state.has_ended());
        state.apply(Event::read(json!({ "type": "session.deleted" })));
        assert!(state.has_ended());
    }

    #[test]
    fn a_thread_that_ended_takes_no_results() {
        let mut used = tool_use("a", None);
        used["session_thread_id"] = json!("t");
        let ended = json!({ "type": "session.thread_status_terminated", "session_thread_id": "t" });
        let state = state(&[used, ended]);
        assert_eq!(next(&state), "");
        assert!(state.is_settled());
    }
}
