"""Which thread reads, what counts as quick, and lines that are written together."""

import os
import random
import threading
import unittest
from unittest import mock

import support  # noqa: F401
from stoker_env import reading
from stoker_env.output import LineReader, LineWriter
from stoker_env.protocol import WireError
from stoker_env.workers import Pace


class ReadingTest(unittest.TestCase):
    def test_another_thread_reads_on_where_work_takes_long(self):
        release, first_over = threading.Event(), threading.Event()
        seen = []

        def read(turn):
            seen.append(turn)
            if turn == 0:
                seen.append(r.holds(0))
                r.work(release.wait)
                seen.append(r.holds(0))
                first_over.set()
            else:
                release.set()
                first_over.wait()
                seen.append(r.holds(1))
                r.work(lambda: None)
                seen.append(r.holds(1))
                r.end()

        r = reading.Reading(read)
        r.watch()
        self.assertEqual(seen, [0, True, 1, False, True, True])

    def test_short_work_leaves_the_turn_where_it_is(self):
        turns = []

        def read(turn):
            for _ in range(1000):
                r.work(lambda: turns.append(r.holds(turn)))
            r.end()

        r = reading.Reading(read)
        r.watch()
        self.assertIn(True, turns)

    def test_work_that_raises_is_over(self):
        def read(turn):
            try:
                r.work(lambda: 1 / 0)
            except ZeroDivisionError:
                over.append(r._work)
            r.end()

        over = []
        r = reading.Reading(read)
        r.watch()
        self.assertEqual(over, [None])

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

    def test_a_function_is_not_quick_while_a_call_of_the_reading_thread_lasts(self):
        pace = Pace()
        for _ in range(16):
            pace.took(0.0)
        pace.enter()
        self.assertFalse(pace.is_quick)
        pace.leave()
        self.assertTrue(pace.is_quick)

    def test_one_slow_call_among_many_changes_nothing(self):
        pace = Pace()
        for _ in range(100):
            pace.took(0.0)
        pace.took(5.0)
        self.assertTrue(pace.is_quick)
        pace.took(5.0)
        self.assertFalse(pace.is_quick)


class LineReaderTest(unittest.TestCase):
    def lines(self, pieces, limit):
        """What a reader gives of a stream that comes in pieces; None in place of a line that is too long."""
        source, sink = os.pipe()
        try:
            reader = LineReader(source, limit)
            lines = []
            for piece in pieces + [b""]:
                if piece:
                    os.write(sink, piece)
                else:
                    os.close(sink)
                reader.read()
                while True:
                    try:
                        line = reader.next_line()
                    except WireError as error:
                        self.assertEqual(error.reason, "too_large")
                        line = b"too long"
                    if line is None:
                        break
                    lines.append(line)
            self.assertTrue(reader.ended)
            return lines
        finally:
            os.close(source)

    def test_gives_the_same_lines_however_they_come(self):
        draw = random.Random(1)
        for _ in range(300):
            limit = draw.choice([4, 9, 40])
            words = [draw.choice([b"", b" ", b"\t\r", b"a" * draw.randrange(60)]) for _ in range(draw.randrange(8))]
            stream = b"\n".join(words)
            expected = [b"too long" if len(word) >= limit else word for word in words[:-1]]
            # A last line without its line feed counts only where it is too long already.
            expected += [b"too long"] if words and len(words[-1]) >= limit else []
            cuts = sorted(draw.choices(range(len(stream) + 1), k=draw.randrange(6)))
            pieces = [stream[a:b] for a, b in zip([0] + cuts, cuts + [len(stream)]) if a < b]
            self.assertEqual(self.lines(pieces, limit), [line for line in expected if line.strip()])


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

    def on_another_thread(self, work, *arguments):
        other = threading.Thread(target=work, args=arguments)
        other.start()
        other.join()

    def test_lines_of_one_thread_wait_for_flush_or_for_those_of_another(self):
        self.writer.write(b"1\n")
        self.assertEqual(self.read(), b"1\n")
        self.writer.collect()
        self.writer.write(b"2\n")
        self.writer.write(b"3\n")
        self.assertEqual(self.read(), b"")
        self.assertTrue(self.writer.has_lines)
        self.writer.flush()
        self.assertFalse(self.writer.has_lines)
        self.assertEqual(self.read(), b"2\n3\n")
        self.writer.write(b"4\n")
        self.on_another_thread(self.writer.write, b"5\n")
        self.assertEqual(self.read(), b"4\n5\n")

    def test_lines_are_overdue_after_a_millisecond(self):
        self.writer.collect()
        with mock.patch("time.monotonic", lambda: 5.0):
            self.assertFalse(self.writer.is_overdue)
            self.writer.write(b"1\n")
            self.assertFalse(self.writer.is_overdue)
        with mock.patch("time.monotonic", lambda: 5.002):
            self.writer.write(b"2\n")
            self.assertTrue(self.writer.is_overdue)
            self.writer.flush()
            self.assertFalse(self.writer.is_overdue)

    def test_who_collects_next_writes_the_lines_of_the_one_before(self):
        self.writer.collect()
        self.writer.write(b"1\n")
        self.on_another_thread(self.writer.collect)
        self.assertTrue(self.writer.has_lines)
        self.writer.write(b"2\n")
        self.assertEqual(self.read(), b"1\n2\n")

    def test_a_full_pipe_holds_up_one_thread_and_close_none(self):
        stuck = threading.Thread(target=self.writer.write, args=(b"x" * 300_000 + b"\n",))
        stuck.start()
        while self.writer._lines or not self.writer._writing:
            pass
        self.writer.write(b"1\n")
        self.writer.flush()
        received = bytearray()
        while not received.endswith(b"1\n"):
            received += self.read()
        stuck.join()
        self.assertEqual(bytes(received), b"x" * 300_000 + b"\n1\n")

    def test_the_own_thread_sleeps_while_others_write(self):
        self.test_a_full_pipe_holds_up_one_thread_and_close_none()  # what starts it
        path = "/proc/self/task/%d/status" % self.writer._own.native_id

        def switches():
            with open(path) as status:
                return next(line for line in status if line.startswith("voluntary_ctxt_switches"))

        while self.writer._left or self.writer._writing:
            pass
        before = None
        while before != switches():  # until it is asleep
            before = switches()
            threading.Event().wait(0.05)
        for _ in range(100):
            self.writer.write(b"1\n")
            threading.Event().wait(0.0005)
        self.assertEqual(switches(), before)
        self.assertEqual(self.read(), b"1\n" * 100)

    def test_a_write_that_raises_silences_nobody(self):
        with mock.patch("os.write", side_effect=MemoryError):
            self.assertRaises(MemoryError, self.writer.write, b"1\n")
        self.writer.write(b"2\n")
        self.assertEqual(self.read(), b"2\n")

    def test_close_gives_who_writes_its_time(self):
        stuck = threading.Thread(target=self.writer.write, args=(b"x" * 300_000,))
        stuck.start()
        while not self.writer._writing:
            pass
        closer = threading.Thread(target=self.writer.close, args=(1000,))
        closer.start()
        received = 0
        while received < 300_000:
            received += len(self.read())
        closer.join()
        stuck.join()
        self.assertTrue(self.writer.broken)

    def test_very_many_lines_wait_until_there_is_room(self):
        line = b"x" * 1023 + b"\n"
        writers = [threading.Thread(target=lambda: [self.writer.write(line) for _ in range(2000)]) for _ in range(3)]
        for writer in writers:
            writer.start()
        most, received = 0, 0
        while received < 6000 * 1024:
            most = max(most, len(self.writer._lines))
            received += len(self.read())
        for writer in writers:
            writer.join()
        self.assertLessEqual(most, LineWriter._MOST_BYTES + 3 * 1024)

    def test_close_lets_those_go_that_wait_for_room(self):
        writers = [threading.Thread(target=self.writer.write, args=(b"x" * (2 << 20),)) for _ in range(3)]
        for writer in writers:
            writer.start()
        while sum(writer.is_alive() for writer in writers) > 2 or len(self.writer._lines) <= LineWriter._MOST_BYTES:
            pass  # one writes, one has left its line to it, one waits for room
        self.writer.close()
        while any(writer.is_alive() for writer in writers):
            self.read()  # whoever is in the system call comes back from it
        self.writer.write(b"1\n")
        self.assertFalse(self.writer.has_lines)


if __name__ == "__main__":
    unittest.main()
