use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    AbortReason, DecisionId, ExternalMapping, Extra, Input, InvocationId, POSTED_CALL,
    SchemaVersion, Status, Timestamp,
};

/// Replaces arguments that may be on no disk.
pub(super) const HIDDEN: &str = "[redacted]";

pub const EVIDENCE: &str = "toolcell:call/";
const MAPPINGS: &str = "external_mappings";

/// One of `status_transitions` (AT-INV-24).
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
    pub from: Status,
    pub to: Status,
    /// Later than earlier transitions of the invocation.
    pub at: Timestamp,
    pub reason: Option<String>,
    /// Set if a request to stop ended the call (AT-CAN-03).
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

/// The status changes through [`ToolInvocation::advance`] only (AT-INV-01..29).
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
    pub invocation_id: InvocationId,
    /// `unresolved:<name>` if there is no tool (A-15).
    pub tool_id: String,
    /// `None` for a call without a surface (AT-INV-04).
    pub surface_id: Option<Arc<str>>,
    pub native_call_id: Option<String>,
    status: Status,
    /// The caller's arguments (AT-INP-01).
    pub model_input: Arc<Value>,
    /// Digest of the text; concealed if the arguments are sensitive.
    pub model_input_ref: Arc<str>,
    /// Set if serializing `model_input` would not give the sent bytes (AT-INP-01).
    pub model_input_text: Option<String>,
    /// The arguments with defaults (AT-INP-02).
    pub observable_input: Option<Arc<Value>>,
    pub observable_input_ref: Option<Arc<str>>,
    /// The arguments that were decided on (AT-INP-03).
    pub permission_input: Option<Arc<Value>>,
    pub permission_input_ref: Option<Arc<str>>,
    /// The arguments that ran: those that were decided on, with absolute paths (AT-INP-04).
    pub call_input: Option<Arc<Value>>,
    pub call_input_ref: Option<Arc<str>>,
    /// Arguments that a later change replaced, unless another part of the record has them, in order (AT-MUT-06). An
    /// extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced_inputs: Vec<Arc<Value>>,
    /// The caller, if known (AT-INV-15).
    pub actor_ref: Option<String>,
    /// A client's or a named session; else this run of the process. An extension.
    pub session_ref: Option<Arc<str>>,
    /// `component:sha256:<hex>`, `toolcell/<version>`, `wasmtime/<version>`, and the session (AT-INV-16).
    #[serde(default)]
    pub runtime_refs: Vec<String>,
    /// Names from the decisions, each once (AT-INV-17).
    #[serde(default)]
    pub policy_refs: Vec<String>,
    /// `toolcell:call/<id>` (AT-INV-20). Empty while the call runs, and if no record is kept.
    #[serde(default)]
    pub evidence_refs: Vec<String>,
    /// In order (AT-INV-18).
    #[serde(default)]
    pub permission_decision_refs: Vec<DecisionId>,
    /// Hooks that ran (AT-INV-19).
    #[serde(default)]
    pub hook_refs: Vec<String>,
    #[serde(default)]
    status_transitions: Vec<Transition>,
    created_at: Timestamp,
    started_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    /// `true` if arguments must not be on disk, because they may repeat another call's unstorable output.
    #[serde(skip)]
    pub keeps_no_input: bool,
    #[serde(flatten)]
    pub extra: Extra,
}

impl ToolInvocation {
    pub fn note(&mut self, name: &str, value: impl Into<Value>) {
        self.extra.insert(name.to_owned(), value.into());
    }

    pub fn note_item(&mut self, name: &str, item: Value) {
        let list = self
            .extra
            .entry(name)
            .or_insert_with(|| Value::Array(Vec::new()));
        if let Some(list) = list.as_array_mut() {
            list.push(item);
        }
    }

    /// The id is `unresolved:<name>` until the name is resolved (A-15).
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
            replaced_inputs: Vec::new(),
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
        kept.replaced_inputs.clear();
        Cow::Owned(kept)
    }

    /// The session as one of the `runtime_refs` (AT-INV-16).
    pub fn session_runtime(&self) -> Option<String> {
        self.session_ref
            .as_deref()
            .map(|session| format!("session:{session}"))
    }

    pub fn status(&self) -> Status {
        self.status
    }

    pub fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// `None` if the guest never ran (AT-INV-26).
    pub fn started_at(&self) -> Option<Timestamp> {
        self.started_at
    }

    pub fn ended_at(&self) -> Option<Timestamp> {
        self.ended_at
    }

    pub fn status_transitions(&self) -> &[Transition] {
        &self.status_transitions
    }

    /// Fails, without a change, if the transition graph lacks the edge.
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

    /// As [`advance`](Self::advance) to `running`, for a call whose tool does not start (AT-INV-26).
    pub fn pass_running(&mut self, reason: &str) -> Result<(), IllegalTransition> {
        let started_at = self.started_at;
        self.advance(Status::Running, Some(reason.to_owned()))?;
        self.started_at = started_at;
        Ok(())
    }

    /// Marks the last transition (AT-CAN-03).
    pub fn aborted(&mut self, reason: AbortReason) {
        if let Some(last) = self.status_transitions.last_mut() {
            last.abort_reason = Some(reason);
        }
    }

    /// Adds a mapping (AT-MAP-01..07).
    pub fn add_mapping(&mut self, mapping: &ExternalMapping) {
        self.note_item(MAPPINGS, json!(mapping));
    }

    /// Fields that the caller posted beside the call, for redaction.
    pub fn posted_call(&mut self) -> Option<&mut Value> {
        let mappings = self.extra.get_mut(MAPPINGS)?;
        mappings.get_mut(0)?.get_mut(POSTED_CALL)
    }

    /// Completes the mapping of its caller's protocol `source` at the end of the call.
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

    /// Reference of the call's record, for `toolcell show` (AT-INV-20).
    pub fn evidence_ref(&self) -> String {
        evidence_ref(self.invocation_id)
    }
}

pub fn evidence_ref(id: InvocationId) -> String {
    format!("{EVIDENCE}{id}")
}
