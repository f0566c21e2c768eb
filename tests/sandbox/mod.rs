//! Tests of the sandbox: hostile guests, and good ones under every limit and grant.

mod cache;
mod cancellation;
mod checks;
pub(crate) mod compiling;
mod denials;
mod escapes;
mod floods;
mod forgeries;
mod grants;
mod held;
mod hooks;
mod limits;
mod loading;
mod narrowing;
mod neighbours;
mod network;
mod profiles;
mod races;
mod request_secrets;
mod secrets;
mod space;
mod traps;
mod world;
pub(crate) mod worlds;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use toolcell::Listener;
use toolcell_spec::{EventType, ToolEvent};

/// Every path below `dir` with its content: a file's bytes, a link's target, nothing for a folder.
pub(crate) fn snapshot(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let kind = path.symlink_metadata().unwrap().file_type();
        if kind.is_dir() {
            found.extend(snapshot(&path));
            found.insert(path, Vec::new());
        } else if kind.is_symlink() {
            found.insert(
                path.clone(),
                path.read_link()
                    .unwrap()
                    .into_os_string()
                    .into_encoded_bytes(),
            );
        } else {
            found.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    found
}

/// The text of a path.
fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// All text that a call captured from `stream`: stdout, stderr, log, or the host's own notes.
fn logged(record: &Value, stream: &str) -> String {
    let blocks = record["result"]["content"].as_array().unwrap().iter();
    blocks
        .filter(|block| block["type"] == "log" && block["stream"] == stream)
        .map(|block| block["text"].as_str().unwrap())
        .collect()
}

/// A listener that lets a test wait for events of a host, instead of sleeping.
struct Heard {
    send: UnboundedSender<EventType>,
    receive: Mutex<Option<UnboundedReceiver<EventType>>>,
}

impl Heard {
    fn new() -> Arc<Self> {
        let (send, receive) = unbounded_channel();
        Arc::new(Self {
            send,
            receive: Mutex::new(Some(receive)),
        })
    }

    /// The past and future events. Can be taken once.
    fn events(&self) -> Events {
        Events(self.receive.lock().unwrap().take().unwrap())
    }
}

impl Listener for Heard {
    fn event(&self, event: &ToolEvent) {
        let _ = self.send.send(event.event_type);
    }
}

struct Events(UnboundedReceiver<EventType>);

impl Events {
    /// Waits until an event of type `wanted` comes.
    async fn wait_for(&mut self, wanted: EventType) {
        while self.0.recv().await.unwrap() != wanted {}
    }
}
