//! DOORS. The servers through which other programs call tools: MCP over stdio and over HTTP.
//!
//! A [`Server`] offers selected tools of one host, with the operator's grants, rules and limits. A request never
//! grants, approves or widens anything. A user's answer counts for one question.

#[macro_use(guard)]
extern crate toolcell_spec;

mod answering;
mod asking;
mod batches;
mod budget;
mod call;
mod calls;
mod discovery;
mod exchange;
mod executions;
mod exposed_tools;
mod frames;
mod greeting;
mod health;
mod http;
mod instructions;
mod jwt;
mod loaded_tools;
mod loading;
mod log;
mod notices;
pub mod otc;
mod outline;
mod payloads;
mod pending;
mod principals;
mod providers;
mod reading;
mod recorder;
mod repeats;
mod results;
mod sent_arguments;
mod server_tools;
mod session;
mod stdio;
mod surfaces;
mod tasks;
#[cfg_attr(not(feature = "telemetry"), path = "telemetry_left_out.rs")]
pub mod telemetry;
mod trace;
mod unknown_cancels;
mod workspace_files;
mod workspaces;

use std::sync::Arc;

use data_encoding::HEXLOWER;
use parking_lot::{Mutex, RwLock};
use rmcp::model::{CallToolResponse, Extensions};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use toolcell::Approver;
use toolcell_spec::Refusal;
use toolcell_system::BoxFuture;

use calls::{CallPlaces, Calls};
use executions::Executions;
use health::Health;
use loading::ToolLoad;
use tasks::Tasks;

pub use asking::{AnnounceFn, ApprovalFallback};
pub use budget::beside_calls_bytes;
pub use exposed_tools::{ExposedTools, ToolOffer};
pub use http::{
    DocumentUrl, FetchFn, HttpLimits, HttpListener, HttpSettings, OriginGate, Peer, ProxySettings,
    PublicUrl, TokenIssuers, Tokens, read_private, serve_http,
};
pub use log::{LogForm, LogLevel, OperatorLog};
pub use principals::{NarrowFn, PrincipalTools, Principals};
pub use providers::{Provider, Providers};
pub use recorder::CallRecorder;
pub use server_tools::{ApprovalSettings, ServerTools};
pub use stdio::{ClientReader, ClientWriter, serve_stdio, serve_streams};
pub use tasks::CallStore;
pub use workspaces::{WorkspaceService, WorkspaceSharing};

/// Boxed, because a future is compiled in the crate that polls it: each change of the program would compile the MCP
/// library's futures again.
pub type ServeFuture<'a> = BoxFuture<'a, anyhow::Result<()>>;
/// Resolves to stop a server.
pub type InterruptFuture = BoxFuture<'static, ()>;

pub struct ServerSettings {
    /// Records the calls that tools make, too.
    pub recorder: Option<Arc<CallRecorder>>,
    /// Tells the operator that a call waits for an approval.
    pub announcer: AnnounceFn,
    /// Finds calls again that a client asks about; without it, no call becomes a task.
    pub store: Option<CallStore>,
    /// Calls, refused access, and what keeps calls from running, for the operator.
    pub log: Option<Arc<OperatorLog>>,
}

/// Offers tools to clients over any transport.
pub struct Server {
    settings: ServerSettings,
    offering: RwLock<Arc<ServerTools>>,
    providers: Mutex<Providers>,
    changes: watch::Sender<u64>,
    /// Changes with each new offering, after it.
    replaced: watch::Sender<()>,
    places: Arc<CallPlaces>,
    calls: Arc<Calls>,
    answers: Arc<Executions<Arc<CallToolResponse>>>,
    health: Health,
    tasks: Option<Arc<Tasks>>,
    stop: CancellationToken,
    /// `None` if the server was created with its tools.
    loading: Option<ToolLoad>,
}

impl Server {
    pub fn new(settings: ServerSettings, offering: ServerTools) -> Arc<Self> {
        Self::with(settings, offering, None)
    }

    fn with(
        mut settings: ServerSettings,
        offering: ServerTools,
        loading: Option<ToolLoad>,
    ) -> Arc<Self> {
        let calls = Arc::<Calls>::default();
        let store = settings.store.take();
        let tasks = store.map(|store| Tasks::new(store, Arc::clone(&calls)));
        Arc::new(Self {
            settings,
            offering: RwLock::new(Arc::new(offering)),
            providers: Mutex::default(),
            changes: watch::Sender::new(0),
            replaced: watch::Sender::new(()),
            places: Arc::default(),
            calls,
            answers: Executions::new(repeats::ANSWERS_BYTES_MAX),
            health: Health::default(),
            tasks,
            stop: CancellationToken::new(),
            loading,
        })
    }

    /// Tells that the surface was created. Ends calls of killed processes that waited for an answer to their tool's
    /// question, and cannot go on.
    pub async fn announce(self: &Arc<Self>) {
        let offering = self.offering();
        offering
            .tools
            .host
            .announce_surface(offering.offers.surface(), None)
            .await;
        if let Some(tasks) = self.tasks.clone() {
            let server = Arc::clone(self);
            tokio::spawn(async move { server.end_all_suspended(&tasks).await });
        }
    }

    /// The tools of callers without rules of their own, and what all callers share.
    pub fn offering(&self) -> Arc<ServerTools> {
        Arc::clone(&self.offering.read())
    }

    /// The tools of `caller`: the one place that gives a principal its rules, for every interface. A call keeps the
    /// offering that it began with.
    fn offering_of(&self, caller: Option<&str>) -> Arc<ServerTools> {
        let all = self.offering();
        let own = caller.and_then(|caller| all.principals.get(caller));
        match own.filter(|_| guard!("principal_view")) {
            Some(own) => own.tools(&all),
            None => all,
        }
    }

    /// The tools of the principal `name`; `None` if there is no such principal.
    pub fn tools_of(&self, name: &str) -> Option<Arc<ServerTools>> {
        let all = self.offering();
        let own = all.principals.get(&toolcell_policy::token_caller(name))?;
        Some(own.tools(&all))
    }

    /// Asks no client: the operator is told that a call waits, and answers from elsewhere.
    pub fn approver_elsewhere(&self) -> Arc<dyn Approver> {
        Arc::new(asking::AnnouncingApprover {
            announcer: Arc::clone(&self.settings.announcer),
            outdated: self.offering().outdated(),
        })
    }

    /// Running calls finish with their offering; calls that wait for an approval are refused, because the question was
    /// about the old one. Returns what changed of the surface.
    pub async fn replace(&self, mut offering: ServerTools) -> Option<String> {
        let before = self.offering();
        let update = offering.offers.surface().update(before.offers.surface());
        offering.surface_reason = update.unwrap_or_else(|| before.surface_reason.clone());
        let new = Arc::new(offering);
        let old = self.install(Arc::clone(&new));
        self.tell_providers(Providers::default());
        old.outdate();
        if !old.lists_as(&new) {
            self.changes.send_modify(|count| *count += 1);
        }
        new.tools
            .host
            .announce_surface(new.offers.surface(), Some(old.offers.surface()))
            .await
    }

    fn install(&self, new: Arc<ServerTools>) -> Arc<ServerTools> {
        let old = std::mem::replace(&mut *self.offering.write(), new);
        self.replaced.send_replace(());
        old
    }

    /// Searches name them as loading or unavailable.
    pub fn tell_providers(&self, providers: Providers) {
        *self.providers.lock() = providers;
    }

    pub fn providers(&self) -> Providers {
        self.providers.lock().clone()
    }

    /// Cancels running and later calls. A task whose approval is open or not used yet, or whose tool's question is
    /// open, keeps waiting in the journal.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Writes the queued records, and sends the rest of the telemetry. To be called after the last call has ended.
    pub fn close(&self) {
        if let Some(recorder) = &self.settings.recorder {
            recorder.close();
        }
        self.offering().tools.host.close_quotas();
        if let Some(telemetry) = &self.offering().telemetry {
            telemetry.close();
        }
        if let Some(log) = &self.settings.log {
            log.close();
        }
    }

    /// Waits until every call has ended and its record is handed to the recorder.
    pub async fn idle(&self) {
        self.places.end().await;
    }
}

/// Canceled when the connection that waits for the response closes.
#[derive(Clone)]
struct GoneToken(CancellationToken);

fn of_http<T: Send + Sync + 'static>(extensions: &Extensions) -> Option<&T> {
    extensions.get::<::http::request::Parts>()?.extensions.get()
}

/// Hexadecimal; nobody can guess it.
fn random_name<const BYTES: usize>() -> Result<String, Refusal> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| Refusal::host_fault(format!("cannot create a random name: {error}")))?;
    Ok(HEXLOWER.encode(&bytes))
}
