"""The package as such: `try`, the wheel, Python 3.9, and no other imports than Python's own."""

import ast
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile

from support import ATTACH, PACKAGE, TESTS

SOURCES = [
    os.path.join(folder, name)
    for folder, _, names in os.walk(os.path.join(PACKAGE, "stoker_env"))
    for name in names
    if name.endswith(".py")
]
OWN_SOURCES = SOURCES + [os.path.join(PACKAGE, "build_backend.py")]


def run(*arguments, folder=ATTACH, given=""):
    variables = dict(os.environ, PYTHONPATH=PACKAGE)
    command = [sys.executable, "-m", "stoker_env", *arguments]
    return subprocess.run(command, cwd=folder, env=variables, input=given, capture_output=True, text=True)


class TryTest(unittest.TestCase):
    def test_an_environment_from_lines(self):
        lines = '/reset {"number": 8}\n4\n/call hint\n/tools\n8\n/close\n'
        done = run("try", "example_module:GuessNumber", "example_module:add", folder=TESTS, given=lines)
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = done.stdout.splitlines()
        self.assertEqual(shown[0], "serves GuessNumber, add")
        self.assertEqual(
            shown[1:5],
            ["[system] Answer with a number.", "[user] Guess a number from 1 to 10.", "[user] Higher.", "even"],
        )
        self.assertEqual(shown[-2:], ["(done)", 'GuessNumber: {"reward": 0.5}'])

    def test_a_reward_from_lines(self):
        lines = '/user What is 2 + 2?\n/row {"answer": "4"}\nIt is 4.\n/score\n'
        done = run("try", "my_rewards:right_number", given=lines)
        self.assertEqual(done.stdout.splitlines()[1:], ['right_number: {"reward": 1.0}'])

    def test_the_readmes_transcript(self):
        with open(os.path.join(ATTACH, "README.md"), encoding="utf-8") as file:
            blocks = file.read().split("```")
        lines = blocks[1].split("printf '")[1].split("' |")[0].replace("\\n", "\n")
        self.assertEqual(run("try", "my_game:Corridor", given=lines).stdout, blocks[3].lstrip("\n"))

    def test_what_fails_is_shown_and_is_the_exit_status(self):
        done = run("try", "--verbose", "my_tools:convert", given="/call nothing\n/dance\n/call convert {\n/quit\n")
        self.assertEqual(done.returncode, 1)
        for words in (
            "! protocol.bad_params: There is no tool 'nothing'",
            "! there is no command /dance",
            "! that is no JSON",
            '> {"id":2',
        ):
            self.assertIn(words, done.stdout)
        done = run("try", "nowhere:x")
        self.assertEqual(done.returncode, 1)
        self.assertIn("No module named 'nowhere'", done.stdout)

    def test_wrong_use(self):
        self.assertEqual(run("serve").returncode, 2)
        self.assertEqual(run("serve", "a:b", "--episodes", "0").returncode, 2)


class WheelTest(unittest.TestCase):
    def test_the_wheel_holds_the_package_and_works(self):
        with tempfile.TemporaryDirectory() as folder:
            command = "import build_backend, sys; print(build_backend.build_wheel(sys.argv[1]))"
            build = [sys.executable, "-B", "-c", command, folder]
            name = subprocess.run(build, cwd=PACKAGE, capture_output=True, text=True, check=True).stdout.strip()
            path = os.path.join(folder, name)
            with zipfile.ZipFile(path) as wheel:
                names = wheel.namelist()
                first = {n: wheel.read(n) for n in names}
            self.assertIn("stoker_env/py.typed", names)
            self.assertIn("stoker_env/adapters/trl.py", names)
            self.assertFalse([n for n in names if "test" in n or n.endswith(".pyc")])
            subprocess.run(build, cwd=PACKAGE, capture_output=True, check=True)
            with zipfile.ZipFile(path) as wheel:
                self.assertEqual({n: wheel.read(n) for n in wheel.namelist()}, first)
            use = [sys.executable, "-c", "import stoker_env; print(stoker_env.__file__)"]
            shown = subprocess.run(
                use, cwd=folder, env={"PYTHONPATH": path}, capture_output=True, text=True, check=True
            )
            self.assertIn(name, shown.stdout)


class CompatibilityTest(unittest.TestCase):
    def test_the_grammar_is_that_of_python_3_9(self):
        for path in OWN_SOURCES:
            with self.subTest(path=path), open(path, encoding="utf-8") as file:
                ast.parse(file.read(), path, feature_version=(3, 9))

    def test_no_union_operator_on_types(self):
        """`X | None` in an annotation fails in Python 3.9 when the function is defined."""
        for path in OWN_SOURCES:
            with open(path, encoding="utf-8") as file:
                tree = ast.parse(file.read(), path)
            for node in ast.walk(tree):
                annotations = [getattr(node, "annotation", None), getattr(node, "returns", None)]
                for inner in [n for a in annotations if a is not None for n in ast.walk(a)]:
                    self.assertFalse(isinstance(inner, ast.BinOp), "%s:%d" % (path, getattr(inner, "lineno", 0)))

    def test_only_pythons_own_modules_are_imported(self):
        names = getattr(sys, "stdlib_module_names", None)
        if names is None:
            self.skipTest("Python 3.10 and later know the names of their own modules")
        for path in OWN_SOURCES:
            with open(path, encoding="utf-8") as file:
                tree = ast.parse(file.read(), path)
            for node in ast.walk(tree):
                imported = [a.name for a in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.level == 0:
                    imported = [node.module]
                for name in imported:
                    self.assertIn(name.split(".")[0], names, path)


if __name__ == "__main__":
    unittest.main()
