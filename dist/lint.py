"""Unpacks the manifest of an MCP bundle, and validates a server.json: lint.py BUNDLE SERVER_JSON MANIFEST_TO_WRITE."""

import hashlib
import importlib.resources
import json
import sys
import zipfile
from pathlib import Path

import jsonschema

SCHEMA = "schemas/mcp_registry/v2025_12_11/server.schema.json"
"""Where the package skillsaw has the registry's schema of that date."""


def main() -> None:
    bundle, server, manifest = map(Path, sys.argv[1:])
    with zipfile.ZipFile(bundle) as packed:
        damaged = packed.testzip()
        assert damaged is None, f"{damaged} is damaged"
        entry = packed.getinfo("server/toolcell")
        assert (entry.external_attr >> 16) & 0o111, "the program is not executable"
        manifest.write_bytes(packed.read("manifest.json"))
    schema = json.loads(importlib.resources.files("skillsaw").joinpath(SCHEMA).read_text())
    document = json.loads(server.read_text())
    assert schema["$id"] == document["$schema"], (schema["$id"], document["$schema"])
    jsonschema.validate(document, schema, format_checker=jsonschema.FormatChecker())
    (package,) = document["packages"]
    assert package["fileSha256"] == hashlib.sha256(bundle.read_bytes()).hexdigest()


main()
