"""Runs a snippet: its output within limits, its last value, and tracebacks that show its own lines alone."""

import ast
import builtins
import dataclasses
import datetime
import decimal
import enum
import gc
import io
import json
import keyword
import linecache
import re
import sys
import traceback
import types
from pathlib import PurePath

#: The file of a snippet in its tracebacks.
NAME = "<snippet>"
#: Maximum size of each output stream, in bytes. With the others, an answer stays small enough to be read as it is.
STREAM_BYTES_MAX = 16 << 10
#: Maximum length of the `repr` of the last value, in characters.
REPR_CHARS_MAX = 4 << 10
#: Maximum length of the last value as JSON, in characters.
JSON_CHARS_MAX = 8 << 10
#: Maximum length of a traceback, in characters; its end says most.
TRACEBACK_CHARS_MAX = 8 << 10

is_keyword = keyword.iskeyword
#: Between the words of a name such as `JSONDecodeError`.
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class Kept(io.BufferedIOBase):
    """The bytes of a stream up to a limit."""

    def __init__(self):
        super().__init__()
        self.data, self.lost = bytearray(), 0

    def writable(self):
        return True

    def write(self, data):
        data = bytes(data)
        room = max(STREAM_BYTES_MAX - len(self.data), 0)
        self.data += data[:room]
        self.lost += max(len(data) - room, 0)
        return len(data)


def _stream():
    kept = Kept()
    return kept, io.TextIOWrapper(kept, encoding="utf-8", errors="backslashreplace", write_through=True)


@dataclasses.dataclass
class Ran:
    """What came of a snippet. `code` and `summary` are those of the tool's error, if there is one."""

    stdout: str = ""
    stderr: str = ""
    value: dict | None = None
    error: dict | None = None
    code: str = ""
    summary: str = ""
    notes: list = dataclasses.field(default_factory=list)


    @property
    def kind(self):
        """The class of the tool's error."""
        return "invalid_arguments" if self.code == "syntax_error" else "execution_failed"

    def told(self, made=()):
        """The words of the answer, with these lines about what was made, and its structured form."""
        structured = {"stdout": self.stdout, "stderr": self.stderr}
        lines = [self.stdout.removesuffix("\n")] if self.stdout else []
        if self.stderr:
            lines.append(f"stderr:\n{self.stderr.removesuffix(chr(10))}")
        if self.value is not None:
            structured["value"] = self.value
            lines.append(f"= {self.value['repr']}")
        if self.error is not None:
            structured["error"] = self.error
            lines.append(self.error["traceback"].removesuffix("\n"))
        lines += made
        lines += [f"({note})" for note in self.notes]
        if self.notes:
            structured["notes"] = self.notes
        return "\n".join(lines) or "(the snippet printed nothing, and has no value)", structured


def run(code, variables):
    """Runs a snippet in a module of its own, as if it were the program."""
    ran = Ran()
    streams = {"stdout": _stream(), "stderr": _stream()}
    outer = sys.stdout, sys.stderr, sys.stdin, sys.modules.get("__main__"), sys.path[:], sys.dont_write_bytecode
    sys.stdout, sys.stderr, sys.stdin = streams["stdout"][1], streams["stderr"][1], io.StringIO()
    module = types.ModuleType("__main__")
    module.__dict__.update(variables, __builtins__=builtins)
    sys.modules["__main__"] = module
    # The modules that a snippet writes can be imported, as those beside a program.
    sys.path.insert(0, "")
    sys.dont_write_bytecode = True
    linecache.cache[NAME] = (len(code), None, [line + "\n" for line in code.splitlines()], NAME)
    try:
        ran.value = _shown(_value_of(code, module.__dict__), ran.notes)
    except SystemExit as error:
        _exit(ran, error)
    except BaseException as error:
        _fail(ran, error)
    finally:
        main = outer[3]
        sys.stdout, sys.stderr, sys.stdin, _, sys.path[:], sys.dont_write_bytecode = outer
        if main is not None:
            sys.modules["__main__"] = main
    # Files that the snippet left open are written when their objects end.
    del module
    gc.collect()
    for name, (kept, text) in streams.items():
        _close(text)
        setattr(ran, name, bytes(kept.data).decode("utf-8", "replace"))
        if kept.lost:
            ran.notes.append(f"{name} is cut: {kept.lost} more bytes were printed")
    return ran


def _close(text):
    try:
        text.flush()
    except ValueError:
        # The snippet closed it.
        pass


def _value_of(code, names):
    """Runs the statements, and returns the value of the last one if that is an expression."""
    tree = ast.parse(code, NAME)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, NAME, "exec"), names)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), NAME, "eval"), names)


def _shown(value, notes):
    if value is None:
        return None
    words = _clean(repr(value))
    if len(words) > REPR_CHARS_MAX:
        notes.append(f"the value is cut: its repr has {len(words)} characters")
        words = words[:REPR_CHARS_MAX]
    shown = {"type": type(value).__name__, "repr": words}
    try:
        text = json.dumps(value, default=_plain, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError, OverflowError):
        return shown
    if len(text) > JSON_CHARS_MAX:
        notes.append(f"the value is not there as JSON: it has {len(text)} characters")
        return shown
    try:
        shown["json"] = json.loads(text.encode("utf-8", "replace"), parse_int=_whole)
    except OverflowError:
        notes.append("the value is not there as JSON: a number in it is too large")
    return shown


def _whole(digits):
    """An integer that every reader of JSON has a number for. Others refuse the whole answer."""
    number = int(digits)
    float(number)
    return number


def _plain(value):
    """What the JSON of a value is that has none of its own."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (PurePath, decimal.Decimal)):
        return str(value)
    if isinstance(value, (range, types.MappingProxyType)):
        return list(value) if isinstance(value, range) else dict(value)
    raise TypeError


def _exit(ran, error):
    """Ends a snippet that called `sys.exit`, which is a failure unless the status is 0."""
    if error.code is None or error.code == 0:
        return
    if not isinstance(error.code, int):
        # As the interpreter does.
        print(error.code, file=sys.stderr)
    status = error.code if isinstance(error.code, int) else 1
    ran.code, ran.summary = "exit", f"the snippet exited with {status}"
    ran.error = {"type": "SystemExit", "message": _clean(str(error.code)), "traceback": f"{ran.summary}\n"}


def _fail(ran, error):
    name = type(error).__name__
    try:
        message = _clean(str(error))[:REPR_CHARS_MAX]
        text = _clean(_traceback(error))
    except Exception:
        # An exception of the snippet's own, whose text cannot be made.
        message, text = "", f"{name}\n"
    ran.error = {"type": name, "message": message, "traceback": _end(text)}
    is_syntax = isinstance(error, SyntaxError) and error.filename == NAME
    ran.code = "syntax_error" if is_syntax else _WORDS.sub("_", name).lower()
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", ran.code):
        ran.code = "exception"
    last = next((line.strip() for line in reversed(message.splitlines()) if line.strip()), "")
    ran.summary = f"{name}: {last}"[:500] if last else name


def _traceback(error):
    found = traceback.TracebackException.from_exception(error)
    _own(found, set())
    return "".join(found.format())


def _own(found, seen):
    """Removes the frames that are not the snippet's, in the exceptions that led to this one too."""
    if found is None or id(found) in seen:
        return
    seen.add(id(found))
    found.stack = traceback.StackSummary.from_list([frame for frame in found.stack if frame.filename == NAME])
    for other in (found.__cause__, found.__context__, *(found.exceptions or ())):
        _own(other, seen)


def _end(text):
    if len(text) <= TRACEBACK_CHARS_MAX:
        return text
    return f"..\n{text[-TRACEBACK_CHARS_MAX:]}"


def _clean(text):
    """A text without lone surrogates, which no UTF-8 has."""
    return text.encode("utf-8", "backslashreplace").decode()


#: Snippets that make the interpreter import what it imports late: for suggestions, dates, regular expressions and codecs.
WARMING = (
    "prin(1)", "import maths", "''.uper()", "1 +", "x = (", "def f():\nreturn", "raise ExceptionGroup('x', [ValueError()])",
    "try:\n  1/0\nexcept Exception as e:\n  raise KeyError('x') from e", "import sys; sys.exit(3)", "def f(): f()\nf()",
    "import datetime; datetime.datetime.strptime('2024-01-01', '%Y-%m-%d').strftime('%A')",
    "from dataclasses import dataclass\n@dataclass\nclass A:\n  x: int = 1\nA()",
    "import re, csv, io\nlist(csv.DictReader(io.StringIO('a\\n1'))), re.sub('a', 'b', 'a')",
    "import statistics; statistics.stdev([1, 2])",
    "import sqlite3; sqlite3.connect(':memory:').execute('SELECT 1').fetchall()", "print('x'); {'a': [1, 2.5, None]}",
    "import warnings; warnings.warn('x')", "import inspect, typing", "f'{1:>10,.2f} {\"é\"!r}'.encode('utf-16')",
)


def warm():
    """Runs snippets of all kinds while the component is built, so that a call finds everything imported."""
    for code in WARMING:
        run(code, {})
    linecache.cache.pop(NAME, None)
