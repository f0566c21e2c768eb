//! The imports of a component: WASI 0.2's command world, and the contract's interfaces. Only what it imports is linked,
//! because preparing all takes longer than the rest of loading a cached component.

mod wasi_0_3;

use wasmtime::component::{HasData, HasSelf, Linker, ResourceTable};
use wasmtime_wasi::cli::{WasiCli, WasiCliView};
use wasmtime_wasi::clocks::{WasiClocks, WasiClocksView};
use wasmtime_wasi::filesystem::{WasiFilesystem, WasiFilesystemView};
use wasmtime_wasi::p2::bindings::{cli, clocks, filesystem, io, random, sockets};
use wasmtime_wasi::random::WasiRandom;
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsView};

use super::bindings::tool::toolcell::tool as wit;
use super::bindings::waiting::toolcell::tool::cancellation_signal;
use super::state::StoreState;
use super::world::{FOR_TOOLS, NEAR};
use wasi_0_3::{TOOL_0_3, WASI_0_3};

/// An interface's name without its version, and the function that adds it to a linker.
pub(super) type LinkedInterface = (
    &'static str,
    fn(&mut Linker<StoreState>) -> wasmtime::Result<()>,
);

struct HasTable;

impl HasData for HasTable {
    type Data<'a> = &'a mut ResourceTable;
}

/// WASI's command world. `filesystem/types` is toolcell's own, because wasmtime-wasi's has no denials and no quotas.
pub(super) const WASI: [LinkedInterface; 27] = [
    ("wasi:io/error", |linker| {
        io::error::add_to_linker::<_, HasTable>(linker, |state| &mut state.table)
    }),
    ("wasi:io/poll", |linker| {
        io::poll::add_to_linker::<_, HasTable>(linker, |state| &mut state.table)
    }),
    ("wasi:io/streams", |linker| {
        io::streams::add_to_linker::<_, HasTable>(linker, |state| &mut state.table)
    }),
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
        cli::stdout::add_to_linker::<_, WasiCli>(linker, StoreState::cli)
    }),
    ("wasi:cli/stderr", |linker| {
        cli::stderr::add_to_linker::<_, WasiCli>(linker, StoreState::cli)
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
    ("wasi:clocks/wall-clock", |linker| {
        clocks::wall_clock::add_to_linker::<_, WasiClocks>(linker, StoreState::clocks)
    }),
    ("wasi:clocks/monotonic-clock", |linker| {
        clocks::monotonic_clock::add_to_linker::<_, WasiClocks>(linker, StoreState::clocks)
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
    ("wasi:filesystem/types", super::filesystem::add_to_linker),
    ("wasi:filesystem/preopens", |linker| {
        filesystem::preopens::add_to_linker::<_, WasiFilesystem>(linker, StoreState::filesystem)
    }),
    ("wasi:sockets/network", |linker| {
        let options = sockets::network::LinkOptions::default();
        sockets::network::add_to_linker::<_, WasiSockets>(linker, &options, StoreState::sockets)
    }),
    ("wasi:sockets/instance-network", |linker| {
        sockets::instance_network::add_to_linker::<_, WasiSockets>(linker, StoreState::sockets)
    }),
    ("wasi:sockets/ip-name-lookup", |linker| {
        sockets::ip_name_lookup::add_to_linker::<_, WasiSockets>(linker, StoreState::sockets)
    }),
    ("wasi:sockets/tcp", |linker| {
        sockets::tcp::add_to_linker::<_, WasiSockets>(linker, StoreState::sockets)
    }),
    ("wasi:sockets/tcp-create-socket", |linker| {
        sockets::tcp_create_socket::add_to_linker::<_, WasiSockets>(linker, StoreState::sockets)
    }),
    ("wasi:sockets/udp", |linker| {
        sockets::udp::add_to_linker::<_, WasiSockets>(linker, StoreState::sockets)
    }),
    ("wasi:sockets/udp-create-socket", |linker| {
        sockets::udp_create_socket::add_to_linker::<_, WasiSockets>(linker, StoreState::sockets)
    }),
];

const LOG: LinkedInterface = ("toolcell:tool/log", |linker| {
    wit::log::add_to_linker::<_, HasSelf<StoreState>>(linker, |state| state)
});

/// Interfaces that only tools get.
const TOOL: [LinkedInterface; 9] = [
    ("toolcell:tool/progress", |linker| {
        wit::progress::add_to_linker::<_, HasSelf<StoreState>>(linker, |state| state)
    }),
    ("toolcell:tool/cancellation", |linker| {
        wit::cancellation::add_to_linker::<_, HasSelf<StoreState>>(linker, |state| state)
    }),
    ("toolcell:tool/cancellation-signal", |linker| {
        cancellation_signal::add_to_linker::<_, HasSelf<StoreState>>(linker, |state| state)
    }),
    ("toolcell:tool/interaction", |linker| {
        wit::interaction::add_to_linker::<_, HasSelf<StoreState>>(linker, |state| state)
    }),
    ("toolcell:tool/artifacts", |linker| {
        wit::artifacts::add_to_linker::<_, HasSelf<StoreState>>(linker, |state| state)
    }),
    ("toolcell:tool/context-modifiers", |linker| {
        wit::context_modifiers::add_to_linker::<_, HasSelf<StoreState>>(linker, |state| state)
    }),
    ("toolcell:tool/tools", super::import::tools::add_to_linker),
    ("wasi:http/outgoing-handler", super::egress::link_handler),
    ("wasi:http/types", super::egress::link_types),
];

/// Of WASI 0.3, what toolcell has.
pub(super) const WASI_0_3_HINT: &str =
    "; of WASI 0.3, toolcell has cli, clocks, filesystem, random, sockets and http/client";

pub(super) fn is_of_wasi_0_3(import: &str) -> bool {
    import.starts_with("wasi:") && import.contains("@0.3.")
}

pub(super) fn has(import: &str) -> bool {
    let name = import.split('@').next();
    let is_meant = |(interface, _): &LinkedInterface| Some(*interface) == name;
    if is_of_wasi_0_3(import) {
        return WASI_0_3.iter().chain(&TOOL_0_3).any(is_meant);
    }
    let foreign = FOR_TOOLS.iter().chain(&NEAR);
    let mut known = WASI.iter().chain([&LOG]).chain(&TOOL).chain(foreign);
    known.any(is_meant)
}

pub(super) fn for_tool(
    engine: &wasmtime::Engine,
    imports: &[String],
) -> wasmtime::Result<Linker<StoreState>> {
    let own = TOOL.iter().chain(&FOR_TOOLS);
    let mut linker = linker(engine, imports, WASI.iter().chain([&LOG]).chain(own))?;
    add(&mut linker, imports, WASI_0_3.iter().chain(&TOOL_0_3), true)?;
    Ok(linker)
}

pub(super) fn for_hook(
    engine: &wasmtime::Engine,
    imports: &[String],
) -> wasmtime::Result<Linker<StoreState>> {
    linker(engine, imports, WASI.iter().chain([&LOG]))
}

/// WASI alone.
pub(super) fn for_judge(
    engine: &wasmtime::Engine,
    imports: &[String],
) -> wasmtime::Result<Linker<StoreState>> {
    linker(engine, imports, WASI.iter())
}

/// Adds the `interfaces` that are imported, but for WASI 0.3. The engine checks versions when it links, and refuses an
/// import that is missing.
pub(super) fn linker<'a>(
    engine: &wasmtime::Engine,
    imports: &[String],
    interfaces: impl Iterator<Item = &'a LinkedInterface>,
) -> wasmtime::Result<Linker<StoreState>> {
    let mut linker = Linker::new(engine);
    add(&mut linker, imports, interfaces, false)?;
    Ok(linker)
}

fn add<'a>(
    linker: &mut Linker<StoreState>,
    imports: &[String],
    interfaces: impl Iterator<Item = &'a LinkedInterface>,
    is_0_3: bool,
) -> wasmtime::Result<()> {
    let imported = |name: &str| {
        let mut named = imports
            .iter()
            .filter(|import| import.split('@').next() == Some(name));
        named.any(|import| is_of_wasi_0_3(import) == is_0_3)
    };
    for (name, add) in interfaces {
        if imported(name) {
            add(linker)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use wasmtime::component::Component;

    use super::*;
    use crate::engine::EngineKind;
    use crate::world::{ForeignWorld, WorldKind};

    const COMMAND_WORLD: [(&str, &str); 27] = [
        ("wasi:io/error", "resource error"),
        ("wasi:io/poll", "resource pollable"),
        ("wasi:io/streams", "resource input-stream"),
        ("wasi:cli/environment", "get-environment"),
        ("wasi:cli/exit", "exit"),
        ("wasi:cli/stdin", "get-stdin"),
        ("wasi:cli/stdout", "get-stdout"),
        ("wasi:cli/stderr", "get-stderr"),
        ("wasi:cli/terminal-input", "resource terminal-input"),
        ("wasi:cli/terminal-output", "resource terminal-output"),
        ("wasi:cli/terminal-stdin", "get-terminal-stdin"),
        ("wasi:cli/terminal-stdout", "get-terminal-stdout"),
        ("wasi:cli/terminal-stderr", "get-terminal-stderr"),
        ("wasi:clocks/wall-clock", "now"),
        ("wasi:clocks/monotonic-clock", "now"),
        ("wasi:random/random", "get-random-u64"),
        ("wasi:random/insecure", "get-insecure-random-u64"),
        ("wasi:random/insecure-seed", "insecure-seed"),
        ("wasi:filesystem/types", "resource descriptor"),
        ("wasi:filesystem/preopens", "get-directories"),
        ("wasi:sockets/network", "resource network"),
        ("wasi:sockets/instance-network", "instance-network"),
        (
            "wasi:sockets/ip-name-lookup",
            "resource resolve-address-stream",
        ),
        ("wasi:sockets/tcp", "resource tcp-socket"),
        ("wasi:sockets/tcp-create-socket", "create-tcp-socket"),
        ("wasi:sockets/udp", "resource udp-socket"),
        ("wasi:sockets/udp-create-socket", "create-udp-socket"),
    ];
    const BEYOND: [(&str, &str); 10] = [
        ("toolcell:tool/log", "log"),
        ("toolcell:tool/progress", "report"),
        ("toolcell:tool/cancellation", "requested"),
        ("toolcell:tool/cancellation-signal", "subscribe"),
        ("toolcell:tool/interaction", "ask"),
        ("toolcell:tool/artifacts", "resource artifact"),
        ("toolcell:tool/context-modifiers", "modify"),
        ("toolcell:tool/tools", "call"),
        ("wasi:http/outgoing-handler", "handle"),
        ("wasi:http/types", "resource fields"),
    ];

    fn for_near(
        engine: &wasmtime::Engine,
        imports: &[String],
    ) -> wasmtime::Result<Linker<StoreState>> {
        WorldKind::Foreign(ForeignWorld::Near).linker(engine, imports)
    }

    type Link = fn(&wasmtime::Engine, &[String]) -> wasmtime::Result<Linker<StoreState>>;

    /// Imports a function with a wrong type, because that error differs from the one for a missing function.
    fn found(link: Link, interface: &str, item: &str) -> bool {
        let engine = wasmtime::Engine::new(&crate::engine::config(EngineKind::Pooled)).unwrap();
        let version = match interface.split(':').next() {
            Some("wasi") => "0.2.6",
            Some("near") => "0.4.1",
            _ => "0.2.0",
        };
        let import = format!("{interface}@{version}");
        let (item, kind) = match item.strip_prefix("resource ") {
            Some(item) => (item, "(type (sub resource))"),
            None => (item, "(func (param \"not-there\" string))"),
        };
        let text =
            format!(r#"(component (import "{import}" (instance (export "{item}" {kind}))))"#);
        let component = Component::new(&engine, wat::parse_str(text).unwrap()).unwrap();
        let linker = link(&engine, &[import]).unwrap();
        linker.instantiate_pre(&component).map_or_else(
            |error| !format!("{error:#}").contains("implementation is missing"),
            |_| true,
        )
    }

    #[test]
    fn all_of_the_command_world_is_there_for_those_who_import_it() {
        for (interface, item) in COMMAND_WORLD {
            assert!(found(for_tool, interface, item), "{interface}, for a tool");
            assert!(found(for_hook, interface, item), "{interface}, for a hook");
            assert!(
                found(for_judge, interface, item),
                "{interface}, for a judge"
            );
        }
        assert!(!found(for_tool, "wasi:cli/run", "run"));
    }

    #[test]
    fn a_hook_gets_no_more_than_a_log_beyond_it_and_a_judge_nothing() {
        for (interface, item) in BEYOND {
            assert!(found(for_tool, interface, item), "{interface}, for a tool");
            assert_eq!(
                found(for_hook, interface, item),
                interface == "toolcell:tool/log",
                "{interface}, for a hook"
            );
            assert!(
                !found(for_judge, interface, item),
                "{interface}, for a judge"
            );
            assert!(
                !found(for_near, interface, item),
                "{interface}, for a tool of IronClaw"
            );
        }
    }

    #[test]
    fn a_stop_can_be_noticed_without_the_resource_that_waits_for_it() {
        assert!(!found(for_tool, "toolcell:tool/cancellation", "subscribe"));
        assert!(!found(
            for_tool,
            "toolcell:tool/cancellation-signal",
            "requested"
        ));
    }

    #[test]
    fn the_interface_of_another_world_is_there_in_that_world_alone() {
        for item in [
            "log",
            "now-millis",
            "workspace-read",
            "http-request",
            "tool-invoke",
            "secret-exists",
        ] {
            assert!(found(for_near, "near:agent/host", item), "{item}");
            for link in [for_tool, for_hook, for_judge] {
                assert!(!found(link, "near:agent/host", item), "{item}");
            }
        }
        assert!(found(
            for_near,
            "wasi:filesystem/types",
            "resource descriptor"
        ));
    }
}
