"""Result files: what is accepted, what is refused and how, and that a write is whole."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks.schema import results_file
from engine.errors import ConfigError


def a_row(**changes: Any) -> dict[str, Any]:
    return {
        "system": "oka",
        "api": "native",
        "payload_bytes": 32,
        "batch_size": 100,
        "parallelism": 1,
        "throughput": {"median": 2e6, "min": 1e6, "max": 3e6},
        "latency_us": {"mean": 10.0, "p50": 9.0, "p99": 40},
        **changes,
    }


def a_result(*rows: Any, **changes: Any) -> dict[str, Any]:
    return {"schema": "oka.bench/1", "benchmark": "word_count", "rows": list(rows), **changes}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "result.json"
    result = a_result(a_row(), a_row(throughput=None, latency_us=None, failures=["lost"]))
    results_file.write(path, result)
    assert results_file.read(path) == result
    results_file.write(path, a_result())
    assert results_file.read(path) == a_result()
    assert [found.name for found in path.parent.iterdir()] == ["result.json"]


def test_fields_that_nobody_knows_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    result = a_result(a_row(colour="red"), mood="good")
    results_file.write(path, result)
    assert results_file.read(path) == result


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ([], "holds [], expected an object"),
        ({"rows": []}, "has the schema None, expected 'oka.bench/1'"),
        (a_result(schema="oka.result/1"), "has the schema 'oka.result/1', expected 'oka.bench/1'"),
        ({"schema": "oka.bench/1", "rows": []}, "lacks benchmark"),
        (a_result(rows={}), "rows is {}, expected a list"),
        (a_result(settings=[]), "settings is [], expected an object or null"),
        (a_result("row"), "rows[0] is 'row', expected an object"),
        (a_result(a_row(), {"system": "oka"}), "rows[1] lacks api, payload_bytes, batch_size"),
        (a_result(a_row(payload_bytes=True)), "payload_bytes is True, expected a whole number"),
        (a_result(a_row(batch_size="10")), "batch_size is '10', expected a whole number or null"),
        (a_result(a_row(throughput={"median": 1})), "throughput.min is None, expected a number"),
        (
            a_result(a_row(latency_us={"mean": 1, "p50": "2", "p99": 3})),
            "latency_us.p50 is '2', expected a number",
        ),
        (
            a_result(a_row(throughput={"median": float("nan"), "min": 1, "max": 1})),
            "throughput.median is nan, expected a number",
        ),
    ],
)
def test_other_files_are_refused(tmp_path: Path, result: Any, message: str) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(result))
    with pytest.raises(ConfigError) as raised:
        results_file.read(path)
    assert message in raised.value.message
    assert str(path) in raised.value.message
    assert raised.value.hint


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"{", "is not JSON"), (b"\xff\xfe\x00", "it is not text"), (None, "No such file")],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, data: bytes | None, message: str) -> None:
    path = tmp_path / "result.json"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(ConfigError, match=message) as raised:
        results_file.read(path)
    assert str(path) in raised.value.message


def test_a_result_that_is_none_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    results_file.write(path, a_result(a_row()))
    with pytest.raises(ConfigError, match="the result lacks benchmark"):
        results_file.write(path, {"schema": "oka.bench/1", "rows": []})
    assert results_file.read(path) == a_result(a_row())


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("here")
    with pytest.raises(ConfigError, match="its folder cannot be made"):
        results_file.check_writable(file / "result.json")
    with pytest.raises(ConfigError, match="it is a folder"):
        results_file.check_writable(tmp_path)
    results_file.check_writable(tmp_path / "new" / "result.json")
    assert (tmp_path / "new").is_dir()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="no permission for its folder"):
        results_file.check_writable(tmp_path / "result.json")
