//! MCP frames: whatever a client sends, the server keeps running and answers the ping that follows.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::shared::{host, runtime};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use toolcell::{Host, ToolSet, ToolTerms};
use toolcell_engine::catalog::TOOL_BUDGET;
use toolcell_server::{
    ApprovalFallback, ApprovalSettings, ExposedTools, Server, ServerSettings, ServerTools,
    ToolOffer, serve_streams,
};

/// Capacity of the pipe between client and server, in bytes.
const PIPE_BYTES: usize = 64 << 10;
/// How long the server may take for one input.
const PATIENCE: Duration = Duration::from_secs(5);
const GREETING: &str = concat!(
    r#"{"jsonrpc":"2.0","id":"greeting","method":"initialize","params":{"protocolVersion":"2025-11-25","#,
    r#""capabilities":{},"clientInfo":{"name":"fuzz","version":"1"}}}"#,
    "\n",
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    "\n"
);
const PING: &str = "\n{\"jsonrpc\":\"2.0\",\"id\":\"the last one\",\"method\":\"ping\"}\n";

struct Parts {
    runtime: tokio::runtime::Runtime,
    host: Arc<Host>,
    tools: Vec<Arc<toolcell_engine::catalog::Tool>>,
}

fn parts() -> &'static Parts {
    static PARTS: OnceLock<Parts> = OnceLock::new();
    PARTS.get_or_init(|| {
        let runtime = runtime();
        let host = host();
        let component =
            wat::parse_str(include_str!("../../guests/wat/echo.wat")).expect("parse the tool");
        let tools = runtime
            .block_on(host.load(&component))
            .expect("load the tool")
            .tools;
        Parts {
            runtime,
            host,
            tools,
        }
    })
}

fn server(parts: &Parts) -> Arc<Server> {
    let offered = |tool| ToolOffer {
        tool: Arc::clone(tool),
        terms: ToolTerms {
            wall: Some(Duration::from_secs(1)),
            origin: None,
        },
        provider: None,
    };
    let approvals = ApprovalSettings {
        session: None,
        elicitation: true,
        away: ApprovalFallback::Wait,
    };
    let tools = ToolSet::new(Arc::clone(&parts.host)).expire(Duration::from_secs(1));
    let offers = ExposedTools::new(parts.tools.iter().map(offered).collect(), TOOL_BUDGET);
    let offering = ServerTools::new(tools, offers, approvals);
    Server::new(
        ServerSettings {
            recorder: None,
            announcer: Arc::new(|_| {}),
            store: None,
            log: None,
        },
        offering,
    )
}

/// Sends everything, and reads until the server answers the last request.
async fn converse(server: &Arc<Server>, data: &[u8]) {
    let (client, served) = tokio::io::duplex(PIPE_BYTES);
    let (reader, writer) = tokio::io::split(served);
    let (answers, mut requests) = tokio::io::split(client);
    let mut answers = BufReader::new(answers).lines();
    let serving = serve_streams(
        server,
        None,
        (Box::new(reader), Box::new(writer)),
        Box::pin(std::future::pending()),
    );
    let client = async {
        for part in [GREETING.as_bytes(), data, PING.as_bytes()] {
            if requests.write_all(part).await.is_err() {
                return;
            }
        }
        while let Ok(Some(line)) = answers.next_line().await {
            if line.contains("\"the last one\"") {
                return;
            }
        }
        panic!("the server went away");
    };
    tokio::select! {
        served = serving => panic!("the server ended: {served:?}"),
        () = client => {}
        () = tokio::time::sleep(PATIENCE) => panic!("no answer in {PATIENCE:?}"),
    }
}

pub(crate) fn run(data: &[u8]) {
    let parts = parts();
    let server = server(parts);
    parts.runtime.block_on(converse(&server, data));
    server.stop();
}
