use serde::{Deserialize, Serialize};

use super::{ExecutionProfile, Extra, Finding, PermissionProfile, ToolDeclaration, ToolInterface};

/// The answer of a guest's `describe`: one component may have several tools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Toolkit {
    pub declarations: Vec<ToolDeclaration>,
    #[serde(default)]
    pub interfaces: Vec<ToolInterface>,
    #[serde(default)]
    pub execution_profiles: Vec<ExecutionProfile>,
    #[serde(default)]
    pub permission_profiles: Vec<PermissionProfile>,
    /// What its records demand and this host cannot do: calls of the tools that they are about are refused.
    #[serde(skip)]
    pub gaps: Vec<Finding>,
    #[serde(flatten)]
    pub extra: Extra,
}
