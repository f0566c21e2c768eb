//! Serves the page on a loopback address, over HTTP/1.1.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolcell::Home;
use toolcell_journal::{CallLog, Journal, PayloadStore};
use toolcell_spec::Refusal;
use toolcell_workspace::{Workspace, WorkspaceName, WorkspaceOwner, Workspaces};

use super::access::Access;
use super::gate::{InspectState, router};
use super::program::Program;
use crate::route::UPLOAD_BYTES_MAX;
use crate::{LiveChanges, PageState, PageUser, UserWorkspaces};

/// A browser opens six to a host; more only wait.
const CONNECTIONS_MAX: usize = 64;
const HEAD_TIME: Duration = Duration::from_secs(10);
const HEADERS_MAX: usize = 64;
const HEAD_BYTES_MAX: usize = 32 << 10;

/// The page of one user, and the code that opens it once.
pub struct InspectPage {
    state: Arc<InspectState>,
    code: String,
    address: SocketAddr,
}

impl InspectPage {
    /// # Errors
    ///
    /// The system gives no random numbers.
    pub fn new(
        address: SocketAddr,
        home: &Home,
        log: CallLog,
        program: Program,
    ) -> anyhow::Result<Self> {
        let (access, code) = Access::new(address).context("cannot make a one-time code")?;
        let workspaces = HomeWorkspaces(Workspaces::new(home.workspaces()));
        let page = PageState {
            user: PageUser::Owner,
            log,
            journal: Journal::new(home.journal(), home.journal_key()),
            payloads: PayloadStore::new(home.payloads()),
            workspaces: Some(Arc::new(workspaces)),
            upload_bytes_max: UPLOAD_BYTES_MAX,
            actions: Arc::new(program),
            changes: Arc::new(LiveChanges::default()),
        };
        let page = Arc::new(page);
        Ok(Self {
            state: Arc::new(InspectState { access, page }),
            code,
            address,
        })
    }

    /// Works once.
    pub fn url(&self) -> String {
        format!("http://{}/enter?code={}", self.address, self.code)
    }
}

/// All of the home's user.
struct HomeWorkspaces(Workspaces);

impl UserWorkspaces for HomeWorkspaces {
    fn list(&self) -> Result<Vec<Workspace>, Refusal> {
        self.0.list(&WorkspaceOwner::user())
    }

    fn open(&self, name: &WorkspaceName) -> Result<Workspace, Refusal> {
        self.0.open(&WorkspaceOwner::user(), name)
    }
}

/// Serves until the future is dropped.
pub async fn serve(listener: TcpListener, page: &InspectPage) -> Infallible {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let router = router(Arc::clone(&page.state));
    loop {
        // Never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            continue;
        };
        match listener.accept().await {
            Ok((stream, _)) => _ = tokio::spawn(speak(stream, router.clone(), place)),
            // The client disconnected, or too many files are open.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn speak(stream: TcpStream, router: axum::Router, _place: OwnedSemaphorePermit) {
    let _ = stream.set_nodelay(true);
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // An error on a connection concerns its client only.
    let _ = served.await;
}
