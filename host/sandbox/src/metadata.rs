//! What the engine itself keeps of each instance of a module, and of a component: globals, and what is imported, exported or
//! referred to. The memory limit of a call does not count it. A pool of instances has a limit of its own; an engine without a
//! pool has none, and 60 instances of 900,000 globals took 900 MB there. A call has at most 64 instances by default, so that the
//! engine keeps at most 64 MiB for it, with a pool and without one. CPython's largest module takes 240 KiB.

use wasmparser::{ElementItems, Encoding, Parser, Payload};

/// Maximum size of what is kept of one instance of a module, or of the functions that a component lifts and lowers, in bytes:
/// as much as fits into a pool.
const BYTES_MAX: u64 = 1 << 20;
/// Size of a global, in bytes.
const GLOBAL_BYTES: u64 = 16;
/// Size of a reference to a function, or of any other import, in bytes.
const REFERENCE_BYTES: u64 = 32;

/// A component of which the engine would keep too much.
#[derive(Debug, thiserror::Error)]
#[error("a part of it has more globals, imports, exports and function references than {max} bytes hold", max = BYTES_MAX)]
pub(super) struct TooMuch;

/// Holds a valid component against the limit.
///
/// # Errors
///
/// [`TooMuch`], and what cannot be parsed.
pub(super) fn check(component: &[u8]) -> anyhow::Result<()> {
    let (mut of_module, mut of_components) = (0_u64, 0_u64);
    for payload in Parser::new(0).parse_all(component) {
        let count = match payload? {
            // Modules follow one another: only components hold others.
            Payload::Version { encoding: Encoding::Module, .. } => {
                of_module = 0;
                continue;
            }
            Payload::ComponentCanonicalSection(functions) => {
                of_components = of_components.saturating_add(bytes(functions.count(), REFERENCE_BYTES));
                of_components
            }
            payload => {
                of_module = of_module.saturating_add(of_section(payload)?);
                of_module
            }
        };
        if count > BYTES_MAX && guard!("instance_metadata") {
            return Err(TooMuch.into());
        }
    }
    Ok(())
}

/// The size of what is kept of a section of a module, in bytes.
fn of_section(payload: Payload<'_>) -> anyhow::Result<u64> {
    Ok(match payload {
        Payload::GlobalSection(globals) => bytes(globals.count(), GLOBAL_BYTES),
        Payload::ImportSection(imports) => {
            bytes(u32::try_from(imports.into_imports().count()).unwrap_or(u32::MAX), REFERENCE_BYTES)
        }
        Payload::ExportSection(exports) => bytes(exports.count(), REFERENCE_BYTES),
        Payload::ElementSection(segments) => {
            let mut sum = 0_u64;
            for segment in segments {
                let count = match segment?.items {
                    ElementItems::Functions(functions) => functions.count(),
                    ElementItems::Expressions(_, expressions) => expressions.count(),
                };
                sum = sum.saturating_add(bytes(count, REFERENCE_BYTES));
            }
            sum
        }
        _ => 0,
    })
}

fn bytes(count: u32, each: u64) -> u64 {
    u64::from(count).saturating_mul(each)
}

#[cfg(test)]
mod tests {
    use super::{TooMuch, check};

    fn fits(text: &str) -> bool {
        match check(&wat::parse_str(text).unwrap()) {
            Ok(()) => true,
            Err(error) => {
                assert!(error.is::<TooMuch>(), "{error:#}");
                false
            }
        }
    }

    #[test]
    fn what_is_kept_of_an_instance_is_limited() {
        let exports = |count: usize| (0..count).map(|at| format!("(export \"{at}\" (func 0))")).collect::<String>();
        let imports = |count: usize| "(import \"\" \"\" (func))".repeat(count);
        for (few, many) in [
            ("(global i32 (i32.const 0))".repeat(60_000), "(global i32 (i32.const 0))".repeat(70_000)),
            (
                format!("(func) (elem declare func{})", " 0".repeat(30_000)),
                format!("(func) (elem declare func{})", " 0".repeat(35_000)),
            ),
            (format!("(func){}", exports(30_000)), format!("(func){}", exports(35_000))),
            (imports(30_000), imports(35_000)),
        ] {
            // Each module by itself.
            assert!(fits(&format!("(component (core module {few}) (component (core module {few})))")));
            assert!(!fits(&format!("(component (core module) (component (core module {many})))")));
        }
    }

    #[test]
    fn what_is_kept_of_the_functions_of_all_components_is_limited() {
        let drops = |count: usize| "(core func (canon resource.drop 0))".repeat(count);
        let of = |count: usize| {
            let functions = drops(count);
            format!(
                "(component (type (resource (rep i32))) {functions} (component (type (resource (rep i32))) {functions}))"
            )
        };
        assert!(fits(&of(15_000)));
        assert!(!fits(&of(20_000)));
    }
}
