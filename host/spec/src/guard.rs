//! A switch for each guard of the boundary, for mutation tests: some test must fail when a guard is missing.
//!
//! Without the cargo feature `mutants`, `guard!` is the constant `true`. With it, which only an unoptimized build
//! accepts, the environment variable `TOOLCELL_MUTANT` names one guard that is left out: `just mutants` runs the tests
//! against each.

/// True if the guard of this name is active: always, except in a build for mutation tests.
#[cfg(not(feature = "mutants"))]
#[macro_export]
macro_rules! guard {
    ($name:literal) => {
        true
    };
}

#[cfg(feature = "mutants")]
#[macro_export]
macro_rules! guard {
    ($name:literal) => {
        $crate::guard::is_enabled($name)
    };
}

#[cfg(all(feature = "mutants", not(debug_assertions)))]
compile_error!(
    "the feature `mutants` takes guards out of the sandbox; it is for tests, never for a release"
);

/// Returns whether the environment leaves the guard `name` active.
#[cfg(feature = "mutants")]
pub fn is_enabled(name: &str) -> bool {
    static MUTANT: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    MUTANT
        .get_or_init(|| std::env::var("TOOLCELL_MUTANT").ok())
        .as_deref()
        != Some(name)
}

/// The environment that a process needs which is started without one, so that the same guard is left out there.
pub fn inherited() -> Option<(&'static str, String)> {
    #[cfg(feature = "mutants")]
    return Some(("TOOLCELL_MUTANT", std::env::var("TOOLCELL_MUTANT").ok()?));
    #[cfg(not(feature = "mutants"))]
    None
}
