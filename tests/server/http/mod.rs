//! The door that can be left on.

mod ends;
mod limits;
mod sessions;
mod strangers;
