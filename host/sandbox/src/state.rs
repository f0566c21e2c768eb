use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use toolcell_executor::{Cancellation, CommandEnd, NeededInput, Observer, ResumedState};
use toolcell_journal::{ArtifactDraft, Artifacts};
use toolcell_policy::Limits;
use toolcell_spec::ToolProgress;
use toolcell_system::pool::GUEST_FILES;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::random::WasiRandomCtx;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::cpu_clock::CpuClock;
use super::egress::Egress;
use super::filesystem::FileRules;
use super::import::artifacts::GuestArtifact;
use super::import::context_modifiers::ContextChanges;
use super::import::tools::ChildCalls;
use super::limiter::{Limiter, MemoryMeter};
use super::logs::GuestLogs;
use super::nondeterminism::ReplayRecorder;
use super::scratch::ScratchFolder;
use super::wasi::{CommandInput, WasiInputs, WasiWorld};

/// Host state of one call, dropped with its store.
pub(super) struct StoreState {
    pub(super) wasi: WasiCtx,
    pub(super) table: ResourceTable,
    pub(super) limiter: Limiter,
    pub(super) cpu: Arc<CpuClock>,
    /// Fuel that calls used which were made by a guest that counts none.
    pub(super) fuel_below: u64,
    pub(super) logs: GuestLogs,
    pub(super) file_rules: Arc<FileRules>,
    pub(super) egress: Egress,
    pub(super) cancellation: Cancellation,
    /// Asks the guest alone to stop, at its deadline.
    pub(super) expiry: Cancellation,
    pub(super) observer: Arc<dyn Observer>,
    /// `None` outside of a call, and for a tool that imports neither artifacts nor other tools.
    pub(super) artifacts: Option<Artifacts>,
    pub(super) modifiers: ContextChanges,
    pub(super) progress: ProgressGate,
    /// All instances of the call share the limit of the result's output.
    pub(super) partial_bytes_left: u64,
    pub(super) started: Instant,
    /// Set while the guest, in the middle of its own code, waits for its next turn.
    pub(super) computes: Arc<AtomicBool>,
    /// Set at most once.
    pub(super) resumed: Option<Arc<ResumedState>>,
    pub(super) needed: Option<NeededInput>,
    pub(super) recorder: Option<ReplayRecorder>,
    pub(super) configuration: Option<Arc<str>>,
    /// `None` if the guest may call no tools.
    pub(super) children: Option<ChildCalls>,
    /// A command's, until it starts.
    pub(super) process: Option<Box<CommandInput>>,
    /// `None` for a guest that is no command.
    pub(super) command: Option<CommandEnd>,
    scratch: Option<ScratchFolder>,
}

/// What is charged while the guest is polled.
pub(super) struct CallMeters {
    pub(super) memory: Arc<MemoryMeter>,
    pub(super) cpu: Arc<CpuClock>,
}

/// Outlives the store: threads may still work on the call's files, and dropping the store on a worker must not remove
/// large files there.
pub(super) struct PendingCleanup {
    rules: Arc<FileRules>,
    scratch: Option<ScratchFolder>,
    /// Left open by the guest, such as when it was stopped.
    drafts: Vec<ArtifactDraft>,
}

impl PendingCleanup {
    /// Waits for threads that work on the call's files, which could otherwise create some after the removal. `false` if
    /// that takes too long, on a file system that hangs.
    pub(super) async fn settle(self) -> bool {
        let Self {
            rules,
            scratch,
            drafts,
        } = self;
        // The open files of drafts would count as work that goes on. If the pool is full, they are removed here.
        if !drafts.is_empty() {
            let _ = GUEST_FILES.run(move || drop(drafts)).await;
        }
        let settled = rules.quota.settled().await;
        drop(scratch);
        settled
    }
}

impl StoreState {
    pub(super) fn new(
        setup: WasiInputs<'_>,
        limits: &Limits,
        cancellation: Cancellation,
        observer: Arc<dyn Observer>,
        egress: Egress,
    ) -> wasmtime::Result<Self> {
        let logs = GuestLogs::new(
            limits.log_bytes,
            setup.process.is_some().then_some(limits.output_bytes),
        );
        let mut table = ResourceTable::new();
        if guard!("handles") {
            table.set_max_capacity(usize::try_from(limits.handles).unwrap_or(usize::MAX));
        }
        let WasiWorld {
            wasi,
            scratch,
            recorder,
        } = super::wasi::world(&setup, &logs)?;
        let mut rules = FileRules::new(setup.capability, limits, setup.room.clone());
        if let (Some(scratch), Some(guest)) = (&scratch, &setup.capability.scratch) {
            rules.knows(scratch.path(), guest);
        }
        rules.owns(setup.own_files);
        Ok(Self {
            wasi,
            table,
            limiter: Limiter::new(limits),
            cpu: Arc::default(),
            fuel_below: 0,
            logs,
            file_rules: Arc::new(rules),
            egress,
            cancellation,
            expiry: Cancellation::new(),
            observer,
            artifacts: None,
            modifiers: ContextChanges::outside_of_calls(),
            progress: ProgressGate::new(limits.progress_updates),
            partial_bytes_left: limits.output_bytes,
            started: Instant::now(),
            computes: Arc::default(),
            resumed: None,
            needed: None,
            recorder,
            configuration: None,
            children: None,
            command: setup.process.is_some().then(CommandEnd::default),
            process: setup.process,
            scratch,
        })
    }

    pub(super) fn meters(&self) -> CallMeters {
        CallMeters {
            memory: self.limiter.meter(),
            cpu: Arc::clone(&self.cpu),
        }
    }

    pub(super) fn random(&mut self) -> &mut WasiRandomCtx {
        if let Some(recorder) = &mut self.recorder {
            recorder.asks_for_random();
        }
        self.wasi.random()
    }

    pub(super) fn scratch(&self) -> Option<&Path> {
        self.scratch.as_ref().map(ScratchFolder::path)
    }

    pub(super) fn unsettled(&mut self) -> PendingCleanup {
        let drafts = match self.artifacts {
            Some(_) => open_drafts(&mut self.table),
            None => Vec::new(),
        };
        PendingCleanup {
            rules: Arc::clone(&self.file_rules),
            scratch: self.scratch.take(),
            drafts,
        }
    }
}

fn open_drafts(table: &mut ResourceTable) -> Vec<ArtifactDraft> {
    table
        .iter_mut()
        .filter_map(|entry| entry.downcast_mut::<GuestArtifact>()?.take_draft())
        .collect()
}

impl WasiView for StoreState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

/// Passes a limited number of updates, and the latest of the rest at the end.
pub(super) struct ProgressGate {
    left: u64,
    waiting: Option<ToolProgress>,
}

impl ProgressGate {
    fn new(updates: u64) -> Self {
        Self {
            left: updates.max(1),
            waiting: None,
        }
    }

    /// The last place is reserved for the last update of the call.
    pub(super) fn pass(&mut self, update: ToolProgress) -> Option<ToolProgress> {
        if self.left > 1 {
            self.left = self.left.saturating_sub(1);
            return Some(update);
        }
        self.waiting = Some(update);
        None
    }

    pub(super) fn finish(&mut self) -> Option<ToolProgress> {
        self.waiting.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::NullObserver;
    use crate::never;
    use crate::nondeterminism::NondeterminismSources;
    use crate::own_files::OpenFolders;
    use std::time::Duration;
    use toolcell_journal::PayloadStore;
    use toolcell_policy::Capability;
    use toolcell_policy::secret::Redactor;

    #[tokio::test]
    async fn dropping_the_store_removes_no_artifact_that_was_left_open() {
        let parent = tempfile::tempdir().unwrap();
        let capability = Capability::default();
        let limits = Limits::default();
        let observer = Arc::new(NullObserver);
        let egress = Egress::new(None);
        let sources = NondeterminismSources::default();
        let own_files = OpenFolders::default();
        let setup = WasiInputs {
            room: None,
            capability: &capability,
            own_files: &own_files,
            scratch_dir: parent.path(),
            sources: &sources,
            process: None,
        };
        let mut state = StoreState::new(setup, &limits, never(), observer, egress).unwrap();
        let payloads = PayloadStore::new(parent.path().join("payloads"));
        let artifacts = Artifacts::new(&payloads, &limits, Ok(Redactor::default()));
        let draft = artifacts.begin("report", "text/plain").unwrap();
        let file = Arc::downgrade(draft.file());
        state.file_rules.quota.opened(draft.file());
        state.artifacts = Some(artifacts);
        state.table.push(GuestArtifact::new(draft)).unwrap();
        let unsettled = state.unsettled();
        drop(state);
        assert_eq!(
            file.strong_count(),
            1,
            "a worker would have to remove the file"
        );
        assert!(unsettled.settle().await);
        assert_eq!(file.strong_count(), 0);
    }

    #[tokio::test]
    async fn the_folder_for_drafts_stays_while_a_thread_works_in_it() {
        let parent = tempfile::tempdir().unwrap();
        let drafts = || {
            let names = std::fs::read_dir(parent.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name());
            names
                .filter(|name| name.to_string_lossy().starts_with("call-"))
                .count()
        };
        let capability = Capability {
            scratch: Some("/scratch".to_owned()),
            ..Capability::default()
        };
        let limits = Limits::default();
        let observer = Arc::new(NullObserver);
        let egress = Egress::new(None);
        let sources = NondeterminismSources::default();
        let own_files = OpenFolders::default();
        let setup = WasiInputs {
            room: None,
            capability: &capability,
            own_files: &own_files,
            scratch_dir: parent.path(),
            sources: &sources,
            process: None,
        };
        let mut state = StoreState::new(setup, &limits, never(), observer, egress).unwrap();
        let at_work = Arc::new(std::fs::File::open(parent.path()).unwrap());
        state.file_rules.quota.changes(&at_work);
        let unsettled = state.unsettled();
        drop(state);
        let mut settling = Box::pin(unsettled.settle());
        assert!(
            tokio::time::timeout(Duration::from_millis(50), &mut settling)
                .await
                .is_err()
        );
        assert_eq!(drafts(), 1, "a thread is still at work");
        drop(at_work);
        assert!(settling.await);
        assert_eq!(drafts(), 0);
    }
}
