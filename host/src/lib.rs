pub mod executor;
pub mod policy;
pub mod record;
pub mod scheduler;
