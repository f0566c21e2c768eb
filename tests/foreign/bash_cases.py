"""The cases of bashkit's own specification, as its crate has them: the tool `shell` gives the same output and exit code, but for
those that bash_cases.txt lists, each with its reason."""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

from program import TOOLCELL, toolcell

ROOT = Path(__file__).parents[2]
SHELL = ROOT / "example-tools/shell"
LISTED = Path(__file__).with_suffix(".txt")
#: The others are for features of bashkit that the tool leaves out.
SUBJECTS = ["bash", "awk", "grep", "sed", "jq"]
#: The text of an answer has more than its object, which has this much of a stream.
BYTES_MAX = 16 << 10
AT_ONCE = 200


@dataclass
class Case:
    name: str
    script: str = ""
    output: str = ""
    status: int | None = None
    is_left_out: bool = False


def read(file: Path, subject: str) -> Iterator[Case]:
    """The cases of a file: a name, the script, and what is expected of it, between lines that begin with `### `."""
    case, into, lines = None, None, []
    for line in file.read_text().splitlines():
        if not line.startswith("### "):
            if into == "description" and line.startswith("# "):
                into = "script"
            elif into in ("description", "script"):
                lines.append(line)
                into = "script"
            elif into == "output":
                lines.append(line)
            continue
        word, _, value = line[4:].strip().partition(":")
        if word in ("expect", "end") and case and into != "output":
            case.script, into, lines = "\n".join(lines), "output", []
        if word == "end" and case:
            output = "\n".join(lines)
            case.output = f"{output}\n" if output else ""
            yield case
            case, into = None, None
        elif word == "exit_code" and case:
            case.status = int(value)
        elif word == "skip" and case:
            case.is_left_out = True
        elif word not in ("expect", "bash_diff", "paused_time", "end"):
            case = Case(f"{subject}/{file.name.removesuffix('.test.sh')} {line[4:].strip()}")
            into, lines = "description", []


def cases() -> list[Case]:
    described = subprocess.check_output(
        ["cargo", "metadata", "--locked", "--format-version=1", f"--manifest-path={SHELL}/Cargo.toml"], text=True
    )
    (crate,) = [package for package in json.loads(described)["packages"] if package["name"] == "bashkit"]
    folder = Path(crate["manifest_path"]).parent / "tests/spec_cases"
    found = [case for subject in SUBJECTS for file in sorted((folder / subject).glob("*.test.sh")) for case in read(file, subject)]
    return [case for case in found if not case.is_left_out]


def answers(all_cases: list[Case], component: str) -> Iterator[dict]:
    """The object of each answer, or the error."""
    for begin in range(0, len(all_cases), AT_ONCE):
        part = all_cases[begin : begin + AT_ONCE]
        calls = [{"id": str(at), "tool": f"{component}#shell", "input": {"script": case.script}} for at, case in enumerate(part)]
        with tempfile.NamedTemporaryFile("w", suffix=".ndjson") as file:
            file.write("".join(f"{json.dumps(call)}\n" for call in calls))
            file.flush()
            command = [TOOLCELL, "batch", file.name, "--json", "--no-config", "--timeout=20s"]
            ran = subprocess.run(command, capture_output=True, text=True, timeout=1200)
        results = {answer["id"]: answer for answer in map(json.loads, ran.stdout.splitlines()) if "id" in answer}
        assert len(results) == len(part), (ran.returncode, ran.stderr[:3000], ran.stdout[:1000])
        yield from (results[str(at)] for at in range(len(part)))


def differs(case: Case, answer: dict) -> str | None:
    result = answer.get("result", answer)
    found = result.get("structured_content")
    if found is None:
        return result["error"]["error_code"]
    if found["stdout"] != case.output and len(found["stdout"].encode()) < BYTES_MAX:
        return f"stdout {found['stdout'][:200]!r} for {case.output[:200]!r}"
    if case.status is not None and found["exit_code"] != case.status:
        return f"status {found['exit_code']} for {case.status}"
    return None


def main() -> None:
    listed = {}
    for line in LISTED.read_text().splitlines():
        name, _, reason = line.partition("  # ")
        assert reason, f"{line}: no reason"
        listed[name] = reason
    component = toolcell("build", str(SHELL)).strip().splitlines()[-1]
    found = cases()
    outcomes = {case.name: differs(case, answer) for case, answer in zip(found, answers(found, component))}
    wrong = {name: why for name, why in outcomes.items() if why and name not in listed}
    changed = [name for name in listed if not outcomes.get(name)]
    for name, why in wrong.items():
        print(f"{name}: {why}")
    print(f"bashkit's cases: {len(found)}, of which {len(found) - len(wrong) - len(listed)} are the same, {len(listed)} listed")
    assert not wrong, f"{len(wrong)} differ"
    assert not changed, f"the same, or not there: {changed}"


if __name__ == "__main__":
    sys.exit(main())
