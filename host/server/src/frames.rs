//! MCP messages over two streams, one per line.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{BufMut, BytesMut};
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequest, CallToolRequestMethod, CallToolRequestParams, CancelledNotificationParam,
    ClientNotification, ClientRequest, ErrorData, Extensions, GetExtensions, JsonRpcMessage,
    JsonRpcRequest, JsonRpcVersion2_0, RequestId,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

use super::budget::{ByteBudget, ROOM, give_back_soon};
use super::greeting;
use super::loading::LoadEnd;
use super::of_http;
use super::outline::{Outline, RefusedFrame};
use super::pending::{IdInUse, PendingRequests};
use super::sent_arguments::{SentArguments, weight};
use super::stdio::{ClientReader, ClientWriter};

/// A longer line is discarded.
const LINE_BYTES_MAX: usize = 16 << 20;
/// Kept by an empty buffer for the next line.
const KEPT_BYTES_MAX: usize = 64 << 10;
/// A call that fits takes one read.
const READ_BYTES: usize = 4 << 10;

type IncomingMessage = RxJsonRpcMessage<RoleServer>;
type OutgoingMessage = TxJsonRpcMessage<RoleServer>;

/// Marks a cancellation for which there is no unanswered request.
#[derive(Clone, Debug)]
pub(super) struct NotPending;

impl NotPending {
    pub(super) fn is_in(extensions: &Extensions) -> bool {
        let found: Option<&Self> = extensions.get().or_else(|| of_http(extensions));
        found.is_some()
    }
}

/// Reports when the client closes its end, and rejects a request id that is in use.
pub(super) struct FrameTransport {
    reader: ClientReader,
    lines: LineBuffer,
    /// `None` once closed.
    output: Arc<tokio::sync::Mutex<Option<OutputState>>>,
    closed: CancellationToken,
    pending: Arc<PendingRequests>,
    refusal: Option<Value>,
    /// A refusal is not written in full.
    owes: bool,
    /// Requests may wait for this load of the tools, and so does the end of the input.
    load: Option<LoadEnd>,
}

impl FrameTransport {
    pub(super) fn new(
        reader: ClientReader,
        writer: ClientWriter,
        closed: CancellationToken,
    ) -> Self {
        let output = OutputState {
            writer,
            left: BytesMut::new(),
        };
        let output = Arc::new(tokio::sync::Mutex::new(Some(output)));
        let lines = LineBuffer::default();
        Self {
            reader,
            lines,
            output,
            closed,
            pending: Arc::default(),
            refusal: None,
            owes: false,
            load: None,
        }
    }

    pub(super) fn until_loaded(self, load: Option<LoadEnd>) -> Self {
        Self { load, ..self }
    }

    pub(super) fn pending(&self) -> Arc<PendingRequests> {
        Arc::clone(&self.pending)
    }

    /// Registers a request, or ends a canceled one. Fails if the id is in use.
    fn begins(&self, message: &mut IncomingMessage) -> Result<(), IdInUse> {
        match message {
            JsonRpcMessage::Request(request) => self.pending.begin(&request.id),
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(canceled) =
                    &mut notification.notification
                    && let Some(id) = &canceled.params.request_id
                    && !self.pending.cancel(id)
                {
                    canceled.extensions.insert(NotPending);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn ends(&self, message: &OutgoingMessage) {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        if let Some(id) = id {
            self.pending.end(id);
        }
    }

    /// `None` once the client closed its end. Cancel safe: no input is lost.
    async fn next(&mut self) -> io::Result<Option<IncomingMessage>> {
        loop {
            self.settle().await?;
            match self.lines.next() {
                Some(InputLine::Message(message)) => return Ok(Some(*message)),
                Some(InputLine::Refused(refused)) => {
                    let id = refused.id.filter(|id| self.pending.is_free(id));
                    self.refuse(&refused.error, id.as_ref());
                }
                None => {
                    self.lines.read.reserve(READ_BYTES);
                    if self.reader.read_buf(&mut self.lines.read).await? == 0 {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// The refusal's id is null if the message has none, or one in use, because the first request with that id still
    /// gets its own response.
    fn refuse(&mut self, error: &ErrorData, id: Option<&RequestId>) {
        self.refusal = Some(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        self.owes = true;
    }

    /// Writes the pending refusal. Cancel safe: the next call writes the rest.
    async fn settle(&mut self) -> io::Result<()> {
        if !self.owes {
            return Ok(());
        }
        let mut output = self.output.lock().await;
        let output = output.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        if let Some(refusal) = self.refusal.take() {
            output.put(&refusal)?;
        }
        output.drain().await?;
        self.owes = false;
        Ok(())
    }
}

impl Transport<RoleServer> for FrameTransport {
    type Error = io::Error;

    /// Writes what the client takes at once here: rmcp polls the future in a task of its own, for which the client
    /// would wait.
    fn send(
        &mut self,
        item: OutgoingMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.ends(&item);
        let output = Arc::clone(&self.output);
        let sent = output
            .try_lock()
            .ok()
            .and_then(|mut output| output.as_mut().map(|output| output.send_now(&item)));
        async move {
            match sent {
                Some(Poll::Ready(written)) => written,
                Some(Poll::Pending) => drain(&output).await,
                None => send(&output, &item).await,
            }
        }
    }

    async fn receive(&mut self) -> Option<IncomingMessage> {
        loop {
            // A read error counts as the end of the stream.
            let Ok(Some(mut message)) = self.next().await else {
                break;
            };
            let Err(taken) = self.begins(&mut message) else {
                return Some(message);
            };
            self.refuse(&invalid(taken.to_string()), None);
        }
        // The requests that wait for the tools get their answers, although the client sends no more.
        if let Some(load) = &mut self.load {
            load.wait().await;
        }
        self.closed.cancel();
        None
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        drop(self.output.lock().await.take());
        Ok(())
    }
}

async fn send(
    output: &tokio::sync::Mutex<Option<OutputState>>,
    item: &OutgoingMessage,
) -> io::Result<()> {
    let mut output = output.lock().await;
    let output = output.as_mut().ok_or(io::ErrorKind::NotConnected)?;
    output.put(item)?;
    output.drain().await
}

async fn drain(output: &tokio::sync::Mutex<Option<OutputState>>) -> io::Result<()> {
    output
        .lock()
        .await
        .as_mut()
        .ok_or(io::ErrorKind::NotConnected)?
        .drain()
        .await
}

struct OutputState {
    writer: ClientWriter,
    /// A line must be complete before the next one begins.
    left: BytesMut,
}

impl OutputState {
    fn put(&mut self, item: &impl Serialize) -> io::Result<()> {
        let whole = self.left.len();
        if let Err(error) = serde_json::to_writer((&mut self.left).writer(), item) {
            self.left.truncate(whole);
            return Err(error.into());
        }
        self.left.put_u8(b'\n');
        Ok(())
    }

    fn send_now(&mut self, item: &OutgoingMessage) -> Poll<io::Result<()>> {
        self.put(item)?;
        // A later call of `drain` registers a waker.
        pin!(self.drain()).poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Cancel safe: the next call writes the rest.
    async fn drain(&mut self) -> io::Result<()> {
        while !self.left.is_empty() {
            if self.writer.write_buf(&mut self.left).await? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        shrink(&mut self.left);
        self.writer.flush().await
    }
}

/// Frees an empty buffer that grew for a large frame.
fn shrink(buffer: &mut BytesMut) {
    if buffer.is_empty() && buffer.capacity() > KEPT_BYTES_MAX {
        *buffer = BytesMut::new();
        give_back_soon();
    }
}

struct LineBuffer {
    read: BytesMut,
    budget: ByteBudget,
    searched: usize,
    /// Skips the rest of an overlong line.
    skipping: bool,
}

enum InputLine {
    Message(Box<IncomingMessage>),
    /// A frame that is refused, or is no MCP message.
    Refused(RefusedFrame),
}

fn invalid(why: String) -> ErrorData {
    ErrorData::invalid_request(why, None)
}

pub(super) fn unreadable(text: &[u8]) -> ErrorData {
    let why = match std::str::from_utf8(text) {
        Err(error) => format!(
            "the message is not UTF-8 from byte {} on",
            error.valid_up_to()
        ),
        Ok(text) => match serde_json::from_str::<IgnoredAny>(text) {
            Ok(_) => {
                return invalid(
                    "Invalid request: a message is a JSON object with jsonrpc and method"
                        .to_owned(),
                );
            }
            Err(error) => format!("the message is not JSON: {error}"),
        },
    };
    ErrorData::parse_error(
        format!("{why}: send one JSON-RPC message, on one line"),
        None,
    )
}

impl Default for LineBuffer {
    fn default() -> Self {
        let budget = ByteBudget::new(ROOM.arguments);
        Self {
            read: BytesMut::new(),
            budget,
            searched: 0,
            skipping: false,
        }
    }
}

impl LineBuffer {
    fn next(&mut self) -> Option<InputLine> {
        loop {
            let Some(end) = self
                .read
                .iter()
                .skip(self.searched)
                .position(|byte| *byte == b'\n')
            else {
                self.searched = self.read.len();
                if self.skipping || self.searched > LINE_BYTES_MAX {
                    self.skipping = true;
                    self.searched = 0;
                    self.read.clear();
                }
                shrink(&mut self.read);
                return None;
            };
            let line = self.read.split_to(self.searched + end + 1);
            self.searched = 0;
            if std::mem::take(&mut self.skipping) || line.len() > LINE_BYTES_MAX {
                let why = format!("the message has more than {LINE_BYTES_MAX} bytes: send less");
                let error = invalid(why);
                return Some(InputLine::Refused(RefusedFrame { id: None, error }));
            }
            if let Some(line) = parse(line.trim_ascii(), &self.budget) {
                return Some(line);
            }
        }
    }
}

/// `None` for an empty line, and for a notification that cannot be read.
fn parse(line: &[u8], budget: &ByteBudget) -> Option<InputLine> {
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
    if line.is_empty() {
        return None;
    }
    let refused = |error, id| Some(InputLine::Refused(RefusedFrame { id, error }));
    let outline = match Outline::scan(line) {
        Ok(outline) => outline,
        Err(unread) => return Some(InputLine::Refused(unread)),
    };
    if let Some(outline) = outline.as_ref().filter(|outline| outline.is("initialize")) {
        return match greeting::complete(line) {
            Ok(completed) => message(completed.as_deref().unwrap_or(line), None),
            Err(wrong) => refused(wrong, outline.request_id()),
        };
    }
    let called = outline.and_then(|outline| Some((outline.arguments()?, outline)));
    let Some((arguments, outline)) = called else {
        return message(line, None);
    };
    let Ok(lease) = budget.try_take(weight(arguments)) else {
        let why = format!(
            "the arguments of all calls on their way may take {} bytes of memory, and this call is beyond that: wait \
             for answers, then call again",
            ROOM.arguments
        );
        return refused(invalid(why), outline.request_id());
    };
    message(
        &outline.without_arguments(),
        Some(SentArguments::new(arguments, lease)),
    )
}

/// `sent`: arguments that were taken out of the line.
fn message(line: &[u8], sent: Option<SentArguments>) -> Option<InputLine> {
    let read = match serde_json::from_slice::<ToolCallFrame>(line) {
        Ok(call) => Ok(call.into()),
        Err(_) => serde_json::from_slice(line),
    };
    match read {
        Ok(mut message) => {
            if let (Some(sent), JsonRpcMessage::Request(request)) = (sent, &mut message) {
                request.request.extensions_mut().insert(sent);
            }
            Some(InputLine::Message(Box::new(message)))
        }
        // A notification has no response.
        Err(_) if is_notification(line) => None,
        Err(_) => Some(InputLine::Refused(RefusedFrame {
            error: unreadable(line),
            id: None,
        })),
    }
}

fn is_notification(line: &[u8]) -> bool {
    let value: Value = serde_json::from_slice(line).unwrap_or_default();
    value.get("method").is_some_and(Value::is_string) && value.get("id").is_none()
}

/// Parsed first because `tools/call` must be fast: rmcp tries one message type after the other.
#[derive(Deserialize)]
struct ToolCallFrame {
    jsonrpc: JsonRpcVersion2_0,
    id: RequestId,
    method: CallToolRequestMethod,
    params: CallToolRequestParams,
}

impl From<ToolCallFrame> for IncomingMessage {
    fn from(call: ToolCallFrame) -> Self {
        let ToolCallFrame {
            jsonrpc,
            id,
            method,
            mut params,
        } = call;
        let meta = params.meta.take();
        let mut request = CallToolRequest::new(params);
        request.method = method;
        // rmcp's own deserializer puts the metadata there.
        if let Some(meta) = meta {
            request.extensions.insert(meta);
        }
        let mut message = JsonRpcRequest::new(id, ClientRequest::CallToolRequest(request));
        message.jsonrpc = jsonrpc;
        JsonRpcMessage::Request(message)
    }
}

/// The request that a notification cancels.
pub(crate) fn canceled(body: &[u8]) -> Option<RequestId> {
    #[derive(Deserialize)]
    struct Notification {
        params: CancelledNotificationParam,
    }
    let notification: Notification = serde_json::from_slice(body).ok()?;
    notification.params.request_id
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use rmcp::model::{GetExtensions, JsonRpcMessage};

    use super::{
        ByteBudget, IncomingMessage, InputLine, LINE_BYTES_MAX, LineBuffer, SentArguments,
    };

    fn read(lines: &mut LineBuffer, bytes: &[u8]) -> Vec<Option<Value>> {
        lines.read.extend_from_slice(bytes);
        std::iter::from_fn(|| lines.next())
            .map(|line| match line {
                InputLine::Message(message) => Some(serde_json::to_value(message).unwrap()),
                InputLine::Refused(_) => None,
            })
            .collect()
    }

    #[test]
    fn the_arguments_of_a_call_come_as_they_were_sent() {
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{"n": 1.50},"name":"a"}}"#;
        let Some(InputLine::Message(message)) =
            super::parse(text.as_bytes(), &ByteBudget::new(1 << 20))
        else {
            panic!()
        };
        let JsonRpcMessage::Request(request) = *message else {
            panic!()
        };
        let sent = request.request.extensions().get::<SentArguments>().unwrap();
        assert_eq!(sent.arguments.text(), r#"{"n": 1.50}"#);
    }

    #[test]
    fn a_call_is_read_as_the_protocol_reads_it() {
        for params in [
            json!({ "name": "a" }),
            json!({ "name": "a", "arguments": { "b": [1, 2.5, "c"] }, "other": true }),
            json!({ "name": "a", "_meta": { "progressToken": 7, "x/y": { "z": null } }, "requestState": "s" }),
            json!({ "name": "a", "inputResponses": { "k": { "action": "accept", "content": {} } } }),
        ] {
            for id in [json!(7), json!("7")] {
                let frame =
                    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
                let Some(InputLine::Message(fast)) =
                    super::message(frame.to_string().as_bytes(), None)
                else {
                    panic!("{frame}")
                };
                let slow: IncomingMessage = serde_json::from_value(frame).unwrap();
                // The debug output includes the extensions, which hold the metadata.
                assert_eq!(format!("{fast:?}"), format!("{slow:?}"));
            }
        }
    }

    #[test]
    fn lines_come_in_pieces_and_what_is_no_message_is_refused() {
        let mut lines = LineBuffer::default();
        let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
        let (first, second) = ping.split_at(9);
        assert!(read(&mut lines, first.as_bytes()).is_empty());
        let are_messages =
            |read: Vec<Option<Value>>| read.iter().map(Option::is_some).collect::<Vec<_>>();
        assert_eq!(
            are_messages(read(&mut lines, format!("{second}\r\n\n{{\n").as_bytes())),
            [true, false]
        );
        assert_eq!(are_messages(read(&mut lines, b"\xff\xfe\n\xc3")), [false]);
        let odd = "[]\n{\"jsonrpc\":\"2.0\",\"method\":\"$/odd\",\"params\":7}\n";
        assert_eq!(
            are_messages(read(&mut lines, format!("\n{odd}{ping}\n").as_bytes())),
            [false, false, true]
        );
    }

    #[test]
    fn what_cannot_be_read_is_a_parse_error() {
        let lines: [(&[u8], i32); 5] = [
            (b"garbage", -32700),
            (
                b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\xff\"}",
                -32700,
            ),
            (b"{\"jsonrpc\":\"2.0\"", -32700),
            (b"7", -32600),
            (b"{}", -32600),
        ];
        for (line, code) in lines {
            let Some(InputLine::Refused(refused)) = super::parse(line, &ByteBudget::new(1 << 20))
            else {
                panic!("{line:?}")
            };
            assert_eq!(
                (refused.error.code.0, refused.id),
                (code, None),
                "{}",
                String::from_utf8_lossy(line)
            );
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_refused_and_not_kept() {
        let mut lines = LineBuffer::default();
        let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
        for _ in 0..40 {
            assert!(read(&mut lines, &[b'x'; 1 << 20]).is_empty());
            assert!(lines.read.len() <= LINE_BYTES_MAX);
        }
        assert_eq!(read(&mut lines, format!("x\n{ping}\n").as_bytes()).len(), 2);
        assert!(!lines.skipping);
    }
}
