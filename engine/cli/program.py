"""A user's file or module with a pipeline, the argument of `oka run`.

A file is imported as `python FILE` would run it: its folder comes first on the path, whatever the
current one is, and workers can import modules beside it, too. What is no file is a module, imported
as `python -m MODULE` would: the current folder comes first on the path. The pipeline is one of:

1. what FILE:NAME names, or MODULE:NAME: a function that returns a pipeline, a pipeline, or a list
   of them;
2. else the variable `pipeline`, or the one with the file's name;
3. else the only variable that is a pipeline, that is, what `.sink(…)` returned.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from engine.arguments import call_arguments, split_assignments
from engine.errors import ConfigError, EngineError, did_you_mean
from engine.graph.declaration import Declaration, OpenStream
from engine.installation import shadows


def load_pipeline(target: str, arguments: Sequence[str]) -> tuple[Any, str]:
    """The pipeline that FILE[:NAME] means, called with the arguments if it is a function; its name.

    Raises ConfigError where there is none, and with the user's traceback where the file raises.
    """
    found, name, values = bind_pipeline(target, arguments)
    if not callable(found):
        return found, name
    path = _located(target).path
    with _user_errors(path, f"{getattr(found, '__name__', name)}() in {path} failed"):
        return found(**values), name


def bind_pipeline(target: str, arguments: Sequence[str]) -> tuple[Any, str, dict[str, Any]]:
    """The object of FILE[:NAME], its name, and the values of its arguments; nothing is called.

    Raises ConfigError for an argument that the function does not take.
    """
    found, name = find_pipeline(target)
    path = _located(target).path
    given = split_assignments(arguments, "an argument")
    if not callable(found):
        if given:
            raise ConfigError(
                f"{name!r} in {path} is a pipeline and takes no arguments, got {', '.join(given)}",
                "only functions take arguments",
            )
        return found, name, {}
    function = getattr(found, "__name__", name)
    signature = inspect.signature(found)
    try:
        signature.bind(**given)
    except TypeError as error:
        unknown = [each for each in given if each not in signature.parameters]
        meant = did_you_mean(unknown[0], signature.parameters) if unknown else ""
        raise ConfigError(f"{function}: {error}", f"{meant}it takes {signature}") from error
    return found, name, call_arguments(found, given)


def find_pipeline(target: str) -> tuple[Any, str]:
    """The object of FILE[:NAME], a function or a pipeline, and its name."""
    place = _located(target)
    return _chosen(_load(place), place), place.name or place.stem


def file_of(target: str) -> Path:
    """The file that has the pipeline; raises ConfigError if there is none."""
    return _located(target).path


@dataclass(frozen=True)
class _Place:
    """Where a pipeline is: its file, the name behind the colon, and the module if one is named."""

    path: Path
    name: str
    module: str | None = None

    @property
    def stem(self) -> str:
        """What the pipeline may be called by default."""
        return self.path.stem if self.module is None else self.module.rpartition(".")[2]


def _located(target: str) -> _Place:
    file, colon, name = target.rpartition(":")
    if not colon or Path(target).exists():
        file, name = target, ""
    path = Path(file)
    if path.is_file():
        return _Place(path, name)
    if path.suffix != ".py" and all(part.isidentifier() for part in file.split(".")):
        if (found := _found(file)) is not None:
            return _Place(found, name, file)
        hint = f"nor is there a module {file} here or on the path of Python"
    else:
        hint = None
    wrong = "is a folder" if path.is_dir() else "does not exist"
    raise ConfigError(f"pipeline file {file!r} {wrong}", hint)


def _found(module: str) -> Path | None:
    """The file of a module that can be imported from the current folder."""
    _begin_path(Path.cwd())
    with _user_errors(Path.cwd(), f"the package of {module} cannot be loaded"):
        try:
            spec = importlib.util.find_spec(module)
        except ModuleNotFoundError as error:
            if error.name is not None and f"{module}.".startswith(f"{error.name}."):
                return None
            raise
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        return None
    return Path(spec.origin)


def _begin_path(folder: Path) -> None:
    if (hiding := shadows.hiding(folder)) is not None:
        raise ConfigError(shadows.told(*hiding), shadows.HINT)
    sys.path[:] = dict.fromkeys([str(folder), *sys.path])


def _load(place: _Place) -> ModuleType:
    """Import the file; its functions travel to workers by value."""
    if place.module is not None:
        with _user_errors(place.path, f"{place.module} cannot be loaded"):
            module = importlib.import_module(place.module)
        cloudpickle.register_pickle_by_value(module)
        return module
    _begin_path(place.path.resolve().parent)
    file = str(place.path.absolute())
    name = _module_name(file)
    spec = importlib.util.spec_from_file_location(name, file, loader=SourceFileLoader(name, file))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _user_errors(place.path, f"{place.path} cannot be loaded"):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    # Workers cannot import a file whose name is another module's, nor nodes that have no such file.
    cloudpickle.register_pickle_by_value(module)
    return module


def _module_name(file: str) -> str:
    """The file's name, or one like it that no other module has."""
    name = re.sub(r"\W", "_", Path(file).stem)
    while _file_of(name) not in (None, file):
        name += "_"
    return name


def _file_of(name: str) -> str | None:
    """Where the module of that name is from; None if there is none."""
    if name in sys.modules:
        return getattr(sys.modules[name], "__file__", None) or "built in"
    spec = importlib.util.find_spec(name)
    return None if spec is None else spec.origin or "a folder"


def _chosen(module: ModuleType, place: _Place) -> Any:
    """What of the module to run."""
    name = place.name
    has = {key: value for key, value in vars(module).items() if not isinstance(value, ModuleType)}
    for wanted in [name] if name else ["pipeline", place.stem]:
        if wanted in has:
            return has[wanted]
    pipelines = _pipelines(has)
    if not name and len(pipelines) == 1:
        return has[pipelines[0]]
    raise _nothing_chosen(place, has, pipelines)


def _pipelines(has: Mapping[str, Any]) -> list[str]:
    """Names of the variables that are pipelines, one of each pipeline."""
    names: dict[int, str] = {}
    for name, value in has.items():
        declared = hasattr(type(value), "declaration")  # looked up in the type: it runs no code
        if declared and isinstance(value.declaration, Declaration):
            names.setdefault(id(value.declaration), name)
    return list(names.values())


def _streams(has: Mapping[str, Any]) -> list[str]:
    """Names of the variables that are streams."""
    return [
        name
        for name, value in has.items()
        if isinstance(value, OpenStream) and not isinstance(value, type)
    ]


def _nothing_chosen(place: _Place, has: Mapping[str, Any], pipelines: Sequence[str]) -> ConfigError:
    path, name = place.module or place.path, place.name
    listed = ", ".join(pipelines)
    if name:
        there = (
            f"its pipelines are {listed}" if pipelines else "it has no variable that is a pipeline"
        )
        return ConfigError(f"{path} has no {name}, expected a function or a pipeline", there)
    if pipelines:
        return ConfigError(
            f"{path} has {len(pipelines)} pipelines, {listed}, expected one, or one named pipeline",
            f"oka run {path}:{pipelines[0]} runs one; pipeline = [{listed}] runs all in one job",
        )
    if streams := _streams(has):
        return ConfigError(
            f"{path} has the streams {', '.join(streams)}, expected a pipeline",
            f"end one with a sink, such as pipeline = {streams[-1]}.sink(Collect())",
        )
    return ConfigError(
        f"{path} has no function pipeline() or {place.stem}(), and no variable that is a pipeline",
        "oka run FILE:NAME names another; a program that calls execute is run by python",
    )


@contextmanager
def _user_errors(path: Path, what: str) -> Iterator[None]:
    """Turn what the user's code raises into a ConfigError with the user's part of the traceback."""
    try:
        yield
    except EngineError:
        raise
    except Exception as error:
        told = traceback.TracebackException.from_exception(error)
        while told.stack and told.stack[0].filename.startswith(_NOT_USERS):
            del told.stack[0]
        hint = None
        if isinstance(error, ImportError):
            relative = "relative import" in str(error)
            hint = _RELATIVE if relative else shadows.explained(error, path.resolve().parent)
        raise ConfigError(f"{what}\n\n{''.join(told.format()).rstrip()}", hint) from error


_NOT_USERS = (str(Path(__file__).parents[1]), "<frozen importlib", importlib.__file__)
_RELATIVE = "as with `python FILE`, it is in no package: import what lies beside it by its name"
