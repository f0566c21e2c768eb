//! The HTTP transport.

mod answered;
mod ends;
mod limits;
mod manners;
mod operating;
mod own_port;
mod patience;
mod quotas;
mod sessions;
mod strangers;
