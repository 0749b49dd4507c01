"""Network policies let the traffic between pods through.

The flows are known: Ray's ports and the jobs', DNS, the operator, Prometheus, AWS. Each of these
flows must pass. Those between Oka's own pods are all in the documents, so a blocked one is an
error; blocked other flows, and rules for other peers, are notes.

Ours, as network-config-analyzer 2.1.0 sees no pods in a RayCluster: of `k8s/base` it lists no
connection between Ray's pods, and warns 17 times of selectors (tried 2026-11-26). With
pods made for it, it could take the place of some 60 lines here, and would bring 41 MB.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any, NamedTuple

import yaml

from k8s.check.finding import Finding, say
from k8s.manifests import FOLDER, Document, Group, Pod, matches, name, namespace, node_of, spec
from k8s.subject import Subject


class Flow(NamedTuple):
    """Traffic from pods to pods; pods that are not Oka's have no spec."""

    source: Pod
    target: Pod
    what: str
    ports: range
    protocol: str = "TCP"
    cidr: str | None = None
    """The target's addresses, if it is not a pod."""

    def __str__(self) -> str:
        port = f"{_text(self.ports)}/{self.protocol}"
        return f"{self.source.where} to {self.target.where}, {port} ({self.what})"


@dataclass(frozen=True)
class Pass:
    """One peer and one port of a rule, {} for any, and the ports of the flows that it allows."""

    peer: Mapping[str, Any]
    port: Mapping[str, Any]
    ports: range
    used: list[range] = field(default_factory=list)


def policies(subject: Subject) -> Iterator[Finding]:
    """Every flow passes in both directions, and every rule is for flows."""
    found = subject.of_kind("NetworkPolicy")
    rules = {way: [(each, [*_passes(subject, way, each)]) for each in found] for way in _PEERS}
    for flow in _flows(subject):
        for way, own, other in (("egress", *flow[:2]), ("ingress", *flow[1::-1])):
            those = [passes for policy, passes in rules[way] if _selects(way, policy, own)]
            takers = [each for passes in those for each in passes if _takes(each, flow, own, other)]
            for each in takers:
                each.used.append(flow.ports)
            if those and not _covered(flow.ports, [each.ports for each in takers]):
                yield say("not-let-through", f"NetworkPolicy {way}", not other.spec, flow=flow)
    for way, policy, passes in ((of, *each) for of, those in rules.items() for each in those):
        ours = any(_selects(way, policy, pod) for pod in subject.pods)
        for each in (each for each in passes if ours and each.peer and each.port):
            if not _covered(each.ports, each.used):
                yield say("lets-nobody", f"{name(policy)} {way}", peer=each.peer, port=each.port)


def ports(subject: Subject) -> Iterator[Finding]:
    """Every job has ports of its own, none of Ray's, and that at which Prometheus asks for it."""
    for cluster, config in subject.settled:
        listens = [each for group in cluster.groups for each in _listens(group).values()]
        taken = set().union(*(each for each in listens if each is not _UNSET))
        if config.ports and not taken.isdisjoint(config.ports):
            yield say("ports-of-ray", cluster.owner, ports=_text(config.ports))
        for pod in (each for each in subject.pods if name(each.owner) == cluster.owner):
            asked = _of_jobs(subject, pod)
            if asked and (config.metrics_port not in asked or config.metrics_host in LOOPBACK):
                told = f"{config.metrics_port} on {config.metrics_host}"
                yield say("other-metrics-port", cluster.owner, asked=asked[0], there=told)


def listening(service: Document, pod: Pod) -> list[int]:
    """The ports of a pod's containers that a Service targets."""
    selector = {"matchLabels": spec(service).get("selector") or {"": ""}}
    if namespace(service) != namespace(pod.owner) or not matches(selector, pod.labels):
        return []
    wanted = {port.get("targetPort", port["port"]) for port in spec(service).get("ports", [])}
    return [port for key, port in pod.ports.items() if {key, port} & wanted]


def scraped(subject: Subject, pod: Pod) -> Iterator[tuple[Document, Mapping[str, Any]]]:
    """The requests of Prometheus to a pod: each PodMonitor of it, with an endpoint."""
    for monitor in subject.of_kind("PodMonitor"):
        if matches(spec(monitor).get("selector"), pod.labels):
            yield from ((monitor, each) for each in spec(monitor).get("podMetricsEndpoints", ()))


def _passes(subject: Subject, way: str, policy: Document) -> Iterator[Pass]:
    named = {key: port for pod in subject.pods for key, port in pod.ports.items()}
    for rule in spec(policy).get(way, ()):
        for port in rule.get("ports") or [{}]:
            first = port.get("port", 1)
            first = named.get(first, 0) if isinstance(first, str) else first
            last = port.get("endPort", first if "port" in port else 65535)
            for peer in rule.get(_PEERS[way]) or [{}]:
                yield Pass(peer, port, range(first, last + 1))


def _flows(subject: Subject) -> Iterator[Flow]:
    """The known flows between pods."""
    ranges = {cluster.owner: config.ports or _UNSET for cluster, config in subject.settled}
    prometheus, vpc = _OTHERS["Prometheus"], subject.eks.get("vpc", {}).get("cidr", _VPC)
    asking = [_OTHERS["the ingress controller"]] if subject.of_kind("Ingress") else []
    for pod in subject.pods:
        for protocol in ("UDP", "TCP"):
            yield Flow(pod, _OTHERS["DNS"], "names", range(53, 54), protocol)
        for service in subject.of_kind("Service"):
            for port in listening(service, pod):
                for source in (Pod(pod.owner, "clients", {"oka.dev/role": "client"}, {}), *asking):
                    yield Flow(source, pod, name(service), range(port, port + 1))
        if pod.group is None:
            asked = pod.ports.keys() & {each.get("port") for _, each in scraped(subject, pod)}
            for port in (pod.ports[each] for each in asked):
                yield Flow(prometheus, pod, "metrics", range(port, port + 1))
            continue
        heard = _listens(pod.group)
        if node_of(pod.owner) is None:
            yield Flow(pod, _OTHERS["AWS's endpoints"], "S3 and STS", range(443, 444), cidr=vpc)
        if "dashboard" in heard:
            yield Flow(_OTHERS["the operator"], pod, "dashboard", heard["dashboard"])
        if subject.of_kind("PodMonitor"):
            yield Flow(prometheus, pod, "metrics-export-port", heard["metrics-export-port"])
        for port in _of_jobs(subject, pod):
            yield Flow(prometheus, pod, "metrics of a job", range(port, port + 1))
        jobs = {name(pod.owner)} & ranges.keys() or ranges.keys()
        heard |= {f"port_range of {job}": ranges[job] for job in jobs}
        for other in (each for each in subject.pods if each.owner is pod.owner):
            said = heard if other.group else heard.keys() & {"dashboard"}
            yield from (Flow(other, pod, what, heard[what]) for what in said)


def _of_jobs(subject: Subject, pod: Pod) -> list[int]:
    """The ports at which Prometheus asks a pod of Ray for metrics that are not Ray's."""
    if pod.group is None:
        return []
    of_ray = _listens(pod.group)["metrics-export-port"]
    asked = pod.ports.keys() & {each.get("port") for _, each in scraped(subject, pod)}
    return sorted(pod.ports[each] for each in asked if pod.ports[each] not in of_ray)


def _selects(way: str, policy: Document, pod: Pod) -> bool:
    """Whether pods are Oka's, and a policy restricts their incoming or outgoing traffic."""
    said = spec(policy)
    types = said.get("policyTypes") or ["Ingress", *(["Egress"] if said.get("egress") else [])]
    here = way.capitalize() in types and namespace(policy) == namespace(pod.owner)
    return bool(pod.spec) and here and matches(said.get("podSelector", {}), pod.labels)


def _takes(each: Pass, flow: Flow, own: Pod, other: Pod) -> bool:
    """Whether it allows one end to reach the other, or some of its addresses."""
    if each.port and flow.protocol != each.port.get("protocol", "TCP"):
        return False
    if not each.peer:
        return True
    if "ipBlock" in each.peer or flow.cidr:
        texts = [each.peer.get("ipBlock", {}).get("cidr"), flow.cidr]
        first, *last = (ip_network(text, strict=False) for text in texts if text)
        return any(first.version == each.version and first.overlaps(each) for each in last)
    there = namespace(other.owner) == namespace(own.owner)
    if "namespaceSelector" in each.peer:
        space = {"kubernetes.io/metadata.name": namespace(other.owner)}
        there = matches(each.peer["namespaceSelector"], space)
    return there and matches(each.peer.get("podSelector", {}), other.labels)


def _covered(wanted: range, found: list[range]) -> bool:
    """Whether the ranges contain all of it."""
    reached = wanted.start
    for each in sorted(found, key=lambda each: each.start):
        reached = max(reached, each.stop) if each.start <= reached else reached
    return reached >= wanted.stop


def _listens(group: Group) -> dict[str, range]:
    """The ports on which Ray listens.

    It picks a port that is not set at random, so that may be any.
    """
    given = {"port": "6379", "dashboard-port": "8265", **group.parameters}
    options = _FLOWS["listens"]["all"] | _FLOWS["listens"].get(group.name, {})
    ends = {what: [str(given.get(each[n])) for n in (0, -1)] for what, each in options.items()}
    return {
        what: range(int(first), int(last) + 1) if (first + last).isdecimal() else _UNSET
        for what, (first, last) in ends.items()
    }


def _text(found: range) -> str:
    return str(found[0]) if len(found) == 1 else f"{found[0]}-{found[-1]}"


_PEERS = {"ingress": "from", "egress": "to"}
LOOPBACK = ("127.0.0.1", "::1", "localhost")
_UNSET = range(1024, 65536)
_VPC = "192.168.0.0/16"  # what eksctl gives a VPC
_FLOWS = yaml.safe_load((FOLDER / "schemas" / "flows.yaml").read_text(encoding="utf-8"))
_OTHERS = {
    where: Pod({"metadata": each}, where, each.get("labels", {}), {})
    for where, each in _FLOWS["others"].items()
}
