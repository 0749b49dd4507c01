"""Pods that serve over HTTP: clients find them, and they end without losing a request."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from engine.cli.main import commands
from engine.errors import ConfigError, did_you_mean
from k8s.check.finding import Finding, say
from k8s.check.network import LOOPBACK, scraped
from k8s.check.references import KNOWN, keys_of
from k8s.jobs import NotHere, bound, parsed
from k8s.manifests import Pod, name, spec, walk, words
from k8s.serve import IN_FLIGHT
from k8s.subject import Subject


def serving(subject: Subject) -> Iterator[Finding]:
    """Containers of Deployments run commands that Oka accepts, and that agree with their pods."""
    known = {*commands.list_commands(None)}  # type: ignore[arg-type]
    for pod in (each for each in subject.pods if each.group is None and not each.submits):
        for container in pod.containers:
            said = words(container)
            if said and said[0] != "oka" and "ENTRYPOINT" not in subject.image:
                alike = did_you_mean(said[0], ["oka"]) or "Oka's image has no entrypoint"
                yield say("not-oka", pod.where, said[0] not in known, word=said[0], alike=alike)
            elif said[1:2] and said[1] not in known:
                alike = did_you_mean(said[1], known)
                yield say("no-command", pod.where, word=said[1], alike=alike)
            elif said[1:2] == ["run"]:
                try:
                    yield from _runs(subject, pod, container, said[2:])
                except ConfigError as error:
                    hint = error.hint or ""
                    yield say("not-bound", pod.where, error=error.message, hint=hint)


def metrics(subject: Subject) -> Iterator[Finding]:
    """An autoscaler uses a metric of gateways, and Prometheus reads it there."""
    named = [(pod, each) for pod in subject.pods for each in pod.containers]
    for pod, container in ((pod, each) for pod, each in named if words(each)[:2] == ["oka", "run"]):
        probe = (container.get("readinessProbe") or {}).get("httpGet") or {}
        right = f"{probe.get('scheme', 'HTTP').lower()} {_METRICS}"
        ports = [each.get("name") for each in container.get("ports", [])]
        asked = {
            f"{each.get('scheme', 'http').lower()} {each.get('path', '/metrics')}": name(monitor)
            for monitor, each in scraped(subject, pod)
            if each.get("port") in ports
        }
        for wrong in asked.keys() - {right}:
            yield say("other-metrics", asked[wrong], pod=pod.where, found=wrong, right=right)
        for scaler in subject.of_kind("HorizontalPodAutoscaler"):
            target = spec(scaler).get("scaleTargetRef", {})
            by = {str(each) for key, each in walk(spec(scaler).get("metrics")) if key == "name"}
            if f"{target.get('kind')}/{target.get('name')}" == name(pod.owner):
                for each in sorted(each for each in by if each.startswith("oka_")):
                    alike = did_you_mean(each, [IN_FLIGHT])
                    if each != IN_FLIGHT:
                        yield say("no-metric", name(scaler), metric=each, alike=alike)
                    elif right not in asked:
                        yield say("unread-metric", name(scaler), metric=each, pod=pod.where)


def _runs(subject: Subject, pod: Pod, container: Any, said: list[str]) -> Iterator[Finding]:
    """Check that the arguments of `oka run` agree with the pod.

    Raises ConfigError for wrong ones.
    """
    options = parsed(said)
    drain, grace = options["drain_seconds"], pod.spec.get("terminationGracePeriodSeconds", 30)
    slept = re.search(r"(?:sleep|seconds)\W+(\d+)", json.dumps(container.get("lifecycle", {})))
    needed = drain + float(slept.group(1) if slept else 0)
    if not slept or not drain or needed >= grace:
        yield say("drain", pod.where, drain=drain, needed=needed, grace=grace)
    try:
        given = bound(options["target"], options["arguments"])
    except NotHere as error:
        yield say("pipeline-not-here", pod.where, error=error.message)
        given = dict(each.split("=", 1) for each in options["arguments"] if "=" in each)
    named = {each.get("name"): each["containerPort"] for each in container.get("ports", [])}
    requests = [each.get("httpGet") for key, each in container.items() if key.endswith("Probe")]
    asked = {str(named.get(each["port"], each["port"])) for each in requests if each}
    if "port" in given and asked - {str(given["port"])}:
        yield say("other-port", pod.where, port=given["port"], asked=", ".join(sorted(asked)))
    host, tokens = given.get("host"), [key for key in given if "token" in key]
    if host in LOOPBACK and asked:
        yield say("loopback", pod.where, len(pod.spec["containers"]) > 1, host=host)
    if host not in (*LOOPBACK, None) and tokens and not any(given[key] for key in tokens):
        yield say("no-token", pod.where, host=host, token=tokens[0])
    yield from _files(subject, pod, container, given)


def _files(subject: Subject, pod: Pod, container: Any, given: Any) -> Iterator[Finding]:
    """Whether named files and folders are on volumes."""
    made = {each["metadata"]["name"]: sorted(keys_of(each)) for each in subject.of_kind("Secret")}
    volumes = {each["name"]: each for each in pod.spec.get("volumes", [])}
    mounts = {PurePosixPath(each["mountPath"]): each for each in container.get("volumeMounts", [])}
    for key, value in given.items():
        path = PurePosixPath(container.get("workingDir", "/opt/oka"), str(value or ""))
        if not ("file" in key and value) and not str(value).startswith("/"):
            continue
        above = next((each for each in (path, *path.parents) if each in mounts), None)
        if above is None and ("token" in key or not path.is_relative_to("/opt")):
            yield say("no-volume", pod.where, "token" not in key, key=key, path=value, files="")
        secret = volumes.get(mounts[above]["name"], {}).get("secret") or {} if above else {}
        called = secret.get("secretName", "")
        files = [each["path"] for each in secret.get("items", ())]
        files = files or made.get(called) or [KNOWN[each] for each in KNOWN if each == called]
        if above and above != path and files and str(path.relative_to(above)) not in files:
            told = f"{above} has {', '.join(files)}"  # and perhaps a key more of yours
            yield say("no-volume", pod.where, "token" not in key, key=key, path=value, files=told)


_METRICS = "/-/metrics"
