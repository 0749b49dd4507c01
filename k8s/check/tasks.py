"""Jobs that can run, and that no eviction ends: tasks have a place, budgets keep all pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from engine.errors import ConfigError, EngineError
from engine.job import Plan
from engine.placement import place
from k8s.check.finding import Mistake
from k8s.check.subject import Subject
from k8s.manifests import Document, matches, name, namespace, of_kind, spec


def tasks(subject: Subject) -> Iterator[Mistake]:
    """Every RayJob runs Oka on Ray, and its cluster has room for all of its tasks.

    The placement is the one that the job itself would compute on such a cluster.
    """
    planned = {id(job.document): plan for job, plan in subject.plans}
    clusters = {id(cluster.document): cluster for cluster in subject.clusters}
    for document in of_kind(subject.documents, "RayJob"):
        plan, cluster = planned.get(id(document)), clusters.get(id(document))
        try:
            if plan is None or cluster is None:
                raise ConfigError("has no cluster, or an entrypoint that is not `oka run …`")
            if isinstance(plan, EngineError):
                raise plan
            if plan.config.runtime != "ray":
                raise ConfigError(f"runtime is {plan.config.runtime!r}, expected 'ray'")
            config = plan.config
            place(plan.execution, cluster.nodes(), config.placement, config.strict_placement)
            if "activeDeadlineSeconds" not in spec(document) and config.resume is None:
                raise ConfigError(
                    "activeDeadlineSeconds is not set, expected it, or a job that resumes",
                    "a job that hangs keeps its nodes for ever; `oka k8s render --endless`",
                )
        except EngineError as error:
            yield name(document), error.message, error.hint or ""


def budgets(subject: Subject) -> Iterator[Mistake]:
    """Budgets keep a number of pods, at most those they select; each RayJob has one for all.

    One less than all where the job has checkpoints: then it lives on without one pod.
    """
    kept: dict[int, list[int]] = {}
    goes_on = {
        id(job.document)
        for job, plan in subject.plans
        if isinstance(plan, Plan) and plan.config.checkpoints
    }
    for budget in of_kind(subject.documents, "PodDisruptionBudget"):
        pods, available = _pods(subject, budget), spec(budget).get("minAvailable")
        if not pods and available == 1 and _selects_submitter(subject, budget):
            continue
        if type(available) is not int or not 1 <= available <= sum(pods.values()):
            most = sum(pods.values())
            problem = f"minAvailable is {available!r}, expected 1 to {most}, the pods it selects"
            yield name(budget), problem, _NUMBER
            continue
        for owner in pods:
            kept.setdefault(owner, []).append(available)
    for cluster in subject.clusters:
        found, pods_of_it = kept.get(id(cluster.document), []), len(cluster.nodes())
        if id(cluster.document) in goes_on and found == [pods_of_it - 1]:
            continue
        if len(found) > 1 or (cluster.document["kind"] == "RayJob" and found != [pods_of_it]):
            problem = f"its budgets keep {found} pods, expected one that keeps {pods_of_it}"
            yield cluster.owner, problem, "a pod that is evicted ends the job"


def _selects_submitter(subject: Subject, budget: Document) -> bool:
    return any(
        pod.group is None and matches(spec(budget).get("selector"), pod.labels)
        for pod in subject.pods
    )


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
