//! The page of one user, on a loopback address.

mod access;
mod gate;
mod program;
mod serving;

pub use program::Program;
pub use serving::{InspectPage, serve};
