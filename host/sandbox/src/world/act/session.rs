//! Sessions of an ACT component: opened, used and closed in one call, without arguments, because its caller has no
//! place for them.

use serde_json::Value;
use wasmtime::Store;
use wasmtime::component::{ComponentExportIndex, Instance, InstancePre};

use super::types::{ActError, ActMetadata, ActSession, ToolEvent};
use super::{ActWorld, cbor, function};
use crate::state::StoreState;

const PROVIDER: &str = "act:sessions/session-provider@0.2.0";
const ID: &str = "std:session-id";

type OpenParams<'a> = (&'a [(String, Vec<u8>)], &'a [(String, Vec<u8>)]);
type OpenResults = (Result<ActSession, ActError>,);

pub(super) struct SessionExports {
    open: ComponentExportIndex,
    close: ComponentExportIndex,
}

pub(super) fn is_needed(events: &[ToolEvent]) -> bool {
    matches!(events, [ToolEvent::Error(error)] if error.kind == "std:session-not-found")
}

impl SessionExports {
    pub(super) fn find(instance: &InstancePre<StoreState>) -> wasmtime::Result<Option<Self>> {
        let Some(provider) = instance.component().get_export_index(None, PROVIDER) else {
            return Ok(None);
        };
        Ok(Some(Self {
            open: function::<OpenParams<'_>, OpenResults>(instance, &provider, "open-session")?,
            close: function::<(&str,), ()>(instance, &provider, "close-session")?,
        }))
    }

    pub(super) async fn events(
        &self,
        act: &ActWorld,
        store: &mut Store<StoreState>,
        guest: Instance,
        called: (&str, &[u8]),
    ) -> wasmtime::Result<Vec<ToolEvent>> {
        let open = guest.get_typed_func::<OpenParams<'_>, OpenResults>(&mut *store, &self.open)?;
        let session = match open.call_async(&mut *store, (&[], &[])).await? {
            (Ok(session),) => session,
            (Err(error),) => return Ok(vec![ToolEvent::Error(error)]),
        };
        let id =
            cbor::from_json(&Value::from(session.id.as_str())).map_err(wasmtime::Error::msg)?;
        let metadata: ActMetadata = vec![(ID.to_owned(), id)];
        let events = act.events(store, guest, called, &metadata).await?;
        let close = guest.get_typed_func::<(&str,), ()>(&mut *store, &self.close)?;
        close
            .call_async(&mut *store, (session.id.as_str(),))
            .await?;
        Ok(events)
    }
}
