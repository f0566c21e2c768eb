//! Shared test code: guests that are built once, a host to call them in, the program to run, and the schemas that every
//! record is validated against.

mod browser;
mod call;
mod canary;
mod guests;
mod home;
mod mcp;
mod mirror;
mod program;
mod registry;
mod resolver;
mod schemas;
mod server;
mod sigstore;
mod special;
mod timestamps;
mod waiting;
pub(crate) mod web;

pub(crate) use browser::{Browser, BrowserAnswer, encoded};
pub(crate) use call::{Called, Test, host, scratch};
pub(crate) use canary::Canary;
pub(crate) use guests::{build_in, component, fixture, wat};
pub(crate) use home::Home;
pub(crate) use mcp::{Client, NEW, OLD, bare_names, records};
pub(crate) use mirror::{Mirror, response};
pub(crate) use program::{Ran, Toolcell};
pub(crate) use registry::{Answer, Body, Registry};
pub(crate) use resolver::ScriptedResolver;
pub(crate) use schemas::{
    check_one, check_printed, check_record, own as own_schemas, prepare_schemas,
};
pub(crate) use server::{Identity, Server, Visit};
pub(crate) use sigstore::{IDENTITY, ISSUER, Sigstore, Wanted};
pub(crate) use special::SPECIAL_HOSTS;
pub(crate) use waiting::waiting_tasks;
pub(crate) use web::{Coming, Reply, Web, frame};

use std::path::{Path, PathBuf};

/// The root of the checkout.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// A folder of this test binary, kept between runs so that compiled components are reused.
pub(crate) fn kept(name: &str) -> PathBuf {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    // A host without one of its guards may keep what another would not.
    match (cfg!(feature = "mutants"), std::env::var("TOOLCELL_MUTANT")) {
        (true, Ok(mutant)) if mutant.starts_with("cache") => {
            tmp.join("mutants").join(mutant).join(name)
        }
        (true, _) => tmp.join("mutants").join(name),
        (false, _) => tmp.join(name),
    }
}

/// Gives a test's own `home` the compiled components of all tests, and the key that authenticates them.
pub(crate) fn share_compiled(home: &Path) {
    for part in ["cache", "keys"] {
        let shared = kept("home").join(part);
        // The program does not create the target of a dangling link.
        std::fs::create_dir_all(&shared).unwrap();
        std::os::unix::fs::symlink(shared, home.join(part)).unwrap();
    }
}
