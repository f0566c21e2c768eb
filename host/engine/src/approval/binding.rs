use std::time::Duration;

use serde_json::{Value, json};

use crate::catalog::Tool;
use toolcell_policy::{ApprovalScope, Capability, Limits, NetworkLimits};
use toolcell_spec::{Binding, Input, digest};

/// Returns what an approval of this call is bound to. If any of it changes, a new approval is needed.
pub fn bind(
    tool: &Tool,
    capability: &Capability,
    limits: &Limits,
    input: &Input,
    actor: Option<&str>,
) -> Binding {
    let mut execution = tool.execution_profile().clone();
    // The component is bound separately: other bytes alone are not another declaration.
    execution.extra.remove("component_digest");
    if let Some(config) = tool
        .configuration()
        .filter(|_| guard!("bound_configuration"))
    {
        execution
            .extra
            .insert("configuration".to_owned(), digest(config.as_bytes()).into());
    }
    let declaration = json!([
        tool.name().as_ref(),
        tool.declaration(),
        tool.interface(),
        execution,
        tool.permission_profile(),
    ]);
    let capability = json!([capability.canonical(), canonical_limits(limits)]);
    let actor = actor.map_or_else(|| "nobody".to_owned(), |actor| format!("actor {actor}"));
    Binding {
        component: if guard!("bound_component") {
            tool.component().to_string()
        } else {
            String::new()
        },
        declaration: digest(declaration.to_string().as_bytes()),
        capability: if guard!("bound_capability") {
            digest(capability.to_string().as_bytes())
        } else {
            String::new()
        },
        arguments: input.reference().to_owned(),
        actor: if guard!("bound_actor") {
            digest(actor.as_bytes())
        } else {
            String::new()
        },
    }
}

/// Returns what an approval of this call for the rest of its session covers; `None` for this capability alone.
pub fn scope(capability: &Capability, limits: &Limits) -> Option<ApprovalScope> {
    ApprovalScope::from_capability(capability, &canonical_limits(limits))
}

fn canonical_limits(limits: &Limits) -> Value {
    // No `..`, so that a new limit cannot be left unbound.
    let Limits {
        fuel,
        wall,
        memory_bytes,
        table_elements,
        instances,
        handles,
        descriptors,
        disk_bytes,
        files_created,
        artifact_bytes,
        artifacts,
        output_bytes,
        log_bytes,
        progress_updates,
        network,
    } = limits;
    json!({
        "guest": [fuel, millis(*wall), memory_bytes, table_elements, instances, handles],
        "files": [descriptors, disk_bytes, files_created],
        "artifacts": [artifact_bytes, artifacts],
        "output": [output_bytes, log_bytes, progress_updates],
        "network": canonical_network(network),
    })
}

fn canonical_network(limits: &NetworkLimits) -> Value {
    let NetworkLimits {
        requests,
        connections,
        sent_bytes,
        received_bytes,
        header_bytes,
        connect,
        first_byte,
        between_bytes,
        total,
    } = limits;
    let times = [connect, first_byte, between_bytes, total].map(|time| millis(*time));
    json!([
        requests,
        connections,
        sent_bytes,
        received_bytes,
        header_bytes,
        times
    ])
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
