//! Checks a component's imports before it is compiled, which takes long. Versions and types are left to the engine.

use wasmparser::component_types::{ComponentAnyTypeId, ComponentEntityType};
use wasmparser::types::TypesRef;
use wasmparser::{Parser, Payload, ValidPayload, Validator, WasmFeatures};

use super::{linking, world};

/// Imports that this host has in no version.
#[derive(Debug, thiserror::Error)]
#[error("the component asks for what this host does not have: {0}")]
pub(super) struct NotAvailable(String);

/// `true` if some are of WASI 0.3, which only an engine with concurrency has. Leaves what is not valid to the compiler, which
/// says it better.
pub(super) fn check(component: &[u8]) -> Result<bool, NotAvailable> {
    let Imports { lacking, is_0_3 } = read(component).unwrap_or_default();
    if lacking.is_empty() {
        return Ok(is_0_3);
    }
    let mut said = world::listed(&lacking);
    if lacking.iter().any(|name| linking::is_of_wasi_0_3(name)) {
        said.push_str(linking::WASI_0_3_HINT);
    }
    Err(NotAvailable(said))
}

#[derive(Default)]
struct Imports {
    lacking: Vec<String>,
    is_0_3: bool,
}

fn read(component: &[u8]) -> wasmparser::Result<Imports> {
    let mut validator = Validator::new_with_features(WasmFeatures::all());
    let mut depth = 0_usize;
    let mut names = Vec::new();
    for payload in Parser::new(0).parse_all(component) {
        let payload = payload?;
        match &payload {
            Payload::Version { .. } => depth = depth.saturating_add(1),
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section.clone() {
                    names.push(import?.name.name);
                }
            }
            Payload::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
        if let ValidPayload::End(types) = validator.payload(&payload)?
            && depth == 0
        {
            let types = types.as_ref();
            let is_needed = |name: &str| {
                types
                    .component_item_for_import(name)
                    .is_some_and(|item| needs(types, &item.ty))
            };
            let is_lacking = |name: &&str| !linking::has(name) && is_needed(name);
            return Ok(Imports {
                is_0_3: names.iter().any(|name| linking::is_of_wasi_0_3(name)),
                lacking: (names.into_iter().filter(is_lacking))
                    .map(str::to_owned)
                    .collect(),
            });
        }
    }
    Ok(Imports::default())
}

/// An interface that has only types needs no implementation.
fn needs(types: TypesRef<'_>, import: &ComponentEntityType) -> bool {
    match import {
        ComponentEntityType::Instance(id) => types
            .get(*id)
            .is_some_and(|instance| instance.exports.values().any(|item| needs(types, &item.ty))),
        ComponentEntityType::Type { created, .. } => {
            matches!(created, ComponentAnyTypeId::Resource(_))
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    fn said(imports: &str) -> Option<String> {
        check(&wat::parse_str(format!("(component {imports})")).unwrap())
            .err()
            .map(|error| error.to_string())
    }

    #[test]
    fn only_what_must_be_there_is_looked_for() {
        for there in [
            r#"(import "wasi:io/error@0.2.3" (instance (export "error" (type (sub resource)))))"#,
            r#"(import "act:core/types@0.4.0" (instance (type $t (record (field "a" u8))) (export "t" (type (eq $t)))))"#,
            r#"(component (import "inner:only/api" (func)))"#,
        ] {
            assert_eq!(said(there), None, "{there}");
        }
        let stdin =
            r#"(import "wasi:cli/stdin@0.3.0" (instance (export "read-via-stream" (func))))"#;
        assert_eq!(said(stdin), None);
        for (lacks, name) in [
            (
                r#"(import "acme:db/store@1.0.0" (instance (export "get" (func))))"#,
                "acme:db/store@1.0.0",
            ),
            (
                r#"(import "acme:db/rows" (instance (export "row" (type (sub resource)))))"#,
                "acme:db/rows",
            ),
            (r#"(import "get" (func))"#, "get"),
            (
                r#"(import "wasi:keyvalue/store@0.2.0" (instance (export "open" (func))))"#,
                "wasi:keyvalue/store@0.2.0",
            ),
        ] {
            assert_eq!(
                said(lacks).unwrap(),
                format!("the component asks for what this host does not have: {name}")
            );
        }
        let newer =
            said(r#"(import "wasi:io/poll@0.3.0" (instance (export "poll" (func))))"#).unwrap();
        assert!(
            newer.contains("wasi:io/poll@0.3.0; of WASI 0.3, toolcell has cli"),
            "{newer}"
        );
    }

    #[test]
    fn names_are_cut_and_counted() {
        let import = |at| {
            format!(
                r#"(import "acme:{}/a{at}" (instance (export "f" (func))))"#,
                "x".repeat(500)
            )
        };
        let many = said(&(0..100).map(import).collect::<String>()).unwrap();
        assert!(
            many.len() < 1_200 && many.ends_with("and 92 more"),
            "{many}"
        );
    }
}
