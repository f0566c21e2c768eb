"""What a tool says while it runs."""

from . import _host
from ._errors import Canceled
from ._output import dumps, text

#: Maximum size of one chunk of an artifact, in bytes.
_CHUNK = 1 << 20


def progress(message=None, percent=None, *, step=None, total_steps=None, bytes_read=None, bytes_written=None, lines=None):
    """Reports progress. `percent` is from 0 to 100."""
    percent = None if percent is None else float(percent)
    _host.current().progress(message, percent, step, total_steps, bytes_read, bytes_written, lines)


def partial_result(*blocks):
    """Hands out blocks that are usable now; a `str` is a block of text. Returns the reference of what was handed out."""
    return _host.current().partial_result(dumps([text(b) if isinstance(b, str) else b for b in blocks]))


def log(level, message, **fields):
    """Writes a log line; `level` is trace, debug, info, warn or error. The module `logging` leads here too."""
    _host.current().log(level, message, dumps(fields) if fields else None)


def canceled():
    """Returns why the call should stop, such as `user_interruption` or `timeout`; `None` while it should go on."""
    return _host.current().cancellation_requested()


def acknowledge():
    """Tells the host that the tool has seen the request to stop, and is cleaning up."""
    _host.current().acknowledge()


def checkpoint():
    """Raises `Canceled` once the call should stop. Call it between the steps of long work."""
    reason = canceled()
    if reason is not None:
        _host.current().acknowledge()
        raise Canceled(f"the call was canceled: {reason.replace('_', ' ')}")


def wait(seconds):
    """Waits, and ends at once if a stop is requested before or meanwhile. Returns why the call should stop, or `None`."""
    _host.current().wait(seconds)
    return canceled()


def modify_context(key, value):
    """Tells the caller a fact that its later steps should know. Counts if the call succeeds."""
    _host.current().modify_context(key, dumps(value))


class Artifact:
    """A file that belongs to the answer. `block` refers to it once it is finished; a file without its block is removed."""

    def __init__(self, handle):
        self._handle = handle
        self.block = None

    def write(self, data):
        data = data.encode() if isinstance(data, str) else bytes(data)
        for start in range(0, len(data), _CHUNK):
            self._handle.write(data[start:start + _CHUNK])
        return len(data)

    def finish(self):
        """Ends the file, and returns its block for the `Output`."""
        if self.block is None:
            self.block = {"type": "artifact_ref", "reference": self._handle.finish()}
        return self.block

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.finish()


def artifact(name, media_type):
    """Begins a file: `with artifact("report.csv", "text/csv") as file: file.write(..)`, then `Output(.., file.block)`."""
    return Artifact(_host.current().create_artifact(name, media_type))
