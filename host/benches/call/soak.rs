use crate::subjects;
use std::time::{Duration, Instant};
pub(crate) fn run() -> anyhow::Result<()> {
    let subject = match std::env::var("SUBJECT").as_deref() {
        Ok("count") => subjects::count()?,
        Ok("probe") => subjects::fixture("probe", "probe echo", "echo", "probe.echo")?,
        _ => subjects::echo()?,
    };
    let host = subjects::host(|_| {})?;
    crate::runtime()?.block_on(async {
        subjects::load(&host, &subject.component).await?;
        let start = Instant::now();
        let mut calls = 0;
        while start.elapsed() < Duration::from_secs(6) {
            for _ in 0..100 {
                subjects::succeeded(host.call(subject.request()).await)?;
            }
            calls += 100;
        }
        println!("{} us a call", start.elapsed().as_secs_f64() * 1e6 / calls as f64);
        anyhow::Ok(())
    })
}
