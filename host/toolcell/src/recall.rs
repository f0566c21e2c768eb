//! Components that were loaded before: their records are read from notes, on several threads, because a server may
//! offer thousands.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use toolcell_engine::catalog::Tool;
use toolcell_engine::pipeline;
use toolcell_sandbox::{LoadedComponent, Sandbox};
use toolcell_spec::dialect::agent_tool;
use toolcell_spec::{Finding, Refusal};
use toolcell_system::component_file::open_component;

use crate::host::{absolute, facts};

/// Fewer components take less time than a thread takes to start.
const PART_MIN: usize = 32;
const THREADS_MAX: usize = 8;
/// The records come from guests, and may be nested a thousand deep. Only the part in use takes memory.
const STACK_BYTES: usize = 64 << 20;

pub(crate) struct RecalledComponent {
    pub(crate) component: Arc<LoadedComponent>,
    pub(crate) tools: Vec<Arc<Tool>>,
    pub(crate) path: PathBuf,
}

/// `None` for a file that has to be loaded.
pub(crate) async fn all(
    sandbox: &Arc<Sandbox>,
    files: &[PathBuf],
) -> Result<Vec<Option<RecalledComponent>>, Refusal> {
    let sandbox = Arc::clone(sandbox);
    let files = files.to_vec();
    pipeline::load(move || on_threads(&sandbox, &files)).await
}

fn on_threads(sandbox: &Sandbox, files: &[PathBuf]) -> Vec<Option<RecalledComponent>> {
    let threads = thread::available_parallelism()
        .map_or(1, usize::from)
        .min(THREADS_MAX);
    let part = files.len().div_ceil(threads).max(PART_MIN);
    let recall = |part: &[PathBuf]| {
        part.iter()
            .map(|file| one(sandbox, file))
            .collect::<Vec<_>>()
    };
    let mut parts = files.chunks(part);
    let Some(first) = parts.next() else {
        return Vec::new();
    };
    thread::scope(|scope| {
        let started: Vec<_> = parts
            .map(|part| {
                let named = thread::Builder::new()
                    .name("recall".to_owned())
                    .stack_size(STACK_BYTES);
                (part, named.spawn_scoped(scope, move || recall(part)))
            })
            .collect();
        let mut recalled = recall(first);
        for (part, thread) in started {
            // Without another thread, this one does its work.
            let done = thread.ok().and_then(|thread| thread.join().ok());
            recalled.extend(done.unwrap_or_else(|| recall(part)));
        }
        recalled
    })
}

/// `None` also for a file that cannot be read: loading it says why.
fn one(sandbox: &Sandbox, file: &Path) -> Option<RecalledComponent> {
    let (open, _) = open_component(file).ok()?;
    let path = absolute(file).ok()?;
    let component = sandbox.recall(&path, &open).ok()??;
    let tools = tools(&component, &path).ok()?;
    Some(RecalledComponent {
        component,
        tools,
        path,
    })
}

pub(crate) fn tools(
    component: &LoadedComponent,
    file: &Path,
) -> Result<Vec<Arc<Tool>>, Vec<Finding>> {
    let described = agent_tool::toolkit(&component.toolkit(Some(file)))?;
    Tool::from_accepted(described.toolkit, &described.notes, &facts(component))
}
