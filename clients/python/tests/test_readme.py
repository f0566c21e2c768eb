"""Runs every snippet of the README, with the official packages of OpenAI and Anthropic, and compares what it prints."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from .model import Model
from .support import SOURCE, example

README = Path(__file__).parents[1] / "README.md"
SNIPPETS = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```\n", re.DOTALL)


class Readme(unittest.TestCase):
    maxDiff = None

    def test_every_snippet_prints_what_is_below_it(self) -> None:
        text = README.read_text()
        snippets = SNIPPETS.findall(text)
        self.assertEqual(len(snippets), text.count("```python"), "each snippet has its output below it")
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in ("jq", "ticker", "files", "patch"):
            shutil.copy(example(name), folder)
        (folder / "src").mkdir()
        (folder / "src" / "hello.txt").write_text("hello")
        (folder / "ask.toml").write_text('[[rule]]\nbehavior = "ask"\ntool = "jq.*"\n')
        with Model() as model:
            # A home of its own: a snippet makes a workspace, whose name can be that of another one.
            variables = {"PYTHONPATH": str(SOURCE), "TOOLCELL_HOME": str(folder / "home")}
            environment = {**os.environ, **model.variables, **variables}
            for snippet, printed in snippets:
                with self.subTest(snippet):
                    ran = subprocess.run(
                        [sys.executable, "-W", "error", "-c", snippet],
                        cwd=folder,
                        env=environment,
                        capture_output=True,
                        text=True,
                        timeout=120,
                    )
                    self.assertEqual((ran.stdout, ran.stderr, ran.returncode), (printed, "", 0))
