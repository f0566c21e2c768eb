use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    AbortReason, DecisionId, ExternalMapping, Extra, Input, InvocationId, SchemaVersion, Status,
    Timestamp,
};

/// The text in place of arguments that may be on no disk.
pub(super) const HIDDEN: &str = "[redacted]";

/// How the reference of a call begins.
pub const EVIDENCE: &str = "toolcell:call/";
/// The property that has the mappings of other protocols.
const MAPPINGS: &str = "external_mappings";

/// One entry of `status_transitions` (AT-INV-24).
///
/// ```
/// use toolcell_spec::ToolInvocation;
///
/// fn history(invocation: &ToolInvocation) -> Vec<&str> {
///     invocation.status_transitions().iter().map(|step| step.to.as_str()).collect()
/// }
/// ```
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transition {
    /// The status before.
    pub from: Status,
    /// The status after.
    pub to: Status,
    /// Later than every earlier transition of the same invocation.
    pub at: Timestamp,
    /// Why, if there is more to say than the status.
    pub reason: Option<String>,
    /// Why the call was asked to stop, if this ended it (AT-CAN-03).
    pub abort_reason: Option<AbortReason>,
}

/// A transition that the transition graph does not have.
///
/// ```
/// use toolcell_spec::{Input, Status, ToolInvocation};
///
/// let mut invocation = ToolInvocation::planned("files.read", &Input::from_text("{}"));
/// let error = invocation.advance(Status::Running, None).err().map(|error| error.to_string());
/// assert_eq!(error.as_deref(), Some("an invocation cannot go from planned to running"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an invocation cannot go from {} to {}", from.as_str(), to.as_str())]
pub struct IllegalTransition {
    /// The current status.
    pub from: Status,
    /// The status that cannot follow.
    pub to: Status,
}

/// `tool_invocation` (AT-INV-01..29). Its status changes through [`ToolInvocation::advance`] only.
///
/// ```
/// use toolcell_spec::{Input, Status, ToolInvocation};
///
/// let mut invocation = ToolInvocation::planned("files.read", &Input::from_text("{}"));
/// assert!(invocation.advance(Status::Selected, None).is_ok());
/// assert_eq!((invocation.status(), invocation.started_at()), (Status::Selected, None));
/// ```
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolInvocation {
    schema_version: SchemaVersion,
    /// The host's id for this call.
    pub invocation_id: InvocationId,
    /// The tool; `unresolved:<name>` if there is none (A-15).
    pub tool_id: String,
    /// The surface through which the tool was called (AT-INV-04); `None` for a call without one.
    pub surface_id: Option<Arc<str>>,
    /// The caller's own id for this call, verbatim.
    pub native_call_id: Option<String>,
    status: Status,
    /// The arguments as the caller sent them (AT-INP-01).
    pub model_input: Arc<Value>,
    /// Digest of the text of `model_input`; concealed if the arguments are sensitive.
    pub model_input_ref: Arc<str>,
    /// The text that was sent, if serializing `model_input` again would not give the same bytes (AT-INP-01).
    pub model_input_text: Option<String>,
    /// The arguments with defaults (AT-INP-02).
    pub observable_input: Option<Arc<Value>>,
    pub observable_input_ref: Option<Arc<str>>,
    /// The arguments that were decided on (AT-INP-03).
    pub permission_input: Option<Arc<Value>>,
    pub permission_input_ref: Option<Arc<str>>,
    /// The arguments that ran (AT-INP-04).
    pub call_input: Option<Arc<Value>>,
    pub call_input_ref: Option<Arc<str>>,
    /// Name of the caller, if known (AT-INV-15).
    pub actor_ref: Option<String>,
    /// The session of the call: a client's, or one with a name; else this run of the process. An extension.
    pub session_ref: Option<Arc<str>>,
    /// Runtimes (AT-INV-16): `component:sha256:<hex>`, and `toolcell/<version>`, which has one version of the engine.
    #[serde(default)]
    pub runtime_refs: Vec<String>,
    /// Names from the call's decisions, each once (AT-INV-17).
    #[serde(default)]
    pub policy_refs: Vec<String>,
    /// `toolcell:call/<id>`, the record in the journal (AT-INV-20). Empty while the call runs, and if no record is kept.
    #[serde(default)]
    pub evidence_refs: Vec<String>,
    /// The decisions, in order (AT-INV-18).
    #[serde(default)]
    pub permission_decision_refs: Vec<DecisionId>,
    /// The hooks that ran (AT-INV-19).
    #[serde(default)]
    pub hook_refs: Vec<String>,
    #[serde(default)]
    status_transitions: Vec<Transition>,
    created_at: Timestamp,
    started_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    /// `true` if the arguments must not be on disk, because a tool that made the call may repeat another call's
    /// unstorable output in them.
    #[serde(skip)]
    pub keeps_no_input: bool,
    #[serde(flatten)]
    pub extra: Extra,
}

impl ToolInvocation {
    /// Sets a property that the record has beside its fields.
    pub fn note(&mut self, name: &str, value: impl Into<Value>) {
        self.extra.insert(name.to_owned(), value.into());
    }

    /// Appends to such a property, which is a list.
    pub fn note_item(&mut self, name: &str, item: Value) {
        let list = self
            .extra
            .entry(name)
            .or_insert_with(|| Value::Array(Vec::new()));
        if let Some(list) = list.as_array_mut() {
            list.push(item);
        }
    }

    /// Creates a planned invocation. Its tool id is `unresolved:<name>` until the name is resolved (A-15).
    pub fn planned(requested: &str, model_input: &Input) -> Self {
        let created_at = Timestamp::now();
        Self {
            schema_version: SchemaVersion::default(),
            invocation_id: InvocationId::at(created_at),
            tool_id: format!("unresolved:{requested}"),
            surface_id: None,
            native_call_id: None,
            status: Status::Planned,
            model_input: model_input.shared_value(),
            model_input_ref: Arc::clone(model_input.shared_reference()),
            model_input_text: (!model_input.is_compact()).then(|| model_input.text().to_owned()),
            observable_input: None,
            observable_input_ref: None,
            permission_input: None,
            permission_input_ref: None,
            call_input: None,
            call_input_ref: None,
            actor_ref: None,
            session_ref: None,
            runtime_refs: Vec::new(),
            policy_refs: Vec::new(),
            evidence_refs: Vec::new(),
            permission_decision_refs: Vec::new(),
            hook_refs: Vec::new(),
            status_transitions: Vec::with_capacity(8),
            created_at,
            started_at: None,
            ended_at: None,
            keeps_no_input: false,
            extra: Extra::new(),
        }
    }

    /// The invocation as a disk may have it.
    pub fn for_disk(&self) -> Cow<'_, Self> {
        if !self.keeps_no_input {
            return Cow::Borrowed(self);
        }
        let mut kept = self.clone();
        let hidden = Arc::new(Value::String(HIDDEN.to_owned()));
        (kept.model_input, kept.model_input_text) = (Arc::clone(&hidden), None);
        let others = [
            &mut kept.observable_input,
            &mut kept.permission_input,
            &mut kept.call_input,
        ];
        others
            .into_iter()
            .flatten()
            .for_each(|input| *input = Arc::clone(&hidden));
        Cow::Owned(kept)
    }

    /// The session of the call as one of its `runtime_refs` (AT-INV-16).
    pub fn session_runtime(&self) -> Option<String> {
        self.session_ref
            .as_deref()
            .map(|session| format!("session:{session}"))
    }

    /// The current status.
    pub fn status(&self) -> Status {
        self.status
    }

    /// When the call was planned.
    pub fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// When the guest started; `None` if it never ran (AT-INV-26).
    pub fn started_at(&self) -> Option<Timestamp> {
        self.started_at
    }

    /// When the call reached its final status.
    pub fn ended_at(&self) -> Option<Timestamp> {
        self.ended_at
    }

    /// Every change of the status, in order.
    pub fn status_transitions(&self) -> &[Transition] {
        &self.status_transitions
    }

    /// Moves to `to`. Fails, without a change, if the transition graph does not have that edge.
    pub fn advance(&mut self, to: Status, reason: Option<String>) -> Result<(), IllegalTransition> {
        let from = self.status;
        if !from.may_become(to) {
            return Err(IllegalTransition { from, to });
        }
        let last = self
            .status_transitions
            .last()
            .map_or(self.created_at, |transition| transition.at);
        let at = Timestamp::after(last);
        if to == Status::Running && self.started_at.is_none() {
            self.started_at = Some(at);
        }
        if to.is_terminal() {
            self.ended_at = Some(at);
        }
        self.status = to;
        self.status_transitions.push(Transition {
            from,
            to,
            at,
            reason,
            abort_reason: None,
        });
        Ok(())
    }

    /// Says why the call was asked to stop, in the last transition (AT-CAN-03).
    pub fn aborted(&mut self, reason: AbortReason) {
        if let Some(last) = self.status_transitions.last_mut() {
            last.abort_reason = Some(reason);
        }
    }

    /// Adds a mapping to the call (AT-MAP-01..07).
    pub fn add_mapping(&mut self, mapping: &ExternalMapping) {
        self.note_item(MAPPINGS, json!(mapping));
    }

    /// Adds what is known of the call only at its end to the mapping of its caller's protocol `source`.
    pub fn complete_mapping(
        &mut self,
        source: &str,
        known: impl IntoIterator<Item = (&'static str, Value)>,
    ) {
        let mappings = self
            .extra
            .get_mut(MAPPINGS)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten();
        let mut mappings = mappings.filter_map(Value::as_object_mut);
        if let Some(fields) =
            mappings.find(|fields| fields.get("source").is_some_and(|of| of == source))
        {
            fields.extend(
                known
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value)),
            );
        }
    }

    /// The reference of the record of the call in the journal. `toolcell show` takes it (AT-INV-20).
    pub fn evidence_ref(&self) -> String {
        evidence_ref(self.invocation_id)
    }
}

/// The reference of the record of the call `id`.
pub fn evidence_ref(id: InvocationId) -> String {
    format!("{EVIDENCE}{id}")
}
