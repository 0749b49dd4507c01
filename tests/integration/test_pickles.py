"""Functions and classes of a script, in other processes: all that cloudpickle's own suite has.

What cannot be sent is refused by its name before a worker starts.
"""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import cloudpickle
import pytest

import engine.testing
from engine.errors import DriverLost, StartError
from operators import source
from operators.sinks import Collect, Discard
from operators.sources import Collection, Function
from tests.waiting import pauses

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests" / "cases" / "pickles" / "cases.py"
LOAD = """
import json, pickle, sys
found = {}
for name, pickled in pickle.loads(open(sys.argv[1], "rb").read())[0].items():
    try:
        function, told = pickle.loads(pickled)
        found[name] = told(function())
    except Exception as error:
        found[name] = f"{type(error).__name__}: {error}"
json.dump(found, sys.stdout)
"""
RUN = """
import sys, engine
from engine.cli.program import load_pipeline
pipelines, name = load_pipeline("of_oka_run.py", ())
sys.modules[name].check(engine.execute(pipelines, parallelism=2, progress="none").outputs)
print("equal")
"""


def python(*arguments: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def cases() -> Iterator[ModuleType]:
    """The script, as `oka run` has it: what it defines goes by value."""
    spec = importlib.util.spec_from_file_location("cases_of_pickles", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    cloudpickle.register_pickle_by_value(module)
    yield module
    cloudpickle.unregister_pickle_by_value(module)
    for opened in (module.opened, module.binary, module.temporary, module.database):
        opened.close()
    del sys.modules[spec.name]


TEXT = SCRIPT.read_text()
NAMES = ["a_lambda", *re.findall(r"^@case\ndef (\w+)", TEXT, re.MULTILINE)]
REFUSED = re.findall(r'^    "(\w+)": ', TEXT.partition("\nREFUSED = {")[2], re.MULTILINE)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], dict[str, str]]:
    """What each case gives in the script's process, and in one that got a pickle of it."""
    import pickle

    folder = tmp_path_factory.mktemp("pickles")
    shutil.copy(SCRIPT, folder)
    python("cases.py", "pickles", cwd=folder)
    _, here = pickle.loads((folder / "pickles").read_bytes())
    (folder / "cases.py").unlink()
    return here, json.loads(python("-c", LOAD, "pickles", cwd=folder))


@pytest.mark.parametrize("name", NAMES)
def test_what_a_function_refers_to_is_there_in_another_process(
    found: tuple[dict[str, str], dict[str, str]], name: str
) -> None:
    here, there = found
    assert there[name] == here[name]


def test_no_case_is_left_out(cases: ModuleType) -> None:
    assert list(cases.CASES) == NAMES
    assert list(cases.REFUSED) == REFUSED


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_sent_is_named_before_a_worker_starts(cases: ModuleType, name: str) -> None:
    function, named = cases.REFUSED[name]
    pipeline = source(Collection([1])).map(function).named("work").sink(Discard())
    with pytest.raises(StartError) as caught:
        engine.testing.run(pipeline)
    assert f"{named} of function " in caught.value.message
    assert "operator 'work' cannot be sent to workers" in caught.value.message
    assert "inside the function" in str(caught.value.hint)


@pytest.mark.usefixtures("nothing_left")
def test_a_script(tmp_path: Path) -> None:
    shutil.copy(SCRIPT, tmp_path)
    assert python("cases.py", cwd=tmp_path) == "equal\n"


@pytest.mark.usefixtures("nothing_left")
def test_a_module_of_a_package(tmp_path: Path) -> None:
    (tmp_path / "of_mine").mkdir()
    (tmp_path / "of_mine" / "__init__.py").touch()
    shutil.copy(SCRIPT, tmp_path / "of_mine")
    assert python("-m", "of_mine.cases", cwd=tmp_path) == "equal\n"


@pytest.mark.usefixtures("nothing_left")
def test_a_file_that_oka_run_is_given(tmp_path: Path) -> None:
    shutil.copy(SCRIPT, tmp_path / "of_oka_run.py")
    assert python("-c", RUN, cwd=tmp_path) == "equal\n"


def test_functions_stay_as_they_were_when_the_job_was_submitted(tmp_path: Path) -> None:
    factor, failed = 2, tmp_path / "failed"

    def times(number: int) -> int:
        if not failed.exists():
            failed.touch()
            raise OSError("once")
        return number * factor

    jobs = [
        engine.submit(
            source(Collection(range(3)))
            .map(lambda n: times(n) + added)  # noqa: B023 - as it is now
            .sink(Collect()),
            checkpoints=str(tmp_path / f"checkpoints {added}"),
            restarts=1,
            progress="none",
        )
        for added in range(2)
    ]
    factor = 1000  # as the next cell of a notebook may do; after the restart, too
    assert [job.wait_finished(300).output for job in jobs] == [[0, 2, 4], [1, 3, 5]]
    assert sum(job.statistics().restarts for job in jobs) == 1


def test_a_forked_process_has_no_part_in_the_job(tmp_path: Path) -> None:
    go_on = tmp_path / "go on"

    def waits() -> Iterator[list[int]]:
        yield from pauses(go_on.exists)

    def ask() -> None:
        for method in (job.statistics, job.cancel, job.wait_finished, job.wait_stopped):
            with pytest.raises(DriverLost, match=r"was forked from that\n\nhint: send what"):
                method()
        go_on.touch()

    job = engine.submit(source(Function(waits)).sink(Discard()), progress="none")
    child = multiprocessing.get_context("fork").Process(target=ask)
    child.start()
    job.wait_finished(300)
    child.join()
    assert child.exitcode == 0
