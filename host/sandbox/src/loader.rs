//! Loads compiled code: from the cache on disk, or by compiling a component in a child process. Work that reads or writes
//! whole files runs on threads for the host's own store, because it would block the calls that share a worker.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use toolcell_core::pool::{STORE, Unfinished};
use toolcell_core::record::{ErrorClass, Refusal};

use super::cache::{Cache, Entry, Note};
use super::compile::{self, COMPONENT_BYTES_MAX, Compiler};
use super::component::{self, Description, Linked, LoadedComponent};
use super::engine::Engine;
use super::loads::Source;

/// Compiled code of a component.
pub(super) enum Code<D> {
    /// Straight from the compiler.
    Compiled(Vec<u8>),
    /// From the cache. It has no description if an earlier load failed after it compiled the component.
    Kept(Entry<D>),
}

impl<D> Code<D> {
    pub(super) fn component(&self, engine: &Engine) -> Result<wasmtime::component::Component, Refusal> {
        match self {
            Self::Compiled(code) => component::deserialize(engine, code),
            Self::Kept(entry) => component::map(engine, entry.code_file()),
        }
    }
}

/// What loading code takes. It is shared with loads that outlive their calls.
pub(super) struct Loader {
    pub(super) engine: Engine,
    compiler: Compiler,
    /// `None` without a cache folder; `Err` if the cache cannot be used.
    cache: Result<Option<Arc<Cache>>, Refusal>,
}

impl Loader {
    pub(super) fn new(engine: Engine, compiler: Compiler, cache: Result<Option<Arc<Cache>>, Refusal>) -> Self {
        Self { engine, compiler, cache }
    }

    /// Returns the cache on disk, if there is one. An unusable cache fails every load, so that each call reports it;
    /// otherwise each start would compile everything again without notice.
    pub(super) fn cache(&self) -> Result<Option<&Arc<Cache>>, Refusal> {
        self.cache.as_ref().map(Option::as_ref).map_err(Clone::clone)
    }

    /// Returns the authenticated entry of the component with this hash; `None` if the cache has none.
    pub(super) async fn cached<D: DeserializeOwned + Send + 'static>(
        &self,
        name: &blake3::Hash,
    ) -> Result<Option<Entry<D>>, Refusal> {
        let Some(cache) = self.cache()? else { return Ok(None) };
        let (cache, name) = (Arc::clone(cache), *name);
        on_disk(move || cache.read(&name)).await
    }

    /// Returns the code of `entry`, if there is one; otherwise compiles `bytes`.
    pub(super) async fn code<D>(&self, entry: Option<Entry<D>>, bytes: &[u8]) -> Result<Code<D>, Refusal> {
        match entry {
            Some(entry) => Ok(Code::Kept(entry)),
            None => {
                compile::refuse_what_is_no_component(bytes)?;
                self.compiler.compile(bytes).await.map(Code::Compiled)
            }
        }
    }

    /// Caches compiled code with the component's description. Code without a description is cached too, so that the
    /// next load does not compile it again.
    pub(super) async fn keep_code<D: Serialize + Send + 'static>(
        &self,
        name: &blake3::Hash,
        code: Code<D>,
        description: Option<D>,
    ) {
        let Ok(Some(cache)) = self.cache() else { return };
        let (cache, name) = (Arc::clone(cache), *name);
        let write = move || match (code, description) {
            (Code::Compiled(code), description) => cache.write(&name, description.as_ref(), &code),
            (Code::Kept(mut entry), Some(description)) => {
                entry.code().map_err(anyhow::Error::from).and_then(|code| cache.write(&name, Some(&description), &code))
            }
            (Code::Kept(_), None) => Ok(()),
        };
        // A failed write only costs another compilation; the call need not fail for it.
        let _ = on_disk(write).await;
    }

    /// Writes a note for the file `path`. Without it, the next start reads the component again.
    pub(super) async fn remember(&self, path: &Path, note: Note<Description>) {
        let Ok(Some(cache)) = self.cache() else { return };
        let (cache, path) = (Arc::clone(cache), path.to_owned());
        let _ = on_disk(move || cache.remember(&path, &note)).await;
    }

    /// Loads the code of `component`, whose bytes are `bytes`, unless that was done before.
    pub(super) async fn link(&self, component: &LoadedComponent, bytes: &[u8]) -> Result<(), Refusal> {
        if component.linked.get().is_some() {
            return Ok(());
        }
        let turn = component.loads.turn(Source::Given).await;
        if component.linked.get().is_some() {
            return Ok(());
        }
        if let Some(refusal) = turn.failure() {
            return Err(refusal);
        }
        let fetched = self.fetch(component, Some(bytes)).await;
        turn.end(fetched.map(|linked| component.take_code(linked)))
    }

    /// Loads the code of a component that was recalled, unless that was done before. Dropping the future ends the wait,
    /// and not a load that has begun. One load of a component runs at a time, however many calls wait for it. If it fails,
    /// all of them fail, and the next call loads again.
    pub(super) async fn link_in_background(self: &Arc<Self>, component: &Arc<LoadedComponent>) -> Result<(), Refusal> {
        let turn = component.loads.turn(Source::File).await;
        if component.linked.get().is_some() {
            return Ok(());
        }
        if let Some(refusal) = turn.failure() {
            return Err(refusal);
        }
        // An unchanged entry takes less time than a task.
        match self.reopen(component) {
            Ok(Some(linked)) => {
                component.take_code(linked);
                return Ok(());
            }
            Ok(None) => {}
            Err(refusal) => return turn.end(Err(refusal)),
        }
        let (loader, component) = (Arc::clone(self), Arc::clone(component));
        let load = tokio::spawn(async move {
            let fetched = loader.fetch(&component, None).await;
            turn.end(fetched.map(|linked| component.take_code(linked)))
        });
        load.await.unwrap_or_else(|_| Err(Refusal::host_fault("loading a component panicked, or its runtime ended")))
    }

    /// Links the code of the component's entry, if the entry is in the state in which it was authenticated.
    fn reopen(&self, component: &LoadedComponent) -> Result<Option<Linked>, Refusal> {
        let (Some(cache), Some(state)) = (self.cache()?, &component.entry) else { return Ok(None) };
        let Some(entry) = cache.reopen(&component.name(), state) else { return Ok(None) };
        let code = component::map(&self.engine, entry.code_file())?;
        Linked::new(&self.engine, &code, component.description()).map(Some)
    }

    /// Loads the code of a component: from its unchanged entry, from one that has to be authenticated again, or by
    /// compiling `bytes`. Without `bytes`, it reads the component's file, and refuses it if it holds others by now.
    async fn fetch(&self, component: &LoadedComponent, bytes: Option<&[u8]>) -> Result<Linked, Refusal> {
        if let Some(linked) = self.reopen(component)? {
            return Ok(linked);
        }
        let (name, description) = (component.name(), component.description());
        if let Some(entry) = self.cached::<IgnoredAny>(&name).await? {
            let linked = Linked::new(&self.engine, &component::map(&self.engine, entry.code_file())?, description)?;
            // From the next start on, the entry need not be read as a whole.
            if let (Some((path, state)), Some(lasting)) = (&component.file, entry.lasting()) {
                let (name, description) = (*name.as_bytes(), description.clone());
                self.remember(path, Note { name, component: *state, entry: Some(lasting), description }).await;
            }
            return Ok(linked);
        }
        let read;
        let bytes = match bytes {
            Some(bytes) => bytes,
            None => {
                read = of_file(component).await?;
                read.as_slice()
            }
        };
        let code = self.code::<Description>(None, bytes).await?;
        let linked = Linked::new(&self.engine, &code.component(&self.engine)?, description)?;
        self.keep_code(&name, code, Some(description.clone())).await;
        Ok(linked)
    }
}

/// Reads the bytes of a component that was recalled from its file.
async fn of_file(component: &LoadedComponent) -> Result<Vec<u8>, Refusal> {
    let Some((path, _)) = &component.file else {
        return Err(Refusal::host_fault("a component without code has no file"));
    };
    let (file, name) = (path.clone(), component.name());
    let bytes = on_disk(move || read_again(&file, &name)).await?;
    bytes.ok_or_else(|| changed(path))
}

/// Runs `work`, which reads or writes files of the host's own, on a thread for that.
async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    STORE.run(work).await.map_err(|error| match error {
        Unfinished::Busy(_) => {
            let message = format!("the tool's component cannot be loaded now: {error}; call again later");
            Refusal::new(ErrorClass::RateLimited, "too_many_loads", message)
        }
        Unfinished::Panicked => Refusal::host_fault("loading a component panicked"),
    })
}

/// Reads the component in the file `path` again; `None` if it is not the one with this hash any more.
fn read_again(path: &Path, name: &blake3::Hash) -> Option<Vec<u8>> {
    // Without NONBLOCK, a named pipe that took the file's place would block the reader.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    let mut bytes = Vec::new();
    file.take(COMPONENT_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    (blake3::hash(&bytes) == *name).then_some(bytes)
}

fn changed(path: &Path) -> Refusal {
    let message = format!(
        "the component {} changed or was removed before its first call, and its compiled code is not in the cache; call \
         again when the tool is loaded anew",
        path.display()
    );
    Refusal::new(ErrorClass::DependencyUnavailable, "component_changed", message)
}
