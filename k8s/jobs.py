"""The Oka jobs of manifests: what a RayJob's entrypoint would run, planned as it would plan it."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import click

from engine.cli import read_config, run
from engine.errors import ConfigError
from engine.job import Plan
from engine.program import load_pipeline
from k8s.manifests import FOLDER, Document, name, of_kind


@dataclass(frozen=True)
class Job:
    """A RayJob whose entrypoint is `oka run …`."""

    document: Document
    words: tuple[str, ...]
    """The arguments of `oka run`."""
    settings: str | None
    """Content of the file that `--config` names, out of the ConfigMap."""

    def plan(self) -> Plan:
        """Its tasks and settings; raises an EngineError if it cannot be planned."""
        with tempfile.TemporaryDirectory(prefix="oka-k8s-") as folder:
            words = list(self.words)
            if self.settings is not None:
                path = Path(folder) / PurePosixPath(words[words.index("--config") + 1]).name
                path.write_text(self.settings, encoding="utf-8")
                words[words.index("--config") + 1] = str(path)
            options = parsed(words)
            return plan(options)


def jobs(documents: Sequence[Document]) -> list[Job]:
    """All RayJobs that run Oka; raises ConfigError if `--config` names a file that is not there."""
    found = []
    for document in of_kind(documents, "RayJob"):
        words = shlex.split(document["spec"]["entrypoint"])
        if words[:2] == ["oka", "run"]:
            settings = _settings(documents, document, words[2:])
            found.append(Job(document, tuple(words[2:]), settings))
    return found


def parsed(words: Sequence[str]) -> dict[str, Any]:
    """The parameters of `oka run` with these arguments; raises ConfigError."""
    try:
        return dict(run.make_context("run", list(words)).params)
    except click.ClickException as error:
        raise ConfigError(f"oka run {shlex.join(words)}: {error.format_message()}") from error


def plan(parameters: dict[str, Any]) -> Plan:
    """The plan of what `oka run` would run with these parameters."""
    options = {key: value for key, value in parameters.items() if key not in ("as_json", "top")}
    target, arguments = options.pop("target"), options.pop("arguments")
    pipeline, function = load_pipeline(located(target), arguments)
    return Plan.of(pipeline, read_config(function, options))


def located(target: str) -> str:
    """The target with a path that exists here: pipelines lie beside this package."""
    file, colon, function = target.partition(":")
    beside = FOLDER.parent / file
    return f"{beside}{colon}{function}" if not Path(file).exists() and beside.exists() else target


def settings_path(document: Document) -> PurePosixPath:
    """Where the head of the job's cluster has the ConfigMap with settings."""
    pod = document["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    volumes = {volume["name"] for volume in pod.get("volumes", []) if "configMap" in volume}
    for mount in pod["containers"][0].get("volumeMounts", []):
        if mount["name"] in volumes:
            return PurePosixPath(mount["mountPath"])
    raise ConfigError(f"{name(document)}: its head mounts no ConfigMap")


def _settings(
    documents: Sequence[Document], document: Document, words: Sequence[str]
) -> str | None:
    if "--config" not in words:
        return None
    path = PurePosixPath(words[words.index("--config") + 1])
    folder = settings_path(document)
    pod = document["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    maps = {v["configMap"]["name"] for v in pod["volumes"] if "configMap" in v}
    files: dict[str, str] = {
        str(folder / key): text
        for config_map in of_kind(documents, "ConfigMap")
        if config_map["metadata"]["name"] in maps
        for key, text in config_map.get("data", {}).items()
    }
    if str(path) not in files:
        raise ConfigError(
            f"{name(document)}: --config is {path}, expected a file of its ConfigMap",
            f"it has {', '.join(files) or 'none'}",
        )
    return files[str(path)]
