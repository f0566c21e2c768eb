# The development commands.
default:
    @just --list

# Everything that CI checks
ci:
    .ci/run

# Format, and lint with warnings as errors
lint:
    cargo fmt --all
    cargo fmt --all --manifest-path example-tools/Cargo.toml
    cargo fmt --all --manifest-path tests/guests/Cargo.toml
    cargo clippy --workspace --all-targets -- -D warnings

# The tests of the product, and of the example tools on this machine
test *ARGS:
    cargo test {{ARGS}}
    cargo test --manifest-path example-tools/Cargo.toml

# What a call costs, beside bare wasmtime in the same run
bench:
    cargo bench -p hotcell --bench call
    cargo bench -p hotcell --bench cli
