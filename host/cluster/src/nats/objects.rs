//! Objects, each named by its digest.

use std::pin::pin;
use std::time::Duration;

use async_nats::jetstream::object_store::ObjectStore;
use tokio::io::AsyncReadExt;

use crate::question::digest;
use crate::store::Unavailable;

/// Of one object.
const BYTES_MAX: u64 = 64 << 20;
/// A replica may not have a new object yet.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(200);

pub(super) struct Objects {
    store: ObjectStore,
}

impl Objects {
    pub(super) fn new(store: ObjectStore) -> Self {
        Self { store }
    }

    /// Returns the digest.
    pub(super) async fn put(&self, bytes: &[u8]) -> Result<String, Unavailable> {
        let name = digest(bytes);
        let mut reader = bytes;
        let put = self.store.put(name.as_str(), &mut reader).await;
        put.map_err(|error| Unavailable(format!("an object cannot be written: {error}")))?;
        Ok(name)
    }

    /// The object, if it is the one of this digest.
    pub(super) async fn get(&self, name: &str) -> Result<Vec<u8>, Unavailable> {
        let mut tries = 1;
        let bytes = loop {
            match self.read(name).await {
                Ok(bytes) => break bytes,
                Err(error) if tries == TRIES => {
                    return Err(Unavailable(format!("an object cannot be read: {error}")));
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
            tries += 1;
        };
        if digest(&bytes) == name {
            return Ok(bytes);
        }
        Err(Unavailable("an object has another digest".to_owned()))
    }

    async fn read(&self, name: &str) -> Result<Vec<u8>, async_nats::Error> {
        let object = self.store.get(name).await?;
        let mut bytes = Vec::new();
        pin!(object.take(BYTES_MAX)).read_to_end(&mut bytes).await?;
        Ok(bytes)
    }
}
