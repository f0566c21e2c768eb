//! Access to this machine: private files, paths resolved name by name, file states, and bounded thread pools for
//! blocking work.

#[macro_use(guard)]
extern crate toolcell_spec;

pub mod component_file;
pub mod component_size;
pub mod file_state;
pub mod machine;
pub mod named_file;
pub mod pool;
pub mod private;
pub mod pseudo_files;
pub mod readers;
pub mod resolved_path;

use std::future::Future;
use std::pin::Pin;

/// For traits that are used as trait objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
