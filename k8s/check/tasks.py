"""Jobs can run and go on: tasks have a place, settings agree with pods, budgets keep pods."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator

import yaml

from engine.errors import EngineError
from engine.placement.place import place
from engine.plan import Plan
from k8s.check.finding import Finding, say
from k8s.jobs import NotHere
from k8s.manifests import Cluster, Document, matches, name, namespace, spec
from k8s.subject import Subject


def tasks(subject: Subject) -> Iterator[Finding]:
    """Every RayJob runs Oka on Ray, and its cluster has room for all of its tasks."""
    clusters = {id(cluster.document): cluster for cluster in subject.clusters}
    for document in subject.of_kind("RayJob"):
        where, plan = name(document), subject.plans.get(id(document))
        try:
            yield from _runtime(document)
            words = shlex.split(spec(document).get("entrypoint", ""))
            if isinstance(plan, Plan):
                yield from _placed(where, plan, clusters.get(id(document)))
            elif plan is not None:
                raise plan
            else:
                is_slip = words[:1] in (["run"], ["oak"], ["oka"], [])
                yield say("runs-not-oka", where, not is_slip, words=shlex.join(words))
        except NotHere as error:
            yield say("not-here", where, error=error.message)
        except EngineError as error:
            yield say("not-planned", where, error=error.message, hint=error.hint or "")
        except (yaml.YAMLError, ValueError, TypeError) as error:
            yield say("no-yaml", where, error=error)


def _runtime(document: Document) -> Iterator[Finding]:
    """Check that Ray accepts the runtime_env. Raises an error if it does not."""
    from ray.runtime_env import RuntimeEnv

    given = {**(yaml.safe_load(spec(document).get("runtimeEnvYAML", "")) or {})}
    if unknown := given.keys() - RuntimeEnv.known_fields:
        yield say("unknown-runtime", name(document), keys=", ".join(sorted(unknown)))
    RuntimeEnv(env_vars=given.get("env_vars"))


def _placed(where: str, plan: Plan, cluster: Cluster | None) -> Iterator[Finding]:
    """Check that the job itself would find a place for its tasks on such a cluster.

    Raises if not.
    """
    config, execution = plan.config, plan.execution
    if cluster is None or config.runtime != "ray":
        raise NotHere(f"runtime is {config.runtime!r}, expected 'ray' and a cluster")
    placed = place(execution, cluster.nodes(), config.placement, config.strict_placement)
    most = max(Counter(placed.node(each).id for each in execution.vertices).values())
    if config.ports and len(config.ports) < 2 * most:
        yield say("few-ports", where, there=len(config.ports), tasks=most)


def checkpoints(subject: Subject) -> Iterator[Finding]:
    """A failed job has checkpoints to go on from, and no limit stops it before its end."""
    users: dict[str, str] = {}
    for cluster, config in subject.settled:
        where, said, url = cluster.owner, spec(cluster.document), config.checkpoints
        deadline, retries = said.get("activeDeadlineSeconds"), said.get("backoffLimit") or 0
        if config.resume is None and deadline is None:
            yield say("no-deadline", where)
        if url is None:
            continue
        bucket = re.fullmatch(r"s3://([^/]+)(/.*)?", url)
        if bucket and not re.fullmatch(r"[a-z0-9][-a-z0-9.]{1,61}[a-z0-9]", bucket.group(1)):
            yield say("no-bucket", where, url=url)
        elif not bucket:
            yield from _kept(subject, cluster, url)
        if (other := users.setdefault(url.rstrip("/"), where)) != where:
            yield say("same-checkpoints", where, url=url, other=other)
        if config.resume is None:
            yield say("not-resumed", where, retries == 0, retries=retries)
        if deadline:
            yield say("deadline", where, deadline=deadline)


def _kept(subject: Subject, cluster: Cluster, url: str) -> Iterator[Finding]:
    """Whether a folder outlives the pods, and all pods may write to it."""
    groups = [group for group in cluster.groups if group.replicas]
    if not all(group.keeps(url) for group in groups):
        yield say("passes-away", cluster.owner, url=url)
    for claim in subject.of_kind("PersistentVolumeClaim"):
        modes, called = spec(claim).get("accessModes", []), repr(claim["metadata"]["name"])
        if called in str([group.pod for group in groups]) and "ReadWriteMany" not in modes:
            yield say("one-node", cluster.owner, url=url, claim=name(claim), modes=modes)


def budgets(subject: Subject) -> Iterator[Finding]:
    """Budgets keep at most the pods that they select; each RayJob has one for all its pods."""
    kept: dict[int, list[int]] = {}
    goes_on = [id(each.document) for each, config in subject.settled if config.checkpoints]
    of_ray = {id(each.document) for each in subject.clusters}
    for budget in subject.of_kind("PodDisruptionBudget"):
        pods: Counter[int] = Counter()
        for pod in (each for each in subject.pods if namespace(each.owner) == namespace(budget)):
            if matches(spec(budget).get("selector"), pod.labels) and pod.replicas:
                pods[id(pod.owner)] += pod.replicas
        most, available = sum(pods.values()), spec(budget).get("minAvailable")
        if "maxUnavailable" in spec(budget) or (not pods and type(available) is int):
            continue
        if type(available) is not int or not 1 <= available <= most:
            yield say("no-budget", name(budget), found=available, most=most)
            continue
        for owner in pods:
            kept.setdefault(owner, []).append(available)
        if available == most > 1 and not pods.keys() & of_ray:
            yield say("keeps-all", name(budget), most=most)
    for cluster in subject.clusters:
        found, pods_of_it = kept.get(id(cluster.document), []), len(cluster.nodes())
        is_job = cluster.document["kind"] == "RayJob" and id(cluster.document) not in goes_on
        if len(found) > 1 or (is_job and found != [pods_of_it]):
            yield say("budgets-of-job", cluster.owner, found=found, pods=pods_of_it)
