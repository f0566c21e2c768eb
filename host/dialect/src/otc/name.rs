use std::collections::HashMap;

use toolcell_spec::{ErrorCode, Refusal, ToolDeclaration};

use super::{OtcMode, ToolReference};
use crate::ListedTool;

const CANDIDATES_MAX: usize = 20;

/// The three parts of a tool's name. The version is the component's digest: what a caller names is what runs
/// (OTC-D-14).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtcToolName {
    /// The namespace of the tool.
    pub toolkit: String,
    pub name: String,
    /// `sha256:<hex>` of the component.
    pub version: String,
}

impl OtcToolName {
    pub fn new(declaration: &ToolDeclaration, component: &str) -> Self {
        let toolkit = declaration.namespace.clone();
        let name = declaration.name.clone();
        Self {
            toolkit,
            name,
            version: component.to_owned(),
        }
    }

    /// The host's name, without a version.
    pub fn qualified_name(&self) -> String {
        format!("{}.{}", self.toolkit, self.name)
    }

    /// `Toolkit.Tool@version`; for Arcade `Toolkit.Tool`.
    pub fn fully_qualified(&self, mode: OtcMode) -> String {
        match mode {
            OtcMode::Otc | OtcMode::OtcSeed => {
                format!("{}.{}@{}", self.toolkit, self.name, self.version)
            }
            OtcMode::Arcade => self.qualified_name(),
        }
    }
}

/// `fully_qualified_name` of a tool (OTC-D-04).
pub fn fully_qualified_name(listed: &ListedTool<'_>, mode: OtcMode) -> String {
    OtcToolName::new(listed.declaration, listed.component).fully_qualified(mode)
}

/// Tools of one surface by name, looked up and never taken apart, because a namespace may have dots (requirements 3.2).
#[derive(Clone, Debug, Default)]
pub struct OtcToolNames {
    tools: Vec<OtcToolName>,
    by_qualified: HashMap<String, usize>,
}

impl OtcToolNames {
    /// The first of two equal names counts.
    pub fn new(tools: Vec<OtcToolName>) -> Self {
        let mut by_qualified = HashMap::new();
        for (at, tool) in tools.iter().enumerate() {
            for mode in [OtcMode::Otc, OtcMode::Arcade] {
                by_qualified.entry(tool.fully_qualified(mode)).or_insert(at);
            }
        }
        Self {
            tools,
            by_qualified,
        }
    }

    /// The version is optional.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.by_qualified.get(name).copied()
    }

    /// Another version is another component, which never runs in its place (OTC-Q-04).
    pub fn resolve(&self, reference: &ToolReference) -> Result<usize, Refusal> {
        let found = self.tools.iter().enumerate();
        let mut found = found
            .filter(|(_, tool)| tool.toolkit == reference.toolkit && tool.name == reference.name)
            .peekable();
        let called = format!("{}.{}", reference.toolkit, reference.name);
        let version = reference.version.as_deref();
        let Some((_, known)) = found.peek().copied() else {
            let known: Vec<String> = self
                .tools
                .iter()
                .map(|tool| tool.fully_qualified(OtcMode::Arcade))
                .take(CANDIDATES_MAX)
                .collect();
            let known = if known.is_empty() {
                "no tools are available".to_owned()
            } else {
                format!("available: {}", known.join(", "))
            };
            let message = format!("no tool named `{called}`; {known}");
            return Err(Refusal::new(ErrorCode::UnknownTool, message));
        };
        let is_asked = |tool: &OtcToolName| version.is_none_or(|version| version == tool.version);
        found
            .find(|(_, tool)| is_asked(tool))
            .map(|(at, _)| at)
            .ok_or_else(|| {
                let message = format!(
                    "there is no version {:?} of the tool `{called}` here; its version is {}",
                    version.unwrap_or_default(),
                    known.version
                );
                Refusal::new(ErrorCode::VersionMismatch, message)
            })
    }
}
