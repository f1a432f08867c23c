"""How a program of a peer talks with models.py: it says "ready" once it has warmed up, then measures for each line that it is sent,
answers with one line of JSON, and is idle in between. What libraries print goes to standard error."""
import json
import os
import sys
import time

_answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def _say(line):
    print(line, file=_answers, flush=True)


def serve(measure):
    """Calls measure(), which gives figures, for each line."""
    _say("ready")
    for _ in sys.stdin:
        _say(json.dumps(measure()))


class Steps:
    """The same where a library runs the loop and calls ended() after each step: the steps a second of the fastest of COUNT, after
    WARM_UP steps that do not count. Ends the process when there is nothing more to measure."""

    WARM_UP, COUNT = 3, 5

    def __init__(self):
        self._ends, self._begun = [], False

    def ended(self):
        self._ends.append(time.perf_counter())
        if len(self._ends) <= (self.COUNT if self._begun else self.WARM_UP):
            return
        if self._begun:
            _say(json.dumps({"step": 1 / min(b - a for a, b in zip(self._ends, self._ends[1:]))}))
        else:
            _say("ready")
        self._begun = True
        if not sys.stdin.readline():
            os._exit(0)  # the library's threads would hold up the end
        self._ends = [time.perf_counter()]
