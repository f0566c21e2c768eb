//! A switch in front of each guard of the sandbox, for the check that a test notices when one of them is missing.
//!
//! In every build that people use, [`guard!`] is the constant `true`, and this file is empty but for that. With the cargo
//! feature `mutants`, which only an unoptimised build accepts, the environment variable `TOOLCELL_MUTANT` names one guard
//! that is left out: `just mutants` runs the tests against each.

/// Whether the guard of this name stands: always, but in a build that tests the tests.
#[cfg(not(feature = "mutants"))]
macro_rules! guard {
    ($name:literal) => {
        true
    };
}

#[cfg(feature = "mutants")]
macro_rules! guard {
    ($name:literal) => {
        $crate::guard::stands($name)
    };
}

#[cfg(all(feature = "mutants", not(debug_assertions)))]
compile_error!("the feature `mutants` takes guards out of the sandbox; it is for tests, never for a release");

/// Whether the environment leaves `name` standing.
#[cfg(feature = "mutants")]
pub(crate) fn stands(name: &str) -> bool {
    static MUTANT: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    MUTANT.get_or_init(|| std::env::var("TOOLCELL_MUTANT").ok()).as_deref() != Some(name)
}
