"""Network policies let through what is said between pods, and nothing else.

Who talks to whom is known: Ray's ports and the jobs', DNS, the operator, Prometheus, AWS. Each of
these flows must pass, and each rule must be for one of them: a selector, namespace, port or address
with a typo fails one or the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any

from engine.errors import EngineError
from k8s.check.finding import Mistake
from k8s.check.subject import Subject, node_of
from k8s.manifests import Document, Group, Pod, matches, name, namespace, of_kind, spec


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
    """One peer and one port of a rule: what it lets through."""

    policy: Document
    direction: str
    peer: Any
    port: Any

    @property
    def ports(self) -> range:
        """Its ports; none for a name."""
        first = self.port.get("port")
        return range(first, self.port.get("endPort", first) + 1) if type(first) is int else range(0)

    def takes(self, flow: Flow) -> bool:
        """Whether the flow is between the policy's pods and the peer, by the protocol."""
        return flow.protocol == self.port.get("protocol", "TCP") and any(
            direction == self.direction
            and _selects(self.policy, direction, own)
            and _is(self.peer, other, own)
            for direction, own, other in flow.sides
        )


def policies(subject: Subject) -> Iterator[Mistake]:
    """Every flow passes in both directions, and every rule is for flows."""
    flows, passes = list(_flows(subject)), []
    found = of_kind(subject.documents, "NetworkPolicy")
    for policy in found:
        for direction, key in _PEERS.items():
            for rule in spec(policy).get(direction, []):
                peers, listed = rule.get(key, []), rule.get("ports", [])
                passes += [Pass(policy, direction, peer, port) for peer in peers for port in listed]
                if not listed:
                    yield f"{name(policy)} {direction}", "is for all ports"
                if not peers or not all(each and all(each.values()) for each in peers):
                    yield f"{name(policy)} {direction}", "is for everybody"
    for flow in flows:
        takers = [each for each in passes if each.takes(flow) and _covers(each.ports, flow.ports)]
        for direction, own, _ in flow.sides:
            closed = any(_selects(policy, direction, own) for policy in found)
            if closed and direction not in [each.direction for each in takers]:
                problem = f"none lets through {flow}"
                yield f"NetworkPolicy {direction}", problem, _IN_VAIN
    for each in passes:
        where = f"{name(each.policy)} {each.direction}"
        taken: set[int] = set().union(*{flow.ports for flow in flows if each.takes(flow)})
        if not each.ports or not set(each.ports) <= taken:
            problem = f"{each.peer} is nobody who says anything by {each.port}, or not by all of it"
            yield where, problem


def ports(subject: Subject) -> Iterator[Mistake]:
    """Ray's ports are set, and every job has a port_range that shares none of them."""
    taken: set[int] = set()
    for group in (group for cluster in subject.clusters for group in cluster.groups):
        listens = _listens(group)
        taken |= set().union(*listens.values())
        for what in sorted(_SPANS.keys() - listens.keys()):
            yield group.where, f"{what} is not set to a port", "no policy can name what Ray picks"
    for where, port_range in _port_ranges(subject).items():
        if not port_range:
            yield where, "has no port_range in its settings"
        elif not taken.isdisjoint(port_range):
            yield where, f"port_range {_text(port_range)} has ports of Ray's"


def monitors(subject: Subject) -> Iterator[Mistake]:
    """Every PodMonitor selects Ray pods, by the port of Ray's metrics."""
    for monitor in of_kind(subject.documents, "PodMonitor"):
        named = {each.get("port") for each in spec(monitor).get("podMetricsEndpoints", [])}
        selector = spec(monitor).get("selector")
        others = [each for each in subject.pods if not each.group and _watches(monitor, each)]
        pods = [each.group for each in subject.pods if matches(selector, each.labels)]
        if not (any(pods) or others) or not named:
            yield name(monitor), "selects no pod, or no port"
        for group in filter(None, pods):
            metrics = _listens(group).get("metrics-export-port", range(0))
            listed = group.container.get("ports", [])
            known = {each.get("name") for each in listed if each["containerPort"] in metrics}
            if not named <= known:
                problem = f"names ports {sorted(map(str, named))}, metrics are at {known or 'none'}"
                yield f"{name(monitor)} of {group.where}", problem


def _flows(subject: Subject) -> Iterator[Flow]:
    ends = [(each, _end(each)) for each in subject.pods]
    ranges = _port_ranges(subject)
    vpc = End("AWS's endpoints", cidr=(subject.eks.get("vpc") or {}).get("cidr", _VPC))
    watched = of_kind(subject.documents, "PodMonitor")
    for service in of_kind(subject.documents, "Service"):
        for pod, end in ends:
            for port in listening(service, pod):
                yield Flow(_client(service), end, name(service), range(port, port + 1))
                if of_kind(subject.documents, "Ingress"):
                    yield Flow(_INGRESS, end, "an Ingress", range(port, port + 1))
    for pod, end in ends:
        if pod.group is None and any(_watches(each, pod) for each in watched):
            for port in _numbers(pod):
                yield Flow(_PROMETHEUS, end, "metrics", range(port, port + 1))
    for pod, end in ends:
        yield from (
            Flow(end, _DNS, "names", range(53, 54), protocol) for protocol in ("UDP", "TCP")
        )
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


def listening(service: Document, pod: Pod) -> list[int]:
    """The ports of a pod's containers that a Service sends to."""
    said = spec(service)
    if namespace(service) != namespace(pod.owner) or not matches(_selector(service), pod.labels):
        return []
    wanted = {port.get("targetPort", port["port"]) for port in said.get("ports", [])}
    known = [each for container in pod.spec["containers"] for each in container.get("ports", [])]
    return [
        each["containerPort"]
        for each in known
        if each.get("name") in wanted or each["containerPort"] in wanted
    ]


def _watches(monitor: Document, pod: Pod) -> bool:
    """Whether the PodMonitor selects the pod, and names a port of it."""
    named = {each.get("port") for each in spec(monitor).get("podMetricsEndpoints", [])}
    known = [each for container in pod.spec["containers"] for each in container.get("ports", [])]
    selected = matches(spec(monitor).get("selector"), pod.labels)
    return selected and any(each.get("name") in named for each in known)


def _numbers(pod: Pod) -> list[int]:
    return [
        port["containerPort"]
        for container in pod.spec["containers"]
        for port in container.get("ports", [])
    ]


def _selector(service: Document) -> dict[str, Any]:
    return {"matchLabels": spec(service).get("selector") or {"": ""}}


def _client(service: Document) -> End:
    return End("clients", namespace(service), {"oka.dev/role": "client"})


def _end(pod: Pod) -> End:
    return End(pod.where, namespace(pod.owner), pod.labels, ours=True)


def _selects(policy: Document, direction: str, end: End) -> bool:
    said = spec(policy)
    types = said.get("policyTypes") or ["Ingress", *(["Egress"] if said.get("egress") else [])]
    here = direction.capitalize() in types and namespace(policy) == end.namespace
    return here and matches(said.get("podSelector", {}), end.labels)


def _is(peer: Any, other: End, own: End) -> bool:
    """Whether the peer of a rule of one end's policy is the other end, or some of its addresses."""
    block = (peer.get("ipBlock") or {}).get("cidr")
    if block is not None or other.cidr is not None:
        return block is not None and other.cidr is not None and _within(block, other.cidr)
    there = other.namespace == own.namespace
    if "namespaceSelector" in peer:
        space = {"kubernetes.io/metadata.name": other.namespace}
        there = matches(peer["namespaceSelector"], space)
    return there and matches(peer.get("podSelector") or {}, other.labels)


def _within(inner: str, outer: str) -> bool:
    try:
        block: Any = ip_network(inner)
        return bool(block.subnet_of(ip_network(outer)))
    except (ValueError, TypeError):  # no network, or one of another version
        return False


def _port_ranges(subject: Subject) -> dict[str, range]:
    """`port_range` of each job that has a plan; no port if it has none."""
    planned = [(job, plan) for job, plan in subject.plans if not isinstance(plan, EngineError)]
    return {name(job.document): plan.config.ports or range(0) for job, plan in planned}


def _listens(group: Group) -> dict[str, range]:
    """What Ray listens on. Those that no one has set it picks at random: they are not there."""
    given = {"port": "6379", "dashboard-port": "8265", **group.parameters}
    spans = {**_SPANS, **(_OF_HEAD if group.name == "head" else {})}
    texts = {
        what: (given.get(first, ""), given.get(last, "")) for what, (first, last) in spans.items()
    }
    return {
        what: range(int(first), int(last) + 1)
        for what, (first, last) in texts.items()
        if first.isdecimal() and last.isdecimal()
    }


def _covers(outer: range, inner: range) -> bool:
    return outer.start <= inner.start and inner.stop <= outer.stop


def _text(found: range) -> str:
    return str(found[0]) if len(found) == 1 else f"{found[0]}-{found[-1]}"


_PEERS = {"ingress": "from", "egress": "to"}
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
_SPANS = {
    **{option: (option, option) for option in _SINGLE},
    "Ray workers": ("min-worker-port", "max-worker-port"),
}
_OF_HEAD = {"GCS": ("port", "port"), "dashboard": ("dashboard-port", "dashboard-port")}
