"""The broadcast benchmark without hosts: cases, rows, table, figures, samples, wrong use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks import plots
from benchmarks.broadcast.command import command
from benchmarks.broadcast.job import Broadcast
from benchmarks.broadcast.rows import report, row
from benchmarks.broadcast.sampler import Process, Sample, Sampler, _processes, take
from benchmarks.measurement import Traffic
from benchmarks.schema import results_file
from benchmarks.schema.references import plasma_vs_s3
from benchmarks.schema.result import Result
from benchmarks.testbed.broadcast_cases import BY_NODES, LAYOUTS, BroadcastCase, cases
from engine.errors import ConfigError

SIZE = 564_000_000


def a_run(case: BroadcastCase, seconds: float, memory: bool = False) -> Broadcast:
    nodes = case.layout.nodes
    loaders = tuple(
        {"host": node + 1, "task": task, "usable": seconds + node / 100, "loaded": seconds + 0.2}
        for task, node in enumerate(nodes)
    )
    traffic = Traffic(SIZE, 9, SIZE, 9)
    hosts = range(1, len(case.layout.loaders) + 1)
    return Broadcast(
        loaders, "0badcafe", 2.0, dict.fromkeys(hosts, traffic),
        dict.fromkeys(hosts, 2 * SIZE) if memory else None,
    )  # fmt: skip


def rows() -> list[dict[str, Any]]:
    found = []
    for group in cases(list(LAYOUTS), ("channels", "plasma", "s3"), None, SIZE, False, 10**9):
        for at, case in enumerate(group):
            runs = [a_run(case, 4.5 + at * case.layout.remote_hosts + n / 10) for n in range(3)]
            found.append(row(case, runs, a_run(case, 9.0, memory=True), []))
    return found


def test_the_cases_are_those_of_the_experiment() -> None:
    assert {name: layout.nodes for name, layout in LAYOUTS.items()} == {
        "1": (1,), "2-1": (1,), "2-2": (1, 1), "3-1": (0,), "3-2": (0, 0), "3-4": (0, 0, 0, 0),
        "4": (0, 0, 1, 1), "5-2": (1, 2), "5-3": (1, 2, 3), "5-4": (1, 2, 3, 4),
        "5-5": (1, 2, 3, 4, 5), "6-2": (1, 1, 2), "6-3": (1, 1, 1),
    }  # fmt: skip
    assert [LAYOUTS[BY_NODES[count]].remote_hosts for count in BY_NODES] == list(BY_NODES)
    (group,) = cases(["2-1"], ("channels", "s3"), None, 10, False, 10**9)
    assert [(case.api, case.encryption, case.rate_bits_per_second) for case in group] == [
        ("channels", False, None),
        ("channels", True, None),
        ("s3", False, None),
    ]


def test_a_row_has_medians_and_a_file_of_them_goes_on(tmp_path: Path) -> None:
    ((case,),) = cases(["5-2"], ("channels",), True, SIZE, False, 10**9)
    runs = [a_run(case, seconds) for seconds in (5.0, 4.6, 4.8)]
    found = row(case, runs, a_run(case, 6.0, memory=True), ["one failed"])
    assert found["usable_seconds"] == pytest.approx({"median": 4.82, "min": 4.62, "max": 5.02})
    assert found["gigabytes_per_second"] == pytest.approx(0.117, abs=1e-3)
    assert found["cpu_seconds_per_gib"]["median"] == pytest.approx(2 / (2 * SIZE / 2**30))
    assert found["peak_memory_bytes"] == {"1": 2 * SIZE, "2": 2 * SIZE, "3": 2 * SIZE}
    assert [(loader["host"], round(loader["usable"], 2)) for loader in found["loaders"]] == [
        (2, 4.81),
        (3, 4.82),
    ]
    path = tmp_path / "rows.json"
    result = Result("broadcast", {"repeats": 3}, path, case_type=BroadcastCase)
    result.add([found])
    again = Result("broadcast", {"repeats": 3}, path, case_type=BroadcastCase)
    assert again.rows == [found]
    assert not again.has(case)  # one failed: it is measured again
    again.add([{**found, "failures": []}])
    assert (len(again.rows), again.has(case)) == (1, True)
    assert results_file.read(path)["rows"] == again.rows


def test_the_table_tells_failures_and_models_per_host() -> None:
    ((case, other),) = cases(["1"], ("plasma", "s3"), None, SIZE, False, 10**9)
    shown = report([
        row(case, [a_run(case, 4.5)], a_run(case, 4.5, memory=True), []),
        row(other, [], None, ["no server"]),
    ])  # fmt: skip
    lines = [line.split() for line in shown.splitlines() if "one other node" in line]
    assert lines[0][1:3] + lines[0][6:] == ["plasma", "1gbit", "4.51", "4.51-4.51", "4.70", "0.13", "3.81", "2.00", "1.00"]  # fmt: skip  # noqa: E501
    assert lines[1][1:3] + lines[1][6:] == ["s3", "1gbit", "failed"]


def test_figures() -> None:
    result = {
        "schema": "oka.bench/1", "benchmark": "broadcast", "date": "2026-11-21",
        "machine": {"processor": "a processor", "cores": 2}, "rows": rows(),
    }  # fmt: skip
    results_file.check(result, "the rows")
    drawings = plots.draw(result)
    assert [drawing.name for drawing in drawings] == [
        "timeline_564000000_1gbit",
        "nodes_564000000_1gbit",
    ]
    timeline, nodes = drawings
    assert len([panel for panel in timeline.figure.axes if panel.get_title()]) == len(LAYOUTS)
    lines = [line.get_label() for line in nodes.figure.legends[0].legend_handles]
    assert {"channels", "channels, encrypted", "plasma", "s3", "size / rate (1 Gbit/s)"} <= {*lines}
    assert any("published 2022: t2.xlarge" in line for line in lines)
    if folder := os.environ.get("OKA_TEST_FIGURES"):  # to look at them
        for drawing in drawings:
            Path(folder, f"{drawing.name}.png").write_bytes(plots.render(drawing, "png"))
    assert plots.render(nodes, "svg").startswith(b"<?xml")
    assert plots.draw({**result, "rows": []}) == []


def test_the_published_figures_are_as_they_were_published() -> None:
    found = {(each.experiment, each.machines): each.seconds for each in plasma_vs_s3()}
    assert (found["plasma", 1], found["s3", 1], found["s3", 4]) == (5.4, 5.4, 5.6)


def test_what_is_between_two_moments_counts() -> None:
    sampler = Sampler([], memory=True)
    for at, (raylet, worker, shared) in enumerate([(1, 5, 10), (2, 5, 90), (4, 6, 200)]):
        processes = {
            1: Process(1, "raylet", float(raylet)),
            2: Process(1, "job", float(worker)),
            3: Process(1, "other", at * 100.0),
        }
        sampler.samples.append(Sample(at * 100, processes, {1: 7 + at}, {1: shared}))
    assert sampler.cpu_seconds(0, 200) == 4.0  # 3 of the raylet, 1 of the worker
    assert sampler.cpu_seconds(50, 150) == pytest.approx(1.5 + 0.5)
    assert sampler.peak_memory(0, 200) == {1: 190 + 2}
    assert sampler.peak_memory(100, 200) == {1: 110 + 1}
    assert sampler.peak_memory(100, 200, {1: 10}) == {1: 190 + 1}  # what it kept counts, too


def test_samples_are_of_the_processes_of_the_hosts() -> None:
    here = Path("/proc/self/ns/net").stat().st_ino
    mine = take({here: 3}, memory=True).processes[os.getpid()]
    assert (mine.host, mine.role) == (3, "other")
    assert mine.cpu_seconds > 0
    assert take({}, memory=True).processes == {}


def test_shared_memory_counts_mapped_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
import mmap, os, sys
held = os.memfd_create("held")
os.pwrite(held, bytes(3 << 20), 0)
copy = os.dup(held)
if sys.argv[2] == "mapped":
    view = mmap.mmap(held, 3 << 20)
    sum(view[::4096])
    os.close(held), os.close(copy)
print(flush=True)
sys.stdin.read()
"""
    here = Path("/proc/self/ns/net").stat().st_ino
    for how in ("held", "mapped"):
        child = subprocess.Popen(
            [sys.executable, "-c", program, "benchmarks.broadcast.job", how],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        with child:
            assert child.stdout is not None
            child.stdout.readline()
            alone = [each for each in _processes({here: 1}) if each[0] == child.pid]
            monkeypatch.setattr("benchmarks.broadcast.sampler._processes", lambda _, a=alone: a)
            sample = take({here: 1}, memory=True)
            child.kill()
        assert sample.processes[child.pid].role == "job"
        assert 3 << 20 <= sample.shared[1] < 6 << 20  # once
        assert sample.private[1] > 1 << 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--size", "much"], "the size is 'much', expected such as 564MB"),
        (["--size", "0"], "size is '0', expected at least one byte"),
        (["--rate", "fast"], "rate is 'fast', expected"),
        (["--ways", "channels,ftp"], "'ftp' is none of channels, plasma, s3"),
        (["--cases", "1,7"], "'7' is none of 1, 2-1"),
        (["--repeats", "0"], "Invalid value for '--repeats': 0 is not in the range x>=1."),
    ],
)
def test_wrong_use_says_what_is_wrong(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code != 0
    said = str(done.exception) if isinstance(done.exception, ConfigError) else done.output
    assert message in " ".join(said.split())
