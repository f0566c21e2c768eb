use toolcell_spec::{ErrorCode, Refusal};

use super::{Capability, ToolClaims};

/// Narrows to a named set (AT-PERM-09): `default` changes nothing, `read_only` takes the right to write, `empty` takes
/// everything. Unknown names are refused.
pub(super) fn apply(declared: ToolClaims<'_>, capability: &mut Capability) -> Result<(), Refusal> {
    match declared.profile.sandbox_profile.as_deref() {
        None | Some("default") => {}
        Some("read_only") => capability.read_only(),
        Some("empty") => *capability = Capability::default(),
        Some(other) => {
            let message = format!(
                "{} asks for the sandbox profile {other:?}; there are: default, read_only, empty",
                declared.tool.tool_id
            );
            return Err(Refusal::new(ErrorCode::SandboxProfileUnknown, message));
        }
    }
    Ok(())
}
