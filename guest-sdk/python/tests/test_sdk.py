"""Tests of the package without a sandbox: `python3 -m unittest discover -t . -s tests` in the folder above."""

import dataclasses
import enum
import pathlib
import tempfile
import typing
import unittest

import build
import toolcell
from toolcell import _declare, _schema, testing


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    """A place.

    Attributes:
        x: To the right,
            in metres.
    """

    x: int
    y: float = 0.5
    names: list[str] = dataclasses.field(default_factory=list)


def clean(case):
    before = dict(_declare.TOOLS)
    _declare.TOOLS.clear()
    case.addCleanup(lambda: (_declare.TOOLS.clear(), _declare.TOOLS.update(before)))


class Schemas(unittest.TestCase):
    def test_each_type_has_its_schema_and_takes_its_values_back(self):
        for hint, schema, value, decoded in [
            (str, {"type": "string"}, "a", "a"),
            (int, {"type": "integer"}, 3.0, 3),
            (float, {"type": "number"}, 3, 3.0),
            (int | None, {"type": ["integer", "null"]}, None, None),
            (float | int, {"type": ["number", "integer"]}, 1, 1),
            (list[pathlib.Path], {"type": "array", "items": {"type": "string"}}, ["a"], [pathlib.Path("a")]),
            (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}, {"a": 1}),
            (typing.Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, "b", "b"),
            (Color, {"type": "string", "enum": ["red"]}, "red", Color.RED),
            (typing.Annotated[int, "How many.", {"minimum": 1}],
             {"type": "integer", "description": "How many.", "minimum": 1}, 4, 4),
        ]:
            self.assertEqual(_schema.schema(hint), schema)
            self.assertEqual(_schema.decode(hint, value), decoded)
            self.assertIs(type(_schema.decode(hint, value)), type(decoded))

    def test_a_dataclass_is_an_object_with_its_descriptions_and_defaults(self):
        schema = _schema.schema(Point)
        self.assertEqual(schema["description"], "A place.")
        self.assertEqual(schema["properties"]["x"], {"type": "integer", "description": "To the right, in metres."})
        self.assertEqual(schema["properties"]["y"]["default"], 0.5)
        self.assertEqual((schema["required"], schema["additionalProperties"]), (["x"], False))
        self.assertEqual(_schema.decode(Point, {"x": 1, "names": ["a"]}), Point(1, 0.5, ["a"]))
        self.assertEqual(_schema.encode(Point(1)), {"x": 1, "y": 0.5, "names": []})

    def test_a_value_of_another_type_is_refused_with_its_place(self):
        for hint, value, place in [
            (Point, {"x": "1"}, "/x"), (Point, {}, "/x"), (Point, {"x": 1, "z": 1}, "/z"), (int, True, "the value"),
            (list[int], [1, "2"], "/1"), (Color, "blue", "the value"), (str, None, "the value"),
        ]:
            with self.assertRaises(_schema.Unusable) as raised:
                _schema.decode(hint, value)
            self.assertIn(place, str(raised.exception))

    def test_a_type_without_a_schema_is_named(self):
        with self.assertRaisesRegex(TypeError, "bytes.*has no JSON Schema"):
            _schema.schema(bytes)


class Declarations(unittest.TestCase):
    def setUp(self):
        clean(self)

    def entry(self, function, **options):
        toolcell.tool(function, **options)
        return testing.describe()["tools"][0]

    def test_a_function_becomes_a_tool(self):
        def count(text: str, times: int = 2) -> str:
            """Counts.

            Words are separated by spaces.

            Args:
                text: The text.
                times (int): How often.

            Returns:
                The words.
            """

        self.assertEqual(self.entry(count), {
            "name": "count",
            "description": "Counts.\n\nWords are separated by spaces.",
            "input": {
                "type": "object",
                "properties": {
                    "text": {"type": "string", "description": "The text."},
                    "times": {"type": "integer", "description": "How often.", "default": 2},
                },
                "required": ["text"],
                "additionalProperties": False,
            },
            "content_types": ["text"],
        })

    def test_sphinx_describes_parameters_too(self):
        def count(text: str) -> Point:
            """Counts.

            :param text: The text.
            :returns: The words.
            """

        entry = self.entry(count)
        self.assertEqual((entry["description"], entry["input"]["properties"]["text"]["description"]),
                         ("Counts.", "The text."))
        self.assertEqual(entry["output"]["properties"]["x"]["type"], "integer")

    def test_paths_and_urls_are_permissions(self):
        @dataclasses.dataclass
        class Job:
            source: pathlib.Path

        def work(jobs: list[Job], to: toolcell.WritablePath, at: toolcell.Url, near: pathlib.Path | None = None) -> None:
            """Works."""

        work.__annotations__["jobs"] = list[Job]
        entry = self.entry(work, read_only=False, hosts="api.example.com", timeout_ms=5)
        self.assertEqual(entry["paths"], ["/jobs/*/source", "/to", "/near"])
        self.assertEqual(entry["access"], ["file_read", "file_write", "network"])
        self.assertEqual((entry["urls"], entry["is_read_only"], entry["timeout_ms"]), (["/at"], False, 5))
        # As a list with commas, which the host splits.
        self.assertEqual(entry["network_scope"], "api.example.com, argument")

    def test_a_type_with_a_name_of_its_own_is_a_path_too(self):
        place = typing.NewType("Place", pathlib.Path)
        self.assertEqual(_schema.marked(list[place], "/files"), {"/files/*": "read"})

    def test_a_place_that_no_pointer_names_is_refused(self):
        for hint in [dict[str, pathlib.Path], dict[pathlib.Path, str], list[dict[str, list[toolcell.Url]]]]:
            with self.assertRaisesRegex(TypeError, "/at.*in a dict cannot be declared: use a list"):
                _schema.marked(hint, "/at")
        self.assertEqual(_schema.marked(dict[str, str], "/at"), {})
        for hint in [pathlib.Path | toolcell.Url, tuple[toolcell.Url, toolcell.WritablePath]]:
            with self.assertRaisesRegex(TypeError, "/at.*a path and a URL in one place"):
                _schema.marked(hint, "/at")
        for hint in [pathlib.Path | toolcell.WritablePath, toolcell.WritablePath | pathlib.Path]:
            self.assertEqual(_schema.marked(hint, "/at"), {"/at": "write"})

    def test_what_cannot_be_a_tool_is_refused_when_it_is_defined(self):
        def untyped(text):
            """Has no type."""

        def undocumented(text: str): ...

        def rest(*text: str):
            """Takes any."""

        async def later(text: str):
            """Waits."""

        for function, words in [(untyped, "has no type"), (undocumented, "has no docstring"),
                                (rest, "has no name"), (later, "async")]:
            with self.assertRaisesRegex(TypeError, words):
                toolcell.tool(function)


class Calls(unittest.TestCase):
    def setUp(self):
        clean(self)

    def test_progress_logs_and_a_cancellation(self):
        @toolcell.tool
        def work(steps: int) -> str:
            """Works."""
            for n in range(steps):
                toolcell.checkpoint()
                toolcell.progress(f"step {n}", 100 * n / steps)
                toolcell.log("info", "done", n=n)
            return "all"

        with testing.host() as host:
            self.assertEqual(testing.call(work, {"steps": 2}).text, "all")
            self.assertEqual([update.percent for update in host.progress], [0, 50])
            self.assertEqual(host.log[1], testing.Log("info", "done", {"n": 1}))
        with testing.host(canceled="timeout") as host:
            error = testing.call(work, {"steps": 2}).error
            self.assertEqual((error.kind, host.acknowledged), ("canceled", True))

    def test_exceptions_are_failures_with_the_traceback_as_detail(self):
        @toolcell.tool
        def fail(how: str) -> str:
            """Fails."""
            if how == "own":
                raise toolcell.ToolError("no", code="not_found", kind="invalid_arguments", detail="secret")
            if how == "exit":
                raise SystemExit(3)
            return open(how).read() if how else {}["a"]

        error = testing.call(fail, {"how": ""}).error
        self.assertEqual((error.code, error.kind), ("key_error", "execution_failed"))
        self.assertIn("in fail", error.detail)
        error = testing.call(fail, {"how": "own"}).error
        self.assertEqual((error.code, error.kind, error.detail), ("not_found", "invalid_arguments", "secret"))
        self.assertEqual(testing.call(fail, {"how": "exit"}).error.message, "the tool exited with 3")
        error = testing.call(fail, {"how": "/nowhere/at/all"}).error
        self.assertEqual((error.code, error.message), ("file_not_found_error", "No such file or directory: /nowhere/at/all"))
        self.assertEqual(testing.call(fail, {}).error.kind, "invalid_arguments")

    def test_text_that_is_no_utf8_is_marked(self):
        broken = b"a\xe4o".decode(errors="surrogateescape")

        @toolcell.tool
        def say(how: str) -> typing.Any:
            """Says."""
            toolcell.progress(broken)
            return {"text": broken, "json": {broken: [broken]}, "output": toolcell.Output(broken, summary=broken)}[how]

        with testing.host():
            self.assertEqual(testing.call(say, {"how": "text"}).text, "a\ufffdo")
            self.assertEqual(testing.call(say, {"how": "json"}).structured, {"a\ufffdo": ["a\ufffdo"]})
            called = testing.call(say, {"how": "output"})
            self.assertEqual((called.text, called.summary), ("a\ufffdo", "a\ufffdo"))

    def test_an_integer_that_json_readers_cannot_take_is_a_clear_failure(self):
        @toolcell.tool
        def power(of: int) -> typing.Any:
            """Powers of ten."""
            return {"all": [10**of]}

        with testing.host():
            self.assertEqual(testing.call(power, {"of": 308}).structured, {"all": [10**308]})
            for of in (309, 5000):
                error = testing.call(power, {"of": of}).error
                self.assertIn("whose limit is 1e308: return it as a string", error.message)

    def test_a_question_stops_the_tool_until_it_is_answered(self):
        @toolcell.tool
        def greet() -> str:
            """Greets."""
            toolcell.remember(b"state")
            return f"Hello, {toolcell.ask('who', 'Who are you?')}!"

        with testing.host() as host:
            self.assertEqual(testing.call(greet).question, ("who", "Who are you?"))
            self.assertEqual(host.state, b"state")
        with testing.host(answers={"who": "Ada"}):
            self.assertEqual(testing.call(greet).text, "Hello, Ada!")
        with testing.host(answers={"who": testing.DECLINE}):
            self.assertEqual(testing.call(greet).error.code, "not_answered")

    def test_several_questions_are_asked_at_once_and_answered_in_their_order(self):
        @toolcell.tool
        def greet() -> str:
            """Greets."""
            name, count = toolcell.ask_all(("who", "Who?"), ("many", "How many?", int))
            return f"{name} {count}"

        with testing.host(answers={"many": 3}) as host:
            self.assertEqual(testing.call(greet).question, ("who", "Who?"))
        self.assertEqual([key for key, *_ in host.questions], ["who"])
        with testing.host(answers={"who": "Ada", "many": 3}):
            self.assertEqual(testing.call(greet).text, "Ada 3")

    def test_a_wait_tells_why_the_call_should_stop_and_a_tool_says_what_a_call_does(self):
        @toolcell.tool
        def idle(change: bool) -> str:
            """Waits."""
            return toolcell.wait(2) or "went on"

        toolcell.classify(idle)(lambda change: toolcell.Facts(read_only=not change))
        with testing.host(canceled="timeout") as host:
            self.assertEqual(testing.call(idle, {"change": True}).text, "timeout")
        self.assertEqual(host.waited, 2)
        self.assertIs(testing.facts(idle, {"change": True}).read_only, False)

    def test_files_calls_requests_and_settings(self):
        @toolcell.configuration
        @dataclasses.dataclass
        class Settings:
            unit: str = "m"

        @toolcell.tool
        def work() -> toolcell.Output:
            """Works."""
            with toolcell.artifact("a.csv", "text/csv") as file:
                file.write("x" * (1 << 21))
            toolcell.modify_context("branch", "fix")
            words = toolcell.call_tool("files.list", folder="a").text
            page = toolcell.fetch("https://a.example/b?c", body={"d": 1})
            unit = toolcell.configured(Settings).unit
            return toolcell.Output(words, page.text, file.block, structured={"unit": unit}, summary="one line")

        with testing.host(tools={"files.list": lambda folder: f"in {folder}"}, fetch=lambda request: b"page",
                          settings=Settings("km")) as host:
            called = testing.call(work)
        self.assertEqual((called.text, called.structured, called.summary), ("in a\npage", {"unit": "km"}, "one line"))
        self.assertEqual(called.content[2]["type"], "artifact_ref")
        self.assertEqual((len(host.artifacts["a.csv"]), host.context), (1 << 21, {"branch": "fix"}))
        request = host.requests[0]
        self.assertEqual((request.method, request.url, request.body), ("GET", "https://a.example/b?c", b'{"d": 1}'))
        self.assertEqual(testing.call(work).error.code, "tool_not_callable")

    def test_a_check_refuses_arguments_and_relative_paths_are_in_the_folder_of_the_call(self):
        @toolcell.tool
        def read(path: pathlib.Path) -> str:
            """Reads."""
            return path.read_text()

        @toolcell.check(read)
        def named(path):
            if path.name.startswith("."):
                raise ValueError("hidden")

        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "a").write_text("words")
            self.assertEqual(testing.call(read, {"path": "a"}, cwd=folder).text, "words")
        self.assertEqual(testing.call(read, {"path": ".a"}).error.message, "ValueError: hidden")

    def test_without_a_host_a_call_of_it_says_what_to_do(self):
        with self.assertRaisesRegex(RuntimeError, "testing.host"):
            toolcell.progress("a")


class Names(unittest.TestCase):
    def test_the_names_of_the_client_lead_to_it(self):
        with self.assertRaisesRegex(ImportError, "the client for callers"):
            exec("from toolcell import Toolcell")
        self.assertFalse(hasattr(toolcell, "no_such_name"))


class Builds(unittest.TestCase):
    def project(self, **files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, text in files.items():
            path = pathlib.Path(folder.name) / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return pathlib.Path(folder.name)

    def test_a_component_imports_what_its_sources_use(self):
        project = self.project(
            tool_dot_py="from toolcell import tool, progress\nimport toolcell as t\nt.fetch('x')\n",
            more__a_dot_py="import logging\n", tests__b_dot_py="from toolcell import ask\n",
            test_b_dot_py="from toolcell import ask\n", data_dot_json="{}", venv__a_dot_py="", _dot_venv__a_dot_py="",
            env__pyvenv_dot_cfg="", env__a_dot_py="", toolcell__a_dot_py="",
        )
        files = build.sources(project)
        self.assertEqual({path.name for path in files}, {"tool.py", "a.py", "data.json"})
        self.assertEqual(build.needs(project, files), {"progress", "http", "log"})
        world = build.world({"progress", "http", "configuration"})
        self.assertIn("import toolcell:tool/progress@0.2.0;", world)
        self.assertIn("export toolcell:tool/configuration@0.2.0;", world)
        self.assertNotIn("cancellation", world)

    def test_a_project_that_cannot_be_built_says_why(self):
        for files, words in [
            ({"pyproject_dot_toml": "["}, "pyproject.toml: "),
            ({"pyproject_dot_toml": "[tool.toolcell]"}, "name the project"),
            ({"pyproject_dot_toml": "[project]\nname='a'\n[tool.toolcell]\nmain='a'"}, "has no main"),
            ({"pyproject_dot_toml": "tool = 1"}, "tool is not a table"),
            ({"pyproject_dot_toml": "[tool]\ntoolcell = 'a'"}, "toolcell is not a table"),
            ({"pyproject_dot_toml": "[project]\nname=['a']"}, "name the project"),
            ({"pyproject_dot_toml": "[project]\nname='a'\n[tool.toolcell]\nmodule=1"}, "1 is no name of a module"),
            ({"pyproject_dot_toml": "[project]\nname='a'"}, "there is no module tool"),
            ({"pyproject_dot_toml": "[project]\nname='a'", "tool_dot_py": "def ("}, "tool.py:1: "),
        ]:
            with self.assertRaisesRegex(build.Refused, words):
                place = self.project(**files)
                build.build(place, place, place, place / "out", place)

    def test_a_source_has_the_encoding_that_it_declares(self):
        place = self.project(tool_dot_py="") / "tool.py"
        place.write_bytes(b"# coding: latin-1\nimport json  # \xe4\n")
        self.assertEqual(build.imported(place, place.parent), ["json"])
