//! Numbers of this process in its cluster.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use toolcell_cluster::{AskError, CallAnswer, Cluster, SubmitError};
use toolcell_server::telemetry::{
    MetricFamily, MetricKind, MetricLabels, MetricSource, MetricValue, TimeSpread,
};
use toolcell_spec::{EventType, ToolEvent};

pub(super) struct ClusterMetrics {
    cluster: Arc<Cluster>,
    asked: Mutex<AskedCalls>,
}

/// Of a gateway.
#[derive(Default)]
struct AskedCalls {
    ends: BTreeMap<&'static str, u64>,
    until_started: TimeSpread,
    until_ended: TimeSpread,
}

impl ClusterMetrics {
    pub(super) fn new(cluster: Arc<Cluster>) -> Self {
        let asked = Mutex::default();
        Self { cluster, asked }
    }

    /// An event of a call that was asked for at `began`.
    pub(super) fn event(&self, event: &ToolEvent, began: Instant) {
        if event.event_type == EventType::Started {
            self.change(|asked| asked.until_started.add(began.elapsed()));
        }
    }

    pub(super) fn ended(&self, answer: &Result<CallAnswer, AskError>, began: Instant) {
        let end = match answer {
            Ok(CallAnswer::Record(_)) => "result",
            Ok(CallAnswer::WorkerLost { .. }) => "worker_lost",
            Ok(CallAnswer::Canceled(_)) => "canceled",
            Ok(CallAnswer::Expired) => "expired",
            Err(AskError::Submit(SubmitError::Unavailable(_))) => "unavailable",
            Err(AskError::Submit(_)) => "refused",
            Err(AskError::Lost(_)) => "result_lost",
        };
        self.change(|asked| {
            *asked.ends.entry(end).or_default() += 1;
            asked.until_ended.add(began.elapsed());
        });
    }

    fn change(&self, change: impl FnOnce(&mut AskedCalls)) {
        change(&mut self.asked.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl MetricSource for ClusterMetrics {
    fn families(&self) -> Vec<MetricFamily> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = asked.ends.iter();
        let ends = ends.map(|(end, count)| (label("end", end), MetricValue::Whole(*count)));
        let spread = |times| vec![(MetricLabels::new(), MetricValue::Spread(times))];
        let stages = ["queued", "claimed", "started"]
            .into_iter()
            .zip(self.cluster.stages());
        let stages =
            stages.map(|(stage, count)| (label("stage", stage), MetricValue::Whole(count)));
        let counts = self.cluster.counts();
        let mut families = vec![
            MetricFamily {
                name: "toolcell_cluster_calls",
                help: "Calls that this process asked workers for, by how they ended.",
                unit: "{call}",
                kind: MetricKind::Counter,
                points: ends.collect(),
            },
            MetricFamily {
                name: "toolcell_cluster_call_start_seconds",
                help: "Time from the question to the start of the tool at a worker.",
                unit: "s",
                kind: MetricKind::Histogram,
                points: spread(asked.until_started),
            },
            MetricFamily {
                name: "toolcell_cluster_call_duration_seconds",
                help: "Time from the question to the end of the call.",
                unit: "s",
                kind: MetricKind::Histogram,
                points: spread(asked.until_ended),
            },
            MetricFamily {
                name: "toolcell_cluster_calls_open",
                help: "Calls of the whole cluster that have not ended, by how far they are.",
                unit: "{call}",
                kind: MetricKind::Gauge,
                points: stages.collect(),
            },
        ];
        for (name, help, count) in [
            (
                "toolcell_cluster_deliveries",
                "Questions that this worker got from the queue.",
                &counts.deliveries,
            ),
            (
                "toolcell_cluster_redeliveries",
                "Questions that were delivered before.",
                &counts.redeliveries,
            ),
            (
                "toolcell_cluster_superseded",
                "Results of this worker that came too late, and were thrown away.",
                &counts.superseded,
            ),
            (
                "toolcell_cluster_leases_lost",
                "Calls of silent workers that this process ended or gave back to the queue.",
                &counts.leases_lost,
            ),
        ] {
            families.push(counter(name, help, count));
        }
        families
    }
}

fn counter(name: &'static str, help: &'static str, count: &AtomicU64) -> MetricFamily {
    let count = MetricValue::Whole(count.load(Ordering::Relaxed));
    MetricFamily {
        name,
        help,
        unit: "1",
        kind: MetricKind::Counter,
        points: vec![(MetricLabels::new(), count)],
    }
}

fn label(name: &'static str, value: &str) -> MetricLabels {
    vec![(name, value.to_owned())]
}
