//! The door that can be left on.

mod ends;
mod limits;
mod own_port;
mod patience;
mod quotas;
mod sessions;
mod strangers;
