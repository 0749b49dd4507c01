"""Jobs in the cells of a notebook: what these show, an interrupt, and a kernel that is killed."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.drivers import ray_address
from tests.kernels import Kernel, close_loop, kernel
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("nothing_left")
EXAMPLE = Path(__file__).parents[2] / "docs/howto/notebook.ipynb"

BEGINNING = """
import itertools, sys, time
from dataclasses import dataclass

import engine
from operators import source
from operators.sinks import Collect, Discard
from operators.sources import Collection, Function

def endless(context):
    for n in itertools.count():
        yield [n] * 10
        time.sleep(0.01)

def numbers(*stream):
    return source(Collection([1, 2, 3]))
"""
ENDLESS = "source(Function(endless)).rebalance().map(lambda n: n + 1).sink(Discard())"


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with kernel(tmp_path_factory.mktemp("kernel")) as started:
        assert not started.run(BEGINNING).error
        yield started


def open_files(cells: Kernel) -> list[str]:
    """The kernel's sockets, pipes and memory."""
    links = Path(f"/proc/{cells.driver.process.pid}/fd").iterdir()
    targets = [str(link.readlink()) for link in links]
    return sorted(each for each in targets if each.startswith(("socket:", "pipe:", "/memfd:")))


def html(shown: dict[str, str]) -> str:
    return shown["text/html"]


def test_functions_and_classes_of_cells_run_and_the_last_ones_count(cells: Kernel) -> None:
    cells.run("by = 10\ndef more(n):\n    return n + by")
    job = "numbers().map(more).rebalance().filter(lambda n: n > 11).map(str).key_by().count()"
    cells.run(f"pipeline = {job}.sink(Collect())")
    assert "native" in html(cells.run("pipeline").result)
    result = cells.run("result = engine.execute(pipeline, native='require')\nresult").result
    assert ">native</th>" in html(result)
    assert cells.run("sorted(result.output)").result["text/plain"] == "[('12', 1), ('13', 1)]"
    cells.run("@dataclass(frozen=True)\nclass Point:\n    x: int")
    cells.run(
        "def more(n):\n"
        "    print('in a worker', file=sys.stderr, flush=True)\n"
        "    return Point(n * by)"
    )
    cells.run("pipeline = numbers().map(more).key_by(lambda p: p.x).count().sink(Collect())")
    again = cells.run(
        "import asyncio\nawait asyncio.sleep(0)\n"
        "sorted(engine.execute(pipeline, parallelism=2).output)"
    )
    assert again.result["text/plain"] == "[(10, 1), (20, 1), (30, 1)]"
    assert again.streams["stderr"] == "in a worker\n" * 3  # in the cell, not at Jupyter's server


def test_an_error_names_the_cell_and_shows_its_line(cells: Kernel) -> None:
    cells.run("def half(n):\n    return 1 / (n - 2)")
    failed = cells.run(
        "engine.execute(numbers().map(half).sink(Collect()), name='</div><script>x</script>')"
    )
    assert failed.error == "OperatorError"
    assert "ZeroDivisionError" in failed.traceback
    shown = r"\n  Cell In\[\d+\], line 2, in half\n    return 1 / \(n - 2\)"
    assert re.search(shown, failed.traceback)
    last = failed.display[-1]
    assert "failed, OperatorError" in last["text/plain"]
    assert "<script>" not in html(last)
    assert "&lt;/div&gt;&lt;script&gt;x&lt;/script&gt;" in html(last)


def test_a_running_job_is_shown_anew_in_the_cell_that_has_started_it(cells: Kernel) -> None:
    started = cells.run(f"job = engine.submit({ENDLESS}, name='<b>')\njob")
    assert "job '<b>': running" in started.display[0]["text/plain"]
    shown = started.display
    while not (len(shown) >= 3 and ">in/s</th>" in html(shown[-1])):
        assert not cells.run("time.sleep(0.5)").displays
    assert "&lt;b&gt;" in html(shown[-1])
    twice = cells.run("display(job, job)\njob")
    assert "running" in html(twice.result)
    assert len(twice.displays) == 1  # without a name: what is shown once is never changed
    cells.run("job.stop(); result = job.wait_finished(); job.wait_stopped()")
    assert "finished" in shown[-1]["text/plain"]
    assert "<table" not in html(shown[-1])
    assert "finished" in html(cells.run("job").result)
    silent = cells.run(f"job = engine.submit({ENDLESS}, progress='json')\njob.cancel()")
    assert not silent.displays
    cells.run("job.wait_stopped()")


def test_an_interrupt_ends_the_job_and_the_next_cell_runs_another(cells: Kernel) -> None:
    before = open_files(cells)
    running = cells.start(f"engine.execute({ENDLESS}, parallelism=2)")
    wait_until(lambda: len(cells.driver.workers()) == 4)
    time.sleep(0.3)
    cells.interrupt()
    interrupted = cells.finish(running)
    assert interrupted.error == "KeyboardInterrupt"
    assert "cancelled" in interrupted.display[-1]["text/plain"]
    assert len(cells.driver.processes()) == 1
    assert not list(cells.driver.folder.glob("oka-job-*"))
    assert open_files(cells) == before
    assert cells.run("engine.execute(numbers().sink(Collect())).output").result == {
        "text/plain": "[1, 2, 3]"
    }


def test_a_kernel_that_is_killed_leaves_nothing_of_its_job(cells: Kernel) -> None:
    """It comes behind the tests that still need the kernel."""
    cells.run(f"job = engine.submit({ENDLESS}, parallelism=2)")
    wait_until(lambda: len(cells.driver.workers()) == 4)
    cells.driver.process.kill()
    cells.driver.process.wait(60)
    cells.driver.wait_nothing_left()


@pytest.mark.ray
@pytest.mark.usefixtures("ray_cluster")
def test_functions_and_classes_of_cells_run_on_ray(tmp_path: Path) -> None:
    with kernel(tmp_path) as cells:
        cells.run(f"{BEGINNING}\n@dataclass(frozen=True)\nclass Point:\n    x: int")
        cells.run("def more(n):\n    return Point(1 // (n - 3))")
        cells.run("pipeline = numbers().map(more).key_by(lambda p: p.x).count().sink(Collect())")
        job = f"engine.execute(pipeline, runtime='ray', ray_address='{ray_address()}').output"
        failed = cells.run(job)
        assert re.search(r"Cell In\[\d+\], line 2, in more\n    return Point", failed.traceback)
        cells.run("def more(n):\n    return Point(n * 10)")
        cells.run("pipeline = numbers().map(more).key_by(lambda p: p.x).count().sink(Collect())")
        counted = cells.run(f"sorted({job})").result["text/plain"]
        assert counted == "[(10, 1), (20, 1), (30, 1)]"


def test_the_notebook_of_the_docs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "jupyter"))
    notebook = nbformat.read(EXAMPLE, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    NotebookClient(
        notebook, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    close_loop()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    shown = ["".join(str(output) for output in cell.outputs) for cell in code]
    assert "hash by record" in shown[0]
    assert "'to': 2" in shown[1]
    assert "records at the sinks" in shown[2]
