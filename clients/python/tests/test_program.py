"""Where the program is found, and what the package needs."""

import ast
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from .support import SOURCE

import toolcell
from toolcell import Options, ToolcellError, _program

PACKAGE = SOURCE / "toolcell"


class Finding(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()
        for name in ("argument", "variable", "path"):
            (self.folder / name).mkdir()
            (self.folder / name / "toolcell").write_text("#!/bin/sh\n")
            (self.folder / name / "toolcell").chmod(0o755)
        # The package, as a wheel installs it.
        self.package = self.folder / "site" / "toolcell"
        shutil.copytree(PACKAGE, self.package, ignore=shutil.ignore_patterns("__pycache__", "bin"))
        (self.package / "bin").mkdir()
        shutil.copy(self.folder / "path" / "toolcell", self.package / "bin" / "toolcell")

    def at(self, name: str) -> str:
        return str(self.folder / name / "toolcell")

    def found(self, **variables: str) -> str:
        script = "import toolcell._program as p; print(p.find(None))"
        environment = {"PYTHONPATH": str(self.folder / "site"), **variables}
        ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
        return ran.stdout.strip()

    def test_the_argument_then_the_variable_then_the_wheel_then_the_path(self) -> None:
        path = str(self.folder / "path")
        with mock.patch.dict(os.environ, {"TOOLCELL": self.at("variable"), "PATH": path}):
            self.assertEqual(_program.find(self.at("argument")), self.at("argument"))
            self.assertEqual(_program.find(None), self.at("variable"))
            self.assertEqual(_program.find("toolcell"), self.at("path"), "a name is looked up in PATH")
        self.assertEqual(self.found(TOOLCELL=self.at("variable"), PATH=path), self.at("variable"))
        self.assertEqual(self.found(PATH=path), str(self.package / "bin" / "toolcell"))
        shutil.rmtree(self.package / "bin")
        self.assertEqual(self.found(PATH=path), self.at("path"))

    def test_a_relative_entry_of_the_path_finds_nothing(self) -> None:
        shutil.rmtree(self.package / "bin")
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.folder / "path")
        for path in ("", ".", "::", f":{os.path.relpath(self.folder / 'path')}"):
            with mock.patch.dict(os.environ, {"PATH": path}), mock.patch.object(_program, "__file__", str(self.folder / "x.py")):
                os.environ.pop("TOOLCELL", None)
                with self.assertRaises(ToolcellError):
                    _program.find(None)
                with self.assertRaises(ToolcellError):
                    _program.find("toolcell")
                self.assertEqual(_program.find("./toolcell"), self.at("path"))

    def test_what_is_named_wrongly_is_not_replaced_by_another_program(self) -> None:
        with mock.patch.dict(os.environ, {"TOOLCELL": "/no/such/program", "PATH": str(self.folder / "path")}):
            with self.assertRaises(ToolcellError) as caught:
                _program.find(None)
            self.assertIn("the variable TOOLCELL names '/no/such/program'", caught.exception.message)


class Package(unittest.TestCase):
    def test_it_needs_python_3_9_and_nothing_else(self) -> None:
        # The other modules are adapters, each for a framework.
        for file in PACKAGE.glob("_*.py"):
            tree = ast.parse(file.read_text(), feature_version=(3, 9))
            for node in ast.walk(tree):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.level == 0:
                    names.append(node.module or "")
                for name in names:
                    self.assertIn(name.split(".")[0], sys.stdlib_module_names, file)

    def test_the_names_of_the_sdk_lead_to_it(self) -> None:
        for name in ("tool", "testing"):
            with self.assertRaisesRegex(ImportError, "the SDK for tools"):
                exec(f"from toolcell import {name}")
        self.assertFalse(hasattr(toolcell, "no_such_name"))

    def test_options_become_those_of_the_program(self) -> None:
        options = Options(
            allow_read=["a", Path("b")], timeout=1.5, memory="64MiB", max_listed=3, config="x.toml", tls_ca="ca.pem"
        )
        command = ["p", "mcp", "--allow-read=a", "--allow-read=b", "--memory=64MiB", "--tls-ca=ca.pem", "--max-listed=3"]
        self.assertEqual(options.command("p", ["-t"]), [*command, "--timeout=1500ms", "--config=x.toml", "--", "-t"])
        for workspace, said in [("w", ["--workspace=w"]), (True, ["--workspace"]), (False, []), (None, [])]:
            self.assertEqual(Options(workspace=workspace).command("p", []), ["p", "mcp", *said, "--"])
        rolled = Options(workspace=True, workspace_rollback=True).command("p", [])
        self.assertEqual(rolled, ["p", "mcp", "--workspace", "--workspace-rollback", "--"])

    def test_every_option_is_one_of_the_program(self) -> None:
        helped = subprocess.run([os.environ["TOOLCELL"], "mcp", "--help"], capture_output=True, text=True, check=True).stdout
        given = dict.fromkeys(["fuel", "max_listed"], 1)
        lists = [name for name, value in vars(Options()).items() if value == ()]
        values = [name for name, value in vars(Options()).items() if value is None]
        values = [name for name in values if name not in ("folder", "environment")]
        command = Options(**{name: ["x"] for name in lists}, **{name: given.get(name, "x") for name in values}).command("p", [])
        for argument in command[2:-1]:
            self.assertIn(f"{argument.partition('=')[0]} <", helped)
        for option in ("--workspace[=<NAME>]", "--workspace-rollback"):
            self.assertIn(option, helped)
