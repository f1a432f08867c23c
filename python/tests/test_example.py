"""The example exchange of docs/protocol_example.txt, byte for byte."""

import os
import unittest

from support import ROOT, TESTS, Client


class ExampleTest(unittest.TestCase):
    def test_every_line_is_answered_as_written(self):
        with open(os.path.join(ROOT, "docs", "protocol_example.txt"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        names = ["example_module:" + name for name in ("GuessNumber", "add", "exact", "brief")]
        answers = 0
        with Client(names, folder=TESTS) as client:
            for number, line in enumerate(lines, 1):
                if line.startswith("> "):
                    client.write_line(line[2:].encode() + b"\n")
                elif line.startswith("< "):
                    self.assertEqual(client.read_line(), line[2:], "line %d" % number)
                    answers += 1
                else:
                    self.assertTrue(not line or line.startswith("#"), "line %d" % number)
            self.assertEqual(client.close(), 0)
        self.assertGreater(answers, 30)


if __name__ == "__main__":
    unittest.main()
