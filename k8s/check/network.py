"""Network policies let through what is said between pods.

Who talks to whom is known: Ray's ports and the jobs', DNS, the operator, Prometheus, AWS. Each of
these flows must pass. Those between Oka's own pods are all in the documents, so that one which does
not pass is an error; of the others, and of rules for anybody else, there are notes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any

from k8s.check.finding import Finding, either, note
from k8s.manifests import Document, Group, Pod, matches, name, namespace, of_kind, spec
from k8s.subject import Subject, node_of


@dataclass(frozen=True)
class End:
    """Who is at one end of a flow: pods that are alike, ours or not, or addresses."""

    name: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    cidr: str | None = None
    ours: bool = False


@dataclass(frozen=True)
class Flow:
    """What one end says to the other."""

    source: End
    target: End
    what: str
    ports: range
    protocol: str = "TCP"

    @property
    def sides(self) -> tuple[tuple[str, End, End], ...]:
        """Each direction that our policies are asked for: whose they are, and the other end."""
        both = ("egress", self.source, self.target), ("ingress", self.target, self.source)
        return tuple(side for side in both if side[1].ours)

    def __str__(self) -> str:
        port = f"{_text(self.ports)}/{self.protocol}"
        return f"{self.source.name} to {self.target.name}, {port} ({self.what})"


@dataclass(frozen=True)
class Pass:
    """One peer and one port of a rule: what it lets through; {} is anybody, or any port."""

    policy: Document
    direction: str
    peer: Mapping[str, Any]
    port: Mapping[str, Any]
    ports: range

    def lets(self, flow: Flow, other: End, own: End) -> bool:
        """Whether it lets through what its policy's pods say to the other end, or hear from it."""
        by = not self.port or flow.protocol == self.port.get("protocol", "TCP")
        return by and (not self.peer or _is(self.peer, other, own))


def policies(subject: Subject) -> Iterator[Finding]:
    """Every flow passes in both directions, and every rule is for flows."""
    found = of_kind(subject.documents, "NetworkPolicy")
    passes = [each for policy in found for each in _passes(subject, policy)]
    selecting = {
        (direction, end.name, end.namespace): {
            id(policy) for policy in found if _selects(policy, direction, end)
        }
        for end in map(_end, subject.pods)
        for direction in ("egress", "ingress")
    }
    used: dict[int, list[range]] = {}
    """The ports of all flows that each of the passes lets through."""
    for flow in _flows(subject):
        for direction, own, other in flow.sides:
            those = selecting[direction, own.name, own.namespace]
            takers = [
                (n, each)
                for n, each in enumerate(passes)
                if each.direction == direction
                and id(each.policy) in those
                and each.lets(flow, other, own)
            ]
            for n, _ in takers:
                used.setdefault(n, []).append(flow.ports)
            if those and not _covered(flow.ports, [each.ports for _, each in takers]):
                where = f"NetworkPolicy {direction}"
                yield either(not other.ours, where, f"none lets through {flow}", _IN_VAIN)
    selected = {(key[0], policy) for key, those in selecting.items() for policy in those}
    for n, each in enumerate(passes):
        ours = (each.direction, id(each.policy)) in selected
        if not ours or not each.peer or not each.port:
            continue
        if not _covered(each.ports, used.get(n, [])):
            problem = f"{each.peer} is nobody of whom Oka's pods hear by {dict(each.port)}"
            yield note(f"{name(each.policy)} {each.direction}", problem, "check labels and port")


def ports(subject: Subject) -> Iterator[Finding]:
    """Every job has ports of its own, and none of Ray's."""
    for job, config in subject.configs:
        (cluster,) = (each for each in subject.clusters if each.document is job.document)
        listens = [each for group in cluster.groups for each in _listens(group).values()]
        taken = set().union(*(each for each in listens if each is not _UNSET))
        if config.ports and not taken.isdisjoint(config.ports):
            problem = f"port_range {_text(config.ports)} has ports of Ray's"
            yield Finding(name(job.document), problem)


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
    ends = [(each, _end(each)) for each in subject.pods]
    ranges = {name(job.document): config.ports or _UNSET for job, config in subject.configs}
    vpc = End("AWS's endpoints", cidr=(subject.eks.get("vpc") or {}).get("cidr", _VPC))
    watched = of_kind(subject.documents, "PodMonitor")
    for pod, end in ends:
        for service in of_kind(subject.documents, "Service"):
            client = End("clients", namespace(service), {"oka.dev/role": "client"})
            for port in listening(service, pod):
                yield Flow(client, end, name(service), range(port, port + 1))
                if of_kind(subject.documents, "Ingress"):
                    yield Flow(_INGRESS, end, name(service), range(port, port + 1))
        for monitor in watched if pod.group is None else ():
            named = {each.get("port") for each in spec(monitor).get("podMetricsEndpoints", [])}
            for port in (pod.ports[each] for each in pod.ports if each in named):
                if matches(spec(monitor).get("selector"), pod.labels):
                    yield Flow(_PROMETHEUS, end, "metrics", range(port, port + 1))
        for protocol in ("UDP", "TCP"):
            yield Flow(end, _DNS, "names", range(53, 54), protocol)
        if pod.group is not None and node_of(pod.owner) is None:
            yield Flow(end, vpc, "S3 and STS", range(443, 444))
        for other, target in ends:
            if other.group is None or other.owner is not pod.owner:
                continue
            listens = _listens(other.group)
            if pod.group is None:
                listens = {key: each for key, each in listens.items() if key == "dashboard"}
            else:
                jobs = {name(pod.owner)} & ranges.keys() or ranges.keys()
                listens |= {f"port_range of {job}": ranges[job] for job in jobs}
            yield from (Flow(end, target, what, each) for what, each in listens.items() if each)
        for what, each in (_listens(pod.group) if pod.group else {}).items():
            if what == "dashboard":
                yield Flow(_OPERATOR, end, what, each)
            if what == "metrics-export-port" and watched:
                yield Flow(_PROMETHEUS, end, what, each)


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
_IN_VAIN = "who waits for it waits until the job fails"
_SINGLE = (
    "node-manager-port", "object-manager-port", "dashboard-agent-grpc-port",
    "runtime-env-agent-port", "dashboard-agent-listen-port", "metrics-export-port",
)  # fmt: skip
