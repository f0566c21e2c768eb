use std::collections::BTreeSet;

use toolcell_policy::{MissingFolder, Policy, ToolPatterns};
use toolcell_spec::{
    ARTIFACT, Content, ErrorCode, GUEST_BLOCKS, ModelCapabilities, Refusal, SurfaceReason, TEXT,
    ToolChoice,
};

use super::Tool;
use super::surface::{TOOL_BUDGET, ToolAvailability};

/// Types that every model takes: structured output, which is no block, and the reference to an artifact.
const ALWAYS_TAKEN: [&str; 2] = ["structured_content", ARTIFACT];

/// Settings of a surface: `[surface]` of toolcell.toml.
///
/// ```
/// use toolcell_engine::catalog::ToolSelection;
/// use toolcell_spec::ModelCapabilities;
///
/// let model = ModelCapabilities { media: Some(["text".to_owned()].into()), ..ModelCapabilities::default() };
/// let text_only = ToolSelection { model, ..ToolSelection::default() };
/// assert!(text_only.takes("text") && !text_only.takes("image"));
/// ```
#[derive(Clone, Debug)]
pub struct ToolSelection {
    /// Maximum number of initially loaded tools (AT-N-07, AT-SURF-10).
    pub budget: usize,
    /// Tools that may be called (AT-SURF-11).
    pub choice: ToolChoice,
    /// Required capabilities (AT-SURF-12).
    pub capabilities: BTreeSet<String>,
    /// Open feature gates (AT-IF-04).
    pub features: BTreeSet<String>,
    /// Abilities of the model (AT-SURF-13).
    pub model: ModelCapabilities,
    /// Role of the caller (AT-SURF-14).
    pub role: Option<String>,
    /// Tools of that role: each entry has to match.
    pub role_tools: Vec<ToolPatterns>,
}

impl Default for ToolSelection {
    fn default() -> Self {
        Self {
            budget: TOOL_BUDGET,
            choice: ToolChoice::default(),
            capabilities: BTreeSet::new(),
            features: BTreeSet::new(),
            model: ModelCapabilities::default(),
            role: None,
            role_tools: Vec::new(),
        }
    }
}

/// Inputs of a surface besides settings and tools.
///
/// ```
/// use toolcell_engine::catalog::{SurfaceConditions, ToolSelection, Surface};
/// use toolcell_policy::Policy;
///
/// let conditions = SurfaceConditions {
///     policy: &Policy::default(),
///     missing_secrets: &Default::default(),
///     missing_folders: &[],
/// };
/// assert!(!Surface::build(Vec::new(), ToolSelection::default(), &conditions).defers());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SurfaceConditions<'a> {
    pub policy: &'a Policy,
    /// Secrets that are granted but not set.
    pub missing_secrets: &'a BTreeSet<String>,
    /// Folders that are granted but do not exist.
    pub missing_folders: &'a [MissingFolder],
}

pub(super) type WithheldReason = (SurfaceReason, Vec<String>);

impl ToolSelection {
    pub fn takes(&self, kind: &str) -> bool {
        ALWAYS_TAKEN.contains(&kind)
            || self
                .model
                .media
                .as_ref()
                .is_none_or(|media| media.contains(kind))
    }

    /// Replaces blocks that the model does not take with a text that says so (AT-SURF-13).
    pub fn fit(&self, content: &mut [Content]) {
        if self.model.media.is_none() {
            return;
        }
        for block in content {
            let kind = block.kind.as_str();
            if kind != TEXT
                && GUEST_BLOCKS.contains(&kind)
                && block.is_model_facing()
                && !self.takes(kind)
            {
                *block = Content::text(format!("[{kind} left out: the model does not take it]"));
            }
        }
    }

    /// Concurrent calls of one message or batch, at most `most` (AT-SURF-13).
    pub fn at_once(&self, most: usize) -> usize {
        if self.model.parallel_calls { most } else { 1 }
    }

    /// `None` if `tool` is for this surface.
    pub(super) fn withholds(
        &self,
        tool: &Tool,
        conditions: &SurfaceConditions<'_>,
    ) -> Option<WithheldReason> {
        let declaration = tool.declaration();
        let profile = tool.permission_profile();
        if let Some(role) = &self.role
            && !self
                .role_tools
                .iter()
                .all(|tools| tools.allow(declaration, tool.component(), conditions.policy))
        {
            return Some((SurfaceReason::RoleNotAllowed, vec![format!("role {role}")]));
        }
        if let Some(feature) = tool
            .feature()
            .filter(|feature| !self.features.contains(*feature))
        {
            return Some((
                SurfaceReason::FeatureDisabled,
                vec![format!("feature {feature}")],
            ));
        }
        let lacks = |capability: &&String| !declaration.capability_refs.contains(capability);
        if let Some(lacking) = self.capabilities.iter().find(lacks) {
            return Some((
                SurfaceReason::ModelUnsupported,
                vec![format!("capability {lacking}")],
            ));
        }
        let returned = declaration
            .output_contract
            .as_ref()
            .map_or(&[][..], |contract| &contract.content_types);
        if !returned.is_empty() && !returned.iter().any(|kind| self.takes(kind)) {
            return Some((
                SurfaceReason::ModelUnsupported,
                returned
                    .iter()
                    .map(|kind| format!("media {kind}"))
                    .collect(),
            ));
        }
        let rules = conditions
            .policy
            .blocking(declaration, profile.risk_level, tool.component());
        if !rules.is_empty() {
            return Some((SurfaceReason::PolicyBlocked, rules));
        }
        let missing = profile
            .credential_refs
            .iter()
            .filter(|name| conditions.missing_secrets.contains(*name));
        let missing: Vec<String> = missing.map(|name| format!("secret {name}")).collect();
        if !missing.is_empty() {
            return Some((SurfaceReason::CredentialMissing, missing));
        }
        let folders = conditions.missing_folders;
        let missing = folders.iter().map(|folder| folder.rule.clone());
        (tool.needs_folders() && !folders.is_empty())
            .then(|| (SurfaceReason::SetupRequired, missing.collect()))
    }

    /// Returns whether `tool` has the name of the only callable tool, which belongs to an installed one of other bytes.
    pub(super) fn mistakes(&self, tool: &Tool, policy: &Policy) -> bool {
        matches!(&self.choice, ToolChoice::Tool(only) if is_called(tool, only)
            && policy.is_impostor(tool.declaration(), tool.component(), |name| name == only))
    }

    /// `None` if the call goes on; `is_impostor` is [`Self::mistakes`]. Blocked tools and missing secrets are left to
    /// their phases, because they may have changed; recursion is left to the start of the call.
    pub(super) fn refusal(
        &self,
        tool: &Tool,
        standing: ToolAvailability,
        is_impostor: bool,
    ) -> Option<Refusal> {
        let id = &tool.declaration().tool_id;
        let refuse = |code, message: String, policy: String| {
            Some(Refusal::new(code, message).by_policy(policy))
        };
        let chosen = |only: &str| format!("tool_choice:{only}");
        match &self.choice {
            ToolChoice::Auto | ToolChoice::Required => {}
            ToolChoice::None => {
                let message = format!("{id} cannot be called: tool_choice of this surface is none");
                return refuse(ErrorCode::ToolChoiceNone, message, chosen("none"));
            }
            ToolChoice::Tool(only) if is_impostor => {
                let message = format!(
                    "{id} cannot be called: tool_choice of this surface allows {only} alone, which is the name of an \
                     installed tool, and these are other bytes"
                );
                return refuse(ErrorCode::ToolChoiceOther, message, chosen(only));
            }
            ToolChoice::Tool(only) if is_called(tool, only) => {}
            ToolChoice::Tool(only) => {
                let message = format!(
                    "{id} cannot be called: tool_choice of this surface allows {only} alone"
                );
                return refuse(ErrorCode::ToolChoiceOther, message, chosen(only));
            }
        }
        match standing.reason? {
            SurfaceReason::RoleNotAllowed => {
                let message = format!(
                    "the role of the caller does not have {id}; call a tool that is listed"
                );
                let role = format!("role:{}", self.role.as_deref().unwrap_or_default());
                refuse(ErrorCode::RoleNotAllowed, message, role)
            }
            SurfaceReason::ModelUnsupported => {
                let message = format!(
                    "{id} does not fit the capabilities of this surface; call a tool that is listed"
                );
                refuse(
                    ErrorCode::ModelUnsupported,
                    message,
                    "surface:capabilities".to_owned(),
                )
            }
            SurfaceReason::FeatureDisabled => {
                let gate = format!("feature:{}", tool.feature().unwrap_or_default());
                refuse(
                    ErrorCode::ToolDisabled,
                    format!("{id} is disabled here"),
                    gate,
                )
            }
            SurfaceReason::PolicyBlocked
            | SurfaceReason::CredentialMissing
            | SurfaceReason::SetupRequired
            | SurfaceReason::RecursiveToolForbidden
            | SurfaceReason::DeferredUntilDiscovered => None,
        }
    }

    /// Settings by the words of a rebuild's reason (AT-SURF-17).
    pub(super) fn knobs(&self) -> Vec<(&'static str, String)> {
        let roles: Vec<&[String]> = self.role_tools.iter().map(ToolPatterns::texts).collect();
        vec![
            ("budget", self.budget.to_string()),
            ("tool choice", format!("{:?}", self.choice)),
            (
                "capability requirements",
                format!("{:?}", self.capabilities),
            ),
            ("feature gates", format!("{:?}", self.features)),
            ("model capabilities", format!("{:?}", self.model)),
            ("role", format!("{:?} {roles:?}", self.role)),
        ]
    }
}

pub(super) fn is_called(tool: &Tool, name: &str) -> bool {
    let declaration = tool.declaration();
    declaration.name == name || declaration.tool_id == name || declaration.qualified_name() == name
}
