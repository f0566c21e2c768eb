"""The OCI image: the program, its tool, and nothing else but the libraries that the program is linked with."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from pathlib import Path

from .files import File, Tree, below, gzipped, moment, tar
from .program import Program, Refused

USER = 65532
HOME = "var/lib/toolcell"
FOLDERS = {"tmp": (0o1777, 0), HOME: (0o700, USER), "work": (0o755, USER)}


def libraries(path: Path, program: Program) -> Tree:
    """The loader and the libraries of this machine that the program at `path` needs; none if it is static."""
    if program.interpreter is None:
        return {}
    told = subprocess.check_output(["ldd", path], text=True)
    found = dict(re.findall(r"(\S+) => (/\S+)", told))
    missing = [name for name in program.libraries if name not in found and not program.interpreter.endswith(name)]
    if missing:
        raise Refused(f"this machine lacks {', '.join(missing)}")
    # At their own places, because that is where this loader looks without a cache.
    places = {program.interpreter, *found.values()}
    return {place.lstrip("/"): File(Path(place).read_bytes(), executable=True) for place in sorted(places)}


def pack(version: str, path: Path, program: Program, installed: Tree, seconds: int, level: int) -> tuple[str, bytes]:
    """Name and content of a tar archive of the image's OCI layout."""
    kept = {name: file for name, file in installed.items() if name.startswith(("bin/", "share/toolcell/"))}
    tree = below("usr", kept) | libraries(path, program)
    users = f"root:x:0:0::/:/nonexistent\ntoolcell:x:{USER}:{USER}::/{HOME}:/nonexistent\n"
    tree["etc/passwd"] = File(users.encode())
    layer = tar(tree, seconds, FOLDERS)
    labels = {
        "org.opencontainers.image.title": "toolcell",
        "org.opencontainers.image.description": "Runs untrusted tools for agents in a WebAssembly sandbox",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.source": "https://github.com/toolcell/toolcell",
    }
    config = {
        "architecture": program.debian,
        "os": "linux",
        "created": moment(seconds),
        "config": {
            "User": f"{USER}:{USER}",
            "Env": ["PATH=/usr/bin", f"HOME=/{HOME}", f"TOOLCELL_HOME=/{HOME}"],
            "Entrypoint": ["/usr/bin/toolcell"],
            "WorkingDir": "/work",
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
    }
    blobs: Tree = {}
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(blobs, "application/vnd.oci.image.config.v1+json", encoded(config)),
        "layers": [blob(blobs, "application/vnd.oci.image.layer.v1.tar+gzip", gzipped(layer, level))],
        "annotations": labels,
    }
    described = blob(blobs, manifest["mediaType"], encoded(manifest))
    described["platform"] = {"architecture": program.debian, "os": "linux"}
    described["annotations"] = {"org.opencontainers.image.ref.name": version}
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [described]}
    blobs["index.json"] = File(encoded(index))
    blobs["oci-layout"] = File(encoded({"imageLayoutVersion": "1.0.0"}))
    return f"toolcell-{version}-{program.triple}-image.tar", tar(blobs, seconds)


def encoded(document: dict) -> bytes:
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def blob(blobs: Tree, media_type: str, content: bytes) -> dict:
    """Adds a blob to the layout, and describes it."""
    name = digest(content)
    blobs[f"blobs/{name.replace(':', '/')}"] = File(content)
    return {"mediaType": media_type, "digest": name, "size": len(content)}
