//! TELEMETRY. Spans and metrics of calls, made from their records: for a collector that speaks OTLP over HTTP, and as
//! Prometheus text.
//!
//! Off by default. A thread of its own sends from a bounded queue, so a slow collector delays no call.

mod metrics;
mod otlp;
mod post;
mod queue;
mod sessions;
mod span;
mod steps;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::runtime::Runtime;
use toolcell::Listener;
use toolcell_config::TelemetrySettings;
use toolcell_dialect::agentool::ReasoningTrace;
use toolcell_spec::{CallRecord, Timestamp, ToolEvent, TraceContext};

pub use metrics::{MetricFamily, MetricKind, MetricLabels, MetricSource, MetricValue, TimeSpread};

use metrics::CallMetrics;
use post::{CollectorClient, PostFailure};
use queue::{SpanBatch, SpanQueue};
use sessions::SessionSpans;

const METRICS_PERIOD: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_secs(10);
/// A request that a collector did not take is sent again; each later pause is twice as long.
const ATTEMPTS: u32 = 4;
const PAUSE: Duration = Duration::from_secs(1);
/// The end of the process waits so long for the collector.
const CLOSE_TIME: Duration = Duration::from_secs(2);

pub type WarnFn = fn(&str);

/// Exports spans and metrics.
pub struct Telemetry {
    shared: Arc<TelemetryState>,
    settings: TelemetrySettings,
    warn: WarnFn,
}

struct TelemetryState {
    queue: SpanQueue,
    sessions: SessionSpans,
    metrics: CallMetrics,
}

struct SenderThread {
    shared: Arc<TelemetryState>,
    poster: CollectorClient,
    runtime: Runtime,
    warn: WarnFn,
    has_warned: bool,
}

impl Telemetry {
    /// A collector may also prove itself with a root certificate in the file `roots`.
    pub fn start(
        settings: &TelemetrySettings,
        roots: Option<&Path>,
        warn: WarnFn,
    ) -> anyhow::Result<Option<Arc<Self>>> {
        if settings.collector.is_none() && !settings.metrics {
            return Ok(None);
        }
        let queue = SpanQueue::default();
        let sessions = SessionSpans::default();
        let metrics = CallMetrics::default();
        let shared = Arc::new(TelemetryState {
            queue,
            sessions,
            metrics,
        });
        if let Some(collector) = &settings.collector {
            let poster = CollectorClient::new(collector, roots)?;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let runtime = runtime.context("cannot start the runtime for telemetry")?;
            let sender = SenderThread {
                shared: Arc::clone(&shared),
                poster,
                runtime,
                warn,
                has_warned: false,
            };
            let thread = std::thread::Builder::new().name("telemetry".to_owned());
            thread
                .spawn(move || sender.run())
                .context("cannot start the thread for telemetry")?;
        }
        Ok(Some(Arc::new(Self {
            shared,
            settings: settings.clone(),
            warn,
        })))
    }

    /// Below the span of the call's `session`, or a trace of its own. `None` if nothing is sent.
    pub fn trace(&self, session: Option<&str>) -> Option<TraceContext> {
        self.settings.collector.as_ref()?;
        let own = || Some(TraceContext::begin());
        session.map_or_else(own, |session| {
            Some(self.shared.sessions.begin(session, Timestamp::now()))
        })
    }

    /// Sends the span of a session, as far as it is known.
    pub fn session(&self, trace: &ReasoningTrace) {
        if self.settings.collector.is_some()
            && let Some(span) = steps::trace_span(trace)
        {
            self.shared.push(&span);
        }
    }

    /// Adds the numbers of another part of the program, the first time.
    pub fn include(&self, others: Arc<dyn MetricSource>) {
        let _ = self.shared.metrics.others.set(others);
    }

    /// `None` if metrics are not served.
    pub fn prometheus(&self) -> Option<String> {
        self.settings
            .metrics
            .then(|| self.shared.metrics.prometheus(self.shared.queue.dropped()))
    }

    /// Sends what waits, for at most two seconds, and says what was not sent. To be called after the last call has
    /// ended.
    pub fn close(&self) {
        if self.settings.collector.is_none() {
            return;
        }
        self.shared.end_sessions(true);
        if let Some(lost @ 1..) = self.shared.queue.close(CLOSE_TIME) {
            (self.warn)(&format!(
                "warning: spans that were not sent to the collector of telemetry: {lost}"
            ));
        }
    }
}

impl Listener for Telemetry {
    fn event(&self, event: &ToolEvent) {
        self.shared.metrics.event(event);
    }

    fn ended(&self, record: &CallRecord) {
        self.shared.metrics.ended(record);
        if self.settings.collector.is_some() {
            self.shared.sessions.ended(record, Timestamp::now());
            if let Some(span) = span::call_span(record, self.settings.arguments) {
                self.shared.push(&span);
            }
        }
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl TelemetryState {
    fn end_sessions(&self, all: bool) {
        let over = self.sessions.end(Timestamp::now(), all);
        over.iter().for_each(|span| self.push(span));
    }

    fn push(&self, span: &otlp::Span) {
        if let Ok(span) = serde_json::to_string(span) {
            self.queue.push(span);
        }
    }
}

impl SenderThread {
    fn run(mut self) {
        let mut measured = Instant::now();
        loop {
            let SpanBatch { spans, is_last } = self.shared.queue.take(TICK);
            self.spans(&spans);
            self.shared.end_sessions(false);
            if is_last || measured.elapsed() >= METRICS_PERIOD {
                measured = Instant::now();
                self.metrics();
            }
            if is_last {
                self.shared.queue.over();
                return;
            }
        }
    }

    /// Spans that the collector does not take are lost.
    fn spans(&mut self, spans: &[Box<str>]) {
        if spans.is_empty() {
            return;
        }
        let mut pause = PAUSE;
        for attempt in 1.. {
            let Err(failure) = self.post("/v1/traces", otlp::traces(spans)) else {
                return self.shared.queue.sent(spans);
            };
            self.tell(&failure);
            if !failure.is_transient() || attempt == ATTEMPTS || self.shared.queue.pause(pause) {
                return self.shared.queue.lost(spans);
            }
            pause *= 2;
        }
    }

    fn metrics(&mut self) {
        let metrics = self.shared.metrics.otlp(self.shared.queue.dropped());
        if let Err(failure) = self.post("/v1/metrics", otlp::metrics(&metrics)) {
            self.tell(&failure);
        }
    }

    fn post(&self, path: &str, body: String) -> Result<(), PostFailure> {
        self.runtime.block_on(self.poster.post(path, body))
    }

    /// Tells only once.
    fn tell(&mut self, failure: &PostFailure) {
        if !std::mem::replace(&mut self.has_warned, true) {
            (self.warn)(&format!(
                "warning: the collector of telemetry {failure}; calls go on, and spans may be lost"
            ));
        }
    }
}
