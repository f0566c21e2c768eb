//! Counts of calls, from their records, as Prometheus text and as OTLP metrics.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Write};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use toolcell_spec::{CallRecord, EventType, InvocationId, Timestamp, ToolEvent};

use super::otlp::nanos;
use super::span::{tool_name, word};

/// Tools counted apart. An operator can load thousands, and each takes two dozen series.
const TOOLS_MAX: usize = 100;
/// Calls followed until they end. A call that is dropped, or that panics, leaves no record.
const OPEN_MAX: usize = 10_000;
/// All further tools; the name of a tool has a dot.
const OTHERS: &str = "other";
/// Upper bounds of the buckets of durations, in seconds.
const BOUNDS: [f64; 12] = [
    0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0,
];
/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u8 = 2;

pub(super) struct CallMetrics {
    since: Timestamp,
    state: Mutex<MetricsState>,
    pub(super) others: OnceLock<Arc<dyn MetricSource>>,
}

#[derive(Default)]
struct MetricsState {
    tools: BTreeMap<String, ToolSeries>,
    open: HashMap<InvocationId, CallStage>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CallStage {
    Begun,
    Queued,
    Running,
}

#[derive(Default)]
struct ToolSeries {
    calls: BTreeMap<String, u64>,
    errors: BTreeMap<String, u64>,
    times: TimeSpread,
    fuel: u64,
    cpu_ms: u64,
    /// Bytes of the call that took most.
    memory: u64,
}

/// Numbers of another part of the program. Labels have few values.
pub trait MetricSource: Send + Sync {
    fn families(&self) -> Vec<MetricFamily>;
}

pub struct MetricFamily {
    pub name: &'static str,
    pub help: &'static str,
    /// In the words of UCUM.
    pub unit: &'static str,
    pub kind: MetricKind,
    pub points: Vec<(MetricLabels, MetricValue)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

pub type MetricLabels = Vec<(&'static str, String)>;

pub enum MetricValue {
    Whole(u64),
    Spread(TimeSpread),
}

/// Times, as a histogram.
#[derive(Clone, Copy, Default)]
pub struct TimeSpread {
    /// Counts by the first bound that is not exceeded.
    buckets: [u64; BOUNDS.len()],
    count: u64,
    seconds: f64,
}

impl TimeSpread {
    pub fn add(&mut self, time: Duration) {
        let seconds = time.as_secs_f64();
        let mut buckets = self.buckets.iter_mut().zip(BOUNDS);
        if let Some((bucket, _)) = buckets.find(|(_, bound)| seconds <= *bound) {
            *bucket += 1;
        }
        self.count += 1;
        self.seconds += seconds;
    }
}

impl Default for CallMetrics {
    fn default() -> Self {
        Self {
            since: Timestamp::now(),
            state: Mutex::default(),
            others: OnceLock::new(),
        }
    }
}

impl CallMetrics {
    pub(super) fn event(&self, event: &ToolEvent) {
        let stage = match event.event_type {
            EventType::Planned => CallStage::Begun,
            EventType::Queued => CallStage::Queued,
            EventType::Started => CallStage::Running,
            _ => return,
        };
        if let Some(id) = event.invocation_id {
            let mut state = self.state.lock();
            if state.open.len() < OPEN_MAX || state.open.contains_key(&id) {
                state.open.insert(id, stage);
            }
        }
    }

    pub(super) fn ended(&self, record: &CallRecord) {
        let invocation = &record.invocation;
        let result = &record.result;
        let ended = invocation.ended_at().unwrap_or(result.created_at);
        let mut state = self.state.lock();
        state.open.remove(&invocation.invocation_id);
        let series = state.series(tool_name(record));
        *series.calls.entry(word(result.status)).or_default() += 1;
        if let Some(error) = &result.error {
            *series.errors.entry(word(error.error_class)).or_default() += 1;
        }
        series.times.add(ended.since(invocation.created_at()));
        if let Some(usage) = &result.usage {
            series.fuel = series.fuel.saturating_add(usage.fuel.used);
            let cpu_ms = usage.cpu_ms.map_or(0, |cpu| cpu.used);
            series.cpu_ms = series.cpu_ms.saturating_add(cpu_ms);
            series.memory = series.memory.max(usage.memory_bytes.used);
        }
    }

    pub(super) fn prometheus(&self, dropped: u64) -> String {
        let mut text = String::new();
        for family in self.all(dropped) {
            // Writing into a text cannot fail.
            let _ = family.write(&mut text);
        }
        text
    }

    pub(super) fn otlp(&self, dropped: u64) -> Vec<Value> {
        let since = nanos(self.since);
        let now = nanos(Timestamp::now());
        let families = self.all(dropped);
        families
            .iter()
            .filter(|family| !family.points.is_empty())
            .map(|family| family.otlp(&since, &now))
            .collect()
    }

    fn all(&self, dropped: u64) -> Vec<MetricFamily> {
        let mut families = self.families(dropped);
        let others = self.others.get().into_iter();
        families.extend(others.flat_map(|others| others.families()));
        families
    }

    fn families(&self, dropped: u64) -> Vec<MetricFamily> {
        let state = self.state.lock();
        let of_tools = |number: fn(&ToolSeries) -> MetricValue| {
            state
                .tools
                .iter()
                .map(|(tool, series)| (labels(tool), number(series)))
                .collect()
        };
        let stages = |stage: CallStage| {
            let count = state.open.values().filter(|open| **open == stage).count();
            vec![(
                MetricLabels::new(),
                MetricValue::Whole(u64::try_from(count).unwrap_or(u64::MAX)),
            )]
        };
        vec![
            MetricFamily {
                name: "toolcell_calls",
                help: "Calls that have ended, by the status of their results.",
                unit: "{call}",
                kind: MetricKind::Counter,
                points: state.by(|series| &series.calls, "status"),
            },
            MetricFamily {
                name: "toolcell_call_errors",
                help: "Calls that ended in an error, refusals included, by its class.",
                unit: "{call}",
                kind: MetricKind::Counter,
                points: state.by(|series| &series.errors, "class"),
            },
            MetricFamily {
                name: "toolcell_call_duration_seconds",
                help: "Time from the plan of a call to its end, with all waiting.",
                unit: "s",
                kind: MetricKind::Histogram,
                points: of_tools(|series| MetricValue::Spread(series.times)),
            },
            MetricFamily {
                name: "toolcell_call_fuel",
                help: "Fuel that calls used.",
                unit: "{fuel}",
                kind: MetricKind::Counter,
                points: of_tools(|series| MetricValue::Whole(series.fuel)),
            },
            MetricFamily {
                name: "toolcell_call_cpu_milliseconds",
                help: "CPU time of calls whose tools are metered by it.",
                unit: "ms",
                kind: MetricKind::Counter,
                points: of_tools(|series| MetricValue::Whole(series.cpu_ms)),
            },
            MetricFamily {
                name: "toolcell_call_memory_peak_bytes",
                help: "Memory of the call that took most.",
                unit: "By",
                kind: MetricKind::Gauge,
                points: of_tools(|series| MetricValue::Whole(series.memory)),
            },
            MetricFamily {
                name: "toolcell_calls_running",
                help: "Calls whose tool runs.",
                unit: "{call}",
                kind: MetricKind::Gauge,
                points: stages(CallStage::Running),
            },
            MetricFamily {
                name: "toolcell_calls_queued",
                help: "Calls that wait for their turn or for a place.",
                unit: "{call}",
                kind: MetricKind::Gauge,
                points: stages(CallStage::Queued),
            },
            MetricFamily {
                name: "toolcell_spans_dropped",
                help: "Spans that could not be sent to the collector.",
                unit: "{span}",
                kind: MetricKind::Counter,
                points: vec![(MetricLabels::new(), MetricValue::Whole(dropped))],
            },
        ]
    }
}

impl MetricsState {
    /// One series for all together after the first hundred.
    fn series(&mut self, tool: String) -> &mut ToolSeries {
        let is_over = self.tools.len() >= TOOLS_MAX && !self.tools.contains_key(&tool);
        self.tools
            .entry(if is_over { OTHERS.to_owned() } else { tool })
            .or_default()
    }

    fn by(
        &self,
        counts: fn(&ToolSeries) -> &BTreeMap<String, u64>,
        label: &'static str,
    ) -> Vec<(MetricLabels, MetricValue)> {
        let of_tool = |(tool, series): (&String, &ToolSeries)| {
            let point = |(word, count): (&String, &u64)| {
                let mut labels = labels(tool);
                labels.push((label, word.clone()));
                (labels, MetricValue::Whole(*count))
            };
            counts(series).iter().map(point).collect::<Vec<_>>()
        };
        self.tools.iter().flat_map(of_tool).collect()
    }
}

fn labels(tool: &str) -> MetricLabels {
    vec![("tool", tool.to_owned())]
}

impl MetricFamily {
    fn write(&self, out: &mut String) -> fmt::Result {
        let name = match self.kind {
            MetricKind::Counter => format!("{}_total", self.name),
            MetricKind::Gauge | MetricKind::Histogram => self.name.to_owned(),
        };
        let kind = match self.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        writeln!(out, "# HELP {name} {}\n# TYPE {name} {kind}", self.help)?;
        for (labels, number) in &self.points {
            match number {
                MetricValue::Whole(number) => {
                    writeln!(out, "{name}{} {number}", shown(labels, None))?
                }
                MetricValue::Spread(TimeSpread {
                    buckets,
                    count,
                    seconds,
                }) => {
                    let mut below = 0;
                    for (bucket, bound) in buckets.iter().zip(BOUNDS) {
                        below += bucket;
                        writeln!(
                            out,
                            "{name}_bucket{} {below}",
                            shown(labels, Some(&bound.to_string()))
                        )?;
                    }
                    writeln!(out, "{name}_bucket{} {count}", shown(labels, Some("+Inf")))?;
                    writeln!(out, "{name}_sum{} {seconds}", shown(labels, None))?;
                    writeln!(out, "{name}_count{} {count}", shown(labels, None))?;
                }
            }
        }
        Ok(())
    }

    fn otlp(&self, since: &str, now: &str) -> Value {
        let point = |(labels, number): &(MetricLabels, MetricValue)| {
            let attribute = |(key, value): &(&str, String)| json!({ "key": key, "value": { "stringValue": value } });
            let attributes: Vec<Value> = labels.iter().map(attribute).collect();
            let mut point = json!({ "attributes": attributes, "startTimeUnixNano": since, "timeUnixNano": now });
            let fields = match number {
                MetricValue::Whole(number) => json!({ "asInt": number.to_string() }),
                MetricValue::Spread(TimeSpread {
                    buckets,
                    count,
                    seconds,
                }) => {
                    let over = count.saturating_sub(buckets.iter().sum());
                    let counts: Vec<String> =
                        buckets.iter().chain([&over]).map(u64::to_string).collect();
                    json!({ "count": count.to_string(), "sum": seconds, "bucketCounts": counts, "explicitBounds": BOUNDS })
                }
            };
            if let (Some(point), Value::Object(fields)) = (point.as_object_mut(), fields) {
                point.extend(fields);
            }
            point
        };
        let points: Vec<Value> = self.points.iter().map(point).collect();
        let mut metric = json!({ "name": self.name, "description": self.help, "unit": self.unit });
        let (key, data) = match self.kind {
            MetricKind::Counter => (
                "sum",
                json!({ "dataPoints": points, "aggregationTemporality": CUMULATIVE, "isMonotonic": true }),
            ),
            MetricKind::Gauge => ("gauge", json!({ "dataPoints": points })),
            MetricKind::Histogram => (
                "histogram",
                json!({ "dataPoints": points, "aggregationTemporality": CUMULATIVE }),
            ),
        };
        if let Some(metric) = metric.as_object_mut() {
            metric.insert(key.to_owned(), data);
        }
        metric
    }
}

/// `le` is the bound of a bucket.
fn shown(labels: &MetricLabels, le: Option<&str>) -> String {
    let escaped = |value: &str| {
        value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    };
    let pairs = labels
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
    let pairs: Vec<String> = pairs.chain(le.map(|le| format!("le=\"{le}\""))).collect();
    if pairs.is_empty() {
        String::new()
    } else {
        format!("{{{}}}", pairs.join(","))
    }
}

#[cfg(test)]
mod tests {
    use toolcell_spec::ErrorClass;

    use super::*;
    use crate::telemetry::span::tests::record;

    #[test]
    fn calls_are_counted_by_how_they_ended_and_how_far_they_are() {
        let metrics = CallMetrics::default();
        let one = record(None, None);
        let other = record(None, Some(ErrorClass::Timeout));
        let at = |record: &CallRecord, event_type| {
            metrics.event(&ToolEvent {
                event_type,
                ..record.events[0].clone()
            })
        };
        at(&one, EventType::Planned);
        at(&one, EventType::Queued);
        assert!(
            metrics
                .prometheus(0)
                .contains("\ntoolcell_calls_queued 1\n")
        );
        at(&one, EventType::Started);
        let text = metrics.prometheus(3);
        for line in [
            "toolcell_calls_running 1",
            "toolcell_calls_queued 0",
            "toolcell_spans_dropped_total 3",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
        [&one, &one, &other]
            .into_iter()
            .for_each(|record| metrics.ended(record));
        let text = metrics.prometheus(0);
        for line in [
            "toolcell_calls_running 0",
            "toolcell_call_errors_total{tool=\"unresolved\",class=\"timeout\"} 1",
            "toolcell_call_duration_seconds_bucket{tool=\"unresolved\",le=\"+Inf\"} 3",
            "toolcell_call_duration_seconds_count{tool=\"unresolved\"} 3",
            "toolcell_call_fuel_total{tool=\"unresolved\"} 14",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
        let sums = metrics.otlp(0);
        let fuel = sums
            .iter()
            .find(|metric| metric["name"] == "toolcell_call_fuel")
            .unwrap();
        assert_eq!(fuel["sum"]["dataPoints"][0]["asInt"], "14");
    }

    #[test]
    fn so_many_tools_are_counted_apart() {
        let mut state = MetricsState::default();
        for at in 0..TOOLS_MAX + 7 {
            state.series(format!("a.b{at}")).times.count += 1;
        }
        assert_eq!(state.tools.len(), TOOLS_MAX + 1);
        assert_eq!(state.series("a.c".to_owned()).times.count, 7);
        assert_eq!(state.series("a.b0".to_owned()).times.count, 1);
    }

    #[test]
    fn so_many_calls_are_followed_and_an_end_makes_room() {
        let metrics = CallMetrics::default();
        let planned = record(None, None).events[0].clone();
        let begin = |id| {
            metrics.event(&ToolEvent {
                invocation_id: Some(id),
                ..planned.clone()
            })
        };
        let calls: Vec<CallRecord> = (0..OPEN_MAX).map(|_| record(None, None)).collect();
        calls
            .iter()
            .for_each(|call| begin(call.invocation.invocation_id));
        (0..3).for_each(|_| begin(InvocationId::new()));
        assert_eq!(metrics.state.lock().open.len(), OPEN_MAX);
        let one = &calls[0];
        let other = &calls[1];
        // One that is followed goes on.
        let id = Some(other.invocation.invocation_id);
        metrics.event(&ToolEvent {
            event_type: EventType::Started,
            invocation_id: id,
            ..planned.clone()
        });
        assert!(
            metrics
                .prometheus(0)
                .contains("\ntoolcell_calls_running 1\n")
        );
        metrics.ended(one);
        let next = InvocationId::new();
        begin(next);
        assert!(metrics.state.lock().open.contains_key(&next));
    }

    #[test]
    fn a_label_is_one_text_whatever_it_says() {
        let labels = vec![("tool", "a\"b\\c\nd".to_owned())];
        assert_eq!(
            shown(&labels, Some("1")),
            "{tool=\"a\\\"b\\\\c\\nd\",le=\"1\"}"
        );
    }
}
