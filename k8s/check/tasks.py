"""Jobs that can run: their settings are valid and their tasks find a place on the pods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from engine.errors import EngineError
from engine.placement import place
from k8s.check.finding import Finding
from k8s.jobs import jobs
from k8s.manifests import clusters, name, of_kind


def tasks(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """Every RayJob runs Oka on Ray, and its cluster has room for all of its tasks.

    The placement is the one that the job itself would compute on such a cluster.
    """
    try:
        found = jobs(documents)
    except EngineError as error:
        yield Finding("tasks", "RayJob", error.message, error.hint)
        return
    known = [job.document for job in found]
    for document in of_kind(documents, "RayJob"):
        if not any(document is each for each in known):
            yield Finding("tasks", name(document), "its entrypoint does not begin with `oka run`")
    for job in found:
        where = name(job.document)
        cluster = next((c for c in clusters(documents) if c.document is job.document), None)
        if cluster is None:
            yield Finding("tasks", where, "has no cluster")
            continue
        try:
            plan = job.plan()
            place(
                plan.execution, cluster.nodes(), plan.config.placement, plan.config.strict_placement
            )
        except EngineError as error:
            yield Finding("tasks", where, error.message, error.hint)
            continue
        if plan.config.runtime != "ray":
            yield Finding(
                "tasks", where, f"runtime is {plan.config.runtime!r}, expected 'ray'",
                "it would run on the head alone",
            )  # fmt: skip
