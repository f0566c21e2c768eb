//! Registries as a source of components.
