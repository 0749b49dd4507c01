"""The name that Oka is installed by, wherever it is told."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.peers.registry import PEERS
from engine.installation.distribution import DISTRIBUTION, install_hint

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def sources(*kinds: str) -> list[Path]:
    """Files of the repository that people or programs read, results apart."""
    listed = subprocess.run(
        ["git", "ls-files", *kinds], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [ROOT / name for name in listed if not name.startswith("benchmarks/results/")]


def test_it_is_that_of_the_project() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    assert install_hint("arrow") == "pip install 'oka-streams[arrow]'"


def test_every_hint_names_an_extra_that_there_is() -> None:
    hints = set()
    for path in sources("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            is_hint = isinstance(node, ast.Call) and ast.unparse(node.func) == "install_hint"
            if is_hint and isinstance(node.args[0], ast.Constant):
                hints.add(node.args[0].value)
    hints |= {peer.extra for peer in PEERS if peer.extra is not None}
    assert {"arrow", "models", "ray", "report", "speech"} <= hints
    assert hints <= set(PROJECT["optional-dependencies"])


@pytest.mark.parametrize("kind", ["*.py", "*.rs", "*.md", "*.yaml", "Dockerfile", "Makefile"])
def test_nothing_tells_people_to_install_a_strangers_package(kind: str) -> None:
    stranger = r"(?<![\w/-])oka\[\w+|pip install '?oka(?![\w-])"
    told = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in sources(kind)
        for found in re.finditer(stranger, path.read_text())
        if path != Path(__file__)
    ]
    assert told == []
