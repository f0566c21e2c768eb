use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::thread::JoinHandle;

use anyhow::Context;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use toolcell_engine::pipeline::RecordKeeper;
use toolcell_spec::CallRecord;
use toolcell_system::BoxFuture;

use super::budget::{ByteBudget, Lease};

/// A call that ends waits while the queue is full (backpressure).
const WAITING_MAX: usize = 256;
const WAITING_BYTES_MAX: usize = 32 << 20;

/// Records of the calls that a call's tool makes come first. Only its owner can read a new file.
pub struct CallRecorder {
    queue: Mutex<Option<mpsc::Sender<RecordLine>>>,
    room: ByteBudget,
    writer: Mutex<Option<JoinHandle<()>>>,
}

struct RecordLine {
    text: Vec<u8>,
    _lease: Option<Lease>,
}

impl CallRecorder {
    /// `failed` is called once, at the first write error.
    pub fn open(
        file: &Path,
        failed: impl FnOnce(&std::io::Error) + Send + 'static,
    ) -> anyhow::Result<Self> {
        let mut options = File::options();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let out = options
            .open(file)
            .with_context(|| format!("cannot open {} for the records of calls", file.display()))?;
        let (queue, records) = mpsc::channel(WAITING_MAX);
        let writer = std::thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || {
                if let Err(error) = write(out, records) {
                    failed(&error);
                }
            })?;
        let room = ByteBudget::new(WAITING_BYTES_MAX);
        Ok(Self {
            queue: Mutex::new(Some(queue)),
            room,
            writer: Mutex::new(Some(writer)),
        })
    }

    pub(super) async fn keep(&self, record: &CallRecord) {
        let queue = self.queue.lock().clone();
        // A record has no map with other keys than texts, and so can be written.
        let Some((queue, mut text)) = queue.zip(serde_json::to_vec(record).ok()) else {
            return;
        };
        text.push(b'\n');
        let lease = self.room.take(text.len()).await;
        // Sending fails after a write error, which was reported; calls continue.
        let _ = queue
            .send(RecordLine {
                text,
                _lease: lease,
            })
            .await;
    }

    pub(super) fn close(&self) {
        drop(self.queue.lock().take());
        if let Some(writer) = self.writer.lock().take() {
            let _ = writer.join();
        }
    }
}

impl RecordKeeper for CallRecorder {
    fn ended<'a>(&'a self, record: &'a CallRecord) -> BoxFuture<'a, ()> {
        Box::pin(self.keep(record))
    }
}

/// Line by line, because a record matters most if the process dies.
fn write(mut out: File, mut records: mpsc::Receiver<RecordLine>) -> std::io::Result<()> {
    while let Some(line) = records.blocking_recv() {
        out.write_all(&line.text)?;
    }
    Ok(())
}
