"""The host: its imports in a component, and a stand-in outside of one.

The build adds to a component only those imports that its sources use.
"""

import sys


class NoHost:
    """Outside a component, and outside of `toolcell.testing.host`: says what the call would need."""

    def __getattr__(self, name):
        raise RuntimeError(f"{name} needs a host: test this with `with toolcell.testing.host():`")


#: What all calls of a tool go to. A component replaces it at its start, a test with `toolcell.testing.host`.
_current = NoHost()


def current():
    return _current


def replace(host):
    """Makes `host` the current one; returns the one before."""
    global _current
    before, _current = _current, host
    return before


IN_COMPONENT = sys.platform == "wasi"
