mod profiles;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use toolcell_spec::{
    AccessKind, ArtifactExpectation, ContextModifierPolicy, Effects, EmptyResultPolicy, ErrorCode,
    ExecutionProfile, Finding, Lifecycle, OutputContract, OutputRetention, PermissionProfile,
    Refusal, RenderingBoundary, SafetyFacts, SchemaVisibility, Strategy, SubjectField, SubjectKind,
    ToolDeclaration, ToolInterface, Toolkit, TypedFields, is_subject, operation_ids,
};

use super::ToolContract;
use super::configuration::ToolSettings;
use super::export;
use super::load::LoadBudget;
use super::locks::DeclaredLocks;
use super::records::ToolRecords;

const ERRORS_MAX: usize = 32;
const FALLBACK_CHARS_MAX: usize = 1_000;

/// Interfaces for calling tools: of toolcell and IronClaw.
const CALLING: [&str; 2] = ["toolcell:tool/tools@", "near:agent/host@"];

/// Observed facts about a component: the execution profile's flags come from them, never from a claim.
#[derive(Clone, Debug, Default)]
pub struct ComponentFacts {
    /// `sha256:<hex>` of the component.
    pub component: Arc<str>,
    pub imports: Vec<String>,
    pub validates: bool,
    pub classifies: bool,
    pub configures: bool,
    /// `true` if files left in its scratch folder become artifacts.
    pub leaves_files: bool,
    /// `true` if it uses files without declaring for which tools and how.
    pub takes_granted_files: bool,
}

impl ComponentFacts {
    fn import(&self, interfaces: &[&str]) -> bool {
        self.imports
            .iter()
            .any(|import| interfaces.iter().any(|start| import.starts_with(start)))
    }
}

/// One tool of one component, ready to be called.
///
/// ```
/// use toolcell_engine::catalog::Tool;
/// use toolcell_spec::AccessKind;
///
/// /// `true` if a user interface should warn before it offers the tool.
/// fn warns(tool: &Tool) -> bool {
///     tool.permission_profile().wants(&AccessKind::FileWrite) || tool.facts().is_destructive == Some(true)
/// }
/// ```
#[derive(Debug)]
pub struct Tool {
    declaration: Arc<ToolDeclaration>,
    interface: Option<ToolInterface>,
    execution_profile: ExecutionProfile,
    permission_profile: PermissionProfile,
    contract: Arc<ToolContract>,
    component: Arc<str>,
    name: Arc<str>,
    runtime_refs: Vec<String>,
    subjects: Vec<SubjectField>,
    operation_ids: Vec<String>,
    locks: DeclaredLocks,
    gaps: Vec<Finding>,
    validates: bool,
    classifies: bool,
    configuration: ToolSettings,
    calls_tools: bool,
    takes_granted_files: bool,
    keeping: OutputRetention,
    notes: Vec<Finding>,
}

impl Tool {
    /// Builds the tools of `toolkit`, whose references resolve. One invalid contract refuses all. The errors name at
    /// most 32, and stop where the load budget or `wall` is exceeded.
    pub fn from_toolkit(
        toolkit: Toolkit,
        notes: &[Finding],
        facts: &ComponentFacts,
        wall: Duration,
    ) -> Result<Vec<Arc<Self>>, Vec<Finding>> {
        Self::all(toolkit, notes, facts, LoadBudget::new(wall))
    }

    /// As [`Self::from_toolkit`], for a toolkit accepted by this version of the checks: nothing is measured, and
    /// schemas are compiled when first needed.
    pub fn from_accepted(
        toolkit: Toolkit,
        notes: &[Finding],
        facts: &ComponentFacts,
    ) -> Result<Vec<Arc<Self>>, Vec<Finding>> {
        Self::all(toolkit, notes, facts, LoadBudget::accepted())
    }

    fn all(
        toolkit: Toolkit,
        notes: &[Finding],
        facts: &ComponentFacts,
        mut budget: LoadBudget,
    ) -> Result<Vec<Arc<Self>>, Vec<Finding>> {
        let mut tools = Vec::with_capacity(toolkit.declarations.len());
        let mut errors = Vec::new();
        for (at, declaration) in toolkit.declarations.iter().enumerate() {
            if budget.is_exceeded() {
                break;
            }
            match Self::new(
                declaration,
                &ToolRecords::from_toolkit(at, declaration, &toolkit),
                notes,
                facts,
                &mut budget,
            ) {
                Ok(tool) => tools.push(tool),
                Err(_) if errors.len() == ERRORS_MAX => {}
                Err(error) => {
                    let message = format!("the tool {}: {error:#}", declaration.qualified_name());
                    errors.push(Finding::new(&format!("/declarations/{at}"), &message));
                }
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        profiles::set_apart(&mut tools);
        Ok(tools.into_iter().map(Arc::new).collect())
    }

    fn new(
        declaration: &ToolDeclaration,
        records: &ToolRecords<'_>,
        notes: &[Finding],
        facts: &ComponentFacts,
        budget: &mut LoadBudget,
    ) -> anyhow::Result<Self> {
        budget.in_time()?;
        let declared = records.interface;
        let mut permission_profile = records
            .permission_profile
            .cloned()
            .unwrap_or_else(|| PermissionProfile::none(&declaration.tool_id));
        if let Some(asked) = declared.and_then(ToolInterface::asked_sandbox) {
            permission_profile
                .sandbox_profile
                .get_or_insert_with(|| asked.to_owned());
        }
        let mappings = || {
            let of_interface = declared.and_then(|declared| declared.external_mappings.as_ref());
            let records = [declaration.external_mappings.as_ref(), of_interface];
            records.into_iter().flatten().flatten()
        };
        for name in mappings().flat_map(|mapping| mapping.security_schemes().unwrap_or_default()) {
            permission_profile.require_secret(name);
        }
        let asked = records
            .execution_profile
            .cloned()
            .unwrap_or_else(|| ExecutionProfile {
                execution_profile_id: format!("{}.execution", declaration.tool_id),
                ..ExecutionProfile::default()
            });
        let contract = ToolContract::compile(declaration, declared, budget)?;
        let interface = declared.map(|interface| export::interface(interface, &contract));
        let mut notes: Vec<Finding> = notes
            .iter()
            .filter(|note| records.hold(note))
            .cloned()
            .collect();
        let execution_profile = profiles::effective(
            asked.clone(),
            interface.as_ref(),
            &permission_profile,
            facts,
        );
        notes.extend(records.overruled(&asked, &execution_profile));
        Ok(Self {
            subjects: subjects(interface.as_ref(), contract.model_schema())?,
            operation_ids: operation_ids(mappings()),
            locks: DeclaredLocks::from_interface(
                declared,
                &facts.component,
                (&declaration.name, records.has_context),
            ),
            gaps: records.gaps.clone(),
            validates: facts.validates,
            classifies: facts.classifies,
            configuration: ToolSettings::new(facts.configures),
            calls_tools: facts.import(&CALLING),
            takes_granted_files: facts.takes_granted_files,
            keeping: keeping(declaration, interface.as_ref(), &permission_profile),
            declaration: Arc::new(export::declaration(declaration, &contract)),
            contract: Arc::new(contract),
            execution_profile,
            interface,
            permission_profile,
            component: Arc::clone(&facts.component),
            name: declaration.name.as_str().into(),
            runtime_refs: vec![format!("component:{}", facts.component)],
            notes,
        })
    }

    /// The declaration (AT-DECL-01..18), without internal-only fields for a model.
    pub fn declaration(&self) -> &Arc<ToolDeclaration> {
        &self.declaration
    }

    /// The interface (AT-IF-01..10); `None` if undeclared.
    pub fn interface(&self) -> Option<&ToolInterface> {
        self.interface.as_ref()
    }

    /// The execution profile (AT-EXEC-01..16), with observed flags.
    pub fn execution_profile(&self) -> &ExecutionProfile {
        &self.execution_profile
    }

    /// The requested permissions (AT-PERM-01..18); empty if undeclared.
    pub fn permission_profile(&self) -> &PermissionProfile {
        &self.permission_profile
    }

    pub fn contract(&self) -> &Arc<ToolContract> {
        &self.contract
    }

    /// `sha256:<hex>`.
    pub fn component(&self) -> &Arc<str> {
        &self.component
    }

    /// The component's name for the tool.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// References for records: `component:sha256:<hex>` (AT-INV-16).
    pub fn runtime_refs(&self) -> &[String] {
        &self.runtime_refs
    }

    /// Arguments with a call's permission subjects (AT-IF-07).
    pub fn subjects(&self) -> &[SubjectField] {
        &self.subjects
    }

    /// Declared ids of operations in other protocols, for rules (AT-IF-07).
    pub(crate) fn operation_ids(&self) -> &[String] {
        &self.operation_ids
    }

    pub(crate) fn locks(&self) -> &DeclaredLocks {
        &self.locks
    }

    fn declared<T>(&self, word: impl Fn(&ToolInterface) -> Option<T>) -> Option<T> {
        self.interface.as_ref().and_then(word)
    }

    fn output_contract(&self) -> Option<&OutputContract> {
        self.declaration.output_contract.as_ref()
    }

    pub(crate) fn gap(&self) -> Option<Refusal> {
        let gap = self.gaps.first()?;
        let id = &self.declaration.tool_id;
        let message = format!(
            "{id} cannot be called here: {} of its records: {}",
            gap.path, gap.message
        );
        Some(Refusal::new(ErrorCode::DeclarationNotHonoured, message))
    }

    /// Returns whether only other tools can call the tool (AT-IF-02).
    pub(crate) fn is_internal(&self) -> bool {
        let visibility = self.declared(|interface| interface.schema_visibility);
        visibility == Some(SchemaVisibility::Internal) && guard!("internal_tools")
    }

    /// Returns whether, as declared, the schema is listed only after a caller loads it (AT-LIFE-05, AT-IF-02).
    pub(crate) fn is_deferred(&self) -> bool {
        let visibility = self.declared(|interface| interface.schema_visibility);
        self.declaration.lifecycle == Lifecycle::Deferred
            || visibility == Some(SchemaVisibility::Deferred)
    }

    pub(crate) fn needs_user(&self) -> bool {
        self.declared(|interface| interface.requires_user_interaction) == Some(true)
    }

    /// Reason why rules and policies that the tool names may be unheard: a call then needs an approval.
    pub(crate) fn unheard(&self) -> Option<&'static str> {
        if !self.permission_profile.policy_refs.is_empty() {
            return Some("its profile names policies that are not known here");
        }
        let has_native_ids = !self.operation_ids.is_empty();
        let interface = self.interface.as_ref();
        if interface.is_some_and(|interface| !interface.is_matched(has_native_ids)) {
            return Some("its permission_matcher is not known here");
        }
        let subjects = interface.map(|interface| &interface.permission_subjects);
        let none = BTreeMap::new();
        let is_heard = |field: &Value| {
            field
                .as_str()
                .is_some_and(|field| is_subject(field, subjects.unwrap_or(&none), has_native_ids))
        };
        let fields = self.permission_profile.extra.list("rule_matching_fields");
        let are_heard = fields.iter().all(is_heard);
        (!are_heard).then_some("its rule_matching_fields name what no argument is declared to hold")
    }

    /// Record parts without effect on this host.
    pub fn notes(&self) -> &[Finding] {
        &self.notes
    }

    /// Returns whether listings show the tool: others run only for callers that know their name, or never.
    pub fn is_offered(&self) -> bool {
        self.declaration.lifecycle.is_offered()
            && self.is_enabled()
            && self.gaps.is_empty()
            && !self.is_internal()
    }

    /// Returns whether the tool can be selected everywhere (AT-IF-04).
    pub fn is_enabled(&self) -> bool {
        self.interface
            .as_ref()
            .is_none_or(ToolInterface::is_enabled)
    }

    /// Returns whether the tool can be selected where these feature gates are open.
    pub fn is_enabled_with(&self, features: &BTreeSet<String>) -> bool {
        let is_open = |feature| features.contains(feature);
        self.is_enabled() || self.feature().is_some_and(is_open)
    }

    /// The feature gate that allows selecting the tool.
    pub fn feature(&self) -> Option<&str> {
        self.interface.as_ref().and_then(ToolInterface::feature)
    }

    /// Returns whether the component validates its inputs itself.
    pub fn validates(&self) -> bool {
        self.validates
    }

    /// Returns whether the component can classify one input.
    pub fn classifies(&self) -> bool {
        self.classifies
    }

    /// Returns whether the component takes operator settings.
    pub fn is_configurable(&self) -> bool {
        self.configuration.is_taken()
    }

    /// Gives the tool settings, a JSON object that each call passes to the component first. They are not secret: the
    /// tool may say them. Repeating them changes nothing.
    ///
    /// # Errors
    ///
    /// A component that takes no settings; other settings than before; a text larger than 64 KiB or not an object.
    pub fn configure(&self, config: &str) -> Result<(), Refusal> {
        self.configuration.give(config).map_err(|(code, why)| {
            let message = format!(
                "cannot configure the tool {}: {why}",
                self.declaration.qualified_name()
            );
            Refusal::new(code, message)
        })
    }

    pub(crate) fn configuration(&self) -> Option<&Arc<str>> {
        self.configuration.given()
    }

    /// Returns whether the component can call other tools, if granted.
    pub fn calls_tools(&self) -> bool {
        self.calls_tools
    }

    /// Returns whether the tool cannot be called while a granted folder is missing (AT-LIFE-04).
    pub(crate) fn needs_folders(&self) -> bool {
        let profile = self.permission_profile();
        profile.wants(&AccessKind::FileRead)
            || profile.wants_file_write()
            || self.takes_granted_files
    }

    /// Returns whether the tool can use undeclared files, if a command grants folders only to its component.
    pub fn takes_granted_files(&self) -> bool {
        self.takes_granted_files
    }

    /// Returns whether the tool can change its caller's context (AT-EXEC-11).
    pub(crate) fn modifies_context(&self) -> bool {
        self.execution_profile.supports_context_modifiers == Some(true)
    }

    /// The tool's policy for its context modifiers, if declared (AT-IF-08).
    pub(crate) fn context_modifier_policy(&self) -> Option<ContextModifierPolicy> {
        self.declared(|interface| interface.context_modifier_policy)
    }

    /// Claims for every input.
    pub fn facts(&self) -> SafetyFacts {
        self.interface
            .as_ref()
            .map(ToolInterface::facts)
            .unwrap_or_default()
    }

    /// Assumed effects (AT-N-03).
    pub(crate) fn effects(&self) -> Effects {
        Effects::from_records(
            &self.declaration.tool_kind,
            self.interface.as_ref(),
            &self.permission_profile,
        )
    }

    /// The shortest timeout that the tool asks for, in milliseconds.
    pub fn timeout_ms(&self) -> Option<u64> {
        let interface = self.declared(|interface| interface.timeout_ms);
        least(interface, self.execution_profile.timeout_ms)
    }

    /// Declared maximum of inline output in bytes (AT-OUT-05).
    pub fn max_inline_bytes(&self) -> Option<u64> {
        self.output_contract()?.max_inline_bytes
    }

    /// Declared maximum of inline output in characters (AT-OUT-05, AT-IF-10).
    pub fn max_inline_chars(&self) -> Option<u64> {
        let contract = self
            .output_contract()
            .and_then(|contract| contract.max_inline_chars);
        let interface = self.declared(|interface| interface.max_inline_chars);
        least(contract, interface)
    }

    /// The tool's limits on keeping output (AT-OUT-06). `secret` data is in no result.
    pub fn keeping(&self) -> OutputRetention {
        self.keeping
    }

    /// The output strategy where size does not decide (AT-IF-10).
    pub(super) fn persistence_policy(&self) -> Strategy {
        let contract = self
            .output_contract()
            .and_then(|contract| contract.persistence_policy_ref);
        let named =
            contract.or_else(|| self.declared(|interface| interface.persistence_policy_ref));
        match self.keeping {
            OutputRetention { output: false, .. } => Strategy::Redact,
            OutputRetention { journal: false, .. } => Strategy::NeverPersist,
            OutputRetention { payload: false, .. } => Strategy::DropWithReason,
            OutputRetention { inline: false, .. } => Strategy::RefOnly,
            _ => named.unwrap_or(Strategy::PreviewAndPersist),
        }
    }

    /// The arguments that the component classifies; `None` for all (AT-IF-06).
    pub(crate) fn classifier_input(&self) -> Option<Vec<String>> {
        self.declared(ToolInterface::classifier_input)
    }

    pub(crate) fn empty_result_policy(&self) -> EmptyResultPolicy {
        let interface = self.interface.as_ref();
        interface.map_or_else(
            EmptyResultPolicy::default,
            ToolInterface::empty_result_policy,
        )
    }

    pub(crate) fn rendering_boundary(&self) -> RenderingBoundary {
        self.output_contract().map_or_else(
            RenderingBoundary::default,
            OutputContract::rendering_boundary,
        )
    }

    /// Artifacts without which an output is only partial (AT-OUT-04).
    pub fn artifact_expectations(&self) -> &[ArtifactExpectation] {
        self.output_contract()
            .map_or(&[][..], |contract| &contract.artifact_expectations)
    }

    /// The text for a dropped or redacted output (AT-OUT-09).
    pub fn fallback_summary(&self) -> Option<String> {
        let summary = self.output_contract()?.fallback_summary.as_deref()?;
        let cut: String = summary.chars().take(FALLBACK_CHARS_MAX).collect();
        Some(self.contract.shown(&cut).into_owned())
    }
}

/// Not a minimum over an array, whose 16 KiB of code each call would read.
fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

fn keeping(
    declaration: &ToolDeclaration,
    interface: Option<&ToolInterface>,
    profile: &PermissionProfile,
) -> OutputRetention {
    let contract = declaration
        .output_contract
        .as_ref()
        .and_then(|contract| contract.persistence_policy_ref);
    let interface = interface.and_then(|interface| interface.persistence_policy_ref);
    let secret = profile.is_secret() && guard!("secret_results");
    let hinted = profile.is_transient().then_some(Strategy::NeverPersist);
    let chosen = [
        contract,
        interface,
        secret.then_some(Strategy::RefOnly),
        hinted,
    ]
    .into_iter()
    .flatten();
    chosen.fold(OutputRetention::default(), |keeping, strategy| {
        keeping.and(OutputRetention::by(strategy))
    })
}

/// A pointer that leads to no argument is an error: it would narrow nothing.
fn subjects(
    interface: Option<&ToolInterface>,
    schema: &Value,
) -> anyhow::Result<Vec<SubjectField>> {
    let Some(interface) = interface else {
        return Ok(Vec::new());
    };
    let subject = |(pointer, kind): (&String, &SubjectKind)| {
        let argument = SubjectField::argument(pointer, schema).map_err(anyhow::Error::msg)?;
        // Only a top-level argument has a default that the host can read; a deeper one depends on the rest.
        let deeper = pointer.matches('/').count() > 1;
        let default = argument
            .get("default")
            .filter(|_| !deeper)
            .and_then(Value::as_str);
        Ok(SubjectField {
            pointer: pointer.clone(),
            kind: *kind,
            default: default.map(str::to_owned),
        })
    };
    interface.permission_subjects.iter().map(subject).collect()
}
