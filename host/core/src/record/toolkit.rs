use serde::{Deserialize, Serialize};

use super::{ExecutionProfile, Extra, PermissionProfile, ToolDeclaration, ToolInterface};

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
    #[serde(flatten)]
    pub extra: Extra,
}
