"""How threads share the cores, and the interpreter."""

import contextlib
import os
import sys

from engine.graph.execution import ExecutionGraph
from engine.graph.source import SourceOperator
from engine.system import usable_cores


def is_bulk(graph: ExecutionGraph) -> bool:
    """Whether all sources have their records at once and no rate: throughput is what counts."""
    firsts = (vertex.operators[0].operator for vertex in graph.job.vertices)
    sources = (first.properties for first in firsts if isinstance(first, SourceOperator))
    return all(each.never_waits and each.rate is None for each in sources)


def take_turns(tasks: int) -> None:
    """Have the calling thread wait for its turn when it is woken and all cores are at work.

    That is where there are more tasks than cores. Else each wake-up takes the core from the task
    that works, for the few records that are there: columns at parallelism 2 on two cores cost a
    fifth less CPU this way. With a core for each task, one that is woken had better go on at once:
    counts of words of 1 kB are a tenth faster. What it starts from here on does the same. Nothing
    happens where the kernel has no such policy, or the thread has one already.
    """
    with contextlib.suppress(AttributeError, OSError):
        is_crowded = tasks > usable_cores()
        if is_crowded and os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def share_interpreter() -> None:
    """Have the threads of this process hand the interpreter (the GIL) on soon to one that asks.

    A thread insists once it has waited for an interval in which nobody gave the interpreter up. A
    function that does so for a moment only, such as by `os.stat` in each batch, begins that anew
    each time, and holds it again before the other thread is awake: with the usual interval of 5 ms,
    a savepoint of 90 MB took 36 s instead of 1. Where no thread waits, nobody looks at it;
    `map_async`, whose calls have a thread of their own, makes a tenth fewer calls in a second.
    """
    sys.setswitchinterval(_INTERVAL_SECONDS)


_INTERVAL_SECONDS = 0.5e-3
"""Shorter than a task takes for most batches, many times as long as a thread takes to wake up."""
