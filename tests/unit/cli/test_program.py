"""What `oka run FILE[:NAME]` makes of a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import engine.testing
from engine.cli.program import load_pipeline
from engine.errors import ConfigError, GraphError

HEAD = """
from operators import Pipeline, Stream, source
from operators.sinks import Collect
from operators.sources import Collection

numbers = source(Collection([1, 2]))
"""


@pytest.fixture(autouse=True)
def _own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", sys.path.copy())
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


def written(folder: Path, text: str, name: str = "mine.py") -> str:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(HEAD + text)
    return str(folder / name)


def output(target: str, *arguments: str) -> tuple[Any, str]:
    pipeline, name = load_pipeline(target, arguments)
    return engine.testing.run(pipeline), name


def refused(target: str, *arguments: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_pipeline(target, arguments)
    return str(caught.value)


ONE = {"collect": [1, 2]}


@pytest.mark.parametrize(
    "text",
    [
        "def pipeline(): return numbers.sink(Collect())",
        "def mine(): return numbers.sink(Collect())",
        "def mine(): raise ValueError\ndef pipeline(): return numbers.sink(Collect())",
        "pipeline = numbers.sink(Collect())",
        "pipeline = [numbers.sink(Collect())]",
        "mine = numbers.sink(Collect())",
        "anything = numbers.sink(Collect())",
        "anything = other = numbers.sink(Collect())",
        "import json as pipeline\nanything = numbers.sink(Collect())",
        "anything = numbers.sink(Collect())\nif __name__ == '__main__': raise ValueError",
    ],
)
def test_the_pipeline_of_a_file(tmp_path: Path, text: str) -> None:
    assert output(written(tmp_path, text)) == (ONE, "mine")


def test_a_named_one_of_several(tmp_path: Path) -> None:
    target = written(
        tmp_path,
        "one = numbers.sink(Collect())\n"
        "two = numbers.map(lambda n: n + 1).sink(Collect())\n"
        "both = [one, two]\n"
        "def shifted(by=0): return numbers.map(lambda n: n + by).sink(Collect())\n",
    )
    assert output(f"{target}:one") == (ONE, "one")
    assert output(f"{target}:shifted", "by=3") == ({"collect": [4, 5]}, "shifted")
    assert output(f"{target}:both")[0] == {"collect": [1, 2], "collect-2": [2, 3]}
    told = refused(target)
    assert "has 2 pipelines, one, two, expected one, or one named pipeline" in told
    assert f"oka run {target}:one" in told
    assert "has no three, expected a function or a pipeline" in refused(f"{target}:three")
    assert "its pipelines are one, two" in refused(f"{target}:three")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has the streams numbers, expected a pipeline\n\nhint: end one with a sink"),
        ("del numbers", "has no function pipeline() or mine(), and no variable that is a pipeline"),
        ("import absent_package", "ModuleNotFoundError: No module named 'absent_package'"),
        ("from .helper import f", "hint: as with `python FILE`, it is in no package"),
        ("def broken(:", "SyntaxError: invalid syntax"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def pipeline(): return 1 / 0", "pipeline() in "),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path: Path, text: str, told: str) -> None:
    refusal = refused(written(tmp_path, text))
    assert told in refusal
    assert "engine/cli/program.py" not in refusal
    if "Traceback" in refusal:
        first = refusal.split("Traceback (most recent call last):\n")[1].splitlines()[0]
        assert str(tmp_path / "mine.py") in first


def test_arguments_are_for_functions(tmp_path: Path) -> None:
    target = written(tmp_path, "pipeline = numbers.sink(Collect())")
    assert "is a pipeline and takes no arguments, got n" in refused(target, "n=3")
    target = written(tmp_path, "def pipeline(n=1): return numbers.sink(Collect())", "other.py")
    assert "it takes (n=1)" in refused(target, "m=3")
    assert "hint: did you mean 'n_words'? it takes" in refused(
        written(tmp_path, "def pipeline(n_words=1): pass", "third.py"), "nwords=3"
    )
    assert "expected NAME=VALUE" in refused(target, "m")


def test_arguments_have_the_types_that_the_function_says(tmp_path: Path) -> None:
    target = written(
        tmp_path,
        "def pipeline(version: str, dry: bool = True, rate: float = 1.0, sizes: list[int] = ()):\n"
        "    made = repr((version, dry, rate, sizes))\n"
        "    return numbers.map(lambda n: made).take(1).sink(Collect())",
    )
    found = output(target, "dry=false", "version=1.10", "rate=nan", "sizes=1,2")[0]
    assert found == {"collect": ["('1.10', False, nan, [1, 2])"]}
    assert "dry is 'nein', expected bool" in refused(target, "version=1", "dry=nein")


def test_mistakes_of_the_graph_are_told_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"source\(\) got list"):
        load_pipeline(written(tmp_path, "source([1])"), ())
    stream, _ = load_pipeline(written(tmp_path, "pipeline = numbers", "stream.py"), ())
    with pytest.raises(GraphError, match="has no sink"):
        engine.testing.run(stream)


@pytest.mark.parametrize(
    "name", ["json.py", "numpy.py", "two words.py", "a.b.py", "script", "-x.py"]
)
def test_any_name_of_a_file(tmp_path: Path, name: str) -> None:
    before = dict(sys.modules)
    target = written(tmp_path, "pipeline = numbers.map(lambda n: n).sink(Collect())", name)
    assert output(target)[0] == ONE
    assert all(sys.modules[known] is module for known, module in before.items())


def test_a_file_is_loaded_anew_each_time(tmp_path: Path) -> None:
    target = written(tmp_path, "pipeline = numbers.sink(Collect())")
    output(target)
    written(tmp_path, "pipeline = numbers.map(lambda n: 10 * n).sink(Collect())  # longer")
    assert output(target) == ({"collect": [10, 20]}, "mine")


def test_files_that_are_none(tmp_path: Path) -> None:
    assert "does not exist" in refused(str(tmp_path / "absent.py"))
    assert "is a folder" in refused(str(tmp_path))
    target = written(tmp_path, "pipeline = numbers.sink(Collect())", "12:30/mine.py")
    assert output(target) == (ONE, "mine")
    assert output(f"{target}:pipeline") == (ONE, "pipeline")


def test_what_hides_a_package_is_named(tmp_path: Path) -> None:
    target = written(tmp_path, "pipeline = numbers.sink(Collect())")
    (tmp_path / "engine.py").touch()
    told = refused(target)
    assert f"{tmp_path}/engine.py hides Oka's package 'engine', which is in " in told
    assert "hint: give it another name" in told


def test_a_folder_that_oka_hides_is_named(tmp_path: Path) -> None:
    target = written(tmp_path, "from operators.helper import f")
    written(tmp_path, "def f(): pass", "operators/helper.py")
    told = refused(target)
    assert "No module named 'operators.helper'" in told
    assert told.endswith(f"hides {tmp_path}/operators")


def test_a_package_that_hides_okas_own_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "benchmarks"]:
        monkeypatch.delitem(sys.modules, name)
    target = written(tmp_path, "import benchmarks.recovery.soak")
    written(tmp_path, "", "benchmarks/__init__.py")
    assert f"{tmp_path}/benchmarks/__init__.py hides Oka's package 'benchmarks'" in refused(target)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("watched", "watched"),
        ("watched:pipeline", "pipeline"),
        ("parts.watched", "watched"),
        ("parts.watched:mine", "mine"),
        ("parts", "parts"),
    ],
)
def test_a_module_that_python_finds_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, name: str
) -> None:
    text = "\ndef mine(n: int = 2): return numbers.map(lambda x: x * n).sink(Collect())\n"
    written(tmp_path, f"pipeline = numbers.sink(Collect()){text}", "watched.py")
    beside = f"from .beside import numbers\npipeline = numbers.sink(Collect()){text}"
    written(tmp_path, beside, "parts/watched.py")
    written(tmp_path, "", "parts/beside.py")
    written(tmp_path, "pipeline = numbers.sink(Collect())", "parts/__init__.py")
    monkeypatch.chdir(tmp_path)
    found, called = output(target, *(["n=1"] if name == "mine" else []))
    assert (found, called) == (ONE, name)


def test_modules_that_there_are_not_or_that_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, "import there_is_no_such_module", "failing.py")
    written(tmp_path, "1 / 0", "broken/__init__.py")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    for target in ("absent", "absent.deep", "sys"):
        told = f"'{target}' does not exist\n\nhint: nor is there a module {target}"
        assert told in refused(target)
    assert "there_is_no_such_module" in refused("failing.deep")
    assert "'empty' is a folder" in refused("empty")
    told = refused("failing")
    assert told.startswith("failing cannot be loaded\n\nTraceback")
    assert "importlib/__init__.py" not in told
    assert "ZeroDivisionError" in refused("broken.deep")
    assert refused("json").startswith("json has no function pipeline() or json()")
