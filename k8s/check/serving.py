"""Pods that serve over HTTP: whoever asks finds them, and they end without losing a request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from engine.errors import ConfigError
from k8s.check.finding import Mistake
from k8s.check.network import listening
from k8s.check.subject import Subject
from k8s.jobs import parsed
from k8s.manifests import name, namespace, of_kind, spec


def services(subject: Subject) -> Iterator[Mistake]:
    """Each Service sends to a port of pods that are there."""
    for service in of_kind(subject.documents, "Service"):
        if not any(listening(service, pod) for pod in subject.pods):
            yield name(service), "selects no pod, or none that listens on its targetPort"


def serving(subject: Subject) -> Iterator[Mistake]:
    """What `oka run` of a Deployment says: its probes are the gateway's, and it drains in time."""
    for document in of_kind(subject.documents, "Deployment"):
        pod = spec(spec(document)["template"])
        for container in pod["containers"]:
            words = container.get("args") or []
            if words[:2] != ["oka", "run"]:
                continue
            for probe, path in _PROBES.items():
                found = container.get(probe, {}).get("httpGet", {}).get("path")
                if found != path:
                    yield name(document), f"{probe} asks for {found}, expected {path}"
            try:
                seconds = parsed(words[2:])["drain_seconds"]
            except ConfigError as error:
                yield name(document), str(error)
                continue
            grace = pod.get("terminationGracePeriodSeconds", 30)
            needed = seconds + _sleep(container)
            if not seconds or needed >= grace:
                problem = f"drains for {seconds:g} s, with preStop {needed:g} s, of {grace} s"
                hint = "--drain-seconds and preStop's sleep are above 0, and below the grace period"
                yield f"{name(document)} in {namespace(document)}", problem, hint


def _sleep(container: Mapping[str, Any]) -> float:
    hook = container.get("lifecycle", {}).get("preStop", {})
    return float(hook.get("sleep", {}).get("seconds", float("inf")))


_PROBES = {"readinessProbe": "/-/readyz", "livenessProbe": "/-/healthz"}
