//! From `cancel()` to the record in the caller's hands.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hotcell::host::Host;
use hotcell::record::{AbortReason, ResultStatus};

use crate::samples::Samples;
use crate::subjects::{self, Subject};

const CALLS: usize = 100;
/// Long enough for the guest to be where it stays.
const HEAD_START: Duration = Duration::from_millis(7);

pub(crate) fn run() -> anyhow::Result<()> {
    println!("cancel: from cancel() to the record, of a runtime with two threads; {CALLS} calls, µs");
    println!("{:<16}{:>10}{:>10}{:>10}", "", "p50", "p99", "most");
    let spin =
        Subject { name: "spin", component: subjects::wat("spin")?, tool: "spin", qualified: "wat.spin", input: "{}" };
    let sleep = subjects::fixture("hostile", "sleep", "sleep", "hostile.sleep")?;
    let host = Arc::new(subjects::host(|_| {})?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    for subject in [spin, sleep] {
        let samples = runtime.block_on(measure(&host, &subject))?;
        println!(
            "{:<16}{:>10.0}{:>10.0}{:>10.0}",
            subject.name,
            samples.median_us(),
            samples.us(0.99),
            samples.us(1.0)
        );
    }
    Ok(())
}

async fn measure(host: &Arc<Host>, subject: &Subject) -> anyhow::Result<Samples> {
    subjects::load(host, &subject.component).await?;
    let mut samples = Samples::default();
    for _ in 0..CALLS {
        let request = subject.request();
        let cancellation = request.cancellation.clone();
        let serving = Arc::clone(host);
        let call = tokio::spawn(async move { serving.call(request).await });
        tokio::time::sleep(HEAD_START).await;
        let start = Instant::now();
        cancellation.cancel(AbortReason::UserInterruption);
        let record = call.await?;
        samples.since(start);
        anyhow::ensure!(record.result.status == ResultStatus::Canceled, "not canceled: {:?}", record.result.error);
    }
    Ok(samples)
}
