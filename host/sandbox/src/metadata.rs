//! The engine's own data for each instance of a module or a component, which the memory limit of a call does not count:
//! without a pool, 60 instances of 900,000 globals took 900 MB. With 64 instances by default, a call's data stays below
//! 64 MiB, or 256 MiB in the engine without a pool, whose interpreters have long tables. A component in another one counts each time that it is instantiated: 20 of them, each of which instantiates
//! the one before twice, fit into 1 KiB, and are a million instances.

use wasmparser::{
    ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentOuterAliasKind,
    ComponentType, ElementItems, Encoding, Parser, Payload,
};

use crate::engine::EngineKind;

/// The size that fits into a pool, of one module's instance, or of the whole component's without its modules.
const BYTES_MAX: u64 = 1 << 20;
/// Of one module's instance without a pool.
const EXTENDED_BYTES_MAX: u64 = 4 << 20;
const GLOBAL_BYTES: u64 = 16;
const REFERENCE_BYTES: u64 = 32;
const INSTANCE_BYTES: u64 = 128;

#[derive(Debug, thiserror::Error)]
pub(super) enum TooMuch {
    #[error(
        "a part of it has more globals, imports, exports and function references than {0} bytes hold"
    )]
    Part(u64),
    #[error(
        "the components in it have more instances, functions and resources than {max} bytes hold, or instantiate a component \
         that they import",
        max = BYTES_MAX
    )]
    Instances,
}

/// Fails with [`TooMuch`], or what cannot be parsed.
pub(super) fn check(component: &[u8], engine: EngineKind) -> anyhow::Result<()> {
    let part_max = match engine {
        EngineKind::Pooled => BYTES_MAX,
        EngineKind::Extended | EngineKind::Timed => EXTENDED_BYTES_MAX,
    };
    let mut of_module = 0_u64;
    let mut of_components = 0_u64;
    let mut nested = OpenComponents::default();
    for payload in Parser::new(0).parse_all(component) {
        let payload = payload?;
        let of_instance = nested.add(&payload)?;
        let count = match payload {
            // Modules follow one another: only components hold others.
            Payload::Version {
                encoding: Encoding::Module,
                ..
            } => {
                of_module = 0;
                continue;
            }
            Payload::ComponentCanonicalSection(functions) => {
                of_components =
                    of_components.saturating_add(bytes(functions.count(), REFERENCE_BYTES));
                of_components
            }
            payload => {
                of_module = of_module.saturating_add(of_section(payload)?);
                of_module
            }
        };
        let too_much = if count > part_max {
            Some(TooMuch::Part(part_max))
        } else {
            (of_instance > BYTES_MAX).then_some(TooMuch::Instances)
        };
        if let Some(too_much) = too_much
            && guard!("instance_metadata")
        {
            return Err(too_much.into());
        }
    }
    Ok(())
}

/// Their end was not read yet; the innermost last.
#[derive(Default)]
struct OpenComponents {
    open: Vec<ComponentFacts>,
    in_module: bool,
}

struct ComponentFacts {
    /// Bytes kept of an instance of each component; `None` for one that is imported or taken from an instance, whose
    /// type does not say how many instances it has.
    components: Vec<Option<u64>>,
    /// Kept of an instance, and of the instances in it.
    bytes: u64,
}

impl OpenComponents {
    fn add(&mut self, payload: &Payload<'_>) -> anyhow::Result<u64> {
        match payload {
            Payload::Version {
                encoding: Encoding::Module,
                ..
            } => self.in_module = true,
            Payload::Version {
                encoding: Encoding::Component,
                ..
            } => {
                self.open.push(ComponentFacts {
                    components: Vec::new(),
                    bytes: INSTANCE_BYTES,
                });
            }
            Payload::End(_) if self.in_module => self.in_module = false,
            Payload::End(_) => {
                let ended = self.open.pop();
                self.define(ended.map(|ended| ended.bytes));
            }
            Payload::ComponentImportSection(imports) => {
                for import in imports.clone() {
                    if import?.ty.kind() == ComponentExternalKind::Component {
                        self.define(None);
                    }
                }
            }
            // An export has an index of its own.
            Payload::ComponentExportSection(exports) => {
                for export in exports.clone() {
                    let export = export?;
                    if export.kind == ComponentExternalKind::Component {
                        self.define(self.defined(0, export.index));
                    }
                }
            }
            Payload::ComponentAliasSection(aliases) => {
                for alias in aliases.clone() {
                    match alias? {
                        ComponentAlias::Outer {
                            kind: ComponentOuterAliasKind::Component,
                            count,
                            index,
                        } => {
                            self.define(self.defined(count, index));
                        }
                        ComponentAlias::InstanceExport {
                            kind: ComponentExternalKind::Component,
                            ..
                        } => {
                            self.define(None);
                        }
                        _ => {}
                    }
                }
            }
            Payload::ComponentInstanceSection(instances) => {
                for instance in instances.clone() {
                    if let ComponentInstance::Instantiate {
                        component_index, ..
                    } = instance?
                    {
                        self.keep(self.defined(0, component_index).unwrap_or(u64::MAX));
                    }
                }
            }
            Payload::ComponentTypeSection(types) => {
                for defined in types.clone() {
                    if matches!(defined?, ComponentType::Resource { .. }) {
                        self.keep(REFERENCE_BYTES);
                    }
                }
            }
            Payload::InstanceSection(instances) => {
                self.keep(bytes(instances.count(), REFERENCE_BYTES))
            }
            Payload::ComponentCanonicalSection(functions) => {
                self.keep(bytes(functions.count(), REFERENCE_BYTES))
            }
            _ => {}
        }
        Ok(self.open.last().map_or(0, |innermost| innermost.bytes))
    }

    fn defined(&self, outward: u32, index: u32) -> Option<u64> {
        let from_end = usize::try_from(outward).ok()?;
        let definition = self.open.iter().rev().nth(from_end)?;
        definition
            .components
            .get(usize::try_from(index).ok()?)
            .copied()
            .flatten()
    }

    fn define(&mut self, component: Option<u64>) {
        self.open
            .last_mut()
            .into_iter()
            .for_each(|innermost| innermost.components.push(component));
    }

    fn keep(&mut self, bytes: u64) {
        self.open
            .last_mut()
            .into_iter()
            .for_each(|innermost| innermost.bytes = innermost.bytes.saturating_add(bytes));
    }
}

fn of_section(payload: Payload<'_>) -> anyhow::Result<u64> {
    Ok(match payload {
        Payload::GlobalSection(globals) => bytes(globals.count(), GLOBAL_BYTES),
        Payload::ImportSection(imports) => bytes(
            u32::try_from(imports.into_imports().count()).unwrap_or(u32::MAX),
            REFERENCE_BYTES,
        ),
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
    use crate::engine::EngineKind;

    fn fits(text: &str) -> bool {
        match check(&wat::parse_str(text).unwrap(), EngineKind::Pooled) {
            Ok(()) => true,
            Err(error) => {
                assert!(error.is::<TooMuch>(), "{error:#}");
                false
            }
        }
    }

    #[test]
    fn what_is_kept_of_an_instance_is_limited() {
        let exports = |count: usize| {
            (0..count)
                .map(|at| format!("(export \"{at}\" (func 0))"))
                .collect::<String>()
        };
        let imports = |count: usize| "(import \"\" \"\" (func))".repeat(count);
        for (few, many) in [
            (
                "(global i32 (i32.const 0))".repeat(60_000),
                "(global i32 (i32.const 0))".repeat(70_000),
            ),
            (
                format!("(func) (elem declare func{})", " 0".repeat(30_000)),
                format!("(func) (elem declare func{})", " 0".repeat(35_000)),
            ),
            (
                format!("(func){}", exports(30_000)),
                format!("(func){}", exports(35_000)),
            ),
            (imports(30_000), imports(35_000)),
        ] {
            // Each module by itself.
            assert!(fits(&format!(
                "(component (core module {few}) (component (core module {few})))"
            )));
            assert!(!fits(&format!(
                "(component (core module) (component (core module {many})))"
            )));
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

    #[test]
    fn a_component_counts_each_time_that_it_is_instantiated() {
        let times = |count: usize| "(instance (instantiate $part))".repeat(count);
        let drops = "(core func (canon resource.drop 0))".repeat(3_000);
        let resources = "(type (resource (rep i32)))".repeat(3_000);
        for part in [format!("(type (resource (rep i32))) {drops}"), resources] {
            let of = |count: usize| {
                fits(&format!(
                    "(component (component $part {part}) {})",
                    times(count)
                ))
            };
            assert!(of(5) && !of(15));
            // Also under another index, and in another component.
            let exported = |count: usize| {
                let instances = "(instance (instantiate 1))".repeat(count);
                fits(&format!(
                    "(component (component $part {part}) (export \"part\" (component $part)) {instances})"
                ))
            };
            assert!(exported(5) && !exported(15));
            let outer = |count: usize| {
                let inner = format!("(component $inner {})", times(count));
                let instances = "(instance (instantiate $inner))".repeat(3);
                fits(&format!(
                    "(component (component $part {part}) {inner} {instances})"
                ))
            };
            assert!(outer(2) && !outer(5));
        }
    }

    #[test]
    fn the_instances_in_each_level_multiply() {
        // Each level instantiates the one before twice.
        let of = |levels: usize| {
            let level = |at: usize| {
                let instance = format!("(instance (instantiate $level{}))", at - 1);
                format!("(component $level{at} {instance} {instance})")
            };
            let all: String = (1..=levels).map(level).collect();
            fits(&format!(
                "(component (component $level0) {all} (instance (instantiate $level{levels})))"
            ))
        };
        assert!(of(8));
        // More than 64 would be more instances than a number holds.
        assert!(!of(14) && !of(80));
    }

    #[test]
    fn a_component_of_unknown_size_is_not_instantiated() {
        assert!(fits(r#"(component (import "part" (component)))"#));
        assert!(!fits(
            r#"(component (import "part" (component)) (instance (instantiate 0)))"#
        ));
        let taken = r#"(component (import "parts" (instance (export "part" (component)))) (alias export 0 "part" (component))"#;
        assert!(fits(&format!("{taken})")));
        assert!(!fits(&format!("{taken} (instance (instantiate 0)))")));
    }
}
