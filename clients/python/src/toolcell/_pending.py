"""A request that waits for its answer, between the thread that reads and the one that waits."""

from __future__ import annotations

import copy
import threading
import time
from collections import deque
from typing import Any, Callable, Optional

from ._errors import ToolcellError
from ._result import Progress

# For a caller that does not look: the oldest updates are dropped.
_UPDATES_MAX = 1024


class Pending:
    """One request. It ends once, with an answer or an error."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._changed = threading.Condition()
        self._updates: deque[Progress] = deque(maxlen=_UPDATES_MAX)
        self._is_done = False
        self._answer: Any = None
        self._error: Optional[ToolcellError] = None
        self._wake: Optional[Callable[[], None]] = None

    def update(self, progress: Progress) -> None:
        with self._changed:
            if not self._is_done:
                self._updates.append(progress)
            self._tell()

    def answer(self, answer: Any) -> None:
        self._end(answer, None)

    def fail(self, error: ToolcellError) -> None:
        self._end(None, error)

    def _end(self, answer: Any, error: Optional[ToolcellError]) -> None:
        with self._changed:
            if self._is_done:
                return
            self._is_done, self._answer, self._error = True, answer, error
            self._tell()

    def _tell(self) -> None:
        self._changed.notify_all()
        if self._wake is not None:
            self._wake()

    def waken(self, wake: Callable[[], None]) -> None:
        """Calls `wake`, from another thread, at each change; at once if there was one."""
        with self._changed:
            self._wake = wake
            if self._is_done or self._updates:
                wake()

    @property
    def is_done(self) -> bool:
        with self._changed:
            return self._is_done

    def take(self) -> tuple[list[Progress], bool]:
        """The updates that were not taken yet, and whether the request has ended."""
        with self._changed:
            updates = list(self._updates)
            self._updates.clear()
            return updates, self._is_done

    def wait(self, until: Optional[float]) -> bool:
        """Waits for an update or the end. False if the time `until`, of time.monotonic(), came first."""
        with self._changed:
            while not self._is_done and not self._updates:
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._changed.wait(left)
            return True

    def outcome(self) -> Any:
        """The answer. Raises the error if there is one."""
        with self._changed:
            if self._error is not None:
                # Another object, because an exception that is raised again collects tracebacks, and all requests of a
                # program that has ended have the same one.
                raise copy.copy(self._error)
            return self._answer
