//! The limits of bashkit, out of the way: fuel, time, memory, output and files are limited by the host, whose errors say
//! what to do. Some of bashkit's limits cannot be lifted; the README lists them.

use std::time::Duration;

use bashkit::{ExecutionLimits, FsLimits, MemoryLimits, SessionLimits};

/// Half of what the type holds, so that no sum in bashkit overflows.
const COUNT: usize = usize::MAX / 2;
const BYTES: u64 = u64::MAX / 2;
/// Longer than any call lasts.
const TIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The parser does not come to the end of some texts that are not bash; none that is takes so many.
const PARSER_OPERATIONS: usize = 10_000_000;

/// bashkit allows no deeper recursion, because it runs on the stack.
pub(crate) const DEPTH: usize = 16;
/// bashkit allows no deeper syntax tree.
pub(crate) const SYNTAX_DEPTH: usize = 100;

pub(crate) fn execution() -> ExecutionLimits {
    ExecutionLimits {
        max_work_units: BYTES,
        max_aggregate_input_bytes: BYTES,
        max_live_intermediate_bytes: BYTES,
        max_commands: COUNT,
        max_loop_iterations: COUNT,
        max_total_loop_iterations: COUNT,
        max_function_depth: DEPTH,
        timeout: TIME,
        parser_timeout: TIME,
        max_input_bytes: COUNT,
        max_ast_depth: SYNTAX_DEPTH,
        max_parser_operations: PARSER_OPERATIONS,
        max_stdout_bytes: COUNT,
        max_stderr_bytes: COUNT,
        max_word_split_fields: COUNT,
        max_word_split_bytes: COUNT,
        ..ExecutionLimits::default()
    }
}

pub(crate) fn session() -> SessionLimits {
    SessionLimits::unlimited()
}

pub(crate) fn memory() -> MemoryLimits {
    MemoryLimits::unlimited()
}

pub(crate) fn files() -> FsLimits {
    FsLimits::unlimited()
}
