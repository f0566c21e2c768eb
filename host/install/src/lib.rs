//! Installs tools: finds out which bytes a reference means, checks who signed them, and keeps them in a store that all
//! projects share. It runs nothing: the program loads a component to read what it declares, in an empty world.

#[macro_use]
extern crate toolcell_spec;

pub mod digest;
pub mod reference;
pub mod source;

pub mod ceiling;
pub mod declarations;
pub mod lock;
pub mod lock_location;
pub mod obtain;
pub mod plan;
pub mod store;

pub mod check;
pub mod component;
pub mod package;
pub mod package_index;
mod proxy;
pub mod sbom;

pub mod exchange;
pub mod local;
pub mod registry;
pub mod tls;
pub mod web;

pub mod signature;
pub mod trust;
pub mod verifier;
mod workflow;
