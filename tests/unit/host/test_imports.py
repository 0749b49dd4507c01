"""Where a worker looks for modules."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from engine.host import imports
from engine.host.imports import ImportPath


def test_what_comes_before_the_library_is_the_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = sys.path.copy()
    library = next(entry for entry in own if entry.endswith(f"python3.{sys.version_info.minor}"))
    monkeypatch.setattr(sys, "path", ["", "/program", library, "/packages"])
    found = ImportPath.of_this_process()
    assert found.program == (str(tmp_path), "/program")
    assert found.others == (library, "/packages")


def test_the_programs_come_first_and_what_is_not_there_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, packages = tmp_path / "program", tmp_path / "packages"
    program.mkdir()
    packages.mkdir()
    monkeypatch.setattr(sys, "path", ["/own", str(packages)])
    there = ImportPath((str(program), "/absent"), ("/own", str(packages), "/absent, too"))
    assert there.unpickle(pickle.dumps(7), pickle.loads) == 7
    assert sys.path == [str(program), "/own", str(packages)]


def test_a_missing_module_comes_with_a_hint() -> None:
    data = b"cabsent_module\nfunction\n."
    with pytest.raises(ModuleNotFoundError, match="No module named 'absent_module'") as caught:
        ImportPath.of_this_process().unpickle(data, pickle.loads)
    assert "hint: install it on every node" in str(caught.value)


def test_a_process_imports_oka_before_the_programs_folder_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ast.py", "queue.py", "random.py", "engine.py", "engine_test_main.py"):
        (tmp_path / name).write_text("raise AssertionError(__file__)")
    (tmp_path / "later.py").touch()
    own = tmp_path / "own"
    own.mkdir()
    (own / "a_main.py").write_text(
        "import ast, queue, random\ndef main(): import later; print('ran')"
    )
    monkeypatch.setattr(imports, "_OWN", (str(own), *imports._OWN))
    monkeypatch.syspath_prepend(str(tmp_path))
    command = [sys.executable, *imports.arguments("a_main")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("ran\n", 0), done.stderr
