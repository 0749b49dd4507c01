"""The cases of the published experiment: the number of Load tasks on each host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.testbed.rate import show_rate


@dataclass(frozen=True)
class Layout:
    """Load tasks per host, the Download task's host first.

    `pods`: the hosts are pods of one machine, with no limit between them.
    """

    loaders: tuple[int, ...]
    about: str
    pods: bool = False

    @property
    def nodes(self) -> tuple[int, ...]:
        """The number of the host of each Load task."""
        return tuple(host for host, count in enumerate(self.loaders) for _ in range(count))

    @property
    def remote_hosts(self) -> int:
        """The number of hosts with a Load task, without the Download task's."""
        return sum(1 for count in self.loaders[1:] if count)


LAYOUTS = {
    "1": Layout((0, 1), "one other node"),
    "2-1": Layout((0, 1), "same machine, other pod", pods=True),
    "2-2": Layout((0, 2), "same machine, other pod, 2 tasks", pods=True),
    "3-1": Layout((1,), "same pod"),
    "3-2": Layout((2,), "same pod, 2 tasks"),
    "3-4": Layout((4,), "same pod, 4 tasks"),
    "4": Layout((2, 2), "mix: 2 on the same machine, 2 on another"),
    "5-2": Layout((0, 1, 1), "2 nodes"),
    "5-3": Layout((0, 1, 1, 1), "3 nodes"),
    "5-4": Layout((0, 1, 1, 1, 1), "4 nodes"),
    "5-5": Layout((0, 1, 1, 1, 1, 1), "5 nodes"),
    "6-2": Layout((0, 2, 1), "2 nodes, 2 tasks on one"),
    "6-3": Layout((0, 3), "1 node, 3 tasks in one pod"),
}
"""By the published numbers; 5-1 is 1. The cases 6 are case 4 of the S3 experiment."""

BY_NODES = {1: "1", 2: "5-2", 3: "5-3", 4: "5-4", 5: "5-5"}
"""The case with one Load task on each of `nodes` other nodes."""

WAYS = ("channels", "plasma", "s3")


@dataclass(frozen=True)
class BroadcastCase:
    """A case and a backend. Each row of a file has another one."""

    case: str
    """A key of LAYOUTS."""
    api: str
    """One of WAYS."""
    encryption: bool
    payload_bytes: int
    """Of the model."""
    in_memory: bool
    """The model is in the Download task's memory, not in files."""
    rate_bits_per_second: int | None
    """Of each host's link, in each direction; None: no limit."""
    system: str = "oka"
    batch_size: None = None

    @property
    def layout(self) -> Layout:
        """Where its Load tasks are."""
        return LAYOUTS[self.case]

    @property
    def label(self) -> str:
        """The case in words."""
        return (
            f"case {self.case} ({self.layout.about}), {show_rate(self.rate_bits_per_second)}: "
            f"{way_name(self.api, self.encryption)}"
        )


def way_name(api: str, encryption: bool) -> str:
    """The name of a backend in figures and tables: `channels, encrypted`."""
    return f"{api}, encrypted" if encryption else api


def cases(
    names: Sequence[str],
    ways: Sequence[str],
    encryption: bool | None,
    size: int,
    in_memory: bool,
    rate: int | None,
) -> list[list[BroadcastCase]]:
    """The backends of each case, which alternate; `encryption` None: channels both ways."""
    secured = (False, True) if encryption is None else (encryption,)
    return [
        [
            BroadcastCase(name, way, both, size, in_memory, None if LAYOUTS[name].pods else rate)
            for way in ways
            for both in (secured if way == "channels" else (False,))
        ]
        for name in names
    ]
