//! Components of other worlds: what they declare, and how their calls end.

mod act;
mod amplifier;
mod command;
mod near;
mod wit;

use crate::pipeline::doubles::own_host;
use crate::support::Test;

/// A test in a host of its own, because components of one name cannot be loaded together.
fn alone(component: Vec<u8>, tool: Option<&str>) -> Test {
    Test::of_bytes(component, tool).on(&own_host(|_| {}))
}
