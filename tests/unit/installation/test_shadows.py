"""Which files hide packages of Oka's; tests/integration/test_users_folder.py sees the errors."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from pathlib import Path

import engine
import operators
from engine.installation import shadows


def test_files_of_others_and_our_own() -> None:
    for origin in (
        "/engine.py",
        "/x/engine.py",
        "/x/engine/__init__.py",
        "/x/y/engine/__init__.py",
    ):
        assert shadows._other(ModuleSpec("engine", None, origin=origin)) == Path(origin)
    for package in (engine, operators):
        assert shadows._other(package.__spec__) is None
    assert shadows._other(ModuleSpec("engine", None)) is None  # a folder without __init__.py


def test_a_folder_with_our_own_packages_hides_none(tmp_path: Path) -> None:
    folder = Path(engine.__file__).parents[1]
    assert shadows.hiding(folder) is None
    (tmp_path / "link").symlink_to(folder)
    assert shadows.hiding(tmp_path / "link") is None
    (tmp_path / "engine").mkdir()
    assert shadows.hiding(tmp_path) is None
    (tmp_path / "engine" / "__init__.py").touch()
    assert shadows.hiding(tmp_path) == (tmp_path / "engine" / "__init__.py", "engine")
