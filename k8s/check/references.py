"""References of documents: objects, their keys and ports, and pods that selectors select.

An object that is not among the documents may be in the cluster, so most findings are notes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from engine.errors import did_you_mean
from k8s.check.finding import Finding, say
from k8s.check.network import listening
from k8s.manifests import COMPONENT, Document, Pod, component, matches, name, namespace, spec, walk
from k8s.subject import Subject


def references(subject: Subject) -> Iterator[Finding]:
    """Named accounts, ConfigMaps, Secrets, Services and so on exist, with the named keys."""
    there = {(each["kind"], each["metadata"]["name"]): each for each in subject.documents}
    makers = str([each for each in subject.documents if _OTHERS.match(each["apiVersion"])])
    users: dict[str, set[str]] = {}
    for where, space, kind, called, found in _named(subject):
        document, known = there.get((kind, called)), KNOWN.get(called)
        optional = bool(found.get("optional"))
        told: dict[str, Any] = {"kind": kind, "name": called}
        is_made = known or optional or (kind == "Secret" and repr(called) in makers)
        if document is None and not is_made and called not in _ALWAYS:
            alike = did_you_mean(called, [name for other, name in there if other == kind])
            yield say("not-there", where, alike=alike, **told)
        elif document is not None and kind != "PriorityClass" and space != namespace(document):
            yield say("in-another", where, namespace=space, there=namespace(document), **told)
        wanted = [each["key"] for each in [*found.get("items", ()), found] if "key" in each]
        keys = keys_of(document) or {known or key for key in wanted}
        for key in (each for each in wanted if each not in keys):
            told["known"] = ", ".join(sorted(keys))
            yield say("no-key", where, document is None or optional, key=key, **told)
        if kind == "ConfigMap":
            users.setdefault(called, set()).add(where.split(" ")[0])
    for called, owners in users.items():
        if len(owners) > 1:
            yield say("shared", f"ConfigMap/{called}", owners=" and ".join(sorted(owners)))
    for pod in subject.pods:
        if pod.labels.get(COMPONENT) != component(pod.owner):
            yield say("other-component", pod.where, owner=name(pod.owner))


def selectors(subject: Subject) -> Iterator[Finding]:
    """Selectors select pods, and named ports exist."""
    labels = list(_labels(subject))
    for document in subject.of_kind(*_SELECTORS):
        kind, selector = document["kind"], spec(document).get(_SELECTORS[document["kind"]])
        if not selector and kind in ("Service", "NetworkPolicy"):
            continue  # which selects none, or all
        selector = {"matchLabels": selector} if kind == "Service" else selector
        if not any(matches(selector, each) for each in labels):
            yield say("selects-nobody", name(document), labels=(selector or {}).get("matchLabels"))
        for pod in (each for each in subject.pods if matches(selector, each.labels)):
            known = ", ".join(pod.ports) or "none"
            for each in spec(document).get("podMetricsEndpoints", ()):
                if (port := each.get("port")) not in pod.ports:
                    told = {"port": port, "pod": pod.where, "known": known}
                    yield say("no-metrics-port", name(document), **told)
            yield from _sent(document, pod) if kind == "Service" else ()
    services = {each["metadata"]["name"]: each for each in subject.of_kind("Service")}
    for document in subject.of_kind("Ingress"):
        for service in (each for key, each in walk(spec(document)) if key == "service"):
            ports = spec(services.get(service.get("name"), {})).get("ports", [])
            there = {str(each.get(key)) for each in ports for key in ("name", "port")}
            if there and not there & {str(each) for each in service.get("port", {}).values()}:
                yield say("ingress-port", name(document), service=service, known=sorted(there))


def _sent(service: Document, pod: Pod) -> Iterator[Finding]:
    """Whether a Service has pods with the ports that it targets."""
    targets = [each.get("targetPort", each["port"]) for each in spec(service).get("ports", ())]
    if namespace(service) != namespace(pod.owner):
        yield say("elsewhere", name(service), namespace=namespace(service))
    elif len(listening(service, pod)) < len(targets):
        numbers = all(type(each) is int for each in targets)
        yield say("no-target-port", name(service), numbers, pod=pod.where, targets=targets)


def keys_of(document: Document | None) -> set[str]:
    """The keys of a ConfigMap or Secret."""
    parts = [(document or {}).get(part, {}) for part in ("data", "stringData", "binaryData")]
    return {key for part in parts for key in part}


def _named(subject: Subject) -> Iterator[tuple[str, str, str, str, dict[str, Any]]]:
    """References of pods, clusters, Ingresses and autoscalers: place, namespace, kind and name."""
    places: list[tuple[str, Document, Any]] = [
        *((pod.where, pod.owner, pod.spec) for pod in subject.pods),
        *((each.owner, each.document, each.spec.get("authOptions")) for each in subject.clusters),
        *((name(each), each, {**spec(each), "tls": ()}) for each in subject.of_kind("Ingress")),
        *((name(each), each, {_TARGET: spec(each).get(_TARGET)}) for each in subject.documents),
    ]
    for where, owner, place in places:
        for key, each in walk(place):
            if key in _KINDS and (isinstance(each, dict) or key.endswith("Name")):
                found = each if isinstance(each, dict) else {"name": each}
                called = next((found[key] for key in _NAMES if key in found), "?")
                yield where, namespace(owner), found.get("kind", _KINDS[key]), called, found


def _labels(subject: Subject) -> Iterator[Mapping[str, str]]:
    """References of pods, and of every pod template in documents of any kind."""
    yield from (pod.labels for pod in subject.pods)
    for _, each in walk(subject.documents):
        within = each.get("spec") if isinstance(each, dict) else None
        if isinstance(within, dict) and "containers" in within:
            yield (each.get("metadata") or {}).get("labels") or {}


_TARGET = "scaleTargetRef"
_KINDS = {
    "configMap": "ConfigMap", "configMapKeyRef": "ConfigMap", "configMapRef": "ConfigMap",
    "secret": "Secret", "secretKeyRef": "Secret", "secretRef": "Secret", "secretName": "Secret",
    "imagePullSecrets": "Secret", "persistentVolumeClaim": "PersistentVolumeClaim",
    "serviceAccountName": "ServiceAccount", "priorityClassName": "PriorityClass",
    "service": "Service", _TARGET: "Deployment",
}  # fmt: skip
"""The fields with references, in pods and in others."""
_NAMES = ("name", "secretName", "claimName")
_SELECTORS = {
    "Service": "selector", "NetworkPolicy": "podSelector",
    "PodDisruptionBudget": "selector", "PodMonitor": "selector",
}  # fmt: skip
KNOWN = {"oka-ray-token": "auth_token", "oka-serving-token": "token"}
"""Secrets of the README, and the key of each."""
_OTHERS = re.compile(r"(?!ray\.io/).*\.")
"""Groups whose kinds may make Secrets."""
_ALWAYS = ("default", "kube-root-ca.crt", "system-cluster-critical", "system-node-critical")
