"""A work queue and its sessions, as Anthropic's managed agents have them for self-hosted environments (beta managed-agents-2026-04-01).
The official SDK's client drives it too, so that its types judge what it answers. It refuses what the API refuses, counts every result,
and fails on purpose as a network does."""

from __future__ import annotations

import json
import queue
import random
import re
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Event = dict[str, Any]

KEY = "sk-ant-oat01-fake-environment-key"
# Of the application, which makes sessions and confirms.
API_KEY = "sk-ant-api03-fake-api-key"
ENVIRONMENT = "env_fake01"
BETA = "managed-agents-2026-04-01"
# Work that nobody acknowledged comes again.
ACK_SECONDS = 5.0


def now() -> str:
    return datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")


@dataclass
class Faults:
    """Shares of requests."""

    rate_limited: float = 0.0
    broken: float = 0.0
    # A result is taken, and the connection breaks before the answer.
    lost_answers: float = 0.0
    # No result is taken.
    refuses_results: bool = False
    # A stream ends after some events.
    cut_streams: float = 0.0
    # Work is given to a second worker that polls, before and after the first acknowledged it.
    delivered_twice: float = 0.0


@dataclass
class Work:
    id: str
    session: str
    created_at: str = field(default_factory=now)
    state: str = "queued"
    given_at: float | None = None
    acknowledged_at: str | None = None
    heartbeat: str | None = None
    # Of a lease that ran out.
    former_heartbeat: str | None = None
    lease_until: float = 0.0

    def body(self) -> dict[str, Any]:
        return {
            "id": self.id, "type": "work", "environment_id": ENVIRONMENT, "created_at": self.created_at, "metadata": {},
            "data": {"type": "session", "id": self.session}, "state": self.state, "acknowledged_at": self.acknowledged_at,
            "latest_heartbeat_at": self.heartbeat or self.former_heartbeat, "secret": None, "started_at": None, "stop_requested_at": None, "stopped_at": None,
        }


@dataclass
class Session:
    """An agent that asks for the tool uses of its turns, and goes on once all of a turn have results."""

    id: str
    turns: list[list[Event]]
    events: list[Event] = field(default_factory=list)
    status: str = "idle"
    # The results that were taken, by tool use; a refusal of a second one is counted.
    results: dict[str, list[Event]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    open: set[str] = field(default_factory=set)
    readers: list[queue.SimpleQueue[Event]] = field(default_factory=list)

    def uses(self) -> dict[str, Event]:
        kinds = ("agent.tool_use", "agent.custom_tool_use")
        return {event["id"]: event for event in self.events if event["type"] in kinds}

    def is_done(self) -> bool:
        return not self.turns and not self.open


class Refused(Exception):
    def __init__(self, status: int, message: str, kind: str = "invalid_request_error", more: dict[str, Any] | None = None):
        super().__init__(message)
        self.status, self.body = status, {"type": "error", "error": {"type": kind, "message": message, **(more or {})}}


class Server(ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Workers that are killed break their connections."""


class Queue:
    def __init__(self, faults: Faults | None = None, ttl: int = 4, seed: int = 1):
        self.faults, self.ttl, self.random = faults or Faults(), ttl, random.Random(seed)
        self.lock = threading.RLock()
        self.works: dict[str, Work] = {}
        self.sessions: dict[str, Session] = {}
        # The queue shows that an item had a worker.
        self.keeps_heartbeats = False
        # The user answers by itself.
        self.confirms = True
        # The turns of the sessions of an agent.
        self.scripts: dict[str, list[list[Event]]] = {}
        # What requests said that none may say.
        self.wrong: list[str] = []
        self.counts: dict[str, int] = {}
        # Another queue has other ids.
        self.name = f"{random.randrange(1 << 24):06x}"
        self.numbers = 0
        self.server = Server(("127.0.0.1", 0), handler(self))
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def number(self) -> int:
        with self.lock:
            self.numbers += 1
            return self.numbers

    def count(self, what: str) -> None:
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def happens(self, share: float) -> bool:
        with self.lock:
            return self.random.random() < share

    # The agent's side.

    def add(self, turns: list[list[Event]]) -> Session:
        """`turns`: tool uses, without what the API adds; `confirm` of one that asks is what the user says."""
        with self.lock:
            session = Session(f"sesn_{self.name}{self.number():06}", [list(turn) for turn in turns])
            self.sessions[session.id] = session
            self.put(session, {"type": "user.message", "content": [{"type": "text", "text": "go"}]})
            self.go_on(session)
            self.add_work(session)
            return session

    def add_work(self, session: Session) -> Work:
        with self.lock:
            work = Work(f"work_{self.name}{self.number():06}", session.id)
            self.works[work.id] = work
            return work

    def put(self, session: Session, event: Event) -> Event:
        with self.lock:
            event = {"id": f"sevt_{self.name}{self.number():06}", "processed_at": now(), **event}
            session.events.append(event)
            for reader in session.readers:
                reader.put(event)
            return event

    def go_on(self, session: Session) -> None:
        """Begins the next turn once the last one has its results."""
        with self.lock:
            if session.open:
                return
            if not session.turns:
                session.status = "idle"
                self.put(session, {"type": "session.status_idle", "stop_reason": {"type": "end_turn"}})
                return
            session.status = "running"
            self.put(session, {"type": "session.status_running"})
            asked: list[tuple[str, str]] = []
            for use in session.turns.pop(0):
                confirm = use.get("confirm", "allow")
                told = {key: value for key, value in use.items() if key != "confirm"}
                event = self.put(session, {"type": "agent.tool_use", "input": {}, **told})
                session.open.add(event["id"])
                if event.get("evaluated_permission") == "deny":
                    session.open.discard(event["id"])
                if event.get("evaluated_permission") == "ask":
                    asked.append((event["id"], confirm))
            stop = {"type": "requires_action", "event_ids": sorted(session.open)}
            self.put(session, {"type": "session.status_idle", "stop_reason": stop})
            # In any order, and some before the worker has seen the call.
            self.random.shuffle(asked)
            for id, word in asked if self.confirms else []:
                threading.Timer(self.random.choice([0.0, 0.2, 1.0]), self.confirm, (session, id, word)).start()

    def confirm(self, session: Session, id: str, result: str) -> None:
        with self.lock:
            self.put(session, {"type": "user.tool_confirmation", "tool_use_id": id, "result": result})
            if result == "deny":
                session.open.discard(id)
                self.go_on(session)

    def interrupt(self, session: Session) -> None:
        with self.lock:
            self.put(session, {"type": "user.interrupt"})

    def terminate(self, session: Session) -> None:
        with self.lock:
            session.status = "terminated"
            self.put(session, {"type": "session.status_terminated"})

    # The worker's side.

    def poll(self) -> Work | None:
        with self.lock:
            at = time.monotonic()
            for work in self.works.values():
                is_lapsed = work.state in ("starting", "active") and at > work.lease_until
                if is_lapsed:
                    self.count("lapsed")
                    work.state, work.given_at = "queued", None
                    work.former_heartbeat = work.heartbeat if self.keeps_heartbeats else None
                    work.heartbeat = None
                if work.state == "active" and self.happens(self.faults.delivered_twice / 20):
                    self.count("given while active")
                    return work
                if work.state != "queued":
                    continue
                if work.given_at is not None and at - work.given_at < ACK_SECONDS and not self.happens(self.faults.delivered_twice):
                    continue
                if work.given_at is not None:
                    self.count("given again")
                work.given_at = at
                return work
            return None

    def ack(self, work: Work) -> None:
        if work.state in ("stopping", "stopped"):
            raise Refused(409, "the work has stopped")
        if work.acknowledged_at is not None and work.state == "active":
            self.count("acknowledged twice")
            return
        work.state, work.acknowledged_at = "starting", now()
        work.lease_until = time.monotonic() + self.ttl

    def beat(self, work: Work, expected: str | None) -> dict[str, Any]:
        if work.state in ("stopping", "stopped"):
            return self.heart(work, False)
        actual = work.heartbeat if work.heartbeat is not None and time.monotonic() <= work.lease_until else None
        if (expected or "NO_HEARTBEAT") != (actual or "NO_HEARTBEAT") or work.state == "queued":
            self.count("412")
            state = {"state": work.state, "ttl_seconds": self.ttl, "last_heartbeat": work.heartbeat, "lease_extended": False}
            raise Refused(412, "expected_last_heartbeat does not match", more={"details": {"current_state": state}})
        work.heartbeat, work.state = f"{now()}#{self.number()}", "active"
        work.lease_until = time.monotonic() + self.ttl
        return self.heart(work, True)

    def heart(self, work: Work, extended: bool) -> dict[str, Any]:
        return {"type": "work_heartbeat", "last_heartbeat": work.heartbeat or "", "lease_extended": extended, "state": work.state,
                "ttl_seconds": self.ttl}

    def stop(self, work: Work) -> None:
        if work.state == "stopped":
            raise Refused(409, "the work has stopped")
        work.state = "stopped"
        session = self.sessions[work.session]
        # The API gives the session to a worker again when it needs one.
        if not session.is_done() and session.status != "terminated":
            self.count("stopped early")
            self.add_work(session)

    def send(self, session: Session, event: Event) -> Event:
        if event["type"] == "user.tool_confirmation":
            self.confirm(session, event["tool_use_id"], event["result"])
            return session.events[-1] if event["result"] == "allow" else next(
                one for one in reversed(session.events) if one.get("tool_use_id") == event["tool_use_id"])
        return self.result(session, event)

    def result(self, session: Session, event: Event) -> Event:
        kinds = {"user.tool_result": ("agent.tool_use", "tool_use_id"), "user.custom_tool_result": ("agent.custom_tool_use", "custom_tool_use_id")}
        if event.get("type") not in kinds:
            raise Refused(400, f"{event.get('type')} is not for a worker")
        kind, name = kinds[event["type"]]
        use = session.uses().get(event.get(name, ""))
        if use is None or use["type"] != kind:
            raise Refused(400, "there is no such tool use")
        id = use["id"]
        content = event.get("content")
        if not isinstance(content, list) or not content:
            raise Refused(400, "content is empty")
        for block in content:
            if block.get("type") == "text" and not block.get("text", "").strip():
                raise Refused(400, "text content blocks must be non-empty")
        if session.status == "terminated":
            raise Refused(400, "the session has terminated")
        verdict = next((one["result"] for one in session.events if one["type"] == "user.tool_confirmation" and one["tool_use_id"] == id), None)
        permission = use.get("evaluated_permission")
        if id not in session.open or permission == "deny" or verdict == "deny":
            session.refused.append(id)
            raise Refused(400, "the tool use takes no result")
        if permission == "ask" and verdict is None:
            session.refused.append(id)
            raise Refused(400, "the tool use waits for a confirmation")
        sent = self.put(session, {key: event[key] for key in ("type", name, "content", "is_error")})
        session.results.setdefault(id, []).append(sent)
        session.open.discard(id)
        self.go_on(session)
        return sent


def handler(fake: Queue) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            self.handle_one("GET")

        def do_POST(self) -> None:
            self.handle_one("POST")

        def handle_one(self, method: str) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(length) or b"null")
            try:
                self.check()
                answer = self.route(method, urlsplit(self.path), body)
            except Refused as refused:
                fake.count(str(refused.status))
                self.answer(refused.status, refused.body)
            except (BrokenPipeError, ConnectionResetError):
                pass
            else:
                if answer is not Handler:
                    self.answer(200, answer)

        def check(self) -> None:
            if self.headers.get("authorization") not in (f"Bearer {KEY}", f"Bearer {API_KEY}"):
                raise Refused(401, "invalid bearer token", "authentication_error")
            if BETA not in (self.headers.get("anthropic-beta") or "") or not self.headers.get("anthropic-version"):
                fake.wrong.append(f"{self.path}: without the beta or a version")
            if fake.happens(fake.faults.rate_limited):
                raise Refused(429, "too many requests", "rate_limit_error")
            if fake.happens(fake.faults.broken):
                raise Refused(529, "overloaded", "overloaded_error")

        def answer(self, status: int, body: Any) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            if status == 429:
                self.send_header("retry-after", "1")
            self.end_headers()
            self.wfile.write(data)

        def route(self, method: str, url: Any, body: Any) -> Any:
            query = {name: values[-1] for name, values in parse_qs(url.query).items()}
            work = re.fullmatch(r"/v1/environments/(\w+)/work(?:/(\w+))?(?:/(\w+))?", url.path)
            session = re.fullmatch(r"/v1/sessions/(\w+)(/events(?:/stream)?)?", url.path)
            if work and work[1] == ENVIRONMENT:
                return self.work(method, work[2], work[3], query, body)
            if (method, url.path) == ("POST", "/v1/sessions") and body["environment_id"] == ENVIRONMENT:
                return session_body(fake.add(fake.scripts[body["agent"]]))
            if session and session[1] in fake.sessions:
                return self.session(method, fake.sessions[session[1]], session[2], query, body)
            raise Refused(404, "not found", "not_found_error")

        def work(self, method: str, id: str | None, verb: str | None, query: dict[str, str], body: Any) -> Any:
            if (method, id) == ("GET", "poll"):
                block = int(query.get("block_ms", "0"))
                if not 1 <= block <= 999:
                    fake.wrong.append(f"block_ms={block}")
                end = time.monotonic() + block / 1000
                while (found := fake.poll()) is None and time.monotonic() < end:
                    time.sleep(0.05)
                return found.body() if found else None
            with fake.lock:
                if id not in fake.works:
                    raise Refused(404, "there is no such work", "not_found_error")
                item = fake.works[id]
                if verb == "heartbeat":
                    return fake.beat(item, query.get("expected_last_heartbeat"))
                if verb == "ack":
                    fake.ack(item)
                elif verb == "stop":
                    fake.stop(item)
                return item.body()

        def session(self, method: str, session: Session, rest: str | None, query: dict[str, str], body: Any) -> Any:
            if rest is None:
                return session_body(session)
            if rest == "/events/stream":
                self.stream(session)
                return Handler
            with fake.lock:
                if method == "GET":
                    at, limit = int(query.get("page", "0")), min(int(query.get("limit", "20")), 20)
                    page = session.events[at : at + limit]
                    more = str(at + limit) if at + limit < len(session.events) else None
                    return {"data": page, "next_page": more}
                if fake.faults.refuses_results:
                    raise Refused(503, "no results at the moment", "overloaded_error")
                sent = [fake.send(session, event) for event in body["events"]]
            if fake.happens(fake.faults.lost_answers):
                fake.count("lost answers")
                self.connection.close()
                raise BrokenPipeError
            return {"data": sent}

        def stream(self, session: Session) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            self.close_connection = True
            news: queue.SimpleQueue[Event] = queue.SimpleQueue()
            with fake.lock:
                session.readers.append(news)
            try:
                while True:
                    try:
                        event: Event = news.get(timeout=5)
                    except queue.Empty:
                        self.wfile.write(b"event: ping\ndata: {}\n\n")
                        self.wfile.flush()
                        continue
                    if fake.happens(fake.faults.cut_streams):
                        fake.count("cut streams")
                        return
                    self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
                    self.wfile.flush()
            finally:
                with fake.lock:
                    session.readers.remove(news)

    return Handler


def session_body(session: Session) -> dict[str, Any]:
    agent = {"id": "agent_fake", "type": "agent", "name": "fake", "version": 1, "description": None, "system": None, "mcp_servers": [], "skills": [],
             "tools": [], "model": {"id": "claude-fake"}, "execution_identity": {"type": "service_account"}, "multiagent": None}
    return {"id": session.id, "type": "session", "agent": agent, "archived_at": None, "created_at": now(), "updated_at": now(),
            "environment_id": ENVIRONMENT, "metadata": {}, "outcome_evaluations": [], "resources": [], "stats": {}, "status": session.status,
            "title": None, "usage": {}, "vault_ids": [], "budget": None}
