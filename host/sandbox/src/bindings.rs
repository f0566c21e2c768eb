//! Host bindings of the contract in `wit/`, generated at build time.

pub(super) mod tool {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "tool",
        imports: { default: async | trappable },
        exports: { default: async },
        with: {
            "toolcell:tool/artifacts.artifact": crate::import::artifacts::GuestArtifact,
        },
    });
}

pub(super) mod validating {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "validating",
        exports: { default: async },
        with: { "toolcell:tool/types": super::tool::toolcell::tool::types },
    });
}

pub(super) mod classifying {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "classifying",
        exports: { default: async },
        with: { "toolcell:tool/types": super::tool::toolcell::tool::types },
    });
}

pub(super) mod waiting {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "waiting",
        imports: { default: async | trappable },
        with: { "wasi:io": wasmtime_wasi::p2::bindings::io },
    });
}

pub(super) mod configuring {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "configuring",
        exports: { default: async },
        with: { "toolcell:tool/types": super::tool::toolcell::tool::types },
    });
}

pub(super) mod calling {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "calling",
        imports: { default: async | trappable },
        with: { "toolcell:tool/types": super::tool::toolcell::tool::types },
    });
}

pub(super) mod hook {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "hook",
        exports: { default: async },
        with: {
            "toolcell:tool/types": super::tool::toolcell::tool::types,
            "toolcell:tool/log": super::tool::toolcell::tool::log,
        },
    });
}

pub(super) mod judge {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "judge",
        exports: { default: async },
        with: { "toolcell:tool/types": super::tool::toolcell::tool::types },
    });
}

#[cfg(feature = "foreign-worlds")]
pub(super) mod amplifier {
    wasmtime::component::bindgen!({
        path: "wit-foreign/amplifier",
        world: "tool-module",
        exports: { default: async },
    });
}

/// Their functions are exported at the root.
#[cfg(feature = "foreign-worlds")]
pub(super) mod amplifier_root {
    wasmtime::component::bindgen!({
        path: "wit-foreign/amplifier",
        world: "tool-functions",
        exports: { default: async },
    });
}

/// Tools of IronClaw.
#[cfg(feature = "foreign-worlds")]
pub(super) mod near {
    wasmtime::component::bindgen!({
        path: "wit-foreign/near",
        world: "sandboxed-tool",
        imports: { default: async | trappable },
        exports: { default: async },
    });
}
