//! TRANSLATION. One folder for each format of a server: pure functions between its types and records.

pub mod mcp;
