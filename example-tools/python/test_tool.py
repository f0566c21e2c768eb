import json
import os
import tempfile
import unittest
from pathlib import Path

from toolcell import testing

import library
import snippet
from tool import run


class Call(unittest.TestCase):
    def call(self, code, **more):
        with testing.host() as self.host:
            return testing.call(run, {"code": code, **more})

    def value(self, code, **more):
        return self.call(code, **more).structured["value"]

    def test_the_last_expression_is_the_value_and_prints_are_apart(self):
        called = self.call("print('half')\nx = 20\nx + 1")
        self.assertEqual(called.text, "half\n= 21")
        self.assertEqual(called.structured["stdout"], "half\n")
        self.assertEqual(called.structured["value"], {"type": "int", "repr": "21", "json": 21})
        self.assertNotIn("value", self.call("x = 1").structured)
        self.assertNotIn("value", self.call("None").structured)
        self.assertEqual(self.call("").text, "(the snippet printed nothing, and has no value)")

    def test_a_value_is_json_where_it_can_be(self):
        self.assertEqual(self.value("{'a': (1, 2.5, None), 3: True}")["json"], {"a": [1, 2.5, None], "3": True})
        self.assertEqual(self.value("import datetime\n[datetime.date(2024, 1, 2), {2, 1}]")["json"], ["2024-01-02", [1, 2]])
        point = "from dataclasses import dataclass\n@dataclass\nclass P:\n  x: int\nP(1)"
        self.assertEqual(self.value(point), {"type": "P", "repr": "P(x=1)", "json": {"x": 1}})
        self.assertEqual(self.value("[2 ** 70]")["json"], [2**70])
        for code in ("object()", "float('nan')", "a = []; a.append(a); a", "10 ** 9999 and {1j}", "[-10 ** 400]"):
            self.assertNotIn("json", self.value(code), code)

    def test_variables_come_from_json(self):
        self.assertEqual(self.value("rows[0]['n'] + 1", inputs={"rows": [{"n": 1}]})["json"], 2)
        for name in ("1a", "class", "a b", ""):
            self.assertEqual(self.call("1", inputs={name: 1}).error.code, "name_invalid", name)

    def test_files_are_artifacts_and_links_are_not(self):
        code = """
import os
os.mkdir("d")
open("d/b.csv", "w").write("1,2")
left_open = open("a.bin", "wb")
left_open.write(b"x")
os.symlink("/etc/passwd", "link")
"""
        called = self.call(code)
        self.assertEqual([file["path"] for file in called.structured["files"]], ["a.bin", "d/b.csv"])
        self.assertEqual(self.host.artifacts, {"a.bin": b"x", "b.csv": b"1,2"})
        self.assertEqual([block["type"] for block in called.content], ["text", "artifact_ref", "artifact_ref"])
        many = self.call("for n in range(25): open(f'{n}.txt', 'w').close()").structured
        self.assertEqual(len(many["files"]), 20)
        self.assertIn("5 files are not kept", many["notes"][0])

    def test_files_of_the_caller_are_a_variable(self):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder, "in.txt")
            place.write_text("one\ntwo\n")
            self.assertEqual(self.value("len(files[0].read_text().split())", files=[str(place)])["json"], 2)

    def test_a_traceback_has_the_lines_of_the_snippet_alone(self):
        called = self.call("import json\n\ndef load(text):\n    return json.loads(text)\n\nprint('before')\nload('{')")
        self.assertEqual((called.error.code, called.error.kind), ("json_decode_error", "execution_failed"))
        found = called.structured["error"]["traceback"]
        for line in ("line 7, in <module>", "    load('{')", "line 4, in load", "    return json.loads(text)"):
            self.assertIn(line, found)
        self.assertNotIn("decoder.py", found)
        self.assertNotIn(os.path.dirname(__file__), found)
        self.assertEqual(called.structured["stdout"], "before\n")
        chained = self.call("try:\n  {}['x']\nexcept KeyError as e:\n  raise ValueError('no x') from e").structured["error"]
        self.assertIn("KeyError: 'x'", chained["traceback"])
        self.assertEqual((chained["type"], chained["message"]), ("ValueError", "no x"))

    def test_errors_of_all_kinds_end_the_snippet_alone(self):
        for code, expected in {
            "1 +": "syntax_error", "import nothing_here": "module_not_found_error", "f = lambda: f()\nf()": "recursion_error",
            "raise KeyboardInterrupt": "keyboard_interrupt", "input()": "eof_error", "open('/none')": "file_not_found_error",
            "class E(Exception):\n  def __str__(self): raise E\nraise E": "e", "import sys\nsys.exit('why')": "exit",
            "class É(Exception): pass\nraise É": "exception",
            "raise ExceptionGroup('x', [ValueError(1)])": "exception_group",
        }.items():
            self.assertEqual(self.call(code).error.code, expected, code)
        self.assertEqual(self.call("import sys\nprint(1)\nsys.exit()").error, None)
        self.assertEqual(self.call("import sys\nsys.exit('why')").structured["stderr"], "why\n")

    def test_output_is_cut_and_said_so(self):
        called = self.call("print('é' * 100_000)")
        self.assertEqual(len(called.structured["stdout"].encode()), snippet.STREAM_BYTES_MAX)
        self.assertIn("stdout is cut: 183617 more bytes", called.structured["notes"][0])
        called = self.call("'x' * 1_000_000")
        self.assertEqual(len(called.structured["value"]["repr"]), snippet.REPR_CHARS_MAX)
        self.assertNotIn("json", called.structured["value"])
        self.assertEqual(len(called.structured["notes"]), 2)
        self.assertEqual(self.call("x" * 100_001).error.code, "code_too_long")

    def test_text_that_is_no_utf8_does_not_break_the_answer(self):
        called = self.call("import sys\nprint(chr(0xd800))\nsys.stdout.buffer.write(b'\\xff')\n{chr(0xd800): chr(0xd801)}")
        json.dumps([called.structured, called.text], ensure_ascii=False).encode()
        self.assertEqual(called.structured["value"]["json"], {"?": "?"})
        self.assertIsNone(self.call("import sys\nsys.stdout.close()").error)

    def test_a_snippet_is_the_main_program_and_leaves_nothing(self):
        self.assertEqual(self.value("__name__")["json"], "__main__")
        pickled = "import pickle\nclass A: pass\ntype(pickle.loads(pickle.dumps(A()))).__name__"
        self.assertEqual(self.value(pickled)["json"], "A")
        self.assertEqual(self.value("open('m.py', 'w').write('x = 5')\nimport m\nm.x")["json"], 5)
        self.assertEqual(self.call("x").error.code, "name_error")
        self.assertEqual(Path.cwd(), Path(os.getcwd()))

    def test_the_modules_that_people_expect_are_listed(self):
        expected = "json math statistics re csv datetime itertools collections sqlite3 random decimal base64 hashlib".split()
        self.assertEqual(set(expected) - set(library.MODULES), set())


if __name__ == "__main__":
    unittest.main()
