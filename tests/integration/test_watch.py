"""`oka run --watch`: a job begun anew when its program changes, and its state if it has some."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import wait_until

OKA = str(Path(sys.executable).with_name("oka"))
PROGRAM = """
import oka
from beside import WORD

def show(pair):
    print(WORD, *pair, flush=True)

numbers = oka.source(oka.sources.Collection(range(100_000), rate=50))
pipeline = numbers.key_by(lambda n: n % 1).count().sink(oka.sinks.Callback(show))
"""


@contextmanager
def watched(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    (folder / "program.py").write_text(PROGRAM)
    (folder / "beside.py").write_text("WORD = 'one'\n")
    out = folder / "out"
    with out.open("w") as file:
        job = subprocess.Popen(
            [OKA, "run", "program.py", "--watch", *options],
            cwd=folder,
            env={**os.environ, "OKA_HISTORY": "off", "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=file,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
    try:
        yield job, out
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()


def counts(out: Path, word: str) -> list[int]:
    """What each line with the word counts, the last one apart: it may be half of one."""
    lines = out.read_text().splitlines()[:-1]
    return [int(line.split()[2]) for line in lines if line.startswith(f"{word} ")]


def test_a_job_goes_on_with_its_state(tmp_path: Path) -> None:
    with watched(tmp_path, "--checkpoints", "checkpoints") as (job, out):
        wait_until(lambda: len(counts(out, "one")) > 10)
        (tmp_path / "beside.py").write_text("WORD = 'second'\n")
        wait_until(lambda: len(counts(out, "second")) > 2)
        assert counts(out, "second")[0] > 10
        assert "changed: beside.py" in out.read_text()
        os.killpg(job.pid, signal.SIGINT)  # as a terminal does
        assert job.wait(60) == 130
        assert "Traceback" not in out.read_text()


def test_a_program_that_cannot_be_loaded_is_waited_for(tmp_path: Path) -> None:
    with watched(tmp_path) as (job, out):
        wait_until(lambda: len(counts(out, "one")) > 2)
        (tmp_path / "program.py").write_text("import oka\n1 +\n")
        wait_until(lambda: "waiting for a change" in out.read_text())
        assert "SyntaxError" in out.read_text()
        (tmp_path / "program.py").write_text(PROGRAM.replace("WORD, *", "'mended', *"))
        wait_until(lambda: len(counts(out, "mended")) > 2)
        assert counts(out, "mended")[0] == 1
        job.send_signal(signal.SIGTERM)
        assert job.wait(60) == 143
        assert "Traceback" not in out.read_text().replace(
            "Traceback (most recent call last):\n", "", 1
        )


def test_what_cannot_begin_is_told(tmp_path: Path) -> None:
    done = subprocess.run(
        [OKA, "run", "none.py", "--watch"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "'none.py' does not exist" in done.stderr
