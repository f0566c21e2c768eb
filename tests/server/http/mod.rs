//! The door that can be left on.

mod ends;
mod limits;
mod patience;
mod sessions;
mod strangers;
