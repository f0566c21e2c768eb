//! URLs as a source of components.
