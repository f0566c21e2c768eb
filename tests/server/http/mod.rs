//! The HTTP transport.

mod ends;
mod limits;
mod own_port;
mod patience;
mod quotas;
mod sessions;
mod strangers;
