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
    /// Demands of its records that this host cannot meet: it refuses calls of the affected tools.
    #[serde(skip)]
    pub gaps: Vec<Finding>,
    #[serde(flatten)]
    pub extra: Extra,
}
