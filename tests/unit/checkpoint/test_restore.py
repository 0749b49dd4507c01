"""Which snapshots tasks go on with, at any parallelism; the oracle shares key by key."""

import random

import pytest

from engine.checkpoint import Manifest, SnapshotEntry, plan_restore
from engine.errors import CheckpointError
from engine.network import partition
from engine.state import KeyedState


def entries(operators, count, *, shares=0, finished=(), keys=(), sources=(), sinks=()):
    return tuple(
        SnapshotEntry(
            vertex=" -> ".join(operators),
            index=index,
            parallelism=count,
            finished=index in finished,
            shares=shares,
            files=(),
            operators=tuple(operators),
            keys=dict.fromkeys(keys, 3),
            sources=tuple(sources),
            sinks=tuple(sinks),
        )
        for index in range(count)
    )


def indexes(planned):
    return [[entry.index for entry in task.entries] for task in planned]


def plan(tasks, to, operators=("count",), **settings):
    return plan_restore(
        Manifest("job", 1, 1, tuple(tasks)), [(operators, i, to) for i in range(to)], **settings
    )


def test_same_parallelism_reads_its_own():
    assert indexes(plan(entries(["words", "count"], 3, shares=5), 3)) == [[0], [1], [2]]


def test_halves_and_doubles():
    assert indexes(plan(entries(["count"], 4), 2)) == [[0, 1, 2], [1, 2, 3]]
    assert indexes(plan(entries(["count"], 2), 4)) == [[0], [0, 1], [1], [1]]


@pytest.mark.parametrize("seed", range(40))
def test_every_key_share_and_output_is_read_by_its_task(seed):
    random_ = random.Random(seed)
    before, after, shares = (random_.randint(1, 9) for _ in range(3))
    shares = max(shares, before)
    keys = [random_.randrange(1 << 40) for _ in range(300)]
    planned = indexes(plan(entries(["count"], before, shares=shares), after))
    for key, old, new in zip(keys, partition(keys, before), partition(keys, after), strict=True):
        assert old in planned[new], (key, before, after)
    for share in range(shares):
        assert share % before in planned[share % after]
    for old in range(before):
        assert old in planned[old % after]
    kept = [
        KeyedState.of(
            (key, None) for key, old in zip(keys, partition(keys, before), strict=True) if old == i
        )
        for i in range(before)
    ]
    for index, read in enumerate(planned):
        share = KeyedState.share([kept[old] for old in read], index, after)
        whole = KeyedState.share(kept, index, after)
        assert sorted(share.items()) == sorted(whole.items())


def test_chain_that_was_split_reads_all_of_its_parts():
    tasks = entries(["words", "map"], 2, shares=2, sources=["words"]) + entries(["count"], 3)
    planned = plan_restore(
        Manifest("job", 1, 1, tasks), [(["words"], 0, 1), (["map", "count"], 0, 1)]
    )
    assert [[e.vertex for e in task.entries] for task in planned] == [
        ["words -> map"] * 2,
        ["words -> map"] * 2 + ["count"] * 3,
    ]


def test_task_of_finished_ones_has_finished():
    tasks = entries(["count"], 4, finished=(0, 1, 2))
    assert [task.finished for task in plan(tasks, 4)] == [True, True, True, False]
    assert [task.finished for task in plan(tasks, 2)] == [True, False]
    assert [task.finished for task in plan(tasks, 1, ("new",))] == [False]


def test_what_an_operator_kept_is_not_lost_in_silence():
    tasks = entries(["words", "count"], 1, keys=["count"], sources=["words"])
    tasks += entries(["lines"], 1, sinks=["lines"])
    with pytest.raises(CheckpointError) as raised:
        plan(tasks, 1, ("words", "tally"))
    assert "state of 3 keys of operator 'count'" in raised.value.message
    assert "so it is with 'lines'" in raised.value.message
    assert "is it now 'tally'?" in raised.value.hint
    assert "drop_state=['count', 'lines']" in raised.value.hint
    assert plan(tasks, 1, ("words",), drop=["count", "lines"])
    assert plan(tasks, 1, ("words",), drop=["count"], committed=True)
    with pytest.raises(CheckpointError, match="the position of a source of operator 'words'"):
        plan(tasks, 1, ("count", "lines"))


def test_state_without_keys_is_no_loss():
    tasks = entries(["count"], 1)
    assert plan(tasks, 1, ("tally",)) == plan((), 1, ("tally",))


def test_only_what_may_be_the_lost_operator_is_named_for_it():
    tasks = entries(["reduce-ca7c0123beef"], 1, keys=["reduce-ca7c0123beef"])
    new = ("json_lines-ca7c0123beef", "reduce-0123ca7cbeef", "totals", "map-aaaaaaaaaaaa-2")
    with pytest.raises(CheckpointError) as raised:
        plan(tasks, 1, new)
    assert "is it now 'reduce-0123ca7cbeef' or 'totals'?" in raised.value.hint
    with pytest.raises(CheckpointError) as raised:
        plan(tasks, 1, ("json_lines-ca7c0123beef",))
    assert "is it now" not in raised.value.hint
