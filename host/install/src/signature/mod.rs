//! The formats of signatures.
