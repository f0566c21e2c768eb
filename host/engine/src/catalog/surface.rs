use std::collections::BTreeSet;
use std::sync::Arc;

use toolcell_policy::Policy;
use toolcell_spec::{
    ErrorCode, Lifecycle, LoadingState, Refusal, RoleConstraints, SchemaVersion, SelectionPolicy,
    SurfaceReason, SurfaceScope, Timestamp, ToolChoice, ToolInterface, ToolRef, ToolSurface,
    WithheldTool, digest, short_id,
};

use super::selection::is_called;
use super::{SurfaceConditions, Tool, ToolSelection};

/// Default number of initially listed tools. With the host's own tools, a list has 128: APIs of large models refuse
/// more.
pub const TOOL_BUDGET: usize = 125;

/// A caller's access to a tool before it has loaded any, and the reason for its limits.
///
/// ```
/// use toolcell_engine::catalog::ToolAvailability;
/// use toolcell_spec::LoadingState;
///
/// assert_eq!(ToolAvailability::LOADED.after_loading().state, LoadingState::Loaded);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolAvailability {
    pub state: LoadingState,
    /// `None` for a tool that is listed, or unlisted by its lifecycle alone.
    pub reason: Option<SurfaceReason>,
}

impl ToolAvailability {
    pub const LOADED: Self = Self {
        state: LoadingState::Loaded,
        reason: None,
    };
    /// Standing of a tool that only other tools call.
    const INTERNAL: Self = Self {
        state: LoadingState::Unavailable,
        reason: Some(SurfaceReason::RoleNotAllowed),
    };
    pub(super) const DEFERRED: Self = Self {
        state: LoadingState::Deferred,
        reason: Some(SurfaceReason::DeferredUntilDiscovered),
    };

    /// Standing for a caller that has loaded the tool (AT-DEF-12). An uncallable tool stays unavailable.
    #[must_use]
    pub fn after_loading(self) -> Self {
        if self.state == LoadingState::Unavailable {
            self
        } else {
            Self::LOADED
        }
    }

    /// For a model without deferred tools (AT-SURF-13).
    const UNREACHABLE: Self = Self {
        state: LoadingState::Unavailable,
        reason: Some(SurfaceReason::ModelUnsupported),
    };

    /// The reason for records: a word also where the lifecycle decides (AT-N-08).
    pub fn told(self) -> Option<SurfaceReason> {
        self.reason.or(match self.state {
            LoadingState::Loaded => None,
            LoadingState::Discoverable => Some(SurfaceReason::DeferredUntilDiscovered),
            _ => Some(SurfaceReason::FeatureDisabled),
        })
    }

    /// Standing by the tool's own records (AT-LIFE-01..07, AT-IF-02); `None` if the budget decides.
    pub(super) fn declared(tool: &Tool) -> Option<Self> {
        let unavailable = |reason| {
            Some(Self {
                state: LoadingState::Unavailable,
                reason,
            })
        };
        let wishes = |wish: fn(&ToolInterface) -> Option<bool>| {
            tool.interface().and_then(wish) == Some(true)
        };
        match tool.declaration().lifecycle {
            Lifecycle::Draft | Lifecycle::Retired => unavailable(None),
            Lifecycle::Disabled => unavailable(Some(SurfaceReason::FeatureDisabled)),
            _ if !tool.is_enabled() && tool.feature().is_none() => {
                unavailable(Some(SurfaceReason::FeatureDisabled))
            }
            _ if tool.gap().is_some() => unavailable(Some(SurfaceReason::FeatureDisabled)),
            _ if tool.is_internal() => Some(Self::INTERNAL),
            Lifecycle::RequiresSetup => unavailable(Some(SurfaceReason::SetupRequired)),
            Lifecycle::Deprecated => Some(Self {
                state: LoadingState::Discoverable,
                reason: None,
            }),
            Lifecycle::Available | Lifecycle::Deferred if tool.is_deferred() => {
                Some(Self::DEFERRED)
            }
            Lifecycle::Available if wishes(|interface| interface.always_load) => Some(Self::LOADED),
            Lifecycle::Available if wishes(|interface| interface.should_defer) => {
                Some(Self::DEFERRED)
            }
            Lifecycle::Available | Lifecycle::Deferred => None,
        }
    }
}

/// The tools that one caller can select (AT-SURF-05..10), in the offered order.
///
/// ```
/// use toolcell_engine::catalog::{Surface, TOOL_BUDGET};
///
/// assert!(!Surface::new(Vec::new(), TOOL_BUDGET).defers());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Surface {
    tools: Vec<SurfaceEntry>,
    /// Tools with the name of the only callable tool, which belongs to an installed tool with different bytes.
    impostors: Vec<Arc<Tool>>,
    selection: ToolSelection,
    id: Arc<str>,
    /// Inputs by the words that name a change (AT-SURF-17).
    knobs: Vec<(&'static str, String)>,
}

#[derive(Clone, Debug)]
struct SurfaceEntry {
    tool: Arc<Tool>,
    standing: ToolAvailability,
    refs: Vec<String>,
}

impl Surface {
    pub const CREATED: &str = "created: the tools were loaded";

    /// Without rules; at most `budget` tools are loaded.
    pub fn new(tools: Vec<Arc<Tool>>, budget: usize) -> Self {
        let conditions = SurfaceConditions {
            policy: &Policy::default(),
            missing_secrets: &BTreeSet::new(),
            missing_folders: &[],
        };
        Self::build(
            tools,
            ToolSelection {
                budget,
                ..ToolSelection::default()
            },
            &conditions,
        )
    }

    /// Tools that the selection or conditions withhold cannot be called. Of the others, `always_load` ones come first
    /// in the budget and are loaded even if there are more (AT-N-07, AT-SURF-10).
    pub fn build(
        tools: Vec<Arc<Tool>>,
        selection: ToolSelection,
        conditions: &SurfaceConditions<'_>,
    ) -> Self {
        let id =
            |tool: &Arc<Tool>| format!("{} {}\n", tool.declaration().tool_id, tool.component());
        let considered: String = tools.iter().map(id).collect();
        let policy = conditions.policy;
        let rules = policy
            .rules()
            .iter()
            .map(|rule| format!("{}\n", rule.words()));
        let bound = policy
            .bound_names()
            .map(|(name, component)| format!("{name} {component}\n"));
        let mut knobs = vec![
            ("tools", considered),
            ("policy", rules.chain(bound).collect()),
            ("runtime mode", format!("{:?}", conditions.policy.mode)),
            ("credentials", format!("{:?}", conditions.missing_secrets)),
            ("folders", format!("{:?}", conditions.missing_folders)),
        ];
        knobs.extend(selection.knobs());
        knobs
            .iter_mut()
            .for_each(|(_, value)| *value = digest(value.as_bytes()));
        let all: String = knobs.iter().map(|(_, value)| value.as_str()).collect();
        let impostors = tools
            .iter()
            .filter(|tool| selection.mistakes(tool, policy))
            .cloned()
            .collect();
        let tools = placed(tools, &selection, conditions);
        Self {
            tools,
            impostors,
            selection,
            id: short_id("surface", &all, 32).into(),
            knobs,
        }
    }

    /// The surface, named `id`, of a caller that has loaded some tools (AT-SCOPE-03).
    #[must_use]
    pub fn after_loading(&self, id: Arc<str>, has_loaded: impl Fn(&Tool) -> bool) -> Self {
        let mut own = Self { id, ..self.clone() };
        for placed in own
            .tools
            .iter_mut()
            .filter(|placed| has_loaded(&placed.tool))
        {
            placed.standing = placed.standing.after_loading();
        }
        own
    }

    pub fn tools(&self) -> impl ExactSizeIterator<Item = (&Arc<Tool>, ToolAvailability)> {
        self.tools
            .iter()
            .map(|placed| (&placed.tool, placed.standing))
    }

    pub fn defers(&self) -> bool {
        self.tools
            .iter()
            .any(|placed| placed.standing.state == LoadingState::Deferred)
    }

    /// Same for the same tools, settings, rules and secrets (AT-SURF-01).
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    pub fn selection(&self) -> &ToolSelection {
        &self.selection
    }

    /// Searches qualified names, names and ids, then aliases.
    pub fn find(&self, word: &str) -> Option<(&Arc<Tool>, ToolAvailability)> {
        let is_alias = |tool: &Tool| tool.declaration().aliases.iter().any(|alias| alias == word);
        let named = self.tools().find(|(tool, _)| is_called(tool, word));
        named.or_else(|| self.tools().find(|(tool, _)| is_alias(tool)))
    }

    /// The refusal of a call; `None` if it goes on. An unresolved name can mean several tools, which must all be
    /// callable.
    pub fn judge(&self, tool: Option<&Arc<Tool>>, name: &str) -> Option<Refusal> {
        let is_meant = |known: &Arc<Tool>| match tool {
            Some(tool) => is_same(known, tool),
            None => {
                is_called(known, name)
                    || known
                        .declaration()
                        .aliases
                        .iter()
                        .any(|alias| alias == name)
            }
        };
        let mut meant = self.tools().filter(|(known, _)| is_meant(known)).peekable();
        if meant.peek().is_none() && guard!("surface") {
            let message = format!("`{name}` is not a tool of the surface of this call");
            let refusal = Refusal::new(ErrorCode::NotOnSurface, message);
            return Some(refusal.by_policy(self.id.to_string()));
        }
        meant.find_map(|(tool, standing)| self.refusal(tool, standing))
    }

    /// `None` if the call goes on. Deferred and blocked tools are left to later phases.
    pub fn refusal(&self, tool: &Tool, standing: ToolAvailability) -> Option<Refusal> {
        let is_impostor = self
            .impostors
            .iter()
            .any(|impostor| is_same(impostor, tool));
        self.selection
            .refusal(tool, standing, is_impostor)
            .filter(|_| guard!("surface"))
    }

    /// `tool_choice` for an API that lists the tools at the places `listed`, each by its `name`. An API can name one tool
    /// alone: several are left to the host, which refuses all others.
    pub fn choice<'n>(
        &self,
        listed: impl Iterator<Item = usize>,
        name: impl Fn(usize) -> Option<&'n str>,
    ) -> ToolChoice {
        if !matches!(self.selection.choice, ToolChoice::Tool(_)) {
            return self.selection.choice.clone();
        }
        let can_be_called = |at: &usize| {
            let placed = self.tools.get(*at);
            placed.is_some_and(|placed| self.refusal(&placed.tool, placed.standing).is_none())
        };
        let mut callable = listed.filter(can_be_called);
        match (callable.next().and_then(name), callable.next()) {
            (Some(only), None) => ToolChoice::Tool(only.to_owned()),
            (None, _) => ToolChoice::None,
            (Some(_), Some(_)) => ToolChoice::Auto,
        }
    }

    /// Returns whether another tool can call `tool`: also a deferred one, because only a model must load its schema,
    /// and an internal one (AT-IF-02).
    pub fn is_callable(&self, tool: &Tool, standing: ToolAvailability) -> bool {
        let is_alone =
            |placed: &SurfaceEntry| is_same(&placed.tool, tool) && placed.refs.is_empty();
        let is_lent = tool.is_internal()
            && standing == ToolAvailability::INTERNAL
            && self.tools.iter().any(is_alone);
        let standing = if is_lent {
            ToolAvailability::LOADED
        } else {
            standing
        };
        standing.state != LoadingState::Unavailable && self.refusal(tool, standing).is_none()
    }

    /// Such as `updated: policy, tools`; `None` if both have the same id.
    pub fn update(&self, before: &Self) -> Option<String> {
        let changed = self
            .knobs
            .iter()
            .zip(&before.knobs)
            .filter(|(now, then)| now.1 != then.1);
        let changes: Vec<&str> = changed.map(|(now, _)| now.0).collect();
        (!changes.is_empty()).then(|| format!("updated: {}", changes.join(", ")))
    }

    pub fn ids(&self, state: LoadingState) -> Vec<&str> {
        let with = self.tools().filter(|(_, standing)| standing.state == state);
        with.map(|(tool, _)| tool.declaration().tool_id.as_str())
            .collect()
    }

    /// The record of this surface (AT-SURF-00..17). `names` are the caller's, in the same order; `session` is the
    /// `session_ref` of the caller's calls; `reason` is why it was built.
    pub fn record(
        &self,
        names: &[String],
        scope: SurfaceScope,
        producer: &Arc<str>,
        session: &str,
        reason: &str,
    ) -> ToolSurface {
        let all = || self.tools.iter().zip(names);
        let withheld = |blocked: bool| -> Vec<WithheldTool> {
            let is_meant = |placed: &SurfaceEntry| {
                let blocks = placed.standing.told().is_some_and(SurfaceReason::blocks);
                let offered =
                    [LoadingState::Loaded, LoadingState::Deferred].contains(&placed.standing.state);
                !offered && blocks == blocked
            };
            all()
                .filter(|(placed, _)| is_meant(placed))
                .filter_map(|(placed, name)| placed.withheld(name))
                .collect()
        };
        let deferred = all().filter(|(placed, _)| placed.standing.state == LoadingState::Deferred);
        let deferred_tools: Vec<ToolRef> = deferred
            .map(|(placed, name)| placed.tool.reference(name, placed.standing, None))
            .collect();
        let blocked_tools = withheld(true);
        let rules = blocked_tools
            .iter()
            .filter(|tool| tool.reason == SurfaceReason::PolicyBlocked);
        let policy_refs: BTreeSet<String> = rules
            .flat_map(|tool| tool.policy_refs.iter().cloned())
            .collect();
        let components: BTreeSet<String> = self
            .tools()
            .flat_map(|(tool, _)| tool.runtime_refs().to_vec())
            .collect();
        let session = format!("session:{session}");
        let runtime = components
            .into_iter()
            .chain([producer.to_string(), session]);
        let selection = &self.selection;
        let roles = || {
            selection
                .role_tools
                .iter()
                .flat_map(|tools| tools.texts().to_vec())
                .collect()
        };
        ToolSurface {
            schema_version: SchemaVersion::default(),
            surface_id: self.id.to_string(),
            scope,
            created_at: Timestamp::now(),
            producer: Arc::clone(producer),
            tool_refs: self
                .tools()
                .map(|(tool, _)| tool.declaration().tool_id.clone())
                .collect(),
            loaded_tools: self
                .ids(LoadingState::Loaded)
                .into_iter()
                .map(str::to_owned)
                .collect(),
            deferred_tools,
            blocked_tools,
            excluded_tools: withheld(false),
            selection_policy: SelectionPolicy {
                mode: "budget".to_owned(),
                max_loaded: selection.budget,
                allow_aliases: true,
                allow_parallel: selection.model.parallel_calls,
            },
            default_tool_choice: selection.choice.clone(),
            capability_requirements: selection.capabilities.iter().cloned().collect(),
            model_capabilities: selection.model.clone(),
            role_constraints: selection.role.clone().map(|role| RoleConstraints {
                role,
                tools: roles(),
            }),
            policy_refs: policy_refs.into_iter().collect(),
            runtime_refs: runtime.collect(),
            surface_reason: reason.to_owned(),
        }
    }
}

impl SurfaceEntry {
    /// `None` for a listed tool.
    fn withheld(&self, name: &str) -> Option<WithheldTool> {
        let declaration = self.tool.declaration();
        let reason = self.standing.told()?;
        let lifecycle = match reason {
            // Until it is set up (AT-LIFE-04).
            SurfaceReason::CredentialMissing | SurfaceReason::SetupRequired => {
                Lifecycle::RequiresSetup
            }
            _ => declaration.lifecycle,
        };
        Some(WithheldTool {
            tool_id: declaration.tool_id.clone(),
            name: name.to_owned(),
            reason,
            lifecycle,
            policy_refs: self.refs.clone(),
        })
    }
}

fn is_same(one: &Tool, other: &Tool) -> bool {
    one.component() == other.component() && one.declaration().name == other.declaration().name
}

fn placed(
    tools: Vec<Arc<Tool>>,
    selection: &ToolSelection,
    conditions: &SurfaceConditions<'_>,
) -> Vec<SurfaceEntry> {
    let declared = |tool: Arc<Tool>| {
        let declared = ToolAvailability::declared(&tool);
        // What cannot be called anywhere keeps its own reason.
        let gone = declared.is_some_and(|standing| {
            standing.state == LoadingState::Unavailable && standing != ToolAvailability::INTERNAL
        });
        let withheld = if gone {
            None
        } else {
            selection.withholds(&tool, conditions)
        };
        match withheld {
            Some((reason, refs)) => (
                tool,
                Some(ToolAvailability {
                    state: LoadingState::Unavailable,
                    reason: Some(reason),
                }),
                refs,
            ),
            None => (tool, declared, Vec::new()),
        }
    };
    let declared: Vec<_> = tools.into_iter().map(declared).collect();
    let always = declared
        .iter()
        .filter(|(_, standing, _)| *standing == Some(ToolAvailability::LOADED))
        .count();
    let mut left = selection.budget.saturating_sub(always);
    let mut place = || match left.checked_sub(1) {
        Some(rest) => {
            left = rest;
            ToolAvailability::LOADED
        }
        None => ToolAvailability::DEFERRED,
    };
    let placed = declared.into_iter().map(|(tool, standing, refs)| {
        match standing.unwrap_or_else(&mut place) {
            ToolAvailability::DEFERRED if !selection.model.deferred_refs => SurfaceEntry {
                tool,
                standing: ToolAvailability::UNREACHABLE,
                refs: vec!["deferred_refs".to_owned()],
            },
            standing => SurfaceEntry {
                tool,
                standing,
                refs,
            },
        }
    });
    placed.collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::{Surface, ToolAvailability};
    use crate::catalog::{ComponentFacts, Tool};
    use toolcell_spec::LoadingState::{self, Deferred, Discoverable, Loaded, Unavailable};
    use toolcell_spec::SurfaceReason;
    use toolcell_spec::dialect::agent_tool;

    fn tools(each: &[(&str, Value)]) -> Vec<Arc<Tool>> {
        let mut declarations = Vec::new();
        let mut interfaces = Vec::new();
        for (at, (lifecycle, fields)) in each.iter().enumerate() {
            let name = format!("t{at}");
            let id = format!("s.t{at}");
            declarations.push(json!({
                "schema_version": "0.2.0", "namespace": "s", "name": name, "description": "d",
                "lifecycle": lifecycle, "tool_kind": "function", "interface_ref": format!("i{at}"),
            }));
            let mut interface = json!({ "schema_version": "0.2.0", "interface_id": format!("i{at}"), "tool_id": id });
            interface
                .as_object_mut()
                .unwrap()
                .extend(fields.as_object().unwrap().clone());
            interfaces.push(interface);
        }
        let toolkit = json!({ "declarations": declarations, "interfaces": interfaces }).to_string();
        let described = agent_tool::toolkit(&toolkit).unwrap();
        let facts = ComponentFacts {
            component: "sha256:00".into(),
            ..ComponentFacts::default()
        };
        Tool::from_toolkit(
            described.toolkit,
            &described.notes,
            &facts,
            Duration::from_secs(60),
        )
        .unwrap()
    }

    fn states(each: &[(&str, Value)], budget: usize) -> Vec<LoadingState> {
        Surface::new(tools(each), budget)
            .tools()
            .map(|(_, standing)| standing.state)
            .collect()
    }

    #[test]
    fn the_first_tools_are_loaded_until_the_budget_is_used_up() {
        let plain = [(); 4].map(|()| ("available", json!({})));
        assert_eq!(states(&plain, 2), [Loaded, Loaded, Deferred, Deferred]);
        assert_eq!(states(&plain, 4), [Loaded; 4]);
        assert_eq!(states(&plain, 0), [Deferred; 4]);
        assert!(
            !Surface::new(tools(&plain), 4).defers() && Surface::new(tools(&plain), 3).defers()
        );
    }

    #[test]
    fn a_tool_that_wants_to_be_loaded_or_deferred_is() {
        let always = || ("available", json!({ "always_load": true }));
        let plain = ("available", json!({}));
        let defer = ("available", json!({ "should_defer": true }));
        assert_eq!(
            states(&[plain.clone(), always(), defer.clone()], 1),
            [Deferred, Loaded, Deferred]
        );
        assert_eq!(
            states(&[always(), always(), plain], 1),
            [Loaded, Loaded, Deferred],
            "also over the budget"
        );
        assert_eq!(states(&[defer], 9), [Deferred], "also within the budget");
        let both = json!({ "always_load": true, "should_defer": true });
        assert_eq!(
            states(&[("available", both.clone()), ("deferred", both)], 9),
            [Loaded, Deferred]
        );
        let unseen = json!({ "schema_visibility": "deferred", "always_load": true });
        assert_eq!(
            states(&[("available", unseen)], 9),
            [Deferred],
            "the stricter word counts"
        );
    }

    #[test]
    fn a_tool_that_is_not_available_has_a_reason_and_takes_no_place() {
        let each = [
            "draft",
            "disabled",
            "requires_setup",
            "deferred",
            "deprecated",
            "retired",
            "available",
        ]
        .map(|lifecycle| (lifecycle, json!({})));
        let expected = [
            Unavailable,
            Unavailable,
            Unavailable,
            Deferred,
            Discoverable,
            Unavailable,
            Loaded,
        ];
        assert_eq!(states(&each, 1), expected);
        let surface = Surface::new(tools(&each), 1);
        let reasons: Vec<_> = surface
            .tools()
            .map(|(_, standing)| standing.reason)
            .collect();
        let disabled = Some(SurfaceReason::FeatureDisabled);
        let setup = Some(SurfaceReason::SetupRequired);
        let deferred = Some(SurfaceReason::DeferredUntilDiscovered);
        assert_eq!(reasons, [None, disabled, setup, deferred, None, None, None]);
        let told: Vec<_> = surface
            .tools()
            .map(|(_, standing)| standing.told())
            .collect();
        assert_eq!(
            told,
            [
                disabled, disabled, setup, deferred, deferred, disabled, None
            ]
        );
        let switched_off = tools(&[(
            "available",
            json!({ "is_enabled": false, "always_load": true }),
        )]);
        let standing = Surface::new(switched_off, 9).tools().next().unwrap().1;
        assert_eq!(
            standing,
            ToolAvailability {
                state: Unavailable,
                reason: disabled
            }
        );
        assert_eq!(standing.after_loading(), standing);
    }
}
