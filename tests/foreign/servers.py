"""Programs that crates have as examples, built as they are: the server of `wstd`, and a server and a command of WASI 0.3 of `wasip3`."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from program import TOOLCELL

WSTD = ("wstd", "0.6.8")
WASIP3 = ("wasip3", "0.10.0")
TARGET = "wasm32-wasip2"


def built(crate: tuple[str, str], example: str, folder: Path) -> Path:
    """The component. Cargo fetches the crate as a dependency, and builds the example in its folder."""
    name, version = crate
    fetch, copy = folder / f"fetch-{name}", folder / name
    if not copy.exists():
        (fetch / "src").mkdir(parents=True)
        (fetch / "src/lib.rs").write_text("")
        package = '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2024"'
        (fetch / "Cargo.toml").write_text(f'{package}\n[dependencies]\n{name} = "={version}"\n[workspace]\n')
        described = subprocess.check_output(["cargo", "metadata", "--format-version=1"], cwd=fetch, text=True)
        (found,) = [package for package in json.loads(described)["packages"] if package["name"] == name]
        subprocess.check_call(["cp", "-r", Path(found["manifest_path"]).parent, copy])
        (copy / "rust-toolchain.toml").unlink(missing_ok=True)
    build = ["cargo", "build", "--release", "--quiet", f"--target={TARGET}", f"--example={example}"]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(folder / "target")}
    subprocess.check_call(build, cwd=copy, env=environment)
    examples = folder / f"target/{TARGET}/release/examples"
    (component,) = [file for file in examples.glob("*.wasm") if file.stem in (example, example.replace("-", "_"))]
    return component


def ask(component: Path, request: dict) -> dict:
    command = [TOOLCELL, "call", str(component), json.dumps(request), "--json", "--no-config", "--timeout=20s"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, timeout=120).stdout)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        component = built(WSTD, "http_server", Path(folder))
        described = subprocess.check_output([TOOLCELL, "describe", str(component)], text=True)
        assert "http.http_server" in described, described

        def body(request: dict) -> object:
            return ask(component, request)["structured_content"]["body"]

        assert body({}) == "Hello, wasi:http/proxy world!\n"
        assert body({"method": "POST", "path": "/echo", "body": {"n": 1}}) == '{"n": 1}'
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
        command = built(WASIP3, "cli-command", Path(folder))
        assert ask(command, {})["structured_content"]["stdout"] == "Hello, WASI!"
        service = built(WASIP3, "http-proxy", Path(folder))
        assert ask(service, {})["structured_content"]["body"] == "Hello, WASI!"
        print("examples of wstd and wasip3: 13 calls, each with one result")


if __name__ == "__main__":
    sys.exit(main())
