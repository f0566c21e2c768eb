//! Calls that wait for an approval, or without their callers for an answer, in the database of the journal, which only
//! its owner can read.
//!
//! Other calls never open it. Every write is on disk before it is acknowledged, because a process can be killed at any
//! moment. An unreadable store returns an error, and never an approval.

mod answer;
mod ask;
mod entry;
mod hold;
mod read;
mod retention;
mod session;
mod steps;
mod suspend;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

use crate::LOG_AGE;
use crate::database::{self, Durability};
use crate::waiting::{
    Allowance, AnswerOutcome, ApprovalRequest, ApprovalStanding, Claim, History, Role, StoreError,
    StoredApproval, SuspendRequest, SuspendedCall, WAITING_MAX,
};
use toolcell_policy::secret::SealingKey;
use toolcell_system::pool::STORE;

pub use hold::RoleLock;
pub use read::Summary;
pub use steps::SESSION_STEPS_BYTES_MAX;

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::*;
        let text = error.to_string();
        match error.sqlite_error_code() {
            Some(
                NotADatabase | DatabaseCorrupt | TypeMismatch | ConstraintViolation | SchemaChanged,
            ) => Self::Damaged(text),
            Some(_) => Self::Unavailable(text),
            None => Self::Damaged(text),
        }
    }
}

/// Cheap to clone; opened on demand.
#[derive(Clone, Debug)]
pub struct Journal(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    dir: PathBuf,
    key_file: PathBuf,
    age_max: Duration,
    store: Mutex<Option<Store>>,
}

impl Journal {
    /// A key in `key_file` seals what would run. The first stored call creates both.
    pub fn new(dir: PathBuf, key_file: PathBuf) -> Self {
        Self::keeping(dir, key_file, LOG_AGE)
    }

    /// Removes calls whose approvals ended longer ago than `age_max` and the seven days that a question can be open,
    /// and steps of sessions without additions since then.
    pub fn keeping(dir: PathBuf, key_file: PathBuf, age_max: Duration) -> Self {
        Self(Arc::new(Inner {
            dir,
            key_file,
            age_max,
            store: Mutex::new(None),
        }))
    }

    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// `true` if other processes see it, and can answer.
    pub fn is_shared(&self) -> bool {
        true
    }

    pub fn exists(&self) -> bool {
        self.0.dir.join(database::FILE_NAME).exists()
    }

    /// Blocks this thread.
    pub fn with<T>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut kept = self.0.store.lock().unwrap_or_else(PoisonError::into_inner);
        let store = match kept.take() {
            Some(store) => kept.insert(store),
            None => kept.insert(self.open()?),
        };
        work(store)
    }

    fn open(&self) -> Result<Store, StoreError> {
        let connection = database::open(&self.0.dir, Durability::Full)?;
        let key = SealingKey::read_or_make(&self.0.key_file);
        let key = key.map_err(|error| StoreError::Unavailable(format!("{error:#}")))?;
        Ok(Store {
            connection,
            key,
            age_max: self.0.age_max,
        })
    }

    /// On a thread for the host's own store.
    pub async fn run<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Store) -> Result<T, StoreError> + Send + 'static,
    {
        let journal = self.clone();
        STORE
            .run(move || journal.with(work))
            .await
            .unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
    }
}

#[derive(Debug)]
pub struct Store {
    connection: Connection,
    key: SealingKey,
    age_max: Duration,
}
