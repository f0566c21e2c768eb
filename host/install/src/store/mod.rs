//! The store of components.
