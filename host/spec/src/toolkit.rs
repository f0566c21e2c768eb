use serde::{Deserialize, Serialize};

use super::{ExecutionProfile, Extra, Finding, PermissionProfile, ToolDeclaration, ToolInterface};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Toolkit {
    pub declarations: Vec<ToolDeclaration>,
    #[serde(default)]
    pub interfaces: Vec<ToolInterface>,
    #[serde(default)]
    pub execution_profiles: Vec<ExecutionProfile>,
    #[serde(default)]
    pub permission_profiles: Vec<PermissionProfile>,
    /// Unmet demands: calls of these tools are refused.
    #[serde(skip)]
    pub gaps: Vec<Finding>,
    #[serde(flatten)]
    pub extra: Extra,
}
