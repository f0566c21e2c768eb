//! Metrics of the server itself, as Prometheus text, and the address for them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::{Display, Write};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use toolcell_engine::scheduler::{CallerQuotas, SchedulerUsage};
use toolcell_policy::TOKEN_CALLER;

use super::connections::ConnectionStates;
use super::listener::ClientStream;
use super::principals::BudgetUsage;
use super::route::Routes;
use super::{HEAD_BYTES_MAX, HEADERS_MAX, HttpLimits, process};

/// Connections to the address for metrics, each for one request.
const CONNECTIONS_MAX: usize = 16;

/// Principals with labels of their own, the first by name.
const PRINCIPALS_MAX: usize = 100;
/// The label of all others together. No principal has such a name.
const OTHERS: &str = "(others)";

/// Answers since the start, by interface and status.
#[derive(Default)]
pub(super) struct HttpMetrics(Mutex<BTreeMap<(&'static str, u16), u64>>);

/// Numbers from elsewhere.
pub(super) struct MetricValues {
    /// Prometheus text.
    pub(super) calls: String,
    pub(super) connections: ConnectionStates,
    pub(super) budgets: [BudgetUsage; 3],
    pub(super) host: SchedulerUsage,
    /// By name.
    pub(super) principals: Vec<CallerQuotas>,
    pub(super) is_ready: bool,
}

#[derive(Clone, Copy)]
pub(super) enum MetricKind {
    Counter,
    Gauge,
}

pub(super) struct MetricText(String);

impl MetricText {
    /// Labels come from this program, and need no escapes.
    fn family<V: Display>(
        &mut self,
        kind: MetricKind,
        name: &str,
        help: &str,
        points: impl IntoIterator<Item = (String, V)>,
    ) {
        let (kind, end) = match kind {
            MetricKind::Counter => ("counter", "_total"),
            MetricKind::Gauge => ("gauge", ""),
        };
        let text = &mut self.0;
        // Writing into a text cannot fail.
        let _ = writeln!(text, "# HELP {name}{end} {help}\n# TYPE {name}{end} {kind}");
        for (labels, value) in points {
            let _ = writeln!(text, "{name}{end}{labels} {value}");
        }
    }

    pub(super) fn one(&mut self, kind: MetricKind, name: &str, help: &str, value: impl Display) {
        self.family(kind, name, help, [(String::new(), value)]);
    }
}

impl HttpMetrics {
    pub(super) fn answered(&self, interface: &'static str, status: u16) {
        *self.0.lock().entry((interface, status)).or_default() += 1;
    }

    pub(super) fn text(&self, measured: MetricValues) -> String {
        let mut text = MetricText(measured.calls);
        let answers: Vec<_> = self
            .0
            .lock()
            .iter()
            .map(|((interface, status), count)| {
                let labels = format!("{{interface=\"{interface}\",status=\"{status}\"}}");
                (labels, *count)
            })
            .collect();
        text.family(
            MetricKind::Counter,
            "toolcell_http_requests",
            "Requests that were answered, by interface and HTTP status.",
            answers,
        );
        text.connections(measured.connections);
        text.budgets(measured.budgets, measured.host);
        text.principals(&measured.principals);
        text.one(
            MetricKind::Gauge,
            "toolcell_log_writable",
            "1 if calls can be put on record, and so run.",
            u8::from(measured.is_ready),
        );
        process::write(&mut text);
        text.0
    }
}

fn label(name: &str, value: &str) -> String {
    format!("{{{name}=\"{value}\"}}")
}

impl MetricText {
    fn connections(&mut self, states: ConnectionStates) {
        self.family(
            MetricKind::Gauge,
            "toolcell_connections",
            "Open connections, by state.",
            states
                .open
                .map(|(state, count)| (label("state", state), count)),
        );
        self.family(
            MetricKind::Counter,
            "toolcell_connections_evicted",
            "Connections that were closed to make room for others, by state.",
            states
                .evicted
                .map(|(state, count)| (label("state", state), count)),
        );
        self.one(
            MetricKind::Counter,
            "toolcell_connections_refused",
            "Requests that were refused because all connections were busy.",
            states.refused,
        );
    }

    fn budgets(&mut self, budgets: [BudgetUsage; 3], host: SchedulerUsage) {
        let budgets = budgets.map(|usage| (usage.name, usage.used, usage.total));
        let calls = ("calls", host.memory_bytes, host.memory_bytes_max);
        let budgets: Vec<_> = budgets.into_iter().chain([calls]).collect();
        let used = budgets
            .iter()
            .map(|(name, used, _)| (label("budget", name), used));
        self.family(
            MetricKind::Gauge,
            "toolcell_budget_used_bytes",
            "Memory that is reserved, by what for.",
            used,
        );
        let all = budgets
            .iter()
            .map(|(name, _, total)| (label("budget", name), total));
        self.family(
            MetricKind::Gauge,
            "toolcell_budget_bytes",
            "Memory that can be reserved.",
            all,
        );
        for (name, help, value) in [
            (
                "toolcell_call_places",
                "Calls that can run at once.",
                host.calls_max,
            ),
            (
                "toolcell_call_places_taken",
                "Places of calls that are taken.",
                host.calls_running,
            ),
            (
                "toolcell_call_places_awaited",
                "Calls that wait for a place.",
                host.calls_waiting,
            ),
        ] {
            self.one(MetricKind::Gauge, name, help, value);
        }
    }
}

impl MetricText {
    fn principals(&mut self, principals: &[CallerQuotas]) {
        #[derive(Default)]
        struct Sum {
            used: f64,
            limit: f64,
            refused: u64,
        }
        let mut calls = BTreeMap::<&str, u64>::new();
        let mut quotas = BTreeMap::<_, Sum>::new();
        for (at, one) in principals.iter().enumerate() {
            let name = one.caller.strip_prefix(TOKEN_CALLER);
            let name = name.unwrap_or(&one.caller);
            let name = if at < PRINCIPALS_MAX { name } else { OTHERS };
            *calls.entry(name).or_default() += u64::from(one.calls);
            for quota in &one.quotas {
                let sum = quotas.entry((name, quota.name)).or_default();
                sum.used += quota.used;
                sum.limit += quota.limit;
                sum.refused += quota.refused;
            }
        }
        self.one(
            MetricKind::Gauge,
            "toolcell_principals",
            "Callers with rules of their own.",
            principals.len(),
        );
        self.family(
            MetricKind::Gauge,
            "toolcell_principal_calls",
            "Calls that run or wait.",
            calls
                .iter()
                .map(|(name, calls)| (label("principal", name), calls)),
        );
        let labels =
            |(name, quota): &(&str, &str)| format!("{{principal=\"{name}\",quota=\"{quota}\"}}");
        let of = |number: fn(&Sum) -> f64| {
            let all = quotas.iter();
            all.map(move |(both, sum)| (labels(both), number(sum)))
        };
        self.family(
            MetricKind::Gauge,
            "toolcell_quota_used",
            "What is used of a quota, in the unit of its name.",
            of(|sum| sum.used),
        );
        self.family(
            MetricKind::Gauge,
            "toolcell_quota_limit",
            "The whole quota.",
            of(|sum| sum.limit),
        );
        self.family(
            MetricKind::Counter,
            "toolcell_quota_refused",
            "Calls that were refused for a quota.",
            quotas.iter().map(|(both, sum)| (labels(both), sum.refused)),
        );
    }
}

/// Answers probes and `/metrics`. Never ends.
pub(super) async fn serve(listener: &TcpListener, routes: &Arc<Routes>, limits: &HttpLimits) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // The places are never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (routes, limits) = (Arc::clone(routes), limits.clone());
        tokio::spawn(async move {
            measure(ClientStream::Tcp(stream), routes, limits).await;
            drop(place);
        });
    }
}

/// A client that is silent or slow has its place for a short time.
async fn measure(stream: ClientStream, routes: Arc<Routes>, limits: HttpLimits) {
    let spoke = tokio::time::timeout(limits.first_byte_time, stream.speaks()).await;
    if !spoke.unwrap_or(false) {
        return;
    }
    stream.prepare(limits.stalled_time);
    let service = service_fn(move |request| {
        let routes = Arc::clone(&routes);
        async move { Ok::<_, Infallible>(routes.measure(&request).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .keep_alive(false)
        .header_read_timeout(limits.head_time)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX);
    // An error on a connection concerns its client only.
    let served = http.serve_connection(TokioIo::new(stream), service);
    let _ = tokio::time::timeout(limits.stalled_time, served).await;
}
