//! Sessions, budgets and calls of each principal; its state stays with its name when tokens change.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{HeaderMap, Uri};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolcell_spec::ErrorCode;

use crate::budget::{ByteBudget, ByteBudgets, ROOM};
use crate::otc::ENGINE;
use crate::session::{ClientIdentity, ClientSession};
use crate::{Server, ServerTools};

use super::api::{Api, ApiCaller, TokenRole};
use super::problem::Problem;
use super::route::BODY_BYTES_MAX;
use super::sessions::ClientSessions;
use super::sign_in::{SignIn, SignInTerms};
use super::token::{ANYBODY, TokenDigest, bearer, digest};
use super::{HttpLimits, Tokens};

type McpService = StreamableHttpService<ClientSession, LocalSessionManager>;

pub(super) struct PrincipalService {
    pub(super) mcp: McpService,
    pub(super) sessions: Arc<ClientSessions>,
    pub(super) caller: Arc<ApiCaller>,
}

pub(super) struct TokenHolder {
    pub(super) name: Arc<str>,
    /// `None` for an approver, which makes no calls.
    pub(super) service: Option<PrincipalService>,
    pub(super) bodies: ByteBudget,
    pub(super) role: TokenRole,
}

/// A principal, and its services since its first request: of many, few are there.
struct KnownHolder {
    makes_calls: bool,
    /// Canceled when it loses its last token.
    close: CancellationToken,
    holder: OnceLock<TokenHolder>,
}

pub(super) struct PrincipalTable {
    /// By their names in records.
    holders: HashMap<Arc<str>, Arc<KnownHolder>>,
    tables: Arc<PrincipalTables>,
    by_token: HashMap<TokenDigest, Arc<str>>,
    /// Who needs no token.
    anybody: Option<Arc<str>>,
    /// `true` if somebody may see the page.
    pub(super) has_page: bool,
    sign_in: Option<SignIn>,
}

pub(super) struct PrincipalTables {
    server: Arc<Server>,
    sign_in: SignInTerms,
    bodies: ByteBudgets,
    arguments: ByteBudgets,
    results: ByteBudgets,
    session_idle: Duration,
    wait: Duration,
    close: CancellationToken,
}

/// How many have a part of what is shared. One that is named in several places counts once.
#[derive(Clone, Copy)]
pub(super) struct PrincipalCount {
    makes_calls: usize,
    approves: usize,
}

impl PrincipalCount {
    pub(super) fn new(tokens: &Tokens, offering: &ServerTools, has_engine: bool) -> Self {
        let mut callers: HashSet<_> = tokens.principals().into_iter().collect();
        callers.extend(offering.principals.callers());
        let approvers: HashSet<_> = tokens.approvers().into_iter().collect();
        Self {
            makes_calls: callers.len() + usize::from(has_engine),
            approves: approvers.len(),
        }
    }

    pub(super) fn all(self) -> usize {
        self.makes_calls + self.approves
    }
}

/// For metrics, in bytes.
pub(super) struct BudgetUsage {
    pub(super) name: &'static str,
    pub(super) used: u64,
    pub(super) total: u64,
}

impl PrincipalTables {
    pub(super) fn new(
        server: &Arc<Server>,
        limits: &HttpLimits,
        sign_in: SignInTerms,
        count: PrincipalCount,
        close: CancellationToken,
    ) -> Self {
        Self {
            server: Arc::clone(server),
            sign_in,
            bodies: ByteBudgets::new(ROOM.bodies, count.all()),
            arguments: ByteBudgets::new(ROOM.arguments, count.makes_calls),
            results: ByteBudgets::new(ROOM.results, count.makes_calls),
            session_idle: limits.session_idle,
            wait: limits.body_time,
            close,
        }
    }

    /// The parts of those that come later.
    pub(super) fn divide(&self, count: PrincipalCount) {
        self.bodies.divide(count.all());
        self.arguments.divide(count.makes_calls);
        self.results.divide(count.makes_calls);
    }

    pub(super) fn usage(&self) -> [BudgetUsage; 3] {
        let usage = |name, budgets: &ByteBudgets| {
            let (used, total) = budgets.usage();
            BudgetUsage { name, used, total }
        };
        [
            usage("bodies", &self.bodies),
            usage("arguments", &self.arguments),
            usage("results", &self.results),
        ]
    }

    pub(super) fn engine(&self) -> (TokenHolder, Arc<ApiCaller>) {
        let caller = self.caller(ClientIdentity::of_principal(ENGINE.into()), true);
        let holder = TokenHolder {
            name: ENGINE.into(),
            service: None,
            bodies: self.bodies.one(),
            role: TokenRole::Engine(Arc::clone(&caller)),
        };
        (holder, caller)
    }

    fn caller(&self, identity: ClientIdentity, sees_all: bool) -> Arc<ApiCaller> {
        let budgets = (self.arguments.one(), self.results.one());
        Arc::new(ApiCaller::new(identity, sees_all, budgets, self.wait))
    }

    /// Callers are those of `tokens`, and the principals of `offering`. One in `before` keeps what it has; the sessions of the others
    /// end.
    pub(super) fn table(
        self: &Arc<Self>,
        tokens: &Tokens,
        offering: &ServerTools,
        api: &Api,
        before: Option<&PrincipalTable>,
    ) -> PrincipalTable {
        let principals = &offering.principals;
        let known = |name: &Arc<str>, makes_calls| {
            let old = before.and_then(|table| table.holders.get(name));
            let new = || {
                Arc::new(KnownHolder {
                    makes_calls,
                    close: self.close.child_token(),
                    holder: OnceLock::new(),
                })
            };
            old.map_or_else(new, Arc::clone)
        };
        let mut holders = HashMap::new();
        let callers = tokens.principals().into_iter();
        for name in callers.chain(principals.callers()) {
            let own = holders.entry(Arc::clone(&name));
            own.or_insert_with(|| known(&name, true));
        }
        let names: Vec<Arc<str>> = holders.keys().cloned().collect();
        for name in tokens.approvers() {
            let holder = known(&name, false);
            holders.insert(name, holder);
        }
        api.set_callers(names);
        for (name, old) in before.iter().flat_map(|table| table.holders.iter()) {
            if !holders.contains_key(name) {
                old.close.cancel();
            }
        }
        let signed_in = before.and_then(|table| table.sign_in.as_ref());
        let sign_in = offering.issuers.as_ref();
        let sign_in = sign_in.map(|issuers| SignIn::new(&self.sign_in, issuers, signed_in));
        let of_files = tokens.of_callers().chain(tokens.of_approvers());
        let of_files = of_files.map(|(digest, name)| (digest.clone(), Arc::clone(name)));
        PrincipalTable {
            // What a file of tokens says of one counts.
            by_token: principals.tokens().chain(of_files).collect(),
            anybody: (!tokens.are_required()).then(|| ANYBODY.into()),
            has_page: self.server.has_page(tokens),
            holders,
            tables: Arc::clone(self),
            sign_in,
        }
    }

    fn holder(&self, name: &Arc<str>, known: &KnownHolder) -> TokenHolder {
        let name = Arc::clone(name);
        let bodies = self.bodies.one();
        if !known.makes_calls {
            return TokenHolder {
                role: TokenRole::Approver(Arc::clone(&name)),
                name,
                service: None,
                bodies,
            };
        }
        let sessions = ClientSessions::new();
        let close = known.close.clone();
        tokio::spawn(Arc::clone(&sessions).end_idle(self.session_idle, close.clone()));
        // `OriginGate` has already checked hosts and origins, for every route.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_max_request_body_bytes(BODY_BYTES_MAX)
            .with_cancellation_token(close);
        let server = Arc::clone(&self.server);
        let caller = self.caller(ClientIdentity::of_principal(Arc::clone(&name)), false);
        let identity = Arc::clone(&caller.identity);
        let session = move || {
            Ok(ClientSession::new(
                Arc::clone(&server),
                Arc::clone(&identity),
            ))
        };
        let service = PrincipalService {
            mcp: StreamableHttpService::new(session, sessions.manager(), config),
            sessions,
            caller: Arc::clone(&caller),
        };
        TokenHolder {
            name,
            service: Some(service),
            bodies,
            role: TokenRole::Caller(caller),
        }
    }
}

impl PrincipalTable {
    /// Whose request it is: of whom the token is known, or who signed in.
    pub(super) async fn holder(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<&TokenHolder, Problem> {
        // Logs of proxies and histories have URLs.
        let is_in_url = uri.query().is_some_and(|query| {
            let mut pairs = query.split('&');
            pairs.any(|pair| pair.split('=').next() == Some("access_token"))
        });
        if is_in_url && guard!("token_in_url") {
            let why = "a token in the URL is not accepted; send it in the header Authorization";
            return Err(Problem::new(ErrorCode::Unauthorized, why).with_status(400));
        }
        self.holder_of(bearer(headers)).await
    }

    /// The holder of a token.
    pub(super) async fn holder_of(&self, token: Option<&str>) -> Result<&TokenHolder, Problem> {
        let named = token.and_then(|token| self.by_token.get(&digest(token)));
        let known = named.or(self.anybody.as_ref());
        let name = match (known, token, &self.sign_in) {
            (Some(name), ..) => Arc::clone(name),
            (None, Some(token), Some(sign_in)) => sign_in.principal(token).await?,
            (None, None, Some(sign_in)) => return Err(sign_in.no_token()),
            (None, _, None) => return Err(ErrorCode::Unauthorized.into()),
        };
        let Some((name, known)) = self.holders.get_key_value(&name) else {
            return Err(ErrorCode::NoPrincipal.into());
        };
        let make = || self.tables.holder(name, known);
        Ok(known.holder.get_or_init(make))
    }

    /// `None` without an issuer.
    pub(super) fn metadata(&self) -> Option<Value> {
        self.sign_in.as_ref().map(SignIn::metadata)
    }
}
