"""The server that the crate `wstd` has as an example, built as it is: each of its requests ends in one result."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from program import TOOLCELL

CRATE = "wstd"
VERSION = "0.6.8"
TARGET = "wasm32-wasip2"


def built(folder: Path) -> Path:
    """The component. Cargo fetches the crate as a dependency, and builds the example in its folder."""
    (folder / "src").mkdir()
    (folder / "src/lib.rs").write_text("")
    (folder / "Cargo.toml").write_text(
        f'[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2024"\n[dependencies]\n{CRATE} = "={VERSION}"\n[workspace]\n'
    )
    described = subprocess.check_output(["cargo", "metadata", "--format-version=1"], cwd=folder, text=True)
    (crate,) = [package for package in json.loads(described)["packages"] if package["name"] == CRATE]
    copy = folder / CRATE
    subprocess.check_call(["cp", "-r", Path(crate["manifest_path"]).parent, copy])
    (copy / "rust-toolchain.toml").unlink(missing_ok=True)
    build = ["cargo", "build", "--release", "--quiet", f"--target={TARGET}", "--example=http_server"]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(folder / "target")}
    subprocess.check_call(build, cwd=copy, env=environment)
    return folder / f"target/{TARGET}/release/examples/http_server.wasm"


def ask(component: Path, request: dict) -> dict:
    command = [TOOLCELL, "call", str(component), json.dumps(request), "--json", "--no-config", "--timeout=20s"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, timeout=120).stdout)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        component = built(Path(folder))
        described = subprocess.check_output([TOOLCELL, "describe", str(component)], text=True)
        assert "http.http_server" in described, described

        def body(request: dict) -> object:
            return ask(component, request)["structured_content"]["body"]

        assert body({}) == "Hello, wasi:http/proxy world!\n"
        assert body({"method": "POST", "path": "/echo", "body": {"n": 1}}) == '{"n":1}'
        assert "slept for" in body({"path": "/wait-response"})
        assert "slept for" in body({"path": "/wait-body"})
        assert body({"path": "/stream-body"}).count("stream started") == 5
        assert body({"path": "/echo-trailers"}) == ""
        headers = ask(component, {"path": "/echo-headers", "headers": {"x-a": "1"}})["structured_content"]["headers"]
        assert headers["x-a"] == "1", headers
        for path, headers, code in [
            ("/none", {}, "http_404"),
            ("/response-status", {"x-response-status": "503"}, "http_503"),
        ]:
            error = ask(component, {"path": path, "headers": headers})["error"]
            assert error["error_code"] == code, error
        for path in ["/response-fail", "/response-body-fail"]:
            answer = ask(component, {"path": path})
            assert answer["status"] != "success" and answer["error"]["error_code"], answer
        print(f"{CRATE}'s example: 11 requests, each with one result")


if __name__ == "__main__":
    sys.exit(main())
