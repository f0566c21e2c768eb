"""Lints and renders the chart, verifies the unit, and lets `toolcell serve --check` judge the options of all files."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import helm_python as helm
import kubernetes_validate
import yaml

HERE = Path(__file__).resolve().parent
TOOLCELL = os.environ["TOOLCELL"]
KUBERNETES = "1.34"
TOKEN = "a-token-of-somebody-{}"
DEFAULT: dict = {}
FULL = {
    "tokens": {"secret": "a", "approverSecret": "b", "metricsSecret": "c"},
    "hosts": ["tools.example"],
    "publicUrl": "https://example.com/tools",
    "imagePullSecrets": [{"name": "registry"}],
    "persistence": {"enabled": False},
    "networkPolicy": {
        "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}],
        "metricsFrom": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
        "egress": [{"to": [{"ipBlock": {"cidr": "203.0.113.0/24"}}], "ports": [{"port": 443}]}],
    },
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "tools", "operator": "Exists"}],
    "podAnnotations": {"example.com/team": "tools"},
}
CLUSTER = {"cluster": {"enabled": True, "servers": ["tls://nats.example:4222"], "gateway": "U" + "A" * 55, "ca": True}}
WRONG = ({"drain": {"time": 0}}, {"tokens": {"secret": ""}}, {"publicUrl": "example.com"}, {"unknown": 1},
         {"cluster": {"enabled": True}}, {"cluster": {"servers": ["http://nats.example"]}})


def here(arguments: list[str], work: Path, text: str = "") -> list[str]:
    """These options with files of this machine in place of the deployment's, and with the configuration `text`."""
    config = work / "toolcell.toml"
    config.write_text(text)
    given = []
    for argument in arguments:
        name, _, value = argument.partition("=")
        if name == "--config":
            argument = f"{name}={config}"
        elif name.endswith("-file"):
            file = work / name.strip("-")
            file.write_text(f"{name.strip('-')} {TOKEN.format(name.strip('-'))}\n")
            file.chmod(0o400)
            argument = f"{name}={file}"
        elif name.endswith("listen"):
            argument = f"{name}={value.rsplit(':', 1)[0]}:0"
        elif name == "--toolbox":
            continue
        given.append(argument)
    return [TOOLCELL, *given, "example-tools/jq"]


def takes(arguments: list[str], work: Path) -> None:
    """Checks a start with these options."""
    command = [*here(arguments, work), "--check", "--json"]
    done = subprocess.run(command, text=True, capture_output=True)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}{done.stderr}"
    states = {check["subject"]: check["state"] for check in json.loads(done.stdout)["checks"]}
    assert states["tokens"] == states["tools"] == "ready", states


def joins(arguments: list[str], text: str, work: Path) -> None:
    """Checks that a start with these options and this configuration comes to its NATS servers, none of which answers."""
    home = work / "home"
    subprocess.run([TOOLCELL, "cluster", "key"], env={**os.environ, "TOOLCELL_HOME": str(home)}, check=True, capture_output=True)
    text = re.sub(r"(nats|tls)://[^\"]+", "nats://127.0.0.1:9", text)
    text = re.sub(r'"/run/secrets/[^"]+"', f'"{home}/keys/cluster"', text)
    command = here([argument.replace("${GATEWAY_KEY:?}", "U" + "A" * 55) for argument in arguments], work, text)
    done = subprocess.run(command, text=True, capture_output=True)
    assert "[cluster_unavailable]" in done.stderr, f"{shlex.join(command)}\n{text}\n{done.stderr}"


def seconds(arguments: list[str], name: str) -> int:
    values = [argument.split("=")[1] for argument in arguments if argument.startswith(f"{name}=")]
    return sum(int(value.removesuffix("s")) for value in values)


def chart(work: Path) -> None:
    findings = helm.lint(str(HERE / "chart"))
    assert not findings["messages"] and not findings["errors"], findings
    with helm.Chart.load(str(HERE / "chart")) as loaded:
        for values in (DEFAULT, FULL, CLUSTER):
            rendered = loaded.render(values, name="demo", namespace="prod")
            documents = [document for text in rendered.values() for document in yaml.safe_load_all(text) if document]
            for document in documents:
                kubernetes_validate.validate(document, KUBERNETES, strict=True)
            kinds = {document["kind"]: document["spec"] for document in documents if "spec" in document}
            workers = {"Deployment"} if values is CLUSTER else set()
            assert kinds.keys() == {"StatefulSet", "Service", "NetworkPolicy"} | workers, kinds.keys()
            for kind in {"StatefulSet"} | workers:
                pod = kinds[kind]["template"]["spec"]
                (container,) = pod["containers"]
                assert pod["securityContext"]["runAsNonRoot"] and container["securityContext"]["readOnlyRootFilesystem"]
                drain = seconds(container["args"], "--drain") + seconds(container["args"], "--drain-delay")
                assert pod["terminationGracePeriodSeconds"] > max(drain, 60), "calls would be killed"
                mounted = {mount["name"] for mount in container["volumeMounts"]}
                volumes = {volume["name"] for volume in pod["volumes"]}
                claims = {claim["metadata"]["name"] for claim in kinds[kind].get("volumeClaimTemplates", [])}
                assert mounted == volumes | claims, (mounted, volumes, claims)
                if workers:
                    (text,) = (document["data"]["toolcell.toml"] for document in documents if document["kind"] == "ConfigMap")
                    joins(container["args"], text, work)
                else:
                    takes(container["args"], work)
            selected = kinds["Service"]["selector"].items()
            chosen = {kind for kind in {"StatefulSet"} | workers if selected <= kinds[kind]["template"]["metadata"]["labels"].items()}
            assert chosen == {"StatefulSet"}, f"requests go to {chosen}"
        for values in WRONG:
            try:
                loaded.validate_schema(values)
            except helm.HelmError:
                continue
            raise AssertionError(f"the chart takes {values}")


def compose(work: Path) -> None:
    service = yaml.safe_load((HERE / "compose.yaml").read_text())["services"]["toolcell"]
    assert int(service["stop_grace_period"].removesuffix("s")) > seconds(service["command"], "--drain")
    takes(service["command"], work)
    text = (HERE / "compose.cluster.yaml").read_text()
    section = "\n".join(re.findall(r"^#   (.*)$", text, re.MULTILINE))
    services = yaml.safe_load(text)["services"]
    assert services.keys() == {"nats1", "nats2", "nats3", "gateway", "worker1", "worker2"}, services.keys()
    for name in ("gateway", "worker1", "worker2"):
        grace = int(services[name]["stop_grace_period"].removesuffix("s"))
        assert grace > max(seconds(services[name]["command"], "--drain"), 60)
        joins(services[name]["command"], section, work)


def unit(work: Path) -> None:
    text = (HERE / "toolcell.service").read_text()
    start = re.search(r"^ExecStart=((?:.*\\\n)*.*)$", text, re.MULTILINE)
    assert start is not None
    words = shlex.split(start.group(1).replace("\\\n", " "))
    stop = re.search(r"^TimeoutStopSec=(\d+)s$", text, re.MULTILINE)
    assert stop is not None and int(stop.group(1)) > seconds(words, "--drain")
    takes(words[1:], work)
    if (program := shutil.which("systemd-analyze")) is None:
        print("systemd-analyze is not installed: the unit is not verified")
        return
    file = work / "toolcell.service"
    file.write_text(text.replace("/usr/bin/toolcell", TOOLCELL))
    done = subprocess.run([program, "verify", "--man=no", file], text=True, capture_output=True)
    assert done.returncode == 0 and not done.stderr.strip(), done.stderr


def main() -> None:
    for check in (chart, compose, unit):
        with tempfile.TemporaryDirectory() as work:
            check(Path(work))
    print(f"the chart (Helm {helm.helm_sdk_version()}, Kubernetes {KUBERNETES}), the compose files and the unit are valid")


main()
