"""Which thread reads, what counts as quick, and lines that are written together."""

import os
import threading
import unittest
from unittest import mock

import support  # noqa: F401
from stoker_env import reading
from stoker_env.output import LineWriter
from stoker_env.workers import Pace


class ReadingTest(unittest.TestCase):
    def test_another_thread_reads_on_where_work_takes_long(self):
        release, first_over = threading.Event(), threading.Event()
        seen = []

        def read(turn):
            seen.append(turn)
            if turn == 0:
                self.assertTrue(r.holds(0))
                r.work(release.wait)
                seen.append(r.holds(0))
                first_over.set()
            else:
                release.set()
                first_over.wait()
                self.assertTrue(r.holds(1))
                r.work(lambda: None)
                self.assertTrue(r.holds(1))
                r.end()

        r = reading.Reading(read)
        r.watch()
        self.assertEqual(seen, [0, 1, False])

    def test_short_work_leaves_the_turn_where_it_is(self):
        turns = []

        def read(turn):
            for _ in range(1000):
                r.work(lambda: turns.append(r.holds(turn)))
            r.end()

        r = reading.Reading(read)
        r.watch()
        self.assertIn(True, turns)

    def test_work_after_a_long_rest_is_watched(self):
        release = threading.Event()

        def read(turn):
            if turn == 0:
                while not r._asleep:
                    pass
                r.work(release.wait)
            else:
                release.set()
                r.end()

        r = reading.Reading(read)
        with mock.patch.object(reading, "_IDLE_TICKS", 1):
            r.watch()
        self.assertTrue(release.is_set())

    def test_the_end_is_seen_while_nothing_is_done(self):
        def read(turn):
            while not r._asleep:
                pass
            r.end()

        r = reading.Reading(read)
        with mock.patch.object(reading, "_IDLE_TICKS", 1):
            r.watch()
        self.assertFalse(r.holds(0))


class PaceTest(unittest.TestCase):
    def test_a_function_is_quick_after_eight_quick_calls(self):
        pace = Pace()
        for _ in range(7):
            pace.took(0.0009)
            self.assertFalse(pace.is_quick)
        pace.took(0.001)
        for _ in range(8):
            self.assertFalse(pace.is_quick)
            pace.took(0.0)
        self.assertTrue(pace.is_quick)
        pace.took(5.0)
        self.assertFalse(pace.is_quick)

    def test_one_slow_call_among_many_changes_nothing(self):
        pace = Pace()
        for _ in range(100):
            pace.took(0.0)
        pace.took(5.0)
        self.assertTrue(pace.is_quick)
        pace.took(5.0)
        self.assertFalse(pace.is_quick)


class LineWriterTest(unittest.TestCase):
    def setUp(self):
        self.source, sink = os.pipe()
        os.set_blocking(self.source, False)
        self.addCleanup(os.close, self.source)
        self.addCleanup(os.close, sink)
        self.writer = LineWriter(sink)

    def read(self):
        try:
            return os.read(self.source, 1 << 16)
        except BlockingIOError:
            return b""

    def test_lines_of_one_thread_are_collected_and_those_of_others_are_not(self):
        self.writer.write(b"1\n")
        self.assertEqual(self.read(), b"1\n")
        with mock.patch("time.monotonic", lambda: 5.0):
            self.writer.collect()
            self.writer.write(b"2\n")
            self.writer.write(b"3\n")
        self.assertEqual(self.read(), b"")
        other = threading.Thread(target=self.writer.write, args=(b"4\n",))
        other.start()
        other.join()
        self.assertEqual(self.read(), b"4\n")
        self.writer.flush()
        self.assertEqual(self.read(), b"2\n3\n")

    def test_collected_lines_wait_for_a_millisecond_and_for_who_collects_next(self):
        self.writer.collect()
        with mock.patch("time.monotonic", lambda: 5.0):
            self.writer.write(b"1\n")
        with mock.patch("time.monotonic", lambda: 5.002):
            self.writer.write(b"2\n")
        self.assertEqual(self.read(), b"1\n2\n")
        with mock.patch("time.monotonic", lambda: 6.0):
            self.writer.write(b"3\n")
        other = threading.Thread(target=self.writer.collect)
        other.start()
        other.join()
        self.assertEqual(self.read(), b"3\n")
        self.writer.write(b"4\n")
        self.assertEqual(self.read(), b"4\n")


if __name__ == "__main__":
    unittest.main()
