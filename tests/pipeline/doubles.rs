//! Test doubles for the pipeline: a tool with custom records, a scripted hook, and hosts.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;
use toolcell::{Home, Host, HostBuilder, Listener};
use toolcell_executor::hook::{Hook, HookCall, HookFuture, HookOutput, Registration};
use toolcell_spec::{AbortReason, HookEvent, ToolEvent, ToolResult};

use crate::support::{Called, Test, host, root, share_compiled};

/// The component text `echo.wat` with a changed toolkit: one tool `<namespace>.echo` that answers its input.
pub(crate) fn echoing(namespace: &str, change: impl FnOnce(&mut Value)) -> Vec<u8> {
    wat::parse_str(echo_text(namespace, change)).unwrap()
}

/// [`echoing`], for other tools alone.
pub(crate) fn internal(namespace: &str) -> Vec<u8> {
    echoing(namespace, |toolkit| {
        toolkit["declarations"][0]["interface_ref"] = json!("i");
        toolkit["interfaces"] = json!([{
            "schema_version": "0.2.0", "interface_id": "i", "tool_id": format!("{namespace}.echo"),
            "schema_visibility": "internal",
        }]);
    })
}

/// Makes `token` a sensitive argument of the only tool.
pub(crate) fn hiding_a_token(toolkit: &mut Value) {
    toolkit["declarations"][0]["input_contract"] = json!({
        "model_input_schema": { "type": "object", "properties": { "token": { "type": "string" } } },
        "sensitive_fields": ["token"],
    });
}

/// Lets the only tool read files, and declares that its arguments `path` and `all` name them.
pub(crate) fn naming_paths(toolkit: &mut Value) {
    toolkit["declarations"][0]["input_contract"] = json!({
        "model_input_schema": {
            "type": "object",
            "properties": {
                "path": { "type": "string" },
                "all": { "type": "array", "items": { "type": "string" } },
                "note": { "type": "string" },
            },
        },
    });
    toolkit["declarations"][0]["interface_ref"] = json!("naming");
    toolkit["declarations"][0]["permission_profile_ref"] = json!("naming");
    toolkit["interfaces"] = json!([{
        "schema_version": "0.2.0", "interface_id": "naming", "is_read_only": true,
        "tool_id": format!("{}.echo", toolkit["declarations"][0]["namespace"].as_str().unwrap()),
        "permission_subjects": { "/path": "path", "/all": "path" },
    }]);
    toolkit["permission_profiles"] = json!([{
        "schema_version": "0.2.0", "permission_profile_id": "naming", "risk_level": "low",
        "access_kinds": ["file_read"], "write_effects": ["none"],
    }]);
}

/// [`echoing`] with `count` tools, `t0`, `t1` and so on, each with a word of its own in its description, `word0x` and so on.
pub(crate) fn crowd(namespace: &str, count: usize, change: impl FnOnce(&mut Value)) -> Vec<u8> {
    echoing(namespace, |toolkit| {
        let one = toolkit["declarations"][0].clone();
        let each = |n: usize| {
            let mut declaration = one.clone();
            declaration["name"] = json!(format!("t{n}"));
            declaration["description"] = json!(format!("Answers its input about word{n}x"));
            declaration
        };
        toolkit["declarations"] = (0..count).map(each).collect();
        change(toolkit);
    })
}

/// The component text `echo.wat`, which describes itself with `description`.
pub(crate) fn describing(description: &str) -> Vec<u8> {
    wat::parse_str(described_text(description)).unwrap()
}

/// [`echoing`] with one more import, which it does not use.
pub(crate) fn importing(import: &str, namespace: &str, change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let import = format!("(component\n  (import \"{import}\" (instance))\n");
    wat::parse_str(echo_text(namespace, change).replacen("(component", &import, 1)).unwrap()
}

/// The component text of [`echoing`].
pub(crate) fn echo_text(namespace: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut toolkit = json!({
        "declarations": [{
            "schema_version": "0.2.0",
            "namespace": namespace,
            "name": "echo",
            "description": "Answers its input",
            "lifecycle": "available",
            "tool_kind": "function",
            "input_contract": {"model_input_schema": {"type": "object"}},
        }],
    });
    change(&mut toolkit);
    described_text(&toolkit.to_string())
}

fn described_text(description: &str) -> String {
    let text = std::fs::read_to_string(root().join("tests/guests/wat/echo.wat")).unwrap();
    let (before, rest) = text.split_once("(data (i32.const 1024)").unwrap();
    let (_, after) = rest.split_once("\n\n").unwrap();
    let escaped: String = description
        .bytes()
        .map(|byte| format!("\\{byte:02x}"))
        .collect();
    let text = format!("{before}(data (i32.const 1024) \"{escaped}\")\n\n{after}");
    // The guest's heap begins after the description.
    let free = (1024 + description.len()).next_multiple_of(8).max(8192);
    let text = text.replace(
        "(global $free (mut i32) (i32.const 8192))",
        &format!("(global $free (mut i32) (i32.const {free}))"),
    );
    let text = text.replacen(
        "(memory (export \"memory\") 1)",
        &format!("(memory (export \"memory\") {})", free / 65_536 + 1),
        1,
    );
    text.replace(
        "(i32.const 926)",
        &format!("(i32.const {})", description.len()),
    )
}

/// [`echoing`] with a changed declaration.
pub(crate) fn declaring(namespace: &str, change: impl FnOnce(&mut Value)) -> Vec<u8> {
    echoing(namespace, |toolkit| change(&mut toolkit["declarations"][0]))
}

/// [`echoing`] with the model's field `query` and the internal one `zz_internal_7f3`.
pub(super) fn with_internal_field(namespace: &str) -> Vec<u8> {
    declaring(namespace, |declaration| {
        declaration["input_contract"] = json!({
            "model_input_schema": {
                "type": "object",
                "properties": {"query": {"type": "string"}, "zz_internal_7f3": {"type": "integer"}},
                "additionalProperties": false,
            },
            "internal_only_fields": ["zz_internal_7f3"],
        });
    })
}

/// A separate host without a pool, which is cheap.
pub(crate) fn own_host(change: impl FnOnce(HostBuilder) -> HostBuilder) -> Arc<Host> {
    Arc::new(host(|settings| change(settings.pooled(false))))
}

/// A host with these hooks, in this order.
pub(super) fn hooked<const N: usize>(hooks: [&Arc<RecordingHook>; N]) -> Arc<Host> {
    own_host(|settings| settings.hooks(hooks.map(|hook| Registration::new(hook.clone())).into()))
}

/// Calls a tool, and cancels the call once its guest runs.
pub(super) async fn canceled_while_running(
    tool: &str,
    input: Value,
    reason: AbortReason,
) -> Called {
    let listener = Arc::new(RecordingListener::default());
    let heard = Arc::clone(&listener);
    let host = own_host(|settings| settings.listener(heard));
    let test = Test::new(tool).on(&host);
    let cancellation = test.cancellation();
    let cancel = async {
        listener.wait_for("", "tool.invocation.started").await;
        cancellation.cancel(reason);
    };
    tokio::join!(test.call(input), cancel).0
}

/// A home with its own payloads; compiled components are shared with all other tests.
pub(crate) fn home_with_own_payloads(folder: &Path) -> Home {
    share_compiled(folder);
    Home::at(folder)
}

/// A hook that gives fixed answers, and records its calls.
pub(super) struct RecordingHook {
    id: &'static str,
    events: Vec<HookEvent>,
    answers: Vec<(HookEvent, Result<Vec<HookOutput>, String>)>,
    seen: Mutex<Vec<Seen>>,
}

/// One run of a hook.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) moment: &'static str,
    pub(super) call: HookCall,
    pub(super) result: Option<ToolResult>,
}

impl RecordingHook {
    /// Runs before and after the tool, and at the events that [`Self::at`] adds.
    pub(super) fn new(id: &'static str) -> Self {
        let events = vec![
            HookEvent::PreToolUse,
            HookEvent::PostToolUse,
            HookEvent::PostToolUseFailure,
        ];
        Self {
            id,
            events,
            answers: Vec::new(),
            seen: Mutex::default(),
        }
    }

    /// Runs at these events only.
    pub(super) fn hearing(id: &'static str, events: &[HookEvent]) -> Self {
        Self {
            events: events.to_vec(),
            ..Self::new(id)
        }
    }

    /// Answers with `outputs` at `event`.
    pub(super) fn at(
        mut self,
        event: HookEvent,
        outputs: impl IntoIterator<Item = HookOutput>,
    ) -> Self {
        if !self.events.contains(&event) {
            self.events.push(event);
        }
        self.answers
            .push((event, Ok(outputs.into_iter().collect())));
        self
    }

    pub(super) fn before(self, outputs: impl IntoIterator<Item = HookOutput>) -> Self {
        self.at(HookEvent::PreToolUse, outputs)
    }

    pub(super) fn after(self, outputs: impl IntoIterator<Item = HookOutput>) -> Self {
        self.at(HookEvent::PostToolUse, outputs)
    }

    pub(super) fn on_failure(self, outputs: impl IntoIterator<Item = HookOutput>) -> Self {
        self.at(HookEvent::PostToolUseFailure, outputs)
    }

    /// Fails at `event`.
    pub(super) fn failing(mut self, event: HookEvent, why: &str) -> Self {
        self.answers.push((event, Err(why.to_owned())));
        self
    }

    pub(super) fn failing_before(self, why: &str) -> Self {
        self.failing(HookEvent::PreToolUse, why)
    }

    pub(super) fn failing_after(self, why: &str) -> Self {
        self.failing(HookEvent::PostToolUse, why)
    }

    pub(super) fn shared(self) -> Arc<Self> {
        Arc::new(self)
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The moments at which the hook ran.
    pub(super) fn moments(&self) -> Vec<&'static str> {
        self.seen().iter().map(|seen| seen.moment).collect()
    }
}

impl Hook for RecordingHook {
    fn id(&self) -> &str {
        self.id
    }

    fn events(&self) -> &[HookEvent] {
        &self.events
    }

    fn handle<'a>(&'a self, call: &'a HookCall) -> HookFuture<'a> {
        let moment = match call.event {
            HookEvent::PreToolUse => "before",
            HookEvent::PostToolUse => "after",
            HookEvent::PostToolUseFailure => "on_failure",
            other => other.as_str(),
        };
        self.seen.lock().unwrap().push(Seen {
            moment,
            call: call.clone(),
            result: call.result.clone(),
        });
        let answer = self.answers.iter().find(|(event, _)| *event == call.event);
        let answer = answer.map_or(Ok(Vec::new()), |(_, answer)| answer.clone());
        Box::pin(async move { answer.into() })
    }
}

/// Records the events of a host as they happen, and lets a test wait for one.
#[derive(Default)]
pub(crate) struct RecordingListener {
    heard: Mutex<Vec<(String, &'static str)>>,
    news: Notify,
}

impl RecordingListener {
    /// The tool and type of every event so far.
    pub(super) fn heard(&self) -> Vec<(String, &'static str)> {
        self.heard.lock().unwrap().clone()
    }

    /// Waits for an event of `event_type` of a tool whose id ends with `tool`.
    pub(super) async fn wait_for(&self, tool: &str, event_type: &str) {
        self.wait_for_count(tool, event_type, 1).await;
    }

    /// Waits for so many of these events.
    pub(crate) async fn wait_for_count(&self, tool: &str, event_type: &str, count: usize) {
        let heard =
            tokio::time::timeout(Duration::from_secs(30), self.hear(tool, event_type, count)).await;
        assert!(
            heard.is_ok(),
            "{tool} had less than {count} {event_type}: {:?}",
            self.heard()
        );
    }

    /// Waits for an event of `wanted`, or of `other`, whichever comes first. Returns whether it is the former.
    pub(crate) async fn wait_for_any(&self, wanted: &str, other: &str) -> bool {
        let heard = async {
            loop {
                let news = self.news.notified();
                let found = self
                    .heard()
                    .iter()
                    .map(|(_, heard)| *heard)
                    .find(|heard| [wanted, other].contains(heard));
                match found {
                    Some(found) => return found == wanted,
                    None => news.await,
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(30), heard)
            .await
            .unwrap()
    }

    async fn hear(&self, tool: &str, event_type: &str, count: usize) {
        loop {
            let news = self.news.notified();
            if self
                .heard()
                .iter()
                .filter(|(id, heard)| id.ends_with(tool) && *heard == event_type)
                .count()
                >= count
            {
                return;
            }
            news.await;
        }
    }
}

impl Listener for RecordingListener {
    fn event(&self, event: &ToolEvent) {
        let tool = event.tool_id.as_deref().unwrap_or_default().to_owned();
        self.heard
            .lock()
            .unwrap()
            .push((tool, event.event_type.as_str()));
        self.news.notify_waiters();
    }
}
