"""Requests through the host, which decides on each. There are no sockets and no TLS in the sandbox."""

import dataclasses
import json
import typing
import urllib.parse

from . import _host
from ._errors import ToolError


@dataclasses.dataclass
class Response:
    """What a server answered. Names of headers are in lower case."""

    status: int
    headers: dict
    body: bytes

    @property
    def text(self):
        return self.body.decode("utf-8", "replace")

    def json(self) -> typing.Any:
        return json.loads(self.body)

    def raise_for_status(self):
        """Raises a `ToolError` unless the status is below 400."""
        if self.status >= 400:
            kind = "rate_limited" if self.status == 429 else "execution_failed"
            raise ToolError(f"the server answered {self.status}", code=f"http_{self.status}", kind=kind)
        return self


#: The errors of wasi:http by class, code and message; all others are a broken response.
_UNSENT = {
    ("execution_failed", "not_allowed", "is not allowed to this call"): ("DestinationIpProhibited", "HttpRequestDenied"),
    ("rate_limited", "limit", "met a limit on requests"): (
        "ConnectionLimitReached", "HttpRequestBodySize", "HttpResponseHeaderSectionSize", "HttpResponseBodySize",
    ),
    ("timeout", "server_timeout", "got no answer in time"): (
        "DnsTimeout", "ConnectionTimeout", "ConnectionReadTimeout", "ConnectionWriteTimeout", "HttpResponseTimeout",
    ),
    ("dependency_unavailable", "unreachable", "did not reach its server"): (
        "DnsError", "DestinationNotFound", "DestinationUnavailable", "ConnectionRefused", "ConnectionTerminated",
        "TlsProtocolError", "TlsCertificateError",
    ),
}


def unsent(place, name, more=""):
    """Returns the `ToolError` of a request that has no response; `name` is that of an error of wasi:http."""
    broken = ("dependency_unavailable", "broken_response", "got a malformed or incomplete response")
    kind, code, words = next((key for key, names in _UNSENT.items() if name in names), broken)
    return ToolError(f"the request to {place} {words}: {name}{more}", code=code, kind=kind)


def fetch(url, *, method="GET", headers=None, body=None) -> Response:
    """Sends a request, through the host. `body` is bytes, a `str`, or a value that becomes JSON."""
    headers = {name.lower(): value for name, value in (headers or {}).items()}
    if body is not None and not isinstance(body, (bytes, str)):
        body = json.dumps(body)
        headers.setdefault("content-type", "application/json")
    data = body.encode() if isinstance(body, str) else body
    if data is not None:
        headers["content-length"] = str(len(data))
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ToolError(f"{url} is not an URL of http or https", code="url", kind="invalid_arguments")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    status, found, content = _host.current().send(method, parts.scheme, parts.netloc, target, headers, data)
    return Response(status, found, content)
