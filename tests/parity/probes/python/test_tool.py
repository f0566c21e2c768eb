import tempfile
import unittest

from toolcell import testing

import tool

PLAIN = {"name": "a", "tags": [], "parts": [], "place": {"street": "s"}, "labels": {}, "extra": None, "note": None}


class Parity(unittest.TestCase):
    def test_defaults(self):
        made = testing.call(tool.order, PLAIN).structured
        self.assertEqual((made["size"], made["count"], made["place"]), ("small", 1, {"street": "s", "floor": 0}))

    def test_a_stop(self):
        with testing.host(canceled="timeout") as host:
            self.assertEqual(testing.call(tool.wait).structured, {"stopped": "timeout"})
        self.assertTrue(host.acknowledged)

    def test_answers(self):
        with testing.host():
            self.assertEqual(testing.call(tool.questions).question, ("who", "Who?"))
        answers = {"who": {"name": "Ada"}, "sure": {"yes": True}, "last": {"n": 3}}
        with testing.host(answers=answers, remembered=b"s"):
            self.assertEqual(testing.call(tool.questions).text, "Ada true 3 s")

    def test_the_context_and_other_tools(self):
        with tempfile.TemporaryDirectory() as folder:
            made = testing.call(tool.look, {"path": __file__}, cwd=folder, scratch=folder)
            self.assertEqual(made.structured["cwd"], folder)
        with testing.host(tools={"other.one": lambda: {"n": 7}}, fetch=lambda request: b"pong"):
            made = testing.call(tool.relay, {"tool": "other.one", "input": {}})
            self.assertEqual(made.structured, {"answer": {"n": 7}, "callable": True})
            self.assertEqual(testing.call(tool.fetch, {"url": "http://a"}).structured["body"], "pong")

    def test_checks_facts_and_settings(self):
        self.assertEqual(testing.call(tool.even, {"n": 3}).error.code, "odd")
        self.assertIs(testing.facts(tool.touch, {"change": True}).read_only, False)
        with testing.host(settings={"unit": "mile"}):
            self.assertEqual(testing.call(tool.setting).text, "mile")
