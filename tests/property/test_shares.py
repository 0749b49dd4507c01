"""Sources that are stopped anywhere and go on with other tasks: each record comes once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from engine.graph.context import TaskContext
from engine.graph.source import SourceOperator, SourceReader
from engine.graph.watermark import END_OF_TIME, Watermark
from engine.task.source.reading import ENDED, Position
from engine.task.source.shares import Shares


class Lists(SourceOperator[Any]):
    """A list for each share; a reader at its end would begin anew, as one with a duration does."""

    def __init__(self, *lists: list[Any]) -> None:
        self.lists = lists
        self.ended: list[int] = []

    def open(self, context: TaskContext) -> SourceReader:
        assert context.parallelism == len(self.lists)
        assert context.index not in self.ended
        return _List(self, context.index)


class _List(SourceReader):
    def __init__(self, of: Lists, share: int) -> None:
        self._of = of
        self._share = share
        self._next = 0

    @property
    def position(self) -> int | None:
        return self._next or None

    def restore(self, position: int | None) -> None:
        self._next = position or 0

    def __iter__(self) -> Iterator[Any]:
        for item in self._of.lists[self._share][self._next :]:
            self._next += 1
            yield item
        self._of.ended.append(self._share)


def context(index: int, parallelism: int) -> TaskContext:
    return TaskContext(f"t[{index}]", index, parallelism, 10, "job")


starts = st.lists(
    st.tuples(st.integers(1, 6), st.lists(st.integers(0, 9), min_size=6, max_size=6)), max_size=4
)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), starts)
def test_each_record_comes_once_and_in_its_shares_order(
    lengths: list[int], starts: list[tuple[int, list[int]]]
) -> None:
    source = Lists(*([(share, n) for n in range(count)] for share, count in enumerate(lengths)))
    came: list[tuple[int, int]] = []
    positions: dict[int, Position] = {}
    for parallelism, cuts in [*starts, (2, [100] * 2)]:
        after: dict[int, Position] = {}
        for index in range(parallelism):
            own = {share: at for share, at in positions.items() if share % parallelism == index}
            shares = Shares(source, context(index, parallelism), len(lengths), own)
            items = iter(shares)
            came += [item for _, item in zip(range(cuts[index]), items, strict=False)]
            after |= shares.positions
        assert after.keys() == set(range(len(lengths)))
        positions = after
    assert sorted(came) == sorted(item for each in source.lists for item in each)
    for share, expected in enumerate(source.lists):
        assert [item for item in came if item[0] == share] == expected
    assert positions == dict.fromkeys(range(len(lengths)), ENDED)


def test_several_shares_take_turns() -> None:
    shares = Shares(Lists([1, 2, 3], [], [4]), context(0, 1), 3, {})
    assert list(shares) == [1, 4, 2, 3]


def test_a_task_without_a_share_has_nothing() -> None:
    shares = Shares(Lists([1]), context(1, 2), 1, {})
    assert list(shares) == []
    assert shares.positions == {}


@given(st.integers(1, 9), st.integers(1, 9))
def test_tasks_have_the_whole_rate_of_the_source(count: int, parallelism: int) -> None:
    source = Lists(*[[]] * count)
    parts = [
        Shares(source, context(index, parallelism), count, {}).part for index in range(parallelism)
    ]
    assert abs(sum(parts) - 1) < 1e-9


ITEMS = st.one_of(st.integers(1, 9), st.builds(Watermark, st.integers(1, 9) | st.none()))


@given(st.lists(st.lists(ITEMS, max_size=6), min_size=2, max_size=4))
def test_a_watermark_is_that_of_the_share_that_is_furthest_behind(given: list[list[Any]]) -> None:
    lists = [_made_true(each) for each in given]
    told = -END_OF_TIME
    for item in Shares(Lists(*lists), context(0, 1), len(lists), {}):
        if isinstance(item, Watermark):
            told = told if item.time_us is None else item.time_us
        elif item[1]:
            assert item[0] > told


def _made_true(items: list[Any]) -> list[Any]:
    """Records (time, whether the share was busy) later than the watermarks before them."""
    made: list[Any] = []
    time, busy = 0, True
    for item in items:
        if isinstance(item, Watermark):
            busy = item.time_us is not None
            if item.time_us is not None:
                time = max(time, item.time_us)
                item = Watermark(time)
            made.append(item)
        else:
            made.append((time + item, busy))
    return made
