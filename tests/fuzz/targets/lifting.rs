//! Lifting of results: the input is the memory of a guest, and so every pointer, length and discriminant of its result.

use std::sync::{Arc, OnceLock};

use crate::shared::{host, request, runtime};
use toolcell::Host;

/// Maximum size of the guest's memory that an input fills, in bytes.
const FILLED_MAX: usize = 16 << 10;

fn guest() -> &'static (tokio::runtime::Runtime, Arc<Host>) {
    static GUEST: OnceLock<(tokio::runtime::Runtime, Arc<Host>)> = OnceLock::new();
    GUEST.get_or_init(|| {
        let runtime = runtime();
        let host = host();
        let component = wat::parse_str(include_str!("lifting.wat")).expect("parse the guest");
        runtime
            .block_on(host.load(&component))
            .expect("load the guest");
        (runtime, host)
    })
}

pub(crate) fn run(data: &[u8]) {
    let (runtime, host) = guest();
    let filled: String = data
        .iter()
        .take(FILLED_MAX)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let record =
        runtime.block_on(host.call(request("fuzz.lift", &format!("{{\"m\":\"{filled}\"}}"))));
    let fault = record
        .result
        .error
        .as_ref()
        .is_some_and(|error| error.error_code == "host_fault");
    assert!(!fault, "{:?}", record.result.error);
}
