//! Takes calls of tools through their phases. It executes nothing: a sandbox implements
//! [`Executor`](toolcell_executor::Executor).
//!
//! A call goes through thirteen phases, each a file in [`pipeline`]:
//!
//! 1. `resolve`: which tool is meant, and may it be selected?
//! 2. `parse`: do the arguments satisfy the model schema?
//! 3. `schema_gate`: was the schema loaded? Only then is a mismatch the true error.
//! 4. `validate`: does the tool accept the values, in an empty world?
//! 5. `observe`: the input that others may see.
//! 6. `pre_hooks`: the operator's hooks before a tool.
//! 7. `permission`: the decision, and the permit with its contents.
//! 8. `schedule`: a place to run.
//! 9. `execute`: a fresh sandbox, with limits.
//! 10. `map_result`: the answer, checked against its output contract.
//! 11. `post_hooks`: the operator's hooks after a tool.
//! 12. `persist`: what is too large for a result becomes a payload.
//! 13. `terminal`: one result, one terminal status, the end of the event trail.

#[macro_use(guard)]
extern crate toolcell_spec;

pub mod approval;
pub mod catalog;
pub mod find;
pub mod pipeline;
pub mod scheduler;
