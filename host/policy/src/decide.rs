use std::collections::HashSet;

use toolcell_spec::{
    AccessKind, Behavior, ErrorCode, Mode, PermissionChannel, PermissionDecision, ReasonType,
    Refusal, RiskLevel, RuleSource, WriteEffect,
};

use super::call_subjects::{CallSubjects, NamedUrl, absolute, named};
use super::missing::{closed_by, closed_grant, closing, missing, outside, unreachable};
use super::narrow::{OutOfReach, narrow};
use super::network::Origin;
use super::record::record;
use super::rule_match::{RuleCall, RuleMatch, closed_places, matching};
use super::{
    ApprovalBrief, ApprovalQuestion, Capability, DecisionCase, Denial, Opinion, Permit,
    PermitTerms, PreflightPermit, ceiling, facts, sandbox_profile, suggestion,
};

const NO_RULE: &str = ", and no rule allows it";

#[derive(Debug)]
pub struct PolicyVerdict {
    /// Boxed, because it passes through several functions.
    pub decision: Box<PermissionDecision>,
    pub outcome: DecisionOutcome,
}

#[derive(Debug)]
pub enum DecisionOutcome {
    Allow(Box<Permit>),
    Ask(Box<ApprovalQuestion>),
    Deny(Refusal),
}

/// Decides on a call and its capability.
///
/// Denials of any layer come first, then questions, then allowances. Every declared access kind must be granted,
/// because no tool starts without its needs; grants are narrowed to the profile, and to paths and origins in the
/// arguments.
pub fn decide(case: DecisionCase<'_>) -> PolicyVerdict {
    let assessed = assess(&case);
    let decision = record(&case, &assessed);
    let CallAssessment {
        ruling,
        world,
        risk,
        ..
    } = assessed;
    if let Some(refusal) = ruling.refusal {
        return PolicyVerdict {
            decision,
            outcome: DecisionOutcome::Deny(refusal),
        };
    }
    let brief = (ruling.behavior == Behavior::Ask).then(|| ApprovalBrief {
        tool_id: case.tool_id().to_owned(),
        risk,
        reason: ruling.message,
        source: ruling.source,
        rule_refs: ruling.rule_refs,
    });
    let permit = Permit::mint(PermitTerms {
        guest_input: absolute(case.declared.subjects, &case.input, &world),
        changes_nothing: facts::changes_nothing(case.declared.profile, &world),
        is_concurrency_safe: facts::effective(&case, &world).is_concurrency_safe == Some(true),
        subject: case.subject,
        call_input: case.input,
        capability: world,
        limits: case.limits,
    });
    let outcome = match brief {
        Some(brief) => DecisionOutcome::Ask(Box::new(ApprovalQuestion::new(permit, brief))),
        None => DecisionOutcome::Allow(permit),
    };
    PolicyVerdict { decision, outcome }
}

/// Read access of preflight; `None` if the call is denied, or needs an approval first.
pub fn look(case: DecisionCase<'_>) -> Option<PreflightPermit> {
    match decide(case).outcome {
        DecisionOutcome::Allow(permit) => Some(PreflightPermit::from_permit(&permit)),
        DecisionOutcome::Ask(_) | DecisionOutcome::Deny(_) => None,
    }
}

/// Reasons for a decision, without a permit.
///
/// ```
/// use toolcell_policy::Explanation;
/// use toolcell_spec::Behavior;
///
/// /// `true` if the call would wait for an approval.
/// fn asks(explanation: &Explanation) -> bool {
///     explanation.decision.behavior == Behavior::Ask
/// }
/// ```
#[derive(Debug)]
pub struct Explanation {
    pub decision: PermissionDecision,
    /// `None` if the call would not be denied.
    pub refusal: Option<Refusal>,
    /// Comparison with every rule, the highest authority first.
    pub looks: Vec<RuleMatch>,
    pub capability: Capability,
    /// Declared, or a higher one implied by effects.
    pub risk: RiskLevel,
}

pub fn explain(case: &DecisionCase<'_>) -> Explanation {
    let assessed = assess(case);
    let decision = record(case, &assessed);
    let CallAssessment {
        ruling,
        world,
        risk,
        looks,
    } = assessed;
    Explanation {
        decision: *decision,
        refusal: ruling.refusal,
        looks,
        capability: world,
        risk,
    }
}

pub(super) struct CallAssessment {
    pub(super) ruling: Ruling,
    pub(super) world: Capability,
    pub(super) risk: RiskLevel,
    looks: Vec<RuleMatch>,
}

pub(super) struct Ruling {
    pub(super) behavior: Behavior,
    pub(super) source: Option<RuleSource>,
    pub(super) kind: ReasonType,
    pub(super) message: String,
    pub(super) rule_refs: Vec<String>,
    pub(super) blocked_path: Option<String>,
    /// The rule without which an approval was required.
    pub(super) waiver_ref: Option<String>,
    /// `Some` exactly if the call is denied.
    pub(super) refusal: Option<Refusal>,
}

impl Ruling {
    pub(super) fn deny(kind: ReasonType, refusal: Refusal) -> Self {
        let message = refusal.message.clone();
        Self {
            refusal: Some(refusal),
            ..Self::new(Behavior::Deny, kind, message)
        }
    }

    pub(super) fn refuse(kind: ReasonType, code: ErrorCode, message: String) -> Self {
        Self::deny(kind, Refusal::new(code, message))
    }

    /// The first rule or grant names the source.
    fn add(&mut self, words: &str, source: RuleSource) {
        if !self.rule_refs.iter().any(|known| known == words) {
            self.source = self.source.or(Some(source));
            self.rule_refs.push(words.to_owned());
        }
    }

    fn new(behavior: Behavior, kind: ReasonType, message: String) -> Self {
        Self {
            behavior,
            source: None,
            kind,
            message,
            rule_refs: Vec::new(),
            blocked_path: None,
            waiver_ref: None,
            refusal: None,
        }
    }

    fn by(mut self, looks: &[RuleMatch], behavior: Behavior) -> Self {
        let deciding = || matching(looks, behavior);
        self.source = deciding().next().map(|look| look.source);
        self.rule_refs = deciding().map(|look| look.rule.clone()).collect();
        self.blocked_path = deciding()
            .find_map(|look| look.blocked.as_ref())
            .map(|path| path.display().to_string());
        self
    }
}

fn assess(case: &DecisionCase<'_>) -> CallAssessment {
    let closed: Vec<Denial> = case.grants.denials();
    let wide = ceiling::effective(case, &closed);
    let risk = risk(case, &wide);
    let denied = |ruling, looks| CallAssessment {
        ruling,
        world: Capability::default(),
        risk,
        looks,
    };
    let named = match named(case.declared.subjects, &case.input, &wide) {
        Ok(named) => named,
        Err(refusal) => {
            return denied(Ruling::deny(ReasonType::SafetyCheck, refusal), Vec::new());
        }
    };
    let call = RuleCall {
        case,
        risk,
        named: &named,
        wide: &wide,
    };
    let looks: Vec<RuleMatch> = case
        .policy
        .rules()
        .iter()
        .map(|rule| call.look(rule))
        .collect();
    let world = world(&call, closed, &looks).and_then(|world| ceiling::check(case, world));
    match world {
        Ok(world) => CallAssessment {
            ruling: rule(&call, &looks, &world),
            world,
            risk,
            looks,
        },
        Err(mut ruling) => {
            // A call that another call makes gets no more than that one has, whatever is granted.
            if let (Some(refusal), Some(_)) = (&mut ruling.refusal, case.ceiling) {
                refusal.needs_authorization = None;
            }
            denied(*ruling, looks)
        }
    }
}

/// Intersection of declaration and grants, without denials, narrowed to the arguments, and by the tool's own sandbox
/// profile and read-only claims.
fn world(
    call: &RuleCall<'_>,
    mut closed: Vec<Denial>,
    looks: &[RuleMatch],
) -> Result<Capability, Box<Ruling>> {
    let case = call.case;
    if let Some(refusal) = case.grants.refusal(case.protected) {
        return Err(refused_call(refusal));
    }
    if let Some(look) = matching(looks, Behavior::Deny).next() {
        let reason = look
            .reason
            .as_deref()
            .map(|reason| format!(": {reason}"))
            .unwrap_or_default();
        let message = format!("a rule denies this call of {}{reason}", case.tool_id());
        let ruling = Ruling::refuse(ReasonType::Rule, ErrorCode::DeniedByRule, message);
        return Err(ruling.by(looks, Behavior::Deny).into());
    }
    let (paths, urls) = closed_places(call);
    let mut wide = call.wide.clone();
    let again: CallSubjects;
    let mut named = call.named;
    if !paths.is_empty() {
        closed.extend(paths);
        wide = ceiling::effective(case, &closed);
        again = super::call_subjects::named(case.declared.subjects, &case.input, &wide)
            .map_err(refused_call)?;
        named = &again;
    }
    wide.closed_urls = urls;
    let mut known = HashSet::new();
    let mut origins: Vec<Origin> = named.urls.iter().filter_map(NamedUrl::origin).collect();
    origins.retain(|origin| known.insert(origin.clone()));
    ceiling::reach(case, &mut wide, &origins);
    let mut lacking: Vec<Ruling> = Vec::new();
    // A folder that may be written may be read.
    let is_said = |kind: &&AccessKind| {
        **kind == AccessKind::FileRead
            && case.declared.profile.wants_file_write()
            && !wide.is_writable()
    };
    let kinds = case.declared.profile.access_kinds.iter();
    for kind in kinds.filter(|kind| !is_said(kind)) {
        let ruling = missing(call, kind, &wide, &origins);
        lacking.extend(ruling.map(|ruling| ceiling::blame(call, kind, &closed, &origins, ruling)));
    }
    if !wide.network.is_empty() {
        let urls = named.urls.iter();
        lacking.extend(urls.filter_map(|url| unreachable(case, &wide, url)));
    }
    lacking.extend(named.paths.iter().find_map(|path| closed_grant(call, path)));
    if !lacking.is_empty() {
        // What the paths lack is said with the rest.
        let narrowed = (!wide.mounts.is_empty()).then(|| narrowed(call, &wide, named));
        lacking.extend(narrowed.and_then(Result::err).map(|ruling| *ruling));
    }
    if let Some(ruling) = suggestion::together_refused(lacking) {
        return Err(ruling);
    }
    sandbox_profile::apply(case.declared, &mut wide).map_err(refused_call)?;
    if only_reads(case) {
        wide.read_only();
    }
    if named.paths.is_empty() || wide.mounts.is_empty() {
        return Ok(wide);
    }
    narrowed(call, &wide, named)
}

/// A classification only recommends, so it cannot make plan mode allow a call (AT-DEC-13).
fn only_reads(case: &DecisionCase<'_>) -> bool {
    let classified = case.classified.filter(|_| case.policy.mode != Mode::Plan);
    case.declared.claims_read_only(classified)
}

fn refused_call(refusal: Refusal) -> Box<Ruling> {
    Box::new(Ruling::deny(ReasonType::SafetyCheck, refusal))
}

fn narrowed(
    call: &RuleCall<'_>,
    wide: &Capability,
    named: &CallSubjects,
) -> Result<Capability, Box<Ruling>> {
    narrow(wide, &named.paths).map_err(|out| {
        let OutOfReach {
            refusal,
            outside: paths,
            path,
        } = *out;
        let blocked_path = Some(path.display().to_string());
        let refusal = match paths.as_slice() {
            [] => refusal,
            // `wide` is not writable for a call that claims to read only, so that it is not given more.
            paths => outside(call.case, refusal, paths, wide.is_writable()),
        };
        let closed = (refusal.code == ErrorCode::DeniedByRule)
            .then(|| closing(call, &path, |read| read))
            .flatten();
        if closed.is_some() {
            return Box::new(closed_by(closed, refusal.message));
        }
        Box::new(Ruling {
            blocked_path,
            ..Ruling::deny(ReasonType::WorkingDir, refusal)
        })
    })
}

/// At least what effects and `wide` imply.
fn risk(case: &DecisionCase<'_>, wide: &Capability) -> RiskLevel {
    let profile = case.declared.profile;
    let least = if profile.has_effect(&WriteEffect::Irreversible) {
        RiskLevel::High
    } else if wide.is_writable() || profile.has_effect(&WriteEffect::RemoteMutation) {
        RiskLevel::Medium
    } else {
        RiskLevel::Low
    };
    profile.risk_level.max(least)
}

/// By authority: mode, denials of hooks, questions, allowances. A hook's `allow` leaves questions.
fn rule(call: &RuleCall<'_>, looks: &[RuleMatch], world: &Capability) -> Ruling {
    let case = call.case;
    if case.policy.mode == Mode::Plan
        && let Some(effect) = effect(case, world)
    {
        let message = format!(
            "{} {effect}, and plan mode runs only calls without effects",
            case.tool_id()
        );
        return Ruling::refuse(ReasonType::Mode, ErrorCode::PlanMode, message);
    }
    let opinion = |behavior| case.opinion.filter(|said| said.behavior == behavior);
    if let Some(said) = opinion(Behavior::Deny).filter(|_| guard!("hook_denials")) {
        let Opinion {
            hook_id, reason, ..
        } = said;
        let message = format!("the hook {hook_id} denies {}: {reason}", case.tool_id());
        return Ruling::refuse(ReasonType::Hook, ErrorCode::DeniedByHook, message);
    }
    if let Some(look) = matching(looks, Behavior::Ask).next() {
        let reason = look
            .reason
            .clone()
            .unwrap_or_else(|| "a rule asks before this call".to_owned());
        return ask(
            case,
            Ruling::new(Behavior::Ask, ReasonType::Rule, reason).by(looks, Behavior::Ask),
        );
    }
    if let Some(said) = opinion(Behavior::Ask) {
        let Opinion {
            hook_id, reason, ..
        } = said;
        let message = format!("the hook {hook_id} asks for an approval: {reason}");
        return ask(case, Ruling::new(Behavior::Ask, ReasonType::Hook, message));
    }
    let named = matching(looks, Behavior::Allow).any(|look| look.names_tool);
    if let Some(mut reason) = asks(case, call.risk, named) {
        if looks.iter().any(|look| look.unbound) {
            let component = &case.subject.component;
            reason.push_str(&format!(
                "; an allow rule for this name also needs component = \"{component}\""
            ));
        }
        return ask(
            case,
            Ruling::new(Behavior::Ask, ReasonType::SafetyCheck, reason),
        );
    }
    let ruling = waived(call, looks, allow(case, looks, world));
    match opinion(Behavior::Passthrough) {
        Some(said) if ruling.rule_refs.is_empty() => {
            let message = format!(
                "the hook {} leaves it to the rules, and no rule allows it",
                said.hook_id
            );
            ask(case, Ruling::new(Behavior::Ask, ReasonType::Hook, message))
        }
        _ => ruling,
    }
}

/// Names the rule, if the call would need an approval without it.
fn waived(call: &RuleCall<'_>, looks: &[RuleMatch], mut ruling: Ruling) -> Ruling {
    let waiver = matching(looks, Behavior::Allow).find(|look| look.names_tool);
    if let Some(waiver) = waiver
        && let Some(asked) = asks(call.case, call.risk, false)
    {
        let because = waiver
            .reason
            .as_deref()
            .map(|reason| format!(": {reason}"))
            .unwrap_or_default();
        let asked = asked.strip_suffix(NO_RULE).unwrap_or(&asked);
        ruling.kind = ReasonType::Policy;
        ruling.message = format!("a rule waives the approval ({asked}){because}");
        ruling.waiver_ref = Some(waiver.rule.clone());
    }
    ruling
}

fn effect(case: &DecisionCase<'_>, world: &Capability) -> Option<&'static str> {
    let profile = case.declared.profile;
    if world.is_writable() {
        Some("can change files")
    } else if profile.has_effect(&WriteEffect::RemoteMutation) {
        Some("can change things elsewhere")
    } else if profile.has_effect(&WriteEffect::Irreversible) {
        Some("does what cannot be undone")
    } else if !profile.credential_refs.is_empty() {
        Some("uses credentials")
    } else {
        None
    }
}

/// The profile's reason for an approval (AT-PERM-03, 05, 10). `named`: a rule allows the tool by a name bound to bytes,
/// or by its component digest.
fn asks(case: &DecisionCase<'_>, risk: RiskLevel, named: bool) -> Option<String> {
    let profile = case.declared.profile;
    if profile.has_effect(&WriteEffect::Irreversible) {
        return Some("what the tool does cannot be undone".to_owned());
    }
    let preapproved =
        named && case.policy.mode == Mode::NonInteractive && profile.accepts_preapproval();
    if profile.approval_required == Some(true) && !preapproved {
        let why = profile
            .approval_reason
            .as_deref()
            .map(|why| format!(": {why}"))
            .unwrap_or_default();
        return Some(format!("the tool's profile requires an approval{why}"));
    }
    if case.declared.needs_user && guard!("needed_users") {
        return Some("the tool requires that a user takes part in each call".to_owned());
    }
    if let Some(why) = case
        .declared
        .unheard
        .filter(|_| !named && guard!("unheard_policies"))
    {
        return Some(why.to_owned());
    }
    (risk >= RiskLevel::High && !named)
        .then(|| format!("its risk is {risk:?}{NO_RULE}").to_lowercase())
}

/// A denial, if mode or profile forbids asking.
fn ask(case: &DecisionCase<'_>, mut question: Ruling) -> Ruling {
    if let Some(ceiling) = case.ceiling {
        // The approver has to know that the arguments come from a tool.
        question
            .message
            .push_str(&format!("; the tool {} makes this call", ceiling.caller));
    }
    let why = match case.policy.mode {
        Mode::NonInteractive => "this mode asks for none",
        // It says what would run. A question would keep its caller until it expires.
        Mode::Plan => "plan mode asks for none",
        _ if case.declared.profile.permission_channel == Some(PermissionChannel::None) => {
            "the tool's profile has no channel for one"
        }
        _ => return question,
    };
    let message = format!(
        "{} needs an approval ({}), and {why}",
        case.tool_id(),
        question.message
    );
    let refusal = Refusal::new(ErrorCode::ApprovalNotPossible, message.clone());
    Ruling {
        behavior: Behavior::Deny,
        kind: ReasonType::Mode,
        message,
        refusal: Some(refusal),
        ..question
    }
}

fn allow(case: &DecisionCase<'_>, looks: &[RuleMatch], world: &Capability) -> Ruling {
    let allowed = |kind, message: &str| Ruling::new(Behavior::Allow, kind, message.to_owned());
    let mut ruling = if case.declared.profile.access_kinds.is_empty() {
        allowed(ReasonType::SafetyCheck, "the tool asks for no access")
    } else {
        allowed(
            ReasonType::Rule,
            "everything that the tool declares was granted",
        )
    };
    if matching(looks, Behavior::Allow).next().is_some() {
        ruling = Ruling {
            kind: ReasonType::Rule,
            ..ruling.by(looks, Behavior::Allow)
        };
    }
    for grant in case.grants.folders() {
        let stands_behind = world
            .mounts
            .iter()
            .any(|mount| mount.host.starts_with(&grant.host));
        if stands_behind {
            ruling.add(&grant.rule, grant.source);
        }
    }
    for (words, source) in world.network.rules() {
        ruling.add(words, source);
    }
    for granted in &case.grants.secrets {
        let used = world
            .secrets
            .iter()
            .any(|used| used.name == granted.name && used.origin == granted.origin);
        if used {
            ruling.add(&granted.rule, granted.source);
        }
    }
    if ruling.source.is_none() && ruling.kind == ReasonType::Rule {
        // No grant was needed, for example because the tool writes only drafts.
        ruling.kind = ReasonType::SafetyCheck;
    }
    ruling
}
