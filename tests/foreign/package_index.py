"""PyPI's simple index on this machine, with one wheel: PyPI's own files come from addresses that are not public on some machines."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


def serve(wheel: Path) -> str:
    """Starts the index, and returns its URL for `PIP_INDEX_URL`."""
    content = wheel.read_bytes()
    file = {"filename": wheel.name, "url": f"../../{wheel.name}", "hashes": {"sha256": hashlib.sha256(content).hexdigest()}}
    files = json.dumps({"files": [file]}).encode()

    class Index(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = content if self.path == f"/{wheel.name}" else files
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/simple"
