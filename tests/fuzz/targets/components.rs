//! Valid and nearly valid components: loading one yields a tool or a refusal, and never a fault of the host.

use std::sync::{Arc, OnceLock};

use crate::shared::{host, runtime};
use arbitrary::Unstructured;
use toolcell::Host;
use wasm_smith::{Component, Config};

fn parts() -> &'static (tokio::runtime::Runtime, Arc<Host>) {
    static PARTS: OnceLock<(tokio::runtime::Runtime, Arc<Host>)> = OnceLock::new();
    PARTS.get_or_init(|| (runtime(), host()))
}

pub(crate) fn run(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let Ok(component) = Component::new(Config::default(), &mut input) else {
        return;
    };
    let (runtime, host) = parts();
    if let Err(refusal) = runtime.block_on(host.load(&component.to_bytes())) {
        assert_ne!(refusal.code, toolcell::ErrorCode::HostFault, "{refusal:?}");
    }
}
