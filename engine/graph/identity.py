"""The identity of an operator in every run of a program: its name if it has one, else its path.

Invariant: it does not depend on the order in which branches were declared. Only operators of one
kind between the same operators, whose paths are equal, are numbered in that order.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from engine.graph.declaration import Declaration, Input
from engine.partitioner import label


def identities(declarations: Sequence[Declaration]) -> list[str]:
    """The identity of each operator, in their topological order.

    A path leads from the sources, or from the last operators with a given name. So operators behind
    do not change an identity, unless paths are equal: then what is behind tells them apart.
    """
    before: dict[object, str] = {}
    readers: dict[object, list[tuple[Input, Declaration]]] = defaultdict(list)
    for each in declarations:
        paths = (f"{before[edge.source.identity]} {_way(edge)}" for edge in each.inputs)
        before[each.identity] = each.name if each.named else f"{each.name}-{_digest(paths)}"
        for edge in each.inputs:
            readers[edge.source.identity].append((edge, each))
    behind: dict[object, str] = {}
    for each in reversed(declarations):
        ways = (f"{_way(edge)} {behind[it.identity]}" for edge, it in readers[each.identity])
        behind[each.identity] = f"{each.name}-{_digest(ways)}"
    alike = Counter(before.values())
    found: Counter[str] = Counter()
    told = []
    for each in declarations:
        identity = before[each.identity]
        if not each.named and alike[identity] > 1:
            identity += f"-{_digest([behind[each.identity]])}"
        found[identity] += 1
        told.append(
            identity if found[identity] == 1 or each.named else f"{identity}-{found[identity]}"
        )
    return told


def _way(edge: Input) -> str:
    second = "second " if edge.input else ""
    return f"{second}{label(edge.partitioner)} {edge.output or ''}"


def _digest(parts: Iterable[str]) -> str:
    return blake2b("\n".join(sorted(parts)).encode(), digest_size=6).hexdigest()
