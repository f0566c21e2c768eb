//! Loads compiled code: from the cache, or by compiling in a child process. Whole files are read and written on threads
//! for the host's own store, because that would block calls.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use toolcell_spec::{ErrorCode, Refusal, digest};
use toolcell_system::component_size::component_bytes_max;
use toolcell_system::pool::{STORE, UnfinishedJob};
use tracing::{Level, enabled, info};

use super::cache::{CacheEntry, CacheNote, CodeCache};
use super::compile::{self, CompileEffort, CompileOrder, Compiler};
use super::component::{self, ComponentDescription, LinkedComponent, LoadedComponent};
use super::engine::{EngineKind, Engines, GuestEngine, Meter};
use super::own_files::{self, OpenFolders, OwnFileStore, OwnFiles};

pub(super) type CachedCode<D> = (EngineKind, CacheEntry<D>);

pub(super) enum ComponentCode<D> {
    Compiled(EngineKind, Vec<u8>),
    /// The description is missing if an earlier load failed after it compiled.
    Kept(EngineKind, CacheEntry<D>),
}

impl<D> ComponentCode<D> {
    pub(super) fn component<'e>(
        &self,
        engines: &'e Engines,
    ) -> Result<(&'e GuestEngine, wasmtime::component::Component), Refusal> {
        let engine = engines.get(self.kind());
        let component = match self {
            Self::Compiled(_, code) => component::deserialize(engine, code)?,
            Self::Kept(_, entry) => component::map(engine, entry.code_file())?,
        };
        Ok((engine, component))
    }

    fn kind(&self) -> EngineKind {
        match self {
            Self::Compiled(kind, _) | Self::Kept(kind, _) => *kind,
        }
    }
}

/// Shared with loads that outlive their calls.
pub(super) struct ComponentLoader {
    pub(super) engines: Engines,
    compiler: Compiler,
    /// `None` without a cache folder. Bound to the settings of the pooled engine.
    cache: Result<Option<Arc<CodeCache>>, Refusal>,
    own_files: Arc<OwnFileStore>,
    extended: blake3::Hash,
    timed: blake3::Hash,
}

impl ComponentLoader {
    pub(super) fn new(
        engines: Engines,
        compiler: Compiler,
        cache: Result<Option<Arc<CodeCache>>, Refusal>,
        own_files: OwnFileStore,
    ) -> Self {
        let compatibility = |kind| engines.get(kind).compatibility();
        let extended = compatibility(EngineKind::Extended);
        let timed = compatibility(EngineKind::Timed);
        Self {
            engines,
            compiler,
            cache,
            own_files: Arc::new(own_files),
            extended,
            timed,
        }
    }

    /// An unusable cache fails every load; otherwise each start would compile everything again without notice.
    pub(super) fn cache(&self) -> Result<Option<&Arc<CodeCache>>, Refusal> {
        self.cache
            .as_ref()
            .map(Option::as_ref)
            .map_err(Clone::clone)
    }

    fn entry(&self, name: &blake3::Hash, kind: EngineKind) -> blake3::Hash {
        let settings = match kind {
            EngineKind::Pooled => return *name,
            EngineKind::Extended => self.extended,
            EngineKind::Timed => self.timed,
        };
        blake3::hash(&[name.as_bytes().as_slice(), settings.as_bytes()].concat())
    }

    pub(super) async fn cached<D: DeserializeOwned + Send + 'static>(
        &self,
        name: &blake3::Hash,
        meter: Meter,
    ) -> Result<Option<CachedCode<D>>, Refusal> {
        let Some(cache) = self.cache()? else {
            return Ok(None);
        };
        let cache = Arc::clone(cache);
        let names = self.entries(name, meter);
        on_disk(move || read(&cache, &names)).await
    }

    /// Like [`Self::cached`], on this thread, which it can block for long.
    pub(super) fn cached_here<D: DeserializeOwned>(
        &self,
        name: &blake3::Hash,
        meter: Meter,
    ) -> Result<Option<CachedCode<D>>, Refusal> {
        Ok(self
            .cache()?
            .and_then(|cache| read(cache, &self.entries(name, meter))))
    }

    fn entries(&self, name: &blake3::Hash, meter: Meter) -> Vec<(EngineKind, blake3::Hash)> {
        EngineKind::metered_by(meter)
            .iter()
            .map(|kind| (*kind, self.entry(name, *kind)))
            .collect()
    }

    /// Compiles `bytes` if there is no `entry`.
    pub(super) async fn code<D>(
        &self,
        entry: Option<CachedCode<D>>,
        bytes: &[u8],
        order: CompileOrder,
    ) -> Result<ComponentCode<D>, Refusal> {
        match entry {
            Some((kind, entry)) => Ok(ComponentCode::Kept(kind, entry)),
            None => {
                compile::refuse_what_is_no_component(bytes)?;
                let begun = Instant::now();
                let compiled = self.compiler.compile(bytes, order).await;
                if enabled!(Level::INFO) {
                    let component = digest(bytes);
                    let compiled = compiled.is_ok();
                    info!(component, ?order, compiled, took = ?begun.elapsed(), "the compiler ended");
                }
                let (kind, code) = compiled?;
                Ok(ComponentCode::Compiled(kind, code))
            }
        }
    }

    /// Compiles a module that runs once.
    pub(super) async fn module(
        &self,
        bytes: &[u8],
    ) -> Result<(&GuestEngine, wasmtime::Module), Refusal> {
        let order = CompileOrder {
            effort: CompileEffort::Module,
            meter: Meter::Fuel,
        };
        let (kind, code) = self.compiler.compile(bytes, order).await?;
        let engine = self.engines.get(kind);
        Ok((engine, component::deserialize_module(engine, &code)?))
    }

    /// Cached without a description too, so that the next load does not compile again.
    pub(super) async fn keep_code<D: Serialize + Send + 'static>(
        &self,
        name: &blake3::Hash,
        code: ComponentCode<D>,
        description: Option<D>,
    ) {
        let Ok(Some(cache)) = self.cache() else {
            return;
        };
        let cache = Arc::clone(cache);
        let name = self.entry(name, code.kind());
        let write = move || match (code, description) {
            (ComponentCode::Compiled(_, code), description) => {
                cache.write(&name, description.as_ref(), &code)
            }
            (ComponentCode::Kept(_, mut entry), Some(description)) => entry
                .code()
                .map_err(anyhow::Error::from)
                .and_then(|code| cache.write(&name, Some(&description), &code)),
            (ComponentCode::Kept(_, _), None) => Ok(()),
        };
        // A failed write only costs another compilation; the call need not fail for it.
        let _ = on_disk(write).await;
    }

    pub(super) async fn improve(
        &self,
        known: &LoadedComponent,
        bytes: &[u8],
    ) -> Result<LoadedComponent, Refusal> {
        let name = known.name();
        let description = known.description().clone();
        let order = CompileOrder {
            effort: CompileEffort::Again,
            meter: description.engine.meter(),
        };
        let code = self.code(None, bytes, order).await?;
        let (engine, compiled) = code.component(&self.engines)?;
        let linked = LinkedComponent::new(engine, &compiled, &description)?;
        self.keep_code(&name, code, Some(description.clone())).await;
        Ok(LoadedComponent::new(description, name, linked))
    }

    /// The next start would read the component again without a note.
    pub(super) async fn remember(&self, path: &Path, note: CacheNote<ComponentDescription>) {
        let Ok(Some(cache)) = self.cache() else {
            return;
        };
        let cache = Arc::clone(cache);
        let path = path.to_owned();
        let meter = note.description.engine.meter();
        let _ = on_disk(move || cache.remember(&path, meter, &note)).await;
    }

    /// Dropping the future ends the wait, and not the load. One load of a component runs at a time; an unchanged cache
    /// entry is mapped without one. If a load fails, all its calls fail, and the next one loads again; a call that was
    /// given the bytes does not fail with a load that had none.
    pub(super) async fn link(
        self: &Arc<Self>,
        component: &Arc<LoadedComponent>,
        bytes: Option<&[u8]>,
    ) -> Result<(), Refusal> {
        // An unchanged entry takes less time than a task.
        if component.linked.get().is_none()
            && let Some(linked) = self.reopen(component)?
        {
            component.take_code(linked);
        }
        if component.linked.get().is_some() {
            return Ok(());
        }
        let load = || {
            let loader = Arc::clone(self);
            let loaded = Arc::clone(component);
            let bytes = bytes.map(<[u8]>::to_vec);
            async move {
                // It may have ended since this call looked.
                if loaded.linked.get().is_some() {
                    return Ok(());
                }
                let fetched = loader.fetch(&loaded, bytes.as_deref()).await;
                fetched.map(|linked| loaded.take_code(linked))
            }
        };
        component.loads.join(bytes.is_some(), load).await
    }

    /// The entry must be in the state in which it was authenticated.
    fn reopen(&self, component: &LoadedComponent) -> Result<Option<LinkedComponent>, Refusal> {
        let (Some(cache), Some(state)) = (self.cache()?, &component.entry) else {
            return Ok(None);
        };
        let description = component.description();
        let name = self.entry(&component.name(), description.engine);
        let Some(entry) = cache.reopen(&name, state) else {
            return Ok(None);
        };
        let engine = self.engines.get(description.engine);
        LinkedComponent::new(
            engine,
            &component::map(engine, entry.code_file())?,
            description,
        )
        .map(Some)
    }

    /// Reads the component's file, without `bytes`, and refuses it if it holds others by now.
    async fn fetch(
        &self,
        component: &LoadedComponent,
        bytes: Option<&[u8]>,
    ) -> Result<LinkedComponent, Refusal> {
        if let Some(linked) = self.reopen(component)? {
            return Ok(linked);
        }
        let name = component.name();
        let description = component.description();
        let meter = description.engine.meter();
        if let Some((kind, entry)) = self.cached::<IgnoredAny>(&name, meter).await? {
            let engine = self.engines.get(kind);
            let linked = LinkedComponent::new(
                engine,
                &component::map(engine, entry.code_file())?,
                description,
            )?;
            // From the next start on, the entry need not be read as a whole.
            if let Some((path, Some(state))) = component.file.get()
                && let Some(lasting) = entry.lasting()
            {
                let name = *name.as_bytes();
                let description = description.clone();
                self.remember(
                    path,
                    CacheNote {
                        name,
                        component: *state,
                        entry: Some(lasting),
                        description,
                    },
                )
                .await;
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
        let code = self
            .code::<ComponentDescription>(None, bytes, CompileOrder::thorough(meter))
            .await?;
        let (engine, compiled) = code.component(&self.engines)?;
        let linked = LinkedComponent::new(engine, &compiled, description)?;
        self.keep_code(&name, code, Some(description.clone())).await;
        Ok(linked)
    }
}

impl ComponentLoader {
    /// Unpacks the files that the component carries, where they are not there yet.
    pub(super) async fn unpack_sections(&self, component: &[u8]) -> Result<OwnFiles, Refusal> {
        let sections = own_files::sections(component)?;
        if sections.is_empty() {
            return Ok(OwnFiles::default());
        }
        let store = Arc::clone(&self.own_files);
        let cache = self.cache()?.cloned();
        let unpack = move || {
            let unpacked = store.keep(&sections)?;
            if let Some(cache) = cache {
                cache.trim_for_files();
            }
            Ok(unpacked)
        };
        on_disk(unpack).await?
    }

    /// `None` if they have to be unpacked first.
    pub(super) fn own_files(
        &self,
        component: &LoadedComponent,
    ) -> Result<Option<OpenFolders>, Refusal> {
        match component.own_files() {
            [] => Ok(Some(OpenFolders::default())),
            folders => self.own_files.open(folders),
        }
    }

    /// Unpacks them from the component's file, without `bytes`. As with [`Self::link`], one load at a time unpacks, and goes
    /// on without the call that began it.
    pub(super) async fn unpack(
        self: &Arc<Self>,
        component: &Arc<LoadedComponent>,
        bytes: Option<&[u8]>,
    ) -> Result<OpenFolders, Refusal> {
        if let Some(open) = self.own_files(component)? {
            return Ok(open);
        }
        let load = || {
            let loader = Arc::clone(self);
            let component = Arc::clone(component);
            let bytes = bytes.map(<[u8]>::to_vec);
            async move {
                // It may have ended since this call looked.
                if loader.own_files(&component)?.is_some() {
                    return Ok(());
                }
                let bytes = match bytes {
                    Some(bytes) => bytes,
                    None if component.file.get().is_none() => return Err(own_files::lost()),
                    None => of_file(&component).await?,
                };
                loader.unpack_sections(&bytes).await.map(drop)
            }
        };
        component.unpacks.join(bytes.is_some(), load).await?;
        self.own_files(component)?.ok_or_else(own_files::gone)
    }
}

fn read<D: DeserializeOwned>(
    cache: &CodeCache,
    names: &[(EngineKind, blake3::Hash)],
) -> Option<CachedCode<D>> {
    names
        .iter()
        .find_map(|(kind, name)| Some((*kind, cache.read(name)?)))
}

async fn of_file(component: &LoadedComponent) -> Result<Vec<u8>, Refusal> {
    let Some((path, _)) = component.file.get() else {
        return Err(Refusal::host_fault("a component without code has no file"));
    };
    let file = path.clone();
    let name = component.name();
    let bytes = on_disk(move || read_again(&file, &name)).await?;
    bytes.ok_or_else(|| changed(path))
}

async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    STORE.run(work).await.map_err(|error| match error {
        UnfinishedJob::Busy(_) | UnfinishedJob::NoThreads(_) => {
            let message =
                format!("the tool's component cannot be loaded now: {error}; call again later");
            Refusal::new(ErrorCode::TooManyLoads, message)
        }
        UnfinishedJob::Panicked => Refusal::host_fault("loading a component panicked"),
    })
}

/// `None` if the file holds another component by now.
fn read_again(path: &Path, name: &blake3::Hash) -> Option<Vec<u8>> {
    // Without NONBLOCK, a named pipe that took the file's place would block the reader.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .ok()?;
    let mut bytes = Vec::new();
    file.take(component_bytes_max())
        .read_to_end(&mut bytes)
        .ok()?;
    (blake3::hash(&bytes) == *name).then_some(bytes)
}

fn changed(path: &Path) -> Refusal {
    let message = format!(
        "the component {} changed or was removed after loading; reload the tool and call again",
        path.display()
    );
    Refusal::new(ErrorCode::ComponentChanged, message)
}
