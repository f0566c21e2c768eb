//! Components of other worlds: what they declare, and how their calls end.

mod amplifier;
mod act;
mod command;
mod near;
