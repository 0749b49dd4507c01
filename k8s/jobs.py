"""The Oka jobs of manifests: a RayJob's entrypoint, planned as it would plan itself."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import click

from engine.arguments import parameters_of
from engine.cli.main import read_config, run
from engine.cli.program import bind_pipeline, load_pipeline
from engine.config import JobConfig
from engine.errors import ConfigError
from engine.plan import Plan
from k8s.manifests import FOLDER, Document, clusters, of_kind, spec

T = TypeVar("T")


class NotHere(ConfigError):
    """A pipeline that is not on this machine, but may be in the image."""


@dataclass(frozen=True)
class Job:
    """A RayJob whose entrypoint is `oka run …`."""

    document: Document
    words: tuple[str, ...]
    """The arguments of `oka run`."""
    files: Mapping[str, str]
    """Paths and contents of the ConfigMap that the head mounts."""

    def plan(self) -> Plan:
        """Its tasks and settings. Raises an EngineError if it cannot be planned."""
        return self._with_settings(plan)

    def config(self) -> JobConfig:
        """Only its settings, which do not need its pipeline here. Raises an EngineError."""
        return self._with_settings(
            lambda options: read_config(
                "job",
                {key: value for key, value in options.items() if key not in _NO_SETTINGS},
                variables={},
            )
        )

    def _with_settings(self, read: Callable[[dict[str, Any]], T]) -> T:
        options = parsed(self.words)
        path = options["config"]
        if path is None:
            return read(options)
        if path not in self.files:
            raise ConfigError(
                f"--config is {path}, expected a file of the job's ConfigMap",
                f"it has {', '.join(self.files) or 'none'}",
            )
        with tempfile.TemporaryDirectory(prefix="oka-k8s-") as folder:
            file = Path(folder) / PurePosixPath(path).name
            file.write_text(self.files[path], encoding="utf-8")
            return read({**options, "config": str(file)})


def jobs(documents: Sequence[Document]) -> list[Job]:
    """All RayJobs that run Oka."""
    found = []
    for document in of_kind(documents, "RayJob"):
        try:
            words = shlex.split(spec(document).get("entrypoint", ""))
        except ValueError:  # a quote that does not end
            continue
        if words[:2] == ["oka", "run"]:
            found.append(Job(document, tuple(words[2:]), settings_files(documents, document)))
    return found


def parsed(words: Sequence[str]) -> dict[str, Any]:
    """The parameters of `oka run` with these arguments. Raises ConfigError."""
    try:
        return dict(run.make_context("run", list(words)).params)
    except click.ClickException as error:
        raise ConfigError(f"oka run {shlex.join(words)}: {error.format_message()}") from error
    except click.exceptions.Exit as error:  # --help
        raise ConfigError(f"oka run {shlex.join(words)} runs nothing") from error


def plan(parameters: dict[str, Any]) -> Plan:
    """The plan of `oka run` with these parameters."""
    options = {key: value for key, value in parameters.items() if key not in _OF_THE_RUN}
    target, arguments = options.pop("target"), options.pop("arguments")
    with _here(target) as path:
        pipeline, function = load_pipeline(path, arguments)
    # Its pods have no variables of this shell.
    return Plan.of(pipeline, read_config(function, options, variables={}))


def bound(target: str, arguments: Sequence[str]) -> dict[str, Any]:
    """The arguments of a pipeline's function with their values, given or default.

     The function is not called. Raises NotHere if the pipeline is elsewhere, and ConfigError for
    arguments that it does not have.
    """
    with _here(target) as path:
        function, _, values = bind_pipeline(path, arguments)
    takes = parameters_of(function) if callable(function) else []
    return {each.name: each.default for each in takes if each.default is not each.empty} | values


@contextmanager
def _here(target: str) -> Iterator[str]:
    """The target if it is on this machine. Raises NotHere if it is not."""
    path = located(target)
    if not Path(path.partition(":")[0]).exists():
        raise NotHere(f"pipeline file {target.partition(':')[0]!r} does not exist here")
    try:
        yield path
    except ImportError as error:
        raise ConfigError(f"{target} cannot be loaded: {error}") from error


def located(target: str) -> str:
    """The target with a path that exists here: pipelines are beside this package."""
    file, colon, function = target.partition(":")
    beside = FOLDER.parent / file
    return f"{beside}{colon}{function}" if not Path(file).exists() and beside.exists() else target


def settings_files(documents: Sequence[Document], job: Document) -> dict[str, str]:
    """Paths and contents of the files with settings, on the head of the job's cluster."""
    config_map = settings(documents, job)
    folder = settings_path(job)
    if config_map is None or folder is None:
        return {}
    return {str(folder / key): text for key, text in config_map.get("data", {}).items()}


def settings(documents: Sequence[Document], job: Document) -> Document | None:
    """The ConfigMap that the head of the job's cluster mounts; None if it does not exist."""
    volume = settings_volume(job)
    for document in of_kind(documents, "ConfigMap"):
        if volume and document["metadata"]["name"] == volume["configMap"].get("name"):
            return document
    return None


def settings_path(job: Document) -> PurePosixPath | None:
    """The path at which the head mounts it; None if it does not."""
    volume = settings_volume(job) or {}
    for cluster in clusters([job]) if volume else ():
        for mount in cluster.groups[0].container.get("volumeMounts", []):
            if mount["name"] == volume["name"]:
                return PurePosixPath(mount["mountPath"])
    return None


def settings_volume(job: Document) -> dict[str, Any] | None:
    """The volume of the head of the job's cluster that is a ConfigMap; None if there is none."""
    volumes = [each for found in clusters([job]) for each in found.groups[0].pod.get("volumes", [])]
    return next((each for each in volumes if "configMap" in each), None)


_OF_THE_RUN = ("as_json", "top", "drain_seconds", "watch")
"""Parameters of `oka run` that its plan does not depend on."""
_NO_SETTINGS = (*_OF_THE_RUN, "target", "arguments")
