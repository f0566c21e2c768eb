//! Files and built folders as a source of components.
