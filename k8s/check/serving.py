"""Pods that serve over HTTP: whoever asks finds them, and they end without losing a request."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from engine.cli import commands
from engine.errors import ConfigError, did_you_mean
from k8s.check.finding import Finding, either, note
from k8s.check.network import listening
from k8s.check.references import KNOWN
from k8s.jobs import NotHere, bound, parsed
from k8s.manifests import Pod, matches, name, namespace, of_kind, spec, words
from k8s.serve import IN_FLIGHT
from k8s.subject import Subject


def services(subject: Subject) -> Iterator[Finding]:
    """Each Service of Oka's pods sends to ports that they have."""
    for service in of_kind(subject.documents, "Service"):
        selector, ports = spec(service).get("selector"), spec(service).get("ports", [])
        for pod in (each for each in subject.pods if selector):
            if not matches({"matchLabels": selector}, pod.labels):
                continue
            if namespace(service) != namespace(pod.owner):
                yield Finding(name(service), f"is in {namespace(service)}, its pods are elsewhere")
            elif len(listening(service, pod)) < len(ports):
                targets = [each.get("targetPort", each["port"]) for each in ports]
                numbers = all(type(each) is int for each in targets)
                yield either(
                    numbers, name(service), f"{pod.where} has not each targetPort {targets}"
                )


def serving(subject: Subject) -> Iterator[Finding]:
    """What containers of Deployments run is what Oka takes, and agrees with their pods."""
    known = {*commands.list_commands(None)}  # type: ignore[arg-type]
    for pod in (
        each for each in subject.pods if each.owner["kind"] not in ("RayJob", "RayCluster")
    ):
        for container in pod.containers:
            said = words(container)
            if said and said[0] != "oka" and "ENTRYPOINT" not in subject.image:
                hint = did_you_mean(said[0], ["oka"]) or "Oka's image has no entrypoint"
                yield either(
                    said[0] not in known, pod.where, f"runs {said[0]!r}, expected oka", hint
                )
            elif said[1:2] and said[1] not in known:
                yield Finding(pod.where, f"runs oka {said[1]}", did_you_mean(said[1], known))
            elif said[1:2] == ["run"]:
                try:
                    yield from _probes(pod, container)
                    yield from _runs(pod, container, said[2:])
                except ConfigError as error:
                    yield Finding(pod.where, error.message, error.hint or "")


def metrics(subject: Subject) -> Iterator[Finding]:
    """What an autoscaler goes by is what gateways tell, and Prometheus reads it there."""
    for pod in (each for each in subject.pods if each.owner["kind"] == "Deployment"):
        for container in (each for each in pod.containers if words(each)[:2] == ["oka", "run"]):
            probe = (container.get("readinessProbe") or {}).get("httpGet") or {}
            right = f"{probe.get('scheme', 'HTTP').lower()} {_METRICS}"
            ports = [each.get("name") for each in container.get("ports", [])]
            asked = {
                f"{each.get('scheme', 'http').lower()} {each.get('path', '/metrics')}": name(
                    monitor
                )
                for monitor in of_kind(subject.documents, "PodMonitor")
                for each in spec(monitor).get("podMetricsEndpoints", [])
                if matches(spec(monitor).get("selector"), pod.labels) and each.get("port") in ports
            }
            for wrong in asked.keys() - {right}:
                yield note(asked[wrong], f"asks {pod.where} for {wrong}, expected {right}")
            for where, said in _went_by(subject, name(pod.owner)):
                if said.startswith("oka_") and said != IN_FLIGHT:
                    hint = did_you_mean(said, [IN_FLIGHT])
                    yield note(where, f"goes by {said}, which no gateway tells", hint)
                elif said == IN_FLIGHT and right not in asked:
                    problem = f"goes by {said}, and no PodMonitor asks {pod.where} for {_METRICS}"
                    yield note(where, problem, "without it, pods are added by CPU, never removed")


def _went_by(subject: Subject, target: str) -> Iterator[tuple[str, str]]:
    """Metrics of pods that autoscalers of it go by."""
    for autoscaler in of_kind(subject.documents, "HorizontalPodAutoscaler"):
        reference = spec(autoscaler).get("scaleTargetRef", {})
        if f"{reference.get('kind')}/{reference.get('name')}" == target:
            for metric in spec(autoscaler).get("metrics", []):
                yield name(autoscaler), metric.get("pods", {}).get("metric", {}).get("name", "")


def _probes(pod: Pod, container: Mapping[str, Any]) -> Iterator[Finding]:
    """Of each probe whether anybody answers."""
    for kind, paths in _PROBES.items():
        if kind not in container and kind != "startupProbe":
            yield note(
                pod.where, f"has no {kind}", "one that is stuck, or not ready, gets requests"
            )
        request = container.get(kind, {}).get("httpGet", {"path": paths[0]})
        if (path := request.get("path", "/")) not in paths:
            is_note = path in _PROBES["startupProbe"]
            yield either(is_note, pod.where, f"{kind} asks for {path}, expected {paths[0]}")
        if request.get("scheme") == "HTTPS":
            yield note(pod.where, f"{kind} asks over HTTPS, which takes a certificate in the pod")


def _runs(pod: Pod, container: Mapping[str, Any], said: list[str]) -> Iterator[Finding]:
    options = parsed(said)
    grace = pod.spec.get("terminationGracePeriodSeconds", 30)
    slept = re.search(r"(?:sleep|seconds)\W+(\d+)", json.dumps(container.get("lifecycle", {})))
    needed = options["drain_seconds"] + float(slept.group(1) if slept else 0)
    if not slept or not options["drain_seconds"] or needed >= grace:
        problem = (
            f"drains for {options['drain_seconds']:g} s, with preStop {needed:g} s, of {grace} s"
        )
        hint = "--drain-seconds and preStop's sleep are above 0, and below the grace period"
        yield note(pod.where, problem, hint)
    try:
        given = bound(options["target"], options["arguments"])
    except NotHere as error:
        yield note(pod.where, error.message, "if it is in your image, its types are not looked at")
        given = dict(each.split("=", 1) for each in options["arguments"] if "=" in each)
    named = {each.get("name"): each["containerPort"] for each in container.get("ports", [])}
    requests = [(container.get(kind) or {}).get("httpGet") for kind in _PROBES]
    asked = {str(named.get(each["port"], each["port"])) for each in requests if each}
    if "port" in given and asked - {str(given["port"])}:
        problem = f"listens on port {given['port']}, and is asked at {', '.join(sorted(asked))}"
        yield Finding(pod.where, problem, "port=, containerPort and probes are the same")
    host, tokens = given.get("host"), [key for key in given if "token" in key]
    if host in _LOOPBACK and asked:
        problem = f"host is {host}: nobody outside of the pod reaches it, probes neither"
        yield either(len(pod.spec["containers"]) > 1, pod.where, problem, "host=0.0.0.0")
    if host not in (*_LOOPBACK, None) and tokens and not any(given[key] for key in tokens):
        yield Finding(pod.where, f"host is {host} without a token", f"{tokens[0]}=…")
    yield from _files(pod, container, given)


def _files(pod: Pod, container: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[Finding]:
    """Whether files that are named are mounted."""
    volumes = {each["name"]: each for each in pod.spec.get("volumes", [])}
    mounts = {PurePosixPath(each["mountPath"]): each for each in container.get("volumeMounts", [])}
    for key, value in given.items():
        path = PurePosixPath(str(value))
        above = next((each for each in (path, *path.parents) if each in mounts), None)
        problem = f"{key} is {value}, which no volume has"
        if above is None and path.is_absolute() and not path.is_relative_to("/opt"):
            yield either("token" not in key, pod.where, problem)
        secret = volumes.get(mounts[above]["name"], {}).get("secret") or {} if above else {}
        files = [each["path"] for each in secret.get("items", ())] or [
            KNOWN[each] for each in KNOWN if each == secret.get("secretName")
        ]
        if above and above != path and files and str(path.relative_to(above)) not in files:
            hint = f"{above} has {', '.join(files)}"
            yield either("token" not in key, pod.where, problem, hint)  # or a key more of yours


_METRICS = "/-/metrics"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_PROBES = {
    "readinessProbe": ("/-/readyz",),
    "livenessProbe": ("/-/healthz",),
    "startupProbe": ("/-/healthz", "/-/readyz"),
}
