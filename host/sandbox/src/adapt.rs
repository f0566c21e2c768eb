//! Makes components of WASI preview 1 commands, in the compiler's process, because the bytes are foreign.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, anyhow};
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME as PREVIEW_1,
    WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER as ADAPTER,
    WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER as LIBRARY_ADAPTER,
};
use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{
    ExportKind, ExportSection, ImportSection, MemorySection, MemoryType, Module, RawSection,
};
use wasmparser::{
    ExportSectionReader, ExternalKind, Import, ImportSectionReader, Parser, Payload, TypeRef,
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, SourceMap, UnresolvedPackageGroup, WorldId};

const START: &str = "_start";
/// The adapter's own `proc_exit` tells success and failure apart, and no more.
const EXIT: &str = "proc_exit";
const EXIT_INTERFACE: &str = "wasi:cli/exit@0.2.12";
const EXIT_WITH_CODE: &str = "exit-with-code";
const EXIT_WIT: &str = "package wasi:cli@0.2.12;
    interface exit { exit: func(status: result); exit-with-code: func(status-code: u8); }
    world exiting { import exit; }";

const NAMES_MAX: usize = 5;
const NAME_CHARS_MAX: usize = 64;

/// A core module that is no command.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot run this core module: {0}; a module runs if it imports from {from} alone and exports `_start`: build it as a \
     command for wasm32-wasip1, as a component for wasm32-wasip2, or with `toolcell build`",
    from = PREVIEW_1
)]
pub(super) struct NoCommand(String);

pub(super) fn is_module(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\0asm\x01\0\0\0")
}

/// Fails with [`NoCommand`], or if the module is not valid.
pub(super) fn component(engine: &wasmtime::Engine, module: &[u8]) -> anyhow::Result<Vec<u8>> {
    wasmtime::Module::validate(engine, module).map_err(anyhow::Error::from)?;
    check(module)?;
    let module = with_status(module)?;
    let mut encoder = ComponentEncoder::default()
        .module(&module)?
        .adapter(PREVIEW_1, ADAPTER)?;
    encoder
        .encode()
        .context("cannot make a component of the module")
}

/// `module` has the exports of a world, and imports from that world and from WASI preview 1 alone. Its own compiler
/// made it on this machine, so no child process is needed.
///
/// `world`: path and text of the files of a WIT package, with other packages in `deps/NAME/`, and the world's name.
/// `None` if the module has them.
pub fn component_of_library(
    module: &[u8],
    world: Option<(&[(&str, &str)], &str)>,
) -> anyhow::Result<Vec<u8>> {
    let mut module = with_status(module)?;
    if let Some((files, name)) = world {
        let mut resolve = Resolve::default();
        let package = push(&mut resolve, files)?;
        let world = resolve.select_world(&[package], Some(name))?;
        leave_out_exports(&mut resolve, world, &module)?;
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    }
    let mut encoder = ComponentEncoder::default()
        .module(&module)?
        .adapter(PREVIEW_1, LIBRARY_ADAPTER)?
        .validate(true);
    encoder
        .encode()
        .context("cannot make a component of the module")
}

/// Leaves those interfaces out of a world of which the module exports no function: an SDK names all that its tools may have.
fn leave_out_exports(resolve: &mut Resolve, world: WorldId, module: &[u8]) -> anyhow::Result<()> {
    let mut exported = BTreeSet::new();
    for payload in Parser::new(0).parse_all(module) {
        if let Payload::ExportSection(exports) = payload? {
            for export in exports {
                let interface = export?.name.split_once('#');
                exported.extend(interface.map(|(name, _)| name.to_owned()));
            }
        }
    }
    let declared = resolve.worlds.get_mut(world).context("no such world")?;
    let exports = std::mem::take(&mut declared.exports);
    let kept = exports
        .into_iter()
        .filter(|(key, _)| exported.contains(&resolve.name_world_key(key)))
        .collect();
    resolve
        .worlds
        .get_mut(world)
        .context("no such world")?
        .exports = kept;
    Ok(())
}

fn push(resolve: &mut Resolve, files: &[(&str, &str)]) -> anyhow::Result<wit_parser::PackageId> {
    let mut packages: BTreeMap<&str, SourceMap> = BTreeMap::new();
    for (path, text) in files {
        let other = path
            .split_once("deps/")
            .and_then(|(_, rest)| rest.split('/').next());
        packages
            .entry(other.unwrap_or_default())
            .or_default()
            .push_str(path, *text);
    }
    let parse = |map: SourceMap| -> anyhow::Result<UnresolvedPackageGroup> {
        map.parse()
            .map_err(|(map, error)| anyhow!("{}", error.render(&map)))
    };
    // The name of the main package sorts first, because it is empty.
    let mut groups = packages
        .into_values()
        .map(parse)
        .collect::<anyhow::Result<Vec<_>>>()?
        .into_iter();
    let main = groups.next().context("no WIT file was given")?;
    Ok(resolve.push_groups(main, groups.collect())?)
}

/// Refuses a module that needs another host, or that nothing starts.
fn check(module: &[u8]) -> anyhow::Result<()> {
    let mut foreign = Vec::new();
    let mut starts = false;
    for payload in Parser::new(0).parse_all(module) {
        match payload? {
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    let from = import?.module;
                    if from != PREVIEW_1 && !foreign.contains(&from) && foreign.len() < NAMES_MAX {
                        foreign.push(from);
                    }
                }
            }
            Payload::ExportSection(exports) => {
                for export in exports {
                    let export = export?;
                    starts |= export.name == START && export.kind == ExternalKind::Func;
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    if !foreign.is_empty() {
        let cut = |name: &&str| {
            format!(
                "{:?}",
                name.chars().take(NAME_CHARS_MAX).collect::<String>()
            )
        };
        found.push(format!(
            "it imports from {}",
            foreign.iter().map(cut).collect::<Vec<_>>().join(", ")
        ));
    }
    if !starts {
        found.push(format!("it exports no function `{START}`"));
    }
    if found.is_empty() {
        Ok(())
    } else {
        Err(NoCommand(found.join(", and ")).into())
    }
}

/// A guest's exit status reaches the host.
pub(super) fn with_status(module: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut copy = Module::new();
    let mut exits = false;
    let lacks = MissingMemory::from_module(module)?;
    let mut adds_memory = lacks.memory;
    for payload in Parser::new(0).parse_all(module) {
        let payload = payload?;
        if adds_memory
            && payload
                .as_section()
                .is_some_and(|(id, _)| AFTER_MEMORIES.contains(&id))
        {
            copy.section(&one_page());
            adds_memory = false;
        }
        match payload {
            Payload::ImportSection(imports) => _ = copy.section(&renamed(imports, &mut exits)?),
            Payload::ExportSection(exports) if lacks.export => {
                _ = copy.section(&with_memory(exports)?)
            }
            payload => {
                if let Some((id, range)) = payload.as_section() {
                    copy.section(&RawSection {
                        id,
                        data: module.get(range).unwrap_or_default(),
                    });
                }
            }
        }
    }
    let mut copy = copy.finish();
    if exits {
        let mut resolve = Resolve::default();
        let package = resolve.push_source("exit.wit", EXIT_WIT)?;
        let world = resolve.select_world(&[package], Some("exiting"))?;
        embed_component_metadata(&mut copy, &resolve, world, StringEncoding::UTF8)?;
    }
    Ok(copy)
}

const AFTER_MEMORIES: std::ops::RangeInclusive<u8> = 6..=13;
const MEMORY: &str = "memory";

struct MissingMemory {
    memory: bool,
    export: bool,
}

impl MissingMemory {
    fn from_module(module: &[u8]) -> anyhow::Result<Self> {
        let mut has_memory = false;
        let mut has_name = false;
        for payload in Parser::new(0).parse_all(module) {
            match payload? {
                Payload::MemorySection(memories) => has_memory = memories.count() > 0,
                Payload::ExportSection(exports) => {
                    for export in exports {
                        has_name |= export?.name == MEMORY;
                    }
                }
                _ => {}
            }
        }
        Ok(Self {
            memory: !has_memory && !has_name,
            export: !has_name,
        })
    }
}

fn one_page() -> MemorySection {
    let mut section = MemorySection::new();
    section.memory(MemoryType {
        minimum: 1,
        maximum: None,
        memory64: false,
        shared: false,
        page_size_log2: None,
    });
    section
}

fn with_memory(exports: ExportSectionReader<'_>) -> anyhow::Result<ExportSection> {
    let mut section = ExportSection::new();
    for export in exports {
        RoundtripReencoder.parse_export(&mut section, export?)?;
    }
    section.export(MEMORY, ExportKind::Memory, 0);
    Ok(section)
}

fn renamed(imports: ImportSectionReader<'_>, exits: &mut bool) -> anyhow::Result<ImportSection> {
    let mut section = ImportSection::new();
    for import in imports.into_imports() {
        let import = import?;
        let is_exit = import.name == EXIT && matches!(import.ty, TypeRef::Func(_));
        let import = if is_exit {
            Import {
                module: EXIT_INTERFACE,
                name: EXIT_WITH_CODE,
                ..import
            }
        } else {
            import
        };
        *exits |= is_exit;
        RoundtripReencoder.parse_import(&mut section, import)?;
    }
    Ok(section)
}

#[cfg(test)]
mod tests {
    use wasmtime::component::Component;

    use super::*;

    fn engine() -> wasmtime::Engine {
        wasmtime::Engine::new(&crate::engine::config(crate::engine::EngineKind::Pooled)).unwrap()
    }

    fn adapted(text: &str) -> anyhow::Result<Vec<u8>> {
        component(&engine(), &wat::parse_str(text).unwrap())
    }

    fn names(component: &[u8]) -> (Vec<String>, Vec<String>) {
        let engine = engine();
        let component = Component::new(&engine, component).unwrap();
        let kind = component.component_type();
        let imports = kind
            .imports(&engine)
            .map(|(name, _)| name.to_owned())
            .collect();
        (
            imports,
            kind.exports(&engine)
                .map(|(name, _)| name.to_owned())
                .collect(),
        )
    }

    #[test]
    fn a_command_becomes_a_component_that_exports_run() {
        for import in [
            "",
            r#"(import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))"#,
            r#"(import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))"#,
        ] {
            let text = format!(
                r#"(module {import} (memory (export "memory") 1) (func (export "_start")))"#
            );
            let (imports, exports) = names(&adapted(&text).unwrap());
            assert!(
                exports
                    .iter()
                    .all(|name| name.starts_with("wasi:cli/run@0.2.")),
                "{exports:?}"
            );
            assert_eq!(exports.len(), 1);
            let exit = imports
                .iter()
                .filter(|name| name.starts_with("wasi:cli/exit@"))
                .count();
            assert!(
                exit <= 1 && imports.iter().all(|name| name.starts_with("wasi:")),
                "{imports:?}"
            );
        }
    }

    #[test]
    fn a_command_that_exports_no_memory_does_so() {
        for text in [
            r#"(module (func (export "_start") (loop (br 0))))"#,
            r#"(module (memory 2) (func (export "_start")))"#,
            r#"(module (global i32 (i32.const 7)) (func $f) (start $f) (export "_start" (func $f)))"#,
        ] {
            let (_, exports) = names(&adapted(text).unwrap());
            assert!(
                exports
                    .iter()
                    .all(|name| name.starts_with("wasi:cli/run@0.2.")),
                "{exports:?}"
            );
        }
    }

    #[test]
    fn what_is_no_command_is_refused_with_what_it_is() {
        for (text, found) in [
            ("(module)", "it exports no function `_start`"),
            (
                r#"(module (func (export "_initialize")))"#,
                "it exports no function `_start`",
            ),
            (
                r#"(module (global (export "_start") i32 (i32.const 0)))"#,
                "it exports no function `_start`",
            ),
            (
                r#"(module (import "env" "f" (func)) (import "wasi_unstable" "g" (func)) (func (export "_start")))"#,
                r#"it imports from "env", "wasi_unstable""#,
            ),
            (
                r#"(module (import "env" "f" (func)))"#,
                r#"it imports from "env", and it exports no function"#,
            ),
        ] {
            let error = adapted(text).unwrap_err();
            assert!(error.is::<NoCommand>(), "{error:#}");
            assert!(error.to_string().contains(found), "{error}");
        }
        let many: String = (0..100)
            .map(|at| format!("(import \"{}{at}\" \"f\" (func))", "x".repeat(100)))
            .collect();
        assert!(
            adapted(&format!("(module {many})"))
                .unwrap_err()
                .to_string()
                .len()
                < 1_000
        );
    }

    #[test]
    fn a_module_that_breaks_the_contract_is_not_valid() {
        for text in [
            r#"(module (import "wasi_snapshot_preview1" "unknown" (func)) (memory (export "memory") 1)
                (func (export "_start")))"#,
            r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func (param i64))) (memory (export "memory") 1)
                (func (export "_start")))"#,
            r#"(module (memory (export "memory") 1) (func (export "_start") (param i32)))"#,
        ] {
            let made =
                adapted(text).and_then(|made| Ok(Component::new(&engine(), made).map(drop)?));
            let error = made.unwrap_err();
            assert!(!error.is::<NoCommand>(), "{error:#}");
        }
        let mut damaged = wat::parse_str(r#"(module (func (export "_start")))"#).unwrap();
        damaged.truncate(damaged.len() - 1);
        assert!(component(&engine(), &damaged).is_err());
    }

    #[test]
    fn a_library_becomes_a_component_of_its_world() {
        let wit = [
            (
                "wit/tool.wit",
                "package a:tool; interface f { use b:types/t.{n}; f: func() -> n; } world w { export f; }",
            ),
            (
                "wit/deps/types/t.wit",
                "package b:types; interface t { type n = u32; }",
            ),
        ];
        let text = r#"(module (memory (export "memory") 1) (func (export "a:tool/f#f") (result i32) i32.const 7)
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable))"#;
        let module = wat::parse_str(text).unwrap();
        let made = component_of_library(&module, Some((&wit, "w"))).unwrap();
        Component::new(&engine(), &made).unwrap();
        assert_eq!(names(&made).1, ["a:tool/f"]);
        assert!(!names(&made).0.contains(&EXIT_INTERFACE.to_owned()));
        let exits = text.replacen(
            "(module",
            r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))"#,
            1,
        );
        let made =
            component_of_library(&wat::parse_str(exits).unwrap(), Some((&wit, "w"))).unwrap();
        assert!(
            names(&made).0.contains(&EXIT_INTERFACE.to_owned()),
            "{:?}",
            names(&made).0
        );
        assert!(component_of_library(&module, Some((&wit, "other"))).is_err());
        assert!(component_of_library(&module, Some((&[], "w"))).is_err());
        let broken =
            component_of_library(&module, Some((&[("tool.wit", "package")], "w"))).unwrap_err();
        assert!(broken.to_string().contains("tool.wit"), "{broken:#}");
    }
}
