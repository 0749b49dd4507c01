"""How threads of tasks are scheduled."""

import os
import subprocess
import sys
from typing import Any

import pytest

from engine import testing
from operators import Stream, source
from operators.sinks import Collect
from operators.sources import Collection, Function

pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="Linux schedules so")


def policy(_record: object) -> int:
    return os.sched_getscheduler(0)


def seen(stream: Stream[Any]) -> set[int]:
    """What all tasks of a job saw, in the chain of the source and behind a shuffle."""
    policies = stream.map(policy).rebalance().flat_map(lambda one: [one, policy(one)])
    return set(testing.run(policies.sink(Collect()), parallelism=2)["collect"])


def waiting() -> Function[int]:
    return Function(lambda: iter([1, 2]))


def test_tasks_take_turns_where_only_throughput_counts() -> None:
    assert seen(source(Collection([1, 2]))) == {os.SCHED_BATCH}


def test_tasks_work_at_once_where_records_come_in_their_time() -> None:
    ours = {policy(None)}
    assert seen(source(Collection([1, 2], rate=1000))) == ours
    assert seen(source(waiting())) == ours
    assert seen(source(Collection([1, 2])).union(source(waiting()))) == ours


TURNS_BESIDE = """
import os, sys, threading, time
from engine.runtime.scheduling import share_interpreter
if sys.argv[1] == "shared":
    share_interpreter()
turns = 0
def other():
    global turns
    while True:
        time.sleep(0)  # gives the interpreter up, and asks for it anew
        turns += 1
threading.Thread(target=other, daemon=True).start()
ended = time.monotonic() + 1.5
while time.monotonic() < ended:
    sum(range(100_000))  # some two milliseconds that hold the interpreter
    os.stat("/")  # and a moment that does not
print(turns)
"""


def test_a_function_that_gives_the_interpreter_up_for_moments_does_not_keep_others_out() -> None:
    def turns(how: str) -> int:
        done = subprocess.run(
            [sys.executable, "-c", TURNS_BESIDE, how], capture_output=True, text=True, check=True
        )
        return int(done.stdout)

    assert turns("shared") > 5 * turns("usual")
