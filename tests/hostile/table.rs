use super::arena::{Arena, Fight};
use super::{artifacts, files, loading, network, output, secrets, space, surface, time, trust};

const MIB: u64 = 1 << 20;

/// One row of the first set.
pub(super) struct Attack {
    /// The id in the threat catalogue.
    pub(super) id: &'static str,
    /// The verdicts that its calls may have: `class/code`, or `ok`.
    pub(super) verdicts: &'static [&'static str],
    /// Memory that the guests of the attack may have together, in bytes; the limit of the host's memory depends on it.
    pub(super) memory: u64,
    pub(super) fight: fn(&Arena) -> Fight<'_>,
}

const fn attack(
    id: &'static str,
    verdicts: &'static [&'static str],
    memory: u64,
    fight: fn(&Arena) -> Fight<'_>,
) -> Attack {
    Attack {
        id,
        verdicts,
        memory,
        fight,
    }
}

const DENIED: &[&str] = &[
    "sandbox_violation/network_denied",
    "sandbox_violation/network_request_refused",
];
const OR_OK: &[&str] = &[
    "sandbox_violation/network_denied",
    "sandbox_violation/network_request_refused",
    "ok",
];

pub(super) const ATTACKS: &[Attack] = &[
    attack(
        "CPU-1",
        &["timeout/epoch_deadline", "timeout/deadline_exceeded"],
        MIB,
        |arena| Box::pin(time::spin(arena)),
    ),
    // Describing has little fuel as well, so the speed of the machine decides which limit is reached first.
    attack(
        "CPU-2",
        &["timeout/epoch_deadline", "timeout/fuel_exhausted"],
        MIB,
        |arena| Box::pin(time::spin_at_the_start(arena)),
    ),
    attack("CPU-4", &["timeout/epoch_deadline"], 256 * MIB, |arena| {
        Box::pin(time::bulk_operations(arena))
    }),
    attack(
        "CPU-5",
        &["timeout/epoch_deadline", "timeout/deadline_exceeded"],
        16 * MIB,
        |arena| Box::pin(time::more_spinners_than_cores(arena)),
    ),
    attack("CPU-7", &["timeout/deadline_exceeded"], 4 * MIB, |arena| {
        Box::pin(time::sleep_for_ever(arena))
    }),
    attack("CPU-8", &["canceled/canceled"], 16 * MIB, |arena| {
        Box::pin(time::deaf_to_cancellation(arena))
    }),
    attack(
        "MEM-2",
        &["sandbox_violation/memory_limit"],
        128 * MIB,
        |arena| Box::pin(space::many_memories(arena)),
    ),
    attack(
        "MEM-3",
        &["sandbox_violation/table_limit"],
        8 * MIB,
        |arena| Box::pin(space::tables(arena)),
    ),
    attack(
        "MEM-8",
        &["execution_failed/stack_overflow"],
        16 * MIB,
        |arena| Box::pin(space::recursion(arena)),
    ),
    attack(
        "MEM-14",
        &["sandbox_violation/memory_limit"],
        16 * MIB,
        |arena| Box::pin(space::stacks(arena)),
    ),
    attack(
        "MEM-15",
        &["sandbox_violation/memory_limit"],
        16 * MIB,
        |arena| Box::pin(space::parts_of_requests(arena)),
    ),
    attack(
        "MEM-9",
        &["result_too_large/output_limit"],
        64 * MIB,
        |arena| Box::pin(space::aliased_strings(arena)),
    ),
    attack("MEM-13", &["ok"], 64 * MIB, |arena| {
        Box::pin(space::residue(arena))
    }),
    attack(
        "HC-2",
        &["sandbox_violation/descriptor_limit"],
        16 * MIB,
        |arena| Box::pin(surface::descriptors(arena)),
    ),
    attack(
        "HC-4",
        &["result_too_large/output_limit", "ok"],
        64 * MIB,
        |arena| Box::pin(surface::output_flood(arena)),
    ),
    attack(
        "HC-5",
        &["timeout/deadline_exceeded", "timeout/epoch_deadline"],
        4 * MIB,
        |arena| Box::pin(surface::empty_writes(arena)),
    ),
    attack(
        "HC-7",
        &[
            "ok",
            "execution_failed/guest_trapped",
            "execution_failed/guest_invalid",
            "execution_failed/guest_panicked",
            "timeout/deadline_exceeded",
            "timeout/epoch_deadline",
            "sandbox_violation/disk_limit",
            "sandbox_violation/memory_limit",
            "sandbox_violation/handle_limit",
            "result_too_large/output_limit",
        ],
        256 * MIB,
        |arena| Box::pin(surface::pokes(arena)),
    ),
    attack(
        "HC-8",
        &["execution_failed/guest_exited"],
        4 * MIB,
        |arena| Box::pin(surface::exits(arena)),
    ),
    attack("FS-1", &["ok"], 16 * MIB, |arena| {
        Box::pin(files::path_forms(arena))
    }),
    attack("FS-2", &["ok"], 16 * MIB, |arena| {
        Box::pin(files::links(arena))
    }),
    attack("FS-3", &["ok"], 16 * MIB, |arena| {
        Box::pin(files::around_read_only(arena))
    }),
    attack(
        "FS-6",
        &[
            "sandbox_violation/disk_limit",
            "sandbox_violation/files_limit",
        ],
        32 * MIB,
        |arena| Box::pin(files::disk_fill(arena)),
    ),
    // Tiny writes may take longer than the call has.
    attack(
        "ART-1",
        &["ok", "timeout/deadline_exceeded", "timeout/epoch_deadline"],
        64 * MIB,
        |arena| Box::pin(artifacts::floods(arena)),
    ),
    attack(
        "ART-2",
        &["ok", "execution_failed/artifact_ref_invalid"],
        4 * MIB,
        |arena| Box::pin(artifacts::forgeries(arena)),
    ),
    attack(
        "NET-1",
        &["permission_denied/not_granted", "ok"],
        4 * MIB,
        |arena| Box::pin(surface::network_without_a_grant(arena)),
    ),
    attack("NET-2", DENIED, 4 * MIB, |arena| {
        Box::pin(network::spellings(arena))
    }),
    // Other spellings of the granted host are reached.
    attack("NET-3", OR_OK, 4 * MIB, |arena| {
        Box::pin(network::lookalikes(arena))
    }),
    // A redirect to another granted host is followed, without the secret; a loop reaches the limit.
    attack(
        "NET-4",
        &[
            "sandbox_violation/network_denied",
            "sandbox_violation/network_request_refused",
            "rate_limited/network_request_limit",
            "ok",
        ],
        4 * MIB,
        |arena| Box::pin(network::redirects(arena)),
    ),
    attack(
        "NET-5",
        &["sandbox_violation/network_denied", "ok"],
        4 * MIB,
        |arena| Box::pin(network::rebinding(arena)),
    ),
    attack("SEC-1", &["ok"], 4 * MIB, |arena| {
        Box::pin(surface::surroundings(arena))
    }),
    attack(
        "SEC-3",
        &[
            "ok",
            "execution_failed/as_asked",
            "execution_failed/guest_panicked",
        ],
        4 * MIB,
        |arena| Box::pin(secrets::echoes(arena)),
    ),
    attack("OUT-2", &["ok", "execution_failed"], 4 * MIB, |arena| {
        Box::pin(output::terminal_escapes(arena))
    }),
    attack(
        "OUT-3",
        &["execution_failed/guest_panicked"],
        4 * MIB,
        |arena| Box::pin(output::hostile_names(arena)),
    ),
    attack(
        "SCH-1",
        &["invalid_arguments/arguments_not_json", "ok"],
        96 * MIB,
        |arena| Box::pin(loading::argument_bombs(arena)),
    ),
    attack(
        "SCH-2",
        &["setup_required/description_invalid"],
        4 * MIB,
        |arena| Box::pin(loading::schemas_from_elsewhere(arena)),
    ),
    attack(
        "CMP-1",
        &["sandbox_violation/compile_limit"],
        4 * MIB,
        |arena| Box::pin(loading::compile_bomb(arena)),
    ),
    attack(
        "CMP-4",
        &[
            "ok",
            "setup_required/component_invalid",
            "setup_required/component_precompiled",
            "setup_required/description_invalid",
            "setup_required/contract_mismatch",
            "setup_required/not_a_tool",
            // A bit flip changed the tool's name to one that another component has.
            "setup_required/tool_name_taken",
            "setup_required/tool_id_taken",
            "capability_gap/import_not_available",
            "sandbox_violation/memory_limit",
            "sandbox_violation/table_limit",
            "sandbox_violation/instance_limit",
            "result_too_large/output_limit",
            "execution_failed/guest_invalid",
            "execution_failed/guest_trapped",
            "execution_failed/guest_panicked",
            "execution_failed/memory_fault",
            "execution_failed/stack_overflow",
            "execution_failed/arithmetic_fault",
            "timeout/deadline_exceeded",
            "timeout/epoch_deadline",
        ],
        64 * MIB,
        |arena| Box::pin(loading::garbage(arena)),
    ),
    attack(
        "SUP-2",
        &["ok", "approval_rejected/approval_rejected"],
        4 * MIB,
        |arena| Box::pin(trust::rug_pull(arena)),
    ),
    attack(
        "SUP-3",
        &[
            "ok",
            "approval_rejected/approval_rejected",
            "permission_denied/approval_not_possible",
            "setup_required/tool_name_taken",
        ],
        4 * MIB,
        |arena| Box::pin(trust::inheritance(arena)),
    ),
    // FE-1, a browser that is led to the HTTP port, is in `tests/server/http/strangers.rs`.
    attack(
        "FE-3",
        &["ok", "execution_failed/content_invalid"],
        4 * MIB,
        |arena| Box::pin(output::stdout_hijack(arena)),
    ),
    attack(
        "APR-1",
        &["ok", "approval_rejected/approval_rejected"],
        4 * MIB,
        |arena| Box::pin(trust::display(arena)),
    ),
    // `ok` is the trust that is given first; `denied_by_rule` is a call to which a denial was added meanwhile.
    attack(
        "APR-2",
        &[
            "approval_rejected/approval_outdated",
            "approval_rejected/approval_rejected",
            "permission_denied/denied_by_rule",
            "permission_denied/self_approval",
            "ok",
        ],
        4 * MIB,
        |arena| Box::pin(trust::swap(arena)),
    ),
    // The outcome of a killed run is recorded as unknown, and the call never runs again.
    attack("STO-1", &["ok", "canceled/interrupted"], 4 * MIB, |arena| {
        Box::pin(trust::kill_nine(arena))
    }),
];
