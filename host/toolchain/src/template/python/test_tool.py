import unittest

from toolcell import testing

from tool import count


class Count(unittest.TestCase):
    def test_words_are_counted(self):
        self.assertEqual(count("one two three"), "3 words")

    def test_a_call_is_answered_as_the_host_makes_it(self):
        called = testing.call(count, {"text": "one two three"})
        self.assertEqual(called.text, "3 words")


if __name__ == "__main__":
    unittest.main()
