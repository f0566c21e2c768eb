//! Many owners, each with a workspace of its own, and calls of all of them at once.
//!
//! Promise: A workspace is its owner's alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use toolcell::{CallContext, CallSpec, CallWorkspace, ToolSet};
use toolcell_engine::pipeline::call_workspace;
use toolcell_workspace::{OnFailure, WorkspaceOwner, WorkspaceSettings, Workspaces};

use crate::support::{fixture, host, scratch};

const SESSIONS: u64 = 1_000;
const AT_ONCE: u64 = 64;
const STEPS: u64 = 4;

/// What one session did, and what it must find.
struct Session {
    tools: Arc<ToolSet>,
    workspace: CallWorkspace,
    id: u64,
    random: u64,
    files: BTreeMap<String, String>,
}

impl Session {
    fn next(&mut self, below: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    async fn call(&self, tool: &str, input: Value) -> Value {
        let context = CallContext {
            workspace: Some(self.workspace.clone()),
            ..CallContext::default()
        };
        let spec = CallSpec::new(format!("probe.{tool}"), input);
        let record = self.tools.call(spec, context).await;
        let output = record.result.structured_content.clone();
        output.unwrap_or_else(|| panic!("{:#?}", record.result.error))
    }

    async fn step(&mut self) {
        let path = format!("f{}", self.next(4));
        match self.next(4) {
            0 => {
                let done = self.call("remove", json!({ "path": path })).await;
                let was_there = self.files.remove(&path).is_some();
                assert_eq!(done["ok"], was_there, "{path}: {done:#}");
            }
            1 => {
                let to = format!("f{}", self.next(4));
                let done = self.call("rename", json!({ "from": path, "to": to })).await;
                let moved = self.files.remove(&path);
                assert_eq!(done["ok"], moved.is_some(), "{path}: {done:#}");
                self.files.extend(moved.map(|text| (to, text)));
            }
            kind => {
                let number = self.next(1_000);
                let text = format!("session {} wrote {number}", self.id);
                let tool = if kind == 2 { "write" } else { "append" };
                self.call(tool, json!({ "path": path, "text": text })).await;
                let known = self.files.entry(path).or_default();
                if kind == 2 {
                    known.clear();
                }
                known.push_str(&text);
            }
        }
        let listed = self.call("list", json!({ "path": "/workspace" })).await;
        let names: Vec<&String> = self.files.keys().collect();
        assert_eq!(listed["value"], json!(names), "session {}", self.id);
        if let Some((path, text)) = self.files.iter().next() {
            let read = self.call("read", json!({ "path": path })).await;
            assert_eq!(read["value"]["text"], *text, "session {}", self.id);
        }
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "an attack: just hostile, or cargo test -- --ignored"]
async fn a_thousand_sessions_see_their_own_files_alone() {
    let (_guard, path) = scratch();
    let host = host(|settings| settings.calls_at_once(u32::try_from(AT_ONCE).unwrap()));
    host.load_file(&fixture("probe")).await.unwrap();
    let tools = Arc::new(ToolSet::new(Arc::new(host)));
    let workspaces = Workspaces::new(path.join("workspaces"));
    let session = |id: u64| {
        let owner = WorkspaceOwner::session(&id.to_string());
        let name = "default".parse().unwrap();
        let made = workspaces.create(&owner, &name, &WorkspaceSettings::default());
        Session {
            tools: Arc::clone(&tools),
            workspace: call_workspace(Arc::new(made.unwrap()), OnFailure::Keep),
            id,
            random: id,
            files: BTreeMap::new(),
        }
    };
    session(SESSIONS).step().await;
    let before = descriptors();
    for wave in 0..SESSIONS.div_ceil(AT_ONCE) {
        let ids = (wave * AT_ONCE)..((wave + 1) * AT_ONCE).min(SESSIONS);
        let mut running = tokio::task::JoinSet::new();
        for id in ids {
            let mut session = session(id);
            running.spawn(async move {
                for _ in 0..STEPS {
                    session.step().await;
                }
            });
        }
        while let Some(ended) = running.join_next().await {
            ended.unwrap();
        }
    }
    let after = descriptors();
    assert!(
        after <= before + 16,
        "{before} descriptors before, {after} after"
    );
}
