//! What the tests share: guests that are built once, a host to call them in, the program to run, the schemas to hold
//! every record against.

mod call;
mod guests;
mod mcp;
mod program;
mod schemas;

pub(crate) use call::{Called, Test, host, scratch};
pub(crate) use guests::{component, fixture, wat};
pub(crate) use mcp::{Client, NEW, OLD, records};
pub(crate) use program::{Hotcell, Ran};
pub(crate) use schemas::{check_one, check_record};

use std::path::{Path, PathBuf};

/// The root of the checkout.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A folder of this test binary, kept between runs: compiled components are found again.
pub(crate) fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}
