"""`oka bench connectors` over few records: rows, ratios, a figure, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner

from benchmarks import plots
from benchmarks.connectors import command as connectors
from benchmarks.connectors import kafka as works_of_kafka
from benchmarks.peers.flink import Found
from benchmarks.peers.peer import Peer
from benchmarks.report.rows_table import Table
from benchmarks.schema import results_file
from benchmarks.works import OKA, Work, WorkCase
from tests.kafka import Broker

OF_KAFKA = [work.name for work in works_of_kafka.KAFKA]


def bench(*arguments: object) -> Any:
    arguments = ("--records", 20_000, "--repeats", 1, *arguments)
    return CliRunner().invoke(connectors.command, [*map(str, arguments)])


def compare(work: str, folder: Path) -> None:
    file = folder / "connectors.json"
    ended = bench("--work", work, "--json", file)
    assert ended.exit_code == 0, ended.output
    rows = results_file.read(file)["rows"]
    here = [peer.system for peer in connectors.WORKS[work].peers if not peer.missing()]
    assert [row["system"] for row in rows] == [OKA, *here]
    assert all(row["work"] == work and row["throughput"]["median"] > 0 for row in rows)
    assert "has" in bench("--work", work, "--json", file).output  # nothing is measured again


@pytest.mark.table(2)
@pytest.mark.parametrize("work", [work for work in connectors.WORKS if work not in OF_KAFKA])
def test_each_work_is_a_row_of_each_system_that_is_here(work: str, tmp_path: Path) -> None:
    compare(work, tmp_path)


@pytest.mark.usefixtures("kafka_programs")
def test_a_work_of_kafka_starts_its_broker(tmp_path: Path) -> None:
    compare(OF_KAFKA[0], tmp_path)


@pytest.mark.table(2)
@pytest.mark.parametrize("work", OF_KAFKA[1:])
def test_each_work_of_kafka_is_a_row_too(
    work: str, kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the broker of all tests: a broker takes six CPU seconds to start."""
    monkeypatch.setattr(works_of_kafka, "Kafka", lambda _: nullcontext(kafka))
    monkeypatch.setattr(works_of_kafka, "TOPIC", f"messages-{work}")
    compare(work, tmp_path)


class Told(Work):
    """A work whose results are told before."""

    name, record_bytes = "told", 10
    peers = (Peer("other", "alone", "columnar", None, "none.py"),)
    found: ClassVar[dict[str, Found]] = {OKA: Found(2.0, 1.0, 100), "other": Found(1.0, 4.0, 100)}

    @contextmanager
    def prepared(self, records: int, folder: Path) -> Iterator[None]:
        """Nothing."""
        yield

    def run(self, case: WorkCase) -> Found:
        """What was told."""
        return self.found[case.system]


def test_ratios_and_a_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connectors.WORKS, "parquet-write", Told())
    file = tmp_path / "connectors.json"
    ended = bench("--work", "parquet-write", "--records", 100, "--json", file)
    assert ended.exit_code == 0, ended.output
    line = next(line for line in ended.output.splitlines() if line.startswith("  told   other"))
    assert [part for part in line.split() if part in ("0.50", "0.25")] == ["0.50", "0.25"]
    result = results_file.read(file)
    (drawing,) = plots.draw(result)
    assert drawing.name == "connectors_1"
    assert "told oka columnar 50" in drawing.alt
    assert [len(panel.patches) for panel in drawing.figure.axes] == [2, 2]
    assert "work" in Table.of(result).columns


def test_another_number_of_records_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Told()
    monkeypatch.setitem(connectors.WORKS, "parquet-write", work)
    monkeypatch.setattr(work, "found", {**work.found, "other": Found(1.0, 1.0, 99)})
    file = tmp_path / "connectors.json"
    ended = bench("--work", "parquet-write", "--records", 100, "--json", file)
    assert ended.exit_code != 0
    assert "told other alone, parallelism 1 came to 99 records, expected 100" in str(
        ended.exception
    )
    rows = json.loads(file.read_text())["rows"]
    assert [bool(row["throughput"]) for row in rows] == [True, False]
