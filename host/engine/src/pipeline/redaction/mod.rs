//! Redaction for one call: its secrets, sensitive arguments, and what the output contract redacts. Only the executor
//! gets the values.

mod answer;
pub(super) mod brought;
mod concealer;
mod places;
pub(super) mod records;
mod shape;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::catalog::{Tool, ToolContract};
use toolcell_journal::Trail;
use toolcell_policy::Permit;
use toolcell_policy::secret::{
    REDACTED, RedactionTerm, RedactionTerms, Redactor, ReferenceKey, Scrubber, SecretStore,
    SecretValue, Secrets,
};
use toolcell_spec::regex_search::SearchMeter;
use toolcell_spec::{
    AccessKind, ErrorCode, EventType, Input, PermissionDecision, Refusal, SANDBOX_REF,
};
use toolcell_system::pool::STORE;

use super::Request;
use super::aside::LongChecks;
use super::call_state::CallState;

use concealer::Concealer;
use places::{RedactedPlaces, SECRET};
pub(super) use shape::{restored, show_input};

/// More are redacted on a thread for checks.
pub(super) const INLINE_BYTES_MAX: usize = 4 << 10;

/// For a tool whose output contract has redaction rules.
const NO_ARTIFACTS: &str = "the output contract has redaction_rules, which cannot be applied to a file in chunks; return \
                            the output as content, or remove the rules";

/// Everything of a call that is written or shown passes here. Idle if there is nothing to redact.
pub(super) struct Redaction {
    /// `None` while there is nothing to redact.
    contract: Option<Arc<ToolContract>>,
    pub(super) redactor: Redactor,
    terms: Arc<RedactionTerms>,
    /// The redactor lacks some `terms`.
    stale: bool,
    secrets: Secrets,
    /// For the request's secrets; idle without any.
    pub(super) brought: Redactor,
    /// Granted, but not set.
    missing: Vec<String>,
    /// `Some` if arguments are sensitive: input references are then concealed too.
    references: Option<ReferenceKey>,
    /// All arguments are sensitive, and the running tool's text: it may appear only in the result.
    pub(super) whole: bool,
    /// A secret was removed from something that the guest received.
    pub(super) received: bool,
    places: RedactedPlaces,
    everything: bool,
    /// A hook redacted the result before it was stored.
    pub(super) hooked: bool,
    /// The redacted input and its text, until its shape is known to match the contract.
    unproven: Option<(Arc<Value>, Option<String>)>,
    /// The last redacted input, because several records share it.
    latest: Option<(Input, Arc<Value>)>,
    /// The call's events are redacted too.
    trail: Trail,
    checks: Arc<LongChecks>,
}

/// Secrets and sensitive arguments of a call, hidden from its own calls.
#[derive(Clone)]
pub(super) struct InheritedSecrets {
    terms: Arc<RedactionTerms>,
    whole: bool,
}

impl Redaction {
    /// Values that lower calls must not show.
    pub(super) fn inherited(&self) -> Option<InheritedSecrets> {
        let hides = self.references.is_some() || self.whole;
        hides.then(|| InheritedSecrets {
            terms: Arc::new(self.terms.without_fields()),
            whole: self.whole,
        })
    }

    fn inherit(&mut self, hidden: &InheritedSecrets) -> Result<(), Refusal> {
        self.references = Some(reference_key()?);
        (self.terms, self.whole) = (Arc::clone(&hidden.terms), hidden.whole);
        Ok(())
    }

    pub(super) fn new(trail: Trail, checks: Arc<LongChecks>) -> Self {
        Self {
            contract: None,
            redactor: Redactor::default(),
            terms: Arc::default(),
            stale: false,
            secrets: Secrets::default(),
            brought: Redactor::default(),
            missing: Vec::new(),
            references: None,
            whole: false,
            received: false,
            places: RedactedPlaces::default(),
            everything: false,
            hooked: false,
            unproven: None,
            latest: None,
            trail,
            checks,
        }
    }

    /// `redaction_state` of the result and its storage decision.
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

    /// Records a removal from the artifacts, for every reason that there was.
    pub(super) fn found_in_artifacts(&mut self) {
        const PLACE: &str = "/artifact_refs";
        if !(self.secrets.is_empty() && self.brought.is_idle()) {
            self.places.add(SECRET, PLACE);
        }
        if let Some(concealer) = self.concealer().filter(|concealer| concealer.inputs) {
            self.places.add(concealer.argument_rule(), PLACE);
        }
    }

    /// Fails for a call that cannot write any: a rule of the output contract needs all of the output at once.
    pub(super) fn of_artifacts(&self) -> Result<Redactor, &'static str> {
        let Some(contract) = &self.contract else {
            return Ok(Redactor::default());
        };
        if contract.redacts_output() && guard!("artifact_rules") {
            return Err(NO_ARTIFACTS);
        }
        Ok(self.redactor.clone())
    }

    pub(super) fn hides_input(&self) -> bool {
        self.references.is_some()
    }

    /// For the executor only.
    pub(super) fn secrets(&self) -> Secrets {
        self.secrets.clone()
    }

    pub(super) fn check_secrets(&self) -> Result<(), Refusal> {
        let Some(name) = self.missing.first() else {
            return Ok(());
        };
        let command = format!("toolcell secrets set {name}");
        let message = format!("the secret {name} is not set; set it with `{command}`");
        let refusal = Refusal::new(ErrorCode::SecretNotSet, message);
        Err(refusal.needs(AccessKind::Credential, Some(name.clone()), command))
    }

    pub(super) fn reference_key(&self) -> Option<String> {
        self.references.as_ref().map(ReferenceKey::to_text)
    }

    pub(super) fn reuse(&mut self, key: Option<&str>) -> Result<(), Refusal> {
        let read = |text| {
            ReferenceKey::from_text(text)
                .ok_or_else(|| Refusal::host_fault("a stored key is not valid"))
        };
        self.references = key.map(read).transpose()?;
        Ok(())
    }

    fn needs_shape(&self) -> bool {
        let contract = self.contract.as_ref();
        (self.whole || contract.is_some_and(|contract| contract.has_sensitive_fields()))
            && guard!("sensitive_shape")
    }

    /// `None` if there is nothing to redact.
    pub(super) fn active(&self) -> Option<&Redactor> {
        self.contract.as_ref().map(|_| &self.redactor)
    }

    /// Covers what the records of `tool` mark as sensitive, and secrets if `has_secrets`.
    fn start(&mut self, tool: &Tool, has_secrets: bool) -> Result<(), Refusal> {
        let contract = tool.contract();
        let whole = tool.permission_profile().is_sensitive();
        if whole || contract.has_sensitive_fields() {
            if self.references.is_none() {
                self.references = Some(reference_key()?);
            }
            self.whole |= whole;
        }
        if self.references.is_some() || has_secrets || contract.redacts_output() {
            self.contract = Some(Arc::clone(contract));
            // The next call of `shown` builds the redactor.
            self.stale = true;
        }
        Ok(())
    }

    /// Fails if the request's secrets are unusable or in `input`: the caller chooses them, and could hide any argument
    /// from approvers and records.
    async fn bring(&mut self, brought: &Secrets, input: &Input) -> Result<(), Refusal> {
        brought::check(brought)?;
        let brought = brought.clone();
        let input = input.clone();
        let work = move || {
            let redactor = brought::redactor(&brought);
            let mut meter = SearchMeter::aside();
            // Also as it was written, because a parsed number can have fewer digits than the one that runs.
            let repeats = redactor.redact_within(&mut input.to_value(), &mut meter)
                || redactor.redact_text_within(&mut input.text().to_owned(), &mut meter);
            (redactor, repeats)
        };
        let (redactor, repeats) = self
            .checks
            .run("searching the arguments for secrets of the request", work)
            .await?;
        self.brought = redactor;
        if repeats && guard!("request_secret_arguments") {
            Err(brought::repeated("in the arguments"))
        } else {
            Ok(())
        }
    }

    /// Takes `names` from the request or else the store; redacts all values.
    async fn read_secrets(
        &mut self,
        store: &SecretStore,
        names: Vec<String>,
        brought: &Secrets,
    ) -> Result<(), Refusal> {
        if names.is_empty() && brought.is_empty() {
            return Ok(());
        }
        // Also those that no request of the tool may carry: a hook can know them, too.
        if guard!("request_secret_redaction") {
            Arc::make_mut(&mut self.terms).add(brought::terms(brought));
        }
        let is_brought = |name: &String| brought.get(name).is_some();
        let (of_request, of_store): (Vec<String>, Vec<String>) =
            names.into_iter().partition(is_brought);
        let of_request = of_request
            .into_iter()
            .filter_map(|name| brought.get(&name).cloned().map(|value| (name, value)));
        let mut known = of_request.collect::<Vec<_>>();
        let mut terms = Vec::new();
        for (name, value) in stored(store, of_store).await? {
            match value {
                Some(value) => {
                    terms.push(RedactionTerm::secret(&name, &value));
                    known.push((name, value));
                }
                None => self.missing.push(name),
            }
        }
        self.secrets = Secrets::new(known);
        Arc::make_mut(&mut self.terms).add(terms);
        if !(brought.is_empty() || self.secrets.is_empty()) {
            // Ahead of the run, which would build it inline, although a client chose its size.
            let secrets = self.secrets.clone();
            let work = move || _ = Scrubber::of_secrets(&secrets);
            self.checks
                .run("preparing the secrets of the request", work)
                .await?;
        }
        Ok(())
    }

    /// Fails for too many sensitive values to search for. The call ends without showing its input, so nothing is left
    /// to redact.
    fn check_terms(&mut self) -> Result<(), Refusal> {
        let Some(why) = self.terms.too_many() else {
            return Ok(());
        };
        self.terms = Arc::default();
        self.install(Redactor::default());
        Err(Refusal::new(ErrorCode::TooManySensitiveValues, why))
    }

    fn concealer(&self) -> Option<Concealer> {
        Some(Concealer {
            contract: Arc::clone(self.contract.as_ref()?),
            terms: Arc::clone(&self.terms),
            redactor: self.redactor.clone(),
            whole: self.whole,
            inputs: self.references.is_some(),
            stale: self.stale,
            renewed: false,
        })
    }

    fn learn(&mut self, concealer: Concealer) {
        if concealer.renewed {
            self.terms = concealer.terms;
            self.install(concealer.redactor);
        }
    }

    fn install(&mut self, redactor: Redactor) {
        self.trail.redact(redactor.clone());
        self.redactor = redactor;
        self.stale = false;
        self.latest = None;
    }

    /// Returns `input` for records, events, hooks and people; its sensitive values are redacted everywhere from now on.
    /// Errors of [`LongChecks::run`] end the call.
    pub(super) async fn shown(&mut self, input: &Input) -> Result<Value, Refusal> {
        let Some(mut concealer) = self.concealer() else {
            return Ok(input.to_value());
        };
        let hidden = (input.text().len() <= INLINE_BYTES_MAX).then(|| concealer.hide_input(input));
        let is_long = hidden.is_none() || !concealer.is_light();
        let input = input.clone();
        let work = move || {
            let mut value = hidden.unwrap_or_else(|| concealer.hide_input(&input));
            concealer.redact(&mut value, &mut meter(is_long));
            (value, concealer)
        };
        let what = "keeping sensitive arguments out of the record";
        match self.checks.run_if(is_long, what, work).await {
            Ok((value, concealer)) => {
                self.learn(concealer);
                Ok(value)
            }
            Err(refusal) => {
                self.install(Redactor::blind());
                Err(refusal)
            }
        }
    }

    /// As [`Self::shown`], without a copy if there is nothing to redact.
    pub(super) async fn recorded(&mut self, input: &Input) -> Result<Arc<Value>, Refusal> {
        if self.active().is_none() {
            return Ok(input.shared_value());
        }
        if let Some((_, shown)) = self.latest.as_ref().filter(|(known, _)| known.is(input)) {
            return Ok(Arc::clone(shown));
        }
        let shown = Arc::new(self.shown(input).await?);
        self.latest = Some((input.clone(), Arc::clone(&shown)));
        Ok(shown)
    }

    /// For an approver: with all digits of its numbers, because those run.
    pub(super) async fn shown_input(&mut self, input: &Input) -> Result<Input, Refusal> {
        if self.active().is_none() {
            return Ok(input.clone());
        }
        let rounded = Input::from_value(self.shown(input).await?);
        let exact = input.with_value(rounded.to_value());
        // A term or pattern may match a number as written, and not as a parsed value holds it.
        let mut meter = SearchMeter::inline();
        let redactor = &self.redactor;
        let matches = exact
            .numbers()
            .any(|number| redactor.redact_text_within(&mut number.to_owned(), &mut meter));
        Ok(if matches { rounded } else { exact })
    }

    pub(super) fn reference(&self, input: &Input) -> Arc<str> {
        match &self.references {
            Some(key) => key.conceal(input.reference()).into(),
            None => Arc::clone(input.shared_reference()),
        }
    }

    /// Returns whether references reveal nothing of the arguments.
    pub(super) fn conceals(&self) -> bool {
        self.references.is_some()
    }

    /// Conceals `reference` if arguments are sensitive, so that it reveals nothing.
    pub(super) fn concealed(&self, reference: &str) -> String {
        match &self.references {
            Some(key) => key.conceal(reference),
            None => reference.to_owned(),
        }
    }

    /// The grants' name for records (AT-EXEC-13).
    pub(super) fn sandbox(&self, permit: &Permit) -> String {
        self.concealed(&permit.capability().reference())
    }

    pub(super) fn shown_decision(
        &self,
        mut decision: Box<PermissionDecision>,
    ) -> Box<PermissionDecision> {
        if let Some(redactor) = self.active() {
            records::decision(redactor, &mut decision);
        }
        // It depends on what the arguments name.
        if let Some(Value::String(sandbox)) = decision.extra.get(SANDBOX_REF) {
            decision.name_sandbox(None, self.concealed(sandbox));
        }
        decision
    }

    /// Reports by which rules and where something was redacted, never what.
    pub(super) fn tell(&mut self) {
        if self.received {
            self.places.rule(SECRET);
        }
        for (rule, pointers) in self.places.iter() {
            let responses = self.received && rule == SECRET;
            let data = json!({
                "rule": rule, "pointers": pointers, "redaction_state": self.state(), "responses": responses,
            });
            self.trail.emit(EventType::ResultRedacted, data);
        }
    }
}

pub(super) async fn begin(journey: &mut CallState<'_>, tool: &Tool) -> Result<(), Refusal> {
    let secrets = wanted(tool, &journey.request);
    if let Some(hidden) = journey
        .request
        .lineage
        .as_ref()
        .and_then(|lineage| lineage.hidden.as_ref())
        && guard!("child_redaction")
    {
        journey.redaction.inherit(hidden)?;
    }
    journey.redaction.start(
        tool,
        !(secrets.is_empty() && journey.request.secrets.is_empty()),
    )?;
    if journey.redaction.active().is_none() {
        return Ok(());
    }
    // Boxed, to keep the future of a call small that has nothing to redact.
    Box::pin(hide_input(journey, secrets)).await
}

async fn hide_input(journey: &mut CallState<'_>, secrets: Vec<String>) -> Result<(), Refusal> {
    let input = journey.request.input.clone();
    // Until the input is redacted, the record shows none of it, whatever ends the call.
    journey.invocation.model_input = Arc::new(Value::String(REDACTED.to_owned()));
    let text = journey.invocation.model_input_text.take();
    journey.invocation.model_input_ref = journey.redaction.reference(&input);
    let posted = journey.invocation.posted_call().map(Value::take);
    let brought = journey.request.secrets.clone();
    if !brought.is_empty() {
        journey.redaction.bring(&brought, &input).await?;
    }
    brought::note(&mut journey.invocation, &secrets, &brought);
    // A failed read is reported once the input is redacted, so that the record shows the rest of it.
    let read = journey
        .redaction
        .read_secrets(&journey.services.secrets, secrets, &brought)
        .await;
    let shown = journey.redaction.recorded(&input).await?;
    journey.redaction.check_terms()?;
    if let (Some(place), Some(mut posted)) = (journey.invocation.posted_call(), posted) {
        journey.redaction.redactor.redact(&mut posted);
        *place = posted;
    }
    let text = text.filter(|_| shown == input.shared_value());
    journey.redaction.unproven = Some((shown, text));
    if !journey.redaction.needs_shape() {
        show_input(journey);
    }
    read
}

async fn stored(
    store: &SecretStore,
    names: Vec<String>,
) -> Result<Vec<(String, Option<SecretValue>)>, Refusal> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let store = store.clone();
    let read = move || {
        let values = store.values(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
        anyhow::Ok(names.into_iter().zip(values).collect::<Vec<_>>())
    };
    let found = STORE
        .run(read)
        .await
        .unwrap_or_else(|unfinished| Err(unfinished.into()));
    found.map_err(|error| {
        let message = "the secret store cannot be read; `toolcell secrets list` says why";
        Refusal::new(ErrorCode::SecretStoreUnreadable, message).detail(format!("{error:#}"))
    })
}

/// Declared and granted secrets. A call must not learn whether any other is set.
fn wanted(tool: &Tool, request: &Request) -> Vec<String> {
    let profile = tool.permission_profile();
    if !profile.wants(&AccessKind::Credential) {
        return Vec::new();
    }
    let granted = |name: &&String| {
        request
            .grants
            .secrets
            .iter()
            .any(|grant| grant.name == **name)
    };
    profile
        .credential_refs
        .iter()
        .filter(granted)
        .cloned()
        .collect()
}

pub(super) fn meter(is_long: bool) -> SearchMeter {
    if is_long {
        SearchMeter::aside()
    } else {
        SearchMeter::inline()
    }
}

fn reference_key() -> Result<ReferenceKey, Refusal> {
    ReferenceKey::new().map_err(|error| Refusal::host_fault(format!("{error:#}")))
}
