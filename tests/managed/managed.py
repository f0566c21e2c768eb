# Promise: A call with effects starts once.
"""Managed agents, whose work a fake queue gives to workers of toolcell: `managed.py [--sessions N] [CASE..]`."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic

from fake import API_KEY, ENVIRONMENT, KEY, Event, Faults, Queue, Session

TOOLCELL = os.environ["TOOLCELL"]
TOOLS = os.environ["TOOLS"].split()
LEDGER = next(tool for tool in TOOLS if "ledger" in Path(tool).name)
PATIENCE = 120.0
CASES: dict[str, Callable[["World"], None]] = {}


def case(function: Callable[["World"], None]) -> Callable[["World"], None]:
    CASES[function.__name__] = function
    return function


class Worker:
    """A process of `toolcell work --anthropic`."""

    def __init__(self, world: "World", home: Path, *options: str):
        self.world, self.home = world, home
        home.mkdir(parents=True, exist_ok=True)
        self.log = home / f"log-{world.queue.name}-{world.queue.number()}"
        self.options = ["--idle-timeout=1s", f"--base-url={world.queue.url}", f"--allow-write={world.shared}", *options]
        self.start()

    def start(self, key: str | None = KEY) -> None:
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.home), "TOOLCELL_HOME": str(self.home)}
        if key is not None:
            environment["ANTHROPIC_ENVIRONMENT_KEY"] = key
        words = [TOOLCELL, "work", "--anthropic", f"--environment={ENVIRONMENT}", *TOOLS, *self.options]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=self.home)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        self.send(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def text(self) -> str:
        return self.log.read_text(errors="replace")


class World:
    def __init__(self, sessions: int):
        self.sessions = sessions
        self.folder = Path(tempfile.mkdtemp(prefix="managed-"))
        self.shared = self.folder / "shared"
        self.shared.mkdir()
        self.queue = Queue()
        self.workers: list[Worker] = []

    def worker(self, home: str = "home", *options: str) -> Worker:
        worker = Worker(self, HOMES / home, *options)
        self.workers.append(worker)
        return worker

    def wait(self, what: str, is_so: Callable[[], object], patience: float = PATIENCE) -> None:
        end = time.monotonic() + patience
        while not is_so():
            if time.monotonic() > end:
                raise AssertionError(f"no {what} in {patience} s\n{self.logs()}")
            time.sleep(0.05)

    def done(self, *sessions: Session, patience: float = PATIENCE) -> None:
        self.wait("end of the sessions", lambda: all(session.is_done() for session in sessions), patience)

    def logs(self) -> str:
        return "\n".join(f"{worker.log}: {worker.text()[-1500:]}" for worker in self.workers)

    def lines(self, name: str) -> list[str]:
        file = self.shared / name
        return file.read_text().splitlines() if file.exists() else []

    def append(self, file: str, text: str, wait_ms: int = 0, **more: str) -> Event:
        input = {"path": str(self.shared / file), "text": text, "wait_ms": wait_ms}
        return {"type": "agent.custom_tool_use", "name": "append", "input": input, **more}

    def close(self) -> None:
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.send(signal.SIGCONT)
                worker.kill()
        self.queue.server.shutdown()
        for worker in self.workers:
            assert KEY not in worker.text(), "the key is in a log"
        assert not self.queue.wrong, self.queue.wrong


def use(name: str, **input: Any) -> Event:
    return {"name": name, "input": input}


def said(session: Session, at: int = 0) -> tuple[str, bool]:
    """The text of the result of the use number `at`."""
    id = list(session.uses())[at]
    assert id in session.results, f"no result of {id}: {session.results}"
    (result,) = session.results[id]
    return "\n".join(block.get("text", "") for block in result["content"]), result["is_error"]


BUILTINS: list[list[Event]] = [
    [use("write", file_path="src/a.txt", content="one\ntwo\nthree\n")],
    [use("read", file_path="/workspace/src/a.txt"), use("read", file_path="src/a.txt", view_range=[2, 2])],
    [use("edit", file_path="src/a.txt", old_string="two", new_string="2")],
    [use("glob", pattern="**/*.txt"), use("grep", pattern="^t", path="src")],
    [use("read", file_path="none.txt"), use("edit", file_path="src/a.txt", old_string="absent", new_string="x")],
    [use("write", file_path="empty", content=""), use("read", file_path="empty"), use("read", file_path="/etc/passwd"), use("read")],
]


@case
def the_builtin_tools_work_in_one_workspace_of_the_session(world: World) -> None:
    world.worker()
    session = world.queue.add(BUILTINS)
    other = world.queue.add([[use("glob", pattern="**/*")]])
    world.done(session, other)
    texts = [said(session, at) for at in range(len(session.uses()))]
    write, read, line, edit, glob, grep, none, absent, _, empty, outside, bad = texts
    assert not write[1] and read == ("one\ntwo\nthree\n", False), texts
    assert line[0].splitlines()[0] == "two" and not line[1], line
    assert not edit[1] and "src/a.txt" in glob[0] and "three" in grep[0] and "two" not in grep[0], texts
    assert none[1] and absent[1] and outside[1] and bad[1] and "file_path" in bad[0], texts
    # The API refuses an empty text.
    assert empty == ("(no output)", False), empty
    assert "a.txt" not in said(other)[0], "two sessions share files"
    listed = subprocess.run([TOOLCELL, "workspace", "get", session.id, "src/a.txt"], capture_output=True, text=True,
                            env={**os.environ, "TOOLCELL_HOME": str(HOMES / "home")}, check=True)
    assert listed.stdout == "one\n2\nthree\n", listed


@case
def bash_keeps_its_folder_and_its_variables(world: World) -> None:
    if not any("shell" in Path(tool).name for tool in TOOLS):
        print("   left out: no shell among TOOLS")
        return
    world.worker()
    commands = ["mkdir -p sub && cd sub && export A='x y' && B=2 && pwd", 'echo "$A"; pwd; echo hi > file', "false", "exit 7", "echo 'unclosed",
                "pwd", "yes | head -c 300000", "cat ../sub/file; cat nothing"]
    turns = [[use("bash", command=command)] for command in commands]
    turns += [[use("bash", restart=True)], [use("bash", command='pwd; echo "[$A]"')], [use("bash")], [use("bash", command="sleep 60", timeout_ms=1500)]]
    session = world.queue.add(turns)
    world.done(session, patience=600)
    texts = [said(session, at) for at in range(len(turns))]
    assert texts[0] == ("/workspace/sub\n", False), texts[0]
    assert texts[1] == ("x y\n/workspace/sub\n", False), texts[1]
    assert texts[2][1] and texts[3][1] and "7" in texts[3][0] and texts[4][1], texts[2:5]
    assert texts[5] == ("/workspace/sub\n", False), texts[5]
    assert 100_000 < len(texts[6][0]) < 103_000 and not texts[6][1], len(texts[6][0])
    assert texts[7][1] and "hi" in texts[7][0], texts[7]
    assert texts[9] == ("/workspace\n[]\n", False), texts[9]
    assert texts[10][1] and "command" in texts[10][0], texts[10]
    assert texts[11][1] and "time" in texts[11][0].lower(), texts[11]


@case
def what_needs_a_confirmation_waits_for_it(world: World) -> None:
    world.worker()
    world.queue.confirms = False
    asks = [("yes", "ask"), ("no", "ask"), ("never", "deny"), ("unknown", "perhaps"), ("free", "allow")]
    written = {**use("write", file_path="asked", content="a"), "evaluated_permission": "ask"}
    session = world.queue.add([[*(world.append("asked", name, evaluated_permission=word) for name, word in asks), written]])
    yes, no, never, unknown, _, write = session.uses()
    world.wait("the call that nobody has to confirm", lambda: world.lines("asked") == ["free"])
    time.sleep(2)
    assert world.lines("asked") == ["free"]
    # The other way round, and a word for one that the server denied.
    for id, word in [(write, "allow"), (unknown, "deny"), (never, "allow"), (no, "deny"), (yes, "allow")]:
        world.queue.confirm(session, id, word)
    world.done(session)
    assert sorted(world.lines("asked")) == ["free", "yes"], world.lines("asked")
    assert said(session, 5)[1] is False and not session.refused, session.refused


@case
def a_call_of_another_client_is_left_to_it(world: World) -> None:
    worker = world.worker()
    foreign = {"type": "agent.custom_tool_use", "name": "of_the_application", "input": {}}
    session = world.queue.add([[foreign, world.append("own", "a")]])
    world.wait("the own call", lambda: len(session.results) == 1)
    time.sleep(2)
    assert len(session.results) == 1 and worker.process.poll() is None
    world.queue.terminate(session)
    world.wait("end of the work", lambda: all(work.state == "stopped" for work in world.queue.works.values()))


@case
def an_interrupt_ends_the_call_and_those_behind_it(world: World) -> None:
    world.worker()
    wait = {"type": "agent.custom_tool_use", "name": "wait", "input": {"ms": 100_000}}
    session = world.queue.add([[wait, world.append("interrupted", "a")]])
    time.sleep(3)
    world.queue.interrupt(session)
    world.done(session, patience=30)
    assert said(session, 0)[1] and said(session, 1)[1], session.results
    assert world.lines("interrupted") == []


@case
def a_call_whose_worker_died_is_told_and_not_repeated(world: World) -> None:
    first = world.worker()
    session = world.queue.add([[world.append("killed", "a", 2000)], [world.append("killed", "b")]])
    claims = HOMES / "home" / "managed" / ENVIRONMENT / f"{session.id}.claims"
    world.wait("a call", lambda: claims.exists() and "tool_use_id" in claims.read_text())
    first.kill()
    world.worker()
    world.done(session)
    text, is_error = said(session, 0)
    assert is_error and "may have had an effect" in text, text
    assert said(session, 1) == ("b", False)
    assert world.lines("killed").count("a") <= 1 and world.lines("killed").count("b") == 1
    world.wait("the list of begun calls is removed", lambda: not claims.exists())


@case
def a_result_that_was_not_sent_is_sent_by_the_next_worker(world: World) -> None:
    world.queue.faults.refuses_results = True
    first = world.worker()
    session = world.queue.add([[world.append("unsent", "a")]])
    world.wait("the call", lambda: world.queue.counts.get("503"))
    first.kill()
    world.worker()
    world.queue.faults.refuses_results = False
    world.done(session)
    assert said(session) == ("a", False)
    assert world.lines("unsent") == ["a"]


@case
def another_machine_does_not_repeat_what_may_have_begun(world: World) -> None:
    world.queue.keeps_heartbeats = True
    first = world.worker()
    session = world.queue.add([[world.append("machines", "a", 3000)]])
    claims = HOMES / "home" / "managed" / ENVIRONMENT / f"{session.id}.claims"
    world.wait("a call", lambda: claims.exists() and "tool_use_id" in claims.read_text())
    first.kill()
    world.worker("other")
    world.done(session)
    text, is_error = said(session, 0)
    assert is_error and "may have had an effect" in text, text
    assert world.lines("machines").count("a") <= 1


@case
def a_worker_that_ends_finishes_its_call_and_leaves_the_session(world: World) -> None:
    first = world.worker()
    session = world.queue.add([[world.append("drained", "a", 1500)], [world.append("drained", "b")]])
    claims = HOMES / "home" / "managed" / ENVIRONMENT / f"{session.id}.claims"
    world.wait("a call", lambda: claims.exists() and "tool_use_id" in claims.read_text())
    assert first.end() == 0
    assert said(session) == ("a", False)
    world.worker()
    world.done(session)
    assert world.lines("drained") == ["a", "b"]


@case
def a_wrong_key_ends_the_worker_and_is_not_shown(world: World) -> None:
    worker = world.worker()
    worker.kill()
    for key, words in [("sk-wrong-key-of-somebody", "401"), (None, "--environment-key-file"), ("two words", "give the key alone")]:
        worker.start(key)
        assert worker.process.wait(PATIENCE) != 0
        assert words in worker.text(), worker.text()
    assert "sk-wrong" not in worker.text()
    file = world.folder / "key"
    file.write_text(KEY)
    file.chmod(0o644)
    worker.options.append(f"--environment-key-file={file}")
    worker.start(None)
    assert worker.process.wait(PATIENCE) != 0 and "chmod 600" in worker.text(), worker.text()
    file.chmod(0o600)
    worker.options.append(f"--allow-read={world.folder}")
    worker.start(None)
    session = world.queue.add([[use("read", file_path=str(file)), world.append("key", "a")]])
    world.done(session)
    text, is_error = said(session)
    assert is_error and KEY not in text, text
    assert said(session, 1) == ("a", False)


@case
def the_official_client_sees_what_it_expects(world: World) -> None:
    """Its types judge both sides: it makes the session, confirms and reads the events; and its own worker serves the same queue."""
    turns = [[use("write", file_path="a.txt", content="hi\n")], [{**use("read", file_path="a.txt"), "evaluated_permission": "ask"}]]
    world.queue.scripts["agent_1"] = turns
    client = anthropic.Anthropic(api_key=API_KEY, base_url=world.queue.url, _strict_response_validation=True)
    for official in (True, False):
        made = client.beta.sessions.create(agent="agent_1", environment_id=ENVIRONMENT)
        session = world.queue.sessions[made.id]
        if official:
            asyncio.run(official_worker(world, session))
        else:
            world.worker()
        world.done(session)
        assert said(session, 1)[0].strip() == "hi", session.results
        events = list(client.beta.sessions.events.list(made.id))
        results = [event for event in events if event.type == "user.tool_result"]
        assert len(results) == 2 and not any(event.is_error for event in results), events
        world.wait("end of the work", lambda: all(work.state == "stopped" for work in world.queue.works.values()))


async def official_worker(world: World, session: Session) -> None:
    client = anthropic.AsyncAnthropic(api_key=API_KEY, base_url=world.queue.url, _strict_response_validation=True)
    worker = client.beta.environments.work.worker(environment_id=ENVIRONMENT, environment_key=KEY, workdir=str(world.shared), max_idle=0.5)
    task = asyncio.create_task(worker.run())
    end = time.monotonic() + PATIENCE
    while not session.is_done() or any(work.state != "stopped" for work in world.queue.works.values()):
        assert time.monotonic() < end, session.events
        await asyncio.sleep(0.1)
    task.cancel()


@case
def many_sessions_under_faults(world: World) -> None:
    """Kills, expired leases, double delivery, confirmations in any order, lost answers and refusals of the API."""
    queue, rng = world.queue, random.Random(7)
    queue.faults = Faults(rate_limited=0.01, broken=0.01, lost_answers=0.02, cut_streams=0.02, delivered_twice=0.05)
    workers = [world.worker("home", "--places=8") for _ in range(3)]
    sessions = [queue.add(faulty(world, rng, number)) for number in range(world.sessions)]
    over = threading.Event()
    trouble = threading.Thread(target=make_trouble, args=(workers, random.Random(11), over))
    trouble.start()
    try:
        world.done(*sessions, patience=60 + 6 * world.sessions)
    finally:
        over.set()
        trouble.join()
    judge(world, sessions)


def faulty(world: World, rng: random.Random, number: int) -> list[list[Event]]:
    turns: list[list[Event]] = []
    for turn in range(rng.randint(1, 3)):
        uses = []
        for at in range(rng.randint(1, 3)):
            text = f"{number}-{turn}-{at}"
            permission = rng.choice(["allow", "allow", "ask", "deny"]) if rng.random() < 0.5 else "allow"
            confirm = rng.choice(["allow", "allow", "deny"])
            uses.append(world.append(f"session-{number}", text, rng.choice([0, 0, 20, 200]), evaluated_permission=permission, confirm=confirm))
        uses.append(use("write", file_path=f"{turn}.txt", content="text"))
        turns.append(uses)
    return turns


def make_trouble(workers: list[Worker], rng: random.Random, over: threading.Event) -> None:
    while not over.wait(rng.uniform(0.5, 2.0)):
        worker = rng.choice(workers)
        what = rng.random()
        if what < 0.5:
            worker.kill()
        elif what < 0.8:
            # Longer than a lease.
            worker.send(signal.SIGSTOP)
            over.wait(6)
            worker.send(signal.SIGCONT)
            continue
        else:
            worker.end()
        worker.start()
    for worker in workers:
        worker.send(signal.SIGCONT)


def judge(world: World, sessions: list[Session]) -> None:
    counts = {"uses": 0, "results": 0, "denied": 0, "lost": 0}
    for number, session in enumerate(sessions):
        lines = world.lines(f"session-{number}")
        assert len(lines) == len(set(lines)), f"a call ran twice: {lines}"
        assert not session.refused, f"a second result, or one too early: {session.refused}"
        denied = {event["tool_use_id"] for event in session.events if event["type"] == "user.tool_confirmation" and event["result"] == "deny"}
        for id, event in session.uses().items():
            counts["uses"] += 1
            text = event["input"].get("text")
            if event.get("evaluated_permission") == "deny" or id in denied:
                assert id not in session.results and text not in lines, event
                counts["denied"] += 1
                continue
            assert len(session.results.get(id, [])) == 1, f"{len(session.results.get(id, []))} results of {event}"
            counts["results"] += 1
            (result,) = session.results[id]
            if result["is_error"]:
                counts["lost"] += 1
                assert "may have had an effect" in result["content"][0]["text"] or "canceled" in str(result), result
            elif text is not None:
                assert lines.count(text) == 1, f"{text} has a result and {lines.count(text)} lines"
    print(f"   {len(sessions)} sessions, {counts}, {world.queue.counts}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=60)
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    for name in arguments.cases or CASES:
        began = time.monotonic()
        world = World(arguments.sessions)
        try:
            CASES[name](world)
        except BaseException:
            print(world.logs(), file=sys.stderr)
            raise
        finally:
            world.close()
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)


# Compiled components are there for all cases.
HOMES = Path(os.environ.get("HOMES") or tempfile.mkdtemp(prefix="managed-homes-"))

if __name__ == "__main__":
    main()
