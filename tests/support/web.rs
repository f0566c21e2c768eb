use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use toolcell::{Host, Policy, ToolSet, ToolTerms};
use toolcell_engine::catalog::TOOL_BUDGET;
use toolcell_server::{
    ApprovalFallback, ApprovalSettings, ExposedTools, HttpLimits, HttpSettings, InterruptFuture,
    OriginGate, ProxySettings, Server, ServerSettings, ServerTools, Tokens, ToolOffer, serve_http,
};

use super::{NEW, OLD, Toolcell, fixture, host};

/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The real program, serving HTTP on its own port, and clients that send it raw bytes.
pub(crate) struct Web {
    behind: Behind,
    pub(crate) address: SocketAddr,
    /// The token that the program printed; empty if it requires none.
    pub(crate) token: String,
    said: std::sync::mpsc::Receiver<String>,
}

enum Behind {
    Program(Child),
    /// The library's server in this process, for settings that only embedders have.
    Library(Option<Runtime>),
}

/// What serves in this process runs on.
pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

/// The tools of a test guest as an embedder of the library would offer them.
pub(crate) async fn offering(guest: &str, host: Host, policy: Policy) -> ServerTools {
    let tools = host.load_file(&fixture(guest)).await.unwrap().tools;
    let offered = tools.into_iter().map(|tool| ToolOffer {
        tool,
        terms: ToolTerms::default(),
        provider: None,
    });
    let approvals = ApprovalSettings {
        session: None,
        elicitation: true,
        away: ApprovalFallback::Wait,
    };
    let tools = ToolSet::new(Arc::new(host)).policy(policy);
    let offers = ExposedTools::new(offered.collect(), TOOL_BUDGET);
    ServerTools::new(tools, offers, approvals)
}

/// A server of the library, which keeps no records of its own.
pub(crate) fn server(offering: ServerTools) -> Arc<Server> {
    let settings = ServerSettings {
        recorder: None,
        announcer: Arc::new(|_| {}),
        store: None,
        log: None,
    };
    Server::new(settings, offering)
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// A response that is still arriving.
pub(crate) struct Coming {
    pub(crate) status: u16,
    pub(crate) head: String,
    reader: BufReader<TcpStream>,
    chunked: bool,
}

impl Web {
    /// Serves tools of test guests, such as `probe#echo`.
    pub(crate) fn of(tools: &[&str]) -> Self {
        Self::with(tools, [""; 0])
    }

    pub(crate) fn with<I: AsRef<OsStr>>(
        tools: &[&str],
        options: impl IntoIterator<Item = I>,
    ) -> Self {
        Self::run(Toolcell::new(Self::arguments(tools, options)))
    }

    /// The command line that serves `tools`.
    pub(crate) fn arguments<I: AsRef<OsStr>>(
        tools: &[&str],
        options: impl IntoIterator<Item = I>,
    ) -> Vec<std::ffi::OsString> {
        let mut arguments: Vec<std::ffi::OsString> =
            vec!["serve".into(), "--listen=127.0.0.1:0".into()];
        arguments.extend(tools.iter().map(|tool| match tool.split_once('#') {
            Some((guest, name)) => {
                let mut path = fixture(guest).into_os_string();
                path.push(format!("#{name}"));
                path
            }
            None => fixture(tool).into_os_string(),
        }));
        arguments.extend(options.into_iter().map(|option| option.as_ref().to_owned()));
        arguments
    }

    pub(crate) fn run(program: Toolcell) -> Self {
        let mut child = program.spawn();
        let mut lines = BufReader::new(child.stderr.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let mut heard = Vec::new();
        // Where the URLs have another address.
        let mut listens = None;
        let address = lines.by_ref().find_map(|line| {
            heard.push(line.clone());
            if let Some(address) = line.strip_prefix("Listening at ") {
                listens = address.parse().ok();
            }
            let url = line.strip_prefix("MCP at ")?;
            let here = || {
                url.strip_prefix("http://")?
                    .strip_suffix("/mcp")?
                    .parse()
                    .ok()
            };
            listens.or_else(here)
        });
        let address = address.unwrap_or_else(|| panic!("the program ended: {heard:#?}"));
        let token = heard
            .iter()
            .find_map(|line| line.strip_prefix("Authorization: Bearer "))
            .unwrap_or_default()
            .to_owned();
        let (sender, said) = std::sync::mpsc::channel();
        std::thread::spawn(move || lines.for_each(|line| _ = sender.send(line)));
        Self {
            behind: Behind::Program(child),
            address,
            token,
            said,
        }
    }

    /// Serves a tool of a test guest as an embedder of the library would, without a token.
    pub(crate) fn embedded(guest: &str, limits: HttpLimits) -> Self {
        Self::embedded_until(guest, limits, Box::pin(std::future::pending()))
    }

    /// Does what [`Self::embedded`] does, until `interrupted` completes.
    pub(crate) fn embedded_until(
        guest: &str,
        limits: HttpLimits,
        interrupted: InterruptFuture,
    ) -> Self {
        let runtime = runtime();
        let offering = runtime.block_on(offering(
            guest,
            host(|settings| settings),
            Policy::default(),
        ));
        Self::serving(runtime, server(offering), limits, interrupted)
    }

    /// Serves `server` until `interrupted` completes, without a token.
    pub(crate) fn serving(
        runtime: Runtime,
        server: Arc<Server>,
        limits: HttpLimits,
        interrupted: InterruptFuture,
    ) -> Self {
        let address = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let gate = OriginGate::new(address.port(), &[], &[]);
            let tokens = Tokens::none();
            let name = None;
            let worker = None;
            let new_tokens = None;
            let settings = HttpSettings {
                listener: listener.into(),
                metrics_listener: None,
                gate,
                tokens,
                limits,
                name,
                worker,
                new_tokens,
                proxy: ProxySettings::default(),
            };
            tokio::spawn(async move { serve_http(&server, settings, interrupted).await });
            address
        });
        let (_, said) = std::sync::mpsc::channel();
        Self {
            behind: Behind::Library(Some(runtime)),
            address,
            token: String::new(),
            said,
        }
    }

    #[track_caller]
    fn program(&mut self) -> &mut Child {
        match &mut self.behind {
            Behind::Program(child) => child,
            Behind::Library(_) => panic!("it is served in this process"),
        }
    }

    /// Waits for the next line on standard error that contains `meant`.
    #[track_caller]
    pub(crate) fn says(&self, meant: &str) -> String {
        let began = Instant::now();
        let mut heard = Vec::new();
        while let Ok(line) = self
            .said
            .recv_timeout(PATIENCE.saturating_sub(began.elapsed()))
        {
            if line.contains(meant) {
                return line;
            }
            heard.push(line);
        }
        panic!("the server did not print {meant:?}: {heard:#?}")
    }

    pub(crate) fn pid(&mut self) -> u32 {
        self.program().id()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The headers of an authorized client.
    pub(crate) fn headers(&self) -> Vec<(String, String)> {
        let mut headers = vec![
            ("Host".to_owned(), self.address.to_string()),
            ("Content-Type".to_owned(), "application/json".to_owned()),
            (
                "Accept".to_owned(),
                "application/json, text/event-stream".to_owned(),
            ),
        ];
        if !self.token.is_empty() {
            headers.push(("Authorization".to_owned(), format!("Bearer {}", self.token)));
        }
        headers
    }

    /// Sends a request with only these headers, and does not wait for the response.
    pub(crate) fn begin(&self, line: &str, headers: &[(String, String)], body: &str) -> TcpStream {
        let mut stream = self.connect();
        let headers: String = headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let text = format!(
            "{line} HTTP/1.1\r\n{headers}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        // The server may refuse the request before all of it is sent.
        let _ = stream.write_all(text.as_bytes());
        stream
    }

    /// Sends a request, and waits for the head of the response.
    pub(crate) fn send(&self, line: &str, headers: &[(String, String)], body: &str) -> Coming {
        Coming::head(self.begin(line, headers, body))
    }

    /// Sends a request of an authorized client, with headers replaced by `more`.
    pub(crate) fn request(&self, line: &str, more: &[(&str, &str)], body: &str) -> Reply {
        self.send(line, &self.changed(more), body).whole()
    }

    /// The usual headers, replaced by `more`; a header with an empty value is left out.
    pub(crate) fn changed(&self, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut headers = self.headers();
        headers.retain(|(name, _)| {
            !more
                .iter()
                .any(|(other, _)| other.eq_ignore_ascii_case(name))
        });
        headers.extend(
            more.iter()
                .filter(|(_, value)| !value.is_empty())
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        headers
    }

    /// Starts a session of 2025-11-25 with `capabilities`. Returns its id.
    pub(crate) fn session(&self, capabilities: Value) -> String {
        let params = json!({ "protocolVersion": OLD, "capabilities": capabilities, "clientInfo": { "name": "test", "version": "1" } });
        let reply = self.request("POST /mcp", &[], &frame(json!(0), "initialize", params));
        assert_eq!(reply.status, 200, "{reply:?}");
        let session = reply.header("mcp-session-id").unwrap();
        let told = self.request(
            "POST /mcp",
            &self.in_session(&session),
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        );
        assert_eq!(told.status, 202, "{told:?}");
        session
    }

    pub(crate) fn in_session<'a>(&self, session: &'a str) -> [(&'static str, &'a str); 2] {
        [("Mcp-Session-Id", session), ("MCP-Protocol-Version", OLD)]
    }

    /// Calls a tool in a session of 2025-11-25. Returns the answer.
    #[track_caller]
    pub(crate) fn call(&self, session: &str, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let reply = self.request(
            "POST /mcp",
            &self.in_session(session),
            &frame(json!(1), "tools/call", params),
        );
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.frames().pop().unwrap()
    }

    /// Sends a request of 2026-07-28, which has no sessions.
    #[track_caller]
    pub(crate) fn stateless(&self, method: &str, params: Value, capabilities: Value) -> Reply {
        Coming::head(self.begin_stateless(method, params, capabilities)).whole()
    }

    /// Sends a request of 2026-07-28, and does not wait for the response.
    pub(crate) fn begin_stateless(
        &self,
        method: &str,
        mut params: Value,
        capabilities: Value,
    ) -> TcpStream {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(NEW);
        params["_meta"]["io.modelcontextprotocol/clientInfo"] =
            json!({ "name": "test", "version": "1" });
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
        let name = params["name"]
            .as_str()
            .or(params["taskId"].as_str())
            .unwrap_or_default()
            .to_owned();
        let more = [
            ("MCP-Protocol-Version", NEW),
            ("Mcp-Method", method),
            ("Mcp-Name", name.as_str()),
        ];
        self.begin(
            "POST /mcp",
            &self.changed(&more),
            &frame(json!(1), method, params),
        )
    }

    /// Ends the program. Returns its output since it printed its address.
    pub(crate) fn end(mut self) -> String {
        self.ask_to_end();
        assert!(self.program().wait().unwrap().success());
        self.said.iter().map(|line| line + "\n").collect()
    }

    fn ask_to_end(&mut self) {
        let pid = self.pid().to_string();
        assert!(
            std::process::Command::new("kill")
                .args(["-TERM", &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Ends the program, and waits for its exit.
    pub(crate) fn terminate(mut self) -> (ExitStatus, Duration) {
        let began = Instant::now();
        self.ask_to_end();
        (self.program().wait().unwrap(), began.elapsed())
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        match &mut self.behind {
            Behind::Program(child) => {
                let _ = child.kill();
                let _ = child.wait();
            }
            Behind::Library(runtime) => runtime
                .take()
                .into_iter()
                .for_each(Runtime::shutdown_background),
        }
    }
}

impl Coming {
    pub(crate) fn head(stream: TcpStream) -> Self {
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while reader.read_line(&mut head).unwrap_or(0) > 0 && !head.ends_with("\r\n\r\n") {}
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .unwrap_or(0);
        let chunked = head
            .to_ascii_lowercase()
            .contains("transfer-encoding: chunked");
        Self {
            status,
            head,
            reader,
            chunked,
        }
    }

    /// The next message of a stream.
    #[track_caller]
    pub(crate) fn next(&mut self) -> Value {
        loop {
            let mut line = String::new();
            assert!(
                self.reader.read_line(&mut line).unwrap() > 0,
                "the stream ended"
            );
            if let Some(frame) = line
                .strip_prefix("data:")
                .and_then(|data| serde_json::from_str(data.trim()).ok())
            {
                return frame;
            }
        }
    }

    pub(crate) fn whole(mut self) -> Reply {
        let mut rest = Vec::new();
        let _ = self.reader.read_to_end(&mut rest);
        let body = if self.chunked { unchunked(&rest) } else { rest };
        Reply {
            status: self.status,
            head: self.head,
            body: String::from_utf8_lossy(&body).into_owned(),
        }
    }
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(at) = rest.windows(2).position(|pair| pair == b"\r\n") {
        let size = std::str::from_utf8(&rest[..at])
            .ok()
            .and_then(|size| usize::from_str_radix(size, 16).ok());
        let Some(size) = size.filter(|size| *size > 0 && rest.len() >= at + 4 + size) else {
            break;
        };
        body.extend_from_slice(&rest[at + 2..at + 2 + size]);
        rest = &rest[at + 4 + size..];
    }
    body
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known
                .eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        })
    }

    /// The messages in the body, which is one message or a stream.
    pub(crate) fn frames(&self) -> Vec<Value> {
        if let Ok(frame) = serde_json::from_str(&self.body) {
            return vec![frame];
        }
        let data = self
            .body
            .lines()
            .filter_map(|line| line.strip_prefix("data:"));
        data.filter_map(|data| serde_json::from_str(data.trim()).ok())
            .collect()
    }

    /// The last message, which is the answer.
    #[track_caller]
    pub(crate) fn answer(&self) -> Value {
        self.frames()
            .pop()
            .unwrap_or_else(|| panic!("no answer: {self:?}"))
    }
}

/// A request as text.
pub(crate) fn frame(id: Value, method: &str, params: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}
