# What `.ci/run` and `.ci/nightly` share: the settings of builds, and the programs that checks need. Both source it from the
# root of the checkout.

export CARGO_BUILD_JOBS=${CARGO_BUILD_JOBS:-2}
export CARGO_INCREMENTAL=0
# Guests are built from the system's packages: toolcell sets up what is missing by itself.
export TOOLCELL_GUEST_TOOLCHAIN=packages
# Outside of the checkout: no grant may reach toolcell's own state, and the README grants the checkout.
export TOOLCELL_HOME=${TOOLCELL_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/toolcell-ci}

began=$SECONDS
step() {
  printf '   (%s s)\n\n== %s\n' $((SECONDS - began)) "$*"
  began=$SECONDS
}

if ! command -v c++ >/dev/null; then
  step "compilers for C, and for C++, which only fuzzing needs"
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc g++ libc6-dev
fi
if ! [ -x /usr/bin/docker-registry ]; then
  step "a registry, which only tests start"
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker-registry
fi
if ! command -v npm >/dev/null || ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
  step "npm and Python"
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends npm python3-venv
fi
if ! command -v minisign >/dev/null; then
  step "minisign, whose signatures are compared with toolcell's"
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends minisign
fi

# Clippy builds the workspace instead of checking it, and the tests run what it built, so that all is compiled once. As an
# option, because tools that tests build would inherit a variable.
export CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
clippy="build.rustc-workspace-wrapper='$(rustc --print sysroot)/bin/clippy-driver'"
