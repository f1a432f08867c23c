"""What the tests share: paths, and a client whose process serves a module of theirs."""

import os
import sys
import tempfile
import textwrap
import unittest

TESTS = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(TESTS)
ROOT = os.path.dirname(PACKAGE)
EXAMPLES = os.path.join(ROOT, "examples")
ATTACH = os.path.join(EXAMPLES, "attach")
sys.path[:0] = [PACKAGE, ATTACH]

import stoker_env.client  # noqa: E402
from stoker_env.client import RequestError  # noqa: E402


class Client(stoker_env.client.Client):
    """Waits for the end of its process however long a loaded machine takes over it."""

    def close(self, timeout=None):
        return super().close(timeout)


class ServedTest(unittest.TestCase):
    """Serves a module written by the test in a folder of its own."""

    def serve(self, source, *names, options=()):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        with open(os.path.join(folder.name, "served.py"), "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(source))
        self.stderr = open(os.path.join(folder.name, "stderr"), "wb+")
        self.addCleanup(self.stderr.close)
        specs = [name if ":" in name else "served:" + name for name in names]
        client = Client(specs, folder=folder.name, stderr=self.stderr, options=options)
        self.addCleanup(client.close)
        return client

    def greet(self, source, *names, options=()):
        client = self.serve(source, *names, options=options)
        client.hello()
        return client

    def stderr_text(self):
        self.stderr.seek(0)
        return self.stderr.read().decode()

    def error(self, client, method, params, **options):
        with self.assertRaises(RequestError) as raised:
            client.request(method, params, **options)
        return raised.exception.error
