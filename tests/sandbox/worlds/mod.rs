//! Components of other worlds: what they declare, and how their calls end.

mod act;
mod amplifier;
mod command;
mod concurrent;
mod exceptions;
mod http;
pub(crate) mod json_command;
mod near;
mod wit;

use toolcell_spec::dialect::sections::with_custom;

use crate::pipeline::doubles::own_host;
use crate::support::Test;

/// The component with a profile that gives its tools the namespace `mine`.
fn with_namespace(component: &[u8]) -> Vec<u8> {
    with_custom(component, "toolcell:profile", br#"{"namespace": "mine"}"#).unwrap()
}

/// A test in a host of its own, because components of one name cannot be loaded together.
fn alone(component: Vec<u8>, tool: Option<&str>) -> Test {
    Test::of_bytes(component, tool).on(&own_host(|settings| settings))
}
