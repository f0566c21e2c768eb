use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Toolcell, fixture};

/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The protocol revisions that a client may request.
pub(crate) const OLD: &str = "2025-11-25";
pub(crate) const NEW: &str = "2026-07-28";

/// A client that drives the real program over its standard streams, frame by frame.
pub(crate) struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    frames: Receiver<(Instant, Value)>,
    /// Every frame received, in order.
    seen: Vec<(Instant, Value)>,
    stderr: Option<JoinHandle<String>>,
    said: Arc<Mutex<String>>,
    next_id: i64,
    revision: &'static str,
    capabilities: Value,
}

impl Client {
    /// Serves tools of test guests, such as `probe#echo`, or all tools of one: `probe`. Then initializes the session.
    pub(crate) fn of(tools: &[&str]) -> Self {
        Self::with(tools, [""; 0])
    }

    pub(crate) fn with<I: AsRef<OsStr>>(
        tools: &[&str],
        options: impl IntoIterator<Item = I>,
    ) -> Self {
        let mut client = Self::silent(tools, options);
        client.initialize(OLD);
        client
    }

    /// A client that has not sent anything yet.
    pub(crate) fn silent<I: AsRef<OsStr>>(
        tools: &[&str],
        options: impl IntoIterator<Item = I>,
    ) -> Self {
        let mut arguments = vec!["mcp".into()];
        arguments.extend(tools.iter().map(|tool| match tool.split_once('#') {
            Some((guest, name)) => {
                let mut path = fixture(guest).into_os_string();
                path.push(format!("#{name}"));
                path
            }
            None => fixture(tool).into_os_string(),
        }));
        arguments.extend(options.into_iter().map(|option| option.as_ref().to_owned()));
        Self::run(Toolcell::new(arguments))
    }

    pub(crate) fn run(program: Toolcell) -> Self {
        let mut child = program.spawn_piped();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut stderr = child.stderr.take().unwrap();
        let (sender, frames) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines() {
                let line = line.unwrap_or_default();
                let frame =
                    serde_json::from_str(&line).unwrap_or_else(|_| json!({ "not a frame": line }));
                if sender.send((Instant::now(), frame)).is_err() {
                    return;
                }
            }
        });
        let said = Arc::new(Mutex::new(String::new()));
        let hearing = Arc::clone(&said);
        let stderr = std::thread::spawn(move || {
            for line in BufReader::new(&mut stderr).lines().map_while(Result::ok) {
                let mut said = hearing.lock().unwrap();
                said.push_str(&line);
                said.push('\n');
            }
            hearing.lock().unwrap().clone()
        });
        let stdin = child.stdin.take();
        Self {
            child,
            stdin,
            frames,
            seen: Vec::new(),
            stderr: Some(stderr),
            said,
            next_id: 0,
            revision: OLD,
            capabilities: json!({}),
        }
    }

    /// Requests a revision. Returns the server's answer.
    pub(crate) fn initialize(&mut self, revision: &str) -> Value {
        let params = json!({ "protocolVersion": revision, "capabilities": self.capabilities, "clientInfo": { "name": "test", "version": "1" } });
        let answer = self.request("initialize", params);
        self.notify("notifications/initialized", json!({}));
        answer
    }

    /// Sets the capabilities of this client.
    pub(crate) fn can(mut self, capabilities: Value) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Waits for the line on standard error that contains `meant`.
    #[track_caller]
    pub(crate) fn says(&self, meant: &str) -> String {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let said = self.said.lock().unwrap().clone();
            if let Some(line) = said.lines().find(|line| line.contains(meant)) {
                return line.to_owned();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!(
            "the server did not print {meant:?}: {}",
            self.said.lock().unwrap()
        )
    }

    /// From now on, every request carries the metadata that 2026-07-28 requires.
    pub(crate) fn speak_new(&mut self) {
        self.revision = NEW;
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The id of the next request.
    pub(crate) fn next_id(&self) -> i64 {
        self.next_id + 1
    }

    pub(crate) fn send_text(&mut self, text: &str) {
        self.send_bytes(text.as_bytes());
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        // The program may have ended; the test fails when it waits for an answer.
        let _ = stdin
            .write_all(bytes)
            .and_then(|()| stdin.write_all(b"\n"))
            .and_then(|()| stdin.flush());
    }

    pub(crate) fn send(&mut self, frame: &Value) {
        self.send_text(&frame.to_string());
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a request with a new id, and does not wait.
    pub(crate) fn begin(&mut self, method: &str, mut params: Value) -> Value {
        self.next_id += 1;
        if self.revision == NEW {
            let meta = params
                .as_object_mut()
                .unwrap()
                .entry("_meta")
                .or_insert_with(|| json!({}));
            meta["io.modelcontextprotocol/protocolVersion"] = json!(NEW);
            meta["io.modelcontextprotocol/clientInfo"] = json!({ "name": "test", "version": "1" });
            meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        }
        self.send(
            &json!({ "jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params }),
        );
        json!(self.next_id)
    }

    pub(crate) fn begin_call(&mut self, tool: &str, arguments: Value) -> Value {
        self.begin(
            "tools/call",
            json!({ "name": tool, "arguments": arguments }),
        )
    }

    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.answer(&id)
    }

    /// Calls a tool. Returns the result; a protocol error fails the test.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.begin_call(tool, arguments);
        let answer = self.answer(&id);
        assert!(answer.get("result").is_some(), "{answer:#}");
        answer["result"].clone()
    }

    /// The answer to the request with that id.
    #[track_caller]
    pub(crate) fn answer(&mut self, id: &Value) -> Value {
        self.until(|frame| frame.get("id") == Some(id) && frame.get("method").is_none())
            .1
    }

    /// The first matching frame, among those received and those to come.
    #[track_caller]
    pub(crate) fn until(&mut self, meant: impl Fn(&Value) -> bool) -> (Instant, Value) {
        let mut looked_at = 0;
        loop {
            while let Some((at, frame)) = self.seen.get(looked_at) {
                if meant(frame) {
                    return (*at, frame.clone());
                }
                looked_at += 1;
            }
            match self.frames.recv_timeout(PATIENCE) {
                Ok(frame) => self.seen.push(frame),
                Err(RecvTimeoutError::Timeout) => {
                    panic!("no answer in {PATIENCE:?}; came: {:#?}", self.seen)
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let stderr = self.stderr.take().map(|reader| reader.join().unwrap());
                    panic!(
                        "the program ended; came: {:#?}; stderr: {stderr:?}",
                        self.seen
                    )
                }
            }
        }
    }

    /// Every frame received so far, in order; does not wait for more.
    pub(crate) fn seen(&mut self) -> Vec<Value> {
        self.seen.extend(self.frames.try_iter());
        self.seen.iter().map(|(_, frame)| frame.clone()).collect()
    }

    /// Returns every frame received so far, and forgets them.
    pub(crate) fn forget(&mut self) -> Vec<Value> {
        let seen = self.seen();
        self.seen.clear();
        seen
    }

    /// Closes standard input and waits for the exit: the status, the duration, the output on stderr, and the frames.
    pub(crate) fn close(mut self) -> (ExitStatus, Duration, String, Vec<Value>) {
        let began = Instant::now();
        drop(self.stdin.take());
        self.end(began)
    }

    /// Waits for the exit of a program that ends by itself.
    pub(crate) fn end(mut self, began: Instant) -> (ExitStatus, Duration, String, Vec<Value>) {
        let status = self.child.wait().unwrap();
        let took = began.elapsed();
        let stderr = self.stderr.take().unwrap().join().unwrap();
        self.seen.extend(self.frames.iter());
        let frames = self.seen.drain(..).map(|(_, frame)| frame).collect();
        (status, took, stderr, frames)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The records that a server has written to `file`, one per line.
pub(crate) fn records(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    // A line without its line end is still being written.
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The names of listed tools without their namespaces, in their order.
pub(crate) fn bare_names(tools: &Value) -> Vec<String> {
    let bare = |tool: &Value| {
        let name = tool["name"].as_str().unwrap();
        let namespace = tool["_meta"]["toolcell/tool"]["namespace"]
            .as_str()
            .unwrap_or_default()
            .replace('.', "_");
        name.strip_prefix(&format!("{namespace}_"))
            .unwrap_or(name)
            .to_owned()
    };
    tools
        .as_array()
        .unwrap_or_else(|| panic!("{tools}"))
        .iter()
        .map(bare)
        .collect()
}
