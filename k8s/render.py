"""Manifests of one job: those of an overlay, in the size that the job needs."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from engine.cli.main import read_settings
from engine.config import JobConfig, read_file
from engine.errors import ConfigError
from engine.plan import Plan
from k8s.jobs import plan, settings, settings_path, settings_volume
from k8s.lifetime import check_lifetime, set_lifetime
from k8s.manifests import Cluster, Document, Group, clusters, component, name, of_kind
from k8s.manifests import pods as pods_of
from k8s.options import Options, asked, dress, give_gpus, prefer_spot
from k8s.quantity import bytes_text, parse
from k8s.size import most_channels, pod_memory, pods_needed


def render(
    documents: Sequence[Document],
    parameters: Mapping[str, Any],
    slots: int | None = None,
    job_name: str | None = None,
    options: Options = Options(),  # noqa: B008 - it is frozen
) -> list[Document]:
    """The documents of an overlay that the job needs, in its size.

    `parameters` are those of `oka run`. Missing settings come from the file `config`, and then from
    the overlay's ConfigMap for a job of this pipeline, or for word count. `slots` are tasks per pod
    of the group `operators`. `job_name` defaults to that of the pipeline: two jobs at the same time
    need two names, and then share no object that one of them could change. Raises PlacementError if
    the tasks fit on no number of such pods, and ConfigError for options that would break the job.
    """
    overlay = copy.deepcopy(list(documents))
    pipeline = pipeline_name(parameters["target"])
    job = _job(overlay, pipeline, job_name or pipeline)
    _refuse(options)
    set_lifetime(job, options)
    config_map = _config_map(overlay, job)
    merged = _settings(config_map, job, parameters, options)
    planned = plan({**parameters, "config": None, "more": (), "insecure": False} | merged)
    cluster = next(each for each in clusters(overlay) if each.document is job)
    if slots is not None:
        _set_slots(cluster, slots)
    if options.gpu:
        _set_gpus(cluster, planned, options.gpu)
    pods = _set_size(cluster, planned, options.spare)
    check_lifetime(job, planned.config, cluster, options)
    _set_settings(config_map, job, planned.config)
    job["spec"]["entrypoint"] = _entrypoint(job, parameters)
    needed = [each for each in overlay if component(each) in (None, component(job))]
    _set_budgets(needed, pods, planned.config.checkpoints is not None)
    if options.spot:
        for pod in pods_of(needed):
            if pod.group is not None and pod.group.name != "head":
                prefer_spot(pod)
    dress(needed, options)
    return needed


def pipeline_name(target: str) -> str:
    """The name of a pipeline's job, in the letters that Kubernetes allows."""
    file, _, function = target.partition(":")
    stem = function or file.rsplit("/", 1)[-1].removesuffix(".py")
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")


def _refuse(options: Options) -> None:
    for option in asked(options, ("replicas", "max_replicas", "host")):
        raise ConfigError(
            f"{option} is for a pipeline that serves requests, expected one with an HttpSource",
            "the pods of a job on Ray are as many as its tasks need; --spare has more of them",
        )


def check_name(job_name: str) -> None:
    """Raise ConfigError for a name that a job cannot have."""
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", job_name):
        raise ConfigError(
            f"name is {job_name!r}, expected lower case letters, digits and '-'", _NAME_HINT
        )
    if len(job_name) > _NAME_LENGTH or job_name == _CLUSTER:
        raise ConfigError(
            f"name is {job_name!r}, expected up to {_NAME_LENGTH} characters, not {_CLUSTER!r}",
            _NAME_HINT,
        )


def _job(documents: list[Document], pipeline: str, job_name: str) -> Document:
    """The RayJob of this name, or a new one like that of its pipeline, or of word count."""
    check_name(job_name)
    templates = {component(job): job for job in of_kind(documents, "RayJob")}
    template = next((each for each in (job_name, pipeline, _TEMPLATE) if each in templates), None)
    if template is None:
        raise ConfigError(f"the overlay has no RayJob {job_name!r}, and none for {_TEMPLATE!r}")
    if template == job_name:
        return templates[job_name]
    copies = [renamed(each, template, job_name) for each in documents]
    documents += [each for each in copies if component(each) == job_name]
    return next(each for each in of_kind(documents, "RayJob") if component(each) == job_name)


def renamed(value: Any, template: str, job_name: str) -> Any:
    """A copy of part of a document, with the name of another job in every text but images."""
    if isinstance(value, dict):
        return {
            key.replace(template, job_name): each
            if key == "image"
            else renamed(each, template, job_name)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [renamed(each, template, job_name) for each in value]
    return value.replace(template, job_name) if isinstance(value, str) else value


def _settings(
    config_map: Document, job: Document, parameters: Mapping[str, Any], options: Options
) -> dict[str, Any]:
    """Parameters of `oka run`: the given ones, then those of the file, then the ConfigMap's."""
    given = {key: value for key, value in parameters.items() if value is not None}
    base = yaml.safe_load(config_map["data"][f"{component(job)}.yaml"])
    if (path := given.pop("config", None)) is not None:
        base |= read_file(path)
    merged = {**base, **read_settings(given.pop("more", ()))}
    if options.endless and {**merged, **given}.get("checkpoints") is not None:
        given.setdefault("resume", merged.get("resume") or "latest")
    known = {"parallelism", "batch_size", "runtime", "placement", "strict_placement", "transport"}
    named = {key: merged.pop(key) for key in known & merged.keys()}
    return {**named, **given, "more": tuple(f"{key}={value}" for key, value in merged.items())}


def _set_slots(cluster: Cluster, slots: int) -> None:
    """So many tasks on each pod, a CPU each, and one for the raylet and the I/O threads."""
    for group in cluster.groups:
        if "operator_slot" in group.ray_resources:
            group.spec["resources"].update(CPU=str(slots), operator_slot=str(slots))
            _set_resource(group, "cpu", str(slots + 1))


def _set_gpus(cluster: Cluster, planned: Plan, gpus: int) -> None:
    """Set so many GPUs in each pod of workers, for the device plugin of Kubernetes and for Ray."""
    tasks = [vertex for vertex in planned.execution.job.vertices if vertex.resources.get("gpus")]
    if not tasks:
        raise ConfigError(
            f"--gpu is {gpus} and no task asks for a GPU, expected one that does",
            """--set 'resources={"NAME": {"gpus": 1}}', with the operator's name""",
        )
    for group in cluster.groups[1:]:
        spec: Any = group.spec
        spec.setdefault("resources", {})["GPU"] = str(gpus)
        give_gpus(group.pod, group.container, gpus)


def _set_size(cluster: Cluster, planned: Plan, spare: int) -> int:
    """Set replicas and memory of the worker groups. Returns the number of pods with the head.

    A group with tasks has `spare` more pods than they need, for the tasks of a lost pod.
    """
    workers = cluster.groups[1:]
    counts = pods_needed(planned, {group.name: group.ray_resources for group in workers})
    counts = {group: count and count + spare for group, count in counts.items()}
    channels = most_channels(planned.execution)
    for group in workers:
        spec: Any = group.spec
        spec.update(dict.fromkeys(("replicas", "minReplicas", "maxReplicas"), counts[group.name]))
        if counts[group.name]:
            needed = pod_memory(slots(group), channels, planned.config, shared_memory(group))
            _set_resource(group, "memory", bytes_text(needed))
    return 1 + sum(counts.values())


def slots(group: Group) -> int:
    """The most tasks on a pod of the group: by slots, or else by CPUs."""
    resources = group.ray_resources
    named = [amount for key, amount in resources.items() if key.endswith("_slot")]
    return int(max(named, default=resources.get("cpus", 0.0)))


def shared_memory(group: Group) -> int:
    """Bytes of the group's /dev/shm; 0 if it has none."""
    return sum(
        int(parse(volume["emptyDir"].get("sizeLimit", 0)))
        for volume in group.pod.get("volumes", [])
        if volume.get("emptyDir", {}).get("medium") == "Memory"
    )


def _set_resource(group: Group, resource: str, amount: str) -> None:
    for kind in ("requests", "limits"):
        group.container["resources"][kind][resource] = amount


def _set_budgets(documents: list[Document], pods: int, goes_on: bool) -> None:
    """Set the budgets: with checkpoints, one Ray pod at a time or the submitter may be evicted.

     Then the job moves the tasks of a worker, and a new submitter finds the running job. Without
    checkpoints no pod may be evicted.
    """
    for budget in of_kind(documents, "PodDisruptionBudget"):
        if "ray.io/is-ray-node" in budget["spec"]["selector"]["matchLabels"]:
            budget["spec"]["minAvailable"] = pods - goes_on
        elif goes_on:
            documents.remove(budget)


def _set_settings(config_map: Document, job: Document, config: JobConfig) -> None:
    """The job's file: settings that differ from the defaults.

    Another content is another ConfigMap.
    """
    changed = {
        setting.name: getattr(config, setting.name)
        for setting in dataclasses.fields(config)
        if setting.name != "name" and getattr(config, setting.name) != _default(setting)
    }
    text = yaml.safe_dump(changed, sort_keys=False)
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    config_map["data"] = {f"{component(job)}.yaml": text}
    config_map["metadata"]["name"] = f"{job['metadata']['name']}-{digest}"
    volume = settings_volume(job)
    assert volume is not None
    volume["configMap"]["name"] = config_map["metadata"]["name"]


def _default(setting: dataclasses.Field[Any]) -> Any:
    if setting.default_factory is not dataclasses.MISSING:
        return setting.default_factory()
    return setting.default


def _config_map(documents: Sequence[Document], job: Document) -> Document:
    found = settings(documents, job)
    if found is None or settings_path(job) is None:
        raise ConfigError(
            f"{name(job)} mounts no ConfigMap of its overlay, expected one with its settings"
        )
    return found


def _entrypoint(job: Document, parameters: Mapping[str, Any]) -> str:
    config = f"{settings_path(job)}/{component(job)}.yaml"
    return shlex.join(
        ["oka", "run", parameters["target"], *parameters["arguments"], "--config", config]
    )


_TEMPLATE = "word-count"
_CLUSTER = "cluster"  # the cluster that stays
_NAME_LENGTH = 43  # KubeRay takes RayJobs of up to 47 characters, `oka-` included
_NAME_HINT = "--name says how the job is called"
