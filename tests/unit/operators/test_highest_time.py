"""What times are believed: one wrong record must not end all windows, and a real gap must."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from operators.event_time.highest_time import HighestTime

HOUR = 3_600_000_000
DAY = 24 * HOUR
NOW = int(datetime(2026, 11, 22, tzinfo=timezone.utc).timestamp()) * 1_000_000
LONG_AGO = int(datetime(2015, 1, 1, tzinfo=timezone.utc).timestamp()) * 1_000_000
SENTINEL = int(datetime(9999, 12, 31, tzinfo=timezone.utc).timestamp()) * 1_000_000


def highest() -> HighestTime:
    return HighestTime(DAY, wall_us=lambda: NOW)


def seen(*batches: list[int]) -> list[int | None]:
    """The highest time after each batch."""
    time = highest()
    found = []
    for batch in batches:
        time.see(batch)
        found.append(time.value)
    return found


def test_it_is_the_highest_so_far() -> None:
    assert seen([5, 7, 6], [3], [8], [DAY + 8]) == [7, 7, 8, DAY + 8]


def test_a_time_that_is_no_time_is_never_believed_however_often_it_comes() -> None:
    time = highest()
    time.see([LONG_AGO, SENTINEL])
    time.see([LONG_AGO])
    for at in range(0, 50 * HOUR, HOUR):
        time.see([SENTINEL] * 5)
        time.see([LONG_AGO + at, SENTINEL])
        assert time.value == LONG_AGO + at
    assert time.disbelieved == 50 * 6 + 1


def test_times_in_a_wrong_unit_are_never_believed() -> None:
    assert seen([NOW * 1000], [NOW * 1000] * 9, [NOW * 1000]) == [None, None, None]


def test_clocks_of_live_data_may_be_ahead_by_a_day() -> None:
    assert seen([NOW] * 2, [NOW + DAY], [NOW + DAY + 1] * 3) == [NOW, NOW + DAY, NOW + DAY]


def test_one_record_of_today_does_not_end_a_replay() -> None:
    time = highest()
    time.see([LONG_AGO + 1])
    for at in range(2, 100):
        time.see([NOW])
        time.see([NOW + 1, LONG_AGO + at])
        assert time.value == LONG_AGO + at
    assert time.disbelieved == 2 * 98


def test_a_gap_is_believed_when_three_in_a_row_are_behind_it() -> None:
    after = LONG_AGO + 3 * DAY
    assert seen([LONG_AGO] * 2, [after + 1], [after], [after + 2], [after + 3]) == [
        *[LONG_AGO] * 3,
        after + 2,
        after + 3,
    ]
    time = highest()
    time.see([LONG_AGO, after, after + 1, after + 2])
    assert (time.value, time.disbelieved) == (after + 2, 0)


def test_behind_a_gap_the_least_of_the_three_counts() -> None:
    assert seen([0], [90 * DAY, 5 * DAY, 5 * DAY + 1], [5 * DAY + 2]) == [
        0,
        5 * DAY + 1,
        5 * DAY + 2,
    ]


def test_times_that_are_farther_apart_than_that_are_two_records_behind() -> None:
    weekly = [week * 7 * DAY for week in range(8)]
    assert seen(*([time] for time in weekly)) == [0, 0, 0, *weekly[1:6]]


def test_the_first_batch_begins_with_its_least() -> None:
    assert seen([NOW, LONG_AGO, LONG_AGO + 1]) == [LONG_AGO + 1]
    assert seen([LONG_AGO, LONG_AGO + 1, NOW], [LONG_AGO + 2]) == [LONG_AGO + 1, LONG_AGO + 2]
    assert seen([NOW, NOW, NOW]) == [NOW]


def test_a_first_record_that_comes_alone_is_not_believed_alone() -> None:
    """Whoever is second decides; a third of each kind changes nothing."""
    later = LONG_AGO + 30 * DAY
    assert seen([later], [LONG_AGO], [LONG_AGO + 1]) == [None, LONG_AGO, LONG_AGO + 1]
    assert seen([LONG_AGO], [later], [LONG_AGO + 1]) == [None, LONG_AGO, LONG_AGO + 1]
    assert seen([LONG_AGO + 5], [LONG_AGO]) == [None, LONG_AGO + 5]
    assert seen([SENTINEL], [LONG_AGO], [SENTINEL], [LONG_AGO]) == [None, None, None, LONG_AGO]
    time = highest()
    for each in (later, LONG_AGO):
        time.see([each])
    assert time.disbelieved == 1


def test_near_1970_the_first_is_believed_alone() -> None:
    """No other can be far behind it; nor behind the time of a checkpoint, which others led to."""
    assert seen([DAY], [0]) == [DAY, DAY]
    assert seen([0], [1]) == [0, 1]
    time = highest()
    time.go_on_from(LONG_AGO)
    assert time.value == LONG_AGO
    time.see([LONG_AGO + 40 * DAY])
    assert time.value == LONG_AGO


def test_the_wall_clock_goes_on() -> None:
    now = NOW
    time = HighestTime(DAY, wall_us=lambda: now)
    time.go_on_from(now)
    for _ in range(100):
        time.see([now])
        assert time.value == now
        now += HOUR
    time.see([now + DAY + 1])
    assert (time.value, time.disbelieved) == (now - HOUR, 1)


@pytest.mark.parametrize("times", [[5], [5, 2**70, -(2**70)], [2**200 - 1]])
def test_all_are_believed_where_there_is_no_limit(times: list[int]) -> None:
    time = HighestTime(None)
    time.see(times)
    assert (time.value, time.disbelieved) == (max(times), 0)


def test_a_day_is_the_default() -> None:
    from operators.event_time import A_DAY

    assert timedelta(days=1) == A_DAY
