//! Components of other worlds: what they declare, and how their calls end.

mod act;
mod amplifier;
mod command;
mod near;
mod wit;
