//! The `toolcell` program, as people and scripts use it.

mod agreement;
pub(crate) mod approvals;
mod arguments;
mod arguments_by_name;
mod artifact_files;
mod artifacts;
mod backup;
mod batch;
mod book;
pub(crate) mod build;
mod bundle;
mod cache;
mod calls;
mod check;
mod children;
mod clients;
mod code_tool;
mod compiling;
mod configuration;
mod connect;
mod consent;
mod context_modifiers;
pub(crate) mod contracts;
mod demands;
mod describe;
mod diagnostics;
mod dialects;
mod doctor;
mod eval;
mod events;
mod examples;
mod exit_codes;
mod explain;
mod files;
mod foreign;
mod foretelling;
mod git_tool;
mod grants;
mod guides;
mod help;
mod hook_components;
mod hooks;
mod inspect;
pub(crate) mod install;
mod interrupts;
mod javascript;
mod json;
mod kills;
mod languages;
mod limits;
mod links;
mod listings;
mod local_settings;
mod manifests;
mod names;
mod native_sdks;
mod npm_tools;
mod own_files;
mod ownership;
mod people;
mod picture;
mod pipes;
mod policy;
mod python;
mod python_tool;
mod readme;
mod records;
mod registry;
mod replay;
mod results;
mod retries;
mod schema;
mod screen;
mod search;
mod secrets;
mod servers;
mod shell_tool;
mod short_toolkits;
mod signatures;
mod sql_tool;
mod strict;
mod surface;
mod thousand;
mod trace;
mod words;
mod workspaces;
mod wrap;

use std::path::Path;
use std::sync::Mutex;

use crate::support::{component, fixture, wat};

/// Locked by tests that build a project, because they share compiled dependencies, which are kept.
pub(crate) static BUILDING: Mutex<()> = Mutex::new(());

/// The TOOL argument for a tool of a test guest: `probe#echo`.
fn guest(tool: &str) -> String {
    let (name, tool) = tool.split_once('#').unwrap();
    format!("{}#{tool}", fixture(name).display())
}

/// The TOOL argument for the component of an example tool.
pub(crate) fn example(name: &str) -> String {
    component(&format!("example-tools/{name}"))
        .display()
        .to_string()
}

/// Writes the component `echo.wat` into `folder`: the smallest tool there is.
fn echo_in(folder: &Path) -> String {
    let file = folder.join("echo.wasm");
    std::fs::write(&file, wat("echo")).unwrap();
    file.display().to_string()
}
