"""What a task's messages say of channels: which tasks they join, and where these are."""

from __future__ import annotations

import pytest

from engine.config import JobConfig
from engine.driver.wiring import channel_in_words, describe_tasks
from engine.placement.nodes import Node
from engine.placement.place import place
from engine.plan import Plan
from operators import source
from operators.sinks import Discard
from operators.sources import Collection

CONFIG = JobConfig(parallelism=2)
PLAN = Plan.of(source(Collection([1])).rebalance().map(abs).sink(Discard()), CONFIG)
PLACEMENT = place(
    PLAN.execution,
    [
        Node(2 * "5c0ffee4" * 3, "10.0.0.1", {"cpus": 2.0}, "10.0.0.1 (rack-1)"),
        Node(2 * "5c0ffee8" * 3, "10.0.0.2", {"cpus": 2.0}),
    ],
)
TASKS = describe_tasks(PLAN.execution, PLACEMENT, CONFIG)


@pytest.mark.parametrize("channel", PLAN.execution.channels, ids=lambda each: str(each.id))
@pytest.mark.parametrize("peer", ["tcp://0mQ:x%y@10.0.0.2:4711", "shm:///tmp/oka-job/0.shm"])
@pytest.mark.parametrize("before", ["", "model 'm': "])
def test_a_lost_channel_is_called_by_the_tasks_at_its_ends(
    channel: object, peer: str, before: str
) -> None:
    source_index, target_index = channel.source % 2, channel.target % 2  # type: ignore[attr-defined]
    number = channel.id  # type: ignore[attr-defined]
    error = f"{before}channel {number} to {peer} was lost: it is gone\n\nhint: look"
    assert channel_in_words(error, PLAN.execution, TASKS) == (
        f"{before}the channel from task collection[{source_index}] on 10.0.0.1 (rack-1) to task "
        f"map -> discard[{target_index}] on 10.0.0.2 was lost: it is gone\n\nhint: look"
    )


@pytest.mark.parametrize("error", ["model 'm' is lost", "channel 99 to tcp://k@h:1 was lost: gone"])
def test_other_words_stay(error: str) -> None:
    assert channel_in_words(error, PLAN.execution, TASKS) == error
