use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Semaphore;

use toolcell_policy::WordPattern;
use toolcell_spec::{HookEvent, ToolDeclaration};

use super::Hook;

const WALL_DEFAULT: Duration = Duration::from_secs(5);
/// Concurrent runs of one hook: one that never returns keeps no more threads.
const RUNS_AT_ONCE: usize = 64;

/// Effect of a hook that fails, crashes or is too slow.
///
/// ```
/// use toolcell_executor::hook::{OnFailure, Registration};
/// use toolcell_spec::HookEvent;
///
/// let metrics = Registration::not_loaded("metrics", "no such file").on_failure(OnFailure::Warn);
/// assert!(!metrics.blocks_at(HookEvent::PreToolUse));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// Before the tool the call does not run; after it, its output is withheld.
    Block,
    /// The call goes on, with a record.
    Warn,
}

/// Selects calls that match every pattern. `*` matches anything; the default matches every call.
///
/// ```
/// use toolcell_executor::hook::Matcher;
///
/// let files = Matcher::new(Some("files.*"), None)?;
/// assert_eq!(files.to_value()["tool"], "files.*");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    tool: Option<WordPattern>,
    namespace: Option<WordPattern>,
}

impl Matcher {
    /// For the tool's id, such as `files.*`, and its namespace. Fails if a pattern is invalid.
    pub fn new(tool: Option<&str>, namespace: Option<&str>) -> Result<Self, String> {
        let compile = |name: &str, text: Option<&str>| {
            text.map(|text| {
                WordPattern::compile(text).map_err(|error| format!("{name}: {error:#}"))
            })
            .transpose()
        };
        Ok(Self {
            tool: compile("tool", tool)?,
            namespace: compile("namespace", namespace)?,
        })
    }

    fn fits(&self, tool_id: &str, namespace: &str) -> bool {
        let fits = |pattern: &Option<WordPattern>, word| {
            pattern.as_ref().is_none_or(|pattern| pattern.matches(word))
        };
        fits(&self.tool, tool_id) && fits(&self.namespace, namespace)
    }

    /// Contains only the given patterns.
    pub fn to_value(&self) -> Value {
        let named = [("tool", &self.tool), ("namespace", &self.namespace)];
        let said = |(name, pattern): (&str, &Option<WordPattern>)| {
            Some((name.to_owned(), pattern.as_ref()?.text().into()))
        };
        Value::Object(named.into_iter().filter_map(said).collect())
    }
}

/// A hook and its settings.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use toolcell_executor::hook::{Hook, Matcher, Registration};
///
/// fn registered(hook: Arc<dyn Hook>) -> Result<Registration, String> {
///     let files = Matcher::new(Some("files.*"), None)?;
///     Ok(Registration::new(hook).matching(files).priority(10).within(Duration::from_millis(500)))
/// }
/// ```
pub struct Registration {
    pub(super) hook: Result<Arc<dyn Hook>, String>,
    id: String,
    events: Vec<HookEvent>,
    matcher: Matcher,
    priority: i64,
    on_failure: Option<OnFailure>,
    wall: Duration,
    pub(super) places: Arc<Semaphore>,
}

impl Registration {
    /// Defaults: all its events and calls, priority 0, five seconds per run; a failure blocks before the tool, and is
    /// recorded after it.
    pub fn new(hook: Arc<dyn Hook>) -> Self {
        let id = hook.id().to_owned();
        let events = hook.events().to_vec();
        Self::from_parts(Ok(hook), id, events)
    }

    /// Registers a configured hook that could not be loaded. It fails before the tool, so that what it guards does not
    /// run unguarded.
    pub fn not_loaded(id: impl Into<String>, why: impl Into<String>) -> Self {
        Self::from_parts(Err(why.into()), id.into(), vec![HookEvent::PreToolUse])
    }

    fn from_parts(hook: Result<Arc<dyn Hook>, String>, id: String, events: Vec<HookEvent>) -> Self {
        Self {
            hook,
            id,
            events,
            matcher: Matcher::default(),
            priority: 0,
            on_failure: None,
            wall: WALL_DEFAULT,
            places: Arc::new(Semaphore::new(RUNS_AT_ONCE)),
        }
    }

    /// A hook never receives an event that it does not handle.
    #[must_use]
    pub fn only(mut self, wanted: &[HookEvent]) -> Self {
        self.events.retain(|event| wanted.contains(event));
        self
    }

    /// Default: all calls.
    #[must_use]
    pub fn matching(mut self, matcher: Matcher) -> Self {
        self.matcher = matcher;
        self
    }

    /// Higher priorities run first.
    #[must_use]
    pub fn priority(mut self, priority: i64) -> Self {
        self.priority = priority;
        self
    }

    /// Default: [`OnFailure::Block`] before the tool, [`OnFailure::Warn`] after it.
    #[must_use]
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = Some(on_failure);
        self
    }

    /// Time limit of one run. Default: 5 s.
    #[must_use]
    pub fn within(mut self, wall: Duration) -> Self {
        self.wall = wall;
        self
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn wall(&self) -> Duration {
        self.wall
    }

    pub fn matcher(&self) -> &Matcher {
        &self.matcher
    }

    /// Reason why the hook could not be loaded.
    pub fn missing(&self) -> Option<&str> {
        self.hook.as_ref().err().map(String::as_str)
    }

    /// By default a failure blocks before the tool, where nothing has happened yet, and is only recorded after it
    /// (AT-HOOK-17).
    pub fn blocks_at(&self, event: HookEvent) -> bool {
        guard!("hook_failures")
            && match self.on_failure {
                Some(on_failure) => on_failure == OnFailure::Block,
                None => event.is_before_the_tool(),
            }
    }
}

/// In running order.
#[derive(Default)]
pub struct HookList(Vec<Registration>);

impl HookList {
    /// The highest priority comes first; equal ones keep their order.
    pub fn new(registrations: Vec<Registration>) -> Self {
        let mut hooks = Self(registrations);
        hooks.sort();
        hooks
    }

    /// Adds a hook after those with its priority. Fails for a duplicate id, which would be ambiguous in a record.
    pub fn add(&mut self, registration: Registration) -> Result<(), String> {
        if self.0.iter().any(|other| other.id == registration.id) {
            return Err(format!(
                "two hooks are called {}; give one of them another id",
                registration.id
            ));
        }
        self.0.push(registration);
        self.sort();
        Ok(())
    }

    fn sort(&mut self) {
        self.0
            .sort_by_key(|registration| std::cmp::Reverse(registration.priority));
    }

    /// In order.
    pub fn hearing<'a>(
        &'a self,
        event: HookEvent,
        tool: &'a ToolDeclaration,
    ) -> impl Iterator<Item = &'a Registration> {
        self.0.iter().filter(move |registration| {
            registration.events.contains(&event)
                && registration.matcher.fits(&tool.tool_id, &tool.namespace)
        })
    }

    pub fn are_told(&self, event: HookEvent, tool: &ToolDeclaration) -> bool {
        self.hearing(event, tool).next().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_matcher_wants_every_pattern_it_names() {
        let matcher = Matcher::new(Some("files.*"), Some("files")).unwrap();
        assert!(matcher.fits("files.read", "files") && !matcher.fits("files.read", "other"));
        assert!(!matcher.fits("my.files.read", "files"));
        assert!(Matcher::default().fits("any.thing", "any"));
        assert_eq!(
            matcher.to_value(),
            json!({"tool": "files.*", "namespace": "files"})
        );
        let error = Matcher::new(Some("files.["), None).unwrap_err();
        assert!(
            error.starts_with("tool: `files.[` is not a pattern"),
            "{error}"
        );
        assert_eq!(
            Matcher::new(Some("files.*"), Some("")).unwrap_err(),
            "namespace: an empty pattern matches nothing"
        );
    }

    fn tool() -> ToolDeclaration {
        serde_json::from_value(json!({
            "schema_version": "0.2.0", "tool_id": "a.b", "namespace": "a", "name": "b", "description": "d",
            "lifecycle": "available", "tool_kind": "function",
        }))
        .unwrap()
    }

    #[test]
    fn a_hook_that_did_not_load_stands_before_the_tool_and_blocks() {
        let registration = Registration::not_loaded("guard", "no such file");
        assert!(registration.blocks_at(HookEvent::PreToolUse));
        let hooks = HookList::new(vec![registration]);
        assert!(hooks.are_told(HookEvent::PreToolUse, &tool()));
        assert!(!hooks.are_told(HookEvent::PostToolUse, &tool()));
    }

    #[test]
    fn order_is_priority_then_configuration() {
        let named = |id: &str, priority| Registration::not_loaded(id, "").priority(priority);
        let mut hooks = HookList::new(vec![named("a", 0), named("b", 5), named("c", 0)]);
        hooks.add(named("d", 5)).unwrap();
        assert!(
            hooks
                .add(named("a", 9))
                .unwrap_err()
                .contains("two hooks are called a")
        );
        let tool = tool();
        let order: Vec<&str> = hooks
            .hearing(HookEvent::PreToolUse, &tool)
            .map(Registration::id)
            .collect();
        assert_eq!(order, ["b", "d", "a", "c"]);
    }
}
