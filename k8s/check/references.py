"""What documents name is there: objects, keys and ports of them, and pods that selectors select.

What is not among the documents may be in the cluster, so that most of it is a note.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from engine.errors import did_you_mean
from k8s.check.finding import Finding, either, note
from k8s.manifests import (
    COMPONENT,
    Document,
    Pod,
    component,
    matches,
    name,
    namespace,
    of_kind,
    spec,
    templates,
)  # fmt: skip
from k8s.subject import Subject


class Reference(NamedTuple):
    """What is named, and where."""

    where: str
    namespace: str
    kind: str
    name: str
    keys: tuple[str, ...] = ()
    optional: bool = False


def references(subject: Subject) -> Iterator[Finding]:
    """Accounts, ConfigMaps, Secrets, Services and so on are there, with the keys that are named."""
    there = {(each["kind"], each["metadata"]["name"]): each for each in subject.documents}
    others = str(
        [
            each
            for each in subject.documents
            if each["kind"] not in ("RayCluster", "RayJob") and each["apiVersion"].count(".") > 0
        ]
    )
    for each in _references(subject):
        document, known = there.get((each.kind, each.name)), KNOWN.get(each.name)
        made = known or (each.kind == "Secret" and repr(each.name) in others) or each.optional
        if document is None and not made and each.name not in _ALWAYS:
            alike = did_you_mean(each.name, [key for kind, key in there if kind == each.kind])
            problem = f"names {each.kind} {each.name}, which is not there"
            yield note(each.where, problem, f"{alike}it has to be in the cluster")
        elif document is not None and each.namespace != namespace(document):
            problem = f"names {each.kind} {each.name} of {each.namespace}, and it is in "
            yield Finding(each.where, problem + namespace(document))
        parts = [(document or {}).get(part, {}) for part in ("data", "stringData", "binaryData")]
        keys = {key for part in parts for key in part} or {known or key for key in each.keys}
        if wrong := sorted({*each.keys} - keys):
            problem = f"names the key {wrong[0]!r} of {each.kind} {each.name}, expected one of "
            is_note = document is None or each.optional
            yield either(is_note, each.where, problem + ", ".join(sorted(keys)))
    users: dict[str, set[str]] = {}
    for pod in subject.pods:
        for found in _volumes(pod, "configMap"):
            users.setdefault(str(found.get("name")), set()).add(name(pod.owner))
        if pod.labels.get(COMPONENT) != component(pod.owner):
            yield note(pod.where, f"its label {COMPONENT} is not that of {name(pod.owner)}")
    for wanted, owners in users.items():
        if len(owners) > 1:
            yield note(f"ConfigMap/{wanted}", f"is of {' and '.join(sorted(owners))}, expected one")


def selectors(subject: Subject) -> Iterator[Finding]:
    """Selectors select pods, and ports that are named are there."""
    labels = [each.get("metadata", {}).get("labels", {}) for each in templates(subject.documents)]
    labels += [pod.labels for pod in subject.pods]
    for kind, key in _SELECTORS.items():
        for document in of_kind(subject.documents, kind):
            selector = spec(document).get(key)
            selector = {"matchLabels": selector} if kind == "Service" else selector
            is_open = kind in ("Service", "NetworkPolicy") and not spec(document).get(key)
            if not is_open and not any(matches(selector, each) for each in labels):
                problem = f"selects no pod: none here has {(selector or {}).get('matchLabels')}"
                yield note(name(document), problem)
            for port in spec(document).get("podMetricsEndpoints", ()):
                for pod in (each for each in subject.pods if matches(selector, each.labels)):
                    if port.get("port") not in pod.ports:
                        problem = f"names the port {port.get('port')!r}, {pod.where} has "
                        yield note(name(document), problem + (", ".join(pod.ports) or "none"))
    for pod in subject.pods:
        for each in pod.spec.get("topologySpreadConstraints", ()):
            if not matches(each.get("labelSelector"), pod.labels):
                yield note(pod.where, f"is spread among pods that have {each.get('labelSelector')}")
    services = {each["metadata"]["name"]: each for each in of_kind(subject.documents, "Service")}
    for document in of_kind(subject.documents, "Ingress"):
        for service in _backends(document):
            ports = spec(services.get(service.get("name"), {})).get("ports", [])
            known = {each.get(key) for each in ports for key in ("name", "port")}
            if known and not known & {*service.get("port", {}).values()}:
                problem = f"sends to the port {service.get('port')} of Service {service['name']}"
                yield Finding(name(document), f"{problem}, which has {sorted(map(str, known))}")


def _references(subject: Subject) -> Iterator[Reference]:
    for pod in subject.pods:
        where, space = pod.where, namespace(pod.owner)
        yield Reference(where, space, "ServiceAccount", pod.account.rpartition("/")[2])
        if (priority := pod.spec.get("priorityClassName")) is not None:
            yield Reference(where, "default", "PriorityClass", priority)
        containers = [*pod.spec["containers"], *pod.spec.get("initContainers", ())]
        variables = [each for container in containers for each in container.get("env", ())]
        sources = [each.get("valueFrom") or {} for each in variables]
        sources += [each for container in containers for each in container.get("envFrom", ())]
        named = [
            *(("Secret", each) for each in pod.spec.get("imagePullSecrets", ())),
            *((_KINDS[key], each) for key in _VOLUMES for each in _volumes(pod, key)),
            *((_KINDS[key], each[key]) for each in sources for key in each if key in _KINDS),
        ]
        for kind, found in named:
            keys = [each["key"] for each in found.get("items", ())]
            keys += [found["key"]] if "key" in found else []
            called = next((found[key] for key in _NAMES if key in found), "?")
            yield Reference(where, space, kind, called, tuple(keys), bool(found.get("optional")))
    for cluster in subject.clusters:
        if secret := (cluster.spec.get("authOptions") or {}).get("secretName"):
            yield Reference(cluster.owner, namespace(cluster.document), "Secret", secret)
    for document in subject.documents:
        where, space = name(document), namespace(document)
        if target := spec(document).get("scaleTargetRef"):
            yield Reference(where, space, target.get("kind", "Deployment"), target["name"])
        for service in _backends(document) if document["kind"] == "Ingress" else ():
            yield Reference(where, space, "Service", str(service.get("name")))


def _backends(ingress: Document) -> list[Mapping[str, Any]]:
    rules = [rule.get("http") or {} for rule in spec(ingress).get("rules", ())]
    backends = [path.get("backend") or {} for rule in rules for path in rule.get("paths", ())]
    backends.append(spec(ingress).get("defaultBackend") or {})
    return [each["service"] for each in backends if each.get("service")]


def _volumes(pod: Pod, kind: str) -> list[Mapping[str, Any]]:
    volumes = pod.spec.get("volumes", ())
    parts = [part for each in volumes for part in (each.get("projected") or {}).get("sources", ())]
    return [each[kind] for each in [*volumes, *parts] if each.get(kind) is not None]


_VOLUMES = ("configMap", "secret", "persistentVolumeClaim")
_KINDS = {
    "configMap": "ConfigMap", "secret": "Secret", "persistentVolumeClaim": "PersistentVolumeClaim",
    "secretKeyRef": "Secret", "configMapKeyRef": "ConfigMap",
    "secretRef": "Secret", "configMapRef": "ConfigMap",
}  # fmt: skip
_NAMES = ("name", "secretName", "claimName")
_SELECTORS = {
    "Service": "selector", "NetworkPolicy": "podSelector",
    "PodDisruptionBudget": "selector", "PodMonitor": "selector",
}  # fmt: skip
KNOWN = {"oka-ray-token": "auth_token", "oka-serving-token": "token"}
"""Secrets that the README makes, and the key that each has."""
_ALWAYS = ("default", "kube-root-ca.crt", "system-cluster-critical", "system-node-critical")
