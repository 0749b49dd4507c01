"""What `.window(...)` refuses, where it is said."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from engine import GraphError
from operators import (
    Accumulator,
    CountWindow,
    Every,
    Quantile,
    Session,
    Sliding,
    Stream,
    Top,
    Tumbling,
    WindowedStream,
    source,
)
from operators.sinks import Collect
from operators.sources import Collection

MINUTE = timedelta(minutes=1)
ZERO = timedelta(0)


def timed() -> Stream[Any]:
    return source(Collection([("a", 1)])).with_event_time(1)


def windowed(*arguments: Any, **settings: Any) -> WindowedStream[Any, Any]:
    return timed().key_by(0).window(*arguments, **settings)


class Nothing(Accumulator[Any, None, None]):
    def create(self) -> None: ...

    def add(self, accumulated: None, record: Any) -> None: ...

    def merge(self, left: None, right: None) -> None: ...


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: Tumbling(60), "Tumbling(): size is 60, expected a timedelta"),  # type: ignore[arg-type]
    (lambda: Tumbling(ZERO), "Tumbling(): size is datetime.timedelta(0), expected more than 0"),
    (lambda: Tumbling(-MINUTE), "Tumbling(): size is"),
    (lambda: Tumbling(MINUTE, 5), "offset is 5, expected a timedelta"),  # type: ignore[arg-type]
    (lambda: Sliding(MINUTE, 5), "slide is 5, expected a timedelta"),  # type: ignore[arg-type]
    (lambda: Sliding(MINUTE, ZERO), "slide is datetime.timedelta(0)"),
    (lambda: Session("1 minute"), "gap is '1 minute', expected a timedelta"),  # type: ignore[arg-type]
    (lambda: Session(-MINUTE), "Session(): gap is"),
    (lambda: CountWindow(0), "size is 0, expected an integer >= 1"),
    (lambda: CountWindow(2.5), "size is 2.5, expected an integer"),  # type: ignore[arg-type]
    (lambda: CountWindow(2, 3), "slide=3 and size=2"),
    (lambda: CountWindow(2, 0), "slide is 0, expected an integer >= 1"),
    (lambda: Quantile(1, 99), "Quantile() got 99, expected a number from 0 to 1"),
    (lambda: Quantile(1, "0.5"), "Quantile() got '0.5', expected a number"),  # type: ignore[arg-type]
    (lambda: windowed(Tumbling(MINUTE)).quantiles(1, []), "Quantiles() got [], expected a list"),
    (lambda: windowed(Tumbling(MINUTE)).quantiles(1, [0.5, True]), "got True, expected a number"),
    (lambda: Top(1, 0), "Top(): most is 0, expected an integer >= 1"),
    (lambda: Every(1.0), "Every(): period is 1.0, expected a timedelta"),  # type: ignore[arg-type]
    (lambda: windowed(MINUTE), "window() got datetime.timedelta(seconds=60), expected windows"),
    (lambda: windowed(Tumbling), "hint: Tumbling(timedelta(minutes=1)) is one"),
    (lambda: windowed(CountWindow), "hint: CountWindow(100) is one"),
    (lambda: windowed(int), "window() got int, expected windows"),
    (lambda: windowed(Tumbling(MINUTE), allowed_lateness=-MINUTE), "expected at least 0:00:00"),
    (lambda: windowed(Tumbling(MINUTE), allowed_lateness=5), "allowed_lateness is 5"),
    (lambda: windowed(Tumbling(MINUTE), emit="late"), "expected 'final', 'updates', Every"),
    (lambda: windowed(Tumbling(MINUTE), emit=Every), "window() got emit=Every"),
    (lambda: windowed(Tumbling(MINUTE), emit=[]), "window() got emit=[]"),
    (lambda: windowed(Tumbling(MINUTE), unit="h", time=1), "unit='h', expected one of"),
    (lambda: windowed(CountWindow(3), time=1), "window() got time and CountWindow(size=3"),
    (lambda: windowed(CountWindow(3), allowed_lateness=MINUTE), "got allowed_lateness and Count"),
    (lambda: windowed(Session(MINUTE)).reduce(5), "reduce() got int 5, expected a function"),
    (lambda: windowed(Session(MINUTE)).reduce(len), "expected a function of 2 arguments"),
    (lambda: windowed(Session(MINUTE)).apply(len), "expected a function of 4 arguments"),
    (lambda: windowed(Session(MINUTE)).reduce(max, on_error="x"), "reduce() got on_error='x'"),
    (lambda: windowed(Session(MINUTE)).aggregate(), "aggregate() got nothing"),
    (lambda: windowed(Session(MINUTE)).aggregate(n=Nothing), "hint: n=Nothing() is one"),
    (lambda: windowed(Session(MINUTE)).aggregate(n=len), "aggregate() got n=<built-in function"),
    (lambda: windowed(Session(MINUTE)).late, "hint: totals = windows.reduce(f); totals.side("),
    (lambda: windowed(Session(MINUTE)).reduce(max).side("lat"), "those of 'reduce' are late"),
    (
        lambda: source(Collection([1])).key_by().window(Tumbling(MINUTE)),
        "window() needs the time of each record, expected .with_event_time(...)",
    ),
    (
        lambda: timed().map(str).key_by().window(Tumbling(MINUTE)),
        "window() follows 'map', behind which it is not known where a record has its time",
    ),
]


@pytest.mark.parametrize(("refused", "message"), REFUSED)
def test_what_makes_no_sense_is_refused_where_it_is_said(
    refused: Callable[[], Any], message: str
) -> None:
    with pytest.raises(GraphError) as raised:
        refused()
    assert message in str(raised.value)


def test_windows_are_shown_as_they_were_declared() -> None:
    shown = repr(windowed(Tumbling(MINUTE)))
    assert shown.startswith("<WindowedStream collection -> ")
    assert shown.endswith(
        "hash by 0 -> Tumbling(size=datetime.timedelta(seconds=60), offset=datetime.timedelta(0))>"
    )


def test_a_stream_of_windows_has_no_records_yet() -> None:
    with pytest.raises(GraphError, match=r"\.sink\(\) follows \.window\(\), expected what is"):
        windowed(Tumbling(MINUTE)).sink(Collect())  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="'WindowedStream' object has no attribute 'sunk'"):
        windowed(Tumbling(MINUTE)).sunk()  # type: ignore[attr-defined]
