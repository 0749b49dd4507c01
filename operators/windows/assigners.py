"""Assigners of records to windows: by time, by pauses between records, or by number.

A window of time has all records from its start on, and none from its end on. It is complete when
the watermark says that all further records are at its end or later.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypeAlias, get_args

from engine.errors import GraphError
from engine.graph.checks import check_integer
from operators.durations import ZERO, check_duration, microseconds
from operators.windows.zones import zone_of


@dataclass(frozen=True)
class Tumbling:
    """Windows of one size, each of which begins at the end of the one before: a record is in one.

    They begin at multiples of `size` since 1970 in UTC, and `offset`:
    `Tumbling(timedelta(days=1), offset=timedelta(hours=-2))` are days of a zone that is two hours
    ahead. Where clocks change, `Calendar("day", "Europe/Berlin")` knows.
    """

    size: timedelta
    offset: timedelta = ZERO

    def __post_init__(self) -> None:
        check_duration("Tumbling(): size", self.size)
        check_duration("Tumbling(): offset", self.offset, least=None)

    @property
    def slide(self) -> timedelta:
        """The time from the start of a window to that of the next."""
        return self.size


@dataclass(frozen=True)
class Sliding:
    """Windows of one size, of which one begins every `slide`: a record is in several.

    They begin at multiples of `slide` since 1970 in UTC, and `offset`. With a slide longer than the
    size (hopping windows with gaps) a record is in one window or in none: `Sliding(minute, hour)`
    are the first minutes of all hours, and other records are left out.
    """

    size: timedelta
    slide: timedelta
    offset: timedelta = ZERO

    def __post_init__(self) -> None:
        check_duration("Sliding(): size", self.size)
        check_duration("Sliding(): slide", self.slide)
        check_duration("Sliding(): offset", self.offset, least=None)


Period: TypeAlias = Literal["day", "week", "month", "quarter", "year"]
"""What `Calendar` counts."""


@dataclass(frozen=True)
class Calendar:
    """Days, weeks, months, quarters or years of a time zone: `Calendar("day", "Europe/Berlin")`.

    A window begins at midnight of its first day, as clocks of the zone say, and ends where the next
    begins: a day has 23 or 25 hours where clocks change. Weeks begin on Monday. Where clocks pass
    over midnight, it begins at the first moment of the new day. The rules are those of the
    machine's zone data (`zoneinfo`) for the years 1900 to 2200; outside of them clocks do not
    change. Times in records stay moments: numbers since 1970 in UTC, or datetimes.
    """

    period: Period
    zone: str = "UTC"

    def __post_init__(self) -> None:
        if self.period not in get_args(Period):
            raise GraphError(
                f"Calendar() got {self.period!r:.80}, expected one of "
                f"{', '.join(map(repr, get_args(Period)))}"
            )
        zone_of(self.zone)


@dataclass(frozen=True)
class Session:
    """Windows of a key that a pause ends: one begins with a record, and ends `gap` after its last.

    Records less than `gap` apart are in one window, those `gap` apart in two: no record is at the
    end of its window, as in all windows here, and in Beam's sessions. With `inclusive`, those `gap`
    apart are in one window, too, as in Flink, Kafka Streams and Bytewax. It has the same end, and
    is complete when the watermark has come to it. A record out of order between two windows may
    merge them.
    """

    gap: timedelta
    inclusive: bool = False

    def __post_init__(self) -> None:
        check_duration("Session(): gap", self.gap)
        if not isinstance(self.inclusive, bool):
            raise GraphError(f"Session() got inclusive={self.inclusive!r:.80}, expected a bool")


@dataclass(frozen=True)
class CountWindow:
    """Windows of `size` records of a key, in order of arrival; one begins every `slide` records.

    Without `slide` each begins at the end of the one before. They need no event time: a window's
    start and end are numbers of records, from 0 for the key's first one. So the job keeps the count
    of each key as long as it runs.
    """

    size: int
    slide: int | None = None

    def __post_init__(self) -> None:
        check_integer("CountWindow(): size", self.size, 1)
        if self.slide is None:
            return
        check_integer("CountWindow(): slide", self.slide, 1)
        if self.slide > self.size:
            raise GraphError(
                f"CountWindow() got slide={self.slide} and size={self.size}, expected no records "
                "between windows",
                hint="CountWindow(size) has windows that do not overlap",
            )


Assigner: TypeAlias = Tumbling | Sliding | Calendar | Session | CountWindow
"""Assigns records to windows."""


def in_words(assigner: Assigner) -> str:
    """A text of the windows' bounds, which is equal for equal windows.

    >>> in_words(Tumbling(timedelta(minutes=1))), in_words(CountWindow(5))
    ('0:01:00 every 0:01:00 from 0:00:00', '5 records every 5')
    >>> in_words(Sliding(timedelta(minutes=1), timedelta(minutes=1), timedelta(minutes=3)))
    '0:01:00 every 0:01:00 from 0:00:00'
    """
    if isinstance(assigner, CountWindow):
        return f"{assigner.size} records every {assigner.slide or assigner.size}"
    if isinstance(assigner, Session):
        kind = "inclusive sessions" if assigner.inclusive else "sessions"
        return f"{kind} with a gap of {assigner.gap}"
    if isinstance(assigner, Calendar):
        return f"{assigner.period}s of {assigner.zone}"
    return f"{assigner.size} every {assigner.slide} from {assigner.offset % assigner.slide}"


@dataclass(frozen=True)
class Every:
    """Results of open windows: each one that changed, once in this much time of the clock.

    Later changes come when the window is complete.
    """

    period: timedelta

    def __post_init__(self) -> None:
        check_duration("Every(): period", self.period)


def first_start(windows: Tumbling | Sliding, time_us: int) -> int:
    """The start of the first window that has this time."""
    size, slide, offset = map(microseconds, (windows.size, windows.slide, windows.offset))
    last = time_us - (time_us - offset) % slide
    return last - (size - 1 - (time_us - last)) // slide * slide
