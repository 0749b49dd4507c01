"""Network policies let through what is said between pods.

Who talks to whom is known: Ray's ports and the jobs', DNS, the operator, Prometheus, AWS. Each of
these flows must pass. Those between Oka's own pods are all in the documents, so that one which does
not pass is an error; of the others, and of rules for anybody else, there are notes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any, NamedTuple

from k8s.check.finding import Finding, say
from k8s.manifests import Document, Group, Pod, matches, name, namespace, node_of, spec
from k8s.subject import Subject


@dataclass(frozen=True)
class End:
    """Who is at one end of a flow: pods that are alike, ours or not, or addresses."""

    name: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    cidr: str | None = None
    ours: bool = False


class Flow(NamedTuple):
    """What one end says to the other."""

    source: End
    target: End
    what: str
    ports: range
    protocol: str = "TCP"

    def __str__(self) -> str:
        port = f"{_text(self.ports)}/{self.protocol}"
        return f"{self.source.name} to {self.target.name}, {port} ({self.what})"


class Pass(NamedTuple):
    """One peer and one port of a rule: what it lets through; {} is anybody, or any port."""

    policy: Document
    direction: str
    peer: Mapping[str, Any]
    port: Mapping[str, Any]
    ports: range


def policies(subject: Subject) -> Iterator[Finding]:
    """Every flow passes in both directions, and every rule is for flows."""
    found = subject.of_kind("NetworkPolicy")
    passes = [each for policy in found for each in _passes(subject, policy)]
    used: dict[int, list[range]] = {id(each): [] for each in passes}  # by what it lets through
    for flow in _flows(subject):
        both = ("egress", flow.source, flow.target), ("ingress", flow.target, flow.source)
        for direction, own, other in (each for each in both if each[1].ours):
            those = [id(each) for each in found if _selects(each, direction, own)]
            takers = [
                each
                for each in passes
                if (each.direction == direction and id(each.policy) in those)
                and (not each.port or flow.protocol == each.port.get("protocol", "TCP"))
                and (not each.peer or _is(each.peer, other, own))
            ]
            for each in takers:
                used[id(each)].append(flow.ports)
            if those and not _covered(flow.ports, [each.ports for each in takers]):
                yield say(
                    "not-let-through", f"NetworkPolicy {direction}", not other.ours, flow=flow
                )
    for each in passes:
        ours = any(_selects(each.policy, each.direction, _end(pod)) for pod in subject.pods)
        if ours and each.peer and each.port and not _covered(each.ports, used[id(each)]):
            where = f"{name(each.policy)} {each.direction}"
            yield say("lets-nobody", where, peer=each.peer, port=each.port)


def ports(subject: Subject) -> Iterator[Finding]:
    """Every job has ports of its own, and none of Ray's."""
    for cluster, config in subject.settled:
        listens = [each for group in cluster.groups for each in _listens(group).values()]
        taken = set().union(*(each for each in listens if each is not _UNSET))
        if config.ports and not taken.isdisjoint(config.ports):
            yield say("ports-of-ray", cluster.owner, ports=_text(config.ports))


def listening(service: Document, pod: Pod) -> list[int]:
    """The ports of a pod's containers that a Service sends to."""
    selector = {"matchLabels": spec(service).get("selector") or {"": ""}}
    if namespace(service) != namespace(pod.owner) or not matches(selector, pod.labels):
        return []
    wanted = {port.get("targetPort", port["port"]) for port in spec(service).get("ports", [])}
    return [port for key, port in pod.ports.items() if {key, port} & wanted]


def _passes(subject: Subject, policy: Document) -> Iterator[Pass]:
    named = {key: port for pod in subject.pods for key, port in pod.ports.items()}
    for direction, key in (("ingress", "from"), ("egress", "to")):
        for rule in spec(policy).get(direction) or []:
            for port in rule.get("ports") or [{}]:
                first = port.get("port", 1)
                first = named.get(first, 0) if isinstance(first, str) else first
                last = port.get("endPort", first if "port" in port else 65535)
                for peer in rule.get(key) or [{}]:
                    yield Pass(policy, direction, peer, port, range(first, last + 1))


def _flows(subject: Subject) -> Iterator[Flow]:
    """Who says what to whom."""
    ranges = {cluster.owner: config.ports or _UNSET for cluster, config in subject.settled}
    vpc = End("AWS's endpoints", cidr=(subject.eks.get("vpc") or {}).get("cidr", _VPC))
    monitors = subject.of_kind("PodMonitor")
    for pod in subject.pods:
        end, heard = _end(pod), _listens(pod.group) if pod.group else {}
        for protocol in ("UDP", "TCP"):
            yield Flow(end, _DNS, "names", range(53, 54), protocol)
        if pod.group is not None and node_of(pod.owner) is None:
            yield Flow(end, vpc, "S3 and STS", range(443, 444))
        if "dashboard" in heard:
            yield Flow(_OPERATOR, end, "dashboard", heard["dashboard"])
        if "metrics-export-port" in heard and monitors:
            yield Flow(_PROMETHEUS, end, "metrics-export-port", heard["metrics-export-port"])
        for monitor in monitors if pod.group is None else ():
            named = {each.get("port") for each in spec(monitor).get("podMetricsEndpoints", [])}
            for port in (pod.ports[each] for each in pod.ports if each in named):
                if matches(spec(monitor).get("selector"), pod.labels):
                    yield Flow(_PROMETHEUS, end, "metrics", range(port, port + 1))
        for service in subject.of_kind("Service"):
            client = End("clients", namespace(service), {"oka.dev/role": "client"})
            for port in listening(service, pod):
                for source in (client, *([_INGRESS] if subject.of_kind("Ingress") else [])):
                    yield Flow(source, end, name(service), range(port, port + 1))
        if pod.group is not None:
            jobs = {name(pod.owner)} & ranges.keys() or ranges.keys()
            heard |= {f"port_range of {job}": ranges[job] for job in jobs}
        for other in (each for each in subject.pods if each.owner is pod.owner and heard):
            said = heard if other.group else {"dashboard": heard.get("dashboard", range(0))}
            yield from (Flow(_end(other), end, what, each) for what, each in said.items() if each)


def _end(pod: Pod) -> End:
    return End(pod.where, namespace(pod.owner), pod.labels, ours=True)


def _selects(policy: Document, direction: str, end: End) -> bool:
    said = spec(policy)
    types = said.get("policyTypes") or ["Ingress", *(["Egress"] if said.get("egress") else [])]
    here = direction.capitalize() in types and namespace(policy) == end.namespace
    return here and matches(said.get("podSelector", {}), end.labels)


def _is(peer: Mapping[str, Any], other: End, own: End) -> bool:
    """Whether the peer of a rule of one end's policy is the other end, or some of its addresses."""
    block = (peer.get("ipBlock") or {}).get("cidr")
    if block is not None or other.cidr is not None:
        both: list[Any] = [ip_network(each, strict=False) for each in (block, other.cidr) if each]
        first, last = both[0], both[-1]
        return len(both) > 1 and first.version == last.version and first.overlaps(last)
    there = other.namespace == own.namespace
    if "namespaceSelector" in peer:
        space = {"kubernetes.io/metadata.name": other.namespace}
        there = matches(peer["namespaceSelector"], space)
    return there and matches(peer.get("podSelector") or {}, other.labels)


def _covered(wanted: range, found: list[range]) -> bool:
    """Whether the ranges have all of it."""
    reached = wanted.start
    for each in sorted(found, key=lambda each: each.start):
        reached = max(reached, each.stop) if each.start <= reached else reached
    return reached >= wanted.stop


def _listens(group: Group) -> dict[str, range]:
    """What Ray listens on. What no one has set it picks at random: that may be any port."""
    given = {"port": "6379", "dashboard-port": "8265", **group.parameters}
    spans = {option: (option, option) for option in _SINGLE}
    spans["Ray workers"] = ("min-worker-port", "max-worker-port")
    if group.name == "head":
        spans |= {"GCS": ("port", "port"), "dashboard": ("dashboard-port", "dashboard-port")}
    ends = {what: [str(given.get(each)) for each in pair] for what, pair in spans.items()}
    return {
        what: range(int(first), int(last) + 1) if (first + last).isdecimal() else _UNSET
        for what, (first, last) in ends.items()
    }


def _text(found: range) -> str:
    return str(found[0]) if len(found) == 1 else f"{found[0]}-{found[-1]}"


_UNSET = range(1024, 65536)
_DNS = End("DNS", "kube-system", {"k8s-app": "kube-dns"})
_OPERATOR = End("the operator", "kuberay-system", {"app.kubernetes.io/name": "kuberay-operator"})
_INGRESS = End("the ingress controller", "ingress-nginx")
_PROMETHEUS = End("Prometheus", "monitoring")
_VPC = "192.168.0.0/16"  # what eksctl gives a VPC
_SINGLE = (
    "node-manager-port", "object-manager-port", "dashboard-agent-grpc-port",
    "runtime-env-agent-port", "dashboard-agent-listen-port", "metrics-export-port",
)  # fmt: skip
