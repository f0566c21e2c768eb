use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::Context;
use tokio::sync::mpsc;

use crate::record::CallRecord;

/// Records that wait to be written; a call that ends while so many wait, waits too.
const WAITING_MAX: usize = 256;

/// Appends the record of every call to a file, one JSON line each, readable by its owner only.
pub struct Recorder {
    queue: Mutex<Option<mpsc::Sender<CallRecord>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Recorder {
    /// Opens `file`, or makes it. `failed` hears, once, when it cannot be written any more.
    pub fn open(file: &Path, failed: impl FnOnce(&std::io::Error) + Send + 'static) -> anyhow::Result<Self> {
        let mut options = File::options();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let out = options.open(file).with_context(|| format!("open {} for the records of calls", file.display()))?;
        let (queue, records) = mpsc::channel(WAITING_MAX);
        let writer = std::thread::Builder::new().name("recorder".to_owned()).spawn(move || {
            if let Err(error) = write(out, records) {
                failed(&error);
            }
        })?;
        Ok(Self { queue: Mutex::new(Some(queue)), writer: Mutex::new(Some(writer)) })
    }

    /// Hands a record over.
    pub(super) async fn keep(&self, record: CallRecord) {
        let queue = lock(&self.queue).clone();
        if let Some(queue) = queue {
            // The file failed: that was said, and calls go on.
            let _ = queue.send(record).await;
        }
    }

    /// Ends when everything is written that was handed over. What comes later is not kept.
    pub(super) fn close(&self) {
        drop(lock(&self.queue).take());
        if let Some(writer) = lock(&self.writer).take() {
            let _ = writer.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write(out: File, mut records: mpsc::Receiver<CallRecord>) -> std::io::Result<()> {
    let mut out = BufWriter::new(out);
    while let Some(record) = records.blocking_recv() {
        serde_json::to_writer(&mut out, &record)?;
        out.write_all(b"\n")?;
        // Whole lines only, and at once: a record is worth most when the process dies.
        out.flush()?;
    }
    Ok(())
}
