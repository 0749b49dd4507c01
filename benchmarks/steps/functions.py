"""Nanoseconds per row of functions over columns: `python -m benchmarks.steps.functions [ROWS]`.

Each line is one function, in CPU time, the best of several rounds in turn: called for each row, of
which a dict is made; lifted, over the columns; and the same written by hand for Arrow.
"""

import random
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.columns import rows
from engine.expression.columns import ColumnProgram, Form, GaveUp
from engine.expression.lift import Lifted, lift

Record = dict[str, Any]


def main() -> None:
    """Measure each function and print a line of it."""
    batch = _bids(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
    print(f"{'ns per row':22}{'Python':>10}{'lifted':>10}{'by hand':>10}{'ratio':>8}")
    for name, (stages, by_hand) in CASES.items():
        program = ColumnProgram([(form, _lifted(function)) for form, function in stages])
        found = program.run(batch)
        if isinstance(found, GaveUp):
            raise RuntimeError(f"{name}: {found.reason}")
        if _as_list(found) != _as_list(by_hand(batch)):
            raise RuntimeError(f"{name}: by hand it is something else")
        calls: list[Callable[[Any], Any]] = [partial(_python, stages), program.run, by_hand]
        best = [float("inf")] * len(calls)
        for _ in range(ROUNDS):
            for at, call in enumerate(calls):
                for _ in range(IN_A_ROW):  # the first finds the caches full of another's data
                    started = time.process_time_ns()
                    call(batch)
                    best[at] = min(best[at], time.process_time_ns() - started)
        figures = "".join(f"{each / len(batch):10.1f}" for each in best)
        print(f"{name:22}{figures}{best[1] / best[2]:8.2f}")


Stage = tuple[Form, Callable[[Any], Any]]


def _python(stages: list[Stage], batch: pa.RecordBatch) -> list[Any]:
    """What runs without lifting."""
    records: list[Any] = rows(batch)
    for form, function in stages:
        if form == "map":
            records = [function(record) for record in records]
        elif form == "filter":
            records = [record for record in records if function(record)]
        else:
            records = [each for record in records for each in function(record)]
    return records


def _lifted(function: Callable[[Any], Any]) -> Any:
    found = lift(function, 1)
    if not isinstance(found, Lifted):
        raise TypeError(found.reason)
    return found.expression


def _as_list(found: Any) -> Any:
    return rows(found) if isinstance(found, pa.RecordBatch) else found


def _bids(count: int) -> pa.RecordBatch:
    rng = random.Random(1)
    channels = ["Google", "Facebook", "Baidu", "Apple", *(f"channel-{at}" for at in range(96))]
    return pa.record_batch(
        {
            "auction": [rng.randrange(1000, 2000) for _ in range(count)],
            "bidder": [rng.randrange(1000, 3000) for _ in range(count)],
            "price": [rng.randrange(100, 10**8) for _ in range(count)],
            "channel": [rng.choice(channels) for _ in range(count)],
            "rate": [rng.random() for _ in range(count)],
            "url": [f"https://www.nexmark.com/{rng.randrange(9)}/item.htm" for _ in range(count)],
        }
    )


def _four_by_hand(batch: pa.RecordBatch) -> pa.RecordBatch:
    names = ["auction", "bidder", "price", "channel"]
    return pa.RecordBatch.from_arrays([batch.column(name) for name in names], names)


def _dollars(bid: Record) -> Record:
    return {
        "auction": bid["auction"],
        "price": bid["price"] * 0.908,
        "bidder": bid["bidder"],
        "sum": bid["price"] + bid["auction"] * 2,
    }


def _dollars_by_hand(batch: pa.RecordBatch) -> pa.RecordBatch:
    price, auction = batch.column("price"), batch.column("auction")
    arrays = [
        auction,
        pc.multiply(price.cast(pa.float64(), safe=False), 0.908),
        batch.column("bidder"),
        pc.add_checked(price, pc.multiply_checked(auction, 2)),
    ]
    return pa.RecordBatch.from_arrays(arrays, ["auction", "price", "bidder", "sum"])


def _filter_by_hand(batch: pa.RecordBatch) -> pa.RecordBatch:
    dear = pc.greater(batch.column("price"), 50_000_000)
    return batch.filter(pc.and_(dear, pc.equal(batch.column("channel"), "Apple")))


def _kind(bid: Record) -> Record:
    price = bid["price"]
    kind = "low" if price < 10_000_000 else "middle" if price < 50_000_000 else "high"
    return {"auction": bid["auction"], "kind": kind}


def _kind_by_hand(batch: pa.RecordBatch) -> pa.RecordBatch:
    price = batch.column("price")
    inner = pc.if_else(pc.less(price, 50_000_000), "middle", "high")
    kind = pc.if_else(pc.less(price, 10_000_000), "low", inner)
    return pa.RecordBatch.from_arrays([batch.column("auction"), kind], ["auction", "kind"])


def _chain_by_hand(batch: pa.RecordBatch) -> pa.RecordBatch:
    price = pc.multiply(batch.column("price").cast(pa.float64(), safe=False), 0.908)
    arrays = [batch.column("auction"), batch.column("bidder"), price, batch.column("channel")]
    made = pa.RecordBatch.from_arrays(arrays, ["auction", "bidder", "price", "channel"])
    return made.filter(pc.greater(price, 90_000_000.0))


def _texts_by_hand(batch: pa.RecordBatch) -> pa.RecordBatch:
    url = batch.column("url")
    arrays = [
        pc.ascii_lower(batch.column("channel")),
        pc.utf8_length(url),
        pc.starts_with(url, "https://"),
        pc.utf8_slice_codeunits(url, 8, 11),
    ]
    return pa.RecordBatch.from_arrays(arrays, ["channel", "length", "safe", "host"])


def _words_by_hand(batch: pa.RecordBatch) -> list[Any]:
    found: list[Any] = pc.list_flatten(pc.split_pattern(batch.column("url"), "/")).to_pylist()
    return found


CASES: dict[str, tuple[list[Stage], Callable[[pa.RecordBatch], Any]]] = {
    "map to four fields": (
        [("map", lambda r: {key: r[key] for key in ("auction", "bidder", "price", "channel")})],
        _four_by_hand,
    ),
    "map with arithmetic": ([("map", _dollars)], _dollars_by_hand),
    "filter": (
        [("filter", lambda r: r["price"] > 50_000_000 and r["channel"] == "Apple")],
        _filter_by_hand,
    ),
    "map with branches": ([("map", _kind)], _kind_by_hand),
    "map and filter": (
        [
            (
                "map",
                lambda r: {
                    "auction": r["auction"],
                    "bidder": r["bidder"],
                    "price": r["price"] * 0.908,
                    "channel": r["channel"],
                },
            ),
            ("filter", lambda r: r["price"] > 90_000_000),
        ],
        _chain_by_hand,
    ),
    "map with texts": (
        [
            (
                "map",
                lambda r: {
                    "channel": r["channel"].lower(),
                    "length": len(r["url"]),
                    "safe": r["url"].startswith("https://"),
                    "host": r["url"][8:11],
                },
            )
        ],
        _texts_by_hand,
    ),
    "flat_map of words": ([("flat_map", lambda r: r["url"].split("/"))], _words_by_hand),
}
ROUNDS = 40
IN_A_ROW = 5

if __name__ == "__main__":
    main()
