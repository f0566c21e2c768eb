//! Switches for guards of the boundary, for mutation tests: some test must fail when a guard is missing.
//!
//! Without the cargo feature `mutants`, which only an unoptimized build accepts, `guard!` is the constant `true`.
//! `TOOLCELL_MUTANT` names the one guard that is left out.

/// `false` only for the guard that a mutation test leaves out.
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

#[cfg(feature = "mutants")]
pub fn is_enabled(name: &str) -> bool {
    static MUTANT: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    MUTANT
        .get_or_init(|| std::env::var("TOOLCELL_MUTANT").ok())
        .as_deref()
        != Some(name)
}

/// Leaves out the same guard in a process started without an environment.
pub fn inherited() -> Option<(&'static str, String)> {
    #[cfg(feature = "mutants")]
    return Some(("TOOLCELL_MUTANT", std::env::var("TOOLCELL_MUTANT").ok()?));
    #[cfg(not(feature = "mutants"))]
    None
}
