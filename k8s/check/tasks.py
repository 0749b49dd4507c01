"""Jobs that can run and go on: tasks have a place, settings agree with pods, budgets keep pods."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator

import yaml

from engine.errors import ConfigError, EngineError
from engine.placement import place
from k8s.check.finding import Finding, either, note
from k8s.jobs import NotHere
from k8s.manifests import Document, matches, name, namespace, of_kind, spec
from k8s.subject import Subject


def tasks(subject: Subject) -> Iterator[Finding]:
    """Every RayJob runs Oka on Ray, and its cluster has room for all of its tasks.

    The placement is the one that the job itself would compute on such a cluster.
    """
    planned = {id(job.document): plan for job, plan in subject.plans}
    clusters = {id(cluster.document): cluster for cluster in subject.clusters}
    for document in of_kind(subject.documents, "RayJob"):
        plan, cluster = planned.get(id(document)), clusters.get(id(document))
        try:
            yaml.safe_load(spec(document).get("runtimeEnvYAML", ""))
            if plan is None:
                words = shlex.split(spec(document).get("entrypoint", ""))
                is_slip = words[:1] in (["run"], ["oak"], ["oka"], [])
                problem = f"an entrypoint that is not `oka run …`: {shlex.join(words)!r}"
                raise (ConfigError if is_slip else NotHere)(problem)
            if isinstance(plan, EngineError):
                raise plan
            if cluster is None or plan.config.runtime != "ray":
                raise NotHere(f"runtime is {plan.config.runtime!r}, expected 'ray' and a cluster")
            config, nodes = plan.config, cluster.nodes()
            placed = place(plan.execution, nodes, config.placement, config.strict_placement)
            most = max(Counter(placed.node(each).id for each in plan.execution.vertices).values())
            if config.ports and len(config.ports) < 2 * most:
                there = f"port_range has {len(config.ports)} ports"
                raise ConfigError(f"{there}, expected 2 for each of {most} tasks of a node")
        except NotHere as error:
            yield note(name(document), error.message, "what it needs is not looked at")
        except EngineError as error:
            yield Finding(name(document), error.message, error.hint or "")
        except (yaml.YAMLError, ValueError) as error:
            yield Finding(name(document), f"entrypoint or runtimeEnvYAML does not parse: {error}")


def checkpoints(subject: Subject) -> Iterator[Finding]:
    """What a job that fails goes on from is there, and it may go on as long as it takes."""
    users: dict[str, str] = {}
    for job, config in subject.configs:
        if config.resume is None and spec(job.document).get("activeDeadlineSeconds") is None:
            problem = "there is no activeDeadlineSeconds: if it hangs, it keeps its nodes"
            yield note(name(job.document), problem, "a job that resumes needs none")
        if config.checkpoints is None:
            continue
        url, where, said = config.checkpoints, name(job.document), spec(job.document)
        (cluster,) = (each for each in subject.clusters if each.document is job.document)
        bucket = re.fullmatch(r"s3://([^/]+)(/.*)?", url)
        if bucket and not re.fullmatch(r"[a-z0-9][-a-z0-9.]{1,61}[a-z0-9]", bucket.group(1)):
            yield Finding(where, f"checkpoints are {url}, which is no name of a bucket")
        elif not bucket and not all(group.keeps(url) for group in cluster.groups):
            problem = f"checkpoints are {url}, which pods take with them when they end"
            yield Finding(where, problem, "s3://BUCKET/PREFIX, or a volume that all pods share")
        if (other := users.setdefault(url.rstrip("/"), where)) != where:
            yield Finding(where, f"checkpoints are {url}, as those of {other}")
        if config.resume is None:
            retries = said.get("backoffLimit") or 0
            problem = f"writes checkpoints and does not resume; its {retries} retries are refused"
            yield either(retries == 0, where, problem, "resume: latest")
        if deadline := said.get("activeDeadlineSeconds"):
            problem = f"ends after activeDeadlineSeconds, {deadline}, retries among them"
            yield note(where, problem, "a job without an end has none; KubeRay does not retry then")


def budgets(subject: Subject) -> Iterator[Finding]:
    """Budgets keep a number of pods, at most those they select; each RayJob has one for all."""
    kept: dict[int, list[int]] = {}
    goes_on = [id(job.document) for job, config in subject.configs if config.checkpoints]
    of_ray = [id(cluster.document) for cluster in subject.clusters]
    for budget in of_kind(subject.documents, "PodDisruptionBudget"):
        pods, available = _pods(subject, budget), spec(budget).get("minAvailable")
        most = sum(pods.values())
        if "maxUnavailable" in spec(budget) or (not pods and type(available) is int):
            continue
        if type(available) is not int or not 1 <= available <= most:
            problem = f"minAvailable is {available!r}, expected 1 to {most}, the pods it selects"
            yield note(name(budget), problem, _NUMBER)
            continue
        for owner in pods:
            kept.setdefault(owner, []).append(available)
        if available == most > 1 and not pods.keys() & {*of_ray}:
            yield note(name(budget), f"keeps all {most} pods: no node of theirs can be drained")
    for cluster in subject.clusters:
        found, pods_of_it = kept.get(id(cluster.document), []), len(cluster.nodes())
        is_job = cluster.document["kind"] == "RayJob" and id(cluster.document) not in goes_on
        if len(found) > 1 or (is_job and found != [pods_of_it]):
            problem = f"its budgets keep {found} pods, expected one that keeps {pods_of_it}"
            yield note(cluster.owner, problem, "a pod that is evicted ends the job")


def _pods(subject: Subject, budget: Document) -> Counter[int]:
    """How many pods the budget selects, by the id of the document that has them."""
    counts: Counter[int] = Counter()
    for pod in subject.pods:
        same = namespace(pod.owner) == namespace(budget)
        if same and matches(spec(budget).get("selector"), pod.labels):
            counts[id(pod.owner)] += pod.replicas
    return +counts


_NUMBER = (
    "for what is no number Kubernetes asks the pods' controller how many there should be, which a "
    "RayCluster does not tell, and then allows no eviction at all"
)
