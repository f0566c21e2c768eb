# Sourced by the scripts that need other people's MCP programs. Sets TOOLCELL, CACHE, and after `node_tools` NODE and
# NODE_MODULES. Everything that is downloaded lands in the user's cache.

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/toolcell-mcp-tools
# Outside of the checkout, as for any other use of toolcell.
export TOOLCELL_HOME=${TOOLCELL_HOME:-$CACHE/home}

# The program under test: TOOLCELL, or what `cargo build` makes.
built_toolcell() {
  if [ -z "${TOOLCELL:-}" ]; then
    cargo build --locked --quiet -p toolcell-cli
    TOOLCELL=${CARGO_TARGET_DIR:-target}/debug/toolcell
  fi
  TOOLCELL=$(realpath "$TOOLCELL")
}

# Node 22 and the packages of the file $1, package.json beside this one without it: the suite does not run on an older Node, and few
# systems have that one.
node_tools() {
  local wanted=${1:-tests/conformance/package.json} place
  place=$CACHE/node-$(sha256sum "$wanted" | cut -c1-12)
  NODE_MODULES=$place/node_modules
  NODE=$NODE_MODULES/node/bin/node
  if [ ! -e "$place/complete" ]; then
    mkdir -p "$place"
    cp "$wanted" "$place/"
    npm install --prefix "$place" --no-audit --no-fund --loglevel=error >&2
    "$NODE" -e 'if (parseInt(process.versions.node) < 22) process.exit(1)'
    touch "$place/complete"
  fi
}

# Python with the packages of the file $1; sets PYTHON.
python_tools() {
  local place
  place=$CACHE/python-$(sha256sum "$1" | cut -c1-12)
  PYTHON=$place/bin/python
  if [ ! -e "$place/complete" ]; then
    python3 -m venv --clear "$place"
    "$PYTHON" -m pip install --quiet --disable-pip-version-check -r "$1" >&2
    touch "$place/complete"
  fi
}

# The wheels that toolcell itself installs from, with an index of this machine; sets WHEELS. Needs PYTHON.
wheels() {
  local list=tests/foreign/packages.txt
  WHEELS=$CACHE/wheels-$(sha256sum $list | cut -c1-12)
  if [ ! -e "$WHEELS/complete" ]; then
    "$PYTHON" -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes -r $list -d "$WHEELS" >&2
    touch "$WHEELS/complete"
  fi
}
