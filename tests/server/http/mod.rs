//! The HTTP transport.

mod answered;
mod deployment;
mod draining;
mod ends;
mod limits;
mod manners;
mod operating;
mod own_port;
mod patience;
mod quotas;
mod sessions;
mod starting;
mod strangers;
