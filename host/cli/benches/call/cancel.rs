//! The time from `cancel()` until the caller has the record.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use toolcell::{Grants, Host};
use toolcell_spec::{AbortReason, ResultStatus};

use crate::samples::{Samples, repeated};
use crate::subjects::{self, Subject};

const CALLS: usize = 200;
/// Long enough for the guest to reach its loop or sleep. A part of a millisecond that differs from call to call is
/// added, so that the calls do not meet the host's timers at the same moment.
const HEAD_START: Duration = Duration::from_millis(5);

pub(crate) fn run() -> anyhow::Result<()> {
    println!(
        "cancel: from cancel() to the record, of a runtime with two threads; {} calls, µs",
        repeated(CALLS)
    );
    println!(
        "{:<16}{:>10}{:>10}{:>10}{:>10}",
        "", "least", "p50", "p99", "most"
    );
    let spin = Subject {
        name: "spin",
        component: subjects::wat("spin")?,
        tool: "spin",
        qualified: "wat.spin",
        input: "{}",
        sample: None,
        grants: Grants::default(),
    };
    let sleep = subjects::fixture("hostile", "sleep", "sleep", "hostile.sleep")?;
    let host = Arc::new(subjects::host(|settings| settings)?);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    for subject in [spin, sleep] {
        let samples = measure(&runtime, &host, &subject)?;
        let [least, median, p99, most] = [0.0, 0.5, 0.99, 1.0].map(|quantile| samples.us(quantile));
        println!(
            "{:<16}{least:>10.0}{median:>10.0}{p99:>10.0}{most:>10.0}",
            subject.name
        );
    }
    Ok(())
}

/// Calls from a thread outside the runtime, whose clock and waiting do not depend on it.
fn measure(runtime: &Runtime, host: &Arc<Host>, subject: &Subject) -> anyhow::Result<Samples> {
    runtime.block_on(subjects::load(host, &subject.component))?;
    let mut samples = Samples::new();
    for call in (0..).take(repeated(CALLS)) {
        let request = subject.request();
        let cancellation = request.cancellation.clone();
        let serving = Arc::clone(host);
        let (answer, record) = mpsc::channel();
        runtime.spawn(async move { answer.send(serving.call(request).await) });
        std::thread::sleep(HEAD_START + Duration::from_micros(call * 37 % 1_000));
        let start = Instant::now();
        cancellation.cancel(AbortReason::UserInterruption);
        let record = record.recv()?;
        samples.since(start);
        anyhow::ensure!(
            record.result.status == ResultStatus::Canceled,
            "not canceled: {:?}",
            record.result.error
        );
        anyhow::ensure!(
            record.result.usage.is_some_and(|usage| usage.fuel.used > 0),
            "the guest never ran"
        );
    }
    Ok(samples)
}
