"""Functions at random: what they are lifted to gives what they give, types and all."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.lifting import ROOT, compared


def test_a_lifted_function_gives_what_the_function_gives() -> None:
    counts = compared(seed=1, functions=400, values=4)
    assert counts["lifted"] > 350
    assert counts["equal"] > 1000
    assert counts["gave up"] < counts["equal"] / 5


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_other_versions_of_python(version: str) -> None:
    """Each has opcodes of its own."""
    found = [shutil.which(f"python{version}")]
    found += sorted(map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python")))
    if not (there := [path for path in found if path is not None]):
        pytest.skip(f"there is no Python {version}")
    subprocess.run([there[-1], "-m", "tests.lifting", "2", "150", "4"], cwd=ROOT, check=True)
