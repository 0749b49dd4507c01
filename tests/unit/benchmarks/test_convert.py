"""Conversion to and from the layout of Volga's published results, by the command itself."""

import base64
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.schema import results_file
from benchmarks.schema.convert import command, from_volga, to_volga
from engine.errors import ConfigError
from engine.network import LatencyHistogram
from tests.unit.benchmarks.results import a_failed_row, a_result, a_row

# The first entries of two published files, their histories cut short.
PUBLISHED = {
    "meta": {"scenario": "wordcount_local"},
    "stats": [
        {
            "msg_size": 32,
            "batch_size": 1,
            "parallelism": 1,
            "throughput": 83284.725,
            "latency_ms": {"p99": 1, "p95": 1, "p75": 0, "p50": 0, "avg": 0.1511530515383327},
            "num_msgs": 2130547,
            "hist_throughput": [[1733144397, 30499.5], [1733144398, 72904.0]],
            "hist_latency": [
                [1733144398, {"p99": 1, "p95": 1, "p75": 0, "p50": 0, "avg": 0.12631578947368421}],
                [1733144399, {"p99": 1, "p95": 1, "p75": 0, "p50": 0, "avg": 0.12122762148337596}],
            ],
        },
        {
            "msg_size": 32,
            "batch_size": 10,
            "parallelism": 1,
            "throughput": 179272.1,
            "latency_ms": {"p99": 1, "p95": 1, "p75": 0, "p50": 0, "avg": 0.11820103655210039},
            "num_msgs": 4479397,
            "hist_throughput": [[1733144437, 76814.5]],
            "hist_latency": [
                [1733144438, {"p99": 80, "p95": 50, "p75": 0, "p50": 0, "avg": 8.5}],
            ],
        },
    ],
}


def convert(*arguments: Any) -> str:
    done = CliRunner().invoke(
        command, [str(argument) for argument in arguments], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    return done.output


def test_from_volga_and_back_loses_nothing(tmp_path: Path) -> None:
    published, ours, back = (tmp_path / name for name in ("volga.json", "oka.json", "back.json"))
    published.write_text(json.dumps(PUBLISHED))
    assert "2 rows" in convert(published, ours, "--to", "oka")
    assert "2 rows" in convert(ours, back, "--to", "volga")
    assert approximately(json.loads(back.read_text())) == PUBLISHED
    assert json.loads(back.read_text())["stats"][0]["latency_ms"]["p75"] == 0


def test_rows_of_volga_are_in_our_units(tmp_path: Path) -> None:
    result = from_volga(PUBLISHED, "published")
    first = result["rows"][0]
    assert (first["system"], first["payload_bytes"], first["load"]) == ("volga", 32, "closed")
    assert first["throughput"] == {"median": 83284.725, "min": 83284.725, "max": 83284.725}
    assert first["latency_us"]["p99"] == 1000
    assert first["latency_us"]["mean"] == pytest.approx(151.153, abs=1e-3)
    assert first["records"] == 2130547
    assert first["cpu_seconds_per_million"] is None
    assert first["histogram"] is None
    assert result["machine"] is None


def test_rows_of_oka_and_back(tmp_path: Path) -> None:
    rows = [
        a_row(payload_bytes=payload, batch_size=batch) for payload in (32, 256) for batch in (1, 9)
    ]
    ours, volga, back = (tmp_path / name for name in ("oka.json", "volga.json", "back.json"))
    results_file.write(ours, a_result(rows))
    convert(ours, volga, "--to", "volga")
    convert(volga, back, "--to", "oka")
    for row, returned in zip(rows, results_file.read(back)["rows"], strict=True):
        for field in ("payload_bytes", "batch_size", "parallelism", "records", "load"):
            assert returned[field] == row[field]
        assert returned["throughput"]["median"] == row["throughput"]["median"]
        for field in ("mean", "p50", "p95", "p99"):
            assert returned["latency_us"][field] == pytest.approx(row["latency_us"][field])


def test_p75_comes_out_of_the_histogram() -> None:
    row = a_row()
    (entry,) = to_volga(a_result([row]), "ours")["stats"]
    histogram = LatencyHistogram.from_bytes(base64.b64decode(row["histogram"]))
    assert entry["latency_ms"]["p75"] == histogram.percentile(75.0) / 1e3
    assert entry["latency_ms"]["p50"] < entry["latency_ms"]["p75"] < entry["latency_ms"]["p95"]
    assert entry["hist_throughput"] == entry["hist_latency"] == []


def test_a_row_without_latency_has_nulls_and_comes_back() -> None:
    row = {**a_row(), "latency_us": None, "histogram": None}
    volga = to_volga(a_result([row]), "ours")
    assert set(volga["stats"][0]["latency_ms"].values()) == {None}
    assert from_volga(volga, "volga")["rows"][0]["latency_us"] is None


def test_failures_and_open_load_are_left_out_and_counted(tmp_path: Path) -> None:
    ours, volga = tmp_path / "oka.json", tmp_path / "volga.json"
    rows = [a_row(), a_row(load="0.5", offered=5e5), a_failed_row(batch_size=1)]
    results_file.write(ours, a_result(rows))
    output = convert(ours, volga, "--to", "volga")
    assert "1 row; left out: 2 rows of failures or open load" in output
    assert len(json.loads(volga.read_text())["stats"]) == 1


def test_several_apis_must_be_chosen_from(tmp_path: Path) -> None:
    ours, volga = tmp_path / "oka.json", tmp_path / "volga.json"
    results_file.write(ours, a_result([a_row(api="native"), a_row(api="columnar", throughput=7.0)]))
    with pytest.raises(ConfigError, match="several rows for payload 32") as raised:
        convert(ours, volga, "--to", "volga")
    assert "oka native, oka columnar" in str(raised.value)
    assert not volga.exists()
    convert(ours, volga, "--to", "volga", "--api", "columnar")
    assert json.loads(volga.read_text())["stats"][0]["throughput"] == 7.0
    with pytest.raises(ConfigError, match="no row of system volga and API any"):
        convert(ours, volga, "--to", "volga", "--system", "volga")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda volga: volga.pop("stats"), "no list `stats`"),
        (lambda volga: volga["stats"][1].pop("latency_ms"), r"stats\[1\]: lacks 'latency_ms'"),
        (lambda volga: volga["stats"][0].update(throughput="fast"), r"stats\[0\]: could not"),
        (lambda volga: volga["stats"][0].update(msg_size="32"), "payload_bytes is '32'"),
        (lambda volga: volga["stats"].append(1), r"stats\[2\]"),
    ],
)
def test_another_layout_is_refused(tmp_path: Path, change: Any, message: str) -> None:
    volga = copy.deepcopy(PUBLISHED)
    change(volga)
    source, target = tmp_path / "volga.json", tmp_path / "oka.json"
    source.write_text(json.dumps(volga))
    with pytest.raises(ConfigError, match=message) as raised:
        convert(source, target, "--to", "oka")
    assert str(source) in raised.value.message
    assert not target.exists()


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        convert(tmp_path / "none.json", tmp_path / "oka.json", "--to", "oka")
    (tmp_path / "text.json").write_text("hello")
    with pytest.raises(ConfigError, match="is not JSON"):
        convert(tmp_path / "text.json", tmp_path / "oka.json", "--to", "oka")


def approximately(value: Any) -> Any:
    """The same, with numbers that may differ in their last digit."""
    if isinstance(value, dict):
        return {key: approximately(each) for key, each in value.items()}
    if isinstance(value, list):
        return [approximately(each) for each in value]
    return pytest.approx(value) if isinstance(value, int | float) else value
