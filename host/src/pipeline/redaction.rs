//! Redaction for one call: what must not be stored or shown, gathered in its phases. That is the secrets that its
//! requests carry, its sensitive arguments, and what the output contract redacts. Only the executor gets the values.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Number, Value, json};

use crate::catalog::{Contract, Tool};
use crate::record::{AccessKind, Content, ErrorClass, EventType, Input, PermissionDecision, Refusal, ToolHook};
use crate::search::Meter;
use crate::secret::{REDACTED, Redactor, ReferenceKey, Secrets, Term, Terms};

use super::journey::Journey;
use super::map_result::Mapped;
use super::persist::size;
use super::{Request, aside};

/// Maximum bytes that are redacted inline; more are redacted on a thread for checks.
pub(super) const INLINE_BYTES_MAX: usize = 4 << 10;
/// Maximum bytes of values for which a redactor is built inline, because each takes some 70 states of its automaton.
/// For more it is built on a thread for checks.
const VALUE_BYTES_INLINE_MAX: usize = 256;
/// Maximum number of places of a result that are recorded as redacted.
const PLACES_MAX: usize = 256;

/// State of the redaction of one call; idle, without any effect, for a tool that has nothing to redact.
#[derive(Default)]
pub(super) struct Redaction {
    /// Whether there is anything to redact.
    active: bool,
    redactor: Redactor,
    terms: Arc<Terms>,
    /// The redactor does not contain all `terms` yet.
    stale: bool,
    secrets: Secrets,
    /// Names of secrets that were granted, but are not set.
    missing: Vec<String>,
    /// `Some` if arguments are sensitive, because then the references of inputs are concealed too.
    references: Option<ReferenceKey>,
    /// All arguments are sensitive, and so is the tool's text while it runs.
    whole: bool,
    /// A secret was removed from something that the guest received.
    received: bool,
    /// The places of the result where something was redacted.
    places: BTreeSet<String>,
    everything: bool,
    /// A hook redacted the result before it was stored.
    hooked: bool,
}

impl Redaction {
    /// `redaction_state` of the result, and of the decision to store it.
    pub(super) fn state(&self) -> &'static str {
        match (self.everything, self.hooked || self.found()) {
            (true, _) => "full",
            (false, true) => "partial",
            (false, false) => "none",
        }
    }

    fn found(&self) -> bool {
        self.received || !self.places.is_empty()
    }

    /// Records that a hook redacted the result before it was stored.
    pub(super) fn hooked(&mut self) {
        self.hooked = true;
    }

    pub(super) fn by_hook(&self) -> bool {
        self.hooked
    }

    /// Records whether a secret was removed from something that the guest received.
    pub(super) fn received(&mut self, redacted: bool) {
        self.received |= redacted;
    }

    /// Whether the tool's text must not appear outside the result itself.
    pub(super) fn is_silent(&self) -> bool {
        self.whole
    }

    /// The secrets that the requests of this call may carry, for the executor only.
    pub(super) fn secrets(&self) -> Secrets {
        self.secrets.clone()
    }

    /// Fails if a secret was granted but is not set.
    pub(super) fn check_secrets(&self) -> Result<(), Refusal> {
        let Some(name) = self.missing.first() else { return Ok(()) };
        let message = format!("the secret {name} is not set; set it with `toolcell secret set {name}`");
        Err(Refusal::new(ErrorClass::CredentialMissing, "secret_not_set", message))
    }

    /// The key that conceals the references of this call, for the process that resumes it.
    pub(super) fn reference_key(&self) -> Option<String> {
        self.references.as_ref().map(ReferenceKey::to_text)
    }

    /// Conceals references with the key of the process that began the call.
    pub(super) fn reuse(&mut self, key: Option<&str>) -> Result<(), Refusal> {
        let read = |text| ReferenceKey::from_text(text).ok_or_else(|| Refusal::host_fault("a stored key is not valid"));
        self.references = key.map(read).transpose()?;
        Ok(())
    }

    /// The redactor, for use on another thread.
    pub(super) fn redactor(&self) -> Redactor {
        self.redactor.clone()
    }

    fn is_idle(&self) -> bool {
        !self.active
    }
}

/// Starts redaction for `tool`, once it is resolved, and redacts the input that was recorded before.
pub(super) async fn begin(journey: &mut Journey<'_>, tool: &Tool) -> Result<(), Refusal> {
    let (contract, profile) = (tool.contract(), tool.permission_profile());
    let whole = profile.is_sensitive();
    if whole || contract.has_sensitive_fields() {
        if journey.redaction.references.is_none() {
            let key = ReferenceKey::new().map_err(|error| Refusal::host_fault(format!("{error:#}")))?;
            journey.redaction.references = Some(key);
        }
        journey.redaction.whole = whole;
    }
    let secrets = if profile.wants(&AccessKind::Credential) { wanted(tool, &journey.request) } else { Vec::new() };
    if journey.redaction.references.is_none() && secrets.is_empty() && !contract.redacts_output() {
        return Ok(());
    }
    journey.redaction.active = true;
    let found = journey.services.secrets.values(&secrets);
    if let Ok(values) = &found {
        let (mut known, mut terms) = (Vec::new(), Vec::new());
        for (name, value) in secrets.iter().zip(values) {
            match value {
                Some(value) => {
                    terms.push(Term::secret(name, value));
                    known.push(((*name).to_owned(), value.clone()));
                }
                None => journey.redaction.missing.push((*name).to_owned()),
            }
        }
        journey.redaction.secrets = Secrets::new(known);
        Arc::make_mut(&mut journey.redaction.terms).add(terms);
    }
    // The next call of `shown` builds the redactor.
    journey.redaction.stale = true;
    let input = journey.request.input.clone();
    // Until the input is redacted, the record shows none of it, whatever ends the call.
    journey.invocation.model_input = Value::String(REDACTED.to_owned());
    let text = journey.invocation.model_input_text.take();
    journey.invocation.model_input_ref = journey.reference(&input);
    let shown = journey.shown(&input).await?;
    if let Some(why) = journey.redaction.terms.too_many() {
        // The call ends here without showing its input, so there is nothing left to redact.
        journey.redaction.terms = Arc::default();
        journey.use_redactor(Redactor::default());
        return Err(Refusal::new(ErrorClass::InvalidArguments, "too_many_sensitive_values", why));
    }
    journey.invocation.model_input = shown;
    journey.invocation.model_input_text = text;
    if journey.invocation.model_input != input.to_value() {
        journey.invocation.model_input_text = None;
    }
    found.map(|_| ()).map_err(|error| {
        let message = "the secret store cannot be read; `toolcell secret list` says why";
        Refusal::new(ErrorClass::SetupRequired, "secret_store_unreadable", message).detail(format!("{error:#}"))
    })
}

/// The secrets that the profile declares and that were granted. A call must not learn whether any other secret is set.
fn wanted<'a>(tool: &'a Tool, request: &Request) -> Vec<&'a str> {
    let granted = |name: &&str| request.grants.secrets.iter().any(|grant| grant.name == *name);
    tool.permission_profile().credential_refs.iter().map(String::as_str).filter(granted).collect()
}

/// Redacts an input, or a result. It borrows nothing from the call, so that it can run on another thread.
#[derive(Clone)]
struct Concealer {
    contract: Arc<Contract>,
    terms: Arc<Terms>,
    redactor: Redactor,
    whole: bool,
    /// Whether inputs have sensitive fields.
    inputs: bool,
    /// The redactor does not contain all `terms` yet.
    stale: bool,
    /// The redactor was rebuilt.
    renewed: bool,
}

/// Numbers of an input as written, where a parsed value prints them differently, keyed by what the value prints.
type Written<'a> = HashMap<String, Vec<&'a str>>;

fn written(input: &Input) -> Written<'_> {
    let mut found = Written::new();
    for number in input.numbers() {
        let held = number.parse::<Number>().map(|held| held.to_string()).unwrap_or_default();
        if held != number {
            found.entry(held).or_default().push(number);
        }
    }
    found
}

impl Concealer {
    /// Returns `input` without its sensitive fields, and adds their values to the terms.
    fn hide_input(&mut self, input: &Input) -> Value {
        let mut value = input.to_value();
        if self.inputs {
            let (mut terms, mut written) = (Vec::new(), written(input));
            let mut hide = |_: &str, place: &mut Value| hide(place, &mut written, &mut terms);
            match &mut value {
                // The input is not JSON, so the sensitive fields in it cannot be located.
                value if input.value().is_err() => hide("", value),
                Value::Object(fields) if self.whole => fields.values_mut().for_each(|field| hide("", field)),
                value => self.contract.each_sensitive(value, &mut hide),
            }
            self.keep_back(terms);
        }
        value
    }

    /// Removes what the contract redacts from `mapped`, adds its values to the terms, and returns the places.
    fn hide_output(&mut self, mapped: &mut Mapped) -> BTreeSet<String> {
        let (mut places, mut terms) = (BTreeSet::new(), Vec::new());
        if let Some(structured) = &mut mapped.structured_content {
            self.contract.each_redacted(structured, &mut |at, place| {
                name(&mut places, format!("/structured_content{at}"));
                hide(place, &mut Written::new(), &mut terms);
            });
        }
        self.keep_back(terms);
        places
    }

    /// Removes every term from `mapped`, and adds the places where it found one.
    fn redact_output(&mut self, mapped: &mut Mapped, places: &mut BTreeSet<String>, meter: &mut Meter) {
        self.renew();
        let redactor = &self.redactor;
        let mut found = |place: &str, found: bool| {
            if found {
                name(places, place.to_owned());
            }
        };
        for (at, block) in mapped.content.iter_mut().enumerate() {
            found(&format!("/content/{at}"), redact_block(redactor, block, meter));
        }
        if let Some(structured) = &mut mapped.structured_content {
            found("/structured_content", redactor.redact_within(structured, meter));
        }
        if let Some(summary) = &mut mapped.ui_facing_summary {
            found("/ui_facing_summary", redactor.redact_text_within(summary, meter));
        }
        if let Some(error) = &mut mapped.error {
            found("/error", redact_error(redactor, error, meter));
        }
    }

    /// Removes every term from `value`.
    fn redact(&mut self, value: &mut Value, meter: &mut Meter) {
        self.renew();
        self.redactor.redact_within(value, meter);
    }

    /// Adds `terms` to what is redacted.
    fn keep_back(&mut self, terms: Vec<Term>) {
        if !terms.is_empty() {
            self.stale |= Arc::make_mut(&mut self.terms).add(terms);
        }
    }

    /// Whether the redactor is ready, or quick to build.
    fn is_light(&self) -> bool {
        !self.stale || self.terms.bytes() <= VALUE_BYTES_INLINE_MAX || !guard!("redactor_aside")
    }

    fn renew(&mut self) {
        if std::mem::take(&mut self.stale) {
            self.redactor = Redactor::new(&self.terms, self.contract.redacted_patterns(), self.whole);
            self.renewed = true;
        }
    }
}

fn name(places: &mut BTreeSet<String>, place: String) {
    if places.len() < PLACES_MAX {
        places.insert(place);
    }
}

impl Journey<'_> {
    fn concealer(&self) -> Option<Concealer> {
        let redaction = &self.redaction;
        let tool = self.tool.as_ref().filter(|_| !redaction.is_idle())?;
        Some(Concealer {
            contract: Arc::clone(tool.contract()),
            terms: Arc::clone(&redaction.terms),
            redactor: redaction.redactor.clone(),
            whole: redaction.whole,
            inputs: redaction.references.is_some(),
            stale: redaction.stale,
            renewed: false,
        })
    }

    fn learn(&mut self, concealer: Concealer) {
        if concealer.renewed {
            self.redaction.terms = concealer.terms;
            self.use_redactor(concealer.redactor);
        }
    }

    fn use_redactor(&mut self, redactor: Redactor) {
        self.trail.redact(redactor.clone());
        self.redaction.redactor = redactor;
        self.redaction.stale = false;
    }

    /// Returns `input` as records, events, hooks and people may see it. Its sensitive values are redacted everywhere
    /// else from now on.
    ///
    /// # Errors
    ///
    /// Those of [`aside::within`], which end the call.
    pub(super) async fn shown(&mut self, input: &Input) -> Result<Value, Refusal> {
        let Some(mut concealer) = self.concealer() else { return Ok(input.to_value()) };
        let hidden = (input.text().len() <= INLINE_BYTES_MAX).then(|| concealer.hide_input(input));
        let hidden = match hidden {
            Some(mut value) if concealer.is_light() => {
                concealer.redact(&mut value, &mut Meter::inline());
                self.learn(concealer);
                return Ok(value);
            }
            hidden => hidden,
        };
        let input = input.clone();
        let work = move || {
            let mut value = hidden.unwrap_or_else(|| concealer.hide_input(&input));
            concealer.redact(&mut value, &mut Meter::aside());
            (value, concealer)
        };
        match aside::within(self, "keeping sensitive arguments out of the record", work).await {
            Ok((value, concealer)) => {
                self.learn(concealer);
                Ok(value)
            }
            Err(refusal) => {
                self.use_redactor(Redactor::blind());
                Err(refusal)
            }
        }
    }

    /// Returns `input` as an approver may see it: with all digits of its numbers, because those run.
    pub(super) async fn shown_input(&mut self, input: &Input) -> Result<Input, Refusal> {
        if self.redaction.is_idle() {
            return Ok(input.clone());
        }
        let rounded = Input::from_value(self.shown(input).await?);
        let exact = input.with_value(rounded.to_value());
        // A term or pattern may match a number as written, and not as a parsed value holds it.
        let mut meter = Meter::inline();
        let redactor = &self.redaction.redactor;
        let matches = exact.numbers().any(|number| redactor.redact_text_within(&mut number.to_owned(), &mut meter));
        Ok(if matches { rounded } else { exact })
    }

    /// The reference of `input` for records and events.
    pub(super) fn reference(&self, input: &Input) -> String {
        self.concealed(input.reference())
    }

    /// Conceals `reference`, so that it reveals nothing about the input, if arguments are sensitive.
    pub(super) fn concealed(&self, reference: &str) -> String {
        match &self.redaction.references {
            Some(key) => key.conceal(reference),
            None => reference.to_owned(),
        }
    }

    /// Restores the values of `original` in `updated`, an edited copy of its redacted form `shown`, where the copy was
    /// not edited.
    pub(super) fn restored(updated: Value, shown: &Value, original: &Value) -> Value {
        if updated == *shown {
            return original.clone();
        }
        match (updated, shown, original) {
            (Value::Object(updated), Value::Object(shown), Value::Object(original)) => {
                let restore = |(name, value): (String, Value)| match (shown.get(&name), original.get(&name)) {
                    (Some(shown), Some(original)) => {
                        let value = Self::restored(value, shown, original);
                        (name, value)
                    }
                    _ => (name, value),
                };
                Value::Object(updated.into_iter().map(restore).collect())
            }
            (Value::Array(updated), Value::Array(shown), Value::Array(original)) if updated.len() == shown.len() => {
                let pairs = updated.into_iter().zip(shown.iter().zip(original));
                Value::Array(pairs.map(|(value, (shown, original))| Self::restored(value, shown, original)).collect())
            }
            (updated, ..) => updated,
        }
    }

    /// Redacts `mapped`, which is all output of a tool. If there is no time or no thread for that, the output is
    /// withheld.
    pub(super) async fn redact(&mut self, mapped: &mut Mapped) {
        let Some(mut concealer) = self.concealer() else { return };
        if self.redaction.everything && !has_output(mapped) {
            // The rest is the host's own text.
            return;
        }
        if concealer.contract.redacts_everything() && has_output(mapped) {
            self.redaction.everything = true;
            withhold(mapped);
        }
        let bytes = size(mapped) + mapped.ui_facing_summary.as_ref().map_or(0, String::len) as u64;
        let mut taken = std::mem::take(mapped);
        let places = (bytes <= INLINE_BYTES_MAX as u64).then(|| concealer.hide_output(&mut taken));
        let places = match places {
            Some(mut places) if concealer.is_light() => {
                concealer.redact_output(&mut taken, &mut places, &mut Meter::inline());
                *mapped = taken;
                self.redacted(concealer, mapped, places);
                return;
            }
            places => places,
        };
        let (ran, usage) = (taken.ran, taken.usage.clone());
        let work = move || {
            let mut places = places.unwrap_or_else(|| concealer.hide_output(&mut taken));
            concealer.redact_output(&mut taken, &mut places, &mut Meter::aside());
            (taken, places, concealer)
        };
        // A call that is canceled meanwhile returns no output, because it is not redacted yet.
        match aside::within(self, "redacting the answer", work).await {
            Ok((redacted, places, concealer)) => {
                *mapped = redacted;
                self.redacted(concealer, mapped, places);
            }
            Err(refusal) => {
                self.redaction.everything = true;
                *mapped = Mapped { ran, usage, error: Some(refusal), ..Mapped::default() };
            }
        }
    }

    fn redacted(&mut self, concealer: Concealer, mapped: &mut Mapped, places: BTreeSet<String>) {
        mapped.redacted = true;
        self.learn(concealer);
        self.redaction.places.extend(places);
        if let Some(why) = self.redaction.terms.too_many().filter(|_| has_output(mapped)) {
            self.redaction.everything = true;
            let refusal = Refusal::new(ErrorClass::ResultRedacted, "too_many_sensitive_values", why);
            mapped.withhold(refusal);
        }
    }

    /// Reports that something was redacted, and where, but never what.
    pub(super) fn tell_redaction(&self) {
        if self.redaction.everything || self.redaction.found() {
            let data = json!({
                "redaction_state": self.redaction.state(),
                "places": self.redaction.places,
                "responses": self.redaction.received,
            });
            self.trail.emit(EventType::ResultRedacted, data);
        }
    }

    /// Redacts the records that the call gathered beside its result.
    pub(super) fn redact_records(&mut self) {
        if self.redaction.is_idle() {
            return;
        }
        let redactor = self.redaction.redactor.clone();
        self.decisions.iter_mut().for_each(|decision| redact_decision(&redactor, decision));
        self.additional_context.iter_mut().for_each(|context| _ = redactor.redact(context));
        for run in &mut self.hook_runs {
            redact_hook(&redactor, run);
        }
        for mutation in &mut self.mutations {
            redactor.redact_text(&mut mutation.reason);
            mutation.changed_fields.iter_mut().for_each(|field| _ = redactor.redact_text(field));
        }
    }

    /// `decision` as hooks and records may see it.
    pub(super) fn shown_decision(&self, mut decision: PermissionDecision) -> PermissionDecision {
        if !self.redaction.is_idle() {
            redact_decision(&self.redaction.redactor, &mut decision);
        }
        decision
    }

    /// Redacts `updated`, an input that a hook made, in the record of the hook's run.
    pub(super) async fn keep_shown(&mut self, updated: &Input) -> Result<(), Refusal> {
        if self.redaction.is_idle() {
            return Ok(());
        }
        let shown = self.shown(updated).await;
        let (shown, done) = match shown {
            Ok(shown) => (shown, Ok(())),
            Err(refusal) => (Value::String(REDACTED.to_owned()), Err(refusal)),
        };
        if let Some(run) = self.hook_runs.last_mut().filter(|run| run.updated_input.is_some()) {
            run.updated_input = Some(shown);
        }
        done
    }
}

/// Replaces a value with [`REDACTED`], and adds everything in it to `terms`, numbers also as written.
fn hide(place: &mut Value, written: &mut Written<'_>, terms: &mut Vec<Term>) {
    gather(place, written, terms);
    if !place.is_null() {
        *place = Value::String(REDACTED.to_owned());
    }
}

fn gather(value: &Value, written: &mut Written<'_>, terms: &mut Vec<Term>) {
    match value {
        // Text that was redacted before is not a value.
        Value::String(text) if text != REDACTED => terms.push(Term::sensitive(text)),
        Value::Number(number) => {
            let held = number.to_string();
            terms.extend(written.remove(&held).unwrap_or_default().into_iter().map(Term::sensitive));
            terms.push(Term::sensitive(&held));
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, written, terms)),
        Value::Object(fields) => fields.values().for_each(|field| gather(field, written, terms)),
        Value::String(_) | Value::Null | Value::Bool(_) => {}
    }
}

fn has_output(mapped: &Mapped) -> bool {
    !mapped.content.is_empty() || mapped.structured_content.is_some() || mapped.ui_facing_summary.is_some()
}

/// Removes all output, because the contract redacts all of it: the result only says that there was some.
fn withhold(mapped: &mut Mapped) {
    let message = "the tool answered, and its contract keeps all of the answer back";
    mapped.content.clear();
    mapped.structured_content = None;
    mapped.ui_facing_summary = None;
    if mapped.error.is_none() {
        mapped.error = Some(Refusal::new(ErrorClass::ResultRedacted, "redacted_by_contract", message));
    }
}

fn redact_block(redactor: &Redactor, block: &mut Content, meter: &mut Meter) -> bool {
    let mut fields = Value::Object(std::mem::take(&mut block.fields));
    let found = redactor.redact_within(&mut fields, meter);
    if let Value::Object(fields) = fields {
        block.fields = fields;
    }
    found | redactor.redact_text_within(&mut block.kind, meter)
}

fn redact_decision(redactor: &Redactor, decision: &mut PermissionDecision) {
    redactor.redact_text(&mut decision.reason.message);
    for text in [&mut decision.blocked_path, &mut decision.accept_feedback].into_iter().flatten() {
        redactor.redact_text(text);
    }
    decision.updated_input.as_mut().map(|input| redactor.redact(input));
    decision.suggested_updates.iter_mut().for_each(|update| _ = redactor.redact(update));
    let mut meter = Meter::inline();
    decision.content_blocks.iter_mut().for_each(|block| _ = redact_block(redactor, block, &mut meter));
}

fn redact_hook(redactor: &Redactor, run: &mut ToolHook) {
    run.outputs.iter_mut().for_each(|output| _ = redactor.redact(output));
    run.additional_context.iter_mut().for_each(|context| _ = redactor.redact(context));
    for value in [&mut run.updated_input, &mut run.stop, &mut run.updated_output].into_iter().flatten() {
        redactor.redact(value);
    }
    run.error.as_mut().map(|error| redactor.redact_text(error));
    if let Some(said) = &mut run.permission_result {
        redactor.redact_text(&mut said.reason);
    }
    let mut meter = Meter::inline();
    run.logs.iter_mut().for_each(|block| _ = redact_block(redactor, block, &mut meter));
}

fn redact_error(redactor: &Redactor, error: &mut Refusal, meter: &mut Meter) -> bool {
    let mut found = redactor.redact_text_within(&mut error.message, meter);
    for text in [&mut error.detail, &mut error.guest_code].into_iter().flatten() {
        found |= redactor.redact_text_within(text, meter);
    }
    found | error.native_error_ref.as_mut().is_some_and(|native| redactor.redact_within(native, meter))
}
