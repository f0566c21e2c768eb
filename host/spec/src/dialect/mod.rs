//! TRANSLATION. One folder for each foreign format: pure functions between JSON text and records.

pub mod agent_tool;
pub mod near;
pub mod openapi;
pub mod routes;
pub mod sections;
pub mod wassette;
pub mod wrapping;
