//! Makes a command of a module that has started: each run of it is one turn of the interpreter.

use anyhow::Context;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME as PREVIEW_1,
    WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER as ADAPTER,
};
use wasm_encoder::{
    CodeSection, EntityType, ExportKind, ExportSection, Function, FunctionSection, ImportSection,
    MemArg, MemoryType, Module, TypeSection, ValType,
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use super::start::{DOOR, NO_HOST};
use crate::adapt;

const RUN: &str = "wasi:cli/run@0.2.12#run";
const RUN_WIT: &str = "package wasi:cli@0.2.12;
    interface run { run: func() -> result; }
    world running { export run; }";
/// Two words of eight bytes.
const TURN: &[u8; 16] = b"_toolcell_call()";
const MAIN: &str = "__main_module__";

pub(super) fn command(started: &[u8]) -> anyhow::Result<Vec<u8>> {
    let started = adapt::with_status(started)?;
    let (from, _) = DOOR;
    let mut encoder = ComponentEncoder::default()
        .module(&started)?
        .adapter(from, &caller()?)?
        .adapter(PREVIEW_1, ADAPTER)?;
    encoder
        .encode()
        .context("cannot make a component of the interpreter")
}

/// Answers the interpreter that there is no host, and has it take one turn when the command runs.
fn caller() -> anyhow::Result<Vec<u8>> {
    const I32: ValType = ValType::I32;
    let mut types = TypeSection::new();
    types.ty().function([I32], [I32]);
    types.ty().function([I32; 2], [I32]);
    types.ty().function([I32; 4], [I32]);
    types.ty().function([], [I32]);
    let mut imports = ImportSection::new();
    imports.import("env", "memory", one_memory());
    imports.import(MAIN, "host_alloc", EntityType::Function(0));
    imports.import(MAIN, "turn", EntityType::Function(1));
    let mut functions = FunctionSection::new();
    functions.function(2).function(3);
    let mut exports = ExportSection::new();
    let (_, door) = DOOR;
    exports.export(door, ExportKind::Func, 2);
    exports.export(RUN, ExportKind::Func, 3);
    let mut code = CodeSection::new();
    let mut no_host = Function::new([]);
    no_host.instructions().i32_const(NO_HOST).end();
    code.function(&no_host).function(&turn());
    let mut module = Module::new();
    module
        .section(&types)
        .section(&imports)
        .section(&functions)
        .section(&exports)
        .section(&code);
    let mut module = module.finish();
    let mut resolve = Resolve::default();
    let package = resolve.push_source("run.wit", RUN_WIT)?;
    let world = resolve.select_world(&[package], Some("running"))?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    Ok(module)
}

/// Puts the source into memory that the interpreter gives, and returns whether its turn failed.
fn turn() -> Function {
    let word = |at: usize| {
        let bytes = TURN.iter().skip(at).take(8).rev();
        bytes.fold(0_i64, |word, byte| (word << 8) | i64::from(*byte))
    };
    let at = |offset| MemArg {
        offset,
        align: 0,
        memory_index: 0,
    };
    let length = i32::try_from(TURN.len()).unwrap_or_default();
    let mut function = Function::new([(1, ValType::I32)]);
    function
        .instructions()
        .i32_const(length)
        .call(0)
        .local_tee(0)
        .i64_const(word(0))
        .i64_store(at(0))
        .local_get(0)
        .i64_const(word(8))
        .i64_store(at(8))
        .local_get(0)
        .i32_const(length)
        .call(1)
        .i32_const(0)
        .i32_ne()
        .end();
    function
}

fn one_memory() -> MemoryType {
    MemoryType {
        minimum: 0,
        maximum: None,
        memory64: false,
        shared: false,
        page_size_log2: None,
    }
}
