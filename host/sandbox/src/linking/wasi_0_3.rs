//! The imports of WASI 0.3. WASI 0.2 serves files, standard streams and requests, so that both have the same
//! checks and limits.

use tokio::sync::oneshot;
use wasmtime::component::{Access, FutureReader, HasData, StreamReader};
use wasmtime_wasi::cli::{WasiCli, WasiCliView};
use wasmtime_wasi::clocks::{WasiClocks, WasiClocksView};
use wasmtime_wasi::filesystem::{WasiFilesystem, WasiFilesystemView};
use wasmtime_wasi::p3::bindings::cli::types::ErrorCode;
use wasmtime_wasi::p3::bindings::cli::{stderr, stdout};
use wasmtime_wasi::p3::bindings::{cli, clocks, filesystem, random, sockets};
use wasmtime_wasi::random::WasiRandom;
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsView};

use super::LinkedInterface;
use crate::logs::{CapturedStream, StandardStream};
use crate::state::StoreState;
use crate::streams::{OutputConsumer, StreamEnd};

pub(super) const WASI_0_3: [LinkedInterface; 19] = [
    ("wasi:cli/environment", |linker| {
        cli::environment::add_to_linker::<_, WasiCli>(linker, StoreState::cli)
    }),
    ("wasi:cli/exit", |linker| {
        cli::exit::add_to_linker::<_, WasiCli>(linker, StoreState::cli)
    }),
    ("wasi:cli/stdin", |linker| {
        cli::stdin::add_to_linker::<_, WasiCli>(linker, StoreState::cli)
    }),
    ("wasi:cli/stdout", |linker| {
        stdout::add_to_linker::<_, StandardOutput>(linker, |state| StandardView(state))
    }),
    ("wasi:cli/stderr", |linker| {
        stderr::add_to_linker::<_, StandardOutput>(linker, |state| StandardView(state))
    }),
    ("wasi:cli/terminal-input", |linker| {
        cli::terminal_input::add_to_linker::<_, WasiCli>(linker, StoreState::cli)
    }),
    ("wasi:cli/terminal-output", |linker| {
        cli::terminal_output::add_to_linker::<_, WasiCli>(linker, StoreState::cli)
    }),
    ("wasi:cli/terminal-stdin", |linker| {
        cli::terminal_stdin::add_to_linker::<_, WasiCli>(linker, StoreState::cli)
    }),
    ("wasi:cli/terminal-stdout", |linker| {
        cli::terminal_stdout::add_to_linker::<_, WasiCli>(linker, StoreState::cli)
    }),
    ("wasi:cli/terminal-stderr", |linker| {
        cli::terminal_stderr::add_to_linker::<_, WasiCli>(linker, StoreState::cli)
    }),
    ("wasi:clocks/monotonic-clock", |linker| {
        clocks::monotonic_clock::add_to_linker::<_, WasiClocks>(linker, StoreState::clocks)
    }),
    ("wasi:clocks/system-clock", |linker| {
        clocks::system_clock::add_to_linker::<_, WasiClocks>(linker, StoreState::clocks)
    }),
    ("wasi:random/random", |linker| {
        random::random::add_to_linker::<_, WasiRandom>(linker, StoreState::random)
    }),
    ("wasi:random/insecure", |linker| {
        random::insecure::add_to_linker::<_, WasiRandom>(linker, StoreState::random)
    }),
    ("wasi:random/insecure-seed", |linker| {
        random::insecure_seed::add_to_linker::<_, WasiRandom>(linker, StoreState::random)
    }),
    (
        "wasi:filesystem/types",
        crate::filesystem::add_0_3_to_linker,
    ),
    ("wasi:filesystem/preopens", |linker| {
        filesystem::preopens::add_to_linker::<_, WasiFilesystem>(linker, StoreState::filesystem)
    }),
    ("wasi:sockets/types", |linker| {
        sockets::types::add_to_linker::<_, WasiSockets>(linker, StoreState::sockets)
    }),
    ("wasi:sockets/ip-name-lookup", |linker| {
        sockets::ip_name_lookup::add_to_linker::<_, WasiSockets>(linker, StoreState::sockets)
    }),
];

/// Interfaces that only tools get.
pub(super) const TOOL_0_3: [LinkedInterface; 2] = [
    ("wasi:http/types", crate::egress::link_0_3_types),
    ("wasi:http/client", crate::egress::link_0_3_client),
];

struct StandardOutput;

impl HasData for StandardOutput {
    type Data<'a> = StandardView<'a>;
}

struct StandardView<'a>(&'a mut StoreState);

impl stdout::Host for StandardView<'_> {}
impl stderr::Host for StandardView<'_> {}

/// As the stream of WASI 0.2 does, one that prints more than a command may ends the call.
fn captured(
    mut store: Access<'_, StoreState, StandardOutput>,
    data: StreamReader<u8>,
    stream: StandardStream,
) -> wasmtime::Result<FutureReader<Result<(), ErrorCode>>> {
    let (send, receive) = oneshot::channel();
    let logs = store.get().0.logs.clone();
    let captured = Box::new(CapturedStream { logs, stream });
    let end = StreamEnd::new(send, |_| ErrorCode::Io);
    data.pipe(&mut store, OutputConsumer::new(captured, end))?;
    FutureReader::new(&mut store, async {
        wasmtime::error::Ok(receive.await.unwrap_or(Ok(())))
    })
}

impl stdout::HostWithStore<StoreState> for StandardOutput {
    fn write_via_stream(
        store: Access<'_, StoreState, Self>,
        data: StreamReader<u8>,
    ) -> wasmtime::Result<FutureReader<Result<(), ErrorCode>>> {
        captured(store, data, StandardStream::Stdout)
    }
}

impl stderr::HostWithStore<StoreState> for StandardOutput {
    fn write_via_stream(
        store: Access<'_, StoreState, Self>,
        data: StreamReader<u8>,
    ) -> wasmtime::Result<FutureReader<Result<(), ErrorCode>>> {
        captured(store, data, StandardStream::Stderr)
    }
}
